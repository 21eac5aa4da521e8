/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_TALLY_H
#define PR_RPC_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Packets and bytes counted by group, in bounded memory, as nodes do it for `rate` and `top`, and
 * mergers add it up. A group is known by its key's bytes only.
 *
 * What is counted of a group is a lower bound; the upper one is that + slack - less, where the slack is
 * one for all (also for groups that are not there), and less is what is known better of this group. All
 * of these add up when tallies are put together. No slack: the counts are exact.
 *
 * Of intervals of time (`series`) there may be PR_TALLY_ITEMS_MAX, more is an error. Of other groups the
 * smaller half is given up then and goes into the slack (Misra and Gries, in its mergeable form).
 * Pure, one thread.
 */
struct pr_tally;

#define PR_TALLY_KEY_MAX 40
#define PR_TALLY_ITEMS_MAX (1u << 19)
#define PR_TALLY_PART 8192 /* groups in one message: under 1 MiB */

struct pr_tally_item {
	uint8_t len, key[PR_TALLY_KEY_MAX];
	uint64_t packets, bytes, less_packets, less_bytes;
};

struct pr_tally_sums {
	uint64_t packets, bytes; /* all that was counted, in groups or not */
	uint64_t slack_packets, slack_bytes;
	uint64_t left_out; /* groups that pr_tally_cut, or a merger, left out, */
	uint64_t most_packets, most_bytes; /* and the most that one of them can have */
};

/* items_max 0: PR_TALLY_ITEMS_MAX. NULL: no memory. */
struct pr_tally *pr_tally_create(
	bool series, bool by_packets, size_t items_max, struct pr_error *err);
void pr_tally_destroy(struct pr_tally **tally);

/* -1: no memory, or too many intervals. */
int pr_tally_add(struct pr_tally *t, const void *key, size_t len, uint64_t packets,
	uint64_t bytes, struct pr_error *err);
/* The same with `less`, of what was counted within a slack (pr_tally_sum). */
int pr_tally_add_less(
	struct pr_tally *t, const struct pr_tally_item *item, struct pr_error *err);
/* Adds to the sums. */
void pr_tally_sum(struct pr_tally *t, const struct pr_tally_sums *more);

/* Intervals by their keys; other groups the largest first. Later additions undo the order. */
void pr_tally_sort(struct pr_tally *t);
/* Sorts, and keeps the first so many. */
void pr_tally_cut(struct pr_tally *t, size_t best);

const struct pr_tally_item *pr_tally_items(const struct pr_tally *t, size_t *count);
const struct pr_tally_sums *pr_tally_total(const struct pr_tally *t);
uint64_t pr_tally_most_packets(const struct pr_tally *t, const struct pr_tally_item *item);
uint64_t pr_tally_most_bytes(const struct pr_tally *t, const struct pr_tally_item *item);

/* ---- as messages ---- */

/* Adds what another has counted. -1: no memory, or too many intervals. */
int pr_tally_take(struct pr_tally *t, const Packrack__Tally *part, struct pr_error *err);

/* Zeroed is ready; *at, too. Memory stays for the next part, until pr_tally_part_free. */
struct pr_tally_part {
	Packrack__Tally message;
	Packrack__TallyGroup *groups;
	Packrack__TallyGroup **pointers;
};
/* The next part; 1; 0: all was given; -1. The sums go with the first. Borrows from the tally. */
int pr_tally_next_part(const struct pr_tally *t, size_t *at, struct pr_tally_part *part,
	struct pr_error *err);
void pr_tally_part_free(struct pr_tally_part *part);

#endif
