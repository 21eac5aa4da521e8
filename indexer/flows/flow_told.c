/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_told.h"

uint64_t
pri_told_times(uint64_t count, uint64_t sampling)
{
	uint64_t out;

	return sampling > 1 && !__builtin_mul_overflow(count, sampling, &out) ? out : count;
}

enum { F = PRI_FLOW_FIN, S = PRI_FLOW_SYN, R = PRI_FLOW_RST, A = PRI_FLOW_ACK };
/* What of each direction makes a state (flow.c, tcp_state). */
static const uint8_t events[PRI_FLOW_STATES][2] = {[PRI_FLOW_S0] = {S, 0},
	[PRI_FLOW_S1] = {S, S | A},
	[PRI_FLOW_SF] = {S | F, S | A | F},
	[PRI_FLOW_REJ] = {S, R},
	[PRI_FLOW_S2] = {S | F, S | A},
	[PRI_FLOW_S3] = {S, S | A | F},
	[PRI_FLOW_RSTO] = {S | R, S | A},
	[PRI_FLOW_RSTR] = {S, S | A | R},
	[PRI_FLOW_RSTOS0] = {S | R, 0},
	[PRI_FLOW_RSTRH] = {0, R},
	[PRI_FLOW_SH] = {S | F, 0},
	[PRI_FLOW_SHR] = {0, F}};

static void
put_events(struct pri_flow_side *s, uint8_t flags)
{
	if (flags & S)
		*(flags & A ? &s->syn_ack : &s->syn) = s->first;
	if (flags & F)
		s->fin = s->last;
	if (flags & R)
		s->rst = s->last;
}

bool
pri_told_flow(const struct pri_told *r, uint16_t link, struct pri_flow *out)
{
	uint8_t icmp_code;

	if (!r->address_len)
		return false;
	uint8_t side = pri_told_key(r, link, &out->key, &icmp_code);
	pri_flow_begin(out, &out->key);
	out->originator = side;
	out->sampling = r->sampling > 1 ? (uint32_t)r->sampling : 0;
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &out->side[side ^ i];

		if (!r->packets[i] && !r->bytes[i] &&
			(i == 1 || r->packets[1] || r->bytes[1]))
			continue;
		s->packets = pri_told_times(r->packets[i] ? r->packets[i] : 1, r->sampling);
		s->bytes = pri_told_times(r->bytes[i], r->sampling);
		s->payload = pri_told_times(r->payload[i], r->sampling);
		s->flags = (uint8_t)r->flags[i];
		s->first = r->first[i];
		s->last = r->last[i];
		if (r->protocol == 6)
			put_events(s, r->state ? events[r->state - 1][i]
				      : i      ? s->flags
					       : s->flags & ~A);
		else
			s->icmp_code = icmp_code;
	}
	return true;
}
