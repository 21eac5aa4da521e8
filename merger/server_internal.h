/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_SERVER_INTERNAL_H
#define PR_MERGER_SERVER_INTERNAL_H

#include "merger/fanout.h"
#include "merger/peers.h"
#include "merger/registry.h"
#include "merger/server.h"

/* server.c takes messages, server_wait.c asks other mergers first, server_status.c tells of it all. */

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
