/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <xxhash.h>

#include "indexer/index/packet_fields.h"
#include "proto/base/array.h"
#include "proto/wire/beyond.h"

static uint64_t hash_seed;
#define HASH_FUNCTION(key, len, hash)                                                      \
	((hash) = (unsigned)XXH3_64bits_withSeed(key, len, hash_seed))
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* Of the slice that is open. Few flows are in it: these take turns. */
struct part {
	struct pri_flow flow;
	struct part *next; /* of those that are free */
};

struct entry {
	struct pri_flow flow; /* its key is that of the table */
	struct part *now; /* NULL: not in the slice that is open */
	UT_hash_handle hh;
	/* of those that wait as it does, in the order of the last slice */
	struct entry *prev, *next;
	struct waiting *in;
	struct entry *next_now; /* of those in the slice that is open */
};

/* Flows of one idle time-out, those heard least recently first. */
struct waiting {
	struct entry *head;
	int64_t idle;
};

enum { WAITING_TCP, WAITING_OTHER, WAITING_CLOSED, WAITING };

struct pri_flow_table {
	struct pri_flow_limits limits;
	pri_flow_sink sink;
	void *arg;
	struct entry *all, *now;
	struct part *free;
	struct waiting waiting[WAITING];
	int64_t slice; /* number of the one that is open */
	struct pri_flow_figures figures;
};

struct pri_flow_table *
pri_flow_table_create(const struct pri_flow_limits *limits, pri_flow_sink sink, void *arg,
	struct pr_error *err)
{
	struct pri_flow_table *t = calloc(1, sizeof(*t));

	if (!t)
		return pr_error_null(err, "no memory for flows");
	if (!hash_seed)
		randombytes_buf(&hash_seed, sizeof(hash_seed));
	t->sink = sink;
	t->arg = arg;
	t->limits = *limits;
	t->slice = INT64_MIN;
	t->waiting[WAITING_TCP].idle =
		limits->idle_tcp ? limits->idle_tcp : PRI_FLOW_IDLE_TCP;
	t->waiting[WAITING_OTHER].idle = limits->idle ? limits->idle : PRI_FLOW_IDLE;
	t->waiting[WAITING_CLOSED].idle =
		limits->idle_closed ? limits->idle_closed : t->waiting[WAITING_TCP].idle;
	if (!t->limits.active)
		t->limits.active = PRI_FLOW_ACTIVE;
	if (!t->limits.flows)
		t->limits.flows = PRI_FLOW_MOST;
	return t;
}

/* The time of the first FIN or RST, or PRI_FLOW_NEVER. */
static int64_t
closed_at(const struct pri_flow *f)
{
	int64_t time = PRI_FLOW_NEVER;

	for (int i = 0; i < 2; i++) {
		time = PR_MIN(time, f->side[i].fin);
		time = PR_MIN(time, f->side[i].rst);
	}
	return time;
}

/* It has been heard in the slice that is open, so it is the last. */
static void
wait_in(struct pri_flow_table *t, struct entry *e)
{
	int which = e->flow.key.protocol != 6               ? WAITING_OTHER
		    : closed_at(&e->flow) == PRI_FLOW_NEVER ? WAITING_TCP
							    : WAITING_CLOSED;

	e->in = &t->waiting[which];
	DL_APPEND(e->in->head, e);
}

static void
forget(struct pri_flow_table *t, struct entry *e)
{
	DL_DELETE(e->in->head, e);
	HASH_DELETE(hh, t->all, e);
	free(e->now);
	free(e);
	t->figures.open--;
}

void
pri_flow_table_destroy(struct pri_flow_table **table)
{
	struct pri_flow_table *t = PR_TAKE(table);
	struct entry *e, *next;

	if (!t)
		return;
	HASH_ITER(hh, t->all, e, next)
	forget(t, e);
	for (struct part *p = t->free; p; p = t->free) {
		t->free = p->next;
		free(p);
	}
	free(t);
}

/* ---- the end of a flow ---- */

