/*
 * context.h - the authority under which a provider is called.
 *
 * Every method of the contract takes a context and asks its fence right before each request that reaches the provider,
 * after any queueing. A refused fence is the method's answer and nothing is sent. A fence stops our own late dispatch;
 * it never proves that an earlier one did not happen.
 */
#ifndef PROVIDERS_CONTEXT_H
#define PROVIDERS_CONTEXT_H

#include <stdint.h>

#include "wire/codes.h"

enum authority { AUTHORITY_OWNER, AUTHORITY_CLEANUP };

struct sandbox_context {
	enum authority authority;
	const char *owner_id;    /* owner: who holds the lease */
	uint64_t epoch;          /* owner: the lease's epoch */
	const char *resource_id; /* cleanup: the row claimed */
	uint64_t claim;          /* cleanup: the claim's number */
	/* RESULT_OK, or RESULT_STALE_EPOCH (owner), RESULT_CLEANUP_CLAIM_LOST (cleanup); RESULT_UNAVAILABLE: nobody can
	 * say right now, so it is refused and may be tried again. May wait for the ledger; called from the thread that
	 * calls the provider. */
	enum result (*fence)(const struct sandbox_context *self);
	void *fence_data;
	/* When the call must have ended, clock_mono_ms(); 0: no deadline. Owned by the layer above the adapter. */
	uint64_t deadline_ms;
};

static inline enum result context_fence(const struct sandbox_context *c)
{
	return c->fence(c);
}

#endif
