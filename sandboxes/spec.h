/*
 * spec.h - what was asked for at a sandbox's create: checked, kept, and written to the ledger as one JSON object.
 *
 * The text is made and read here alone, so the reader takes exactly what the writer gives: one flat object of strings
 * and whole numbers, and `labels`, an object of strings. Keys it does not know are skipped (a newer version's).
 */
#ifndef SANDBOXES_SPEC_H
#define SANDBOXES_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "wire/codes.h"
#include "wire/wire.h"

#define SPEC_MAX_LABELS        64
#define SPEC_MAX_LABEL_BYTES   256 /* of a value */
#define SPEC_CONSOLE_LIMIT     8   /* live consoles of a sandbox, when nothing is asked for */
#define SPEC_MAX_CONSOLE_LIMIT 256
#define SPEC_RING_BYTES        ((uint64_t)1024 * 1024)

struct label {
	char *key, *value;
};

struct spec {
	char *name; /* "" for none */
	char *provider;
	char *directory; /* "" for one of its own */
	struct label *labels;
	size_t nlabels;
	uint32_t console_limit;
	uint64_t ring_bytes;
	uint64_t memory_bytes, cpu_millis;
	uint32_t pids;
};

/* Checks a request and fills the defaults in. RESULT_INVALID_ARGUMENT with why, or RESULT_INTERNAL (memory); *out is
 * then empty. */
enum result spec_from_request(
        const Wire__CreateSandbox *q, const char *default_provider, struct spec *out, char *why, size_t why_size);

char *spec_to_json(const struct spec *s);               /* the caller's; NULL: memory */
int spec_from_json(const char *json, struct spec *out); /* -EUCLEAN, -ENOMEM; *out is then empty */

void spec_release(struct spec *s); /* leaves it empty */

#endif
