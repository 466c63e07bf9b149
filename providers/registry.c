/*
 * registry.c - all adapters of this build: a folder below providers/ and a row here each.
 */
#include <assert.h>
#include <string.h>

#include "providers/host/host.h"
#include "providers/sandbox.h"

static const struct {
	const char *name;
	struct sandbox_adapter *(*make)(const struct adapter_env *env); /* NULL: out of memory */
} adapters[] = {
	{ "host", host_adapter_new },
};
#define ADAPTERS (sizeof(adapters) / sizeof(adapters[0]))

static const char *const names[] = { "host", NULL };
static_assert(sizeof(names) / sizeof(names[0]) == ADAPTERS + 1, "an adapter has no name in the list");

/* What an adapter declares it must have: a set-up error, which no user can cause. */
static void check_declared(const struct sandbox_adapter *a, const char *name)
{
	assert(strcmp(a->info->provider, name) == 0);
	assert(a->ops->create && a->ops->attach && a->ops->free);
	assert((a->info->lookup.create == LOOKUP_NONE) == (a->ops->lookup == NULL));
	assert((a->info->lookup.snapshot == LOOKUP_NONE) == (a->ops->lookup_snapshot == NULL));
	assert((a->info->capture_classes == 0) == (a->ops->restore == NULL));
}

struct sandbox_adapter *adapter_new(const char *provider, const struct adapter_env *env)
{
	for (size_t i = 0; i < ADAPTERS; i++) {
		if (strcmp(adapters[i].name, provider) != 0)
			continue;
		struct sandbox_adapter *a = adapters[i].make(env);

		if (a)
			check_declared(a, adapters[i].name);
		return a;
	}
	return NULL;
}

const char *const *adapter_names(void)
{
	return names;
}
