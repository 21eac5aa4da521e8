/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "indexer/flows/flow_key.h"
#include "indexer/stages/rules.h"
#include "indexer/stages/stage_common.h"
#include "proto/base/units.h"

/*
 * Detection by rules: the longest content of each rule is looked for by one pass of Hyperscan over the payload; a rule that it
 * finds, or that has no content, is then checked as a whole. Packets one by one: nothing is put together across packets.
 */

struct detect {
	struct pri_rules rules;
	hs_database_t *contents, **pcre; /* pcre: of each rule, or NULL */
	hs_scratch_t *scratch;
	uint32_t *plain, plain_count; /* rules without a content that must be there */
	uint32_t *hits, hit_count; /* rules found in this packet */
	uint64_t *stamp, packets; /* of each rule: the last packet that found it */
	uint64_t *alerts, all_alerts, with_alerts, broken_off;
	uint32_t scale;
};

/* What a rule looks at. */
struct view {
	const struct pr_packet *packet;
	const struct pr_headers *h;
	const uint8_t *payload;
	uint32_t len, dsize; /* captured; as the headers have it */
};

static void
detect_close(void *state)
{
	struct detect *d = state;

	for (size_t i = 0; d->pcre && i < d->rules.count; i++)
		hs_free_database(d->pcre[i]);
	hs_free_database(d->contents);
	hs_free_scratch(d->scratch);
	pri_rules_free(&d->rules);
	PR_FREE(d, pcre, plain, hits, stamp, alerts);
	free(d);
}

/* The content that a packet is searched for; -1: none that must be there. */
static int
longest(const struct pri_rule *r)
{
	int best = -1;

	for (size_t i = 0; i < r->contents; i++)
		if (!r->content[i].negated &&
			(best < 0 || r->content[i].len > r->content[best].len))
			best = (int)i;
	return best;
}

static int
compile(struct detect *d, struct pr_error *err)
{
	size_t n = d->rules.count, count = 0;
	char **texts = calloc(n + 1, sizeof(*texts));
	unsigned *flags = calloc(n + 1, sizeof(*flags)), *ids = calloc(n + 1, sizeof(*ids));
	hs_compile_error_t *why = NULL;
	int rc = texts && flags && ids ? pri_rule_matcher_check(err)
				       : pr_error_set(err, "no memory for rules");

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct pri_rule *r = &d->rules.items[i];
		int at = longest(r);

		if (r->pcre)
			rc = pri_pattern_compile(
				r->pcre, r->pcre_flags, &d->pcre[i], &d->scratch, err);
		if (rc < 0) {
			pr_error_prefix(err, "sid %u: pcre", r->sid);
			break;
		}
		if (at < 0) {
			d->plain[d->plain_count++] = (uint32_t)i;
			continue;
		}
		ids[count] = (unsigned)i;
		flags[count] = HS_FLAG_SINGLEMATCH |
			       (r->content[at].nocase ? HS_FLAG_CASELESS : 0);
		texts[count] = pri_rule_regex(r->content[at].bytes, r->content[at].len);
		if (!texts[count++])
			rc = pr_error_set(err, "no memory for rules");
	}
	if (rc == 0 && count &&
		(hs_compile_multi((const char *const *)texts, flags, ids, (unsigned)count,
			 HS_MODE_BLOCK, NULL, &d->contents, &why) != HS_SUCCESS ||
			hs_alloc_scratch(d->contents, &d->scratch) != HS_SUCCESS))
		rc = pr_error_set(err, "contents: %s", why ? why->message : "no memory");
	hs_free_compile_error(why);
	for (size_t i = 0; texts && i < count; i++)
		free(texts[i]);
	free(texts);
	free(flags);
	free(ids);
	return rc;
}

