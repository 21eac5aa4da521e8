/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "indexer/flows/flow_key.h"
#include "indexer/stages/stage_common.h"
#include "proto/base/cursor.h"

#include <xxhash.h>

/*
 * Round-trip times of TCP, as a tap sees them: by the handshake (SYN to SYN-ACK: between tap and server; SYN-ACK to ACK: between
 * tap and client), and by the option of timestamps (RFC 7323): from a value to its first echo. A value is timed where it is
 * first seen, with bytes, so that delayed acknowledgements are in it, but not the pauses of a program.
 */
enum { HANDSHAKE_SERVER, HANDSHAKE_CLIENT, TIMESTAMPS, KINDS };
static const char *const kinds[KINDS] = {
	"handshake_server", "handshake_client", "timestamps"};

#define CONNECTIONS (1 << 17) /* of a shard; a newer one takes the place of an older one */
#define BUCKETS 256 /* four of each power of two, from 1 us on */

struct connection {
	struct pri_flow_key key;
	uint32_t syn_seq, answer_seq; /* of SYN and SYN-ACK: what answers has one more */
	int64_t syn, answer; /* times; 0: not seen, or taken */
	uint32_t value[2]; /* timestamp that waits for its echo, of each side */
	int64_t sent[2]; /* when; 0: none waits */
	uint32_t seen[2]; /* latest value */
};

struct times {
	uint64_t count, bucket[BUCKETS];
	int64_t least, most;
	double sum;
};

struct rtt {
	struct connection *table;
	struct times times[KINDS];
	uint64_t connections, replaced;
	uint32_t scale;
};

static void
rtt_close(void *state)
{
	struct rtt *r = state;

	free(r->table);
	free(r);
}

static void *
rtt_open(PR_UNUSED const char *const *options, char *error, size_t size)
{
	struct rtt *r = calloc(1, sizeof(*r));

	if (r)
		r->table = calloc(CONNECTIONS, sizeof(*r->table));
	if (r && r->table)
		return r;
	free(r);
	snprintf(error, size, "no memory for connections");
	return NULL;
}

static void
note(struct times *t, int64_t ns)
{
	double us = (double)ns / 1000;
	int at = us < 1 ? 0 : (int)(4 * log2(us));

	if (ns < 0) /* the clock was set */
		return;
	t->least = !t->count || ns < t->least ? ns : t->least;
	t->most = ns > t->most ? ns : t->most;
	t->sum += (double)ns;
	t->count++;
	t->bucket[PR_MIN(at, BUCKETS - 1)]++;
}

/* The option of timestamps. False: the segment has none. */
static bool
timestamps(const uint8_t *tcp, size_t len, uint32_t *value, uint32_t *echo)
{
	size_t end = 4 * (tcp[12] >> 4u);

	for (size_t at = 20; at < end && end <= len;) {
		size_t room = end - at;

		if (tcp[at] == 0 || (tcp[at] != 1 && (room < 2 || tcp[at + 1] < 2)))
			return false;
		if (tcp[at] == 8 && tcp[at + 1] == 10 && room >= 10) {
			*value = pr_get_be32(tcp + at + 2);
			*echo = pr_get_be32(tcp + at + 6);
			return true;
		}
		at += tcp[at] == 1 ? 1 : tcp[at + 1];
	}
	return false;
}

static void
take_handshake(struct rtt *r, struct connection *c, const uint8_t *tcp, uint8_t flags,
	int64_t time)
{
	uint32_t seq = pr_get_be32(tcp + 4), ack = pr_get_be32(tcp + 8);

	flags &= PRI_FLOW_SYN | PRI_FLOW_ACK | PRI_FLOW_RST;
	if (flags == PRI_FLOW_SYN) { /* sent again: which one is answered is not known */
		c->syn = c->syn && c->syn_seq == seq ? -1 : time;
		c->syn_seq = seq;
	} else if (flags == (PRI_FLOW_SYN | PRI_FLOW_ACK) && ack == c->syn_seq + 1) {
		if (c->syn > 0)
			note(&r->times[HANDSHAKE_SERVER], time - c->syn);
		c->syn = 0;
		c->answer = c->answer && c->answer_seq == seq ? -1 : time;
		c->answer_seq = seq;
	} else if (flags == PRI_FLOW_ACK && c->answer && ack == c->answer_seq + 1 &&
		   seq == c->syn_seq + 1) {
		if (c->answer > 0)
			note(&r->times[HANDSHAKE_CLIENT], time - c->answer);
		c->answer = 0;
	}
}

