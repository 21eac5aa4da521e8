/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/kinds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "proto/wire/cursor.h"

void
pr_kinds_free(struct pr_kinds *k)
{
	free(k->items);
	free(k->slots);
	free(k->odd);
	*k = (struct pr_kinds){0};
}

static int
make_room(struct pr_kinds *k, size_t packets, size_t slots)
{
	if (packets > k->room) {
		free(k->items);
		free(k->odd);
		k->room = 0;
		k->items = malloc(packets * sizeof(*k->items));
		k->odd = malloc(packets * sizeof(*k->odd));
		if (!k->items || !k->odd)
			return -1;
		k->room = packets;
	}
	if (slots > k->slot_room) {
		free(k->slots);
		k->slot_room = 0;
		k->slots = malloc(slots * sizeof(*k->slots));
		if (!k->slots)
			return -1;
		k->slot_room = slots;
	}
	return 0;
}

/* Without the kernel's random bytes it is as good, but for who knows the address. */
static void
make_secret(struct pr_kinds *k)
{
	for (size_t i = 0; i < 4; i++)
		k->secret[i] = XXH3_64bits_withSeed(&k, sizeof(k), i);
	if (getrandom(k->secret, sizeof(k->secret), GRND_NONBLOCK) < 0)
		k->secret[0] |= 1;
}

int
pr_kinds_begin(struct pr_kinds *k, size_t packets)
{
	size_t slots = 64;

	while (slots < 2 * packets)
		slots *= 2;
	if (make_room(k, packets, slots) < 0)
		return -1;
	if (!k->secret[0])
		make_secret(k);
	memset(k->slots, 0, slots * sizeof(*k->slots));
	k->mask = slots - 1;
	k->count = k->odd_count = 0;
	return 0;
}

/* ---- plain packets ---- */

#define TAG 0x8100
#define IP 0x0800
#define IP6 0x86dd
#define ICMP 1

static inline bool
plain_ip(const uint8_t *net, size_t len, uint64_t id[PR_KIND_WORDS])
{
	uint8_t protocol;

	if (len < 24 || net[0] != 0x45 || pr_get_be16(net + 6) & 0x1fff)
		return false;
	protocol = net[9];
	if (protocol == ICMP)
		return false;
	id[2] = 4 | (uint64_t)protocol << 8 | (uint64_t)pr_get_le32(net + 12) << 32;
	id[3] = pr_get_le32(net + 16);
	if (pr_kind_has_ports(protocol))
		id[3] |= (uint64_t)pr_get_le32(net + 20) << 32;
	id[4] = id[5] = id[6] = 0;
	return true;
}

static inline bool
plain_ip6(const uint8_t *net, size_t len, uint64_t id[PR_KIND_WORDS])
{
	if (len < 44 || !pr_kind_has_ports(net[6]))
		return false;
	id[2] = 6 | (uint64_t)net[6] << 8 | (uint64_t)pr_get_le32(net + 40) << 32;
	for (size_t i = 0; i < 4; i++)
		id[3 + i] = pr_get_le64(net + 8 + 8 * i);
	return true;
}

/* Equal words are equal fields. false: it is not plain, or not captured so far. */
static inline bool
plain(const uint8_t *data, size_t len, uint64_t id[PR_KIND_WORDS])
{
	size_t net = 14;
	uint16_t type;

	if (len < 18)
		return false;
	id[0] = pr_get_le64(data);
	id[1] = pr_get_le32(data + 8) | (uint64_t)pr_get_le16(data + 12) << 32;
	type = pr_get_be16(data + 12);
	if (type == TAG) {
		id[1] |= (uint64_t)(pr_get_be16(data + 14) & 0xfff) << 48;
		type = pr_get_be16(data + 16);
		net = 18;
	}
	if (type == IP)
		return plain_ip(data + net, len - net, id);
	return type == IP6 && plain_ip6(data + net, len - net, id);
}

/* ---- finding ---- */

static inline uint64_t
fold(uint64_t a, uint64_t b)
{
	__extension__ const unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t
hash_of(const struct pr_kinds *k, const uint64_t id[PR_KIND_WORDS])
{
	const uint64_t *s = k->secret;
	uint64_t h = fold(id[0] ^ s[0], id[1] ^ s[1]) + fold(id[2] ^ s[2], id[3] ^ s[3]);

	if ((id[2] & 0xff) == 6)
		h += fold(id[4] ^ s[1], id[5] ^ s[0]) + fold(id[6] ^ s[3], h ^ s[2]);
	return h ^ h >> 32;
}

static struct pr_kind *
add(struct pr_kinds *k, size_t at)
{
	struct pr_kind *kind = &k->items[k->count++];

	k->slots[at] = (uint32_t)k->count;
	kind->bytes = 0;
	kind->packets = 0;
	return kind;
}

static inline struct pr_kind *
find_plain(struct pr_kinds *k, const uint64_t id[PR_KIND_WORDS])
{
	struct pr_kind *kind;
	size_t at = hash_of(k, id) & k->mask;

	for (; k->slots[at]; at = (at + 1) & k->mask) {
		kind = &k->items[k->slots[at] - 1];
		if (!memcmp(kind->id, id, sizeof(kind->id)))
			return kind;
	}
	kind = add(k, at);
	memcpy(kind->id, id, sizeof(kind->id));
	return kind;
}

static struct pr_kind *
find_odd(struct pr_kinds *k, const struct pr_fields *f)
{
	size_t bytes = pr_fields_bytes(f);
	size_t at = XXH3_64bits_withSeed(f, bytes, k->secret[0]) & k->mask;
	struct pr_kind *kind;

	for (; k->slots[at]; at = (at + 1) & k->mask) {
		kind = &k->items[k->slots[at] - 1];
		if (pr_kind_version(kind) == 0 &&
			!memcmp(pr_kind_fields(k, kind), f, bytes))
			return kind;
	}
	kind = add(k, at);
	memset(kind->id, 0, sizeof(kind->id));
	kind->id[0] = k->odd_count;
	k->odd[k->odd_count++] = *f;
	return kind;
}

static inline struct pr_kind *
count(struct pr_kind *kind, uint32_t len)
{
	kind->packets++;
	kind->bytes += len;
	return kind;
}

struct pr_kind *
pr_kinds_plain(struct pr_kinds *k, const struct pr_layout *layout, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	uint64_t id[PR_KIND_WORDS];

	if (!layout->ether || !plain(data, caplen, id))
		return NULL;
	return count(find_plain(k, id), len);
}

struct pr_kind *
pr_kinds_odd(struct pr_kinds *k, const struct pr_layout *layout, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	struct pr_fields fields;

	pr_fields_of_packet(layout, data, caplen, &fields);
	return count(find_odd(k, &fields), len);
}
