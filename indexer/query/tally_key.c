/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/tally_key.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "indexer/index/index_key.h"
#include "proto/base/clock.h"
#include "proto/base/cursor.h"

static const char *const names[PRI_TALLY_KEYS] = {[PRI_TALLY_KEY_SRC] = "src",
	[PRI_TALLY_KEY_DST] = "dst",
	[PRI_TALLY_KEY_HOST] = "host",
	[PRI_TALLY_KEY_PORT] = "port",
	[PRI_TALLY_KEY_SPORT] = "sport",
	[PRI_TALLY_KEY_DPORT] = "dport",
	[PRI_TALLY_KEY_PAIR] = "pair",
	[PRI_TALLY_KEY_FLOW] = "flow",
	[PRI_TALLY_KEY_PROTO] = "proto",
	[PRI_TALLY_KEY_ETHERTYPE] = "ethertype",
	[PRI_TALLY_KEY_VLAN] = "vlan",
	[PRI_TALLY_KEY_MAC] = "mac",
	[PRI_TALLY_KEY_LINK] = "link"};

const char *
pri_tally_key_name(enum pri_tally_key group)
{
	return (unsigned)group < PRI_TALLY_KEYS ? names[group] : NULL;
}

int
pri_tally_key_find(const char *name)
{
	for (int i = 0; i < PRI_TALLY_KEYS; i++)
		if (names[i] && !strcmp(names[i], name))
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
	if (spec->group >= PRI_TALLY_KEYS || !names[spec->group])
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

static bool
has(const struct pri_packet_fields *f, unsigned fields)
{
	return (f->have & fields) == fields;
}

/* Without ports (a later fragment, ICMP) a flow is what has none. */
static void
add_pair(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	bool ports = has(f, PRI_FIELD_SPORT | PRI_FIELD_DPORT);

	if (!has(f, PRI_FIELD_SRC | PRI_FIELD_DST))
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

static void
keys_of_fields(struct keys *k, enum pri_tally_key group, const struct pri_packet_fields *f)
{
	switch (group) {
	case PRI_TALLY_KEY_SRC:
	case PRI_TALLY_KEY_DST:
	case PRI_TALLY_KEY_HOST:
		add_addresses(k, group, f);
		break;
	case PRI_TALLY_KEY_PORT:
	case PRI_TALLY_KEY_SPORT:
	case PRI_TALLY_KEY_DPORT:
		add_ports(k, group, f);
		break;
	case PRI_TALLY_KEY_PAIR:
	case PRI_TALLY_KEY_FLOW:
		add_pair(k, group, f);
		break;
	default:
		add_types(k, group, f);
	}
}

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
	if (!layout)
		return;
	pri_packet_fields_parse(layout, p->data, p->caplen, &fields);
	keys_of_fields(k, group, &fields);
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

/* Keys of groups in words. */

struct address {
	char text[INET6_ADDRSTRLEN];
};

static bool
address(const uint8_t *bytes, size_t len, struct address *out)
{
	return (len == 4 || len == 16) && inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes,
						  out->text, sizeof(out->text));
}

static const char *
proto_name(uint8_t proto, char buf[16])
{
	static const struct {
		uint8_t number;
		const char *name;
	} known[] = {{1, "icmp"}, {2, "igmp"}, {6, "tcp"}, {17, "udp"}, {58, "icmp6"},
		{50, "esp"}, {51, "ah"}, {132, "sctp"}, {112, "vrrp"}, {103, "pim"}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].number == proto)
			return known[i].name;
	snprintf(buf, 16, "proto %u", proto);
	return buf;
}

/* vrrp and the like mean IPv4 only; these mean both. */
static void
proto_filter(uint8_t proto, char buf[48])
{
	snprintf(buf, 48, "(ip proto %u or ip6 proto %u)", proto, proto);
}

/* ---- of each kind ---- */

struct words {
	char *buf;
	bool filter; /* else for people */
};

static void
say_address(const struct words *w, const char *what, const struct pr_tally_item *item)
{
	struct address a;

	address(item->key, item->len, &a);
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%s", w->filter ? what : "", a.text);
}

static void
say_number(const struct words *w, const char *what, uint64_t number)
{
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%llu", w->filter ? what : "",
		(unsigned long long)number);
}

static void
say_pair(const struct words *w, const struct pr_tally_item *item)
{
	struct address a, b;

	address(item->key, item->len / 2u, &a);
	address(item->key + item->len / 2, item->len / 2u, &b);
	if (!w->filter)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s %s", a.text, b.text);
	else if (!strcmp(a.text, b.text))
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "src host %s and dst host %s", a.text,
			b.text);
	else
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "host %s and host %s", a.text, b.text);
}

