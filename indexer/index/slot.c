/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/index/slot.h"

#include <sys/random.h>
#include <xxhash.h>

/* Without the kernel's random bytes it is as good, but for who knows the address. */
static uint64_t
draw(const struct pri_seeded_hash *slot)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != sizeof(drawn))
		drawn = XXH3_64bits(&slot, sizeof(slot));
	return drawn | 1;
}

void
pri_seeded_hash_set(struct pri_seeded_hash *slot, size_t slots)
{
	if (!slot->factor)
		slot->factor = draw(slot);
	slot->shift = 64 - (unsigned)__builtin_ctzll(slots);
}
