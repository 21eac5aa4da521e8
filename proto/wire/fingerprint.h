/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The second kind of fingerprint of a data frame (the first: pr_fingerprint, frame.h): of all bytes after the MACs, as
 * sent, two lanes of 64 bits. The XDP program computes it as well as the nodes do, so it is here what a BPF program
 * can do: 8 bytes at a time, the last 8 overlapping. Nothing of it depends on trailing zeros, so a frame that a switch
 * pads does not fit; the dispatcher pads to 60 bytes itself. The logs of which all entries have it say so (tslog.h).
 */
#define PR_PRINT_FROM 12 /* after the MACs */
#define PR_PRINT_MIN 28 /* shorter frames count as followed by zeros up to here */
#define PR_PRINT_PRIME 0x9E3779B185EBCA87ull
#define PR_PRINT_OTHER 0xC2B2AE3D27D4EB4Full

/* One step of a lane; word: 8 bytes, little-endian. */
static inline __attribute__((always_inline)) uint64_t
pr_print_step(uint64_t lane, uint64_t word)
{
	lane = (lane ^ word) * PR_PRINT_PRIME;
	return lane ^ lane >> 32;
}

/* tail: the frame's last 8 bytes; len: the frame's. */
static inline __attribute__((always_inline)) uint32_t
pr_print_end(uint64_t a, uint64_t b, uint64_t tail, uint32_t len)
{
	uint64_t h = pr_print_step(a, tail) + (b ^ len) * PR_PRINT_OTHER;

	h = (h ^ h >> 29) * PR_PRINT_PRIME;
	return (uint32_t)(h ^ h >> 32);
}
