/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_SIGNATURE_H
#define PR_INDEXER_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bloom filters (Hyperion, section 5.1) over pr_key_hash. Both levels spend about ten bits a key.
 *
 * Level 1, of one segment: PR_SIGNATURE_PROBES bits of the whole signature. It is a few hundred bytes,
 * read as one, so there is nothing that blocks would save: they only cost false positives.
 *
 * Level 2 is bit-sliced and lies in pages of PR_SLICES_PAGE bytes, each with as many slices (the same
 * bit of each column) as it has room for. A key tests PR_SLICES_PAGES pages with PR_SLICES_PROBES slices
 * in each: two reads instead of six, for about the same false positives as six bits at will.
 */
#define PR_SIGNATURE_BITS_A_KEY 10
#define PR_SIGNATURE_PROBES 7
#define PR_SIGNATURE_BITS_MAX (1u << 22)

/* Bits for so many keys: a multiple of 64, at least 64. */
uint32_t pr_signature_bits(size_t keys);
/* bits as it gave them; words hold them, little-endian bytes, and begin as zeros. */
void pr_signature_add(uint8_t *words, uint32_t bits, uint64_t hash);
bool pr_signature_test(const uint8_t *words, uint32_t bits, uint64_t hash);

#define PR_SLICES_PAGE 4096
#define PR_SLICES_PAGES 2
#define PR_SLICES_PROBES 3

/* Which slices of which pages a key tests. */
struct pr_slices {
	uint32_t page[PR_SLICES_PAGES];
	uint16_t slice[PR_SLICES_PAGES][PR_SLICES_PROBES]; /* within the page */
};
void pr_slices_of(
	uint64_t hash, uint32_t pages, uint16_t slices_a_page, struct pr_slices *out);

#endif
