/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"
#include "merger/cli/query/query_args.h"

/*
 * Flow records kept in a volume of their own, as packets (indexer/flows/flow_frame.h) of the link "flows", in the order
 * in which they ended. Records are made window by window. When all of a window are durable, an entry of stream
 * "flow.windows" says so, with what was seen and what was missing. Flows that are still open then go to stream
 * "flow.open" before, so that a keeper that was killed goes on with the next window as if nothing had been. Records
 * of a window that was not finished are known by key and first time, and are not stored again.
 */

/* One entry. Times as [since, until). */
struct flow_window {
	uint64_t number; /* of all in the volume, from 1 */
	int64_t since, until;
	uint64_t packets, not_ip, missing, records;
	int64_t reach; /* ns: what is active at a time is stored until so much later (collected: or before) */
	uint64_t open; /* flows in "flow.open"; 0 also if the range ended them */
	bool complete; /* of the answer that it was made of; if not, missing may be too small */
	bool goes_on; /* the next window begins where it ends, with the open flows */
	bool collected; /* records of exporters: packets are theirs, missing are messages or records */
};

struct flow_keeper;
/*
 * Opens the volume for writing; it must exist, and overwrites its oldest records when it is full. NULL: err.
 * One thread, until flow_keeper_close.
 */
struct flow_keeper *flow_keeper_open(const char *volume, struct pr_error *err);
void flow_keeper_close(struct flow_keeper **keeper);
/* The last window that goes on, whose open flows are put into the table. False: there is none. -1: err */
int flow_keeper_resume(struct flow_keeper *keeper, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err);
/* Overlaps a window of the volume? Then it is in *other. */
bool flow_keeper_has(const struct flow_keeper *keeper, int64_t since, int64_t until,
	struct flow_window *other);
/* A record, which ended at `now` (not before the one before). 1: stored; 0: it was already; -1: err. */
int flow_keeper_put(struct flow_keeper *keeper, const struct pri_flow *flow,
	uint64_t missing, int64_t now, struct pr_error *err);
/*
 * What who makes the records has to know when it goes on: items of `size` bytes, which are in force once the window that
 * follows is committed. flow_state_each gives those of the last window. -1: err
 */
int flow_keeper_state(struct flow_keeper *keeper, int64_t time, const void *items,
	size_t size, size_t count, struct pr_error *err);
int flow_state_each(const char *volume, size_t size,
	int (*take)(void *arg, const void *item, struct pr_error *err), void *arg,
	struct pr_error *err);
/* Makes the window durable. Sets number, records and open. table: whose open flows are kept; NULL: none. */
int flow_keeper_commit(struct flow_keeper *keeper, struct flow_window *window,
	struct pri_flow_table *table, struct pr_error *err);

/* The windows of a volume, in order of number. */
struct flow_windows {
	struct flow_window *all;
	size_t count;
	uint64_t damaged; /* entries */
};
/* -1: err; also if the volume keeps no flows. flow_windows_free in any case. */
int flow_windows_read(struct flow_windows *w, const char *volume, struct pr_error *err);
void flow_windows_free(struct flow_windows *w);

/* -1: err, args have more than a range: nobody else is asked. */
int flow_kept_alone(const struct query_args *args, struct pr_error *err);
/*
 * Takes the records of flows that were active between args.since and args.until, both included.
 * relaxed: a filter of their frames (pri_flow_filter_relaxed). CLI_OK, CLI_PARTIAL, or CLI_FAILED and err.
 */
int flow_kept_read(const char *volume, const struct query_args *args, const char *relaxed,
	int (*take)(void *arg, const struct pri_flow *flow, uint64_t missing,
		struct pr_error *err),
	void *arg, struct pr_error *err);
/* What the windows say about the range, to stderr. CLI_OK, or CLI_PARTIAL: not all of it was kept. */
int flow_kept_report(
	const char *volume, const struct query_args *args, struct pr_error *err);

/* `packrack flows --keep`. every: ns, the length of a window with query.follow. Returns the exit status. */
struct pri_flow_filter;
struct flow_keep_order {
	const char *volume;
	const struct query_args *query;
	const struct pri_flow_limits *limits;
	const struct pri_flow_filter *filter; /* of what is kept */
	int64_t every;
};
int flow_keep_run(const struct flow_keep_order *order, struct pr_error *err);
