/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/tally_key.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "proto/base/clock.h"
#include "proto/base/cursor.h"

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
	return (int64_t)(pr_get_be64(item->key) ^ UINT64_C(1) << 63);
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
			return; /* to itself: counted once */
	k->items[k->count++] = key;
}

static void
add_port(struct keys *k, uint16_t port)
{
	uint8_t bytes[2];

	pr_put_be16(bytes, port);
	add_bytes(k, bytes, sizeof(bytes));
}

static void
add_addresses(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	if (f->have & PRI_FIELD_SRC && group != PRI_TALLY_KEY_DST)
		add_bytes(k, f->src, f->address_len);
	if (f->have & PRI_FIELD_DST && group != PRI_TALLY_KEY_SRC)
		add_bytes(k, f->dst, f->address_len);
}

static void
add_ports(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	if (f->have & PRI_FIELD_SPORT && group != PRI_TALLY_KEY_DPORT)
		add_port(k, f->sport);
	if (f->have & PRI_FIELD_DPORT && group != PRI_TALLY_KEY_SPORT)
		add_port(k, f->dport);
}

/* Without ports (a later fragment, ICMP) a flow is what has none. */
static void
add_pair(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	bool ports = f->have & PRI_FIELD_SPORT && f->have & PRI_FIELD_DPORT;

	if (!(f->have & PRI_FIELD_SRC) || !(f->have & PRI_FIELD_DST))
		return;
	if (group == PRI_TALLY_KEY_PAIR)
		k->items[0] = pri_key_pair(f->src, f->dst, f->address_len);
	else
		k->items[0] = pri_key_flow(f->proto_count ? f->protos[0] : 0, f->src,
			f->dst, f->address_len, ports ? f->sport : 0, ports ? f->dport : 0);
	k->count = 1;
}

static void
add_types(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	if (group == PRI_TALLY_KEY_PROTO && f->proto_count)
		add_bytes(k, f->protos, 1);
	if (group == PRI_TALLY_KEY_ETHERTYPE && f->type_count &&
		f->types[f->type_count - 1] >= 0x600)
		add_port(k, f->types[f->type_count - 1]);
	if (group == PRI_TALLY_KEY_VLAN && f->tag_count)
		add_port(k, f->tags[0]);
	if (group == PRI_TALLY_KEY_MAC && f->have & PRI_FIELD_MAC_SRC)
		add_bytes(k, f->macs + 6, 6);
	if (group == PRI_TALLY_KEY_MAC && f->have & PRI_FIELD_MAC_DST)
		add_bytes(k, f->macs, 6);
}

/* ---- in words ---- */

struct words {
	char *buf;
	const char *before; /* as a filter: what precedes the key; for people "" */
	bool filter;
};

static const char *
address(const uint8_t *bytes, size_t len, char buf[INET6_ADDRSTRLEN])
{
	return inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, buf, INET6_ADDRSTRLEN);
}

static void
say_address(const struct words *w, const struct pr_tally_item *item)
{
	char a[INET6_ADDRSTRLEN];

	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%s", w->before,
		address(item->key, item->len, a));
}

static void
say_number(const struct words *w, const struct pr_tally_item *item)
{
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%u", w->before, pr_get_be16(item->key));
}

static void
say_ethertype(const struct words *w, const struct pr_tally_item *item)
{
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s0x%04x", w->before, pr_get_be16(item->key));
}

static void
say_interval(const struct words *w, const struct pr_tally_item *item)
{
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%lld",
		(long long)pri_tally_key_interval_of(item));
}

static void
say_mac(const struct words *w, const struct pr_tally_item *item)
{
	const uint8_t *m = item->key;

	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%02x:%02x:%02x:%02x:%02x:%02x", w->before,
		m[0], m[1], m[2], m[3], m[4], m[5]);
}

