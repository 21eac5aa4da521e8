/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/node_private.h"
#include "proto/base/log.h"
#include "proto/wire/rack_key.h"

/* Only while we ask for it: an old one replayed must not lead us astray. */
static void
on_ann_ack(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (n->phase != PHASE_ANNOUNCING || f->header.epoch == 0) {
		if (n->phase == PHASE_FOLLOWING && prl_node_of_session(n, f))
			prl_node_send_status(n, now);
		return;
	}
	n->stats.acknowledged++;
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
	if (prl_session_tslog(n->session, f->body.raw.data, f->body.raw.len, now))
		n->stats.control_bad[PR_FRAME_BAD_BODY]++;
}

static void
on_gone(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	prl_session_gone(n->session, &f->body.gone, now);
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

static bool
repeated(const struct prl_node *n, const struct pr_frame *f)
{
	return n->command_type == f->header.type && n->command == f->body.command.command;
}

static void
on_identify(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	int result = n->command_result;

	if (!repeated(n, f))
		result = n->c.identify(n->c.arg, f->body.command.seconds);
	command_done(n, f, result, now);
}

static void
on_reset(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	int result = n->command_result;

	if (!repeated(n, f))
		result = n->c.reset(n->c.arg);
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
	[PR_FRAME_IDENTIFY] = {on_identify, true},
	[PR_FRAME_RESET] = {on_reset, true},
	[PR_FRAME_DISCONNECT] = {on_disconnect, true},
	[PR_FRAME_RECONNECT] = {on_reconnect, false},
	[PR_FRAME_PORT] = {on_port, true},
};

static void
refuse(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	n->stats.control_refused++;
	/* A dispatcher that takes us for another, or another dispatcher: say who we are. */
	if (f->header.type == PR_FRAME_MARK || f->header.type == PR_FRAME_TSLOG)
		prl_node_start_announcing(n, now);
}

/* It speaks to our present nonce, so it has acknowledged us, and that frame was lost or is late. */
static bool
acknowledges(const struct prl_node *n, const struct pr_frame *f)
{
	return n->phase == PHASE_ANNOUNCING && !n->session && f->header.epoch &&
	       (f->header.type == PR_FRAME_MARK || f->header.type == PR_FRAME_TSLOG);
}

void
prl_node_control(struct prl_node *n, const struct prl_capture_record *rec, int64_t now)
{
	struct pr_frame f;
	enum pr_frame_result result;
	const struct row *row;

	result = pr_frame_decode(rec->data, rec->caplen, n->c.ethertype, n->c.key, &f);
	n->stats.control_frames++;
	if (result != PR_FRAME_OK) {
		n->stats.control_bad[result]++;
		return;
	}
	row = f.header.type < PR_FRAME_TYPES ? &table[f.header.type] : NULL;
	if (f.header.rack != n->c.rack || !row || !row->call)
		return; /* another rack's, or another node's announcement */
	if (n->c.key)
		pr_rack_key_heard(n->c.key, f.by_alternate);
	if (f.header.type != PR_FRAME_RECONNECT && f.header.receiver_nonce != n->nonce) {
		refuse(n, &f, now);
		return;
	}
	if (row->bound && acknowledges(n, &f))
		prl_node_follow(n, &f, now);
	if (row->bound && !prl_node_of_session(n, &f)) {
		refuse(n, &f, now);
		return;
	}
	if (!pr_replay_accept(
		    &n->replay[f.header.type], f.header.sender_nonce, f.header.number)) {
		n->stats.control_refused++;
		return;
	}
	row->call(n, &f, now);
}
