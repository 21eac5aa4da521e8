/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/plan.h"
#include "proto/wire/beyond.h"

/*
 * Filters and what a cutoff kept back (proto/wire/beyond.h): of such packets only the connection is known. Any thread.
 */

/* True if the plans ask for nothing but what all packets of a connection have. */
bool pri_plans_of_connections(const struct pri_plans *plans);

enum pri_beyond_match {
	PRI_BEYOND_NO, /* no packet of the sum matches */
	PRI_BEYOND_YES, /* all do */
	PRI_BEYOND_MAY, /* some may */
};
/* sum: a packet with a sum, as it was stored. plans: of the programs, in their order; none: "may match" where they would decide. */
enum pri_beyond_match pri_beyond_match(const struct pr_bpf_set *programs,
	const struct pri_plans *plans, const struct pr_packet *sum);
