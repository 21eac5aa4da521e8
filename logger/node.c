/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/node_private.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define ANNOUNCE_NS PR_NS_PER_S
#define STATUS_NS (500 * PR_NS_PER_MS)
#define SILENCE_NS (2 * PR_NS_PER_S)
#define LEAVE_NS (400 * PR_NS_PER_MS)
#define BACKLOG_MAX 65536
#define BACKLOG_NS (2 * PR_NS_PER_S)

static void
add_stats(struct prl_session_stats *sum, const struct prl_session_stats *s)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	_Static_assert(sizeof(*sum) % sizeof(uint64_t) == 0, "counters only");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		to[i] += from[i];
}

void
prl_node_session_end(struct prl_node *n)
{
	struct prl_session_stats s;

	if (!n->session)
		return;
	/* What is open is lost now: the one who could say more is gone. */
	prl_session_finish(n->session);
	prl_session_release(n->session, false);
	prl_session_get_stats(n->session, &s);
	s.match.pending_frames = s.match.pending_entries = 0;
	add_stats(&n->past, &s);
	prl_session_destroy(&n->session);
	n->stop_asked = n->stopped = false;
}

static void
on_resend(void *arg, const struct pr_resend *resend)
{
	struct prl_node *n = arg;
	struct pr_frame f = {.body.resend = *resend};

	if (!n->session)
		return;
	prl_node_send(n, &f, PR_FRAME_RESEND, n->peer);
	n->stats.resends++;
}

static void
data_take(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	if (memcmp(rec->data + PR_MAC_LEN, n->peer, PR_MAC_LEN)) {
		n->stats.foreign++;
		return;
	}
	n->stats.frames++;
	n->stats.bytes += rec->caplen;
	n->session_frames++;
	n->session_bytes += rec->caplen;
	prl_session_frame(n->session, rec, now);
}

static void
session_begin(struct prl_node *n, const struct pr_frame *f)
{
	const struct prl_append_counters *counters = prl_append_counters(n->c.append);
	struct prl_session_config config = {
		.append = n->c.append,
		.ring = n->c.ring,
		.match = n->c.match,
		.resend = on_resend,
		.arg = n,
	};
	struct pr_error err;

	prl_node_session_end(n);
	config.match.epoch = f->header.epoch;
	n->session = prl_session_create(&config, &err);
	if (!n->session) {
		pr_log_error("%s", err.text);
		return;
	}
	memcpy(n->peer, f->src, PR_MAC_LEN);
	n->peer_nonce = f->header.sender_nonce;
	n->base_stored = pr_counter_get(&counters->packets_stored);
	n->base_bytes = pr_counter_get(&counters->bytes_stored);
	n->base_durable = pr_counter_get(&counters->packets_durable);
	n->session_frames = n->session_bytes = n->reported_cost = 0;
	n->c.epoch(n->c.arg, config.match.epoch);
	pr_log_info(
		"node %u of the dispatcher at %02x:%02x:%02x:%02x:%02x:%02x, epoch %016llx",
		f->body.ann_ack.node, f->src[0], f->src[1], f->src[2], f->src[3], f->src[4],
		f->src[5], (unsigned long long)config.match.epoch);
}

void
prl_node_backlog_drop(struct prl_node *n)
{
	n->stats.unexpected += n->backlog_count;
	n->backlog_count = 0;
}

static void
backlog_take(struct prl_node *n, int64_t now)
{
	for (size_t i = 0; i < n->backlog_count; i++)
		data_take(n, n->backlog[i], now);
	n->backlog_count = 0;
}

static void
backlog_add(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	if (n->phase != PHASE_ANNOUNCING || n->backlog_count == BACKLOG_MAX) {
		n->stats.unexpected++;
		return;
	}
	if (n->backlog_count == 0)
		n->backlog_since = now;
	n->backlog[n->backlog_count++] = rec;
}

bool
prl_node_of_session(const struct prl_node *n, const struct pr_frame *f)
{
	return n->session && f->header.epoch == prl_session_epoch(n->session) &&
	       f->header.sender_nonce == n->peer_nonce &&
	       !memcmp(f->src, n->peer, PR_MAC_LEN);
}

void
prl_node_follow(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (!prl_node_of_session(n, f))
		session_begin(n, f);
	if (!n->session)
		return;
	n->phase = PHASE_FOLLOWING;
	n->marked = now;
	backlog_take(n, now);
	prl_node_send_status(n, now);
}

static void
on_data(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	if (n->session)
		data_take(n, rec, now);
	else
		backlog_add(n, rec, now);
}

