/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "indexer/filter/plan.h"
#include "proto/base/cursor.h"
#include "tests/unit/port_keys.h"
#include "tests/unit/index_keys.h"

/* A packet's own keys as the index that a plan is held against: what a plan denies of it, it cannot match. */

struct own {
	struct pri_key keys[PRI_KEYS_MAX + PORT_KEYS_MAX];
	size_t count;
	struct pri_packet_fields fields;
	bool laid_out;
	uint32_t len;
	int64_t time;
};

static inline bool
own_key(void *arg, const struct pri_key *key)
{
	const struct own *own = arg;

	for (size_t i = 0; i < own->count; i++)
		if (pri_key_equal(&own->keys[i], key))
			return true;
	return false;
}

static unsigned composites_asked;

/* Whatever composites an index may have: the packet has all of which the filter fixes all parts. */
static inline bool
own_parts(void *arg, const struct pri_key *parts)
{
	struct own *own = arg;
	struct pri_key key, keys[PRI_COMPOSITE_KEYS];

	for (unsigned mask = 3; mask < 1u << PRI_PARTS; mask++) {
		size_t count, i = 0;

		if (!(mask & (mask - 1)) || !pri_key_composite(parts, (uint8_t)mask, &key))
			continue;
		composites_asked++;
		count = pri_composite_keys(&own->fields, (uint8_t)mask, keys);
		while (i < count && (keys[i].len != key.len ||
					    memcmp(keys[i].bytes, key.bytes, key.len) != 0))
			i++;
		if (i == count)
			return false;
	}
	return true;
}

static inline bool
own_range(void *arg, const struct pri_plan_range *r)
{
	const struct own *own = arg;
	const struct pri_packet_fields *f = &own->fields;
	bool ip4 = own->laid_out && f->address_len == 4;
	int64_t value = -1;

	switch (r->number) {
	case PRI_NUMBER_TIME:
		value = own->time;
		break;
	case PRI_NUMBER_LENGTH:
		value = own->len;
		break;
	case PRI_NUMBER_SPORT:
		value = f->have & PRI_FIELD_SPORT ? f->sport : -1;
		break;
	case PRI_NUMBER_DPORT:
		value = f->have & PRI_FIELD_DPORT ? f->dport : -1;
		break;
	case PRI_NUMBER_SRC4:
		value = ip4 && f->have & PRI_FIELD_SRC ? (int64_t)pr_get_be32(f->src) : -1;
		break;
	case PRI_NUMBER_DST4:
		value = ip4 && f->have & PRI_FIELD_DST ? (int64_t)pr_get_be32(f->dst) : -1;
		break;
	}
	return value >= r->least && value <= r->most;
}

static inline void
own_of(const struct pr_packet *packet, struct own *own)
{
	const struct pri_linktype_layout *layout =
		pri_linktype_layout_find(packet->linktype);

	memset(own, 0, sizeof(*own));
	own->count = keys_of_packet(packet, own->keys);
	own->len = packet->len;
	own->time = packet->time;
	own->laid_out = layout != NULL;
	if (layout)
		pri_packet_fields_parse(layout, packet->data, packet->caplen, &own->fields);
	own->count += port_keys(&own->fields, own->keys + own->count);
}

static inline bool
holds(const struct pri_plan *plan, struct own *own)
{
	struct pri_plan_index index = {.has_key = own_key,
		.has_range = own_range,
		.has_parts = own_parts,
		.arg = own};
	uint8_t *scratch = malloc(plan->count);
	bool result = pri_plan_holds(plan, &index, scratch);

	free(scratch);
	return result;
}
