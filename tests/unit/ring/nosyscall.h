/* nosyscall.h - a thread that may do nothing but end: any other system call kills its process, so getting through
 * proves that there was none. */
#ifndef TESTS_UNIT_RING_NOSYSCALL_H
#define TESTS_UNIT_RING_NOSYSCALL_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From here on this thread may only end_process(). 0, or -errno where the kernel has no filters. */
static inline int forbid_system_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return -errno;
	return 0;
}

/* Not _exit(): before a function that does not return the address sanitizer makes a system call of its own. */
static inline void end_process(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

#endif
