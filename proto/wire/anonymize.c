/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/anonymize.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"
#include "proto/base/keyfile.h"
#include "proto/base/options.h"
#include "proto/base/units.h"
#include "proto/wire/decode.h"

#define DEPTH 6 /* of tunnels and quotes */

struct pr_anonymizer {
	struct pr_anonymize_policy policy;
	struct pr_address_map *map;
	struct pr_anonymize_figures figures;
};

/* One packet. Headers are changed from the outside to the inside. */
struct walk {
	struct pr_anonymizer *a;
	uint8_t *data;
	size_t cut; /* what is captured ends here */
	bool blanked;
};

/* ---- the policy ---- */

#define PR_VALUES struct pr_anonymize_policy
static const char *const payloads[] = {"cut", "zero", "hash", "keep", NULL};
static const char *const map_or_blank[] = {"map", "blank", NULL};
static const char *const keep_or_map[] = {"keep", "map", NULL};
static const char *const fix_or_zero[] = {"fix", "zero", NULL};
static const struct pr_option options[] = {
	PR_OPT_ENUM(payload, "payload", 0, "HOW", payloads, ""),
	PR_OPT_ENUM(macs, "macs", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(arp, "arp", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(quotes, "icmp-quotes", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(nd, "nd", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(dns, "dns", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(dhcp, "dhcp", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(tunnels, "tunnels", 0, "HOW", map_or_blank, ""),
	PR_OPT_ENUM(ports, "ports", 0, "HOW", keep_or_map, ""),
	PR_OPT_ENUM(checksums, "checksums", 0, "HOW", fix_or_zero, ""),
	PR_OPT_STRING(shift_text, "shift", 0, "SECONDS", ""),
};

/* Lines that begin with # are blank. Not in texts of one line, such as a limit: there # would hide what follows. */
static char *
without_comments(const char *text)
{
	char *copy = strdup(text), *at = copy;

	while (at && *at) {
		char *end = at + strcspn(at, "\n");

		if (at[strspn(at, " \t")] == '#')
			memset(at, ' ', (size_t)(end - at));
		at = end + (*end == '\n');
	}
	return copy;
}

int
pr_anonymize_policy_parse(struct pr_anonymize_policy *policy, const char *text,
	const char *what, struct pr_error *err)
{
	const struct pr_cmdline program = {
		.name = what, .section = what, PR_OPTIONS(options)};

	*policy = (struct pr_anonymize_policy){0};
	char *plain = without_comments(text);
	int rc = plain ? pr_options_text(&program, policy, plain, err)
		       : pr_error_set(err, "no memory");
	free(plain);
	if (rc < 0)
		return pr_error_prefix(err, "%s", what);
	const char *shift = policy->shift_text;
	if (!shift)
		return 0;
	bool back = *shift == '-';
	if (pr_parse_duration(shift + back, &policy->shift) < 0)
		return pr_error_set(
			err, "%s: shift = %s: a duration, as in -90d or 3600", what, shift);
	policy->shift = back ? -policy->shift : policy->shift;
	return 0;
}

void
pr_anonymize_policy_free(struct pr_anonymize_policy *policy)
{
	free(policy->shift_text);
	policy->shift_text = NULL;
}

int
pr_anonymize_key_read(const char *path, uint8_t key[PR_ADDRESS_KEY], struct pr_error *err)
{
	char *text = pr_keyfile_read(path, true, NULL, err);
	size_t len = 0;
	int rc = 0;

	if (!text)
		return -1;
	if (sodium_hex2bin(key, PR_ADDRESS_KEY, text, strlen(text), " \r\n", &len, NULL) !=
			0 ||
		len != PR_ADDRESS_KEY)
		rc = pr_error_set(err,
			"%s: a key has %d hex digits; `packrack keys anonymize` makes one",
			path, 2 * PR_ADDRESS_KEY);
	pr_keyfile_free(text);
	return rc;
}

struct pr_anonymizer *
pr_anonymizer_create(const struct pr_anonymize_policy *policy,
	const uint8_t key[PR_ADDRESS_KEY], struct pr_error *err)
{
	struct pr_anonymizer *a = calloc(1, sizeof(*a));

	if (!a)
		return pr_error_null(err, "no memory for the policy");
	a->policy = *policy;
	a->map = pr_address_map_create(key, err);
	if (!a->map)
		pr_anonymizer_destroy(&a);
	return a;
}

void
pr_anonymizer_destroy(struct pr_anonymizer **at)
{
	struct pr_anonymizer *a = PR_TAKE(at);

	if (!a)
		return;
	pr_address_map_destroy(&a->map);
	free(a);
}

const struct pr_anonymize_figures *
pr_anonymizer_figures(const struct pr_anonymizer *a)
{
	return &a->figures;
}

/* ---- bytes ---- */

static bool
has(const struct walk *w, size_t at, size_t len, size_t end)
{
	return at <= end && end - at >= len && end <= w->cut;
}

/* Nothing from here to end is told. */
static void
hide(struct walk *w, size_t at, size_t end)
{
	end = PR_MIN(end, w->cut);
	if (at >= end)
		return;
	if (w->a->policy.payload == PR_PAYLOAD_CUT)
		w->cut = at;
	else
		memset(w->data + at, 0, end - at);
}

static void
blank(struct walk *w, size_t at, size_t end)
{
	end = PR_MIN(end, w->cut);
	if (at >= end)
		return;
	w->blanked = true;
	w->a->figures.blanked_bytes += end - at;
	hide(w, at, end);
}

/* Bytes within a header, which stays. */
static void
blank_field(struct walk *w, size_t at, size_t len)
{
	w->blanked = true;
	w->a->figures.blanked_bytes += len;
	memset(w->data + at, 0, len);
}

static void
address(struct walk *w, size_t at, size_t len)
{
	w->a->figures.addresses++;
	pr_address_map(w->a->map, w->data + at, len);
}

static void
mac(struct walk *w, size_t at)
{
	w->a->figures.macs++;
	if (w->a->policy.macs)
		memset(w->data + at, 0, 6);
	else
		pr_address_map_mac(w->a->map, w->data + at);
}

static void
payload(struct walk *w, size_t at, size_t end)
{
	end = PR_MIN(end, w->cut);
	if (at >= end || w->a->policy.payload == PR_PAYLOAD_KEEP)
		return;
	w->a->figures.payload_bytes += end - at;
	if (w->a->policy.payload != PR_PAYLOAD_HASH) {
		hide(w, at, end);
		return;
	}
	uint64_t hash = pr_address_map_hash(w->a->map, 'p', w->data + at, end - at);
	for (size_t i = at; i < end; i++)
		w->data[i] = (uint8_t)(hash >> 8 * ((i - at) % 8));
}

/* ---- checksums (RFC 1071) ---- */

static uint32_t
sum(uint32_t s, const uint8_t *p, size_t len)
{
	for (; len > 1; len -= 2, p += 2)
		s += pr_get_be16(p);
	return len ? s + ((uint32_t)*p << 8) : s;
}

static uint16_t
fold(uint32_t s)
{
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	return (uint16_t)s;
}

/* Where a checksum is, and how it is to be told. */
struct checksum {
	size_t at, from, to; /* its two bytes; what it is over; at 0: there is none */
	size_t source, addresses; /* of the pseudo-header: both addresses; 0 bytes: none */
	uint8_t protocol;
	bool right;
};

static uint16_t
checksum_sum(const struct walk *w, const struct checksum *c)
{
	uint32_t s = 0;

	if (c->addresses)
		s = sum(c->protocol + (uint32_t)(c->to - c->from), w->data + c->source,
			c->addresses);
	return fold(sum(fold(s), w->data + c->from, c->to - c->from));
}

/* Before anything is changed. protocol: TCP, UDP, ICMP, ICMPv6. */
static struct checksum
checksum_find(const struct walk *w, uint8_t protocol, size_t from, size_t to, size_t source,
	size_t len, bool whole)
{
	size_t place = protocol == PR_IP_TCP ? 16 : protocol == PR_IP_UDP ? 6 : 2;
	struct checksum c = {
		.from = from, .to = to, .source = source, .protocol = protocol};

	if ((protocol != PR_IP_TCP && protocol != PR_IP_UDP && protocol != PR_IP_ICMP &&
		    protocol != PR_IP_ICMP6) ||
		!has(w, from, place + 2, PR_MIN(to, w->cut)))
		return (struct checksum){.at = 0};
	c.at = from + place;
	c.addresses = protocol == PR_IP_ICMP ? 0 : 2 * len;
	if (!whole || to > w->cut)
		c.to = 0; /* not all of it is there */
	else
		c.right = checksum_sum(w, &c) == 0xffff;
	return c;
}

static void
checksum_put(struct walk *w, const struct checksum *c)
{
	uint8_t *at = w->data + c->at;

	if (!c->at || (c->protocol == PR_IP_UDP && !pr_get_be16(at)) || c->at + 2 > w->cut)
		return;
	pr_put_be16(at, 0);
	if (w->a->policy.checksums || !c->to || c->to > w->cut)
		return;
	uint16_t s = (uint16_t)~checksum_sum(w, c);
	s = (uint16_t)(c->right ? s : s ^ 1); /* a wrong one stays wrong */
	pr_put_be16(at, s || c->protocol != PR_IP_UDP ? s : 0xffff);
}

/* ---- names: DNS, DHCP ---- */

/* Each label becomes letters of a hash of it. Returns the place behind the name; 0: it is damaged. */
static size_t
dns_name(struct walk *w, size_t at, size_t end)
{
	uint64_t hash = 0;

	for (int labels = 0; labels < 128 && has(w, at, 1, end); labels++) {
		size_t len = w->data[at];

		if (len >= 0xc0)
			return has(w, at, 2, end) ? at + 2 : 0;
		if (!len)
			return at + 1;
		if (len > 63 || !has(w, at + 1, len, end))
			return 0;
		for (size_t i = 0; i < len;
			i++) /* letters of names are alike in both cases */
			if (w->data[at + 1 + i] >= 'A' && w->data[at + 1 + i] <= 'Z')
				w->data[at + 1 + i] += 32;
		hash = pr_address_map_hash(w->a->map, 'n', w->data + at + 1, len);
		for (size_t i = 0; i < len; i++, hash = hash * 0x9e3779b97f4a7c15 + 1)
			w->data[at + 1 + i] = (uint8_t)('a' + (hash >> 56) % 26);
		at += 1 + len;
	}
	return 0;
}

/* Data of a record of this type: addresses and names are mapped, the rest is blank. */
static void
dns_data(struct walk *w, unsigned type, size_t at, size_t len)
{
	size_t name = type == 2 || type == 5 || type == 12 ? 0
		      : type == 15                         ? 2
		      : type == 33                         ? 6
							   : len;

	if ((type == 1 && len == 4) || (type == 28 && len == 16))
		address(w, at, len);
	else if (name >= len || !dns_name(w, at + name, at + len))
		blank_field(w, at, len);
}

static void
dns(struct walk *w, size_t at, size_t end)
{
	end = PR_MIN(end, w->cut);
	if (w->a->policy.dns || !has(w, at, 12, end)) {
		blank(w, at, end);
		return;
	}
	unsigned questions = pr_get_be16(w->data + at + 4);
	unsigned left = questions + pr_get_be16(w->data + at + 6) +
			pr_get_be16(w->data + at + 8) + pr_get_be16(w->data + at + 10);
	for (at += 12; left; left--) {
		size_t next = dns_name(w, at, end);

		if (!next || !has(w, next, questions ? 4 : 10, end))
			break;
		at = next;
		unsigned type = pr_get_be16(w->data + at);
		if (questions) {
			questions--;
			at += 4;
			continue;
		}
		size_t len = pr_get_be16(w->data + at + 8);
		if (!has(w, at + 10, len, end))
			break;
		dns_data(w, type, at + 10, len);
		at += 10 + len;
	}
	blank(w, at, end);
}

static void
dhcp_options(struct walk *w, size_t at, size_t end)
{
	while (has(w, at, 1, end) && w->data[at] != 255) {
		unsigned code = w->data[at];

		if (!code) {
			at++;
			continue;
		}
		if (!has(w, at, 2, end) || !has(w, at + 2, w->data[at + 1], end))
			break;
		size_t len = w->data[at + 1];
		if ((code == 3 || code == 6 || code == 50 || code == 54) && len % 4 == 0)
			for (size_t i = 0; i < len; i += 4)
				address(w, at + 2 + i, 4);
		else if (code != 1 && code != 53 && code != 51 && code != 58 && code != 59)
			blank_field(w, at + 2, len);
		at += 2 + len;
	}
	blank(w, at + (has(w, at, 1, end) && w->data[at] == 255), end);
}

static void
dhcp(struct walk *w, size_t at, size_t end)
{
	end = PR_MIN(end, w->cut);
	if (w->a->policy.dhcp || !has(w, at, 240, end) || w->data[at + 1] != 1 ||
		w->data[at + 2] != 6) {
		blank(w, at, end);
		return;
	}
	for (size_t i = 12; i < 28; i += 4)
		if (pr_get_be32(w->data + at + i)) /* 0: none is named */
			address(w, at + i, 4);
	mac(w, at + 28);
	blank_field(w, at + 34, 202);
	dhcp_options(w, at + 240, end);
}

/* ---- headers ---- */

static void network(struct walk *w, unsigned type, size_t at, size_t end, int depth);
static void ethernet(struct walk *w, size_t at, size_t end, int depth);

static void
arp(struct walk *w, size_t at, size_t end)
{
	if (w->a->policy.arp || !has(w, at, 28, end) ||
		pr_get_be32(w->data + at) != 0x00010800 ||
		pr_get_be16(w->data + at + 4) != 0x0604) {
		blank(w, at, end);
		return;
	}
	mac(w, at + 8);
	address(w, at + 14, 4);
	if (w->data[at + 7] != 1) /* a request has none */
		mac(w, at + 18);
	else
		memset(w->data + at + 18, 0, 6);
	address(w, at + 24, 4);
	blank(w, at + 28, end);
}

/* A bijection of 16 bits: four rounds of Feistel. */
static void
port(struct walk *w, size_t at)
{
	uint8_t *p = w->data + at;

	for (uint8_t round = 0; w->a->policy.ports && round < 4; round++) {
		uint8_t left = p[0], in[2] = {round, p[1]};

		p[0] = p[1];
		p[1] = left ^ (uint8_t)pr_address_map_hash(w->a->map, 'P', in, 2);
	}
}

static void
tcp_options(struct walk *w, size_t at, size_t end)
{
	while (at < end && w->data[at]) {
		size_t len = w->data[at] == 1 ? 1 : at + 1 < end ? w->data[at + 1] : 0;

		if (!len || (len == 1 && w->data[at] != 1) || len > end - at)
			break;
		/* segment size, window scale, selective acknowledgements, timestamps */
		if (w->data[at] > 5 && w->data[at] != 8) {
			blank_field(w, at, len);
			memset(w->data + at, 1, len);
		}
		at += len;
	}
	if (at < end && w->data[at])
		blank_field(w, at, end - at);
	else if (at < end)
		memset(w->data + at, 0, end - at);
}

static void
tcp(struct walk *w, size_t at, size_t end, PR_UNUSED int depth)
{
	bool dns_port =
		pr_get_be16(w->data + at) == 53 || pr_get_be16(w->data + at + 2) == 53;
	port(w, at);
	port(w, at + 2);
	if (!has(w, at, 20, end)) { /* quoted: 8 bytes */
		blank(w, at + 8, end);
		return;
	}
	size_t header = 4 * (w->data[at + 12] >> 4u);
	if (header < 20 || !has(w, at, header, end)) {
		blank(w, at + 20, end);
		return;
	}
	tcp_options(w, at + 20, at + header);
	at += header;
	if (!dns_port || w->a->policy.payload != PR_PAYLOAD_KEEP)
		payload(w, at, end);
	else if (has(w, at, 2, end) && pr_get_be16(w->data + at) == end - at - 2)
		dns(w, at + 2, end);
	else /* not one whole message: what is a header there may be a name's bytes */
		blank(w, at, end);
}

static void
udp(struct walk *w, size_t at, size_t end, int depth)
{
	bool keep = w->a->policy.payload == PR_PAYLOAD_KEEP;

	unsigned source = pr_get_be16(w->data + at);
	unsigned target = pr_get_be16(w->data + at + 2);
	port(w, at);
	port(w, at + 2);
	if (target == 4789 && has(w, at + 8, 8, end) && w->data[at + 8] & 8 &&
		!w->a->policy.tunnels)
		ethernet(w, at + 16, end, depth + 1);
	else if (target == 4789)
		blank(w, at + 8, end);
	else if (keep && (source == 53 || target == 53 || target == 5353 ||
				 target == 5355 || source == 5355))
		dns(w, at + 8, end);
	else if (keep && (source == 67 || target == 67))
		dhcp(w, at + 8, end);
	else
		payload(w, at + 8, end);
}

static void
quote(struct walk *w, unsigned type, size_t at, size_t end, int depth)
{
	if (w->a->policy.quotes)
		blank(w, at, end);
	else
		network(w, type, at, end, depth + 1);
}

static void
icmp(struct walk *w, size_t at, size_t end, int depth)
{
	unsigned type = w->data[at];
	if (type == 5)
		address(w, at + 4, 4);
	if (type == 3 || type == 4 || type == 5 || type == 11 || type == 12)
		quote(w, PR_ETHERTYPE_IP4, at + 8, end, depth);
	else if (type == 0 || type == 8)
		payload(w, at + 8, end);
	else if (type == 13 || type == 14)
		blank(w, at + 20, end);
	else
		blank(w, at + 4, end);
}

/* Neighbour discovery (RFC 4861): options from `at` on. */
static void
nd_options(struct walk *w, size_t at, size_t end)
{
	while (has(w, at, 8, end) && w->data[at + 1]) {
		size_t len = 8 * w->data[at + 1];

		if (!has(w, at, len, end))
			break;
		if ((w->data[at] == 1 || w->data[at] == 2) && len == 8)
			mac(w, at + 2);
		else if (w->data[at] == 3 && len == 32)
			address(w, at + 16, 16);
		else if (w->data[at] != 5)
			blank_field(w, at + 2, len - 2);
		at += len;
	}
	blank(w, at, end);
}

static void
nd(struct walk *w, unsigned type, size_t at, size_t end)
{
	size_t targets = type == 137 ? 2 : type >= 135 ? 1 : 0;
	size_t options_at = at + (type == 134 ? 16 : 8) + 16 * targets;

	if (w->a->policy.nd || !has(w, at, options_at - at, end)) {
		blank(w, at + 4, end);
		return;
	}
	for (size_t i = 0; i < targets; i++)
		address(w, at + 8 + 16 * i, 16);
	nd_options(w, options_at, end);
}

static void
icmp6(struct walk *w, size_t at, size_t end, int depth)
{
	unsigned type = w->data[at];
	if (type >= 1 && type <= 4)
		quote(w, PR_ETHERTYPE_IP6, at + 8, end, depth);
	else if (type == 128 || type == 129)
		payload(w, at + 8, end);
	else if (type >= 133 && type <= 137)
		nd(w, type, at, end);
	else if (type >= 130 && type <= 132 && has(w, at, 24, end)) {
		address(w, at + 8, 16);
		blank(w, at + 24, end);
	} else
		blank(w, at + 4, end);
}

static void
gre(struct walk *w, size_t at, size_t end, int depth)
{
	unsigned flags = pr_get_be16(w->data + at);
	unsigned type = pr_get_be16(w->data + at + 2);
	size_t header = 4 + (flags & 0x8000 ? 4 : 0) + (flags & 0x2000 ? 4 : 0) +
			(flags & 0x1000 ? 4 : 0);
	if (flags & 0x4fff || !has(w, at, header, end)) {
		blank(w, at + 4, end);
		return;
	}
	if (flags & 0x8000) /* a checksum of what is changed */
		memset(w->data + at + 4, 0, 4);
	if (type == PR_ETHERTYPE_BRIDGED)
		ethernet(w, at + header, end, depth + 1);
	else
		network(w, type, at + header, end, depth + 1);
}

static void
sctp(struct walk *w, size_t at, size_t end, PR_UNUSED int depth)
{
	port(w, at);
	port(w, at + 2);
	memset(w->data + at + 8, 0, 4);
	blank(w, at + 12, end);
}

static void
transport(struct walk *w, unsigned protocol, size_t at, size_t end, int depth)
{
	static const struct {
		uint8_t protocol, shortest;
		void (*change)(struct walk *w, size_t at, size_t end, int depth);
	} headers[] = {{PR_IP_TCP, 8, tcp}, {PR_IP_UDP, 8, udp}, {PR_IP_ICMP, 8, icmp},
		{PR_IP_ICMP6, 8, icmp6}, {PR_IP_GRE, 4, gre}, {PR_IP_SCTP, 12, sctp}};
	bool ip = protocol == PR_IP_IN_IP || protocol == PR_IP_IN_IP6;
	bool hidden = w->a->policy.tunnels && (ip || protocol == PR_IP_GRE);

	if (ip && !hidden) {
		network(w, protocol == PR_IP_IN_IP ? PR_ETHERTYPE_IP4 : PR_ETHERTYPE_IP6,
			at, end, depth + 1);
		return;
	}
	for (size_t i = 0; i < PR_COUNT(headers) && !hidden; i++)
		if (headers[i].protocol == protocol &&
			has(w, at, headers[i].shortest, end)) {
			headers[i].change(w, at, end, depth);
			return;
		}
	if (protocol !=
		PR_IP_NONE) /* no ports that are known, nothing that is understood */
		blank(w, at, end);
}

static void
ip4(struct walk *w, size_t at, size_t end, int depth)
{
	size_t header;

	if (!has(w, at, 20, end) || w->data[at] >> 4 != 4 ||
		(header = 4 * (w->data[at] & 15u)) < 20 || !has(w, at, header, end)) {
		blank(w, at, end);
		return;
	}
	size_t told = pr_get_be16(w->data + at + 2);
	bool fragment = pr_get_be16(w->data + at + 6) & 0x3fff;
	size_t whole = told ? at + told : end; /* 0: offload */
	size_t stop = whole < at + header ? at + header : PR_MIN(whole, end);
	struct checksum c =
		checksum_find(w, w->data[at + 9], at + header, fragment ? end + 1 : whole,
			at + 12, 4, !fragment && whole <= end && whole > at + header);
	bool right = fold(sum(0, w->data + at, header)) == 0xffff;
	address(w, at + 12, 4);
	address(w, at + 16, 4);
	if (header > 20) {
		blank_field(w, at + 20, header - 20);
		memset(w->data + at + 20, 1,
			header - 20); /* no operation: 0 would end them */
	}
	blank(w, stop, end);
	if (pr_get_be16(w->data + at + 6) & 0x1fff)
		payload(w, at + header, stop);
	else
		transport(w, w->data[at + 9], at + header, stop, depth);
	checksum_put(w, &c);
	if (pr_get_be16(w->data + at + 10)) {

		pr_put_be16(w->data + at + 10, 0);
		uint16_t s = (uint16_t)~fold(sum(0, w->data + at, header));
		if (!w->a->policy.checksums)
			pr_put_be16(w->data + at + 10, right ? s : s ^ 1);
	}
}

/* Options of extension headers: padding, router alert and jumbo payload stay, others become padding. */
static void
ip6_options(struct walk *w, size_t at, size_t end)
{
	while (at < end) {
		uint8_t *o = w->data + at;
		size_t len = !*o ? 1 : at + 1 < end ? 2u + o[1] : 0;

		if (!len || len > end - at) { /* damaged */
			blank_field(w, at, end - at);
			return;
		}
		if (*o && (*o != 5 || len != 4) && (*o != 0xc2 || len != 6)) {
			if (*o != 1)
				w->blanked = true;
			*o = 1;
			memset(o + 2, 0, len - 2);
		}
		at += len;
	}
}

/* Passes extension headers, whose options are blanked. Returns the place behind them; 0: none was understood. */
static size_t
ip6_extensions(struct walk *w, size_t at, size_t end, unsigned *protocol, bool *fragment,
	bool *later)
{
	for (int i = 0; i < 8; i++) {
		unsigned p = *protocol;
		size_t len = 8;

		if (p != PR_IP_HOP_BY_HOP && p != PR_IP_ROUTING && p != PR_IP_FRAGMENT &&
			p != PR_IP_DESTINATION && p != PR_IP_AH)
			return at;
		if (!has(w, at, 8, end))
			return 0;
		if (p == PR_IP_AH)
			len = 4 * (w->data[at + 1] + 2u);
		else if (p != PR_IP_FRAGMENT)
			len = 8 * (w->data[at + 1] + 1u);
		if (!has(w, at, len, end))
			return 0;
		*protocol = w->data[at];
		if (p == PR_IP_FRAGMENT) {
			*fragment = true;
			*later |= (pr_get_be16(w->data + at + 2) & 0xfff8) != 0;
		} else if (p == PR_IP_HOP_BY_HOP || p == PR_IP_DESTINATION) {
			ip6_options(w, at + 2, at + len);
		} else {
			size_t keep = p == PR_IP_AH ? 12 : 4;

			if (len > keep)
				blank_field(w, at + keep, len - keep);
		}
		at += len;
		if (*later)
			return at;
	}
	return 0;
}

static void
ip6(struct walk *w, size_t at, size_t end, int depth)
{
	bool fragment = false, later = false;

	if (!has(w, at, 40, end) || w->data[at] >> 4 != 6) {
		blank(w, at, end);
		return;
	}
	size_t told = pr_get_be16(w->data + at + 4);
	unsigned protocol = w->data[at + 6];
	size_t whole = told ? at + 40 + told : end; /* 0: a jumbogram, or offload */
	size_t stop = PR_MIN(whole, end);
	blank(w, stop, end);
	size_t body = ip6_extensions(w, at + 40, stop, &protocol, &fragment, &later);
	struct checksum c = {.at = 0};
	if (body)
		c = checksum_find(w, (uint8_t)protocol, body, fragment ? end + 1 : whole,
			at + 8, 16, !fragment && whole <= end);
	address(w, at + 8, 16);
	address(w, at + 24, 16);
	if (!body)
		blank(w, at + 40, stop);
	else if (later)
		payload(w, body, stop);
	else
		transport(w, protocol, body, stop, depth);
	checksum_put(w, &c);
}

static unsigned
by_version(const struct walk *w, size_t at)
{
	return at >= w->cut            ? 0
	       : w->data[at] >> 4 == 4 ? PR_ETHERTYPE_IP4
	       : w->data[at] >> 4 == 6 ? PR_ETHERTYPE_IP6
				       : 0;
}

static void
network(struct walk *w, unsigned type, size_t at, size_t end, int depth)
{
	end = PR_MIN(end, w->cut);
	for (int tags = 0; tags < 8; tags++) {
		bool vlan = type == PR_ETHERTYPE_VLAN || type == PR_ETHERTYPE_STAG ||
			    type == PR_ETHERTYPE_OLD_STAG;
		bool label =
			type == PR_ETHERTYPE_MPLS || type == PR_ETHERTYPE_MPLS_UPSTREAM;

		if ((!vlan && !label) || !has(w, at, 4, end))
			break;
		bool last = w->data[at + 2] & 1;
		if (vlan)
			type = pr_get_be16(w->data + at + 2);
		else if (last)
			type = by_version(w, at + 4);
		at += 4;
	}
	if (type == PR_ETHERTYPE_PPPOE && has(w, at, 8, end)) { /* PPPoE */
		unsigned ppp = pr_get_be16(w->data + at + 6);

		type = ppp == 0x21 ? PR_ETHERTYPE_IP4 : ppp == 0x57 ? PR_ETHERTYPE_IP6 : 0;
		at += 8;
	}
	if (depth >= DEPTH)
		blank(w, at, end);
	else if (type == PR_ETHERTYPE_IP4)
		ip4(w, at, end, depth);
	else if (type == PR_ETHERTYPE_IP6)
		ip6(w, at, end, depth);
	else if (type == PR_ETHERTYPE_ARP || type == PR_ETHERTYPE_RARP)
		arp(w, at, end);
	else
		blank(w, at, end);
}

static void
ethernet(struct walk *w, size_t at, size_t end, int depth)
{
	if (!has(w, at, 14, end)) {
		blank(w, at, end);
		return;
	}
	unsigned type = pr_get_be16(w->data + at + 12);
	mac(w, at);
	mac(w, at + 6);
	network(w, type, at + 14, end, depth);
}

/* A header of Linux's cooked captures: the place of its address, whose length is there. */
static void
cooked(struct walk *w, size_t header, size_t type_at, size_t len_at, size_t len_bytes,
	size_t address_at)
{
	if (!has(w, 0, header, w->cut)) {
		blank(w, 0, w->cut);
		return;
	}
	size_t len = w->data[len_at + len_bytes - 1];
	if (len == 6)
		mac(w, address_at);
	memset(w->data + address_at + (len == 6 ? 6 : 0), 0, len == 6 ? 2 : 8);
	network(w, pr_get_be16(w->data + type_at), header, w->cut, 0);
}

void
pr_anonymize(struct pr_anonymizer *a, struct pr_packet *p, uint8_t *data)
{
	struct walk w = {.a = a, .data = data, .cut = p->caplen};

	a->figures.packets++;
	switch (p->linktype) {
	case PR_LINKTYPE_ETHERNET:
		ethernet(&w, 0, w.cut, 0);
		break;
	case PR_LINKTYPE_RAW:
	case PR_LINKTYPE_IP4:
	case PR_LINKTYPE_IP6:
		network(&w, by_version(&w, 0), 0, w.cut, 0);
		break;
	case PR_LINKTYPE_NULL:
	case PR_LINKTYPE_LOOP:
		network(&w, by_version(&w, 4), PR_MIN(4, w.cut), w.cut, 0);
		break;
	case PR_LINKTYPE_SLL:
		cooked(&w, 16, 14, 4, 2, 6);
		break;
	case PR_LINKTYPE_SLL2:
		cooked(&w, 20, 0, 11, 1, 12);
		break;
	default:
		blank(&w, 0, w.cut);
	}
	a->figures.blanked_packets += w.blanked;
	p->data = data;
	p->caplen = (uint32_t)w.cut;
	p->time = pr_time_minus(p->time, -a->policy.shift);
	p->otime = pr_time_minus(p->otime, -a->policy.shift);
}
