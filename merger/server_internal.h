/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_SERVER_INTERNAL_H
#define PR_MERGER_SERVER_INTERNAL_H

#include "merger/fanout.h"
#include "merger/peers.h"
#include "merger/registry.h"
#include "merger/server.h"

/*
 * server.c takes messages, server_queries.c and server_nodes.c deal with them, server_wait.c asks other
 * mergers first, server_status.c tells of it all.
 */

struct listener {
	struct pr_merger *merger;
	struct pr_rpc *rpc;
};

struct pr_merger {
	struct pr_loop *loop;
	struct pr_merger_options options;
	struct pr_timer *timer;
	struct listener **listeners;
	size_t listener_count;
	struct pr_registry registry;
	struct pr_duty duty;
	struct pr_summaries *summaries;
	struct pr_peers *peers;
	struct waiting *waiting; /* queries, for other mergers' answers */
	size_t waiting_count;
	struct order *orders; /* for nodes' answers */
	struct pr_fanout **queries;
	struct pr_address
		*clients; /* of the queries, for telling whether they are still there */
	size_t query_count;
	struct pr_pcap_over_ip *pcap_over_ip; /* NULL: no such port */
	uint64_t next_id;
	uint64_t queries_total, queries_refused, packets_merged, messages_unasked;
	int64_t said_name; /* monotonic: when we warned of a node by another name last */
	uint64_t nodes_asked, nodes_left_out; /* over all queries */
};

/* A query of this process; see deliver in fanout.h. The fan-out stays the merger's. NULL: err. */
struct pr_fanout *pr_merger_ask(struct pr_merger *m, const Packrack__Query *query,
	int (*deliver)(void *arg, const Packrack__Envelope *env), void *arg,
	struct pr_error *err);

/* Begins a query; verdicts: of other mergers, or NULL. false: its client was told why not. */
bool pr_merger_begin(struct pr_merger *m, const struct pr_address *from, uint64_t id,
	const Packrack__Query *query, const struct pr_verdicts *verdicts);
void pr_merger_refuse(
	const struct pr_address *to, uint64_t id, const char *text, bool bad_request);
struct pr_fanout *pr_merger_query(
	struct pr_merger *m, const struct pr_address *from, uint64_t id);

/* What a client sends of a query; what nodes answer to one. */
void pr_merger_on_query(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_on_credit(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_on_cancel(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_on_answer(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
/* Lets go those that have ended. */
void pr_merger_reap(struct pr_merger *m);
/* Somebody else's, by the number that the status gives it. Its client is told End, cancelled. */
bool pr_merger_cancel_number(struct pr_merger *m, uint64_t number, struct pr_error *text);

/* What nodes send of themselves. */
void pr_merger_on_hello(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_on_coverage(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_on_summary(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
/* Queries wait no longer for the node at this address. */
void pr_merger_node_lost(
	struct pr_merger *m, const struct pr_address *address, const char *why);
/* Of nodes that the registry has forgotten. */
void pr_merger_forget_summaries(struct pr_merger *m);

/* Asks other mergers about the query, if need be; false: it can begin at once. */
bool pr_merger_wait(struct pr_merger *m, const struct pr_address *from, uint64_t id,
	const Packrack__Query *query);
/* Credit or Cancel of one that waits; false: it is none of those. */
bool pr_merger_wait_message(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
/* Begins those whose answers have come, or have not in time. */
void pr_merger_wait_over(struct pr_merger *m, int64_t mono);
void pr_merger_wait_end(struct pr_merger *m);
void pr_merger_judge(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);

/* A command for a node is handed to it, and its answer to who gave it (server_order.c). */
void pr_merger_order(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_ordered(
	struct pr_merger *m, const struct pr_address *from, const Packrack__Envelope *env);
void pr_merger_orders_tick(struct pr_merger *m, int64_t mono);
void pr_merger_orders_end(struct pr_merger *m);

void pr_merger_status(struct pr_merger *m, const struct pr_address *to, uint64_t id);
void pr_merger_reply(const struct pr_address *to, uint64_t id, Packrack__Envelope *env);

#endif
