/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_SUMMARIES_H
#define PR_MERGER_SUMMARIES_H

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
struct pr_summaries;

#define PR_SUMMARIES_MEMORY_DEFAULT ((uint64_t)256 * 1024 * 1024)
#define PR_SUMMARIES_LISTED_MAX 65536 /* of one node: a week of 10 s each */
#define PR_SUMMARIES_LATE_NS INT64_C(3500000000) /* nodes tell every second */
#define PR_SUMMARIES_WANT_MAX 16 /* asked of a node at a time */

struct pr_holding {
	uint64_t number, check;
	struct pr_summary_span span;
	uint32_t bytes;
	uint8_t *body; /* NULL: not here */
	int64_t wanted; /* monotonic: asked for then; 0: not */
	int64_t others_since; /* monotonic: it is others' duty, and here; 0: not */
	bool gone; /* the node has it no more, or it is damaged */
	struct pr_clusters_place place; /* in its cluster's slices */
	uint32_t linktype; /* as the node said it: 1 + that of its packets, or 0 */
};

/* One node. */
struct pr_cover {
	char *name;
	Packrack__Coverage *said; /* the last one, without summaries */
	int64_t heard; /* monotonic */
	int64_t looked; /* monotonic: for what is others' duty */
	struct pr_holding *items; /* by number */
	size_t count, room, held; /* held: bodies that are here */
	uint64_t next; /* number that would follow */
	int64_t forgotten_until; /* what is older than this is not listed */
	uint64_t bytes_told, bytes_sent; /* Coverage, Summary; on the wire */
};

struct pr_summaries_figures {
	uint64_t listed, held, bytes; /* of bodies */
	uint64_t bytes_told, bytes_sent, received, refused, evicted, missed;
	uint64_t clusters,
		cluster_bytes; /* signatures of the third level, and their memory */
};

struct pr_summaries *pr_summaries_create(
	uint64_t memory, const struct pr_duty *duty, struct pr_error *err);
void pr_summaries_destroy(struct pr_summaries **s);

/* -1: no memory, or it makes no sense; then nothing is known of the node. */
int pr_summaries_coverage(struct pr_summaries *s, const char *node,
	const Packrack__Coverage *said, int64_t mono, struct pr_error *err);
void pr_summaries_body(
	struct pr_summaries *s, const char *node, const Packrack__Summary *summary);
/* What to ask the node for now. Returns how many; *boot as it must be asked for. */
size_t pr_summaries_want(struct pr_summaries *s, const char *node, int64_t mono,
	uint64_t *boot, uint64_t numbers[PR_SUMMARIES_WANT_MAX]);
/* The node is gone for good. */
void pr_summaries_forget(struct pr_summaries *s, const char *node);

/* The name of the node told of at place at; NULL: there are no more. */
const char *pr_summaries_name(const struct pr_summaries *s, size_t at);
/* NULL: it has told nothing. Valid until the next call that changes something. */
const struct pr_cover *pr_summaries_find(const struct pr_summaries *s, const char *node);
/* The summary of this number of the node of this boot; *cover is the node. NULL: none. */
const struct pr_holding *pr_summaries_numbered(const struct pr_summaries *s, uint64_t boot,
	uint64_t number, const struct pr_cover **cover);
const struct pr_clusters *pr_summaries_clusters(const struct pr_summaries *s);
void pr_summaries_figures(const struct pr_summaries *s, struct pr_summaries_figures *out);

#endif
