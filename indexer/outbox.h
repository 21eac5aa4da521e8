/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_OUTBOX_H
#define PR_INDEXER_OUTBOX_H

#include "indexer/builder.h"

/*
 * Records of the index that are finished and that their sink has not taken yet: one of each level. Memory is kept from
 * record to record. Zeroed is empty.
 */
#define PR_OUTBOX_LEVELS 3

struct pr_outbox {
	struct {
		struct pr_index_record record; /* len 0: none */
		uint8_t *buf;
		size_t room;
	} level[PR_OUTBOX_LEVELS];
};

void pr_outbox_free(struct pr_outbox *box);
/* Makes room for a body. false: no memory. */
bool pr_outbox_room(struct pr_outbox *box, int level, size_t len);
/* Where it goes. */
static inline uint8_t *
pr_outbox_body(struct pr_outbox *box, int level)
{
	return box->level[level - 1].buf;
}
/* The record of what is there as its level's body; none of that level waits. */
void pr_outbox_put(struct pr_outbox *box, const struct pr_index_record *record);
bool pr_outbox_waits(const struct pr_outbox *box, int level);
/* Level by level; counts those that the sink never takes. true: nothing waits any more. */
bool pr_outbox_offer(
	struct pr_outbox *box, pr_index_sink sink, void *arg, uint64_t *dropped);

#endif