static void *
detect_open(const char *const *options, char *error, size_t size)
{
	const char *path = pri_stage_option(options, "rules");
	const char *vars = pri_stage_option(options, "vars");
	const char *unknown = pri_stage_option(options, "unknown");
	struct detect *d = calloc(1, sizeof(*d));
	struct pr_error err = {"no memory for rules"};
	int rc = d ? 0 : -1;

	if (rc == 0 && !path)
		rc = pr_error_set(&err, "no rules given: use -o rules=FILE");
	if (rc == 0 && unknown && strcmp(unknown, "skip") != 0)
		rc = pr_error_set(&err, "unknown=%s: only skip", unknown);
	if (rc == 0)
		rc = pri_rules_read(&d->rules, path, vars, unknown ? stderr : NULL, &err);
	size_t n = rc == 0 ? d->rules.count + 1 : 1;
	if (rc == 0 && (!(d->pcre = calloc(n, sizeof(*d->pcre))) ||
			       !(d->plain = calloc(n, sizeof(uint32_t))) ||
			       !(d->hits = calloc(n, sizeof(uint32_t))) ||
			       !(d->stamp = calloc(n, sizeof(uint64_t))) ||
			       !(d->alerts = calloc(n, sizeof(uint64_t)))))
		rc = pr_error_set(&err, "no memory for rules");
	if (rc == 0 && compile(d, &err) == 0)
		return d;
	snprintf(error, size, "%s", err.text);
	if (d)
		detect_close(d);
	return NULL;
}

/* ---- a rule and a packet ---- */

static bool
part_has(const struct pri_rule_part *p, size_t address_len, const uint8_t *address,
	uint16_t port)
{
	unsigned whole = p->bits / 8, rest = p->bits % 8;

	if (!p->address_len)
		return port >= p->low && port <= p->high;
	return p->address_len == address_len && !memcmp(p->address, address, whole) &&
	       (!rest || (p->address[whole] ^ address[whole]) >> (8 - rest) == 0);
}

/* One of those without !, if there are any; none of those with it. */
static bool
list_has(const struct pri_rule_list *l, size_t address_len, const uint8_t *address,
	uint16_t port)
{
	bool wanted = false, found = false;

	for (size_t i = 0; i < l->count; i++) {
		bool has = part_has(&l->parts[i], address_len, address, port);

		if (l->parts[i].negated && has)
			return false;
		wanted |= !l->parts[i].negated;
		found |= has && !l->parts[i].negated;
	}
	return found || !wanted;
}

static bool
ends_match(const struct pri_rule *r, const struct pr_headers *h, bool turned)
{
	size_t len = h->flags & PR_DECODE_IP4 ? 4 : 16;
	bool ports = h->flags & PR_DECODE_PORTS;

	for (int end = 0; end < 2; end++) {
		bool source = (end == 0) != turned;

		if (!list_has(&r->address[end], len, source ? h->src : h->dst, 0) ||
			(r->port[end].count &&
				(!ports || !list_has(&r->port[end], 0, NULL,
						   source ? h->src_port : h->dst_port))))
			return false;
	}
	return true;
}

static bool
range_has(const struct pri_rule_range *r, uint32_t n)
{
	switch (r->kind) {
	case PRI_RANGE_IS:
		return n == r->low;
	case PRI_RANGE_LESS:
		return n < r->low;
	case PRI_RANGE_MORE:
		return n > r->low;
	case PRI_RANGE_BETWEEN:
		return n > r->low && n < r->high;
	default:
		return true;
	}
}

static bool
flags_match(const struct pri_rule *r, uint8_t flags)
{
	flags &= r->flags_mask;
	switch (r->flags_way) {
	case '+':
		return (flags & r->flags) == r->flags;
	case '*':
		return (flags & r->flags) != 0;
	case '!':
		return (flags & r->flags) == 0;
	default:
		return flags == r->flags;
	}
}

static bool
header_matches(const struct pri_rule *r, const struct view *v)
{
	const struct pr_headers *h = v->h;
	static const uint8_t protocols[] = {['t'] = 6, ['u'] = 17};

	if (r->protocol == 'i' ? h->protocol != (h->flags & PR_DECODE_IP4 ? 1 : 58)
			       : r->protocol && h->protocol != protocols[(int)r->protocol])
		return false;
	if (r->protocol && h->flags & PR_DECODE_FRAGMENT_LATER)
		return false;
	if ((r->has_flags || r->itype.kind) && !h->l4_offset)
		return false;
	return range_has(&r->dsize, v->dsize) &&
	       (!r->itype.kind || range_has(&r->itype, h->icmp_type)) &&
	       (!r->has_flags || flags_match(r, h->tcp_flags)) &&
	       (ends_match(r, h, false) || (r->both && ends_match(r, h, true)));
}

