/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/bytes.h"
#include "logger/streamfs/format.h"

#define BLOCK_MAGIC 0x42534653u /* "SFSB" */

void
sfs_block_encode(const struct sfs_key *key, const struct sfs_block_header *h,
	uint8_t buf[SFS_BLOCK_HEADER])
{
	memset(buf, 0, SFS_BLOCK_HEADER);
	uint8_t *p = buf;
	sfs_put32(&p, BLOCK_MAGIC);
	sfs_put16(&p, SFS_VERSION);
	p = buf + 24;
	sfs_put32(&p, h->kind);
	sfs_put32(&p, h->stream);
	sfs_put32(&p, h->permission);
	sfs_put32(&p, SFS_BLOCK_HEADER);
	sfs_put64(&p, h->block);
	sfs_put64(&p, h->generation);
	sfs_put64(&p, h->ordinal);
	sfs_put64(&p, h->first_sequence);
	sfs_put64(&p, h->durable_sequence);
	sfs_put64(&p, h->prev_block);
	sfs_put64(&p, h->prev_generation);
	sfs_put64(&p, (uint64_t)h->prev_min);
	sfs_put64(&p, (uint64_t)h->prev_max);
	sfs_put32(&p, h->prev_records);
	sfs_put32(&p, h->prev_end);
	sfs_put_bytes(&p, h->name, sizeof(h->name));
	sfs_put32(&p, h->entries);
	sfs_put32(&p, h->late);
	sfs_put_bytes(&p, h->body_hash, 16);
	sfs_hash(key, buf + 24, SFS_BLOCK_HEADER - 24, buf + 8);
}

static void
block_fields(const uint8_t *p, struct sfs_block_header *out)
{
	out->kind = sfs_get32(&p);
	out->stream = sfs_get32(&p);
	out->permission = sfs_get32(&p);
	p += 4;
	out->block = sfs_get64(&p);
	out->generation = sfs_get64(&p);
	out->ordinal = sfs_get64(&p);
	out->first_sequence = sfs_get64(&p);
	out->durable_sequence = sfs_get64(&p);
	out->prev_block = sfs_get64(&p);
	out->prev_generation = sfs_get64(&p);
	out->prev_min = (int64_t)sfs_get64(&p);
	out->prev_max = (int64_t)sfs_get64(&p);
	out->prev_records = sfs_get32(&p);
	out->prev_end = sfs_get32(&p);
	sfs_get_bytes(&p, out->name, sizeof(out->name));
	out->name[SFS_NAME_MAX] = 0;
	out->entries = sfs_get32(&p);
	out->late = sfs_get32(&p);
	sfs_get_bytes(&p, out->body_hash, 16);
}

bool
sfs_block_decode(const struct sfs_key *key, const uint8_t buf[SFS_BLOCK_HEADER],
	uint64_t block, struct sfs_block_header *out)
{
	uint8_t hash[16];
	const uint8_t *p = buf;
	if (sfs_get32(&p) != BLOCK_MAGIC || sfs_get16(&p) != SFS_VERSION)
		return false;
	sfs_hash(key, buf + 24, SFS_BLOCK_HEADER - 24, hash);
	if (memcmp(hash, buf + 8, 16) != 0)
		return false;
	block_fields(buf + 24, out);
	return out->block == block && out->generation != 0 &&
	       (out->kind == SFS_KIND_DATA || out->kind == SFS_KIND_MAP);
}

void
sfs_map_entry_encode(const struct sfs_map_entry *e, uint8_t buf[SFS_MAP_ENTRY])
{
	uint8_t *p = buf;
	sfs_put32(&p, e->stream);
	sfs_put32(&p, e->flags);
	sfs_put64(&p, e->block);
	sfs_put64(&p, e->generation);
	sfs_put64(&p, e->first_sequence);
	sfs_put64(&p, e->ordinal);
	sfs_put32(&p, e->records);
	sfs_put32(&p, e->end);
	sfs_put64(&p, (uint64_t)e->min_time);
	sfs_put64(&p, (uint64_t)e->max_time);
}

void
sfs_map_entry_decode(const uint8_t buf[SFS_MAP_ENTRY], struct sfs_map_entry *out)
{
	const uint8_t *p = buf;
	out->stream = sfs_get32(&p);
	out->flags = sfs_get32(&p);
	out->block = sfs_get64(&p);
	out->generation = sfs_get64(&p);
	out->first_sequence = sfs_get64(&p);
	out->ordinal = sfs_get64(&p);
	out->records = sfs_get32(&p);
	out->end = sfs_get32(&p);
	out->min_time = (int64_t)sfs_get64(&p);
	out->max_time = (int64_t)sfs_get64(&p);
}
