/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/node.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/wire/rack_key.h"

enum phase {
	PHASE_ANNOUNCING, /* perhaps with a session that goes on */
	PHASE_FOLLOWING,
	PHASE_AWAY, /* told to disconnect */
	PHASE_LEAVING,
};

struct prl_node {
	struct prl_node_config c;
	enum phase phase;
	uint32_t nonce;
	uint64_t numbers[PR_FRAME_TYPES];
	struct pr_replay replay[PR_FRAME_TYPES];

	struct prl_session *session;
	uint8_t peer[PR_MAC_LEN]; /* of the session */
	uint32_t peer_nonce;
	uint64_t base_stored, base_bytes, base_durable; /* when the session began */
	uint64_t session_frames, session_bytes;
	struct prl_session_stats past; /* sessions that are over */

	/* Data that came while nobody had acknowledged us: the acknowledgement may be what was lost. */
	struct prl_capture_record **backlog;
	size_t backlog_count;
	int64_t backlog_since;

	int64_t announced, marked, reported, left;
	uint64_t reported_cost;
	uint64_t stop_command; /* a STOP that is not carried out yet */
	bool stop_asked, stopped;
	uint64_t command;
	uint8_t command_type, command_result;
	struct prl_node_stats stats;
};

/* ---- what it sends ---- */

/* Not more often, whatever comes: strangers' frames must not make us flood the switch. */
#define ANNOUNCE_LEAST_NS (50 * PR_NS_PER_MS)

static const uint8_t broadcast[PR_MAC_LEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

static void
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

static void
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

static void
prl_node_start_announcing(struct prl_node *n, int64_t now)
{
	if (n->phase != PHASE_FOLLOWING && n->phase != PHASE_ANNOUNCING)
		return;
	n->phase = PHASE_ANNOUNCING;
	prl_node_announce(n, now);
}

static void
prl_node_send_status(struct prl_node *n, int64_t now)
{
	const struct prl_writer_counters *a = prl_writer_counters(n->c.append);
	struct pr_frame f = {0};
	struct pr_status *s = &f.body.status;
	struct prl_session_stats stats;

	if (!n->session)
		return;
	n->reported = now;
	n->c.report(n->c.arg, s);
	prl_session_get_stats(n->session, &stats);
	s->ordinal_settled = prl_match_ordinal(prl_session_match(n->session));
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
	prl_node_send(n, &f, PR_FRAME_STATUS, n->peer);
	n->stats.statuses++;
}

/* ---- sessions ---- */

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

static void
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
	n->session_frames++;
	n->session_bytes += rec->caplen;
	prl_session_frame(n->session, rec, now);
}

