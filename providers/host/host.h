/*
 * host.h - sandboxes on this machine without isolation: a folder, and a console daemon that works in it.
 *
 *   STATE/sandboxes/                 0700
 *     ID/                            the sandbox; its reference is ID
 *       record                       operation key, name, directory: written before ID has its name, gone last
 *       workspace/                   where no directory was asked for
 *       console-XXXXXXXX.sock        the console daemon's; each start has a name of its own, told by the instance line
 *       consoled.log
 *       (custody/ …                  the layer above's)
 *     .new-KEY/                      a creation that has not come to its end, by its operation key
 *     .gone-ID/                      a close that has not come to its end
 *
 * The instance line (adapter_env.record_instance) is that of providers/instance.h and " socket=NAME". A socket has a
 * new name at each start so that a holder of an old lease that wakes up late can only remove sockets of its own time.
 *
 * Everything here may be done again after a crash at any step: create() with the same key takes up what it had begun,
 * lookup() by that key finds or clears what create() left, close() goes on where it was and is done where all is gone.
 * A directory that the user gave is never removed, nor anything in it.
 */
#ifndef PROVIDERS_HOST_HOST_H
#define PROVIDERS_HOST_HOST_H

#include "providers/sandbox.h"

/* env's strings and functions must outlive the adapter, the adapter its sessions. NULL: out of memory. */
struct sandbox_adapter *host_adapter_new(const struct adapter_env *env);

#endif
