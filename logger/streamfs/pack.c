/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/bytes.h"
#include "logger/streamfs/internal.h"

/*
 * Handles one behind the other, as lists of them have. A packed one is a byte of flags, what they say
 * (varints of 7 bits a byte, least first; differences as zig-zag), and the proof. Without flags it is the
 * record behind the one before, as long as that, or the first one of its block. The check is made anew.
 */
enum {
	STREAM = 1, /* id */
	BLOCK = 2, /* another one: differences of generation and block */
	OFFSET = 4, /* not right behind, or not first: offset */
	LENGTH = 8, /* difference */
	HEADER = 16, /* bytes of the record's header */
	FLAGS = 31,
};

static void
put_number(uint8_t **p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*(*p)++ = (uint8_t)(v | 0x80);
	*(*p)++ = (uint8_t)v;
}

static bool
get_number(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t byte = *(*p)++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*out = v;
			return true;
		}
	}
	return false;
}

static void
put_step(uint8_t **p, uint64_t from, uint64_t to)
{
	uint64_t step = to - from;

	put_number(p, step << 1 ^ (step >> 63 ? UINT64_MAX : 0));
}

static bool
get_step(const uint8_t **p, const uint8_t *end, uint64_t *at)
{
	uint64_t step;

	if (!get_number(p, end, &step))
		return false;
	*at += step >> 1 ^ (step & 1 ? UINT64_MAX : 0);
	return true;
}

static uint32_t
expected_offset(const struct sfs_handle *before, bool same_block)
{
	return same_block ? (uint32_t)(before->offset +
				       sfs_record_span(before->header, before->length))
			  : SFS_BLOCK_HEADER;
}

size_t
sfs_handle_pack(const struct sfs_handle *handle, const struct sfs_handle *before,
	uint8_t out[SFS_HANDLE_PACKED_MAX])
{
	bool same_block =
		handle->block == before->block && handle->generation == before->generation;
	uint8_t *p = out + 1, flags = same_block ? 0 : BLOCK;

	if (handle->stream != before->stream) {
		flags |= STREAM;
		put_number(&p, handle->stream);
	}
	if (!same_block) {
		put_step(&p, before->generation, handle->generation);
		put_step(&p, before->block, handle->block);
	}
	if (handle->offset != expected_offset(before, same_block)) {
		flags |= OFFSET;
		put_number(&p, handle->offset);
	}
	if (handle->length != before->length) {
		flags |= LENGTH;
		put_step(&p, before->length, handle->length);
	}
	if (handle->header != before->header) {
		flags |= HEADER;
		put_number(&p, handle->header);
	}
	sfs_put64(&p, handle->proof);
	out[0] = flags;
	return (size_t)(p - out);
}

static bool
get_up_to(const uint8_t **p, const uint8_t *end, uint64_t most, uint64_t *out)
{
	return get_number(p, end, out) && *out <= most;
}

size_t
sfs_handle_unpack(const struct sfs *sfs, const uint8_t *in, size_t size,
	const struct sfs_handle *before, struct sfs_handle *out)
{
	const uint8_t *p = in + 1, *end = in + size;
	struct sfs_handle h = *before;
	uint64_t stream = before->stream, length = before->length, header = before->header;
	uint64_t offset = 0;
	uint8_t flags;

	if (size == 0 || (flags = in[0]) & ~FLAGS)
		return 0;
	if (flags & STREAM && !get_up_to(&p, end, UINT16_MAX, &stream))
		return 0;
	if (flags & BLOCK &&
		(!get_step(&p, end, &h.generation) || !get_step(&p, end, &h.block)))
		return 0;
	if (flags & OFFSET && !get_up_to(&p, end, UINT32_MAX, &offset))
		return 0;
	if (flags & LENGTH && !get_step(&p, end, &length))
		return 0;
	if (flags & HEADER && !get_up_to(&p, end, UINT16_MAX, &header))
		return 0;
	if (length > UINT32_MAX || (size_t)(end - p) < sizeof(h.proof))
		return 0;
	h.offset = flags & OFFSET ? (uint32_t)offset
				  : expected_offset(before, !(flags & BLOCK));
	h.stream = (uint16_t)stream;
	h.length = (uint32_t)length;
	h.header = (uint16_t)header;
	h.proof = sfs_get64(&p);
	h.check = sfs_handle_check(&sfs->key, &h);
	*out = h;
	return (size_t)(p - in);
}
