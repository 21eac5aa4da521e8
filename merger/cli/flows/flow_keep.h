/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"
#include "merger/cli/query/query_args.h"

struct pri_flow_filter;
struct flow_losses;

/*
 * Flow records kept in a volume of their own, as packets (indexer/flows/flow_frame.h) of the link "flows", in the order
 * in which they ended. Records are made window by window. When all of a window are durable, an entry of stream
 * "flow.windows" says so, with what was seen and what was missing. Records that no entry covers (by epoch and seq of
 * their packets) are of a window that was not finished: nobody is given them, and they are made again. Flows that are
 * still open at the end of a window go to stream "flow.open" before its entry, so that a keeper that was killed goes on
 * with the next window as if nothing had been; readers take these as they are then.
 */

/* One entry. Times as [since, until). */
struct flow_window {
	uint64_t number; /* of all in the volume, from 1 */
	int64_t since, until;
	uint64_t packets, not_ip, missing, records;
	int64_t reach; /* ns: what is active at a time is stored until so much later (collected: or before) */
	uint64_t open; /* flows in "flow.open"; 0 also if the range ended them */
	uint64_t epoch, seq; /* of the last record */
	uint64_t tag; /* of its records of flow.open */
	uint64_t file; /* a hash of the file that it is of; 0: of none */
	bool complete; /* of the answer that it was made of; if not, missing may be too small */
	bool goes_on; /* the next window begins where it ends, with the open flows */
	bool collected; /* records of exporters: packets are theirs, missing are messages or records */
	bool filtered; /* not of all flows */
	uint32_t share,
		shares; /* of flows whose address pair is in this share (pri_flow_share); 0: all */
};

struct flow_keeper;
/*
 * Opens the volume for writing; it must exist, holds nothing but flows, either collected ones or others, and overwrites
 * its oldest records when it is full. NULL: err. One thread, until flow_keeper_close.
 */
struct flow_keeper *flow_keeper_open(
	const char *volume, bool collected, struct pr_error *err);
/*
 * What is put from here on is of the file with this hash, and the next window is its. What was put before, and has no
 * window yet, is nobody's. -1: err, the volume has the file already.
 */
int flow_keeper_file(struct flow_keeper *keeper, uint64_t file, struct pr_error *err);
void flow_keeper_close(struct flow_keeper **keeper);
/*
 * The last window that goes on. 0: there is none; -1: err. 1: *last, whose open flows are in the table; last.complete is
 * false if some of them are lost: the table has none then.
 */
int flow_keeper_resume(struct flow_keeper *keeper, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err);
/* Overlaps a window of the volume? Then it, or several that follow on each other, are *other. */
bool flow_keeper_has(const struct flow_keeper *keeper, int64_t since, int64_t until,
	struct flow_window *other);
/* A record, which ended at `now` (not before the one before). */
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
/*
 * Makes the window durable. Sets its number, records, open, epoch, seq and tag, and a larger reach. open: the flows that
 * go on; NULL: none do.
 */
struct flow_keep_open {
	struct pri_flow_table *table;
	const struct pri_flow_filter *filter; /* of what is kept; NULL: all */
	const struct flow_losses *losses;
};
int flow_keeper_commit(struct flow_keeper *keeper, struct flow_window *window,
	const struct flow_keep_open *open, struct pr_error *err);

/* A record that was kept. row: its place in its window, from 1, if windows were asked for. */
typedef int flow_take(void *arg, const struct pri_flow *flow, uint64_t missing,
	uint64_t row, struct pr_error *err);
/* -1: err, args have more than a range: nobody else is asked. */
int flow_kept_alone(const struct query_args *args, struct pr_error *err);
/*
 * Takes the records of flows that were active between args.since and args.until, both included.
 * relaxed: a filter of their frames (pri_flow_filter_relaxed). CLI_OK, CLI_PARTIAL, or CLI_FAILED and err.
 */
int flow_kept_read(const char *volume, const struct query_args *args, const char *relaxed,
	flow_take *take, void *arg, struct pr_error *err);
/*
 * Windows from this number on (count; 0: all) that lie in the range, at least in part: first the head of each, then each
 * again and its records, as they were stored: the same whenever they are read, but for what is lost. Flows that are still
 * open are in none. The statuses of flow_kept_read.
 */
int flow_kept_windows(const char *volume, const struct query_args *args, uint64_t first,
	uint64_t count, void (*begin)(void *arg, const struct flow_window *w, bool head),
	flow_take *take, void *arg, struct pr_error *err);
/* What the windows say about the range, to stderr. CLI_OK, or CLI_PARTIAL: not all of it was kept. */
int flow_kept_report(
	const char *volume, const struct query_args *args, struct pr_error *err);

/* `packrack flows --keep`. every: ns, the length of a window with query.follow. Returns the exit status. */
struct flow_keep_order {
	const char *volume;
	const struct query_args *query;
	const struct pri_flow_limits *limits;
	const struct pri_flow_filter *filter; /* of what is kept */
	int64_t every;
	bool filtered; /* the filter is not that of all flows */
};
int flow_keep_run(const struct flow_keep_order *order, struct pr_error *err);
