/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/fanout.h"
#include "proto/base/metrics.h"

/*
 * The merger's service. Nodes connect and send Hello, Coverage, summaries and answers. Clients connect to the
 * same endpoints and send Query, Credit, Cancel, StatusRequest, and Command: "forget" a node that is gone for
 * good, "cancel" a query by its number, "delete" and "store" for a node. With keys, the role of each key says
 * what it may send (proto/rpc/admission.h). Call from the loop's thread only.
 */

enum { PRM_MERGER_QUERIES_DEFAULT = 16, PRM_MERGER_QUERIES_MAX = 1024 };

struct prm_merger_options {
	size_t max_queries; /* at the same time; 0: default */
	size_t max_user_queries; /* of one user; 0: three quarters of these */
	int64_t silent_ns; /* see fanout.h; 0: default */
	uint64_t summaries; /* bytes of memory for them; 0: default (summaries.h) */
	bool no_canary;
	const struct prm_signer *signer; /* borrowed; NULL: no keys, no manifests */
	struct prm_handout *handout; /* borrowed; NULL: no user has limits */
	struct prm_audit *audit; /* borrowed; NULL: none (audit.h) */
	/* this merger's name for other mergers; borrowed; NULL: there are none */
	const char *name;
};

/* The whole of packrack-merger (daemon.c); returns its exit status. */
int prm_merger_main(int argc, char **argv);

struct prm_merger *prm_merger_create(struct pr_loop *loop,
	const struct prm_merger_options *options, struct pr_error *err);
int prm_merger_listen(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err);
/* Adds all metrics of the merger to the page. */
void prm_merger_scrape(void *merger, struct pr_metrics_page *page);
/* Another merger, with which this one shares the summaries. keys: as a client. */
int prm_merger_peer(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err);
/* A dispatcher, to which commands about classes and cutoffs go (steering.h). keys: as a client. */
int prm_merger_dispatcher(
	struct prm_merger *m, const char *endpoint, const char *keys, struct pr_error *err);
/* Clients of running queries are told that the merger stops. */
void prm_merger_destroy(struct prm_merger **m);

/* ---- canary.c ---- */

/*
 * The rack's test of itself. The dispatcher makes a packet a second on the link PR_LINK_CANARY, which goes the
 * way of all packets. Once a second the merger asks the nodes for those of a second some seconds ago, and
 * notes how long the answer took, and what was missing. Users' queries do not have this link.
 */
struct prm_canary_figures {
	uint64_t queries; /* answered */
	uint64_t packets, missing;
	/* of the last answer: from the question to its first packet */
	uint64_t first_packet_us;
	/* the last answer: 1 complete, and not without packets for seconds */
	uint64_t complete;
};

struct prm_canary {
	struct prm_canary_figures figures;
	struct prm_fanout *fanout; /* NULL: no question under way */
	int64_t asked, until; /* monotonic; end of the range that was asked for last */
	int64_t newest; /* time of the newest packet found; 0: none */
	bool found; /* the present answer has a packet */
};

/* Call a few times a second. Asks if a node has told of the link, at most once a second. */
void prm_canary_tick(struct prm_canary *c, const struct prm_registry *registry,
	uint64_t *next_id, int64_t mono);
