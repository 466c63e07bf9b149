/*
 * uvguard.h - keeps libuv from ending a daemon because the system is short of memory for a moment.
 *
 * libuv calls abort(3) in two places that a shortage reaches, wherever a handle has been started without an error:
 *
 *   - its array of watchers cannot grow (realloc). Here it then moves to a reserve that has room for every descriptor.
 *   - epoll_ctl(EPOLL_CTL_ADD) fails with ENOSPC or ENOMEM (fs.epoll.max_user_watches counts all of a user's programs,
 *     so that one in a sandbox can use it up). Here it is tried again every UVGUARD_AGAIN_MS; until then the descriptor
 *     is silent.
 *
 * What is asked for with an answer (uv_poll_init(), uv_loop_init()) still fails, and says so. The program's own
 * epoll_ctl() is the one of this file, in a static program as in a dynamic one, since the linker finds it first.
 *
 * Source     libuv 1.44.2, src/unix/core.c (maybe_resize) and src/unix/epoll.c (uv__io_poll).
 * Threads    The loop's alone.
 */
#ifndef WIRE_UVGUARD_H
#define WIRE_UVGUARD_H

#include <uv.h>

/* Descriptors that a daemon may have, as its limit says; a program sets no higher one. */
#define UVGUARD_MAX_FD   (128 * 1024)
#define UVGUARD_AGAIN_MS 50

/* Before any other call of libuv. */
void uvguard_setup(void);
/* Once, for the one loop of the program, right after it was made. 0 or -errno. */
int uvguard_open(uv_loop_t *loop);
/* Its handles are closed: before the loop can be. */
void uvguard_close(uv_loop_t *loop);

/* Raises the limit of open files as far as the host allows and this guard reaches (fd_restore_limit() gives it back to
 * a program that is started). 0 or -errno. */
int uvguard_raise_files(void);

#endif
