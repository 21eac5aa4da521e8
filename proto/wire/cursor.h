/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_CURSOR_H
#define PR_WIRE_CURSOR_H

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

#define PR_DEFINE_LOAD_STORE(bits)                                                           \
	PR_MUST_USE static inline bool pr_load_be##bits(struct pr_cursor *c, uint##bits##_t *out) \
	{                                                                                    \
		uint##bits##_t v = 0;                                                        \
		if (pr_cursor_left(c) < bits / 8)                                            \
			return false;                                                        \
		for (int i = 0; i < bits / 8; i++)                                           \
			v = (uint##bits##_t)((uint64_t)v << 8 | c->at[i]);                   \
		c->at += bits / 8;                                                           \
		*out = v;                                                                    \
		return true;                                                                 \
	}                                                                                    \
	PR_MUST_USE static inline bool pr_load_le##bits(struct pr_cursor *c, uint##bits##_t *out) \
	{                                                                                    \
		uint##bits##_t v = 0;                                                        \
		if (pr_cursor_left(c) < bits / 8)                                            \
			return false;                                                        \
		for (int i = bits / 8 - 1; i >= 0; i--)                                      \
			v = (uint##bits##_t)((uint64_t)v << 8 | c->at[i]);                   \
		c->at += bits / 8;                                                           \
		*out = v;                                                                    \
		return true;                                                                 \
	}                                                                                    \
	PR_MUST_USE static inline bool pr_store_be##bits(struct pr_writer *w, uint##bits##_t v) \
	{                                                                                    \
		if ((size_t)(w->end - w->at) < bits / 8)                                     \
			return false;                                                        \
		for (int i = 0; i < bits / 8; i++)                                           \
			w->at[i] = (uint8_t)((uint64_t)v >> (bits - 8 - 8 * i));             \
		w->at += bits / 8;                                                           \
		return true;                                                                 \
	}                                                                                    \
	PR_MUST_USE static inline bool pr_store_le##bits(struct pr_writer *w, uint##bits##_t v) \
	{                                                                                    \
		if ((size_t)(w->end - w->at) < bits / 8)                                     \
			return false;                                                        \
		for (int i = 0; i < bits / 8; i++)                                           \
			w->at[i] = (uint8_t)((uint64_t)v >> (8 * i));                        \
		w->at += bits / 8;                                                           \
		return true;                                                                 \
	}

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

PR_MUST_USE static inline bool
pr_store_varint(struct pr_writer *w, uint64_t v)
{
	uint8_t buf[10];
	size_t n = 0;
	while (v >= 0x80) {
		buf[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	buf[n++] = (uint8_t)v;
	return pr_store_bytes(w, buf, n);
}

static inline uint64_t
pr_zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t
pr_unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

#endif