static uint8_t
lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static bool
same(const struct pri_rule_content *c, const uint8_t *at)
{
	if (!c->nocase)
		return !memcmp(c->bytes, at, c->len);
	for (uint32_t i = 0; i < c->len; i++)
		if (lower(c->bytes[i]) != lower(at[i]))
			return false;
	return true;
}

/* Contents i.. match, the one before ended at `last`; *steps bounds what a rule of many short contents may cost. */
static bool
contents_match(const struct pri_rule *r, size_t i, const struct view *v, int64_t last,
	unsigned *steps)
{
	const struct pri_rule_content *c = &r->content[i];

	if (i == r->contents)
		return true;
	int64_t from = (c->relative ? last : 0) + c->offset, end = v->len;
	if (c->has_depth)
		end = PR_MIN(end, from + c->depth);
	from = PR_MAX(from, 0);
	for (; from + c->len <= end && *steps; from++) {
		--*steps;
		if (!same(c, v->payload + from))
			continue;
		if (c->negated)
			return false;
		if (contents_match(r, i + 1, v, from + c->len, steps))
			return true;
		if (i + 1 < r->contents && !r->content[i + 1].relative &&
			!r->content[i + 1].negated)
			return false; /* what follows does not depend on where this one is */
	}
	return c->negated && *steps && contents_match(r, i + 1, v, last, steps);
}

static bool
rule_matches(struct detect *d, size_t i, const struct view *v)
{
	const struct pri_rule *r = &d->rules.items[i];
	unsigned steps = 1000000;

	if (!header_matches(r, v))
		return false;
	bool found = contents_match(r, 0, v, 0, &steps);
	d->broken_off += !steps;
	if (!found || !r->pcre)
		return found;
	return pri_pattern_found(d->pcre[i], d->scratch, v->payload, v->len) != r->pcre_not;
}

/* ---- alerts ---- */

/* One line as Suricata's eve.json has it. */
static void
put_alert(FILE *to, const struct pri_rule *r, const struct view *v)
{
	const struct pr_headers *h = v->h;
	size_t len = h->flags & PR_DECODE_IP4 ? 4 : 16;
	char src[PR_ADDRESS_TEXT], dst[PR_ADDRESS_TEXT], time[PR_TIME_TEXT],
		community[PRI_COMMUNITY_ID_MAX];
	char room[1024];
	struct pr_text text = {room, 0, sizeof(room) - 1, false};
	struct pri_flow_packet f;

	pr_format_address(h->src, len, src);
	pr_format_address(h->dst, len, dst);
	pr_time_format(v->packet->time, time, sizeof(time));
	/* of the time, all up to the microseconds */
	fprintf(to,
		"{\"timestamp\":\"%.26s+0000\",\"event_type\":\"alert\",\"src_ip\":\"%s\",",
		time, src);
	if (h->flags & PR_DECODE_PORTS)
		fprintf(to, "\"src_port\":%u,", h->src_port);
	fprintf(to, "\"dest_ip\":\"%s\",", dst);
	if (h->flags & PR_DECODE_PORTS)
		fprintf(to, "\"dest_port\":%u,", h->dst_port);
	fprintf(to,
		h->protocol == 6    ? "\"proto\":\"TCP\","
		: h->protocol == 17 ? "\"proto\":\"UDP\","
		: h->protocol == 1  ? "\"proto\":\"ICMP\","
		: h->protocol == 58 ? "\"proto\":\"IPv6-ICMP\","
				    : "\"proto\":\"%u\",",
		h->protocol);
	if (pri_flow_packet_parse(v->packet, &f)) {
		pri_community_id(&f.key, 0, community);
		fprintf(to, "\"community_id\":\"%s\",", community);
	}
	fprintf(to,
		"\"pcap_cnt\":%" PRIu64 ",\"alert\":{\"action\":\"allowed\",\"gid\":1,"
		"\"signature_id\":%u,\"rev\":%u,\"signature\":",
		v->packet->seq, r->sid, r->rev);
	pr_text_put_quoted(&text, r->message);
	pr_text_puts(&text, ",\"category\":");
	pr_text_put_quoted(&text, r->class ? r->class : "");
	fprintf(to, "%.*s,\"severity\":%u}}\n", (int)text.len, room, r->priority);
}

static int
on_content(unsigned id, PR_UNUSED unsigned long long from, PR_UNUSED unsigned long long to,
	PR_UNUSED unsigned flags, void *arg)
{
	struct detect *d = arg;

	if (d->stamp[id] != d->packets) {
		d->stamp[id] = d->packets;
		d->hits[d->hit_count++] = id;
	}
	return 0;
}