/* As a filter by number: vrrp and the like mean IPv4 only. */
static void
say_proto(const struct words *w, const struct pr_tally_item *item)
{
	static const char *const names[UINT8_MAX + 1] = {[1] = "icmp",
		[2] = "igmp",
		[6] = "tcp",
		[17] = "udp",
		[50] = "esp",
		[51] = "ah",
		[58] = "icmp6",
		[103] = "pim",
		[112] = "vrrp",
		[132] = "sctp"};
	unsigned proto = item->key[0];

	if (w->filter)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "(ip proto %u or ip6 proto %u)", proto,
			proto);
	else if (names[proto])
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s", names[proto]);
	else
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "proto %u", proto);
}

static void
say_pair(const struct words *w, const struct pr_tally_item *item)
{
	size_t len = item->len / 2u;
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN];

	address(item->key, len, a);
	address(item->key + len, len, b);
	snprintf(w->buf, PRI_TALLY_KEY_TEXT,
		!w->filter     ? "%s %s"
		: strcmp(a, b) ? "host %s and host %s"
			       : "src host %s and dst host %s",
		a, b);
}

/* Both directions written out: "host a and host b and port x and port y" is more than the flow. */
static void
say_flow(const struct words *w, const struct pr_tally_item *item)
{
	size_t len = (item->len - 5u) / 2;
	uint16_t pa = pr_get_be16(item->key + 1 + 2 * len);
	uint16_t pb = pr_get_be16(item->key + 3 + 2 * len);
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN], *at;
	size_t room;

	say_proto(w, item);
	at = w->buf + strlen(w->buf);
	room = PRI_TALLY_KEY_TEXT - strlen(w->buf);
	address(item->key + 1, len, a);
	address(item->key + 1 + len, len, b);
	if (!w->filter && (pa || pb))
		snprintf(at, room, " %s port %u, %s port %u", a, pa, b, pb);
	else if (!w->filter)
		snprintf(at, room, " %s, %s", a, b);
	else if (pa || pb)
		snprintf(at, room,
			" and ((src host %s and src port %u and dst host %s and dst port "
			"%u) or (src host %s and src port %u and dst host %s and dst port "
			"%u))",
			a, pa, b, pb, b, pb, a, pa);
	else
		snprintf(at, room, " and host %s and host %s", a, b);
}

/* ---- the groups ---- */

static const struct group {
	const char *name; /* NULL: people do not name it */
	const char *filter; /* what precedes a key in a filter */
	uint8_t len[2]; /* of a key; where they differ: of IPv4, of IPv6 */
	void (*say)(const struct words *w, const struct pr_tally_item *item);
	void (*add)(struct keys *k, enum pri_tally_key group,
		const struct pri_packet_fields *f); /* NULL: no field of a header */
} groups[PRI_TALLY_KEYS] = {
	[PRI_TALLY_KEY_TIME] = {NULL, "", {8, 8}, say_interval, NULL},
	[PRI_TALLY_KEY_SRC] = {"src", "src host ", {4, 16}, say_address, add_addresses},
	[PRI_TALLY_KEY_DST] = {"dst", "dst host ", {4, 16}, say_address, add_addresses},
	[PRI_TALLY_KEY_HOST] = {"host", "host ", {4, 16}, say_address, add_addresses},
	[PRI_TALLY_KEY_PORT] = {"port", "port ", {2, 2}, say_number, add_ports},
	[PRI_TALLY_KEY_SPORT] = {"sport", "src port ", {2, 2}, say_number, add_ports},
	[PRI_TALLY_KEY_DPORT] = {"dport", "dst port ", {2, 2}, say_number, add_ports},
	[PRI_TALLY_KEY_PAIR] = {"pair", "", {8, 32}, say_pair, add_pair},
	[PRI_TALLY_KEY_FLOW] = {"flow", "", {13, 37}, say_flow, add_pair},
	[PRI_TALLY_KEY_PROTO] = {"proto", "", {1, 1}, say_proto, add_types},
	[PRI_TALLY_KEY_ETHERTYPE] = {"ethertype", "ether proto ", {2, 2}, say_ethertype,
		add_types},
	[PRI_TALLY_KEY_VLAN] = {"vlan", "vlan ", {2, 2}, say_number, add_types},
	[PRI_TALLY_KEY_MAC] = {"mac", "ether host ", {6, 6}, say_mac, add_types},
	[PRI_TALLY_KEY_LINK] = {"link", "link ", {2, 2}, say_number, NULL},
};

