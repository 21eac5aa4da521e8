/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/beyond.h"

#include <stdlib.h>

#include "indexer/index/packet_fields.h"

/* Keys that all packets of a connection have, or none. */
#define KNOWN                                                                              \
	(1u << PRI_KEY_ETHERTYPE | 1u << PRI_KEY_SRC | 1u << PRI_KEY_DST |                 \
		1u << PRI_KEY_NET | 1u << PRI_KEY_PROTO | 1u << PRI_KEY_SPORT |            \
		1u << PRI_KEY_DPORT | 1u << PRI_KEY_PAIR | 1u << PRI_KEY_PARTS |           \
		1u << PRI_KEY_SERVICE)

static bool
key_known(const struct pri_key *key)
{
	unsigned type = key->kind == PRI_KEY_ETHERTYPE ? pr_get_be16(key->bytes) : 0;

	/* sums have the outermost tag alone, and nothing of labels and PPPoE (0x8847, 0x8848, 0x8863, 0x8864) */
	return (KNOWN >> key->kind & 1) && type >> 8 != 0x88;
}

static bool
range_known(const struct pri_plan_range *range)
{
	return range->number != PRI_NUMBER_TIME && range->number != PRI_NUMBER_LENGTH;
}

bool
pri_plans_of_connections(const struct pri_plans *plans)
{
	for (size_t i = 0; i < plans->count; i++) {
		const struct pri_plan *plan = plans->items[i];

		for (size_t j = 0; j < plan->key_count; j++)
			if (!key_known(&plan->keys[j]))
				return false;
		for (size_t j = 0; j < plan->range_count; j++)
			if (!range_known(&plan->ranges[j]))
				return false;
	}
	return true;
}

/* ---- a sum's packet ---- */

enum { ETHERTYPE_AT = 12, VLAN_TAG = 4 };

/* Which bytes are those of all packets of the connection. Returns the one with IPv4's flags beside the fragment's offset, or NULL. */
static uint8_t *
known_bytes(uint8_t *frame, bool encapsulated, bool known[PR_BEYOND_AT])
{
	bool tagged = pr_get_be16(frame + ETHERTYPE_AT) == 0x8100;
	size_t net = ETHERTYPE_AT + 2 + (tagged ? VLAN_TAG : 0);
	bool six = frame[net] >> 4 == 6;
	uint8_t protocol = frame[net + (six ? 6 : 9)];

	memset(known, 0, PR_BEYOND_AT);
	if (encapsulated) { /* behind the outermost tag there is more than these headers have */
		memset(known + ETHERTYPE_AT, tagged, VLAN_TAG);
		return NULL;
	}
	memset(known + ETHERTYPE_AT, true, net - ETHERTYPE_AT);
	known[net + (six ? 6 : 9)] = true;
	if (!six) /* no fragment */
		known[net + 6] = known[net + 7] = true;
	memset(known + net + (six ? 8 : 12), true, six ? 32 : 8);
	if (pri_has_ports(protocol))
		memset(known + net + (six ? 40 : 20), true, 4);
	return six ? NULL : frame + net + 6;
}

struct keys {
	struct pri_key items[PRI_KEYS_MAX];
	size_t count;
	struct pri_packet_fields fields;
};

static bool
has_key(void *arg, const struct pri_key *key)
{
	const struct keys *keys = arg;

	if (!key_known(key))
		return true;
	for (size_t i = 0; i < keys->count; i++)
		if (pri_key_equal(&keys->items[i], key))
			return true;
	return false;
}

static bool
has_range(void *arg, const struct pri_plan_range *r)
{
	const struct pri_packet_fields *f = &((const struct keys *)arg)->fields;
	int64_t v = r->number == PRI_NUMBER_SPORT   ? f->sport
		    : r->number == PRI_NUMBER_DPORT ? f->dport
		    : r->number == PRI_NUMBER_SRC4  ? pr_get_be32(f->src)
						    : pr_get_be32(f->dst);
	unsigned have = r->number == PRI_NUMBER_SPORT   ? PRI_FIELD_SPORT
			: r->number == PRI_NUMBER_DPORT ? PRI_FIELD_DPORT
							: 0;

	if (!range_known(r))
		return true;
	return (!have || f->have & have) && (have || f->address_len == 4) &&
	       v >= r->least && v <= r->most;
}

/* False: by its keys it cannot match. */
static bool
plan_may(const struct pri_plan *plan, const struct pr_packet *sum)
{
	const struct pri_linktype_layout *layout = pri_linktype_layout_find(sum->linktype);
	struct keys keys;
	const struct pri_plan_index index = {
		.has_key = has_key, .has_range = has_range, .arg = &keys};
	uint8_t *scratch = plan && layout ? malloc(plan->count) : NULL;
	bool may = true;

	if (scratch) {
		pri_packet_fields_parse(layout, sum->data, PR_BEYOND_AT, &keys.fields);
		keys.count = pri_keys_of_fields(&keys.fields, keys.items);
		may = pri_plan_holds(plan, &index, scratch);
	}
	free(scratch);
	return may;
}

enum pri_beyond_match
pri_beyond_match(const struct pr_bpf_set *programs, const struct pri_plans *plans,
	const struct pr_packet *sum)
{
	const struct pr_bpf *program = pr_bpf_set_find(programs, sum->linktype);
	struct pr_packet packet = *sum;
	uint8_t frame[PR_BEYOND_AT];
	struct pr_beyond b;
	bool known[PR_BEYOND_AT], unknown;

	if (programs->count == 0)
		return PRI_BEYOND_YES;
	if (!program || packet.caplen < PR_BEYOND_AT)
		return PRI_BEYOND_NO;
	memcpy(frame, sum->data, PR_BEYOND_AT);
	packet.data = frame;
	packet.caplen = PR_BEYOND_AT;
	bool encapsulated = pr_beyond_load(sum, &b) && b.encapsulated;
	uint8_t *flags = known_bytes(frame, encapsulated, known);
	uint32_t result = pr_bpf_run_known(program, &packet, known, &unknown);
	/* Each packet has its own of these three bits: none may matter. */
	for (unsigned i = 1; flags && !unknown && i < 8; i++) {
		*flags = (uint8_t)(i << 5);
		bool same = !pr_bpf_run_known(program, &packet, known, &unknown) == !result;
		unknown |= !same;
	}
	if (!unknown)
		return result ? PRI_BEYOND_YES : PRI_BEYOND_NO;
	return plan_may(pri_plans_find(plans, packet.linktype), &packet) ? PRI_BEYOND_MAY
									 : PRI_BEYOND_NO;
}
