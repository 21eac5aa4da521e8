/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/plan.h"
#include "indexer/flows/flow_columns.h"
#include "indexer/query/volume.h"
#include "merger/cli/query/query_args.h"

struct pri_flow_filter;
struct flow_losses;

/*
 * Flow records kept in a volume of their own, in batches of columns (indexer/flows/flow_columns.h), in the order in
 * which they ended. Records are made window by window. When all of a window are durable, an entry of stream
 * "flow.windows" says so, with what was seen and what was missing. Batches with a tag that no entry has are of a window
 * that was not finished: nobody is given them, and they are made again. Flows that are still open at the end of a window
 * go to stream "flow.open" before its entry, so that a keeper that was killed goes on with the next window as if nothing
 * had been; readers take these as they are then.
 */

/* One entry. Times as [since, until). */
struct flow_window {
	uint64_t number; /* of all in the volume, from 1 */
	int64_t since, until;
	uint64_t packets, not_ip, missing, records;
	int64_t reach; /* ns: what is active at a time is stored until so much later (collected: or before) */
	uint64_t open; /* flows in "flow.open"; 0 also if the range ended them */
	uint64_t tag; /* of its batches and of its records of flow.open */
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
/*
 * Overlaps a window of the volume? Then it, or several that follow on each other, are *other. same: only one of the same
 * times, packets, share and number of records; NULL: any.
 */
bool flow_keeper_has(const struct flow_keeper *keeper, int64_t since, int64_t until,
	const struct flow_window *same, struct flow_window *other);
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
 * Makes the window durable. Sets its number, records, open and tag, and a larger reach. open: the flows that
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
 * The flows that were active between range.since and range.until, both included, as they are now, of one volume or of
 * several, one after the other: shares of the same flows, or volumes of different times. NULL: err, also if they are
 * others. Borrows all.
 */
struct flow_kept;
struct flow_kept *flow_kept_open_all(const struct pr_string_list *volumes,
	const struct query_args *range, struct pr_error *err);
void flow_kept_close(struct flow_kept **kept);
/* Says what of the records is no more, to stderr. CLI_OK, or CLI_PARTIAL. */
struct flow_kept_figures {
	uint64_t batches, read; /* of the volume; those that had rows */
	uint64_t rows, lost,
		gone; /* given; that cannot be read; overwritten since it was opened */
	uint64_t damaged; /* heads and entries */
};
int flow_kept_lacks(const struct flow_kept *kept, struct flow_kept_figures *figures);
/*
 * Those that a plan does not exclude (NULL: all). What it asks of addresses, and of numbers that are FLOW_NUMBER of a
 * column, excludes batches before they are read, and rows; what else it asks excludes nothing. spare: columns, as bits,
 * of which any value will do that the plan does not exclude. free it; NULL: no memory
 */
#define FLOW_NUMBER(column) ((uint64_t)100 + (column))
#define FLOW_EXACT_MAX 16 /* a longer plan chooses batches, but no rows */
struct flow_scan;
struct flow_scan *flow_scan_create(
	struct flow_kept *kept, const struct pri_plan *plan, uint64_t spare);
/* One a thread, which share the batches of the scan. NULL: no memory. */
struct flow_reader;
struct flow_reader *flow_reader_create(struct flow_scan *scan);
void flow_reader_destroy(struct flow_reader **reader);
/* Reads these columns (bits) of the next batch that has a row. False: there is none. */
bool flow_reader_next(struct flow_reader *reader, uint64_t columns);
/* That batch, and which of its rows count; both until the next call. */
const struct pri_batch *flow_reader_batch(
	const struct flow_reader *reader, const uint32_t **rows, size_t *count);
/* Who takes records. Its calls come from any thread, one at a time. */
struct flow_taker {
	flow_take *take;
	void *arg;
	/* bits; if not PRI_COLUMNS_ALL, a record is what pri_batch_sums makes of them */
	uint64_t columns;
	/* Leaves those of the rows that are taken, by the columns `first`. NULL: all are. */
	size_t (*choose)(
		void *arg, const struct pri_batch *batch, uint32_t *rows, size_t count);
	uint64_t first;
};
#define FLOW_THREADS_MAX 8
/* With one thread in the order in which they are stored. What is no more, flow_kept_lacks says. -1: err */
int flow_kept_read(struct flow_kept *kept, const struct pri_plan *plan,
	const struct flow_taker *taker, size_t threads, struct pr_error *err);
/*
 * Windows from this number on (count; 0: all) that lie in the range, at least in part: first the head of each, then each
 * again and its records, as they were stored: the same whenever they are read, but for what is lost. Flows that are still
 * open are in none. Of one volume. CLI_OK, CLI_PARTIAL, or CLI_FAILED and err.
 */
int flow_kept_windows(const struct pr_string_list *volume, const struct query_args *args,
	uint64_t first, uint64_t count,
	void (*begin)(void *arg, const struct flow_window *w, bool head), flow_take *take,
	void *arg, struct pr_error *err);
/* What the windows say about the range, to stderr. CLI_OK, or CLI_PARTIAL: not all of it was kept. */
int flow_kept_tell(const struct flow_kept *kept);

/* ---- what a volume has: flow_keep.c writes it, flow_kept.c reads it ---- */

enum flow_stream { FLOW_WINDOWS, FLOW_OPEN, FLOW_BATCHES, FLOW_COLUMNS, FLOW_STREAMS };
extern const char *const flow_streams[FLOW_STREAMS];

#define FLOW_WINDOW_BYTES 96
void flow_window_write(const struct flow_window *w, uint8_t out[FLOW_WINDOW_BYTES]);
struct flow_windows {
	struct flow_window *all; /* in order of number, if nobody sorts them */
	size_t count;
	uint64_t damaged; /* entries */
	int64_t evicted_until; /* of records; PR_TIME_MIN: none */
};
/* Free `all` in any case. */
int flow_windows_of(struct flow_windows *w, const char *volume, struct pr_error *err);
/* Puts the flows that are open at the end of the window into the table; last->complete: all are there, else it has none. */
int flow_kept_restore(struct sfs *sfs, struct flow_window *last,
	struct pri_flow_table *table, struct pr_error *err);

/*
 * A batch: its columns, each a record, and then its head in "flow.batches"; the flows that are open have both in
 * "flow.open". A head: "PFB" version u8; rows u32; tag of the window u64; addresses u32; rows of the window before these
 * u64; of each column, as varints, the least value and how much greater the greatest is; the handle of the addresses'
 * Bloom filter, of open flows none; and that of each column whose greatest value is greater (sfs_handle_pack, as the one
 * before it in the head). Version 1: a column's handle follows its numbers, the filter's is the last, and has no pages.
 */
#define FLOW_HEAD_MAGIC "PFB"
enum {
	FLOW_HEAD_VERSION = 2,
	FLOW_HEAD = 28, /* bytes before the columns */
	FLOW_HEAD_MAX = FLOW_HEAD + (PRI_COLUMNS + 1) * (20 + SFS_HANDLE_PACKED_MAX)
};
#define FLOW_BLOOM_SEED(tag, before) ((tag) + ((before) << 24))
/* What the maker has to know, in "flow.open": u64 tag of the window; u64 kind and size of the items: others are left out. */
#define FLOW_STATE_HEAD 16
#define FLOW_STATE_KIND(size) (1 | (uint64_t)(size) << 8)

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
