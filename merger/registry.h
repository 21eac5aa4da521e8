/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/rpc.h"

/*
 * The nodes that have sent a Hello. A node that becomes unreachable stays in the list, so
 * that answers can report that it did not answer. It is removed by the operator's command,
 * or after a day. Time is an argument.
 */
#define PRM_NODE_SILENT_NS INT64_C(6000000000)
#define PRM_NODE_FORGET_NS INT64_C(86400000000000)
#define PRM_REGISTRY_MAX 1024
/* What one key (without keys: one user of the machine, one address) may report by its nodes' Hello. */
#define PRM_REGISTRY_LINKS_MAX 1024 /* of one node: as many as an indexer reports */
#define PRM_REGISTRY_NAMES_MAX 8 /* with keys: NAME, and parts of it NAME/PART */
#define PRM_REGISTRY_BYTES_MAX ((size_t)32 * 1024 * 1024) /* of memory, all its nodes */

/* A peer of one of the sockets that listen; without id: the server of one that connects. */
struct prm_peer_ref {
	struct pr_rpc *rpc;
	struct pr_rpc_peer peer;
};

struct prm_node_info {
	Packrack__Hello *hello; /* the last one */
	size_t bytes; /* of memory it takes */
	struct prm_peer_ref address;
	int64_t heard; /* monotonic: any message */
	int64_t last_seen; /* real time of the last message */
	Packrack__NodeStatus shown; /* the owner's, for a status */
};

struct prm_registry {
	struct prm_node_info **nodes; /* by name */
	size_t count;
};

void prm_registry_free(struct prm_registry *registry);

/* What a Hello changed. */
enum prm_hello {
	PRM_HELLO_SAME,
	PRM_HELLO_NEW, /* a node not known so far */
	PRM_HELLO_BACK, /* known, but from another connection or process: its queries are lost */
	/* err: bad name, too many or too large, or another volume's node of that name is alive */
	PRM_HELLO_REFUSED,
};
/* Registers a Hello. For PRM_HELLO_BACK, *before is the previous address of the node. */
enum prm_hello prm_registry_hello(struct prm_registry *registry,
	const struct prm_peer_ref *from, const Packrack__Hello *hello, int64_t mono,
	int64_t real, struct prm_peer_ref *before, struct pr_error *err);

/* The node at this address, or NULL. */
struct prm_node_info *prm_registry_at(
	const struct prm_registry *registry, const struct prm_peer_ref *address);
/* Finds the node at this address, or NULL, and records that it was heard now. */
struct prm_node_info *prm_registry_heard(struct prm_registry *registry,
	const struct prm_peer_ref *from, int64_t mono, int64_t real);
struct prm_node_info *prm_registry_find(
	const struct prm_registry *registry, const char *name);
bool prm_registry_forget(struct prm_registry *registry, const char *name);
bool prm_node_connected(const struct prm_node_info *node, int64_t mono);

/* Sends an envelope with this body. -1: it could not be sent. */
int prm_send(const struct prm_peer_ref *to, uint64_t id,
	Packrack__Envelope__BodyCase body_case, const void *body);
bool prm_peer_ref_equal(const struct prm_peer_ref *a, const struct prm_peer_ref *b);
