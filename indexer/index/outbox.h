/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_OUTBOX_H
#define PRI_INDEXER_OUTBOX_H

#include "indexer/index/builder.h"

/*
 * Records of the index that are finished and that their sink has not taken yet: one of each level. Memory is kept from
 * record to record. Zeroed is empty.
 */
#define PRI_OUTBOX_LEVELS 3

struct pri_outbox {
	struct {
		struct pri_index_record record; /* len 0: none */
		uint8_t *buf;
		size_t room;
	} level[PRI_OUTBOX_LEVELS];
};

void pri_outbox_free(struct pri_outbox *box);
/* Makes room for a body. false: no memory. */
bool pri_outbox_room(struct pri_outbox *box, int level, size_t len);
/* Where it goes. */
static inline uint8_t *
pri_outbox_body(struct pri_outbox *box, int level)
{
	return box->level[level - 1].buf;
}
/* The record of what is there as its level's body; none of that level waits. */
void pri_outbox_put(struct pri_outbox *box, const struct pri_index_record *record);
bool pri_outbox_waits(const struct pri_outbox *box, int level);
/* Level by level; counts those that the sink never takes. true: nothing waits any more. */
bool pri_outbox_offer(
	struct pri_outbox *box, pri_index_sink sink, void *arg, uint64_t *dropped);

#endif
