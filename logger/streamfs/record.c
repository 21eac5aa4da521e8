/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_STATIC_LINKING_ONLY /* a state that is no pointer; its size is the library's own */
#include <xxhash.h>
#ifdef __x86_64__
/*
 * The widest vectors that the CPU has, chosen as the program starts: the library by itself takes
 * SSE2.
 */
#include <xxh_x86dispatch.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "logger/streamfs/internal.h"
#include "proto/base/cursor.h"

/* ---- keyed hash and handles ---- */

/* XXH3's own secret generator is not in its stable interface, so the format has its own. */
static void
expand(const uint8_t secret[32], uint8_t label, uint8_t out[192])
{
	uint8_t seed[34];
	memcpy(seed, secret, 32);
	seed[32] = label;
	for (uint8_t i = 0; i < 12; i++) {
		XXH128_canonical_t text;
		seed[33] = i;
		XXH128_canonicalFromHash(&text, XXH3_128bits(seed, sizeof(seed)));
		memcpy(out + i * 16, text.digest, 16);
	}
}

void
sfs_key_derive(struct sfs_key *key, const uint8_t secret[32])
{
	expand(secret, 'h', key->secret);
	expand(secret, 'c', key->check_secret);
}

void
sfs_hash(const struct sfs_key *key, const void *data, size_t len, uint8_t out[16])
{
	XXH128_canonical_t text;
	XXH128_canonicalFromHash(&text,
		XXH3_128bits_withSecret(data, len, key->secret, sizeof(key->secret)));
	memcpy(out, text.digest, 16);
}

static uint32_t
hash_check(const struct sfs_key *key, const void *data, size_t len)
{
	return XXH3_64bits_withSecret(
		data, len, key->check_secret, sizeof(key->check_secret));
}

/* Without a field table, for speed: called for each record that is appended. */
void
sfs_handle_encode(const struct sfs_handle *handle, uint8_t out[SFS_HANDLE_BYTES])
{
	pr_put_le64(out, handle->generation);
	pr_put_le64(out + 8, handle->block);
	pr_put_le32(out + 16, handle->offset);
	pr_put_le32(out + 20, handle->length);
	pr_put_le16(out + 24, handle->stream);
	pr_put_le16(out + 26, handle->header);
	pr_put_le32(out + 28, handle->check);
	pr_put_le64(out + 32, handle->proof);
}

void
sfs_handle_decode(const uint8_t in[SFS_HANDLE_BYTES], struct sfs_handle *out)
{
	*out = (struct sfs_handle){.generation = pr_get_le64(in),
		.block = pr_get_le64(in + 8),
		.offset = pr_get_le32(in + 16),
		.length = pr_get_le32(in + 20),
		.stream = pr_get_le16(in + 24),
		.header = pr_get_le16(in + 26),
		.check = pr_get_le32(in + 28),
		.proof = pr_get_le64(in + 32)};
}

