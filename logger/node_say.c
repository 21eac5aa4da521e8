/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/node_private.h"
#include "proto/base/clock.h"
#include "proto/wire/rack_key.h"

/* Not more often, whatever comes: strangers' frames must not make us flood the switch. */
#define ANNOUNCE_LEAST_NS (50 * PR_NS_PER_MS)

static const uint8_t broadcast[PR_MAC_LEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void
prl_node_send(struct prl_node *n, struct pr_frame *f, uint8_t type, const uint8_t *dst)
{
	memcpy(f->dst, dst, PR_MAC_LEN);
	memcpy(f->src, n->c.mac, PR_MAC_LEN);
	f->header.type = type;
	f->header.rack = n->c.rack;
	f->header.epoch = n->session ? prl_session_epoch(n->session) : 0;
	f->header.number = ++n->numbers[type];
	f->header.sender_nonce = n->nonce;
	f->header.receiver_nonce = n->session ? n->peer_nonce : 0;
	n->c.send(n->c.arg, f);
}

void
prl_node_announce(struct prl_node *n, int64_t now)
{
	struct pr_frame f = {.body.ann = n->c.ann};
	struct pr_status disk = {0};

	if (n->announced && now - n->announced < ANNOUNCE_LEAST_NS)
		return;
	if (n->announced && n->c.key && !n->session)
		pr_rack_key_turn(n->c.key);
	n->announced = now;
	n->c.report(n->c.arg, &disk);
	f.body.ann.disk_total = disk.disk_total;
	f.body.ann.disk_free = disk.disk_free;
	f.body.ann.write_rate = disk.write_rate;
	prl_node_send(n, &f, PR_FRAME_ANN, broadcast);
	n->stats.announced++;
}

void
prl_node_start_announcing(struct prl_node *n, int64_t now)
{
	if (n->phase != PHASE_FOLLOWING && n->phase != PHASE_ANNOUNCING)
		return;
	n->phase = PHASE_ANNOUNCING;
	prl_node_announce(n, now);
}

static void
fill_status(struct prl_node *n, struct pr_status *s)
{
	const struct prl_append_counters *a = prl_append_counters(n->c.append);
	struct prl_session_stats stats;

	prl_session_get_stats(n->session, &stats);
	s->ordinal_settled = prl_session_ordinal(n->session);
	s->frames_received = n->session_frames;
	s->bytes_received = n->session_bytes;
	s->packets_stored = pr_counter_get(&a->packets_stored) - n->base_stored;
	s->bytes_stored = pr_counter_get(&a->bytes_stored) - n->base_bytes;
	s->packets_durable = pr_counter_get(&a->packets_durable) - n->base_durable;
	s->missing = stats.match.lost;
	s->stray = stats.match.strays + stats.match.late;
	s->duplicate = stats.match.duplicates;
	s->pending = stats.match.pending_frames;
	s->logs_received = stats.match.logs;
	s->logs_requested = stats.match.logs_requested;
	s->logs_gone = stats.match.logs_gone;
	s->command = n->command;
	s->command_type = n->command_type;
	s->command_result = n->command_result;
	if (n->stopped && s->state == PR_NODE_RUNNING)
		s->state = PR_NODE_STOPPED;
	n->reported_cost = stats.settled_cost;
}

void
prl_node_send_status(struct prl_node *n, int64_t now)
{
	struct pr_frame f = {0};

	if (!n->session)
		return;
	n->reported = now;
	n->c.report(n->c.arg, &f.body.status);
	fill_status(n, &f.body.status);
	prl_node_send(n, &f, PR_FRAME_STATUS, n->peer);
	n->stats.statuses++;
}
