/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "dispatcher/sender.h"
#include "indexer/query/answer.h"
#include "logger/delete.h"
#include "logger/node.h"
#include "logger/streamfs/internal.h"
#include "merger/completeness.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/port/capture.h"
#include "proto/port/netdev.h"
#include "proto/wire/segment.h"
#include "tests/unit/streamfs_sim.h"
#include "tests/unit/wire_whole.h"

/*
 * A rack in one process, without a thread, a socket or a file, and what truly happened in it. All machines have
 * clocks of their own, which a seed drives. What is real and what is simulated: test_truth_model.c.
 */
#define T_RACKS 2 /* dispatchers, each with nodes and links of its own */
#define T_LINKS 2 /* of a dispatcher */
#define T_NODES 3 /* of a dispatcher */
#define T_SERIES 64
#define T_GAPS 64
#define T_DROPS 256
#define T_MOMENTS 32
#define T_PROMISES 16
#define T_ALIKE 3 /* ids that several packets have */
#define T_START (INT64_C(1700000000) * PR_NS_PER_S)
#define T_STEP (20 * PR_NS_PER_MS)
#define T_BLOCK SFS_BLOCK_MIN
#define T_RING (1 << 20)

typedef unsigned long lu; /* of texts */

/* Where one copy of a packet was sent, and whether the switch lost it. */
struct t_copy {
	uint8_t node; /* 1 + index in the world; 0: none */
	bool lost; /* on the way */
};

/* A packet that was given a seq. */
struct t_packet {
	int64_t time, otime; /* by the dispatcher's clock */
	int64_t sent; /* true time */
	uint32_t id; /* its bytes follow from it */
	uint32_t caplen;
	struct t_copy copy[2];
	bool got, listed; /* by the query that is being checked */
	bool told_lost; /* by an answer of all nodes: then it must never come */
};

/* Packets of a link in one run of its dispatcher. */
struct t_series {
	uint64_t epoch;
	uint16_t link;
	const struct t_link *of;
	struct t_packet *packets; /* by seq - 1 */
	size_t count, given; /* given: those that have a seq; the others are in the ring */
	int64_t begun; /* by the dispatcher's clock */
	int64_t told_until; /* newest said_until that reached a node */
};

/* A time, by the dispatcher's clock, in which a link was observed. */
struct t_span {
	int64_t from, to;
};

struct t_link {
	char name[16];
	struct t_rack *rack;
	unsigned number;
	bool carrier, open; /* open: by the dispatcher */
	uint64_t carrier_changes;
	bool observed; /* the last span goes on */
	struct t_span spans[T_GAPS];
	size_t span_count;
	struct {
		int64_t time;
		const struct t_series *of;
	} drops[T_DROPS]; /* packets that got no seq */
	size_t drop_count;
	uint64_t kernel_drops; /* of this capture */
	int64_t drops_read; /* when they were last looked at */
	int64_t next; /* when the next packet comes */
	int64_t stalled; /* until then the thread that captures does not run */
	struct t_series *series; /* of this run */
};

struct t_rack {
	struct world *w;
	unsigned number;
	int64_t offset; /* of its clock */
	int64_t stalled; /* until then the thread that sends does not run */
	bool alive, stopped, was_stopped,
		cable; /* stopped: by a user; cable: of the rack interface */
	unsigned stopped_for; /* steps */
	bool refuses; /* the rack interface refuses frames when it is down, or loses them */
	struct prd_options options;
	char *names[T_LINKS];
	struct prd_inputs inputs;
	struct pr_ring *events, *replies;
	struct prd_sender *sender;
	struct t_link link[T_LINKS];
	unsigned link_count;
	/* frames that transmit has been given */
	struct {
		const uint8_t *data, *head;
		size_t len;
	} out[PR_TRANSMIT_BATCH];
	size_t out_count;
};

struct t_node {
	struct world *w;
	unsigned number; /* in the world */
	struct t_rack *rack;
	char name[16];
	uint8_t mac[PR_MAC_LEN];
	int64_t offset;
	bool cable; /* to the switch */
	bool indexer; /* it answers queries */
	struct sim_disk disk;
	struct sfs_disk handle;
	struct sfs *sfs; /* the logger's; NULL: it is dead */
	struct prl_volume_writer *append;
	struct prl_node *node;
	struct pr_ring *ring;
	uint64_t epoch; /* of fingerprints */
	uint8_t *held; /* a frame that the switch has delayed */
	size_t held_len;
	struct pri_volume *view;
	struct sfs *reader; /* the indexer's, while the logger is dead */
	bool troubled; /* it may not know of all that was sent to it */
	int64_t killed; /* true time */
	bool damaged;
	int64_t overwritten; /* newest time of packets or ledger entries that were overwritten */
};