static int
compare_rules(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* False: not IP, or nothing of its headers is there. */
static bool
view_make(struct view *v, const struct pr_packet *p, const struct pr_decoded *d)
{
	v->packet = p;
	v->h = &d->outer;
	if (!(v->h->flags & (PR_DECODE_IP4 | PR_DECODE_IP6)))
		return false;
	size_t ip_end = v->h->ip_offset + v->h->ip_length;
	size_t end = v->h->ip_length && ip_end < p->caplen ? ip_end : p->caplen;
	v->payload = p->data + PR_MIN(v->h->payload_offset, end);
	v->len = v->h->payload_offset && v->h->payload_offset < end
			 ? (uint32_t)(end - v->h->payload_offset)
			 : 0;
	v->dsize = v->h->payload_offset && v->h->payload_offset < ip_end
			   ? (uint32_t)(ip_end - v->h->payload_offset)
			   : v->len;
	return true;
}

static int
detect_packet(void *state, struct packrack_packet *p)
{
	struct pr_packet packet = pri_stage_packet_of(p);
	struct detect *d = state;
	struct pr_decoded decoded;
	struct view v;
	FILE *to = NULL;
	size_t size;

	d->scale = p->scale;
	d->packets++;
	d->hit_count = 0;
	pr_decode(p->linktype, p->data, p->caplen, &decoded);
	if (!view_make(&v, &packet, &decoded))
		return 0;
	for (uint32_t i = 0; i < d->plain_count; i++)
		d->hits[d->hit_count++] = d->plain[i];
	if (d->contents && v.len)
		hs_scan(d->contents, (const char *)v.payload, v.len, 0, d->scratch,
			on_content, d);
	if (d->hit_count > 1)
		qsort(d->hits, d->hit_count, sizeof(*d->hits), compare_rules);
	for (uint32_t i = 0; i < d->hit_count; i++) {
		uint32_t rule = d->hits[i];

		if (!rule_matches(d, rule, &v))
			continue;
		if (!to && !(to = open_memstream(&p->line, &size)))
			return -1;
		put_alert(to, &d->rules.items[rule], &v);
		d->alerts[rule]++;
		d->all_alerts++;
	}
	d->with_alerts += to != NULL;
	return to && fclose(to) != 0 ? -1 : to != NULL;
}

static int
detect_add(void *state, void *other)
{
	struct detect *d = state, *o = other;

	d->scale = d->scale ? d->scale : o->scale;
	PR_ADD(d, o, packets, all_alerts, with_alerts, broken_off);
	for (size_t i = 0; i < d->rules.count; i++)
		d->alerts[i] += o->alerts[i];
	return 0;
}

static char *
detect_report(void *state)
{
	const struct detect *d = state;
	json_t *r = json_object(), *by = json_object();
	char sid[16];

	pri_stage_put(r, "rules", d->rules.count, 1);
	pri_stage_put(r, "refused", d->rules.refused, 1);
	pri_stage_put(r, "alerts", d->all_alerts, d->scale);
	pri_stage_put(r, "packets_with_alerts", d->with_alerts, d->scale);
	/* a rule that took too long on a packet: taken as no match */
	pri_stage_put(r, "broken_off", d->broken_off, 1);
	for (size_t i = 0; i < d->rules.count; i++) {
		PR_PRINT(sid, "%u", d->rules.items[i].sid);
		if (d->alerts[i])
			pri_stage_put(by, sid, d->alerts[i], d->scale);
	}
	json_object_set_new(r, "by_sid", by);
	return pri_stage_text(r);
}

static const char *const options[] = {"rules: a file of rules",
	"vars: NAME=VALUE;NAME=VALUE of $NAME, as in HOME_NET=10.0.0.0/8",
	"unknown: skip: leave out rules that are refused, and tell them (default: none may "
	"be)",
	NULL};

const struct packrack_stage pri_stage_detect = {PACKRACK_STAGE_VERSION,
	PACKRACK_STAGE_GIVES | PACKRACK_STAGE_PRINTS, "detect",
	"alerts by rules of Snort and Suricata, as lines of EVE JSON", options, detect_open,
	detect_packet, NULL, detect_add, detect_report, detect_close};
