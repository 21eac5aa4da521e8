/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_LOOKUPS_MADE_H
#define PR_CLI_LOOKUPS_MADE_H

#include "indexer/filter/bpf.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * What mergers are told of a filter, so that they can leave out nodes: the plan of each program, as look-ups
 * of the hashes that summaries have. Planned here, where filters are compiled, so that mergers need to
 * know neither filters nor keys.
 */
struct lookups {
	Packrack__Lookups *room, **list;
	size_t count;
};

/* One for each program, in their order. -1: no memory. lookups_free in any case. */
int lookups_make(
	struct lookups *out, const struct pri_bpf_set *programs, struct pr_error *err);
void lookups_free(struct lookups *lookups);

#endif