/* Ports above 1023 on which servers wait (iana.org/assignments/service-names-port-numbers). */
static const uint16_t server_ports[] = {1080, 1194, 1433, 1434, 1521, 1701, 1723, 1812,
	1813, 1883, 2049, 2055, 2152, 3128, 3260, 3268, 3269, 3306, 3389, 3478, 3544, 4500,
	4739, 4789, 5060, 5061, 5072, 5222, 5269, 5353, 5355, 5432, 5671, 5672, 5900, 5985,
	5986, 6081, 6343, 6379, 6443, 6667, 6881, 8000, 8008, 8080, 8443, 8883, 9092, 9200,
	9418, 11211, 27017};

static bool
is_server_port(uint16_t port)
{
	size_t n = PR_ARRAY_SEARCH(PR_COUNT(server_ports), server_ports[mid] < port);

	return port < 1024 || (n < PR_COUNT(server_ports) && server_ports[n] == port);
}

/*
 * The sender of the first packet. If that was a SYN+ACK, who got it; if it was no SYN at all and came from a server's
 * port to none, too: the capture began later than the flow.
 */
static uint8_t
originator(const struct pri_flow *f)
{
	const struct pri_flow_side *s = f->side;
	bool first = s[1].first < s[0].first ||
		     (s[1].first == s[0].first && s[1].packets &&
			     (!s[0].packets || s[1].first_seq < s[0].first_seq));

	if (s[first].syn_ack == s[first].first)
		return !first;
	if (!pri_has_ports(f->key.protocol) || s[first].syn == s[first].first)
		return first;
	return first ^
	       (is_server_port(f->key.port[first]) && !is_server_port(f->key.port[!first]));
}

static int
end_flow(struct pri_flow_table *t, struct entry *e, struct pr_error *err)
{
	if (!pri_flow_packets(&e->flow))
		return 0;
	e->flow.originator = originator(&e->flow);
	t->figures.flows++;
	return t->sink(t->arg, &e->flow, err);
}

/* The slice of e is over: its part joins the flow, or begins the next one. */
static int
take_slice(struct pri_flow_table *t, struct entry *e, struct pr_error *err)
{
	struct pri_flow *f = &e->flow, *part = &e->now->flow;
	int64_t first = pri_flow_first(f), closed = closed_at(f);

	if (pri_flow_packets(f) &&
		(pr_time_minus(pri_flow_first(part), pri_flow_last(f)) > e->in->idle ||
			pr_time_minus(t->slice * PRI_FLOW_SLICE_NS, first) >=
				t->limits.active ||
			(closed != PRI_FLOW_NEVER && part->last_syn > closed))) {
		if (end_flow(t, e, err) < 0)
			return -1;
		pri_flow_begin(f, &part->key);
	}
	pri_flow_add(f, part);
	e->now->next = t->free;
	t->free = e->now;
	e->now = NULL;
	DL_DELETE(e->in->head, e);
	wait_in(t, e);
	return 0;
}

static int
close_slice(struct pri_flow_table *t, struct pr_error *err)
{
	int rc = 0;

	while (t->now && rc == 0) {
		struct entry *e = t->now;

		t->now = e->next_now;
		rc = take_slice(t, e, err);
	}
	return rc;
}

/* It ends, and is not there any more. */
static int
end_entry(struct pri_flow_table *t, struct entry *e, struct pr_error *err)
{
	int rc = end_flow(t, e, err);

	if (rc == 0)
		forget(t, e);
	return rc;
}

static int
end_idle(struct pri_flow_table *t, int64_t before, struct pr_error *err)
{
	for (int i = 0; i < WAITING; i++) {
		struct waiting *w = &t->waiting[i];

		while (w->head && (before == PRI_FLOW_NEVER ||
					  pr_time_minus(before,
						  pri_flow_last(&w->head->flow)) > w->idle))
			if (end_entry(t, w->head, err) < 0)
				return -1;
	}
	return 0;
}