/* Both directions written out: "host a and host b and port x and port y" is more than the flow. */
static void
say_flow(const struct words *w, const struct pr_tally_item *item)
{
	size_t len = (item->len - 5u) / 2;
	uint16_t pa = pr_get_be16(item->key + 1 + 2 * len);
	uint16_t pb = pr_get_be16(item->key + 3 + 2 * len);
	struct address a, b;
	char proto[48], name[16];

	address(item->key + 1, len, &a);
	address(item->key + 1 + len, len, &b);
	proto_filter(item->key[0], proto);
	if (!w->filter && (pa || pb))
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s %s port %u, %s port %u",
			proto_name(item->key[0], name), a.text, pa, b.text, pb);
	else if (!w->filter)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s %s, %s",
			proto_name(item->key[0], name), a.text, b.text);
	else if (pa || pb)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT,
			"%s and ((src host %s and src port %u and dst host %s and dst port "
			"%u) or (src host %s and src port %u and dst host %s and dst port "
			"%u))",
			proto, a.text, pa, b.text, pb, b.text, pb, a.text, pa);
	else
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s and host %s and host %s", proto,
			a.text, b.text);
}

static void
say_proto(const struct words *w, uint8_t proto)
{
	char name[16];

	if (w->filter)
		proto_filter(proto, w->buf);
	else
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s", proto_name(proto, name));
}

static void
say_mac(const struct words *w, const uint8_t *m)
{
	snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s%02x:%02x:%02x:%02x:%02x:%02x",
		w->filter ? "ether host " : "", m[0], m[1], m[2], m[3], m[4], m[5]);
}

static bool
say_bytes(const struct pr_tally_item *item, char *buf)
{
	for (size_t i = 0; i < item->len; i++)
		snprintf(buf + 2 * i, 3, "%02x", item->key[i]);
	buf[2 * item->len] = 0;
	return false;
}

static bool
valid(enum pri_tally_key group, size_t len)
{
	switch (group) {
	case PRI_TALLY_KEY_TIME:
		return len == PRI_TALLY_KEY_TIME_LEN;
	case PRI_TALLY_KEY_SRC:
	case PRI_TALLY_KEY_DST:
	case PRI_TALLY_KEY_HOST:
		return len == 4 || len == 16;
	case PRI_TALLY_KEY_PAIR:
		return len == 8 || len == 32;
	case PRI_TALLY_KEY_FLOW:
		return len == 13 || len == 37;
	case PRI_TALLY_KEY_PROTO:
		return len == 1;
	case PRI_TALLY_KEY_MAC:
		return len == 6;
	default:
		return len == 2;
	}
}

static bool
say(enum pri_tally_key group, const struct pr_tally_item *item, const struct words *w)
{
	static const char *const what[PRI_TALLY_KEYS] = {[PRI_TALLY_KEY_SRC] = "src host ",
		[PRI_TALLY_KEY_DST] = "dst host ",
		[PRI_TALLY_KEY_HOST] = "host ",
		[PRI_TALLY_KEY_PORT] = "port ",
		[PRI_TALLY_KEY_SPORT] = "src port ",
		[PRI_TALLY_KEY_DPORT] = "dst port ",
		[PRI_TALLY_KEY_VLAN] = "vlan ",
		[PRI_TALLY_KEY_LINK] = "link "};

	if (!valid(group, item->len))
		return say_bytes(item, w->buf);
	if (group == PRI_TALLY_KEY_TIME)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%lld",
			(long long)pri_tally_key_interval_of(item));
	else if (group == PRI_TALLY_KEY_SRC || group == PRI_TALLY_KEY_DST ||
		 group == PRI_TALLY_KEY_HOST)
		say_address(w, what[group], item);
	else if (group == PRI_TALLY_KEY_PAIR)
		say_pair(w, item);
	else if (group == PRI_TALLY_KEY_FLOW)
		say_flow(w, item);
	else if (group == PRI_TALLY_KEY_PROTO)
		say_proto(w, item->key[0]);
	else if (group == PRI_TALLY_KEY_MAC)
		say_mac(w, item->key);
	else if (group == PRI_TALLY_KEY_ETHERTYPE)
		snprintf(w->buf, PRI_TALLY_KEY_TEXT, "%s0x%04x",
			w->filter ? "ether proto " : "", pr_get_be16(item->key));
	else
		say_number(w, what[group], pr_get_be16(item->key));
	return true;
}

bool
pri_tally_key_filter(enum pri_tally_key group, const struct pr_tally_item *item, char *buf)
{
	return say(group, item, &(struct words){.buf = buf, .filter = true});
}

bool
pri_tally_key_text(enum pri_tally_key group, const struct pr_tally_item *item, char *buf)
{
	return say(group, item, &(struct words){.buf = buf});
}
