/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/bytes.h"
#include "logger/streamfs/format.h"

#define BLOCK_MAGIC 0x42534653u /* "SFSB" */
#define RECORD_MAGIC 0x52534653u /* "SFSR" */

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
	sfs_put64(&p, (uint64_t)h->evicted_until);
	sfs_put64(&p, h->oldest_generation);
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
	out->evicted_until = (int64_t)sfs_get64(&p);
	out->oldest_generation = sfs_get64(&p);
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

static void
put_fields(const struct sfs_record_header *h, uint8_t *record)
{
	uint8_t *p = record + 24;
	sfs_put32(&p, h->stream);
	sfs_put32(&p, h->permission);
	sfs_put64(&p, h->block);
	sfs_put64(&p, h->generation);
	sfs_put64(&p, h->sequence);
	sfs_put64(&p, (uint64_t)h->min_time);
	sfs_put64(&p, (uint64_t)h->max_time);
	sfs_put32(&p, h->length);
	sfs_put32(&p, h->offset);
	memset(p, 0, 16);
}

static void
put_hash(const struct sfs_key *key, const struct sfs_record_header *h, uint8_t *record)
{
	uint8_t *p = record;
	memcpy(record + 8, h->hash, 16);
	sfs_put32(&p, RECORD_MAGIC);
	sfs_put32(&p, sfs_hash_check(key, record + 8, SFS_RECORD_HEADER - 8));
}

void
sfs_record_encode(const struct sfs_key *key, struct sfs_record_header *h, uint8_t *record)
{
	put_fields(h, record);
	sfs_hash(key, record + 24, SFS_RECORD_HEADER - 24 + h->length, h->hash);
	put_hash(key, h, record);
}

/* From here on it pays to go past the caches: a block is next read by its device. */
#define LONG 16384

void
sfs_record_put(const struct sfs_key *key, struct sfs_record_header *h, const void *body,
	uint8_t *record)
{
	if (h->length < LONG) {
		if (h->length > 0)
			memcpy(record + SFS_RECORD_HEADER, body, h->length);
		sfs_record_encode(key, h, record);
		return;
	}
	put_fields(h, record);
	sfs_copy_past(record + SFS_RECORD_HEADER, body, h->length);
	/* of the body where it came from: that is in the caches */
	sfs_hash_joined(key, record + 24, SFS_RECORD_HEADER - 24, body, h->length, h->hash);
	put_hash(key, h, record);
}

static void
record_fields(const uint8_t *p, struct sfs_record_header *out)
{
	sfs_get_bytes(&p, out->hash, 16);
	out->stream = sfs_get32(&p);
	out->permission = sfs_get32(&p);
	out->block = sfs_get64(&p);
	out->generation = sfs_get64(&p);
	out->sequence = sfs_get64(&p);
	out->min_time = (int64_t)sfs_get64(&p);
	out->max_time = (int64_t)sfs_get64(&p);
	out->length = sfs_get32(&p);
	out->offset = sfs_get32(&p);
}

bool
sfs_record_peek(const struct sfs_key *key, const uint8_t record[SFS_RECORD_HEADER],
	struct sfs_record_header *out)
{
	const uint8_t *p = record;
	if (sfs_get32(&p) != RECORD_MAGIC ||
		sfs_get32(&p) != sfs_hash_check(key, record + 8, SFS_RECORD_HEADER - 8))
		return false;
	record_fields(record + 8, out);
	return true;
}

enum sfs_record_state
sfs_record_decode(const struct sfs_key *key, const uint8_t *record, size_t room,
	struct sfs_record_header *out)
{
	uint8_t hash[16];
	if (room < SFS_RECORD_HEADER || !sfs_record_peek(key, record, out))
		return SFS_RECORD_NONE;
	if (out->length > room - SFS_RECORD_HEADER)
		return SFS_RECORD_BAD;
	sfs_hash(key, record + 24, SFS_RECORD_HEADER - 24 + out->length, hash);
	return memcmp(hash, out->hash, 16) == 0 ? SFS_RECORD_GOOD : SFS_RECORD_BAD;
}
