/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_RANGE_BUILDER_H
#define PRI_INDEXER_RANGE_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * Which seqs a node holds, gathered while a query walks over them in order: one bit a seq in
 * stretches of at most PRI_RANGE_SPAN seqs, none where everything is there. A hole of more than
 * PRI_RANGE_HOLE ends a stretch. Pure.
 */
#define PRI_RANGE_SPAN 65536
#define PRI_RANGE_HOLE 4096

struct pri_range {
	uint64_t epoch, first, last;
	int64_t first_otime, last_otime;
	uint8_t *bits; /* from malloc; NULL: all of first..last */
	size_t bits_len;
	uint16_t link;
};

struct pri_range_list {
	struct pri_range *items;
	size_t count, room;
	size_t bytes; /* of bits, over all */
};
void pri_range_list_free(struct pri_range_list *list); /* also empties it for further use */

/* The stretch of one (epoch, link) that still grows. Zeroed, with epoch and link set: none. */
struct pri_range_builder {
	uint64_t epoch;
	uint16_t link;
	uint64_t first, last; /* last 0: none */
	uint64_t held;
	int64_t first_otime, last_otime;
	uint8_t bits[PRI_RANGE_SPAN / 8];
};

/*
 * seqs must grow; one that does not (a second copy) is passed over. A stretch that must end goes to
 * list. -1: no memory.
 */
int pri_range_builder_add(struct pri_range_builder *stretch, uint64_t seq, int64_t otime,
	struct pri_range_list *list, struct pr_error *err);
/* The same for all seqs from first to last, whose otimes lie between these. */
int pri_range_builder_add_range(struct pri_range_builder *stretch, uint64_t first,
	uint64_t last, int64_t first_otime, int64_t last_otime, struct pri_range_list *list,
	struct pr_error *err);
/* Ends the stretch, if there is one. */
int pri_range_builder_end(struct pri_range_builder *stretch, struct pri_range_list *list,
	struct pr_error *err);

#endif
