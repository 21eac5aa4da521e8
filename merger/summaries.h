/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_SUMMARIES_H
#define PRM_MERGER_SUMMARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/clusters.h"
#include "merger/duty.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/summary.h"

/*
 * What nodes told of themselves (Coverage), and the summaries that are this merger's duty. A merger
 * hears of every summary (160 bytes each), but asks only for those that its duty and its memory want,
 * the newest first; so one that is started anew, or that takes over another's duty, gets what it lacks
 * by itself, and it lets go what has become another's. What is not here only costs that the node is asked. Pure: takes the time as argument.
 */
struct prm_summaries;

#define PRM_SUMMARIES_MEMORY_DEFAULT ((uint64_t)256 * 1024 * 1024)
#define PRM_SUMMARIES_LISTED_MAX 65536 /* of one node: a week of 10 s each */
#define PRM_SUMMARIES_LATE_NS INT64_C(3500000000) /* nodes tell every second */
#define PRM_SUMMARIES_WANT_MAX 16 /* asked of a node at a time */

struct prm_holding {
	uint64_t number, check;
	struct pr_summary_span span;
	uint32_t bytes;
	uint8_t *body; /* NULL: not here */
	int64_t wanted; /* monotonic: asked for then; 0: not */
	int64_t others_since; /* monotonic: it is others' duty, and here; 0: not */
	bool gone; /* the node has it no more, or it is damaged */
	struct prm_clusters_place place; /* in its cluster's slices */
	uint32_t linktype; /* as the node said it: 1 + that of its packets, or 0 */
};

/* One node. */
struct prm_cover {
	char *name;
	Packrack__Coverage *said; /* the last one, without summaries */
	int64_t heard; /* monotonic */
	int64_t looked; /* monotonic: for what is others' duty */
	struct prm_holding *items; /* by number */
	size_t count, room, held; /* held: bodies that are here */
	uint64_t next; /* number that would follow */
	int64_t forgotten_until; /* what is older than this is not listed */
	uint64_t bytes_told, bytes_sent; /* Coverage, Summary; on the wire */
};

struct prm_summaries_figures {
	uint64_t listed, held, bytes; /* of bodies */
	uint64_t bytes_told, bytes_sent, received, refused, evicted, missed;
	uint64_t clusters,
		cluster_bytes; /* signatures of the third level, and their memory */
};

struct prm_summaries *prm_summaries_create(
	uint64_t memory, const struct prm_duty *duty, struct pr_error *err);
void prm_summaries_destroy(struct prm_summaries **s);

/* -1: no memory, or it makes no sense; then nothing is known of the node. */
int prm_summaries_coverage(struct prm_summaries *s, const char *node,
	const Packrack__Coverage *said, int64_t mono, struct pr_error *err);
void prm_summaries_body(
	struct prm_summaries *s, const char *node, const Packrack__Summary *summary);
/* What to ask the node for now. Returns how many; *boot as it must be asked for. */
size_t prm_summaries_want(struct prm_summaries *s, const char *node, int64_t mono,
	uint64_t *boot, uint64_t numbers[PRM_SUMMARIES_WANT_MAX]);
/* The node is gone for good. */
void prm_summaries_forget(struct prm_summaries *s, const char *node);

/* The name of the node told of at place at; NULL: there are no more. */
const char *prm_summaries_name(const struct prm_summaries *s, size_t at);
/* NULL: it has told nothing. Valid until the next call that changes something. */
const struct prm_cover *prm_summaries_find(const struct prm_summaries *s, const char *node);
/* The summary of this number of the node of this boot; *cover is the node. NULL: none. */
const struct prm_holding *prm_summaries_numbered(const struct prm_summaries *s,
	uint64_t boot, uint64_t number, const struct prm_cover **cover);
const struct prm_clusters *prm_summaries_clusters(const struct prm_summaries *s);
void prm_summaries_figures(
	const struct prm_summaries *s, struct prm_summaries_figures *out);

#endif
