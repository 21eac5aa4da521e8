/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/tally_key.h"

#include "indexer/index/index_key.h"
#include "proto/base/units.h"
#include "proto/wire/beyond.h"

/* ---- intervals ---- */

int64_t
pri_tally_key_interval(int64_t time, int64_t step)
{
	return time / step - (time % step < 0);
}

void
pri_tally_key_interval_key(int64_t interval, uint8_t out[PRI_TALLY_KEY_TIME_LEN])
{
	pr_put_be64(out, (uint64_t)interval ^ UINT64_C(1) << 63); /* keys in order */
}

int64_t
pri_tally_key_interval_of(const struct pr_tally_item *item)
{
	if (item->len != PRI_TALLY_KEY_TIME_LEN)
		return 0;
	return pr_get_be64(item->key) ^ UINT64_C(1) << 63;
}

/* ---- keys ---- */

struct keys {
	struct pri_key items[2];
	size_t count;
};

static void
add_bytes(struct keys *k, const void *bytes, size_t len)
{
	struct pri_key key = pri_key_bytes(PRI_KEY_NONE, bytes, len);

	for (size_t i = 0; i < k->count; i++)
		if (k->items[i].len == len && !memcmp(k->items[i].bytes, bytes, len))
			return; /* same address or port on both sides: counted once */
	k->items[k->count++] = key;
}

static void
add_port(struct keys *k, uint16_t port)
{
	uint8_t bytes[2];

	pr_put_be16(bytes, port);
	add_bytes(k, bytes, sizeof bytes);
}

static void
add_fields(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	bool src = f->have & PRI_FIELD_SRC, dst = f->have & PRI_FIELD_DST;
	bool sport = f->have & PRI_FIELD_SPORT, dport = f->have & PRI_FIELD_DPORT;

	switch (group) {
	case PRI_TALLY_KEY_PORT:
	case PRI_TALLY_KEY_SPORT:
	case PRI_TALLY_KEY_DPORT:
		if (sport && group != PRI_TALLY_KEY_DPORT)
			add_port(k, f->sport);
		if (dport && group != PRI_TALLY_KEY_SPORT)
			add_port(k, f->dport);
		break;
	case PRI_TALLY_KEY_PAIR:
	case PRI_TALLY_KEY_FLOW: /* without ports (a later fragment, ICMP): what has none */
		k->count = src && dst;
		if (k->count && group == PRI_TALLY_KEY_PAIR)
			k->items[0] = pri_key_pair(f->src, f->dst, f->address_len);
		else if (k->count)
			k->items[0] = pri_key_flow(f->proto_count ? f->protos[0] : 0,
				f->src, f->dst, f->address_len,
				sport && dport ? f->sport : 0,
				sport && dport ? f->dport : 0);
		break;
	case PRI_TALLY_KEY_PROTO:
		if (f->proto_count)
			add_bytes(k, f->protos, 1);
		break;
	case PRI_TALLY_KEY_ETHERTYPE:
		if (f->type_count && f->types[f->type_count - 1] >= 0x600)
			add_port(k, f->types[f->type_count - 1]);
		break;
	case PRI_TALLY_KEY_VLAN:
		if (f->tag_count)
			add_port(k, f->tags[0]);
		break;
	case PRI_TALLY_KEY_MAC:
		if (f->have & PRI_FIELD_MAC_SRC)
			add_bytes(k, f->macs + 6, 6);
		if (f->have & PRI_FIELD_MAC_DST)
			add_bytes(k, f->macs, 6);
		break;
	default:
		if (src && group != PRI_TALLY_KEY_DST)
			add_bytes(k, f->src, f->address_len);
		if (dst && group != PRI_TALLY_KEY_SRC)
			add_bytes(k, f->dst, f->address_len);
	}
}

/* ---- in words ---- */

const char *
pri_protocol_name(unsigned protocol)
{
	static const struct {
		unsigned number;
		const char *name;
	} names[] = {{1, "icmp"}, {2, "igmp"}, {6, "tcp"}, {17, "udp"}, {47, "gre"},
		{50, "esp"}, {51, "ah"}, {58, "icmp6"}, {89, "ospf"}, {103, "pim"},
		{112, "vrrp"}, {132, "sctp"}};

	for (size_t i = 0; i < PR_COUNT(names); i++)
		if (names[i].number == protocol)
			return names[i].name;
	return NULL;
}