void
prl_node_receive(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	if (rec->control)
		prl_node_control(n, rec, now);
	else if (rec->caplen >= PR_ETHER_LEN && !memcmp(rec->data, n->c.mac, PR_MAC_LEN))
		on_data(n, rec, now);
	else
		n->stats.foreign++;
}

/* STOP is answered when all that was sent before is on the disk, or lost for sure. */
static void
stop_try(struct prl_node *n, int64_t now)
{
	struct pr_error err;

	if (!n->stop_asked || !prl_session_settled(n->session))
		return;
	if (prl_append_suspended(n->c.append))
		return; /* tried again when the volume takes something */
	prl_session_drop_leftovers(n->session);
	prl_session_tick(n->session, now);
	if (prl_append_flush(n->c.append, &err)) {
		pr_log_error("cannot flush: %s", err.text);
		return;
	}
	n->stop_asked = false;
	n->stopped = true;
	n->command = n->stop_command;
	n->command_type = PR_FRAME_STOP;
	n->command_result = 0;
	prl_node_send_status(n, now);
}

void
prl_node_run(struct prl_node *n, bool full, int64_t now)
{
	struct prl_session_stats stats;

	if (!n->session) {
		if (full || now - n->backlog_since >= BACKLOG_NS)
			prl_node_backlog_drop(n);
		if (n->backlog_count == 0)
			pr_ring_release(n->c.ring);
		return;
	}
	prl_session_run(n->session, now);
	prl_session_release(n->session, full);
	stop_try(n, now);
	prl_session_get_stats(n->session, &stats);
	if (stats.settled_cost - n->reported_cost >= n->c.ann.buffer_size / 4)
		prl_node_send_status(n, now);
}

void
prl_node_tick(struct prl_node *n, int64_t now)
{
	if (n->session) {
		prl_session_tick(n->session, now);
		stop_try(n, now);
	}
	if (n->phase == PHASE_FOLLOWING && now - n->marked >= SILENCE_NS) {
		pr_log_warning("no word of the dispatcher for 2 s: announcing again");
		n->phase = PHASE_ANNOUNCING;
	}
	if (n->phase == PHASE_ANNOUNCING &&
		(!n->announced || now - n->announced >= ANNOUNCE_NS))
		prl_node_announce(n, now);
	if (n->session && n->phase != PHASE_AWAY && now - n->reported >= STATUS_NS)
		prl_node_send_status(n, now);
}

void
prl_node_leave(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (n->phase == PHASE_LEAVING)
		return;
	n->phase = PHASE_LEAVING;
	n->left = now;
	if (n->session)
		prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
}

bool
prl_node_left(const struct prl_node *n, int64_t now)
{
	struct prl_session_stats stats;

	if (n->phase != PHASE_LEAVING || !n->session || n->stopped)
		return n->phase == PHASE_LEAVING;
	prl_session_get_stats(n->session, &stats);
	return now - n->left >= LEAVE_NS;
}

void
prl_node_end(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (!n->session)
		return;
	prl_session_finish(n->session);
	prl_append_flush(
		n->c.append, NULL); /* what fails here fails for the caller again */
	prl_node_send_status(n, now);
	prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
	prl_node_session_end(n);
}

struct prl_node *
prl_node_create(const struct prl_node_config *config, struct pr_error *err)
{
	struct prl_node *n = calloc(1, sizeof(*n));

	if (!n) {
		pr_error_set(err, "no memory for the node");
		return NULL;
	}
	n->backlog = malloc(BACKLOG_MAX * sizeof(struct prl_capture_record *));
	if (!n->backlog) {
		free(n);
		pr_error_set(err, "no memory for the node");
		return NULL;
	}
	n->c = *config;
	n->nonce = pr_nonce_make();
	return n;
}

void
prl_node_destroy(struct prl_node **node)
{
	struct prl_node *n = *node;

	if (!n)
		return;
	prl_node_session_end(n);
	free(n->backlog);
	free(n);
	*node = NULL;
}

uint32_t
prl_node_nonce(const struct prl_node *n)
{
	return n->nonce;
}

void
prl_node_get_stats(const struct prl_node *n, struct prl_node_stats *out)
{
	*out = n->stats;
	out->connected = n->phase == PHASE_FOLLOWING;
	out->epoch = n->session ? prl_session_epoch(n->session) : 0;
	out->ordinal = n->session ? prl_session_ordinal(n->session) : 0;
}

void
prl_node_get_totals(const struct prl_node *n, struct prl_session_stats *out)
{
	struct prl_session_stats now = {0};

	*out = n->past;
	if (n->session)
		prl_session_get_stats(n->session, &now);
	add_stats(out, &now);
}
