/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/signature.h"

/* x of 32 bits to 0..n-1, evenly, without a division (Lemire). */
static uint32_t
reduce(uint32_t x, uint32_t n)
{
	return (uint32_t)((uint64_t)x * n >> 32);
}

uint32_t
pr_signature_bits(size_t keys)
{
	size_t bits = (keys * PR_SIGNATURE_BITS_A_KEY + 63) & ~(size_t)63;

	if (bits == 0)
		return 64;
	return bits < PR_SIGNATURE_BITS_MAX ? (uint32_t)bits : PR_SIGNATURE_BITS_MAX;
}

/* Two halves of one hash stand for as many as are wanted (Kirsch and Mitzenmacher). */
void
pr_signature_add(uint8_t *words, uint32_t bits, uint64_t hash)
{
	uint32_t at = (uint32_t)hash, step = (uint32_t)(hash >> 32) | 1;

	for (int i = 0; i < PR_SIGNATURE_PROBES; i++, at += step) {
		uint32_t bit = reduce(at, bits);

		words[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
}

bool
pr_signature_test(const uint8_t *words, uint32_t bits, uint64_t hash)
{
	uint32_t at = (uint32_t)hash, step = (uint32_t)(hash >> 32) | 1;

	for (int i = 0; i < PR_SIGNATURE_PROBES; i++, at += step) {
		uint32_t bit = reduce(at, bits);

		if (!(words[bit / 8] & 1u << bit % 8))
			return false;
	}
	return true;
}

/* Of a hash that went through level 1 already: stirred, so that errors of the two do not go together. */
static uint64_t
stir(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9fb21c651e98df25u; /* as in XXH3's avalanche for short keys */
	x ^= x >> 28;
	x *= 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

void
pr_slices_of(uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pr_slices *out)
{
	for (int i = 0; i < PR_SLICES_PAGES; i++) {
		uint64_t x = stir(hash + (uint64_t)i * 0x9e3779b97f4a7c15u);
		uint32_t at = (uint32_t)(x >> 32) * 0x85ebca6bu, step = (uint32_t)x | 1;

		out->page[i] = reduce((uint32_t)x, pages);
		for (int j = 0; j < PR_SLICES_PROBES; j++, at += step)
			out->slice[i][j] = (uint16_t)reduce(at, slices_a_page);
	}
}
