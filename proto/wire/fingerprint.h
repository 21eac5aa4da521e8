/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The second kind of fingerprint of a data frame (the first: pr_fingerprint, frame.h): of all bytes after the MACs, as
 * sent, four lanes of 64 bits. The XDP program computes it as well as the nodes do, so it is here what a BPF program
 * can do: blocks of 32 bytes, the last one overlapping. Nothing of it depends on trailing zeros, so a frame that a switch
 * pads does not fit; the dispatcher pads to 60 bytes itself. The logs of which all entries have it say so (tslog.h).
 */
#define PR_PRINT_FROM 12 /* after the MACs */
#define PR_PRINT_BLOCK 32
#define PR_PRINT_MIN 44 /* shorter frames count as followed by zeros up to here */
#define PR_PRINT_PRIME 0x9E3779B185EBCA87ull
#define PR_PRINT_OTHER 0xC2B2AE3D27D4EB4Full

struct pr_print {
	uint64_t a, b, c, d;
};

/* A word of 8 bytes, little-endian. For BPF, a copy would be 8 loads. */
static inline __attribute__((always_inline)) uint64_t
pr_print_word(const void *at)
{
	uint64_t w;

#ifdef __bpf__
	w = *(const uint64_t *)at;
#else
	__builtin_memcpy(&w, at, sizeof w);
#endif
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? w : __builtin_bswap64(w);
}

/* One step of a lane. */
static inline __attribute__((always_inline)) uint64_t
pr_print_step(uint64_t lane, uint64_t word)
{
	lane = (lane ^ word) * PR_PRINT_PRIME;
	return lane ^ lane >> 32;
}

static inline __attribute__((always_inline)) struct pr_print
pr_print_begin(uint64_t epoch)
{
	return (struct pr_print){
		epoch, ~epoch, epoch ^ PR_PRINT_OTHER, ~epoch ^ PR_PRINT_OTHER};
}

static inline __attribute__((always_inline)) void
pr_print_block(struct pr_print *p, const uint8_t *at)
{
	p->a = pr_print_step(p->a, pr_print_word(at));
	p->b = pr_print_step(p->b, pr_print_word(at + 8));
	p->c = pr_print_step(p->c, pr_print_word(at + 16));
	p->d = pr_print_step(p->d, pr_print_word(at + 24));
}

/* len: the frame's. */
static inline __attribute__((always_inline)) uint32_t
pr_print_end(const struct pr_print *p, uint32_t len)
{
	uint64_t h = pr_print_step(p->a, p->c) +
		     (pr_print_step(p->b, p->d) ^ len) * PR_PRINT_OTHER;

	h = (h ^ h >> 29) * PR_PRINT_PRIME;
	return (uint32_t)(h ^ h >> 32);
}