static void
session_begin(struct prl_node *n, const struct pr_frame *f)
{
	const struct prl_writer_counters *counters = prl_writer_counters(n->c.append);
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

static void
prl_node_backlog_drop(struct prl_node *n)
{
	n->stats.unexpected += n->backlog_count;
	n->backlog_count = 0;
}

static bool
prl_node_of_session(const struct prl_node *n, const struct pr_frame *f)
{
	return n->session && f->header.epoch == prl_session_epoch(n->session) &&
	       f->header.sender_nonce == n->peer_nonce &&
	       !memcmp(f->src, n->peer, PR_MAC_LEN);
}

static void
prl_node_follow(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (!prl_node_of_session(n, f))
		session_begin(n, f);
	if (!n->session)
		return;
	n->phase = PHASE_FOLLOWING;
	n->marked = now;
	for (size_t i = 0; i < n->backlog_count; i++)
		data_take(n, n->backlog[i], now);
	n->backlog_count = 0;
	prl_node_send_status(n, now);
}

/* ---- control frames ---- */

/* Only while we ask for it: an old one replayed must not lead us astray. */
static void
on_ann_ack(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (n->phase != PHASE_ANNOUNCING || f->header.epoch == 0) {
		if (n->phase == PHASE_FOLLOWING && prl_node_of_session(n, f))
			prl_node_send_status(n, now);
		return;
	}
	prl_node_follow(n, f, now);
}

static void
on_mark(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	n->marked = now;
	if (!f->body.mark.stopping)
		n->stopped = false;
	prl_session_mark(n->session, &f->body.mark, now);
}

static void
on_tslog(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (prl_match_tslog(
		    prl_session_match(n->session), f->body.raw.data, f->body.raw.len, now))
		n->stats.control_bad[PR_FRAME_BAD_BODY]++;
}

static void
on_gone(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	prl_match_gone(prl_session_match(n->session), &f->body.gone, now);
}

static void
on_port(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	(void)now;
	prl_session_port(n->session, &f->body.port);
}

static void
command_done(struct prl_node *n, const struct pr_frame *f, int result, int64_t now)
{
	n->command = f->body.command.command;
	n->command_type = f->header.type;
	n->command_result = result != 0;
	prl_node_send_status(n, now);
}

static void
on_stop(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (n->stopped && n->command == f->body.command.command) {
		prl_node_send_status(n, now);
		return;
	}
	n->stop_asked = true;
	n->stop_command = f->body.command.command;
}

/* IDENTIFY, RESET: one that is repeated gets the same answer again. */
static void
on_deed(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	int result = n->command_result;

	if (n->command_type != f->header.type || n->command != f->body.command.command)
		result = f->header.type == PR_FRAME_RESET
				 ? n->c.reset(n->c.arg)
				 : n->c.identify(n->c.arg, f->body.command.seconds);
	command_done(n, f, result, now);
}

static void
on_disconnect(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	struct pr_frame quit = {0};

	command_done(n, f, 0, now);
	prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
	prl_node_session_end(n);
	prl_node_backlog_drop(n);
	n->phase = PHASE_AWAY;
	n->nonce = pr_nonce_make(); /* frames of the old bond bind no more */
	pr_log_info("told to disconnect");
}

static void
on_reconnect(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (n->phase == PHASE_FOLLOWING && prl_node_of_session(n, f)) {
		command_done(n, f, 0, now);
		return;
	}
	if (n->phase == PHASE_AWAY)
		n->phase = PHASE_ANNOUNCING;
	prl_node_start_announcing(n, now);
}

struct row {
	void (*call)(struct prl_node *n, const struct pr_frame *f, int64_t now);
	bool bound; /* only from the dispatcher that we follow, and for our present nonce */
};

static const struct row table[PR_FRAME_TYPES] = {
	[PR_FRAME_ANN_ACK] = {on_ann_ack, false},
	[PR_FRAME_TSLOG] = {on_tslog, true},
	[PR_FRAME_MARK] = {on_mark, true},
	[PR_FRAME_GONE] = {on_gone, true},
	[PR_FRAME_STOP] = {on_stop, true},
	[PR_FRAME_IDENTIFY] = {on_deed, true},
	[PR_FRAME_RESET] = {on_deed, true},
	[PR_FRAME_DISCONNECT] = {on_disconnect, true},
	[PR_FRAME_RECONNECT] = {on_reconnect, false},
	[PR_FRAME_PORT] = {on_port, true},
};

static void
prl_node_control(struct prl_node *n, const struct prl_capture_record *rec, int64_t now)
{
	struct pr_frame f;
	enum pr_frame_result result;
	const struct row *row;
	bool for_us, of_capture;

	result = pr_frame_decode(rec->data, rec->caplen, n->c.ethertype, n->c.key, &f);
	if (result != PR_FRAME_OK) {
		n->stats.control_bad[result]++;
		return;
	}
	row = f.header.type < PR_FRAME_TYPES ? &table[f.header.type] : NULL;
	if (f.header.rack != n->c.rack || !row || !row->call)
		return; /* another rack's, or another node's announcement */
	if (n->c.key)
		pr_rack_key_heard(n->c.key, f.by_alternate);
	for_us = f.header.type == PR_FRAME_RECONNECT || f.header.receiver_nonce == n->nonce;
	of_capture = f.header.type == PR_FRAME_MARK || f.header.type == PR_FRAME_TSLOG;
	/* It speaks to our present nonce, so it has acknowledged us, and that frame was lost or is late. */
	if (for_us && of_capture && n->phase == PHASE_ANNOUNCING && !n->session &&
		f.header.epoch)
		prl_node_follow(n, &f, now);
	if (!for_us || (row->bound && !prl_node_of_session(n, &f))) {
		n->stats.control_refused++;
		/* A dispatcher that takes us for another, or another dispatcher: say who we are. */
		if (of_capture)
			prl_node_start_announcing(n, now);
		return;
	}
	if (!pr_replay_accept(
		    &n->replay[f.header.type], f.header.sender_nonce, f.header.number)) {
		n->stats.control_refused++;
		return;
	}
	row->call(n, &f, now);
}

/* ---- frames and time ---- */

void
prl_node_receive(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	if (rec->control) {
		prl_node_control(n, rec, now);
	} else if (rec->caplen < PR_ETHER_LEN || memcmp(rec->data, n->c.mac, PR_MAC_LEN)) {
		n->stats.foreign++;
	} else if (n->session) {
		data_take(n, rec, now);
	} else if (n->phase != PHASE_ANNOUNCING || n->backlog_count == BACKLOG_MAX) {
		n->stats.unexpected++;
	} else {
		if (n->backlog_count == 0)
			n->backlog_since = now;
		n->backlog[n->backlog_count++] = rec;
	}
}

/* STOP is answered when all that was sent before is on the disk, or lost for sure. */
static void
stop_try(struct prl_node *n, int64_t now)
{
	struct pr_error err;

	/* tried again when the volume takes something */
	if (!n->stop_asked || !prl_session_settled(n->session) ||
		prl_writer_suspend_reason(n->c.append))
		return;
	prl_session_drop_leftovers(n->session);
	prl_session_tick(n->session, now);
	if (prl_writer_flush(n->c.append, &err)) {
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
	prl_match_run(prl_session_match(n->session), now);
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

bool
prl_node_quit(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (n->phase != PHASE_LEAVING) {
		n->phase = PHASE_LEAVING;
		n->left = now;
		if (n->session)
			prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
	}
	return !n->session || n->stopped || now - n->left >= LEAVE_NS;
}

void
prl_node_finish(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (!n->session)
		return;
	prl_session_finish(n->session);
	prl_writer_flush(
		n->c.append, NULL); /* what fails here fails for the caller again */
	prl_node_send_status(n, now);
	prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
	prl_node_session_end(n);
}

struct prl_node *
prl_node_create(const struct prl_node_config *config, struct pr_error *err)
{
	struct prl_node *n = calloc(1, sizeof(*n));

	if (n)
		n->backlog = malloc(BACKLOG_MAX * sizeof(struct prl_capture_record *));
	if (!n || !n->backlog) {
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
	out->ordinal = n->session ? prl_match_ordinal(prl_session_match(n->session)) : 0;
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
