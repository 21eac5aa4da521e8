/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/prune_read.h"

#define SECTOR 4096u

static const uint8_t *
count(struct pri_prune_reader *r, uint64_t bytes, int rc, const uint8_t *at)
{
	r->figures->reads++;
	r->figures->bytes += bytes;
	r->expired = rc == SFS_EXPIRED || rc == SFS_DELETED;
	return rc == SFS_OK ? at : NULL;
}

const uint8_t *
pri_prune_read_part(
	struct pri_prune_reader *r, size_t offset, size_t len, struct pri_read_buffer *room)
{
	size_t from = (size_t)r->handle.offset + r->handle.header + offset;
	uint64_t sectors = (from + len - 1) / SECTOR - from / SECTOR + 1;
	const uint8_t *at = NULL;
	int rc = pri_volume_read_part(r->view, &r->handle, offset, len, room, &at, NULL);

	return count(r, sectors * SECTOR, rc, at);
}

const uint8_t *
pri_prune_read_whole(struct pri_prune_reader *r, struct pri_read_buffer *room)
{
	const uint8_t *body = NULL;
	int rc = pri_volume_read_record(r->view, &r->handle, room, &body, NULL);

	return count(r, r->handle.length, rc, body);
}
