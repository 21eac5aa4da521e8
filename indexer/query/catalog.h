/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/streamfs.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"
#include "proto/wire/source.h"
#include "proto/wire/summary.h"

/*
 * What is known of a volume, in memory: its segments (the catalog), its ledger (the ledger view), and where its
 * index records lie (the index map). No I/O: volume.c reads the volume and fills them. One thread.
 */

/*
 * ---- segments ----
 *
 * 104 bytes for a segment of 256 KiB, 0.04 % of the volume. The segments of one (epoch, link) are an epoch
 * series. An epoch series is made of sorted runs: in a run the segments follow each other in the total order
 * without overlap, so that a query merges runs and reads each from front to back. One run is the rule; a
 * segment that comes late opens another.
 */
struct pri_segment_entry {
	struct sfs_handle handle;
	uint64_t sequence; /* in its stream */
	uint64_t first_seq;
	int64_t min_time, max_time, first_otime, last_otime;
	uint32_t seq_span; /* last seq - first seq */
	uint32_t count;
	uint16_t linktype;
	bool deleted; /* from the middle of its stream: not counted, and not to be read */
};

static inline uint64_t
pri_entry_last_seq(const struct pri_segment_entry *entry)
{
	return entry->first_seq + entry->seq_span;
}

/*
 * An entry keeps its number. base is the number of the first entry; it grows when the
 * oldest expire.
 */
struct pri_sorted_run {
	struct pri_segment_entry *items;
	size_t head, count, capacity;
	uint64_t base;
	int64_t most_back; /* largest first_otime - min_time: how far timestamps lie behind otime */
	int64_t max_time; /* of all that was ever added, and not deleted since */
};

/* A packet of an epoch series; seq 0: none. */
struct pri_seq_time {
	uint64_t seq;
	int64_t otime;
};

struct pri_epoch_series {
	uint64_t epoch;
	uint16_t link;
	uint16_t number; /* of the stream packets.NUMBER; its index has it, too */
	bool strays;
	uint32_t stream; /* StreamFS's id */
	struct pri_sorted_run **runs;
	size_t run_count;
	uint64_t packets;
	unsigned queries; /* that read it: it stays */
};

struct pri_catalog {
	struct pri_epoch_series **series; /* oldest first */
	size_t series_count;
	uint64_t segments, packets, bytes;
};

void pri_catalog_free(struct pri_catalog *catalog);

/* The epoch series; made if it is new. NULL: no memory. */
struct pri_epoch_series *pri_catalog_series(struct pri_catalog *catalog, uint32_t stream,
	bool strays, uint64_t epoch, uint16_t link);
int pri_catalog_add(struct pri_catalog *catalog, struct pri_epoch_series *series,
	const struct pri_segment_entry *entry, struct pr_error *err);
/* Drops the entries of a stream outside of first..last, and epoch series that have no more and are not its last. */
void pri_catalog_expire(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last);
/* Marks those of sequences first..last as deleted; they keep their places. */
void pri_catalog_delete(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last);
/* The segment of this sequence in a stream; NULL: not listed. Valid until the next add or expire. */
const struct sfs_handle *pri_catalog_handle(
	const struct pri_catalog *catalog, uint32_t stream, uint64_t sequence);
/*
 * The extents of a stream's segments of sequences from..to, one for each epoch, at most max of them;
 * returns how many. *found: segments that they cover, which may be fewer than there are.
 */
size_t pri_catalog_spans(const struct pri_catalog *catalog, uint32_t stream, uint64_t from,
	uint64_t to, struct pr_summary_span *out, size_t max, uint64_t *found);
/*
 * The first and last packet time of a stream, or (-1) over all series but strays, for people to read: where
 * timestamps step back the first may be a little late. false: there are no packets.
 */
bool pri_catalog_times(
	const struct pri_catalog *catalog, int64_t stream, int64_t *first, int64_t *last);

static inline uint64_t
pri_sorted_run_end(const struct pri_sorted_run *run)
{
	return run->base + run->count;
}

/* NULL: expired, or not there yet. Valid until the next add or expire. */
static inline const struct pri_segment_entry *
pri_sorted_run_at(const struct pri_sorted_run *run, uint64_t number)
{
	if (number < run->base || number >= pri_sorted_run_end(run))
		return NULL;
	return &run->items[run->head + (number - run->base)];
}

