/* wait.h - the waiting read with a clock from outside, so that its tests need none. */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "client/ringside.h"

int wait_new_at(uint64_t now_ms, struct ringside_console *c, const struct ringside_read_options *options,
        uint64_t timeout_ms, struct ringside_wait **out, struct ringside_error *err);
int wait_step_at(
        uint64_t now_ms, struct ringside_wait *w, bool *done, struct ringside_answer **out, struct ringside_error *err);

#endif
