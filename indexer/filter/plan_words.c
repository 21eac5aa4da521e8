/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "indexer/filter/plan.h"
#include "proto/base/units.h"

/* ---- keys ---- */

static void
print_address(FILE *to, const uint8_t *bytes, size_t len)
{
	char text[PR_ADDRESS_TEXT];

	fputs(pr_format_address(bytes, len, text), to);
}

/*
 * Kinds of keys and numbers are in pairs: even for the source, the next one for the
 * destination.
 */
static const char *
side_of(uint64_t number, bool both)
{
	return both ? "" : number % 2 ? "dst " : "src ";
}

/* A type or a protocol. */
static void
print_named(FILE *to, const char *what, uint8_t kind, uint32_t value)
{
	static const struct {
		uint8_t kind;
		uint16_t value;
		const char *name;
	} names[] = {{PRI_KEY_ETHERTYPE, 0x0800, "IPv4"},
		{PRI_KEY_ETHERTYPE, 0x0806, "ARP"}, {PRI_KEY_ETHERTYPE, 0x8035, "RARP"},
		{PRI_KEY_ETHERTYPE, 0x86dd, "IPv6"}, {PRI_KEY_ETHERTYPE, 0x8100, "VLAN"},
		{PRI_KEY_ETHERTYPE, 0x88a8, "QinQ"}, {PRI_KEY_ETHERTYPE, 0x8847, "MPLS"},
		{PRI_KEY_ETHERTYPE, 0x8864, "PPPoE"}, {PRI_KEY_PROTO, 1, "ICMP"},
		{PRI_KEY_PROTO, 6, "TCP"}, {PRI_KEY_PROTO, 17, "UDP"},
		{PRI_KEY_PROTO, 58, "ICMPv6"}, {PRI_KEY_PROTO, 132, "SCTP"}};

	for (size_t i = 0; i < PR_COUNT(names); i++)
		if (names[i].kind == kind && names[i].value == value) {
			fprintf(to, "%s %s", what, names[i].name);
			return;
		}
	fprintf(to, value > 255 ? "%s 0x%04x" : "%s %u", what, value);
}

/*
 * Prints a leaf of a plan in words. both: the leaf is of one side, and an equal leaf of the
 * other side is an alternative.
 */
static void
plan_print_key(FILE *to, const struct pri_key *key, bool both)
{
	const char *side = side_of(key->kind, both);
	const uint8_t *b = key->bytes;
	size_t half = key->len / 2;
	uint8_t net[16] = {0};

	switch (key->kind) {
	case PRI_KEY_SRC:
	case PRI_KEY_DST:
		fprintf(to, "%shost ", side);
		print_address(to, b, key->len);
		break;
	case PRI_KEY_SPORT:
	case PRI_KEY_DPORT:
		fprintf(to, "%sport %u", side, pr_get_be16(b));
		break;
	case PRI_KEY_MAC_SRC:
	case PRI_KEY_MAC_DST:
		fprintf(to, "ether %s%02x:%02x:%02x:%02x:%02x:%02x", both ? "host " : side,
			b[0], b[1], b[2], b[3], b[4], b[5]);
		break;
	case PRI_KEY_NET:
		memcpy(net, b, key->len);
		fputs("net ", to);
		print_address(to, net, key->len < 4 ? 4 : 16);
		fprintf(to, "/%u", 8u * key->len);
		break;
	case PRI_KEY_ETHERTYPE:
		print_named(to, "type", key->kind, pr_get_be16(b));
		break;
	case PRI_KEY_PROTO:
		print_named(to, "protocol", key->kind, b[0]);
		break;
	case PRI_KEY_VLAN:
		fprintf(to, "VLAN %u", pr_get_be16(b));
		break;
	case PRI_KEY_MPLS:
		fprintf(to, "MPLS label %u", pr_get_be32(b));
		break;
	case PRI_KEY_PAIR:
		fputs("between ", to);
		print_address(to, b, half);
		fputs(" and ", to);
		print_address(to, b + half, half);
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
plan_print_range(FILE *to, const struct pri_plan_range *r, bool both)
{
	bool addresses = r->number == PRI_NUMBER_SRC4 || r->number == PRI_NUMBER_DST4;
	char from[PR_TIME_TEXT], until[PR_TIME_TEXT];
	const int64_t ends[] = {r->least, r->most};
	uint8_t b[4];

	if (r->number == PRI_NUMBER_TIME) {
		pr_time_format(r->least, from, sizeof(from));
		pr_time_format(r->most, until, sizeof(until));
		if (r->most == PR_TIME_MAX)
			fprintf(to, "after %s", from);
		else if (r->least == PR_TIME_MIN)
			fprintf(to, "before %s", until);
		else
			fprintf(to, "between %s and %s", from, until);
		return;
	}
	if (r->number == PRI_NUMBER_LENGTH && r->most == UINT32_MAX) {
		fprintf(to, "length %" PRId64 " and more", r->least);
		return;
	}
	if (r->number == PRI_NUMBER_LENGTH)
		fputs("length", to);
	else
		fprintf(to, "%s%s", side_of(r->number, both), addresses ? "host" : "port");
	for (int i = 0; i < (r->least == r->most ? 1 : 2); i++) {
		fputc(i ? '-' : ' ', to);
		pr_put_be32(b, ends[i]);
		if (addresses)
			print_address(to, b, 4);
		else
			fprintf(to, "%" PRId64, ends[i]);
	}
}

struct words {
	FILE *to;
	const struct pri_plan *plan;
	unsigned lines; /* printed so far */
};

enum { ALTERNATIVES_SHOWN = 8, NESTING_SHOWN = 8 };

/* Of an OR, its alternatives; of an AND, its parts. */
struct list {
	uint32_t items[PRI_PLAN_WORDS_MAX];
	size_t count, more;
};

static const struct pri_plan_node *
node_of(const struct words *w, uint32_t node)
{
	return &w->plan->nodes[node];
}

static void
begin_line(struct words *w, unsigned indent)
{
	w->lines++;
	for (unsigned i = 0; i < indent; i++)
		fputc('\t', w->to);
}

/* ---- nodes ---- */

/* True if two alternatives are the same test of source and destination. */
static bool
both_sides(const struct words *w, uint32_t na, uint32_t nb)
{
	const struct pri_plan_node *a = node_of(w, na), *b = node_of(w, nb);

	if (a->op == PRI_PLAN_KEY && b->op == PRI_PLAN_KEY) {
		const struct pri_key *x = &w->plan->keys[a->left],
				     *y = &w->plan->keys[b->left];
		struct pri_key one = pri_key_either(x), other = pri_key_either(y);

		return x->kind != y->kind && pri_key_equal(&one, &other);
	}
	if (a->op == PRI_PLAN_RANGE && b->op == PRI_PLAN_RANGE) {
		const struct pri_plan_range *x = &w->plan->ranges[a->left],
					    *y = &w->plan->ranges[b->left];
		/* numbers of either side differ by one, the even one first */
		return x->number >= PRI_NUMBER_SPORT && (x->number ^ y->number) == 1 &&
		       x->least == y->least && x->most == y->most;
	}
	return false;
}

/* What composite keys as configured are made of: parts that are said one by one already. */
static bool
said_in_parts(const struct words *w, uint32_t node)
{
	const struct pri_plan_node *n = node_of(w, node);

	for (; n->op == PRI_PLAN_OR && said_in_parts(w, n->left); n = node_of(w, n->right))
		;
	return n->op == PRI_PLAN_PARTS ||
	       (n->op == PRI_PLAN_KEY && w->plan->keys[n->left].kind == PRI_KEY_SERVICE);
}

/* Without the parts that go with it. */
static uint32_t
plain(const struct words *w, uint32_t node)
{
	const struct pri_plan_node *n = node_of(w, node);

	if (n->op == PRI_PLAN_AND && said_in_parts(w, n->left))
		return plain(w, n->right);
	if (n->op == PRI_PLAN_AND && said_in_parts(w, n->right))
		return plain(w, n->left);
	return node;
}

static void
flatten(const struct words *w, uint32_t node, struct list *list)
{
	unsigned op = node_of(w, node)->op;

	*list = (struct list){.count = 0};
	for (;; node = node_of(w, node)->right) {
		bool last = node_of(w, node)->op != op;
		uint32_t item = last ? node : node_of(w, node)->left;

		if (said_in_parts(w, item))
			;
		else if (list->count < PRI_PLAN_WORDS_MAX)
			list->items[list->count++] = plain(w, item);
		else
			list->more++;
		if (last)
			return;
	}
}

static void
print_leaf(struct words *w, uint32_t node, unsigned indent, bool both)
{
	const struct pri_plan_node *n = node_of(w, node);

	begin_line(w, indent);
	if (n->op == PRI_PLAN_KEY)
		plan_print_key(w->to, &w->plan->keys[n->left], both);
	else if (n->op == PRI_PLAN_RANGE)
		plan_print_range(w->to, &w->plan->ranges[n->left], both);
	else
		fputs(n->op != PRI_PLAN_FALSE ? "anything: packets are looked at one by one"
					      : "nothing: no packet can match",
			w->to);
	fputc('\n', w->to);
}

static void print_node(struct words *w, uint32_t node, unsigned indent, unsigned depth);

static void
print_alternatives(struct words *w, struct list *list, unsigned indent, unsigned depth)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t other = i + 1;

		if (i == ALTERNATIVES_SHOWN || w->lines >= PRI_PLAN_WORDS_MAX) {
			begin_line(w, indent);
			fprintf(w->to, "and %zu more\n", list->count - i + list->more);
			return;
		}
		while (other < list->count &&
			!both_sides(w, list->items[i], list->items[other]))
			other++;
		if (other == list->count) {
			print_node(w, list->items[i], indent, depth);
			continue;
		}
		print_leaf(w, list->items[i], indent, true);
		memmove(list->items + other, list->items + other + 1,
			(list->count - other - 1) * sizeof(list->items[0]));
		list->count--;
	}
}

static void
print_node(struct words *w, uint32_t node, unsigned indent, unsigned depth)
{
	const struct pri_plan_node *n = node_of(w, node = plain(w, node));
	struct list list;

	if (n->op != PRI_PLAN_AND && n->op != PRI_PLAN_OR) {
		print_leaf(w, node, indent, false);
		return;
	}
	flatten(w, node, &list);
	if (n->op == PRI_PLAN_OR && list.count == 2 && !list.more &&
		both_sides(w, list.items[0], list.items[1])) {
		print_leaf(w, list.items[0], indent, true);
		return;
	}
	begin_line(w, indent);
	if (depth == NESTING_SHOWN) {
		fputs("...\n", w->to);
		return;
	}
	fputs(n->op == PRI_PLAN_AND ? "all of\n" : "any of\n", w->to);
	if (n->op == PRI_PLAN_OR)
		print_alternatives(w, &list, indent + 1, depth + 1);
	else
		for (size_t i = 0; i < list.count && w->lines < PRI_PLAN_WORDS_MAX; i++)
			print_node(w, list.items[i], indent + 1, depth + 1);
}

void
pri_plan_print(FILE *to, const struct pri_plan *plan, unsigned indent)
{
	struct words w = {.to = to, .plan = plan};

	print_node(&w, plan->count - 1, indent, 0);
	if (w.lines >= PRI_PLAN_WORDS_MAX) {
		begin_line(&w, indent);
		fprintf(to, "(%zu keys and %zu ranges in all)\n", plan->key_count,
			plan->range_count);
	}
}