static void
take_timestamps(struct rtt *r, struct connection *c, const struct pri_flow_packet *f,
	const uint8_t *tcp, size_t len, int64_t time)
{
	uint32_t value, echo;
	unsigned side = f->side;

	if (!timestamps(tcp, len, &value, &echo))
		return;
	if (c->sent[!side] && echo == c->value[!side]) {
		note(&r->times[TIMESTAMPS], time - c->sent[!side]);
		c->sent[!side] = 0;
	}
	/* a value seen before may have been sent again */
	if (!c->sent[side] && f->payload && (int32_t)(value - c->seen[side]) > 0) {
		c->value[side] = value;
		c->sent[side] = time;
	}
	c->seen[side] = value;
}

static int
rtt_packet(void *state, struct packrack_packet *p)
{
	struct rtt *r = state;
	struct pr_packet packet = pri_stage_packet_of(p);
	struct pri_flow_packet f;
	struct pr_decoded d;

	r->scale = p->scale;
	if (!pri_flow_packet_parse(&packet, &f) || f.key.protocol != 6)
		return 0;
	pr_decode(p->linktype, p->data, p->caplen, &d);
	if (!d.outer.l4_offset || p->caplen - d.outer.l4_offset < 20 ||
		d.outer.flags & PR_DECODE_FRAGMENT_LATER)
		return 0;
	struct connection *c = &r->table[XXH3_64bits(&f.key, sizeof(f.key)) % CONNECTIONS];
	if (memcmp(&c->key, &f.key, sizeof(f.key)) != 0) {
		r->replaced += c->key.address_len != 0;
		r->connections++;
		*c = (struct connection){.key = f.key};
	}
	const uint8_t *tcp = p->data + d.outer.l4_offset;
	take_handshake(r, c, tcp, f.flags, p->time);
	take_timestamps(r, c, &f, tcp, p->caplen - d.outer.l4_offset, p->time);
	return 0;
}

static int
rtt_add(void *state, void *other)
{
	struct rtt *r = state, *o = other;

	r->scale = r->scale ? r->scale : o->scale;
	PR_ADD(r, o, connections, replaced);
	for (int i = 0; i < KINDS; i++) {
		struct times *t = &r->times[i], *u = &o->times[i];

		t->least = !t->count || (u->count && u->least < t->least) ? u->least
									  : t->least;
		t->most = PR_MAX(t->most, u->most);
		PR_ADD(t, u, count, sum);
		for (int j = 0; j < BUCKETS; j++)
			t->bucket[j] += u->bucket[j];
	}
	return 0;
}

/* In us: the middle of the bucket that has this part of all; within 10 %. */
static double
quantile(const struct times *t, double part)
{
	uint64_t sum = 0;
	int at = 0;

	for (; at < BUCKETS - 1; at++)
		if ((double)(sum += t->bucket[at]) >= part * (double)t->count)
			break;
	return exp2((at + 0.5) / 4);
}

static char *
rtt_report(void *state)
{
	const struct rtt *r = state;
	json_t *all = json_object();

	pri_stage_put(all, "connections", r->connections, r->scale);
	pri_stage_put(all, "replaced", r->replaced, 1);
	for (int i = 0; i < KINDS; i++) {
		const struct times *t = &r->times[i];
		json_t *row = json_object();

		pri_stage_put(row, "samples", t->count, r->scale);
		if (t->count) {
			json_object_set_new(
				row, "least_us", json_real((double)t->least / 1000));
			json_object_set_new(row, "mean_us",
				json_real(t->sum / (double)t->count / 1000));
			json_object_set_new(row, "median_us", json_real(quantile(t, 0.5)));
			json_object_set_new(row, "p99_us", json_real(quantile(t, 0.99)));
			json_object_set_new(
				row, "most_us", json_real((double)t->most / 1000));
		}
		json_object_set_new(all, kinds[i], row);
	}
	return pri_stage_text(all);
}

const struct packrack_stage pri_stage_rtt = {PACKRACK_STAGE_VERSION,
	PACKRACK_STAGE_CONNECTIONS, "rtt",
	"round-trip times of TCP, by handshakes and by timestamp options", NULL, rtt_open,
	rtt_packet, NULL, rtt_add, rtt_report, rtt_close};
