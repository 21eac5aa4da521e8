/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/clusters.h"

/*
 * Decides which merger holds the summaries of which time (Hyperion, section 5.3). Time is
 * divided into intervals. Each interval belongs to the running merger with the highest
 * score for it (rendezvous hashing), so when a merger is lost only its intervals move. If
 * mergers disagree on which others run, two of them may hold an interval, or none: that
 * costs traffic or requests, and never changes an answer. No I/O; time is an argument.
 */
#define PRM_OWNERSHIP_INTERVAL_NS INT64_C(60000000000)
#define PRM_OWNERSHIP_MERGERS_MAX 64

struct prm_owner {
	const char *name; /* the name that nodes and mergers use; borrowed */
	bool alive;
};

struct prm_ownership {
	struct prm_owner mergers[PRM_OWNERSHIP_MERGERS_MAX];
	size_t count;
	size_t self; /* always alive */
};

/* The index of the merger that the time belongs to. A summary belongs to the time of its last packet. */
size_t prm_owner_of(const struct prm_ownership *ownership, int64_t time);

/*
 * The Coverage that nodes reported of their data, and the summaries that this merger holds.
 * A merger learns of every summary (160 bytes each). It fetches those that belong to it,
 * newest first, as its memory allows. So a merger that was restarted, or that took over
 * intervals of another merger, fetches what it lacks; and it frees what belongs to another
 * merger again. If a summary is not here, its node is asked.
 */

#define PRM_SUMMARIES_MEMORY_DEFAULT ((uint64_t)256 * 1024 * 1024)
/* bytes of memory of one node's */
#define PRM_SUMMARIES_COVERAGE_MAX ((size_t)8 * 1024 * 1024)
#define PRM_SUMMARIES_LISTED_MAX 65536 /* of one node: a week of 10 s each */
#define PRM_SUMMARIES_LATE_NS INT64_C(3500000000) /* nodes report every second */
#define PRM_SUMMARIES_WANT_MAX 16 /* asked of a node at a time */

struct prm_summary_entry {
	uint64_t number, check;
	struct pr_summary_span span;
	uint32_t bytes;
	uint8_t *body; /* NULL: not here */
	int64_t wanted; /* monotonic ns of the request for it; 0: not requested */
	/* monotonic ns since when a summary held here belongs to another; 0: it does not */
	int64_t not_ours_since;
	bool gone; /* the node no longer has it, or it is damaged */
	struct prm_cluster_slot slot; /* in its cluster's slices */
	uint32_t linktype; /* as the node reported it: 1 + that of its packets, or 0 */
};

struct pr_summary_span prm_summary_span(const Packrack__SummaryInfo *info);

struct prm_node_summaries {
	char *name; /* of the node */
	Packrack__Coverage *coverage; /* the last one, without its summaries */
	int64_t heard; /* monotonic ns */
	/* monotonic ns of the last check for summaries that belong to another */
	int64_t checked;
	struct prm_summary_entry *items; /* by number */
	size_t count, capacity, bodies; /* bodies: summaries held here */
	uint64_t next; /* number of the next summary */
	int64_t forgotten_until; /* summaries of this time or before are not listed */
	uint64_t bytes_coverage, bytes_bodies; /* on the wire */
};

struct prm_summaries_figures {
	uint64_t listed, bodies, bytes; /* bytes: of bodies */
	uint64_t bytes_coverage, bytes_bodies, received, refused, evicted, missed;
	uint64_t clusters, cluster_bytes; /* blocks of the third level, and their memory */
};

struct prm_summaries *prm_summaries_create(
	uint64_t memory, const struct prm_ownership *ownership, struct pr_error *err);
void prm_summaries_destroy(struct prm_summaries **s);

/* -1: no memory; then nothing is known of the node. */
int prm_summaries_coverage(struct prm_summaries *s, const char *node,
	const Packrack__Coverage *coverage, int64_t mono, struct pr_error *err);
void prm_summaries_body(
	struct prm_summaries *s, const char *node, const Packrack__Summary *summary);
/*
 * Chooses the summaries to request from the node now. Returns how many; *boot is the
 * node's.
 */
size_t prm_summaries_want(struct prm_summaries *s, const char *node, int64_t mono,
	uint64_t *boot, uint64_t numbers[PRM_SUMMARIES_WANT_MAX]);
/* The node is gone for good. */
void prm_summaries_forget(struct prm_summaries *s, const char *node);

/* NULL: the node has reported nothing. Valid until the next call that changes something. */
struct prm_node_summaries *prm_summaries_find(
	const struct prm_summaries *s, const char *node);
/*
 * Finds a summary by its node's boot and its number; *list is set to that node's. NULL:
 * none.
 */
const struct prm_summary_entry *prm_summaries_find_by_boot(const struct prm_summaries *s,
	uint64_t boot, uint64_t number, const struct prm_node_summaries **list);
const struct prm_clusters *prm_summaries_clusters(const struct prm_summaries *s);
void prm_summaries_figures(
	const struct prm_summaries *s, struct prm_summaries_figures *out);
