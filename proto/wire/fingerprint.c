/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/base/cursor.h"
#include "proto/wire/frame.h"

#define MACS (2 * PR_MAC_LEN)

/* Newton's iteration doubles the right bits of a guess x with STEP * x = 1 mod 8 (any odd STEP). */
#define INVERSE_0 PR_FINGERPRINT_STEP
#define NEWTON(x) ((uint32_t)(x) * (2u - PR_FINGERPRINT_STEP * (uint32_t)(x)))
#define INVERSE_1 NEWTON(INVERSE_0)
#define INVERSE_2 NEWTON(INVERSE_1)
#define INVERSE_3 NEWTON(INVERSE_2)
#define INVERSE NEWTON(INVERSE_3)
_Static_assert(PR_FINGERPRINT_STEP *INVERSE == 1, "inverse of the step");

/* Length without trailing zeros; a word at a time, as zero payloads may be long. */
static size_t
trimmed(const uint8_t *p, size_t len)
{
	while (len >= 8 && pr_get_le64(p + len - 8) == 0)
		len -= 8;
	while (len > 0 && p[len - 1] == 0)
		len--;
	return len;
}

static uint32_t
hash(const uint8_t *p, size_t len, uint64_t epoch)
{
	return (uint32_t)XXH3_64bits_withSeed(p, len, epoch);
}

uint32_t
pr_fingerprint(const uint8_t *frame, size_t len, uint64_t epoch)
{
	const uint8_t *p = frame + MACS;
	size_t n = len > MACS ? trimmed(p, len - MACS) : 0;
	return hash(p, n, epoch) + PR_FINGERPRINT_STEP * (uint32_t)len;
}

size_t
pr_fingerprint_length(
	const uint8_t *frame, size_t len, uint64_t epoch, uint32_t fingerprint)
{
	if (len < MACS)
		return 0;
	const uint8_t *p = frame + MACS;
	size_t n = trimmed(p, len - MACS);
	size_t sent = INVERSE * (fingerprint - hash(p, n, epoch));
	return sent >= n + MACS && sent <= len ? sent : 0;
}

size_t
pr_ethertype_offset(const uint8_t *data, size_t len)
{
	for (size_t at = MACS; at + 2 <= len; at += 4) {
		uint16_t type = pr_get_be16(data + at);
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100)
			return at;
	}
	return 0;
}
