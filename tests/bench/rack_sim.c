/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/rpc/rpc.h"

/*
 * rack_sim ENDPOINT NODES: speaks as a dispatcher of so many nodes, whose figures grow with the
 * clock. For measuring what asks it: a rack of 64 nodes needs no 64 machines.
 */
#define NODES_MAX 256
#define VALUES 28

static const char *const names[VALUES] = {"sent_frames", "sent_bytes", "primary_packets",
	"second_packets", "unacknowledged_frames", "lost_unacknowledged_frames",
	"sent_tslogs", "resends_asked", "resends_answered", "gone_answered",
	"buffer_size_bytes", "sent_controls", "received_controls", "received_frames",
	"stored_packets", "durable_packets", "stored_bytes", "missing_packets",
	"stray_frames", "duplicate_frames", "pending_frames", "dropped_kernel",
	"received_tslogs", "requested_tslogs", "gone_tslogs", "volume_size_bytes",
	"volume_free_bytes", "write_bytes_per_s"};

struct sim {
	struct pr_rpc *rpc;
	int nodes;
};

static Packrack__Value room[NODES_MAX][VALUES], *values[NODES_MAX][VALUES];
static Packrack__DispatcherNode node_room[NODES_MAX], *node_list[NODES_MAX];
static char node_names[NODES_MAX][16], macs[NODES_MAX][18];

static void
fill(int i, uint64_t t, int64_t now)
{
	Packrack__DispatcherNode *n = &node_room[i];

	packrack__dispatcher_node__init(n);
	snprintf(node_names[i], sizeof(node_names[i]), "node%03d", i);
	snprintf(macs[i], sizeof(macs[i]), "02:00:00:00:00:%02x", (unsigned)i & 0xff);
	for (int j = 0; j < VALUES; j++) {
		packrack__value__init(&room[i][j]);
		room[i][j].name = (char *)names[j];
		room[i][j].number = t * (uint64_t)(1 + (i * 7 + j * 3) % 50);
		values[i][j] = &room[i][j];
	}
	n->name = node_names[i];
	n->mac = macs[i];
	n->state = (char *)"active";
	n->number = (uint32_t)i;
	n->last_seen = now;
	n->values = values[i];
	n->n_values = VALUES;
	node_list[i] = n;
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *asked)
{
	struct sim *sim = arg;
	Packrack__Status s = PACKRACK__STATUS__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	int64_t now = pr_now_real();

	for (int i = 0; i < sim->nodes; i++)
		fill(i, (uint64_t)(now / PR_NS_PER_MS) % 100000000, now);
	s.program = (char *)"packrack-dispatcher";
	s.version = (char *)PACKRACK_VERSION;
	s.state = (char *)"capturing";
	s.time = now;
	s.epoch = 1;
	s.values = values[0];
	s.n_values = VALUES;
	s.dispatcher_nodes = node_list;
	s.n_dispatcher_nodes = (size_t)sim->nodes;
	env.id = asked->id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &s;
	pr_rpc_send(sim->rpc, peer, &env, NULL);
}

int
main(int argc, char **argv)
{
	struct sim sim = {.nodes = argc == 3 ? atoi(argv[2]) : 0};
	struct pr_error err = {"usage: rack_sim ENDPOINT NODES (1 to 256)"};
	struct pr_loop_calls calls = {0};
	struct pr_loop *loop = NULL;
	int status = 2;

	if (sim.nodes >= 1 && sim.nodes <= NODES_MAX) {
		status = 1;
		loop = pr_loop_create(&calls, &err);
		if (loop)
			sim.rpc =
				pr_rpc_listen(loop, argv[1], NULL, on_message, &sim, &err);
		if (sim.rpc && pr_loop_run(loop, &err) == 0)
			status = 0;
	}
	if (status)
		fprintf(stderr, "rack_sim: %s\n", err.text);
	if (sim.rpc)
		pr_rpc_destroy(&sim.rpc);
	pr_loop_destroy(&loop);
	return status;
}