/* Packets of these times were deleted by order, at one node. */
struct t_deletion {
	const struct t_node *node;
	int64_t since, until, at; /* at: true time */
	const struct t_node *to; /* that had a copy before; or NULL */
};

/* How much of what a case has; per mille and step where it is a chance. */
struct t_plan {
	unsigned steps, rate, racks, nodes, links, copies, blocks;
	unsigned big; /* percent of packets that are large */
	unsigned mtu; /* of the rack */
	unsigned alike; /* percent that are identical to others */
	unsigned loss, log_loss, reorder, repeat; /* per mille of frames */
	unsigned kill_node, power, kill_rack, cable, carrier, stop, indexer, damage, remove,
		move, clock, drop, stall, query;
	bool hour; /* clocks may be set by an hour */
};

/* A time of a link of which an answer was called complete: no packet of it may come later. */
struct t_promise {
	const struct t_link *link;
	int64_t since, until;
};

struct world {
	uint64_t seed;
	struct sim_rng rng;
	int64_t now; /* true time */
	int64_t machine; /* offset of the clock of the machine that runs at present */
	struct t_plan plan;
	struct t_rack rack[T_RACKS];
	struct t_node node[T_RACKS * T_NODES];
	unsigned node_count;
	struct t_series series[T_SERIES];
	size_t series_count;
	struct t_deletion deletions[T_GAPS];
	size_t deletion_count;
	int64_t moments
		[T_MOMENTS]; /* at which something happened, by the clock of a dispatcher */
	unsigned moment_count, soon; /* soon: steps until a query follows */
	struct t_promise promises[T_PROMISES]; /* the last ones */
	unsigned promise_count;
	uint32_t ids;
	bool logs_get_lost;
	bool hurry; /* the next step is a short one */
	uint64_t queries, completes; /* over all cases */
	bool loud;
	struct pr_error err;
};

extern struct world *t_world; /* the one that runs */

#define MUST(w, condition, ...)                                                            \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "\nTRUTH_SEED=%lu: line %d of %s: ",               \
				(unsigned long)(w)->seed, __LINE__, __FILE__);             \
			fprintf(stderr, __VA_ARGS__);                                      \
			fprintf(stderr, " (%s)\n", (w)->err.text);                         \
			if (!getenv("TRUTH_KEEP"))                                         \
				_exit(1);                                                  \
		}                                                                          \
	} while (0)

#define SAY(w, ...)                                                                        \
	do {                                                                               \
		if ((w)->loud) {                                                           \
			fprintf(stderr, "%9.3f ", (double)((w)->now - T_START) / 1e9);     \
			fprintf(stderr, __VA_ARGS__);                                      \
			fputc('\n', stderr);                                               \
		}                                                                          \
	} while (0)

static inline uint64_t
below(struct world *w, uint64_t n)
{
	return sim_below(&w->rng, n);
}

static inline bool
chance(struct world *w, unsigned per_mille)
{
	return per_mille && below(w, 1000) < per_mille;
}

static inline int64_t
clock_of_rack(const struct t_rack *r)
{
	return r->w->now + r->offset;
}

/* Queries ask for times near this one, and perhaps soon. */
static inline void
moment(struct world *w, int64_t time)
{
	w->moments[w->moment_count++ % T_MOMENTS] = time;
	if (!w->soon && below(w, 3) == 0)
		w->soon = 1 + (unsigned)below(w, 10);
}

/* Packet bytes: an Ethernet header, then the id over and over. Identical packets have the same id. */
static inline void
fill_packet(uint8_t *to, uint32_t id, uint32_t caplen)
{
	memset(to, 0x11, 12);
	to[12] = 0x08;
	to[13] = 0x00;
	for (uint32_t i = 14; i < caplen; i++)
		to[i] = (uint8_t)(id >> (i - 14) % 4 * 8) ^ (uint8_t)(i / 64);
}

static inline struct t_series *
series_find(struct world *w, uint64_t epoch, uint32_t link)
{
	for (size_t i = w->series_count; i-- > 0;)
		if (w->series[i].epoch == epoch && w->series[i].link == link)
			return &w->series[i];
	return NULL;
}

static inline double
seconds(int64_t t)
{
	return (double)(t - T_START) / 1e9;
}