int
pri_flow_table_advance(struct pri_flow_table *t, int64_t otime, struct pr_error *err)
{
	int64_t slice = otime == PRI_FLOW_NEVER ? INT64_MAX : otime / PRI_FLOW_SLICE_NS;

	if (slice <= t->slice)
		return 0;
	if (close_slice(t, err) < 0)
		return -1;
	t->slice = otime == PRI_FLOW_NEVER ? t->slice : slice;
	return end_idle(
		t, otime == PRI_FLOW_NEVER ? otime : slice * PRI_FLOW_SLICE_NS, err);
}

/* ---- packets and parts ---- */

/* For want of memory the flow that was heard least recently ends. */
static int
end_one(struct pri_flow_table *t, struct pr_error *err)
{
	struct entry *oldest = NULL;

	if (close_slice(t, err) < 0)
		return -1;
	for (int i = 0; i < WAITING; i++) {
		struct entry *e = t->waiting[i].head;

		if (e &&
			(!oldest || pri_flow_last(&e->flow) < pri_flow_last(&oldest->flow)))
			oldest = e;
	}
	t->figures.early++;
	return end_entry(t, oldest, err);
}

static struct entry *
add_entry(struct pri_flow_table *t, const struct pri_flow_key *key, struct pr_error *err)
{
	struct entry *e;

	if (t->figures.open >= t->limits.flows && end_one(t, err) < 0)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return pr_error_null(err, "no memory for a flow");
	pri_flow_begin(&e->flow, key);
	HASH_ADD(hh, t->all, flow.key, sizeof(*key), e);
	if (!e->hh.tbl) {
		free(e);
		return pr_error_null(err, "no memory for a flow");
	}
	wait_in(t, e);
	t->figures.open++;
	return e;
}

/* The part of a key in the slice of otime, which is open then. NULL: no memory, or the sink's error. */
static struct pri_flow *
find_part(struct pri_flow_table *t, const struct pri_flow_key *key, int64_t otime,
	struct pr_error *err)
{
	struct entry *e;

	t->figures.late += otime / PRI_FLOW_SLICE_NS < t->slice;
	if (pri_flow_table_advance(t, otime, err) < 0)
		return NULL;
	HASH_FIND(hh, t->all, key, sizeof(*key), e);
	if (!e)
		e = add_entry(t, key, err);
	if (!e || e->now)
		return e ? &e->now->flow : NULL;
	struct part *p = t->free;
	if (p)
		t->free = p->next;
	else
		p = malloc(sizeof(*p));
	if (!p)
		return pr_error_null(err, "no memory for a flow");
	pri_flow_begin(&p->flow, key);
	e->now = p;
	LL_PREPEND2(t->now, e, next_now);
	return &p->flow;
}

static bool
is_ours(const struct pri_flow_table *t, const struct pri_flow_key *key)
{
	return !t->limits.shares ||
	       t->limits.share == (key ? pri_flow_share(key, t->limits.shares) : 1);
}

static int
take_parts(struct pri_flow_table *t, const struct pr_packet *packet, struct pr_error *err)
{
	const uint64_t before = t->figures.packets;
	struct pri_flow_parts_reader r;
	struct pri_flow part;
	int got = -1;

	if (pri_flow_parts_open(&r, packet))
		while ((got = pri_flow_parts_next(&r, &part)) > 0) {
			if (pri_flow_table_part(t, &part, err) < 0)
				return -1;
			t->figures.parts++;
		}
	if (got < 0)
		return pr_error_set(err, "a node's parts of flows are damaged");
	if (is_ours(t, NULL)) {
		t->figures.packets += r.head.not_ip;
		t->figures.not_ip += r.head.not_ip;
	}
	t->figures.parts_packets += t->figures.packets - before;
	t->figures.parts_bytes += packet->caplen;
	return 0;
}

