/*
 * codes.c - names and meanings of codes.def. Switches made from the list: the compiler refuses a number that stands
 * there twice.
 */
#include "wire/codes.h"

#include <errno.h>

const char *result_name(unsigned code)
{
	switch (code) {
#define RESULT(name, number, text, status, meaning) \
	case number:                                \
		return text;
#include "wire/codes.def"
	default:
		return "internal";
	}
}

const char *result_meaning(unsigned code)
{
	switch (code) {
#define RESULT(name, number, text, status, meaning) \
	case number:                                \
		return meaning;
#include "wire/codes.def"
	default:
		return "a code that this version does not know";
	}
}

int result_exit_status(unsigned code)
{
	switch (code) {
#define RESULT(name, number, text, status, meaning) \
	case number:                                \
		return status;
#include "wire/codes.def"
	default:
		return 1;
	}
}

const char *console_state_name(unsigned state)
{
	switch (state) {
#define CONSOLE_STATE(name, number, text, meaning) \
	case number:                               \
		return text;
#include "wire/codes.def"
	default:
		return "UNKNOWN";
	}
}

const char *sandbox_state_name(unsigned state)
{
	switch (state) {
#define SANDBOX_STATE(name, number, text, meaning) \
	case number:                               \
		return text;
#include "wire/codes.def"
	default:
		return "UNKNOWN";
	}
}

const char *mark_kind_name(unsigned kind)
{
	switch (kind) {
#define MARK_KIND(name, number, text, meaning) \
	case number:                           \
		return text;
#include "wire/codes.def"
	default:
		return "UNKNOWN";
	}
}

enum result result_from_errno(int err)
{
	switch (err < 0 ? -err : err) {
	case 0:
		return RESULT_OK;
	case ENOENT:
	case ENOTDIR:
	case ESRCH:
		return RESULT_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return RESULT_PERMISSION_DENIED;
	case ENOEXEC:
	case ETXTBSY:
	case ELIBBAD:
		return RESULT_NOT_EXECUTABLE;
	case EAGAIN: /* fork(2): RLIMIT_NPROC, pids cgroup */
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOSPC:
	case EDQUOT:
	case ETOOMANYREFS:
		return RESULT_RESOURCE_LIMIT;
	case E2BIG:
	case EFBIG:
	case EMSGSIZE:
	case EOVERFLOW:
		return RESULT_TOO_LARGE;
	case ENAMETOOLONG:
	case ELOOP:
		return RESULT_INVALID_PATH;
	case EISDIR:
		return RESULT_IS_DIRECTORY;
	case EEXIST:
	case EADDRINUSE:
		return RESULT_ALREADY_EXISTS;
	case EBUSY:
	case ENOBUFS:
		return RESULT_BUSY;
	case ETIMEDOUT:
		return RESULT_TIMEOUT;
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOTCONN:
	case ENOTSOCK:
	case EPIPE:
	case EIO:
	case ENXIO:
		return RESULT_UNAVAILABLE;
	case EPROTO:
		return RESULT_PROTOCOL_ERROR;
	case EINVAL:
		return RESULT_INVALID_ARGUMENT;
	case ERANGE:
		return RESULT_OFFSET_OUT_OF_RANGE;
	case ENOSYS:
	case EOPNOTSUPP:
		return RESULT_NOT_SUPPORTED;
	case ECANCELED:
		return RESULT_ABORTED;
	default:
		return RESULT_INTERNAL;
	}
}
