/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_HELD_H
#define PR_INDEXER_HELD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * Which seqs a node holds, gathered while a query walks over them in order: one bit a seq in
 * stretches of at most PR_HELD_SPAN seqs, none where everything is there. A hole of more than
 * PR_HELD_HOLE ends a stretch. Pure.
 */
#define PR_HELD_SPAN 65536
#define PR_HELD_HOLE 4096

struct pr_held {
	uint64_t epoch, first, last;
	int64_t first_otime, last_otime;
	uint8_t *bits; /* from malloc; NULL: all of first..last */
	size_t bits_len;
	uint16_t link;
};

struct pr_held_list {
	struct pr_held *items;
	size_t count, room;
	size_t bytes; /* of bits, over all */
};
void pr_held_list_free(struct pr_held_list *list); /* also empties it for further use */

/* The stretch of one (epoch, link) that still grows. Zeroed, with epoch and link set: none. */
struct pr_stretch {
	uint64_t epoch;
	uint16_t link;
	uint64_t first, last; /* last 0: none */
	uint64_t held;
	int64_t first_otime, last_otime;
	uint8_t bits[PR_HELD_SPAN / 8];
};

/*
 * seqs must grow; one that does not (a second copy) is passed over. A stretch that must end goes to
 * list. -1: no memory.
 */
int pr_stretch_add(struct pr_stretch *stretch, uint64_t seq, int64_t otime,
	struct pr_held_list *list, struct pr_error *err);
/* The same for all seqs from first to last, whose otimes lie between these. */
int pr_stretch_add_range(struct pr_stretch *stretch, uint64_t first, uint64_t last,
	int64_t first_otime, int64_t last_otime, struct pr_held_list *list,
	struct pr_error *err);
/* Ends the stretch, if there is one. */
int pr_stretch_end(
	struct pr_stretch *stretch, struct pr_held_list *list, struct pr_error *err);

#endif