/* Number of the first entry whose last_otime >= otime; pri_sorted_run_end when there is none. */
uint64_t pri_sorted_run_search(const struct pri_sorted_run *run, int64_t otime);

/*
 * ---- the ledger view ----
 *
 * What answers need of the ledger: for each epoch series its name, the latest MARK, and the packets that this
 * node knows to be lost.
 */
enum { PRI_POINTS_MAX = 4096, PRI_DROPS_MAX = 1024, PRI_UNOBSERVED_LIST_MAX = 1024 };

/* Times at which a link was not observed, side by side, as messages have them. */
struct pri_unobserved_list {
	uint32_t *reason; /* enum pr_unobserved_reason */
	int64_t *since, *until;
	char **by;
	size_t count;
};

/* Packets that were dropped before they got a seq, between two MARKs. */
struct pri_drop {
	int64_t since, until; /* said_until of the MARKs before and after */
	uint64_t kernel, interface, ring;
};

struct pri_series_ledger {
	uint64_t epoch;
	uint64_t record; /* of the ledger, the last with an entry of this series */
	uint16_t link;
	bool have_mark, have_link;
	struct pr_ledger_mark mark;
	int64_t said_until; /* of the MARKs that told of packets */
	/* a kill has lost nothing up to this seq; 0: the ledger does not say */
	uint64_t durable;
	uint8_t unsure; /* enum pr_loss_reason: since the last of them it may have lost packets without a word; 0: no */
	/* when have_link; else pri_series_ledger_name looks at the mark */
	struct pr_ledger_link info;
	struct pr_ledger_port port; /* the last; zeros: unknown */
	int64_t first_said; /* of the first MARK that is known and says something */
	struct pri_unobserved_list unobserved;
	/*
	 * The seq/otime curve, as MARKs have it, in order: packets up to a point's seq are not newer than its
	 * otime. At most PRI_POINTS_MAX; of more, every second is forgotten.
	 */
	struct pri_seq_time *points;
	size_t point_count;
	int64_t point_step; /* ns of otime between two points */
	/* in order; of more than PRI_DROPS_MAX neighbours are put together */
	struct pri_drop *drops;
	size_t drop_count;
	struct pr_loss *losses; /* in the order of the ledger */
	size_t loss_count;
};

/*
 * A deletion: the sum of all its steps. While it runs, word.until is how far it may go, and
 * reached how far it is.
 */
struct pri_ledger_deletion {
	struct pr_ledger_deleted word;
	int64_t reached;
};

struct pri_ledger_view {
	struct pri_series_ledger **series; /* sorted by epoch and link */
	size_t count;
	uint64_t record; /* of the ledger: the entries that are taken come from it */
	int64_t booted; /* when the node was last started */
	bool was_there; /* before that: perhaps it was killed */
	bool writer_gone; /* the node's logger, which was alive before */
	uint64_t first_record; /* that was not overwritten when it last forgot something */
	size_t losses; /* kept, over all */
	uint64_t missing; /* packets on the loss lists */
	struct pr_class classes[PR_CLASS_MAX + 1]; /* by number; of 0: none */
	struct pri_ledger_deletion *deleted; /* in the order of the ledger */
	size_t deleted_count;
};

/* Deletions that are remembered; of more, the oldest are forgotten. */
#define PRI_LEDGER_DELETED_MAX 256
/*
 * Beyond this many losses (64 bytes each) neighbours are put together: "count of first..last", as
 * the ledger does where identical frames leave no choice.
 */
#define PRI_LEDGER_LOSSES_MAX (1024 * 1024)

/* Takes a MARK, LOSS, LINK, DELETED, PORT or BOOT; other entries do nothing. -1: no memory. */
int pri_ledger_view_take(struct pri_ledger_view *ledger,
	const struct pr_ledger_entry *entry, struct pr_error *err);
void pri_ledger_view_free(struct pri_ledger_view *ledger);
/*
 * Records of the ledger before this one, which end by `until`, are overwritten. Forgets epoch series of which neither
 * the ledger nor the catalog has anything left, and losses that are older than all packets.
 */
void pri_ledger_view_expire(struct pri_ledger_view *ledger,
	const struct pri_catalog *catalog, uint64_t first_record, int64_t until);

/*
 * The time up to which everything is stored that live dispatchers have sent here;
 * PR_TIME_MAX: no dispatcher is alive, or was heard in the last alive_ns. now: real time.
 */
int64_t pri_ledger_view_stored_until(
	const struct pri_ledger_view *ledger, int64_t now, int64_t alive_ns);

