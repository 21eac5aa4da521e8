/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_words.h"

#include <arpa/inet.h>
#include <inttypes.h>

#include "proto/base/clock.h"
#include "proto/wire/cursor.h"

/* ---- keys ---- */

static void
print_address(FILE *to, const uint8_t *bytes, size_t len)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(len == 16 ? AF_INET6 : AF_INET, bytes, text, sizeof(text));
	fputs(text, to);
}

static void
print_net(FILE *to, const struct pri_key *key)
{
	uint8_t bytes[16] = {0};

	memcpy(bytes, key->bytes, key->len);
	fputs("net ", to);
	print_address(to, bytes, key->len < 4 ? 4 : 16);
	fprintf(to, "/%u", 8u * key->len);
}

static void
print_mac(FILE *to, const uint8_t *b)
{
	fprintf(to, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
}

static void
print_named(FILE *to, const char *what, uint32_t value, const char *const *names,
	const uint32_t *values)
{
	for (size_t i = 0; names[i]; i++)
		if (values[i] == value) {
			fprintf(to, "%s %s", what, names[i]);
			return;
		}
	fprintf(to, value > 255 ? "%s 0x%04x" : "%s %u", what, value);
}

static void
print_type(FILE *to, uint32_t value)
{
	static const char *const names[] = {
		"IPv4", "ARP", "RARP", "IPv6", "VLAN", "QinQ", "MPLS", "PPPoE", NULL};
	static const uint32_t values[] = {
		0x0800, 0x0806, 0x8035, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8864};

	print_named(to, "type", value, names, values);
}

static void
print_proto(FILE *to, uint32_t value)
{
	static const char *const names[] = {"ICMP", "TCP", "UDP", "ICMPv6", "SCTP", NULL};
	static const uint32_t values[] = {1, 6, 17, 58, 132};

	print_named(to, "protocol", value, names, values);
}

static void
print_pair(FILE *to, const struct pri_key *key)
{
	size_t len = key->len / 2;

	fputs("between ", to);
	print_address(to, key->bytes, len);
	fputs(" and ", to);
	print_address(to, key->bytes + len, len);
}

void
pri_plan_print_key(FILE *to, const struct pri_key *key, bool both)
{
	const uint8_t *b = key->bytes;

	switch (key->kind) {
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
		fputs(both ? "" : key->kind == PRI_KEY_SRC ? "src " : "dst ", to);
		fputs("host ", to);
		print_address(to, b, key->len);
		break;
	case PRI_KEY_SPORT:
	case PRI_KEY_DPORT:
		fputs(both ? "" : key->kind == PRI_KEY_SPORT ? "src " : "dst ", to);
		fprintf(to, "port %u", pr_get_be16(b));
		break;
	case PRI_KEY_MAC_SRC:
	case PRI_KEY_MAC_DST:
		fprintf(to, "ether %s ",
			both                           ? "host"
			: key->kind == PRI_KEY_MAC_SRC ? "src"
						       : "dst");
		print_mac(to, b);
		break;
	case PRI_KEY_NET:
		print_net(to, key);
		break;
	case PRI_KEY_ETHERTYPE:
		print_type(to, pr_get_be16(b));
		break;
	case PRI_KEY_PROTO:
		print_proto(to, b[0]);
		break;
	case PRI_KEY_VLAN:
		fprintf(to, "VLAN %u", pr_get_be16(b));
		break;
	case PRI_KEY_MPLS:
		fprintf(to, "MPLS label %u", pr_get_be32(b));
		break;
	case PRI_KEY_PAIR:
		print_pair(to, key);
		break;
	case PRI_KEY_FRAGMENT:
		fputs("later IPv4 fragment", to);
		break;
	case PRI_KEY_ICMP:
	case PRI_KEY_ICMP6:
		fprintf(to, "%s type %u", key->kind == PRI_KEY_ICMP ? "ICMP" : "ICMPv6",
			b[0]);
		break;
	default:
		fprintf(to, "key of kind %u", key->kind);
	}
}

/* ---- ranges ---- */

static void
print_ends(FILE *to, const struct pri_plan_range *r, bool addresses)
{
	int64_t ends[] = {r->least, r->most};

	for (unsigned i = 0; i < 2; i++) {
		uint8_t b[4];

		if (i && r->least == r->most)
			return;
		if (i)
			fputc('-', to);
		pr_put_be32(b, (uint32_t)ends[i]);
		if (addresses)
			print_address(to, b, 4);
		else
			fprintf(to, "%" PRId64, ends[i]);
	}
}

static void
print_times(FILE *to, const struct pri_plan_range *r)
{
	char from[PR_TIME_TEXT], until[PR_TIME_TEXT];

	pr_time_format(r->least, from, sizeof(from));
	pr_time_format(r->most, until, sizeof(until));
	if (r->most == PR_TIME_MAX)
		fprintf(to, "after %s", from);
	else if (r->least == PR_TIME_MIN)
		fprintf(to, "before %s", until);
	else
		fprintf(to, "between %s and %s", from, until);
}

void
pri_plan_print_range(FILE *to, const struct pri_plan_range *r, bool both)
{
	bool src = r->number == PRI_NUMBER_SRC4 || r->number == PRI_NUMBER_SPORT,
	     addresses = r->number == PRI_NUMBER_SRC4 || r->number == PRI_NUMBER_DST4;

	if (r->number == PRI_NUMBER_TIME) {
		print_times(to, r);
		return;
	}
	if (r->number == PRI_NUMBER_LENGTH && r->most == UINT32_MAX) {
		fprintf(to, "length %" PRId64 " and more", r->least);
		return;
	}
	if (r->number == PRI_NUMBER_LENGTH)
		fputs("length ", to);
	else
		fprintf(to, "%s%s ",
			both  ? ""
			: src ? "src "
			      : "dst ",
			addresses ? "host" : "port");
	print_ends(to, r, addresses);
}
