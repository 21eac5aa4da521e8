/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/metrics.h"
#include "proto/rpc/connections.h"
#include "proto/rpc/packrack.pb-c.h"

/* What the status of each program begins with. */
Packrack__Status pr_status_of(const char *program);

/*
 * A program's figures as named values of a message. The lists are the caller's and must outlive the message;
 * what does not fit is left out. Names point into the tables.
 */
struct pr_values {
	Packrack__Value *items, **pointers;
	size_t count, capacity;
};
#define PR_VALUE_LIST(items, pointers)                                                     \
	(struct pr_values)                                                                 \
	{                                                                                  \
		items, pointers, 0, sizeof(items) / sizeof((items)[0])                     \
	}
void pr_values_add(struct pr_values *values, const char *name, uint64_t number);
void pr_values_add_table(struct pr_values *values, struct pr_counter_table table);

/*
 * Older programs had other names for some counters (packrack-operations(7)): renames them
 * in a received status.
 */
void pr_status_rename_old(Packrack__Status *status);
/* The present name of a figure; the name itself if it is that already. */
const char *pr_status_new_name(const char *name);

/* What every page begins with: packrack_build_info, and the program's connections. */
void pr_status_metrics_build(struct pr_metrics_page *page, const char *program);
/*
 * The counters that an indexer reports of a node; with merger set also those of its merger.
 */
void pr_status_metrics_node(struct pr_metrics_page *page, const char *prefix,
	const Packrack__NodeStatus *node, int merger);
