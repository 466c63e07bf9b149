/*
 * instance.h - which process it was: pid, start time and boot, in a line that outlives the writer.
 *
 *   pid=4711 start=8812345 boot=4f1c9f2e-0d3b-4b57-9a55-6a1c1f0c8f0e
 *
 * A pid alone is given to somebody else one day. With the start time (clock ticks since boot, field 22 of
 * /proc/PID/stat) and the boot's id it names one process for ever, and a process is only signalled through a pidfd that
 * was opened before that was compared: whoever has the number by then is not hit.
 */
#ifndef PROVIDERS_INSTANCE_H
#define PROVIDERS_INSTANCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSTANCE_BOOT_BYTES 37  /* a UUID and NUL */
#define INSTANCE_LINE_BYTES 128 /* a formatted line fits */

struct instance {
	pid_t pid;
	uint64_t start_time;
	char boot_id[INSTANCE_BOOT_BYTES];
};

/* 0, or -errno where /proc has none. */
int instance_boot_id(char out[INSTANCE_BOOT_BYTES]);

/* The start time of a process. May be called between fork and exec. 0, -ESRCH, -errno. */
int instance_start_time(pid_t pid, uint64_t *out);

/* -ENOSPC: out is too small. */
int instance_format(const struct instance *i, char *out, size_t size);

/* Reads the line's beginning; what follows after a space is the writer's own. -EINVAL: not such a line. */
int instance_parse(const char *line, struct instance *out);

/* A pidfd of the living process, the caller's to close. -ESRCH: it has ended, and this is proven. Another -errno: it
 * cannot be told. */
int instance_open(const struct instance *i);

/* Waits until the process of a pidfd has ended. 0, or -ETIMEDOUT at deadline_ms (clock_mono_ms()). */
int instance_wait(int pidfd, uint64_t deadline_ms);

int instance_kill(int pidfd, int sig); /* 0 (also where it has ended already), or -errno */

/* SIGKILL, and waits. 0: it has ended; -ETIMEDOUT: the kernel holds it; -EPERM: another user's; … */
int instance_end(const struct instance *i, uint64_t deadline_ms);

#endif
