/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_QUERY_QUERY_H
#define PRI_QUERY_QUERY_H

#include "indexer/filter/bpf.h"
#include "indexer/index/summarize.h"
#include "indexer/query/tally_key.h"
#include "indexer/query/volume.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/relation.h"
#include "proto/wire/source.h"

/*
 * A query over one volume. It answers from the segments that the volume lists when the query is made; segments
 * that come later are not in it, and those that are overwritten meanwhile are reported. Packets come in the total
 * order.
 *
 * While it runs it gathers what the answer must report: which seqs of the time range are stored here (coverage,
 * whether they match or not), the nearest ones outside, what was overwritten or is corrupt.
 */
struct pri_query;

struct pri_query_spec {
	int64_t since, until; /* packet time, both included */
	struct pri_bpf_set
		programs; /* taken over by pri_query_create, also when it fails */
	uint64_t limit; /* packets; 0: none */
	const char *link; /* name or number; "" or NULL: all. Copied */
	bool strays; /* also packets that were never matched (only without link) */
	struct pr_tally
		*tally; /* the caller's: packets are counted in it as well; or NULL */
	enum pri_tally_key tally_key; /* with it */
	int64_t step;
	bool exact; /* no bounds, only what is counted */
	/*
	 * Or NULL; taken over as programs are. Then programs accept packets that could be related to others, too, and
	 * direct is the filter without related packets.
	 */
	struct pr_relations *relations;
	struct pri_bpf_set direct;
};

/* Frees what pri_query_create takes over, for a caller that does not get so far. */
void pri_query_spec_free(struct pri_query_spec *spec);

struct pri_query *pri_query_create(
	struct pri_volume *volume, struct pri_query_spec *spec, struct pr_error *err);
void pri_query_destroy(struct pri_query **query);

/*
 * PR_SOURCE_PACKET, END, ERROR (no memory), or WAIT: a segment was searched without a match; call again, the caller
 * may do other things first. out->data is valid until the next call.
 */
int pri_query_next(struct pri_query *query, struct pr_packet *out, struct pr_error *err);

/*
 * A whole segment as it lies in the volume, for an answer that needs no new one made of it. True if the next packets
 * are all those of a segment, all of them match, and none of another run comes between.
 */
bool pri_query_whole(struct pri_query *query);
/*
 * Takes it, and all its packets are given with it. 1; 0: the segment is not what its header says, use
 * pri_query_next; -1: no memory. *body points into *buffer, which the caller may exchange for one of its own; both
 * last until the next call.
 */
int pri_query_take_whole(struct pri_query *query, const uint8_t **body, size_t *len,
	struct pri_read_buffer **buffer, struct pr_error *err);

/*
 * Moves the coverage behind the last packet to list (which must be empty). *watermark: the otime before which
 * no more coverage will come; PR_TIME_MAX at the end.
 */
int pri_query_take_coverage(struct pri_query *query, struct pri_range_list *list,
	int64_t *watermark, struct pr_error *err);
/* Bytes that have gathered for that. */
size_t pri_query_coverage_bytes(const struct pri_query *query);

/*
 * Nearest seqs outside the time range, per (epoch, link): first == last == seq. Lower ones are known
 * when the first packet of the link has been passed (each is given once), upper ones at the end.
 */
int pri_query_take_edges(
	struct pri_query *query, struct pri_range_list *list, struct pr_error *err);

/*
 * The query's search statistics: the numbers of an End (packrack.proto says what they count), the rest of it is
 * empty. Valid until the query goes on. skipped_segments: all that were not read, for their time or by the
 * index. strays: in the time range, also when not asked for.
 */
const Packrack__End *pri_query_stats(struct pri_query *query);

/*
 * Data of the time range that was stored once and is gone, without what the ledger says of it. last_seq 0: not known.
 * midst: a range was deleted from its middle, of any epoch (0); else the oldest of the stream was overwritten.
 */
struct pri_evicted_list {
	Packrack__Evicted *items; /* from malloc */
	size_t count;
	bool overtaken; /* some of it went while the query ran */
};
int pri_query_evicted(
	struct pri_query *query, struct pri_evicted_list *out, struct pr_error *err);

/* Did the query ask for this link of the ledger? */
bool pri_query_selects(
	const struct pri_query *query, const struct pri_series_ledger *series);
const struct pri_query_spec *pri_query_spec(const struct pri_query *query);

#endif
