/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_REGISTRY_H
#define PR_MERGER_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/rpc.h"

/*
 * The nodes that have said Hello. One that falls silent stays, so that answers can say that it did
 * not answer; it is forgotten on the operator's word, or after a day. Takes the time as argument.
 */
#define PR_NODE_SILENT_NS INT64_C(6000000000)
#define PR_NODE_FORGET_NS INT64_C(86400000000000)
#define PR_REGISTRY_MAX 1024

/* Who sits at the other end: several sockets may listen. */
struct pr_address {
	struct pr_rpc *rpc;
	struct pr_rpc_peer peer;
};

struct pr_node {
	Packrack__Hello *hello; /* the last one */
	struct pr_address address;
	int64_t heard; /* monotonic: any message */
	int64_t last_seen; /* real time of the same */
};

struct pr_registry {
	struct pr_node **nodes; /* by name */
	size_t count;
};

void pr_registry_free(struct pr_registry *registry);

/* What a Hello changed. */
enum pr_hello {
	PR_HELLO_SAME,
	PR_HELLO_NEW, /* a node not known so far */
	PR_HELLO_BACK, /* known, but from another connection or process: its queries are lost */
	PR_HELLO_REFUSED, /* err: bad name, too many, or another volume's node of that name is alive */
};
/* *before is where a node that is BACK used to be. */
enum pr_hello pr_registry_hello(struct pr_registry *registry, const struct pr_address *from,
	const Packrack__Hello *hello, int64_t mono, int64_t real, struct pr_address *before,
	struct pr_error *err);

/* Notes a sign of life; NULL: no such node. */
struct pr_node *pr_registry_heard(struct pr_registry *registry,
	const struct pr_address *from, int64_t mono, int64_t real);
struct pr_node *pr_registry_find(const struct pr_registry *registry, const char *name);
bool pr_registry_forget(struct pr_registry *registry, const char *name);
/* Forgets those silent for a day; returns how many. */
size_t pr_registry_expire(struct pr_registry *registry, int64_t mono);
bool pr_node_connected(const struct pr_node *node, int64_t mono);

bool pr_address_equal(const struct pr_address *a, const struct pr_address *b);

#endif
