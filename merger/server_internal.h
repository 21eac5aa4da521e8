/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_SERVER_INTERNAL_H
#define PRM_MERGER_SERVER_INTERNAL_H

#include "merger/fanout.h"
#include "merger/peers.h"
#include "merger/registry.h"
#include "merger/server.h"

/*
 * server.c takes messages, server_queries.c and server_nodes.c deal with them, server_wait.c asks other
 * mergers first, server_status.c tells of it all.
 */

struct listener {
	struct prm_merger *merger;
	struct pr_rpc *rpc;
};

struct prm_merger {
	struct pr_loop *loop;
	struct prm_merger_options options;
	struct pr_timer *timer;
	struct listener **listeners;
	size_t listener_count;
	struct prm_registry registry;
	struct prm_duty duty;
	struct prm_summaries *summaries;
	struct prm_peers *peers;
	struct waiting *waiting; /* queries, for other mergers' answers */
	size_t waiting_count;
	struct order *orders; /* for nodes' answers */
	struct prm_fanout **queries;
	struct prm_address
		*clients; /* of the queries, for telling whether they are still there */
	size_t query_count;
	struct prm_pcap_over_ip *pcap_over_ip; /* NULL: no such port */
	uint64_t next_id;
	uint64_t queries_total, queries_refused, packets_merged, messages_unasked;
	int64_t said_name; /* monotonic: when we warned of a node by another name last */
	uint64_t nodes_asked, nodes_left_out; /* over all queries */
};

/* A query of this process; see deliver in fanout.h. The fan-out stays the merger's. NULL: err. */
struct prm_fanout *prm_merger_ask(struct prm_merger *m, const Packrack__Query *query,
	int (*deliver)(void *arg, const Packrack__Envelope *env), void *arg,
	struct pr_error *err);

/* Begins a query; verdicts: of other mergers, or NULL. false: its client was told why not. */
bool prm_merger_begin(struct prm_merger *m, const struct prm_address *from, uint64_t id,
	const Packrack__Query *query, const struct prm_verdicts *verdicts);
void prm_merger_refuse(
	const struct prm_address *to, uint64_t id, const char *text, bool bad_request);
struct prm_fanout *prm_merger_query(
	struct prm_merger *m, const struct prm_address *from, uint64_t id);

/* What a client sends of a query; what nodes answer to one. */
void prm_merger_on_query(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_on_credit(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_on_cancel(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_on_answer(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
/* Lets go those that have ended. */
void prm_merger_reap(struct prm_merger *m);
/* Somebody else's, by the number that the status gives it. Its client is told End, cancelled. */
bool prm_merger_cancel_number(struct prm_merger *m, uint64_t number, struct pr_error *text);

/* What nodes send of themselves. */
void prm_merger_on_hello(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_on_coverage(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_on_summary(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
/* Queries wait no longer for the node at this address. */
void prm_merger_node_lost(
	struct prm_merger *m, const struct prm_address *address, const char *why);
/* Of nodes that the registry has forgotten. */
void prm_merger_forget_summaries(struct prm_merger *m);

/* Asks other mergers about the query, if need be; false: it can begin at once. */
bool prm_merger_wait(struct prm_merger *m, const struct prm_address *from, uint64_t id,
	const Packrack__Query *query);
/* Credit or Cancel of one that waits; false: it is none of those. */
bool prm_merger_wait_message(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
/* Begins those whose answers have come, or have not in time. */
void prm_merger_wait_over(struct prm_merger *m, int64_t mono);
void prm_merger_wait_end(struct prm_merger *m);
void prm_merger_judge(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);

/* A command for a node is handed to it, and its answer to who gave it (server_order.c). */
void prm_merger_order(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_ordered(struct prm_merger *m, const struct prm_address *from,
	const Packrack__Envelope *env);
void prm_merger_orders_tick(struct prm_merger *m, int64_t mono);
void prm_merger_orders_end(struct prm_merger *m);

void prm_merger_status(struct prm_merger *m, const struct prm_address *to, uint64_t id);
void prm_merger_reply(const struct prm_address *to, uint64_t id, Packrack__Envelope *env);

#endif
