/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/server_internal.h"

#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* What nodes say of themselves: that they are there, and which summaries they have. */

void
prm_merger_node_lost(
	struct prm_merger *m, const struct prm_address *address, const char *why)
{
	for (size_t i = 0; i < m->query_count; i++)
		prm_fanout_lost(m->queries[i], address, why);
}

/* A key speaks for the node that it was enrolled as, and for parts of it: NAME/PART. */
static bool
speaks_for(const struct pr_rpc_peer *peer, const char *name)
{
	size_t len = strlen(peer->user);

	return !len ||
	       (!strncmp(name, peer->user, len) && (!name[len] || name[len] == '/'));
}

static void
refuse_name(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct pr_error text;

	pr_error_set(&text,
		"node %s has the key that is enrolled as %s: give it that --name",
		env->hello->name, from->peer.user);
	if (pr_now_mono() - m->said_name > PR_NS_PER_S)
		pr_log_warning("%s", text.text);
	m->said_name = pr_now_mono();
	prm_merger_refuse(from, env->id, text.text, true);
}

void
prm_merger_on_hello(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct prm_address before;
	struct pr_error err;

	if (!speaks_for(&from->peer, env->hello->name)) {
		refuse_name(m, from, env);
		return;
	}
	switch (prm_registry_hello(&m->registry, from, env->hello, pr_now_mono(),
		pr_now_real(), &before, &err)) {
	case PRM_HELLO_SAME:
		break;
	case PRM_HELLO_NEW:
		pr_log_with(PR_LOG_INFO,
			PR_LOG_FIELDS(
				{"node", env->hello->name}, {"volume", env->hello->volume}),
			"node %s is here (volume %s)", env->hello->name,
			env->hello->volume);
		break;
	case PRM_HELLO_BACK:
		pr_log_node(PR_LOG_INFO, env->hello->name, "node %s is here again",
			env->hello->name);
		prm_merger_node_lost(m, &before, "it was restarted during the query");
		break;
	case PRM_HELLO_REFUSED:
		pr_log_warning("%s", err.text);
		break;
	}
}

/* ---- summaries ---- */

static void
want_summaries(struct prm_merger *m, const struct prm_node *node)
{
	Packrack__SummaryWant want = PACKRACK__SUMMARY_WANT__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	uint64_t numbers[PRM_SUMMARIES_WANT_MAX];

	want.n_numbers = prm_summaries_want(
		m->summaries, node->hello->name, pr_now_mono(), &want.boot, numbers);
	want.numbers = numbers;
	env.body_case = PACKRACK__ENVELOPE__BODY_SUMMARY_WANT;
	env.summary_want = &want;
	if (want.n_numbers)
		prm_merger_reply(&node->address, 0, &env);
}

void
prm_merger_on_coverage(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct prm_node *node =
		prm_registry_heard(&m->registry, from, pr_now_mono(), pr_now_real());
	struct pr_error err;

	if (!node)
		return; /* one that was refused */
	if (prm_summaries_coverage(m->summaries, node->hello->name, env->coverage,
		    pr_now_mono(), &err) < 0)
		pr_log_warning("%s", err.text);
	want_summaries(m, node);
}

void
prm_merger_on_summary(
	struct prm_merger *m, const struct prm_address *from, const Packrack__Envelope *env)
{
	struct prm_node *node =
		prm_registry_heard(&m->registry, from, pr_now_mono(), pr_now_real());

	if (!node)
		return;
	prm_summaries_body(m->summaries, node->hello->name, env->summary);
	want_summaries(m, node);
}

void
prm_merger_forget_summaries(struct prm_merger *m)
{
	const char *name;

	for (size_t i = 0; (name = prm_summaries_name(m->summaries, i));)
		if (prm_registry_find(&m->registry, name))
			i++;
		else
			prm_summaries_forget(m->summaries, name);
}
