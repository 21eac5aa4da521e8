/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow.h"

#include <strings.h>

/* ---- sums ---- */

void
pri_flow_begin(struct pri_flow *flow, const struct pri_flow_key *key)
{
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &flow->side[i];

		/* each by itself: of a whole struct the compiler makes a slow loop */
		s->packets = s->bytes = s->payload = s->first_seq = s->last_seq = 0;
		s->flags = s->icmp_code = 0;
		s->first = s->syn = s->syn_ack = s->fin = s->rst = PRI_FLOW_NEVER;
		s->last = INT64_MIN;
	}
	if (key != &flow->key)
		flow->key = *key;
	flow->last_syn = INT64_MIN;
	flow->sampling = flow->originator = flow->state = 0;
}

static void
take_ends(struct pri_flow_side *s, int64_t first, uint64_t first_seq, uint8_t icmp_code,
	int64_t last, uint64_t last_seq)
{
	if (first < s->first || (first == s->first && first_seq < s->first_seq)) {
		s->first = first;
		s->first_seq = first_seq;
		s->icmp_code = icmp_code;
	}
	if (last > s->last || (last == s->last && last_seq > s->last_seq)) {
		s->last = last;
		s->last_seq = last_seq;
	}
}

void
pri_flow_add_packet(
	struct pri_flow *flow, const struct pri_flow_packet *p, int64_t otime, uint64_t seq)
{
	struct pri_flow_side *s = &flow->side[p->side];

	s->packets++;
	PR_ADD(s, p, bytes, payload);
	s->flags |= p->flags;
	take_ends(s, otime, seq, p->icmp_code, otime, seq);
	if (!(p->flags & (PRI_FLOW_SYN | PRI_FLOW_FIN | PRI_FLOW_RST)))
		return;
	if (p->flags & PRI_FLOW_SYN) {
		int64_t *syn = p->flags & PRI_FLOW_ACK ? &s->syn_ack : &s->syn;

		*syn = PR_MIN(*syn, otime);
	}
	if ((p->flags & (PRI_FLOW_SYN | PRI_FLOW_ACK)) == PRI_FLOW_SYN &&
		otime > flow->last_syn)
		flow->last_syn = otime;
	if (p->flags & PRI_FLOW_FIN)
		s->fin = PR_MIN(s->fin, otime);
	if (p->flags & PRI_FLOW_RST)
		s->rst = PR_MIN(s->rst, otime);
}

void
pri_flow_add(struct pri_flow *flow, const struct pri_flow *part)
{
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &flow->side[i];
		const struct pri_flow_side *p = &part->side[i];

		if (p->packets == 0)
			continue;
		PR_ADD(s, p, packets, bytes, payload);
		s->flags |= p->flags;
		take_ends(s, p->first, p->first_seq, p->icmp_code, p->last, p->last_seq);
		s->syn = PR_MIN(s->syn, p->syn);
		s->syn_ack = PR_MIN(s->syn_ack, p->syn_ack);
		s->fin = PR_MIN(s->fin, p->fin);
		s->rst = PR_MIN(s->rst, p->rst);
	}
	flow->last_syn = PR_MAX(flow->last_syn, part->last_syn);
	flow->sampling = PR_MAX(flow->sampling, part->sampling);
}

void
pri_flow_icmp(const struct pri_flow *flow, uint8_t *type, uint8_t *code)
{
	const struct pri_flow_key *k = &flow->key;
	bool icmp = k->protocol == 1 || k->protocol == 58;

	*type = icmp ? (uint8_t)k->port[flow->originator] : 0;
	*code = icmp ? flow->side[flow->originator].icmp_code : 0;
}

/* ---- how far it came ---- */

enum endpoint { INACTIVE, SYN_SENT, SYN_ACK_SENT, PARTIAL, ESTABLISHED, CLOSED, RESET };

static enum endpoint
endpoint(const struct pri_flow_side *s, const struct pri_flow_side *peer)
{
	if (s->packets == 0)
		return INACTIVE;
	/* a RST after both have closed says nothing new */
	if (s->rst != PRI_FLOW_NEVER && (s->rst < s->fin || s->rst < peer->fin))
		return RESET;
	if (s->fin != PRI_FLOW_NEVER)
		return CLOSED;
	/* who answers a SYN has got one, though the capture has not */
	if ((s->syn_ack != PRI_FLOW_NEVER || peer->syn_ack != PRI_FLOW_NEVER) &&
		peer->packets)
		return ESTABLISHED;
	if (s->syn != PRI_FLOW_NEVER)
		return SYN_SENT;
	return s->syn_ack != PRI_FLOW_NEVER ? SYN_ACK_SENT : PARTIAL;
}

static enum pri_flow_state
tcp_state(const struct pri_flow_side *o, const struct pri_flow_side *r)
{
	enum endpoint os = endpoint(o, r), rs = endpoint(r, o);
	bool began = o->syn != PRI_FLOW_NEVER || o->syn_ack != PRI_FLOW_NEVER ||
		     r->syn_ack != PRI_FLOW_NEVER;
	bool o_inactive = os == INACTIVE || os == PARTIAL;
	bool r_inactive = rs == INACTIVE || rs == PARTIAL;

	if (rs == RESET) {
		if (os == SYN_SENT || os == SYN_ACK_SENT ||
			(os == RESET && !o->payload && !r->payload))
			return PRI_FLOW_REJ;
		return o_inactive ? PRI_FLOW_RSTRH : PRI_FLOW_RSTR;
	}
	if (os == RESET)
		return r_inactive ? PRI_FLOW_RSTOS0 : PRI_FLOW_RSTO;
	if (os == CLOSED && rs == CLOSED)
		return PRI_FLOW_SF;
	if (os == CLOSED)
		return r_inactive ? PRI_FLOW_SH : PRI_FLOW_S2;
	if (rs == CLOSED)
		return o_inactive ? PRI_FLOW_SHR : PRI_FLOW_S3;
	if (os == SYN_SENT && rs == INACTIVE)
		return PRI_FLOW_S0;
	return began && os == ESTABLISHED && rs == ESTABLISHED ? PRI_FLOW_S1 : PRI_FLOW_OTH;
}

enum pri_flow_state
pri_flow_state(const struct pri_flow *flow)
{
	const struct pri_flow_side *o = &flow->side[flow->originator];
	const struct pri_flow_side *r = &flow->side[!flow->originator];

	if (flow->state)
		return (enum pri_flow_state)(flow->state - 1);
	if (flow->key.protocol == 6)
		return tcp_state(o, r);
	if (flow->key.protocol != 17)
		return PRI_FLOW_OTH;
	if (!o->packets)
		return PRI_FLOW_SHR;
	return r->packets ? PRI_FLOW_SF : PRI_FLOW_S0;
}

const char *
pri_flow_state_name(enum pri_flow_state state)
{
	static const char *const names[] = {"OTH", "S0", "S1", "SF", "REJ", "S2", "S3",
		"RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR"};

	return names[state];
}

enum pri_flow_state
pri_flow_state_find(const char *name)
{
	enum pri_flow_state s = 0;

	while (s < PRI_FLOW_STATES && strcasecmp(name, pri_flow_state_name(s)) != 0)
		s++;
	return s;
}
