/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "logger/streamfs/format.h"

#ifdef __SSE2__
#define LINE 64

static void
copy_lines(uint8_t *to, const uint8_t *from, size_t count)
{
	for (; count > 0; count--, to += LINE, from += LINE) {
		const __m128i *f = (const __m128i *)(const void *)from;
		__m128i *t = (__m128i *)(void *)to;
		__m128i a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1);
		__m128i c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);
		_mm_stream_si128(t, a);
		_mm_stream_si128(t + 1, b);
		_mm_stream_si128(t + 2, c);
		_mm_stream_si128(t + 3, d);
	}
}

/* The same, a line a store: no line is ever sent out in parts. */
__attribute__((target("avx512f"))) static void
copy_whole_lines(uint8_t *to, const uint8_t *from, size_t count)
{
	for (; count > 0; count--, to += LINE, from += LINE)
		_mm512_stream_si512(
			(__m512i *)(void *)to, _mm512_loadu_si512((const void *)from));
}

void
sfs_copy_past(void *to, const void *from, size_t len)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t head = -(uintptr_t)t % LINE;
	head = head < len ? head : len;
	memcpy(t, f, head);
	t += head;
	f += head;
	len -= head;
	size_t lines = len / LINE;
	/*
	 * Such stores keep no order by themselves. Before them: that the slot has another block now. A reader who
	 * looks where it lies does not hash it again, and must not meet them first.
	 */
	_mm_sfence();
	if (__builtin_cpu_supports("avx512f"))
		copy_whole_lines(t, f, lines);
	else
		copy_lines(t, f, lines);
	memcpy(t + lines * LINE, f + lines * LINE, len % LINE);
	_mm_sfence();
}
#else
void
sfs_copy_past(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif
