/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_record.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "indexer/query/tally_key.h"
#include "merger/cli/query/ask.h"
#include "proto/base/units.h"

/* ---- networks of ours ---- */

/* The first so many of 64 bits. */
static uint64_t
first_bits(unsigned long bits)
{
	return bits ? UINT64_MAX << (64 - bits) : 0;
}

static void
address_numbers(const uint8_t *address, unsigned len, uint64_t *high, uint64_t *low)
{
	*high = len == 16 ? pr_get_be64(address) : 0;
	*low = len == 16 ? pr_get_be64(address + 8) : pr_get_be32(address);
}

int
network_parse(const char *text, struct network *out, struct pr_error *err)
{
	char address[64] = "", bits[4], more;
	uint8_t bytes[16];
	int got = sscanf(text, "%63[^/]/%3[0-9]%c", address, bits, &more);
	unsigned prefix = got == 2 ? (unsigned)atoi(bits) : 0;
	unsigned len = pr_parse_address(address, bytes);

	if (!len)
		return pr_error_set(
			err, "%s: not a network, as in 10.0.0.0/8 or 2001:db8::/32", text);
	if (got < 2 && !strchr(text, '/'))
		prefix = 8 * len;
	else if (got != 2 || prefix > 8 * len)
		return pr_error_set(err, "%s: the prefix has 0 to %u bits", text, 8 * len);
	prefix += 128 - 8 * len;
	*out = (struct network){.six = len == 16,
		.high_mask = first_bits(PR_MIN(prefix, 64)),
		.low_mask = first_bits(prefix - PR_MIN(prefix, 64))};
	address_numbers(bytes, len, &out->high, &out->low);
	return 0;
}

int
networks_parse(struct networks *n, const char *option, const struct pr_string_list *texts,
	struct pr_error *err)
{
	*n = (struct networks){.all = calloc(texts->count + 1, sizeof(*n->all))};
	if (!n->all)
		return pr_error_set(err, "no memory for %s", option);
	for (; n->count < texts->count; n->count++)
		if (network_parse(texts->items[n->count], &n->all[n->count], err) < 0)
			return pr_error_prefix(err, "%s", option);
	return 0;
}

void
networks_free(struct networks *n)
{
	free(n->all);
}

bool
networks_have(const struct networks *all, const uint8_t *address, uint8_t len)
{
	uint64_t high, low;

	address_numbers(address, len, &high, &low);
	return networks_have_number(all, high, low, len == 16);
}

/* ---- what is missing ---- */

PR_ORDER(compare_losses, struct flow_loss, link, time)

/* In order, with the sums of each link. */
static void
losses_sum(struct flow_loss *all, size_t count)
{
	PR_SORT(all, count, compare_losses);
	for (size_t i = 1; i < count; i++)
		if (all[i].link == all[i - 1].link)
			all[i].sum += all[i - 1].sum;
}

int
flow_losses_take(
	struct flow_losses *l, const Packrack__Completeness *c, struct pr_error *err)
{
	size_t count = c->n_missing + c->n_missing_classes;

	*l = (struct flow_losses){.begins = calloc(count + 1, sizeof(*l->begins)),
		.ends = calloc(count + 1, sizeof(*l->ends))};
	if (!l->begins || !l->ends)
		return pr_error_set(err, "no memory for the list of what is missing");
	for (size_t i = 0; i < count; i++) {
		const Packrack__Loss *of = report_missing(c, i);
		uint16_t link = (uint16_t)of->link;

		l->begins[i] = (struct flow_loss){link, of->first_time, of->count};
		l->ends[i] = (struct flow_loss){
			link, PR_MAX(of->last_time, of->first_time), of->count};
	}
	l->count = count;
	l->untold = report_untold(c) + c->pending_packets + c->dropped_packets;
	l->unanswered = c->pending_packets > 0;
	for (size_t i = 0; i < c->n_nodes; i++)
		l->unanswered |= !c->nodes[i]->answered && !c->nodes[i]->left_out;
	losses_sum(l->begins, count);
	losses_sum(l->ends, count);
	return 0;
}

int
flow_losses_ask(struct flow_losses *l, const struct query_args *args, struct pr_error *err)
{
	struct query_args count = *args;
	struct sink sink;

	/* without a filter, what is held is read from the index; the counts themselves are not needed */
	count.count = true;
	count.tally.group = PRI_TALLY_KEY_TIME;
	count.tally.step = INT64_MAX;
	count.quiet = true;
	count.explain = false;
	count.write = NULL;
	count.filter = (char *)"";
	sink_init(&sink, &count);
	int status = ask_query(&sink, err);
	if (status == CLI_OK && sink.end->cancelled)
		status = pr_error_as(CLI_FAILED, err, "interrupted");
	if (status == CLI_OK && sink.end->completeness &&
		flow_losses_take(l, sink.end->completeness, err) < 0)
		status = CLI_FAILED;
	sink_close(&sink);
	return status;
}

void
flow_losses_free(struct flow_losses *l)
{
	PR_FREE(l, begins, ends);
}

/* The sum of the link's entries before a time. */
static uint64_t
sum_before(const struct flow_loss *all, size_t count, uint16_t link, int64_t time)
{
	const struct flow_loss at = {.link = link, .time = time};
	size_t n = PR_ARRAY_SEARCH(count, compare_losses(&all[mid], &at) < 0);

	return n && all[n - 1].link == link ? all[n - 1].sum : 0;
}

uint64_t
flow_losses_between(const struct flow_losses *l, uint16_t link, int64_t first, int64_t last)
{
	if (!l->count)
		return l->untold;
	/* those that begin until `last`, without those that end before `first` */
	return sum_before(l->begins, l->count, link, last < INT64_MAX ? last + 1 : last) -
	       sum_before(l->ends, l->count, link, first) + l->untold;
}

/* ---- a record ---- */

/* The same for the same flow, wherever it is made. */
static void
make_uid(const struct pri_flow *flow, char out[20])
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	struct {
		struct pri_flow_key key;
		int32_t unused;
		int64_t first;
	} of = {.key = flow->key, .first = pri_flow_first(flow)};
	int at = 0;

	XXH128_hash_t h = XXH3_128bits(&of, sizeof(of));
	unsigned __int128 hash = (unsigned __int128)h.high64 << 64 | h.low64;
	out[at++] = 'C';
	for (; at < 18; hash /= 62)
		out[at++] = digits[hash % 62];
	out[at] = 0;
}

#define TEN(d)                                                                             \
	d "0.", d "1.", d "2.", d "3.", d "4.", d "5.", d "6.", d "7.", d "8.", d "9."
#define NINETY(d)                                                                          \
	TEN(d "1"), TEN(d "2"), TEN(d "3"), TEN(d "4"), TEN(d "5"), TEN(d "6"),            \
		TEN(d "7"), TEN(d "8"), TEN(d "9")
static const uint8_t decimals[][8] = {TEN(""), NINETY(""), TEN("10"), NINETY("1"),
	TEN("20"), TEN("21"), TEN("22"), TEN("23"), TEN("24"), "250.", "251.", "252.",
	"253.", "254.", "255."};

size_t
flow_four_text(uint32_t address, char buf[16])
{
	uint64_t half[2], bits[2];

	for (unsigned i = 0; i < 2; i++, address <<= 16) {
		uint8_t one = (uint8_t)(address >> 24), two = (uint8_t)(address >> 16);
		unsigned size = 2u + (one >= 10) + (one >= 100);

		half[i] = pr_get_le32(decimals[one]) | (uint64_t)pr_get_le32(decimals[two])
							       << 8 * size;
		bits[i] = 8 * (size + 2u + (two >= 10) + (two >= 100));
	}
	bits[1] -= 8; /* the last point */
	half[1] &= (UINT64_C(1) << bits[1]) - 1;
	/* a first half has 4 to 8 bytes */
	pr_put_le64((uint8_t *)buf, half[0] | half[1] << 32 << (bits[0] - 32));
	pr_put_le64((uint8_t *)buf + 8, half[1] >> (64 - bits[0]));
	return (bits[0] + bits[1]) / 8;
}

/* Eight words; the longest row of zeros is "::". */
static char *
six_text(const uint8_t *bytes, char *to)
{
	unsigned word[8], zeros = 0, best = 8, most = 1;

	for (unsigned i = 0; i < 8; i++) {
		word[i] = pr_get_be16(bytes + 2 * i);
		zeros = word[i] ? 0 : zeros + 1;
		if (zeros > most) {
			most = zeros;
			best = i + 1 - zeros;
		}
	}
	if (best == 0 && most >= 5) { /* the end may be written as four bytes are */
		inet_ntop(AF_INET6, bytes, to, INET6_ADDRSTRLEN);
		return to + strlen(to);
	}
	for (unsigned i = 0; i < 8; i++) {
		if (i || best == 0)
			*to++ = ':';
		if (i == best) {
			i += most - 1;
			if (i == 7)
				*to++ = ':';
			continue;
		}
		for (int shift = 12; shift >= 0; shift -= 4)
			if (word[i] >> shift || !shift)
				*to++ = "0123456789abcdef"[word[i] >> shift & 15];
	}
	return to;
}

size_t
flow_address_text(const uint8_t *bytes, unsigned len, char buf[INET6_ADDRSTRLEN])
{
	if (len == 4)
		return flow_four_text(pr_get_be32(bytes), buf);
	char *end = six_text(bytes, buf);
	*end = 0;
	return (size_t)(end - buf);
}

const char *
flow_address(const struct pri_flow_key *key, unsigned side, char buf[INET6_ADDRSTRLEN])
{
	flow_address_text(key->address[side], key->address_len, buf);
	return buf;
}

void
flow_record_make(struct flow_record *r, const struct pri_flow *flow,
	const struct flow_context *context)
{
	const struct pri_flow_key *k = &flow->key;
	unsigned o = flow->originator;

	*r = (struct flow_record){.flow = flow,
		.sent = &flow->side[o],
		.received = &flow->side[!o],
		.state = pri_flow_state_name(pri_flow_state(flow)),
		.sport = k->port[o],
		.dport = k->port[!o],
		.first = pri_flow_first(flow),
		.last = pri_flow_last(flow)};
	flow_address(k, o, r->src);
	flow_address(k, !o, r->dst);
	pri_community_id(k, context->seed, r->community_id);
	make_uid(flow, r->uid);
	r->context = context;
	r->missing =
		context->kept ? context->missing : flow_losses_of(&context->losses, flow);
	if (!context->live)
		PR_PRINT(r->missing_text, "%" PRIu64, r->missing);
	if (context->inside.count) {
		bool from = networks_have(&context->inside, k->address[o], k->address_len);
		bool to = networks_have(&context->inside, k->address[!o], k->address_len);

		r->outgoing = from && !to ? "true" : "false";
	}
}

const char *
flow_protocol_name(uint8_t protocol, char buf[8])
{
	const char *name = pri_protocol_name(protocol);

	snprintf(buf, 8, "%u", protocol);
	return name ? name : buf;
}

/* ---- forms ---- */

static void
print_text(const struct flow_record *r)
{
	char time[PR_TIME_TEXT], name[8];
	bool six = r->flow->key.address_len == 16;
	const char *left = six ? "[" : "", *right = six ? "]" : "";

	printf("%s %9.3fs %-5s %s%s%s:%u > %s%s%s:%u %-6s %" PRIu64 "/%" PRIu64
	       " packets %" PRIu64 "/%" PRIu64 " bytes",
		pr_time_local(r->first, time, sizeof(time)),
		(double)pr_time_minus(r->last, r->first) / PR_NS_PER_S,
		flow_protocol_name(r->flow->key.protocol, name), left, r->src, right,
		r->sport, left, r->dst, right, r->dport, r->state, r->sent->packets,
		r->received->packets, r->sent->bytes, r->received->bytes);
	if (r->missing)
		printf(", at most %" PRIu64 " missing", r->missing);
	putchar('\n');
}

const char *
flow_seconds(int64_t ns, char buf[32])
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	snprintf(buf, 32, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", size / PR_NS_PER_S,
		size % PR_NS_PER_S);
	return buf;
}

static void
print_csv(const struct flow_record *r)
{
	const struct pri_flow_key *k = &r->flow->key;
	char first[32], duration[32], vlan[8] = "";

	if (k->vlan != PRI_FLOW_UNTAGGED)
		snprintf(vlan, sizeof(vlan), "%u", k->vlan);
	printf("%s,%s,%s,%s,%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%s,%s,%" PRIu64 ",%" PRIu64
	       ",%" PRIu64 ",%" PRIu64 ",%u,%u,%s,%u,%s,%s,%s\n",
		flow_seconds(r->first, first),
		flow_seconds(pr_time_minus(r->last, r->first), duration), r->src, r->dst,
		r->sport, r->dport, k->protocol, r->sent->bytes, r->received->bytes,
		r->outgoing ? r->outgoing : "", r->state, r->sent->packets,
		r->received->packets, r->sent->payload, r->received->payload,
		r->sent->flags, r->received->flags, vlan, k->link, r->community_id, r->uid,
		r->missing_text);
}

static void
print_json(const struct flow_record *r)
{
	const struct pri_flow_key *k = &r->flow->key;
	char duration[32];

	putchar('{');
	if (r->context->row)
		printf("\"window\": %" PRIu64 ", \"row\": %" PRIu64 ", ",
			r->context->window, r->context->row);
	printf("\"tcqtime\": %" PRId64
	       ", \"duration\": %s, \"src_ip\": \"%s\", \"dst_ip\": "
	       "\"%s\", \"src_port\": %u, \"dst_port\": %u, \"protocol\": %u, "
	       "\"bytes_sent\": %" PRIu64 ", \"bytes_recv\": %" PRIu64 ", ",
		r->first, flow_seconds(pr_time_minus(r->last, r->first), duration), r->src,
		r->dst, r->sport, r->dport, k->protocol, r->sent->bytes,
		r->received->bytes);
	if (r->outgoing)
		printf("\"outgoing\": %s, ", r->outgoing);
	if (k->vlan != PRI_FLOW_UNTAGGED)
		printf("\"vlan\": %u, ", k->vlan);
	if (r->flow->sampling)
		printf("\"sampling\": %u, ", r->flow->sampling);
	printf("\"state\": \"%s\", \"packets_sent\": %" PRIu64
	       ", \"packets_recv\": %" PRIu64 ", \"payload_sent\": %" PRIu64
	       ", \"payload_recv\": %" PRIu64
	       ", \"flags_sent\": %u, \"flags_recv\": %u, \"link\": %u, \"last\": %" PRId64
	       ", \"community_id\": \"%s\", \"uid\": \"%s\"%s%s}\n",
		r->state, r->sent->packets, r->received->packets, r->sent->payload,
		r->received->payload, r->sent->flags, r->received->flags, k->link, r->last,
		r->community_id, r->uid, *r->missing_text ? ", \"missing\": " : "",
		r->missing_text);
}

/* For packrack-flows-form: what the csv lacks before it. */
static void
print_line(const struct flow_record *r)
{
	uint8_t type, code;

	pri_flow_icmp(r->flow, &type, &code);
	printf("%" PRId64 ",%" PRId64 ",%u,%u,", r->first, r->last, type, code);
	print_csv(r);
}

const char *const flow_forms[] = {
	"text", "csv", "json", "zeek", "eve", "ipfix", "parquet", NULL};

void
flow_record_print(const struct flow_record *r, enum flow_form form)
{
	static void (*const print[FLOW_FORMS])(const struct flow_record *r) = {
		print_text, print_csv, print_json, print_line, print_line, print_line};

	if (print[form])
		print[form](r);
}

void
flow_head_print(enum flow_form form)
{
	if (form == FLOW_CSV || form == FLOW_ZEEK)
		puts("tcqtime,duration,src_ip,dst_ip,src_port,dst_port,protocol,bytes_sent,"
		     "bytes_recv,outgoing,state,packets_sent,packets_recv,payload_sent,"
		     "payload_recv,flags_sent,flags_recv,vlan,link,community_id,uid,"
		     "missing");
}