/* A protocol, in a filter by its number, because names like vrrp mean IPv4 only. */
static void
say_proto(unsigned proto, char *buf, bool filter)
{
	if (filter)
		snprintf(buf, PRI_TALLY_KEY_TEXT, "(ip proto %u or ip6 proto %u)", proto,
			proto);
	else if (pri_protocol_name(proto))
		snprintf(buf, PRI_TALLY_KEY_TEXT, "%s", pri_protocol_name(proto));
	else
		snprintf(buf, PRI_TALLY_KEY_TEXT, "proto %u", proto);
}

/*
 * A flow, in a filter with both directions written out, because "host a and host b and port
 * x and port y" matches more than the flow.
 */
static void
say_flow(const struct pr_tally_item *item, char *buf, bool filter)
{
	size_t len = (item->len - 5u) / 2, used;
	const uint8_t *ports = item->key + 1 + 2 * len;
	uint16_t pa = pr_get_be16(ports), pb = pr_get_be16(ports + 2);
	char a[PR_ADDRESS_TEXT], b[PR_ADDRESS_TEXT];

	say_proto(item->key[0], buf, filter);
	used = strlen(buf);
	pr_format_address(item->key + 1, len, a);
	pr_format_address(item->key + 1 + len, len, b);
	if (filter && (pa || pb))
		snprintf(buf + used, PRI_TALLY_KEY_TEXT - used,
			" and ((src host %s and src port %u and dst host %s and dst port "
			"%u) or (src host %s and src port %u and dst host %s and dst port "
			"%u))",
			a, pa, b, pb, b, pb, a, pa);
	else if (pa || pb)
		snprintf(buf + used, PRI_TALLY_KEY_TEXT - used, " %s port %u, %s port %u",
			a, pa, b, pb);
	else
		snprintf(buf + used, PRI_TALLY_KEY_TEXT - used,
			filter ? " and host %s and host %s" : " %s, %s", a, b);
}

/* ---- the groups ---- */

static const struct group {
	const char *name; /* NULL: people do not name it */
	const char *filter; /* what precedes a key in a filter */
	uint8_t len[2]; /* bytes of a key: for IPv4, for IPv6 */
} groups[PRI_TALLY_KEYS] = {[PRI_TALLY_KEY_TIME] = {NULL, "", {8, 8}},
	[PRI_TALLY_KEY_SRC] = {"src", "src host ", {4, 16}},
	[PRI_TALLY_KEY_DST] = {"dst", "dst host ", {4, 16}},
	[PRI_TALLY_KEY_HOST] = {"host", "host ", {4, 16}},
	[PRI_TALLY_KEY_PORT] = {"port", "port ", {2, 2}},
	[PRI_TALLY_KEY_SPORT] = {"sport", "src port ", {2, 2}},
	[PRI_TALLY_KEY_DPORT] = {"dport", "dst port ", {2, 2}},
	[PRI_TALLY_KEY_PAIR] = {"pair", "", {8, 32}},
	[PRI_TALLY_KEY_FLOW] = {"flow", "", {13, 37}},
	[PRI_TALLY_KEY_PROTO] = {"proto", "", {1, 1}},
	[PRI_TALLY_KEY_ETHERTYPE] = {"ethertype", "ether proto ", {2, 2}},
	[PRI_TALLY_KEY_VLAN] = {"vlan", "vlan ", {2, 2}},
	[PRI_TALLY_KEY_MAC] = {"mac", "ether host ", {6, 6}},
	[PRI_TALLY_KEY_LINK] = {"link", "link ", {2, 2}}};

const char *
pri_tally_key_name(enum pri_tally_key group)
{
	return group < PRI_TALLY_KEYS ? groups[group].name : NULL;
}

int
pri_tally_key_find(const char *name)
{
	for (int i = 0; i < PRI_TALLY_KEYS; i++)
		if (groups[i].name && !strcmp(groups[i].name, name))
			return i;
	return -1;
}

