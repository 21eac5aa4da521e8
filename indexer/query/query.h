/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/bpf.h"
#include "indexer/index/summarize.h"
#include "indexer/query/tally_key.h"
#include "indexer/query/volume.h"
#include "proto/wire/relation.h"

/*
 * A query over one volume. It answers from the segments that the volume lists when the
 * query is made. Segments stored later are not included; segments that are overwritten
 * while the query runs are reported. Packets come in the total order.
 *
 * While it runs, the query collects what the answer must report: which seqs of the time
 * range this volume has (coverage, matching or not), the nearest seqs outside, and what was
 * overwritten or is corrupt.
 */

struct pri_query_spec {
	int64_t since, until; /* packet time, both included */
	struct pr_bpf_set programs; /* pri_query_create takes it over, even on failure */
	uint64_t limit; /* packets; 0: none */
	const char *link; /* name or number; "" or NULL: all. Copied */
	bool sums; /* also sums beyond a cutoff (proto/wire/beyond.h) that match as a whole: as packets of their link, not counted in matched */
	bool strays; /* also packets that were never matched (only without link) */
	bool memory_only; /* an error, where a segment would have to be read from a disk */
	bool estimate; /* reads no packets: scanned_* of the statistics are what would be read */
	struct pr_tally *tally; /* the caller's: also counts the packets in it; or NULL */
	enum pri_tally_key tally_key; /* for tally */
	int64_t step;
	bool exact; /* no bounds, only what is counted */
	/*
	 * NULL, or taken over like programs. With relations, programs also accept packets
	 * that may be related to matching ones, and direct is the filter without related
	 * packets.
	 */
	struct pr_relations *relations;
	struct pr_bpf_set direct;
};

/*
 * True if the packet matches by the filter itself, or by relation to a packet that matches; p->flags tell which.
 * As in the spec above; relations NULL: programs are the filter.
 */
bool pri_query_match(const struct pr_bpf_set *programs, const struct pr_bpf_set *direct,
	const struct pr_relations *relations, struct pr_packet *p);

/* Frees what pri_query_create would take over. For a caller that does not call it. */
void pri_query_spec_free(struct pri_query_spec *spec);

struct pri_query *pri_query_create(
	struct pri_volume *volume, struct pri_query_spec *spec, struct pr_error *err);
void pri_query_destroy(struct pri_query **query);

/*
 * PR_SOURCE_PACKET, END, ERROR (no memory), or WAIT: nothing yet; call again, the caller may do other things first:
 * a call works for a few milliseconds at most. out->data is valid until the next call.
 */
int pri_query_next(struct pri_query *query, struct pr_packet *out, struct pr_error *err);

/*
 * True if the next packets are all those of one segment, all of them match, and no packet
 * of another run comes between. The answer can then use the segment as it is, without
 * building a new one.
 */
bool pri_query_whole(struct pri_query *query);
/*
 * Takes the whole segment; its packets then count as returned. 1: taken; 0: the segment is
 * not what its header says, use pri_query_next; -1: no memory. *body points into *buffer,
 * which the caller may exchange for a buffer of its own. Both are valid until the next
 * call.
 */
int pri_query_take_whole(struct pri_query *query, const uint8_t **body, size_t *len,
	struct pri_read_buffer **buffer, struct pr_error *err);

/*
 * Moves the coverage behind the last packet to list (which must be empty). *watermark: the otime before which
 * no more coverage will come; PR_TIME_MAX at the end.
 */
int pri_query_take_coverage(struct pri_query *query, struct pri_range_list *list,
	int64_t *watermark, struct pr_error *err);
/* Bytes of what pri_query_take_coverage and pri_query_take_beyond would give. */
size_t pri_query_coverage_bytes(const struct pri_query *query);

/*
 * What a cutoff kept back of the time range, of matching connections, behind the last call: to list, which must be empty. The
 * caller frees the items. In items, message.name is not set.
 */
struct pri_beyond_item {
	Packrack__Beyond message;
	char name[PR_NAME_MAX + 1];
};
struct pri_beyond_list {
	struct pri_beyond_item *items;
	size_t count;
};
void pri_query_take_beyond(struct pri_query *query, struct pri_beyond_list *list);

/*
 * Nearest seqs outside the time range, for each (epoch, link): first == last == seq. The
 * lower ones are known after the first packet of the link, and each is given once; the
 * upper ones are known at the end.
 */
int pri_query_take_edges(
	struct pri_query *query, struct pri_range_list *list, struct pr_error *err);

/*
 * The query's search statistics: the counters of an End (packrack.proto explains them); its
 * other fields are empty. Valid until the query continues. skipped_segments: all that were
 * not read, because of their time or the index. strays: in the time range, even if they
 * were not requested.
 */
const Packrack__End *pri_query_stats(struct pri_query *query);

/*
 * Data that was stored and no longer exists, by epoch series; the ledger's entry on it is not included. What is gone
 * lies between first_seq and last_seq, with packets of other nodes. midst: it was deleted from the middle of the
 * stream; otherwise the oldest data of the stream was overwritten or deleted.
 */
struct pri_evicted_list {
	Packrack__Evicted *items; /* from malloc */
	size_t count;
};
/* Reads first what is there now if part of it disappeared while the query ran. */
int pri_query_evicted(
	struct pri_query *query, struct pri_evicted_list *out, struct pr_error *err);

/* The packets of segments that could not be read so far: `count` of first_seq..last_seq each. */
const struct pr_loss *pri_query_damaged(const struct pri_query *query, size_t *count);
/* True if the query includes this link of the ledger. */
bool pri_query_selects(
	const struct pri_query *query, const struct pri_series_ledger *series);
const struct pri_query_spec *pri_query_spec(const struct pri_query *query);