const char *
pri_tally_key_name(enum pri_tally_key group)
{
	return (unsigned)group < PRI_TALLY_KEYS ? groups[group].name : NULL;
}

int
pri_tally_key_find(const char *name)
{
	for (int i = 0; i < PRI_TALLY_KEYS; i++)
		if (groups[i].name && !strcmp(groups[i].name, name))
			return i;
	return -1;
}

int
pri_tally_key_check(const Packrack__TallySpec *spec, struct pr_error *err)
{
	if (spec->group == PRI_TALLY_KEY_TIME)
		return spec->step > 0
			       ? 0
			       : pr_error_set(err, "a count over time without a step");
	if (spec->group >= PRI_TALLY_KEYS || !groups[spec->group].name)
		return pr_error_set(err,
			"a count by %u, which this program does not know: is it older?",
			spec->group);
	return 0;
}

struct pr_tally *
pri_tally_key_tally(const Packrack__TallySpec *spec, struct pr_error *err)
{
	if (pri_tally_key_check(spec, err) < 0)
		return NULL;
	return pr_tally_create(spec->group == PRI_TALLY_KEY_TIME, spec->by_packets, 0, err);
}

/* ---- counting ---- */

static void
keys_of(struct keys *k, enum pri_tally_key group, int64_t step, const struct pr_packet *p)
{
	const struct pri_linktype_layout *layout;
	struct pri_packet_fields fields;

	if (group == PRI_TALLY_KEY_TIME) {
		k->items[0].len = PRI_TALLY_KEY_TIME_LEN;
		pri_tally_key_interval_key(
			pri_tally_key_interval(p->time, step), k->items[0].bytes);
		k->count = 1;
		return;
	}
	if (group == PRI_TALLY_KEY_LINK) {
		add_port(k, p->link);
		return;
	}
	layout = pri_linktype_layout_find(p->linktype);
	if (!layout || !groups[group].add)
		return;
	pri_packet_fields_parse(layout, p->data, p->caplen, &fields);
	groups[group].add(k, group, &fields);
}

int
pri_tally_key_count(struct pr_tally *t, enum pri_tally_key group, int64_t step,
	const struct pr_packet *p, struct pr_error *err)
{
	const Packrack__Tally one = {.packets = 1, .bytes = p->len};
	struct keys keys = {.count = 0};

	keys_of(&keys, group, step, p);
	pr_tally_sum(t, &one);
	for (size_t i = 0; i < keys.count; i++)
		if (pr_tally_add(
			    t, keys.items[i].bytes, keys.items[i].len, 1, p->len, err) < 0)
			return -1;
	return 0;
}

static bool
say(enum pri_tally_key group, const struct pr_tally_item *item, char *buf, bool filter)
{
	const struct group *g = (unsigned)group < PRI_TALLY_KEYS ? &groups[group] : groups;
	const struct words w = {buf, filter ? g->filter : "", filter};

	if (g->say && (item->len == g->len[0] || item->len == g->len[1])) {
		g->say(&w, item);
		return true;
	}
	buf[0] = 0;
	for (size_t i = 0; i < item->len; i++)
		snprintf(buf + 2 * i, 3, "%02x", item->key[i]);
	return false;
}

bool
pri_tally_key_filter(enum pri_tally_key group, const struct pr_tally_item *item, char *buf)
{
	return say(group, item, buf, true);
}

bool
pri_tally_key_text(enum pri_tally_key group, const struct pr_tally_item *item, char *buf)
{
	return say(group, item, buf, false);
}
