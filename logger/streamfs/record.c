/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/bytes.h"
#include "logger/streamfs/format.h"

#define MARK_NARROW 'R'
#define MARK_WIDE 'W'
#define LENGTH_MASK 0xffffffu
_Static_assert(SFS_BLOCK_MAX - 1 <= LENGTH_MASK, "a body's length has 24 bits");

#define PLACE 32
#define HASH_AT 8
#define FIELDS_AT 16 /* behind the hash */

bool
sfs_record_begins(const uint8_t p[8])
{
	return p[7] == MARK_NARROW || p[7] == MARK_WIDE;
}

static uint32_t
header_size(const uint8_t *record)
{
	return record[7] == MARK_WIDE ? SFS_RECORD_WIDE : SFS_RECORD_HEADER;
}

static uint32_t
body_length(const uint8_t *record)
{
	const uint8_t *p = record + 4;
	return sfs_get32(&p) & LENGTH_MASK;
}

static void
put_place(const struct sfs_place *place, uint8_t **p)
{
	sfs_put64(p, place->block);
	sfs_put64(p, place->generation);
	sfs_put64(p, place->first_sequence);
	sfs_put32(p, place->stream);
	sfs_put32(p, place->offset);
}

static void
hash_of(const struct sfs_key *key, const struct sfs_place *place, const uint8_t *record,
	const uint8_t body_hash[16], uint8_t out[8])
{
	uint8_t text[PLACE + SFS_RECORD_WIDE + 16], *p = text, hash[16];
	put_place(place, &p);
	sfs_put_bytes(&p, record + 4, 4);
	sfs_put_bytes(&p, record + FIELDS_AT, header_size(record) - FIELDS_AT);
	sfs_put_bytes(&p, body_hash, 16);
	sfs_hash(key, text, (size_t)(p - text), hash);
	memcpy(out, hash, 8);
}

static uint32_t
check_of(const struct sfs_key *key, const struct sfs_place *place, const uint8_t *record)
{
	uint8_t text[PLACE + SFS_RECORD_WIDE], *p = text;
	put_place(place, &p);
	sfs_put_bytes(&p, record + 4, header_size(record) - 4);
	return sfs_hash_check(key, text, (size_t)(p - text));
}

static void
seal(const struct sfs_key *key, const struct sfs_place *place, const uint8_t body_hash[16],
	uint8_t *record)
{
	uint8_t *p = record;
	hash_of(key, place, record, body_hash, record + HASH_AT);
	sfs_put32(&p, check_of(key, place, record));
}

void
sfs_record_seal(const struct sfs_key *key, const struct sfs_place *place, uint8_t *record)
{
	uint8_t body_hash[16];
	sfs_hash(key, record + header_size(record), body_length(record), body_hash);
	seal(key, place, body_hash, record);
}

static struct sfs_place
place_of(const struct sfs_record_header *h)
{
	return (struct sfs_place){
		.block = h->block,
		.generation = h->generation,
		.first_sequence = h->sequence - h->index,
		.stream = h->stream,
		.offset = h->offset,
	};
}

static void
put_fields(const struct sfs_record_header *h, uint8_t *record)
{
	bool wide = h->size == SFS_RECORD_WIDE;
	uint8_t *p = record + 4;
	sfs_put32(&p, h->length | (uint32_t)(wide ? MARK_WIDE : MARK_NARROW) << 24);
	p = record + FIELDS_AT;
	sfs_put32(&p, h->index);
	sfs_put32(&p, wide ? 0 : (uint32_t)((uint64_t)h->max_time - (uint64_t)h->min_time));
	sfs_put64(&p, (uint64_t)h->min_time);
	if (!wide)
		return;
	sfs_put64(&p, h->generation);
	sfs_put64(&p, h->sequence - h->index);
	sfs_put64(&p, (uint64_t)h->max_time);
	sfs_put32(&p, h->stream);
	sfs_put32(&p, h->permission);
}

static void
finish(const struct sfs_key *key, struct sfs_record_header *h, const void *body,
	uint8_t *record)
{
	const struct sfs_place place = place_of(h);
	uint8_t body_hash[16];
	put_fields(h, record);
	sfs_hash(key, body, h->length, body_hash);
	seal(key, &place, body_hash, record);
	memcpy(h->hash, record + HASH_AT, sizeof(h->hash));
}

void
sfs_record_encode(const struct sfs_key *key, struct sfs_record_header *h, uint8_t *record)
{
	finish(key, h, record + h->size, record);
}

/* From here on it pays to go past the caches: a block is next read by its device. */
#define LONG 16384

void
sfs_record_put(const struct sfs_key *key, struct sfs_record_header *h, const void *body,
	uint8_t *record)
{
	if (h->length >= LONG)
		sfs_copy_past(record + h->size, body, h->length);
	else if (h->length > 0)
		memcpy(record + h->size, body, h->length);
	/* the hash of the body where it came from: that is in the caches */
	finish(key, h, body, record);
}

static void
get_fields(
	const struct sfs_place *place, const uint8_t *record, struct sfs_record_header *out)
{
	const uint8_t *p = record + HASH_AT;
	*out = (struct sfs_record_header){
		.block = place->block,
		.generation = place->generation,
		.stream = place->stream,
		.length = body_length(record),
		.offset = place->offset,
		.size = header_size(record),
	};
	sfs_get_bytes(&p, out->hash, sizeof(out->hash));
	out->index = sfs_get32(&p);
	out->sequence = place->first_sequence + out->index;
	uint64_t span = sfs_get32(&p), min = sfs_get64(&p);
	out->min_time = (int64_t)min;
	out->max_time = (int64_t)(min + span);
	if (out->size != SFS_RECORD_WIDE)
		return;
	p = record + 48;
	out->max_time = (int64_t)sfs_get64(&p);
	p += 4;
	out->permission = sfs_get32(&p);
}

bool
sfs_record_peek(const struct sfs_key *key, const struct sfs_place *place,
	const uint8_t *record, size_t room, struct sfs_record_header *out)
{
	const uint8_t *p = record;
	if (room < SFS_RECORD_HEADER || !sfs_record_begins(record) ||
		room < header_size(record) || sfs_get32(&p) != check_of(key, place, record))
		return false;
	get_fields(place, record, out);
	return true;
}

bool
sfs_record_identify(const struct sfs_key *key, uint64_t block, uint32_t offset,
	const uint8_t *record, size_t room, struct sfs_record_header *out)
{
	struct sfs_place place = {.block = block, .offset = offset};
	const uint8_t *p = record + 32;
	if (room < SFS_RECORD_WIDE || record[7] != MARK_WIDE)
		return false;
	place.generation = sfs_get64(&p);
	place.first_sequence = sfs_get64(&p);
	p += 8;
	place.stream = sfs_get32(&p);
	return place.generation != 0 && sfs_record_peek(key, &place, record, room, out);
}

enum sfs_record_state
sfs_record_decode(const struct sfs_key *key, const struct sfs_place *place,
	const uint8_t *record, size_t room, struct sfs_record_header *out)
{
	uint8_t body_hash[16], hash[8];
	if (!sfs_record_peek(key, place, record, room, out))
		return SFS_RECORD_NONE;
	if (out->length > room - out->size)
		return SFS_RECORD_BAD;
	sfs_hash(key, record + out->size, out->length, body_hash);
	hash_of(key, place, record, body_hash, hash);
	return memcmp(hash, out->hash, sizeof(hash)) == 0 ? SFS_RECORD_GOOD
							  : SFS_RECORD_BAD;
}