struct pri_series_ledger *pri_ledger_view_find(
	const struct pri_ledger_view *ledger, uint64_t epoch, uint16_t link); /* or NULL */
/*
 * What a node that is unsure, or whose logger has gone, may have lost, up to last_seq, and cannot tell. first_seq 0:
 * nothing.
 */
struct pr_loss pri_series_ledger_unsaved(
	const struct pri_series_ledger *series, uint64_t last_seq, bool gone);
/* The packets that may have been dropped within since..until, before they got a seq. */
struct pri_drop pri_series_ledger_drops(
	const struct pri_series_ledger *series, int64_t since, int64_t until);
/* The nearest points of the curve outside since..until; seq 0: none. */
void pri_series_ledger_points(const struct pri_series_ledger *series, int64_t since,
	int64_t until, struct pri_seq_time *below, struct pri_seq_time *above);
/*
 * The last deletion of packets of the link within since..until; NULL: none. oldest: only
 * deletions from the oldest packet on.
 */
const struct pr_ledger_deleted *pri_ledger_view_deletion(
	const struct pri_ledger_view *ledger, uint16_t link, bool oldest, int64_t since,
	int64_t until);
/* "" when none is known */
const char *pri_series_ledger_name(const struct pri_series_ledger *series);

/*
 * Puts neighbours of a list together until at most max are left; returns how many are.
 * losses[] are of one (epoch, link), in order.
 */
size_t pri_losses_coalesce(struct pr_loss *losses, size_t count, size_t max);

/*
 * ---- the index map ----
 *
 * Which segments have an index, and where it lies: 8 bytes a segment and 64 for each record
 * of the index.
 * After a crash of the logger a segment's number may be given again to another segment, for which the index of
 * the old one would be wrong: so each segment's tag (sfs_handle.proof) is known here as well, and compared.
 */
struct pri_index_ref {
	struct sfs_handle handle;
	uint64_t first_sequence, check;
	uint32_t segments;
	bool proven; /* check was compared, and is right */
};

#define PRI_INDEX_LEVELS 3

/* Of one level; sorted, without overlap. */
struct pri_index_list {
	struct pri_index_ref *items;
	size_t count;
};

struct pri_index_stream {
	uint16_t link;
	struct pri_index_list level[PRI_INDEX_LEVELS];
	uint64_t
		announced; /* what summary_announcer.c has taken in: summaries of segments before this one */
	uint64_t *proofs; /* of sequences from base on; 0: not known */
	size_t proof_count, proof_capacity;
	uint64_t base;
};

struct pri_index_map {
	struct pri_index_stream **streams;
	size_t count;
};

void pri_index_map_free(struct pri_index_map *map);
/* or NULL */
struct pri_index_stream *pri_index_map_find(const struct pri_index_map *map, uint16_t link);
int pri_index_map_take(struct pri_index_map *map, const struct pr_directory_index *entry,
	const struct sfs_handle *handle, struct pr_error *err);
/* Notes the tag of a segment that is listed. */
int pri_index_map_proof(struct pri_index_map *map, uint16_t link, uint64_t sequence,
	uint64_t proof, struct pr_error *err);
/* Forgets what is about sequences before this one. */
void pri_index_map_expire(struct pri_index_map *map, uint16_t link, uint64_t sequence);

/* The digest over the segments' tags; false: one of them is not known. */
bool pri_index_check(const struct pri_index_stream *s, uint64_t first, uint32_t segments,
	uint64_t *check);
/* The record of this level (1 to 3) that covers the sequence, or NULL. Valid until the next take. */
struct pri_index_ref *pri_index_find(
	const struct pri_index_stream *s, unsigned level, uint64_t sequence);
/* The first sequence from this one on that no usable record of the level covers. */
uint64_t pri_index_uncovered(
	const struct pri_index_stream *s, unsigned level, uint64_t sequence);
/*
 * False: the record is not about the segments that are there. True also when that cannot be known, as its first
 * segments are overwritten.
 */
bool pri_index_ref_usable(const struct pri_index_stream *s, struct pri_index_ref *ref);
/*
 * The first sequence of the records of level 1 that end at `end`, follow each other and are
 * in no record of level 2: a killed indexer had not finished them. `end` if they are fewer
 * than `least`.
 */
uint64_t pri_index_ungrouped(const struct pri_index_stream *s, uint64_t end, size_t least);
