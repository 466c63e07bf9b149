/* signals.c - see signals.h. */
#include "wire/signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel has it, all zero for SIG_DFL: handler, flags, restorer and mask, in whatever order; room for any. */
struct kernel_sigaction {
	unsigned long words[8];
};

void signals_default(void)
{
	static const struct kernel_sigaction by_default;

	/* SIGKILL and SIGSTOP refuse; they are right already. */
	for (int sig = 1; sig < _NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, &by_default, NULL, (size_t)_NSIG / 8);
}
