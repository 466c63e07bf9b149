/*
 * fd.h - owning file descriptors. One field owns one descriptor, -1 when it has none.
 */
#ifndef WIRE_FD_H
#define WIRE_FD_H

#include <stddef.h>

void fd_close(int *fd);                 /* closes once, keeps errno, leaves -1; accepts -1 */
int fd_take(int *fd);                   /* hands over: returns it and leaves -1 */
int fd_set_nonblocking(int fd, int on); /* 0 or -errno */
int fd_dup_cloexec(int fd);             /* a new descriptor, or -errno */

/* Closes everything from `lowest` up except the `n` descriptors in keep (any order). Async-signal-safe, no /proc
 * needed. */
void fd_close_from(int lowest, const int *keep, size_t n);

/* Writes all of it to a blocking descriptor, over EINTR. 0 or -errno. */
int fd_write_all(int fd, const void *buf, size_t n);

/* Raises this process's limit of open files as far as the host allows, to `most` at the most. 0 or -errno. */
int fd_raise_limit(size_t most);
/* Gives it back as it was before, for a program that is about to be executed: some close or allocate for every number
 * below it, and select(2) fails past 1024. Async-signal-safe. */
void fd_restore_limit(void);

#endif