struct pr_tally *
pri_tally_key_tally(const Packrack__TallySpec *spec, struct pr_error *err)
{
	bool time = spec->group == PRI_TALLY_KEY_TIME;

	if (!time && !pri_tally_key_name(spec->group))
		pr_error_set(err,
			"cannot count by key %u: this program may be older than the client",
			spec->group);
	else if (time && spec->step <= 0)
		pr_error_set(err, "a count over time without a step");
	else
		return pr_tally_create(time, spec->by_packets, 0, err);
	return NULL;
}

/* ---- counting ---- */

int
pri_tally_key_count(struct pr_tally *t, enum pri_tally_key group, int64_t step,
	const struct pr_packet *p, struct pr_error *err)
{
	struct pr_beyond sum = {.packets = 1, .bytes = p->len};
	const bool is_sum = pr_link_is_beyond(p->link) && pr_beyond_load(p, &sum);
	const Packrack__Tally one = {.packets = sum.packets, .bytes = sum.bytes};
	const struct pri_linktype_layout *layout;
	struct pri_packet_fields fields;
	struct keys keys = {.count = 0};

	if (group == PRI_TALLY_KEY_TIME) {
		keys.items[0].len = PRI_TALLY_KEY_TIME_LEN;
		pri_tally_key_interval_key(
			pri_tally_key_interval(p->time, step), keys.items[0].bytes);
		keys.count = 1;
	} else if (group == PRI_TALLY_KEY_LINK) {
		add_port(&keys, is_sum ? pr_link_base(p->link) : p->link);
	} else if ((layout = pri_linktype_layout_find(p->linktype))) {
		pri_packet_fields_parse(layout, p->data, p->caplen, &fields);
		add_fields(&keys, group, &fields);
	}
	pr_tally_sum(t, &one);
	for (size_t i = 0; i < keys.count; i++)
		if (pr_tally_add(t, keys.items[i].bytes, keys.items[i].len, sum.packets,
			    sum.bytes, err) < 0)
			return -1;
	return 0;
}

bool
pri_tally_key_text(
	enum pri_tally_key group, const struct pr_tally_item *item, bool filter, char *buf)
{
	const struct group *g = group < PRI_TALLY_KEYS ? &groups[group] : groups;
	const char *before = filter ? g->filter : "";
	const uint8_t *key = item->key;
	char a[PR_ADDRESS_TEXT], b[PR_ADDRESS_TEXT];

	if (!item->len || (item->len != g->len[0] && item->len != g->len[1])) {
		buf[0] = 0;
		for (size_t i = 0; i < item->len; i++)
			snprintf(buf + 2 * i, 3, "%02x", key[i]);
		return false;
	}
	switch (group) {
	case PRI_TALLY_KEY_TIME:
		snprintf(buf, PRI_TALLY_KEY_TEXT, "%lld",
			(long long)pri_tally_key_interval_of(item));
		break;
	case PRI_TALLY_KEY_SRC:
	case PRI_TALLY_KEY_DST:
	case PRI_TALLY_KEY_HOST:
		pr_format_address(key, item->len, a);
		snprintf(buf, PRI_TALLY_KEY_TEXT, "%s%s", before, a);
		break;
	case PRI_TALLY_KEY_PAIR:
		pr_format_address(key, item->len / 2u, a);
		pr_format_address(key + item->len / 2u, item->len / 2u, b);
		snprintf(buf, PRI_TALLY_KEY_TEXT,
			!filter        ? "%s %s"
			: strcmp(a, b) ? "host %s and host %s"
				       : "src host %s and dst host %s",
			a, b);
		break;
	case PRI_TALLY_KEY_FLOW:
		say_flow(item, buf, filter);
		break;
	case PRI_TALLY_KEY_PROTO:
		say_proto(key[0], buf, filter);
		break;
	case PRI_TALLY_KEY_MAC:
		snprintf(buf, PRI_TALLY_KEY_TEXT, "%s%02x:%02x:%02x:%02x:%02x:%02x", before,
			key[0], key[1], key[2], key[3], key[4], key[5]);
		break;
	default:
		snprintf(buf, PRI_TALLY_KEY_TEXT,
			group == PRI_TALLY_KEY_ETHERTYPE ? "%s0x%04x" : "%s%u", before,
			pr_get_be16(key));
	}
	return true;
}
