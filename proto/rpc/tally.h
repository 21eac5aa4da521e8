/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Packets and bytes counted by group, in bounded memory: nodes do so for `rate` and `top`,
 * and mergers add up what nodes have counted. A group is known by its key's bytes only.
 *
 * This is a mergeable Misra-Gries summary. For each group: count <= true count <= count +
 * slack - less. slack is one number for the tally, and also bounds groups that are not
 * listed; less is one number for each group: how much tighter its bound is. All of these
 * add up when tallies are merged. slack 0: the counts are exact.
 *
 * Intervals of time (`series`): at most PR_TALLY_ITEMS_MAX, more is an error. Other groups:
 * at that number the smaller half is dropped and goes into the slack. No I/O; one thread.
 */

#define PR_TALLY_KEY_MAX 40
#define PR_TALLY_ITEMS_MAX (1u << 19)
#define PR_TALLY_PART 8192 /* groups in one message: under 1 MiB */

struct pr_tally_item {
	uint8_t len, key[PR_TALLY_KEY_MAX];
	uint64_t packets, bytes, less_packets, less_bytes;
};

/* items_max 0: PR_TALLY_ITEMS_MAX. NULL: no memory. */
struct pr_tally *pr_tally_create(
	bool series, bool by_packets, size_t items_max, struct pr_error *err);
void pr_tally_destroy(struct pr_tally **tally);

void pr_tally_clear(struct pr_tally *t);

/* -1: no memory, or too many intervals. */
int pr_tally_add(struct pr_tally *t, const void *key, size_t len, uint64_t packets,
	uint64_t bytes, struct pr_error *err);
/* The same with the four counts of `figures`: `less` where they come with a slack (pr_tally_sum). */
int pr_tally_add_less(struct pr_tally *t, const void *key, size_t len,
	const struct pr_tally_item *figures, struct pr_error *err);
/* Adds the sums and the slack of another tally. */
void pr_tally_sum(struct pr_tally *t, const Packrack__Tally *more);

/*
 * Sorts, and keeps the first `best` items: intervals by key, other groups the largest
 * first. Later additions break the order.
 */
void pr_tally_cut(struct pr_tally *t, size_t best);

const struct pr_tally_item *pr_tally_items(const struct pr_tally *t, size_t *count);
/* Totals of all that was counted, also of dropped groups. Does not contain the groups. */
const Packrack__Tally *pr_tally_total(const struct pr_tally *t);
uint64_t pr_tally_most_packets(const struct pr_tally *t, const struct pr_tally_item *item);
uint64_t pr_tally_most_bytes(const struct pr_tally *t, const struct pr_tally_item *item);

/* ---- as messages ---- */

/* Adds a part of another tally. -1: no memory, or too many intervals. */
int pr_tally_take(struct pr_tally *t, const Packrack__Tally *part, struct pr_error *err);

/* Zeroed is ready; *at, too. Memory stays for the next part, until pr_tally_part_free. */
struct pr_tally_part {
	Packrack__Tally message;
	Packrack__TallyGroup *groups;
	Packrack__TallyGroup **pointers;
};
/*
 * Makes the next part. 1: done; 0: no more; -1: error. The first part has the sums. Borrows
 * from the tally.
 */
int pr_tally_next_part(const struct pr_tally *t, size_t *at, struct pr_tally_part *part,
	struct pr_error *err);
void pr_tally_part_free(struct pr_tally_part *part);