char *
sfs_handle_text(const struct sfs_handle *handle, char out[SFS_HANDLE_TEXT])
{
	uint8_t bytes[SFS_HANDLE_BYTES];
	sfs_handle_encode(handle, bytes);
	for (int i = 0; i < SFS_HANDLE_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return out;
}

bool
sfs_handle_parse(const char *text, struct sfs_handle *out)
{
	uint8_t bytes[SFS_HANDLE_BYTES];
	size_t digits = strspn(text, "0123456789abcdefABCDEF");
	if (digits != 2 * SFS_HANDLE_BYTES || text[digits] != 0)
		return false;
	for (int i = 0; i < SFS_HANDLE_BYTES; i++)
		sscanf(text + 2 * i, "%2hhx", &bytes[i]);
	sfs_handle_decode(bytes, out);
	return true;
}

uint32_t
sfs_handle_check(const struct sfs_key *key, const struct sfs_handle *handle)
{
	uint8_t text[SFS_HANDLE_BYTES];
	struct sfs_handle bare = *handle;
	bare.check = 0;
	sfs_handle_encode(&bare, text);
	return hash_check(key, text, sizeof(text));
}

void
sfs_handle_make(const struct sfs_key *key, const struct sfs_record_header *record,
	struct sfs_handle *out)
{
	*out = (struct sfs_handle){
		.header = record->size, .proof = pr_get_le64(record->hash)};
	PR_COPY(out, record, generation, block, offset, length, stream);
	out->check = sfs_handle_check(key, out);
}

/* ---- copying past the caches ---- */

#ifdef __SSE2__
#define LINE 64

void
sfs_copy_past(void *to, const void *from, size_t len)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t head = -(uintptr_t)t % LINE;
	head = PR_MIN(head, len);
	memcpy(t, f, head);
	t += head;
	f += head;
	len -= head;
	/*
	 * These stores are not ordered by themselves. The store that marks the slot as
	 * taken by another block must come first: a reader that uses a record in place does
	 * not hash it, and must not see new bytes under the old mark.
	 */
	_mm_sfence();
	for (; len >= LINE; len -= LINE, t += LINE, f += LINE) {
		const __m128i *in = (const __m128i *)f;
		__m128i *out = (__m128i *)t;
		__m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
		__m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
	memcpy(t, f, len);
	_mm_sfence();
}
#else
void
sfs_copy_past(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

/* ---- records ---- */

#define MARK_NARROW 'R'
#define MARK_WIDE 'W'
#define LENGTH_MASK 0xffffffu
_Static_assert(SFS_BLOCK_MAX - 1 <= LENGTH_MASK, "a body's length has 24 bits");

enum { PLACE = 32, HASH_AT = 8 };
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
	return pr_get_le32(record + 4) & LENGTH_MASK;
}

static void
put_place(const struct sfs_record_location *place, uint8_t p[PLACE])
{
	pr_put_le64(p, place->block);
	pr_put_le64(p + 8, place->generation);
	pr_put_le64(p + 16, place->first_sequence);
	pr_put_le32(p + 24, place->stream);
	pr_put_le32(p + 28, place->offset);
}

static void
hash_of(const struct sfs_key *key, const struct sfs_record_location *place,
	const uint8_t *record, const uint8_t body_hash[16], uint8_t out[8])
{
	uint8_t text[PLACE + SFS_RECORD_WIDE + 16], hash[16];
	size_t fields = header_size(record) - FIELDS_AT, end = PLACE + 4 + fields;
	put_place(place, text);
	memcpy(text + PLACE, record + 4, 4);
	memcpy(text + PLACE + 4, record + FIELDS_AT, fields);
	memcpy(text + end, body_hash, 16);
	sfs_hash(key, text, end + 16, hash);
	memcpy(out, hash, 8);
}

static uint32_t
check_of(const struct sfs_key *key, const struct sfs_record_location *place,
	const uint8_t *record)
{
	uint8_t text[PLACE + SFS_RECORD_WIDE];
	size_t len = header_size(record) - 4;
	put_place(place, text);
	memcpy(text + PLACE, record + 4, len);
	return hash_check(key, text, PLACE + len);
}

static void
seal(const struct sfs_key *key, const struct sfs_record_location *place,
	const uint8_t body_hash[16], uint8_t *record)
{
	hash_of(key, place, record, body_hash, record + HASH_AT);
	pr_put_le32(record, check_of(key, place, record));
}

void
sfs_record_seal(
	const struct sfs_key *key, const struct sfs_record_location *place, uint8_t *record)
{
	uint8_t body_hash[16];
	sfs_hash(key, record + header_size(record), body_length(record), body_hash);
	seal(key, place, body_hash, record);
}

/*
 * From this length on, copies bypass the caches: next the device reads the block, not the
 * CPU.
 */
#define LONG 16384

void
sfs_record_put(const struct sfs_key *key, struct sfs_record_header *h, const void *body,
	uint8_t *record)
{
	struct sfs_record_location place = {.first_sequence = h->sequence - h->index};
	const bool wide = h->size == SFS_RECORD_WIDE;
	const uint64_t span = (uint64_t)h->max_time - (uint64_t)h->min_time;
	uint8_t body_hash[16];
	PR_COPY(&place, h, block, generation, stream, offset);
	if (body && h->length >= LONG)
		sfs_copy_past(record + h->size, body, h->length);
	else if (body && h->length > 0)
		memcpy(record + h->size, body, h->length);
	pr_put_le32(record + 4, h->length | (wide ? MARK_WIDE : MARK_NARROW) << 24);
	pr_put_le32(record + 16, h->index);
	pr_put_le32(record + 20, wide ? 0 : span);
	pr_put_le64(record + 24, h->min_time);
	if (wide) {
		pr_put_le64(record + 32, h->generation);
		pr_put_le64(record + 40, place.first_sequence);
		pr_put_le64(record + 48, h->max_time);
		pr_put_le32(record + 56, h->stream);
		pr_put_le32(record + 60, h->permission);
	}
	/* hashes the source of the body: it is still in the caches */
	sfs_hash(key, body ? body : record + h->size, h->length, body_hash);
	seal(key, &place, body_hash, record);
	memcpy(h->hash, record + HASH_AT, sizeof(h->hash));
}

bool
sfs_record_peek(const struct sfs_key *key, const struct sfs_record_location *place,
	const uint8_t *p, size_t room, struct sfs_record_header *out)
{
	if (room < SFS_RECORD_HEADER || !sfs_record_begins(p) || room < header_size(p) ||
		pr_get_le32(p) != check_of(key, place, p))
		return false;
	uint64_t min = pr_get_le64(p + 24);
	*out = (struct sfs_record_header){
		.sequence = place->first_sequence + pr_get_le32(p + 16),
		.min_time = min,
		.max_time = min + pr_get_le32(p + 20),
		.length = body_length(p),
		.index = pr_get_le32(p + 16),
		.size = header_size(p)};
	PR_COPY(out, place, block, generation, stream, offset);
	memcpy(out->hash, p + HASH_AT, sizeof(out->hash));
	if (out->size == SFS_RECORD_WIDE) {
		out->max_time = pr_get_le64(p + 48);
		out->permission = pr_get_le32(p + 60);
	}
	return true;
}

bool
sfs_record_identify(const struct sfs_key *key, uint64_t block, uint32_t offset,
	const uint8_t *record, size_t room, struct sfs_record_header *out)
{
	if (room < SFS_RECORD_WIDE || record[7] != MARK_WIDE)
		return false;
	const struct sfs_record_location place = {.block = block,
		.generation = pr_get_le64(record + 32),
		.first_sequence = pr_get_le64(record + 40),
		.stream = pr_get_le32(record + 56),
		.offset = offset};
	return place.generation != 0 && sfs_record_peek(key, &place, record, room, out);
}

enum sfs_record_state
sfs_record_decode(const struct sfs_key *key, const struct sfs_record_location *place,
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

/* ---- lists of handles ---- */

/*
 * Lists of handles in packed form. A packed handle is a byte of flags, the fields that the
 * flags name (varints of 7 bits a byte, least first; differences as zig-zag), and the
 * proof. Without flags its record follows the record of the handle before and has the same
 * length, or is the first of its block. The check is computed, not stored.
 */
enum {
	STREAM = 1, /* id */
	BLOCK = 2, /* another block: differences of generation and block */
	OFFSET = 4, /* not right behind, or not first: offset */
	LENGTH = 8, /* difference */
	HEADER = 16, /* bytes of the record's header */
	FLAGS = 31,
};

static uint32_t
expected_offset(const struct sfs_handle *before, bool same_block)
{
	return same_block ? before->offset + sfs_handle_size(before) : SFS_BLOCK_HEADER;
}

static uint64_t
step_to(uint64_t from, uint64_t to)
{
	return pr_zigzag(to - from);
}

/* A number, with the flag that says so, where it differs from the handle before. */
static bool
put_other(struct pr_writer *w, uint8_t *flags, uint8_t flag, bool other, uint64_t number)
{
	if (other)
		*flags |= flag;
	return !other || pr_store_varint(w, number);
}

size_t
sfs_handle_pack(const struct sfs_handle *handle, const struct sfs_handle *before,
	uint8_t out[SFS_HANDLE_PACKED_MAX])
{
	bool same_block =
		handle->block == before->block && handle->generation == before->generation;
	struct pr_writer w = pr_writer_make(out + 1, SFS_HANDLE_PACKED_MAX - 1);

	out[0] = same_block ? 0 : BLOCK;
	bool good =
		put_other(&w, out, STREAM, handle->stream != before->stream,
			handle->stream) &&
		(same_block || (pr_store_varint(&w,
					step_to(before->generation, handle->generation)) &&
				       pr_store_varint(&w,
					       step_to(before->block, handle->block)))) &&
		put_other(&w, out, OFFSET,
			handle->offset != expected_offset(before, same_block),
			handle->offset) &&
		put_other(&w, out, LENGTH, handle->length != before->length,
			step_to(before->length, handle->length)) &&
		put_other(&w, out, HEADER, handle->header != before->header,
			handle->header) &&
		pr_store_le64(&w, handle->proof);
	return good ? pr_writer_len(&w) + 1 : 0; /* SFS_HANDLE_PACKED_MAX is enough */
}

static bool
get_up_to(struct pr_cursor *c, uint64_t most, uint64_t *out)
{
	return pr_load_varint(c, out) && *out <= most;
}

static bool
get_step(struct pr_cursor *c, uint64_t *at)
{
	uint64_t step;
	if (!pr_load_varint(c, &step))
		return false;
	*at += pr_unzigzag(step);
	return true;
}

size_t
sfs_handle_unpack(const struct sfs *sfs, const uint8_t *in, size_t size,
	const struct sfs_handle *before, struct sfs_handle *out)
{
	struct pr_cursor c = pr_cursor_make(in, size);
	struct sfs_handle h = *before;
	uint64_t stream = before->stream, length = before->length, header = before->header;
	uint64_t offset = 0;
	uint8_t flags;

	if (!pr_load_u8(&c, &flags) || flags & ~FLAGS ||
		(flags & STREAM && !get_up_to(&c, UINT16_MAX, &stream)) ||
		(flags & BLOCK &&
			!(get_step(&c, &h.generation) && get_step(&c, &h.block))) ||
		(flags & OFFSET && !get_up_to(&c, UINT32_MAX, &offset)) ||
		(flags & LENGTH && !get_step(&c, &length)) ||
		(flags & HEADER && !get_up_to(&c, UINT16_MAX, &header)) ||
		length > UINT32_MAX || !pr_load_le64(&c, &h.proof))
		return 0;
	h.offset = flags & OFFSET ? offset : expected_offset(before, !(flags & BLOCK));
	h.stream = stream;
	h.length = length;
	h.header = header;
	h.check = sfs_handle_check(&sfs->key, &h);
	*out = h;
	return c.at - in;
}
