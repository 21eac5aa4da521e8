/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/level1.h"
#include "proto/wire/source.h"

/* A packet's keys; one of a link type without layout has none. */
static inline size_t
keys_of_packet(const struct pr_packet *packet, struct pri_key out[PRI_KEYS_MAX])
{
	const struct pri_linktype_layout *layout =
		pri_linktype_layout_find(packet->linktype);
	struct pri_packet_fields fields;

	if (!layout)
		return 0;
	pri_packet_fields_parse(layout, packet->data, packet->caplen, &fields);
	return pri_keys_of_fields(&fields, out);
}

/* Has the segment of a whole record the key? */
static inline bool
level1_has_key(const struct pri_level1 *l, const struct pri_level1_segment *s,
	const struct pri_key *key)
{
	uint64_t signatures[PRI_SIGNATURES_MAX], set = 0;
	size_t count = pri_key_signatures(key, signatures), at, len;
	bool has = true;

	if (!s->keyed || pri_level1_item_has(s, key, &has))
		return has;
	at = pri_level1_page_at(l, pri_level1_page_of(l, signatures[0]), &len);
	for (size_t i = 0; i < count; i++)
		set |= pri_level1_find(l, signatures[i], l->body + at, len);
	return set >> s->index & 1;
}
