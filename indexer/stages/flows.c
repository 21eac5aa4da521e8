/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow.h"
#include "indexer/stages/stage_common.h"

/* Flow classification, as `packrack flows` does it; its report has sums, and how long the chains of the hash are. */

struct flows {
	struct pri_flow_table *table;
	struct pr_error error;
	uint32_t scale;
	uint64_t flows, tcp, udp, states[PRI_FLOW_STATES], packets, bytes, early, not_ip;
	uint64_t chains[PRI_FLOW_CHAINS]; /* of the open flows, at the end */
};

static int
on_flow(void *arg, const struct pri_flow *flow, PR_UNUSED struct pr_error *err)
{
	struct flows *f = arg;

	f->flows++;
	f->tcp += flow->key.protocol == 6;
	f->udp += flow->key.protocol == 17;
	if (flow->key.protocol == 6)
		f->states[pri_flow_state(flow)]++;
	for (int i = 0; i < 2; i++)
		PR_ADD(f, &flow->side[i], packets, bytes);
	return 0;
}

static void
flows_close(void *state)
{
	struct flows *f = state;

	pri_flow_table_destroy(&f->table);
	free(f);
}

static void *
flows_open(PR_UNUSED const char *const *options, char *error, size_t size)
{
	static const struct pri_flow_limits limits; /* the defaults */
	struct flows *f = calloc(1, sizeof(*f));

	if (f)
		f->table = pri_flow_table_create(&limits, on_flow, f, &f->error);
	if (f && f->table)
		return f;
	free(f);
	snprintf(error, size, "no memory for flows");
	return NULL;
}

static int
flows_packet(void *state, struct packrack_packet *p)
{
	struct flows *f = state;
	struct pr_packet packet = pri_stage_packet_of(p);

	f->scale = p->scale;
	return pri_flow_table_packet(f->table, &packet, &f->error) < 0 ? -1 : 0;
}

static int
flows_flush(void *state)
{
	struct flows *f = state;

	pri_flow_table_chains(f->table, f->chains);
	if (pri_flow_table_advance(f->table, PRI_FLOW_NEVER, &f->error) < 0)
		return -1;
	PR_COPY(f, pri_flow_table_figures(f->table), early, not_ip);
	return 0;
}

static int
flows_add(void *state, void *other)
{
	struct flows *f = state, *o = other;

	f->scale = f->scale ? f->scale : o->scale;
	PR_ADD(f, o, flows, tcp, udp, packets, bytes, early, not_ip);
	for (size_t i = 0; i < PRI_FLOW_STATES; i++)
		f->states[i] += o->states[i];
	for (size_t i = 0; i < PRI_FLOW_CHAINS; i++)
		f->chains[i] += o->chains[i];
	return 0;
}

static char *
flows_report(void *state)
{
	const struct flows *f = state;
	json_t *r = json_object(), *states = json_object(), *chains = json_object();
	char length[8];

	pri_stage_put(r, "flows", f->flows, f->scale);
	pri_stage_put(r, "tcp", f->tcp, f->scale);
	pri_stage_put(r, "udp", f->udp, f->scale);
	pri_stage_put(r, "packets", f->packets * f->scale, 1);
	pri_stage_put(r, "bytes", f->bytes * f->scale, 1);
	pri_stage_put(r, "not_ip", f->not_ip * f->scale, 1);
	pri_stage_put(r, "ended_early", f->early, f->scale);
	for (int i = 0; i < PRI_FLOW_STATES; i++)
		if (f->states[i])
			pri_stage_put(states, pri_flow_state_name((enum pri_flow_state)i),
				f->states[i], f->scale);
	for (int i = 0; i < PRI_FLOW_CHAINS; i++) {
		PR_PRINT(length, i + 1 < PRI_FLOW_CHAINS ? "%d" : "%d up", i);
		pri_stage_put(chains, length, f->chains[i], 1);
	}
	json_object_set_new(r, "tcp_states", states);
	json_object_set_new(r, "hash_chains", chains);
	return pri_stage_text(r);
}

const struct packrack_stage pri_stage_flows = {PACKRACK_STAGE_VERSION,
	PACKRACK_STAGE_CONNECTIONS, "flows",
	"flows by protocol and state, and the chains of their hash table", NULL, flows_open,
	flows_packet, flows_flush, flows_add, flows_report, flows_close};
