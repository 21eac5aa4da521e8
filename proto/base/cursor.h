/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Checked reading and writing of bytes: each call returns false, and does nothing, when the bytes
 * or the room are too short. All codecs are made of these; nobody casts packet memory.
 */
struct pr_cursor {
	const uint8_t *at, *end;
};

struct pr_writer {
	uint8_t *at, *end;
	uint8_t *start;
};

#define PR_MUST_USE __attribute__((warn_unused_result))

static inline struct pr_cursor
pr_cursor_make(const void *data, size_t len)
{
	const uint8_t *p = data;
	return (struct pr_cursor){.at = p, .end = len ? p + len : p};
}

static inline size_t
pr_cursor_left(const struct pr_cursor *c)
{
	return (size_t)(c->end - c->at);
}

PR_MUST_USE static inline bool
pr_load_u8(struct pr_cursor *c, uint8_t *out)
{
	if (pr_cursor_left(c) < 1)
		return false;
	*out = *c->at++;
	return true;
}

PR_MUST_USE static inline bool
pr_load_bytes(struct pr_cursor *c, const uint8_t **out, size_t len)
{
	if (pr_cursor_left(c) < len)
		return false;
	*out = c->at;
	c->at += len;
	return true;
}

/*
 * Unchecked loads and stores at any alignment, single moves each, for code that has checked the
 * room of a fixed-size block at once. Everything else uses the checked calls made of them.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PR_ORDER_be(bits, v) __builtin_bswap##bits(v)
#define PR_ORDER_le(bits, v) (v)
#else
#define PR_ORDER_be(bits, v) (v)
#define PR_ORDER_le(bits, v) __builtin_bswap##bits(v)
#endif

#define PR_DEFINE_ORDER(order, bits)                                                       \
	static inline uint##bits##_t pr_get_##order##bits(const uint8_t *p)                \
	{                                                                                  \
		uint##bits##_t v;                                                          \
		memcpy(&v, p, sizeof v);                                                   \
		return PR_ORDER_##order(bits, v);                                          \
	}                                                                                  \
	static inline void pr_put_##order##bits(uint8_t *p, uint##bits##_t v)              \
	{                                                                                  \
		v = PR_ORDER_##order(bits, v);                                             \
		memcpy(p, &v, sizeof v);                                                   \
	}                                                                                  \
	PR_MUST_USE static inline bool pr_load_##order##bits(                              \
		struct pr_cursor *c, uint##bits##_t *out)                                  \
	{                                                                                  \
		if (pr_cursor_left(c) < bits / 8)                                          \
			return false;                                                      \
		*out = pr_get_##order##bits(c->at);                                        \
		c->at += bits / 8;                                                         \
		return true;                                                               \
	}                                                                                  \
	PR_MUST_USE static inline bool pr_store_##order##bits(                             \
		struct pr_writer *w, uint##bits##_t v)                                     \
	{                                                                                  \
		if ((size_t)(w->end - w->at) < bits / 8)                                   \
			return false;                                                      \
		pr_put_##order##bits(w->at, v);                                            \
		w->at += bits / 8;                                                         \
		return true;                                                               \
	}

#define PR_DEFINE_LOAD_STORE(bits)                                                         \
	PR_DEFINE_ORDER(be, bits)                                                          \
	PR_DEFINE_ORDER(le, bits)

PR_DEFINE_LOAD_STORE(16)
PR_DEFINE_LOAD_STORE(32)
PR_DEFINE_LOAD_STORE(64)

static inline struct pr_writer
pr_writer_make(void *data, size_t room)
{
	uint8_t *p = data;
	return (struct pr_writer){.at = p, .end = room ? p + room : p, .start = p};
}

static inline size_t
pr_writer_len(const struct pr_writer *w)
{
	return (size_t)(w->at - w->start);
}

static inline size_t
pr_writer_room(const struct pr_writer *w)
{
	return (size_t)(w->end - w->at);
}

PR_MUST_USE static inline bool
pr_store_u8(struct pr_writer *w, uint8_t v)
{
	if (pr_writer_room(w) < 1)
		return false;
	*w->at++ = v;
	return true;
}

PR_MUST_USE static inline bool
pr_store_bytes(struct pr_writer *w, const void *data, size_t len)
{
	if (pr_writer_room(w) < len)
		return false;
	if (len)
		memcpy(w->at, data, len);
	w->at += len;
	return true;
}

/* LEB128, at most 10 bytes; longer or overflowing encodings are refused. */
PR_MUST_USE static inline bool
pr_load_varint(struct pr_cursor *c, uint64_t *out)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b;
		if (!pr_load_u8(c, &b) || (shift == 63 && b > 1))
			return false;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*out = v;
			return true;
		}
	}
	return false;
}

/* Unchecked: at most 10 bytes. Returns where they end. */
static inline uint8_t *
pr_put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

PR_MUST_USE static inline bool
pr_store_varint(struct pr_writer *w, uint64_t v)
{
	uint8_t buf[10];
	return pr_store_bytes(w, buf, (size_t)(pr_put_varint(buf, v) - buf));
}

static inline uint64_t
pr_zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t
pr_unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}