static int
take_sum(struct pri_flow_table *t, const struct pr_packet *packet, struct pr_error *err)
{
	int64_t end = pri_flow_slice_last(packet->otime / PRI_FLOW_SLICE_NS);
	int64_t begin = pr_time_minus(end, PRI_FLOW_SLICE_NS - 1);
	const uint64_t before = t->figures.packets;
	struct pr_packet headers = *packet;
	struct pri_flow_packet p;
	struct pri_flow part;
	struct pr_beyond sum;

	headers.link = pr_link_base(packet->link);
	if (!pr_beyond_load(packet, &sum) || !pri_flow_packet_parse(&headers, &p))
		return pr_error_set(err, "a sum beyond a cutoff is damaged");
	pri_flow_begin(&part, &p.key);
	struct pri_flow_side *s = &part.side[p.side];
	size_t link_header = p.key.vlan == PRI_FLOW_UNTAGGED ? 14 : 18;
	s->packets = sum.packets;
	s->bytes = sum.bytes - PR_MIN(sum.bytes, sum.packets * link_header);
	/* a link's otimes do not step back, its times may */
	s->first = PR_MIN(PR_MAX(sum.first, begin), end);
	s->last = PR_MIN(PR_MAX(sum.last, begin), end);
	s->first_seq = s->last_seq = packet->seq;
	if (pri_flow_table_part(t, &part, err) < 0)
		return -1;
	t->figures.beyond += t->figures.packets - before;
	return 0;
}

int
pri_flow_table_packet(
	struct pri_flow_table *t, const struct pr_packet *packet, struct pr_error *err)
{
	struct pri_flow_packet p;

	if (packet->flags & PR_PACKET_PARTS)
		return take_parts(t, packet, err);
	if (pr_link_is_beyond(packet->link))
		return take_sum(t, packet, err);
	bool ip = pri_flow_packet_parse(packet, &p);
	if (!is_ours(t, ip ? &p.key : NULL))
		return 0;
	t->figures.packets++;
	if (!ip) {
		t->figures.not_ip++;
		return 0;
	}
	struct pri_flow *now = find_part(t, &p.key, packet->otime, err);
	if (!now)
		return -1;
	pri_flow_add_packet(now, &p, packet->otime, packet->seq);
	return 0;
}

int
pri_flow_table_part(
	struct pri_flow_table *t, const struct pri_flow *part, struct pr_error *err)
{
	if (!is_ours(t, &part->key))
		return 0;
	struct pri_flow *now = find_part(t, &part->key, pri_flow_first(part), err);
	if (!now)
		return -1;
	t->figures.packets += pri_flow_packets(part);
	pri_flow_add(now, part);
	return 0;
}

/* ---- an end, and going on ---- */

int
pri_flow_table_open_flows(
	struct pri_flow_table *t, pri_flow_sink take, void *arg, struct pr_error *err)
{
	for (int i = 0; i < WAITING; i++)
		for (struct entry *e = t->waiting[i].head; e; e = e->next)
			if (pri_flow_packets(&e->flow)) {
				e->flow.originator = originator(&e->flow);
				if (take(arg, &e->flow, err) < 0)
					return -1;
			}
	return 0;
}

int
pri_flow_table_restore(
	struct pri_flow_table *t, const struct pri_flow *flow, struct pr_error *err)
{
	struct entry *e;

	HASH_FIND(hh, t->all, &flow->key, sizeof(flow->key), e);
	if (e)
		return pr_error_set(err, "a flow is open twice");
	e = add_entry(t, &flow->key, err);
	if (!e)
		return -1;
	DL_DELETE(e->in->head, e);
	e->flow = *flow;
	wait_in(t, e);
	return 0;
}

const struct pri_flow_figures *
pri_flow_table_figures(const struct pri_flow_table *t)
{
	return &t->figures;
}

void
pri_flow_table_chains(const struct pri_flow_table *t, uint64_t out[PRI_FLOW_CHAINS])
{
	const UT_hash_table *h = t->all ? t->all->hh.tbl : NULL;

	memset(out, 0, PRI_FLOW_CHAINS * sizeof(*out));
	for (unsigned i = 0; h && i < h->num_buckets; i++)
		out[PR_MIN(h->buckets[i].count, PRI_FLOW_CHAINS - 1u)]++;
}
