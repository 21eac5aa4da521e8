/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow_key.h"
#include "proto/base/clock.h"
#include "proto/base/error.h"

/*
 * A flow, or a part of one: sums over the packets of one key. Parts of a slice (one second
 * of otime) from several nodes, and the slices of a flow, are added by the same rules, in any
 * order, so what comes out does not depend on which node saw which packet.
 */
#define PRI_FLOW_SLICE_NS PR_NS_PER_S
#define PRI_FLOW_NEVER INT64_MAX

/* The last otime of the slice. */
static inline int64_t
pri_flow_slice_last(int64_t slice)
{
	return pr_time_minus(
		slice * PRI_FLOW_SLICE_NS, slice < 0 ? 0 : 1 - PRI_FLOW_SLICE_NS);
}

struct pri_flow_side {
	uint64_t packets, bytes, payload;
	int64_t first, last; /* otime; of no packet: PRI_FLOW_NEVER, INT64_MIN */
	uint64_t first_seq, last_seq;
	int64_t syn, syn_ack, fin, rst; /* otime of the first one, or PRI_FLOW_NEVER */
	uint8_t flags; /* all, ORed */
	uint8_t icmp_code; /* of the first packet */
};

struct pri_flow {
	struct pri_flow_key key;
	struct pri_flow_side side[2];
	int64_t last_syn; /* otime of the last SYN without ACK, or INT64_MIN */
	uint32_t sampling; /* counts were multiplied by it, as an exporter said; 0: not */
	uint8_t originator; /* the side; set when the flow has ended */
	uint8_t state; /* 1 + enum pri_flow_state; 0: its packets tell */
};

/* key: may be the flow's own. */
void pri_flow_begin(struct pri_flow *flow, const struct pri_flow_key *key);
void pri_flow_add_packet(struct pri_flow *flow, const struct pri_flow_packet *packet,
	int64_t otime, uint64_t seq);
/* Of ICMP: of the first packet of who began; else 0. */
void pri_flow_icmp(const struct pri_flow *flow, uint8_t *type, uint8_t *code);
/* Adds `part`, of the same key. */
void pri_flow_add(struct pri_flow *flow, const struct pri_flow *part);

static inline int64_t
pri_flow_first(const struct pri_flow *f)
{
	return PR_MIN(f->side[0].first, f->side[1].first);
}
static inline int64_t
pri_flow_last(const struct pri_flow *f)
{
	return PR_MAX(f->side[0].last, f->side[1].last);
}
static inline uint64_t
pri_flow_packets(const struct pri_flow *f)
{
	return f->side[0].packets + f->side[1].packets;
}

/*
 * How far a connection came; names and meaning as conn_state of Zeek
 * (docs.zeek.org, base/protocols/conn/main.zeek).
 */
enum pri_flow_state {
	PRI_FLOW_OTH,
	PRI_FLOW_S0,
	PRI_FLOW_S1,
	PRI_FLOW_SF,
	PRI_FLOW_REJ,
	PRI_FLOW_S2,
	PRI_FLOW_S3,
	PRI_FLOW_RSTO,
	PRI_FLOW_RSTR,
	PRI_FLOW_RSTOS0,
	PRI_FLOW_RSTRH,
	PRI_FLOW_SH,
	PRI_FLOW_SHR,
	PRI_FLOW_STATES
};
/* Of a flow whose originator is set. */
enum pri_flow_state pri_flow_state(const struct pri_flow *flow);
const char *pri_flow_state_name(enum pri_flow_state state);
/* PRI_FLOW_STATES: there is none of this name, of which case does not count. */
enum pri_flow_state pri_flow_state_find(const char *name);

/*
 * Parts to flows. Parts are taken in the order of their slices; those of one slice in any
 * order. A flow ends
 *   - when nothing came for its idle time-out,
 *   - at the begin of the first slice after its active time-out,
 *   - where a slice has a SYN after a FIN or RST of the slices before.
 * One thread.
 */
struct pri_flow_limits {
	int64_t idle_tcp, idle, active; /* ns, idle ones more than a slice; 0: default */
	int64_t idle_closed; /* of TCP after the first FIN or RST; 0: as idle_tcp */
	size_t flows; /* at most open at once; 0: default */
	/* only address pairs of this share (pri_flow_share); packets without go to share 1. 0: all */
	uint32_t share, shares;
};
#define PRI_FLOW_IDLE_TCP (60 * PR_NS_PER_S)
#define PRI_FLOW_IDLE (30 * PR_NS_PER_S)
#define PRI_FLOW_ACTIVE (900 * PR_NS_PER_S)
#define PRI_FLOW_MOST 1000000

struct pri_flow_table;
/* Takes each flow that has ended. 0, or -1 and err, which the caller of the table gets. */
typedef int (*pri_flow_sink)(void *arg, const struct pri_flow *flow, struct pr_error *err);

struct pri_flow_table *pri_flow_table_create(const struct pri_flow_limits *limits,
	pri_flow_sink sink, void *arg, struct pr_error *err);
void pri_flow_table_destroy(struct pri_flow_table **table);
/*
 * A packet of the slice that is open; it must not be of an earlier one. Or (PR_PACKET_PARTS) parts of a slice, or (of a link
 * of sums, proto/wire/beyond.h) what a cutoff kept back of a flow in a slice, of which packets and bytes are known, but not
 * the payload; -1 also if they are damaged.
 */
int pri_flow_table_packet(
	struct pri_flow_table *table, const struct pr_packet *packet, struct pr_error *err);
/* A part of the slice that is open, or of a later one: then that is open. */
int pri_flow_table_part(
	struct pri_flow_table *table, const struct pri_flow *part, struct pr_error *err);
/* Nothing comes that is earlier than otime: ends what is idle by then. PRI_FLOW_NEVER: ends all. */
int pri_flow_table_advance(
	struct pri_flow_table *table, int64_t otime, struct pr_error *err);

/*
 * What a table has to remember when all before the open slice has been taken: calls `take`
 * with each flow that is open, without its part of that slice. Given in the same order to an
 * empty table (pri_flow_table_restore, which copies), it goes on from there. -1: as take.
 */
int pri_flow_table_open_flows(
	struct pri_flow_table *table, pri_flow_sink take, void *arg, struct pr_error *err);
int pri_flow_table_restore(
	struct pri_flow_table *table, const struct pri_flow *flow, struct pr_error *err);

struct pri_flow_figures {
	uint64_t packets, not_ip, late; /* late: counted as of the open slice */
	/* from nodes: packets of these, bytes as they came */
	uint64_t parts, parts_packets, parts_bytes;
	uint64_t beyond; /* of the packets, those that a cutoff kept back */
	uint64_t flows, open, early; /* ended; now; ended early for want of memory */
};
const struct pri_flow_figures *pri_flow_table_figures(const struct pri_flow_table *table);

/* Buckets of the hash table by how many open flows are in them; the last: as many or more. */
enum { PRI_FLOW_CHAINS = 8 };
void pri_flow_table_chains(
	const struct pri_flow_table *table, uint64_t out[PRI_FLOW_CHAINS]);
