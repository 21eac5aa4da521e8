/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/registry.h"

#include "proto/base/array.h"

bool
prm_peer_ref_equal(const struct prm_peer_ref *a, const struct prm_peer_ref *b)
{
	return a->rpc == b->rpc && pr_rpc_peer_equal(&a->peer, &b->peer);
}

int
prm_send(const struct prm_peer_ref *to, uint64_t id, Packrack__Envelope__BodyCase body_case,
	const void *body)
{
	Packrack__Envelope env = pr_message_of(id, body_case, body);

	return pr_rpc_send(to->rpc, to->peer.len ? &to->peer : NULL, &env, NULL);
}

bool
prm_node_connected(const struct prm_node_info *node, int64_t mono)
{
	return mono - node->heard <= PRM_NODE_SILENT_NS;
}

static void
node_free(struct prm_node_info *node)
{
	packrack__hello__free_unpacked(node->hello, NULL);
	free(node);
}

void
prm_registry_free(struct prm_registry *r)
{
	for (size_t i = 0; i < r->count; i++)
		node_free(r->nodes[i]);
	free(r->nodes);
	*r = (struct prm_registry){0};
}

struct prm_node_info *
prm_registry_find(const struct prm_registry *r, const char *name)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->nodes[i]->hello->name, name))
			return r->nodes[i];
	return NULL;
}

/* Copies a Hello if its key has room for it, and for one name more unless the node is known. */
static Packrack__Hello *
copy_within_limits(const struct prm_registry *r, const struct prm_node_info *known,
	const struct pr_rpc_peer *peer, const Packrack__Hello *hello, size_t *bytes,
	struct pr_error *err)
{
	size_t names = !known, left = PRM_REGISTRY_BYTES_MAX, room;

	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->nodes[i]->address.peer.who, peer->who)) {
			names++;
			left -= r->nodes[i] == known ? 0 : r->nodes[i]->bytes;
		}
	if (peer->user[0] && names > PRM_REGISTRY_NAMES_MAX)
		return pr_error_null(err,
			"node %s: key %s has %d names already, as many as a "
			"key may have: forget one (packrack node forget)",
			hello->name, peer->user, PRM_REGISTRY_NAMES_MAX);
	if (hello->n_links > PRM_REGISTRY_LINKS_MAX)
		return pr_error_null(err, "node %s reports %zu links: at most %d are taken",
			hello->name, hello->n_links, PRM_REGISTRY_LINKS_MAX);
	room = left;
	Packrack__Hello *copy = pr_message_copy_within(&hello->base, &left);
	if (!copy)
		return pr_error_null(err,
			"node %s: all nodes of %s may report %zu MiB, and this is more",
			hello->name, peer->who, PRM_REGISTRY_BYTES_MAX >> 20);
	*bytes = room - left;
	return copy;
}

static int
check(const struct prm_registry *r, const struct prm_node_info *known,
	const struct prm_peer_ref *from, const Packrack__Hello *hello, int64_t mono,
	struct pr_error *err)
{
	if (!hello->name[0])
		return pr_error_set(err, "a node without a name");
	if (!known && r->count >= PRM_REGISTRY_MAX)
		return pr_error_set(err, "node %s: there are %d nodes already", hello->name,
			PRM_REGISTRY_MAX);
	if (known && strcmp(known->hello->volume, hello->volume) &&
		prm_node_connected(known, mono) &&
		!prm_peer_ref_equal(&known->address, from))
		return pr_error_set(err,
			"two nodes have the name %s (volumes %s and %s): give one "
			"another --name",
			hello->name, known->hello->volume, hello->volume);
	return 0;
}

enum prm_hello
prm_registry_hello(struct prm_registry *r, const struct prm_peer_ref *from,
	const Packrack__Hello *hello, int64_t mono, int64_t real,
	struct prm_peer_ref *before, struct pr_error *err)
{
	struct prm_node_info *node = prm_registry_find(r, hello->name);
	enum prm_hello change = node ? PRM_HELLO_SAME : PRM_HELLO_NEW;
	Packrack__Hello *copy;
	size_t at = r->count, bytes;

	if (check(r, node, from, hello, mono, err) < 0 ||
		!(copy = copy_within_limits(r, node, &from->peer, hello, &bytes, err)))
		return PRM_HELLO_REFUSED;
	if (!node && PR_ARRAY_GROW(r->nodes, r->count) == 0)
		node = calloc(1, sizeof(*node));
	if (!node) {
		packrack__hello__free_unpacked(copy, NULL);
		return pr_error_as(
			PRM_HELLO_REFUSED, err, "no memory for node %s", hello->name);
	}
	if (change == PRM_HELLO_NEW) {
		for (r->count++;
			at && strcmp(r->nodes[at - 1]->hello->name, hello->name) > 0; at--)
			r->nodes[at] = r->nodes[at - 1];
		r->nodes[at] = node;
	} else {
		if (node->hello->boot != copy->boot ||
			!prm_peer_ref_equal(&node->address, from)) {
			change = PRM_HELLO_BACK;
			*before = node->address;
		}
		packrack__hello__free_unpacked(node->hello, NULL);
	}
	node->hello = copy;
	node->bytes = bytes;
	node->address = *from;
	node->heard = mono;
	node->last_seen = real;
	return change;
}

struct prm_node_info *
prm_registry_at(const struct prm_registry *r, const struct prm_peer_ref *address)
{
	for (size_t i = 0; i < r->count; i++)
		if (prm_peer_ref_equal(&r->nodes[i]->address, address))
			return r->nodes[i];
	return NULL;
}

struct prm_node_info *
prm_registry_heard(
	struct prm_registry *r, const struct prm_peer_ref *from, int64_t mono, int64_t real)
{
	struct prm_node_info *node = prm_registry_at(r, from);

	if (node) {
		node->heard = mono;
		node->last_seen = real;
	}
	return node;
}

bool
prm_registry_forget(struct prm_registry *r, const char *name)
{
	size_t at = 0;

	while (at < r->count && strcmp(r->nodes[at]->hello->name, name) != 0)
		at++;
	if (at == r->count)
		return false;
	node_free(r->nodes[at]);
	memmove(&r->nodes[at], &r->nodes[at + 1], (--r->count - at) * sizeof(*r->nodes));
	return true;
}
