/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/outbox.h"

#include <stdlib.h>

void
pri_outbox_free(struct pri_outbox *box)
{
	for (int i = 0; i < PRI_OUTBOX_LEVELS; i++)
		free(box->level[i].buf);
	*box = (struct pri_outbox){0};
}

bool
pri_outbox_room(struct pri_outbox *box, int level, size_t len)
{
	uint8_t *grown;

	if (len <= box->level[level - 1].room)
		return true;
	grown = realloc(box->level[level - 1].buf, len);
	if (!grown)
		return false;
	box->level[level - 1].buf = grown;
	box->level[level - 1].room = len;
	return true;
}

void
pri_outbox_put(struct pri_outbox *box, const struct pri_index_record *record)
{
	int at = record->level - 1;

	box->level[at].record = *record;
	box->level[at].record.body = box->level[at].buf;
}

bool
pri_outbox_waits(const struct pri_outbox *box, int level)
{
	return box->level[level - 1].record.len != 0;
}

bool
pri_outbox_offer(struct pri_outbox *box, pri_index_sink sink, void *arg, uint64_t *dropped)
{
	for (int i = 0; i < PRI_OUTBOX_LEVELS; i++) {
		struct pri_index_record *r = &box->level[i].record;
		int rc = r->len ? sink(arg, r) : 0;

		if (rc == 1)
			return false;
		*dropped += rc < 0;
		r->len = 0;
	}
	return true;
}
