/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/node.h"

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/wire/rack_key.h"

/* ---- a packet as it was captured ---- */

bool
prl_restore(const struct pr_entry *e, uint8_t *data, uint32_t len, struct pr_packet *out)
{
	uint32_t caplen = e->flags & PR_ENTRY_CAPLEN ? e->caplen : len;
	size_t at;

	*out = (struct pr_packet){
		.time = e->time, .otime = e->otime, .seq = e->seq, .data = data};
	if (e->flags & PR_ENTRY_SECOND)
		out->flags |= PR_PACKET_SECOND;
	if (e->flags & PR_ENTRY_CUT)
		out->flags |= PR_PACKET_CUT;
	if (e->flags & PR_ENTRY_RUNT) {
		out->data = e->runt;
		caplen = e->runt_len;
	} else {
		if (caplen > len || len < PR_ETHER_LEN)
			return false;
		memcpy(data, e->macs, sizeof(e->macs));
		at = e->flags & PR_ENTRY_ETHERTYPE ? pr_ethertype_offset(data, len) : 0;
		if (at && at + 2 <= len) {
			data[at] = e->ethertype >> 8;
			data[at + 1] = e->ethertype;
		}
	}
	out->caplen = caplen;
	out->len = e->flags & (PR_ENTRY_LEN | PR_ENTRY_CAPLEN) ? e->len : caplen;
	return true;
}

/* ---- the node ---- */

/* What a frame takes in a buffer besides its bytes, as the dispatcher reckons too. */
#define FRAME_COST 128

struct link_info {
	uint16_t link, linktype;
	bool named; /* the ledger has its LINK entry */
	struct pr_port port; /* as the ledger has it */
	struct pr_observation observation; /* as the ledger has it */
	/* What a MARK declares is stored once all logs that it counts are settled here. */
	struct pr_ledger_mark waiting, latest;
	bool has_waiting, has_latest, stopping;
	bool told; /* the ledger knows that this node hears of the link */
};

#define RETIRED_MAX 16
/* One admission by one dispatcher; match NULL: none. */
struct session {
	struct prl_match *match;
	struct prl_silence_clock clock; /* match's */
	int64_t silence_most; /* ns */
	uint64_t epoch;
	bool whole; /* the kind of fingerprints */
	struct link_info *links;
	size_t link_count;
	uint16_t links_told; /* of the dispatcher, as MARK says */
	bool stopping;
	/* bytes of frames given back, with what each takes besides */
	uint64_t settled_cost;
	uint64_t reported_cost;
	uint64_t stashed; /* frames copied out of the buffer */
	uint64_t frames, bytes;
	uint64_t stored_before, bytes_before, durable_before; /* of the writer */
};

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

	struct session s;
	uint8_t peer[PR_MAC_LEN]; /* of the session */
	uint32_t peer_nonce;
	/* Of dispatchers whose session is over: only recorded frames of theirs can still come. */
	uint32_t retired[RETIRED_MAX];
	unsigned retired_at;
	struct prl_session_stats past; /* sessions that are over */

	/*
	 * Data received before any acknowledgement: perhaps only the acknowledgement was
	 * lost.
	 */
	struct prl_capture_record **backlog;
	size_t backlog_count;
	int64_t backlog_since;

	int64_t announced, marked, reported, left;
	uint64_t stop_command; /* a STOP that is not carried out yet */
	bool stop_asked, stopped;
	uint64_t command;
	uint8_t command_type, command_result;
	struct prl_node_stats stats;
};

/* ---- what it sends ---- */

#define ANNOUNCE_NS PR_NS_PER_S
#define STATUS_NS (500 * PR_NS_PER_MS)
#define SILENCE_NS (2 * PR_NS_PER_S)
#define LEAVE_NS (400 * PR_NS_PER_MS)
#define RETIRED_NS (10 * PR_NS_PER_S)
#define BACKLOG_MAX 65536
#define BACKLOG_NS (2 * PR_NS_PER_S)
/*
 * Least time between announcements: frames of strangers must not make us flood the switch.
 */
#define ANNOUNCE_LEAST_NS (50 * PR_NS_PER_MS)

static const uint8_t broadcast[PR_MAC_LEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

static void
prl_node_send(struct prl_node *n, struct pr_frame *f, uint8_t type, const uint8_t *dst)
{
	memcpy(f->dst, dst, PR_MAC_LEN);
	memcpy(f->src, n->c.mac, PR_MAC_LEN);
	f->header.type = type;
	f->header.rack = n->c.rack;
	f->header.epoch = n->s.epoch;
	f->header.number = ++n->numbers[type];
	f->header.sender_nonce = n->nonce;
	f->header.receiver_nonce = n->s.match ? n->peer_nonce : 0;
	n->c.send(n->c.arg, f);
}

static void
prl_node_announce(struct prl_node *n, int64_t now)
{
	struct pr_frame f = {.body.ann = n->c.ann};
	struct pr_status disk = {0};

	if (n->announced && now - n->announced < ANNOUNCE_LEAST_NS)
		return;
	if (n->announced && n->c.key && !n->s.match)
		pr_rack_key_turn(n->c.key);
	n->announced = now;
	n->c.report(n->c.arg, &disk);
	PR_COPY(&f.body.ann, &disk, disk_total, disk_free, write_rate);
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
	struct prl_match_stats stats;

	if (!n->s.match)
		return;
	n->reported = now;
	n->c.report(n->c.arg, s);
	prl_match_get_stats(n->s.match, &stats);
	s->ordinal_settled = prl_match_ordinal(n->s.match);
	s->frames_received = n->s.frames;
	s->bytes_received = n->s.bytes;
	s->packets_stored = pr_counter_get(&a->packets_stored) - n->s.stored_before;
	s->bytes_stored = pr_counter_get(&a->bytes_stored) - n->s.bytes_before;
	s->packets_durable = pr_counter_get(&a->packets_durable) - n->s.durable_before;
	s->missing = stats.lost;
	s->stray = stats.strays + stats.late;
	s->duplicate = stats.duplicates;
	s->pending = stats.pending_frames;
	s->logs_received = stats.logs;
	PR_COPY(s, &stats, logs_requested, logs_gone);
	PR_COPY(s, n, command, command_type, command_result);
	if (n->stopped && s->state == PR_NODE_RUNNING)
		s->state = PR_NODE_STOPPED;
	n->s.reported_cost = n->s.settled_cost;
	prl_node_send(n, &f, PR_FRAME_STATUS, n->peer);
	n->stats.statuses++;
}

/* ---- a session: one admission by one dispatcher; frames are matched with its logs, and stored ---- */

static struct link_info *
link_info(struct prl_node *n, uint16_t link)
{
	for (size_t i = 0; i < n->s.link_count; i++)
		if (n->s.links[i].link == link)
			return &n->s.links[i];
	if (n->s.link_count == PRL_MATCH_LINKS_MAX ||
		PR_ARRAY_GROW(n->s.links, n->s.link_count) < 0)
		return NULL;
	n->s.links[n->s.link_count] = (struct link_info){.link = link, .linktype = 1};
	return &n->s.links[n->s.link_count++];
}

static void
give_back(struct prl_node *n, const struct prl_match_frame *f)
{
	n->s.settled_cost += f->len + FRAME_COST;
	if (f->moved)
		free(f->data);
}

/*
 * A reader of the volume takes what the ledger declares for stored or lost. So a MARK waits for its
 * logs; while one waits, only the newest of those that follow is kept.
 */
static void
settle_marks(struct prl_node *n, struct link_info *info)
{
	for (;;) {
		if (!info->has_waiting) {
			if (!info->has_latest)
				return;
			info->waiting = info->latest;
			info->has_waiting = true;
			info->has_latest = false;
		}
		/* That the dispatcher is heard, though nothing of it is settled yet, is told at once. */
		if (!info->told) {
			struct pr_ledger_mark mark = info->waiting;

			info->told = true;
			mark.link.last_seq = mark.link.last_log = mark.link.assigned = 0;
			mark.link.last_otime = PR_TIME_MIN;
			mark.link.undelivered_first = mark.link.undelivered_last = 0;
			mark.link.ended = mark.stopping = 0;
			prl_writer_put_mark(n->c.append, &mark);
			prl_writer_flush(n->c.append, NULL); /* should it be killed */
		}
		if (!prl_match_flush_losses(
			    n->s.match, info->link, info->waiting.link.last_log))
			return;
		prl_writer_put_mark(n->c.append, &info->waiting);
		info->has_waiting = false;
	}
}

static void
on_loss(void *arg, const struct pr_loss *loss)
{
	const struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS, .u.loss = *loss};
	struct prl_node *n = arg;
	struct link_info *info = link_info(n, loss->link);

	/* of a log that is gone readers take what the next MARK declares: not one that waits since before it */
	if (loss->first_seq == 0 && info)
		settle_marks(n, info);
	prl_writer_tell(n->c.append, &e);
}

static void
on_packet(void *arg, uint16_t link, const struct pr_entry *e,
	const struct prl_match_frame *f, uint32_t len)
{
	struct prl_node *n = arg;
	const struct link_info *info = link_info(n, link);
	struct pr_packet p;

	if (prl_restore(e, f->data, len, &p)) {
		p.epoch = n->s.epoch;
		p.link = link;
		p.linktype = info ? info->linktype : 1;
		p.class = e->class;
		prl_writer_put_packet(n->c.append, &p);
	} else {
		/* The log and the frame agree by fingerprint and yet cannot be of one packet. */
		const struct pr_loss loss = pr_loss_of(n->s.epoch, link, e->seq, e->otime,
			PR_LOSS_SWITCH, e->flags & PR_ENTRY_SECOND);

		on_loss(n, &loss);
	}
	give_back(n, f);
}

static void
on_leftover(void *arg, const struct prl_match_frame *f, enum prl_match_fate fate)
{
	struct prl_node *n = arg;
	struct pr_packet p = {.time = f->time,
		.epoch = n->s.epoch,
		.caplen = f->len,
		.len = f->len,
		.linktype = 1,
		.data = f->data};

	if (fate != PRL_MATCH_DUPLICATE)
		prl_writer_stray(n->c.append, &p);
	give_back(n, f);
}

static void
on_resend(void *arg, const struct pr_resend *resend)
{
	struct prl_node *n = arg;
	struct pr_frame f = {.body.resend = *resend};

	prl_node_send(n, &f, PR_FRAME_RESEND, n->peer);
	n->stats.resends++;
}

static void
settle_all_marks(struct prl_node *n)
{
	for (size_t i = 0; i < n->s.link_count; i++)
		settle_marks(n, &n->s.links[i]);
}

/* Gives the buffer back what is not needed. full: the receiver waits for room. */
static void
release(struct prl_node *n, bool full)
{
	struct pr_ring *ring = n->c.ring;
	struct prl_match_frame *f;
	uint8_t *copy;

	while ((f = prl_match_oldest(n->s.match)) != NULL) {
		if (!full && pr_ring_used(ring) < pr_ring_size(ring) / 2)
			break;
		/* Out of the buffer's way: few frames stay behind while those around them go. */
		if (prl_match_parked_oldest(n->s.match) &&
			(copy = malloc(f->len ? f->len : 1)) != NULL) {
			memcpy(copy, f->data, f->len);
			f->data = copy;
			f->moved = true;
			n->s.stashed++;
			continue;
		}
		if (!full)
			break;
		prl_match_drop_oldest(n->s.match);
		full = false;
	}
	if (f)
		pr_ring_release_before(
			ring, f->data - offsetof(struct prl_capture_record, data));
	else
		pr_ring_release(ring);
}

/* Of the present session, added to those that are over. */
void
prl_node_get_totals(const struct prl_node *n, struct prl_session_stats *out)
{
	struct prl_session_stats now = {.stashed = n->s.stashed};

	_Static_assert(sizeof(now) % sizeof(uint64_t) == 0, "counters only");
	*out = n->past;
	if (n->s.match)
		prl_match_get_stats(n->s.match, &now.match);
	for (size_t i = 0; i < sizeof(now) / sizeof(uint64_t); i++)
		((uint64_t *)out)[i] += ((const uint64_t *)&now)[i];
}

static void
prl_node_session_end(struct prl_node *n)
{
	if (!n->s.match)
		return;
	/* Gives up everything still open: the dispatcher that could complete it is gone. */
	prl_match_finish(n->s.match);
	settle_all_marks(n);
	release(n, false);
	prl_node_get_totals(n, &n->past);
	n->past.match.pending_frames = n->past.match.pending_entries = 0;
	prl_match_destroy(&n->s.match);
	free(n->s.links);
	n->s = (struct session){0};
	n->stop_asked = n->stopped = false;
}

static int64_t
match_now(struct prl_node *n, int64_t now, bool heard)
{
	return prl_silence_clock_now(&n->s.clock, now, heard, n->s.silence_most);
}

static void
data_take(struct prl_node *n, struct prl_capture_record *rec, int64_t now)
{
	struct prl_match_frame f = {.data = rec->data,
		.len = rec->caplen,
		.fingerprint = rec->fingerprint,
		.time = rec->time};

	if (memcmp(rec->data + PR_MAC_LEN, n->peer, PR_MAC_LEN)) {
		n->stats.foreign++;
		return;
	}
	n->stats.frames++;
	n->s.frames++;
	n->s.bytes += rec->caplen;
	/* Received before the receiver knew of this epoch. */
	if (rec->epoch != n->s.epoch || rec->whole != n->s.whole)
		f.fingerprint =
			pr_fingerprint_of(n->s.whole, rec->data, rec->caplen, n->s.epoch);
	prl_match_frame(n->s.match, &f, match_now(n, now, true));
}

static void
session_begin(struct prl_node *n, const struct pr_frame *f)
{
	const struct prl_writer_counters *counters = prl_writer_counters(n->c.append);
	const struct prl_match_calls calls = {
		on_packet, on_loss, on_leftover, on_resend, n};
	struct prl_match_options match = n->c.match;
	struct pr_error err;

	if (n->s.match)
		n->retired[n->retired_at++ % RETIRED_MAX] = n->peer_nonce;
	prl_node_session_end(n);
	match.epoch = f->header.epoch;
	match.whole = f->header.flags & PR_FRAME_WHOLE;
	n->s.match = prl_match_create(&match, &calls, &err);
	if (!n->s.match) {
		pr_log_error("%s", err.text);
		return;
	}
	memcpy(n->peer, f->src, PR_MAC_LEN);
	n->peer_nonce = f->header.sender_nonce;
	n->s.epoch = match.epoch;
	n->s.whole = match.whole;
	n->s.silence_most = 2 * match.hold_ns;
	n->s.stored_before = pr_counter_get(&counters->packets_stored);
	n->s.bytes_before = pr_counter_get(&counters->bytes_stored);
	n->s.durable_before = pr_counter_get(&counters->packets_durable);
	n->c.epoch(n->c.arg, match.epoch, match.whole);
	pr_log_info("node %u of the dispatcher at " PR_MAC_FORMAT ", epoch %016llx",
		f->body.ann_ack.node, PR_MAC_ARGS(f->src), (unsigned long long)match.epoch);
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
	return n->s.match && f->header.epoch == n->s.epoch &&
	       f->header.sender_nonce == n->peer_nonce &&
	       !memcmp(f->src, n->peer, PR_MAC_LEN);
}

/* With another nonce of ours, all frames that were recorded until now are refused. */
static void
nonce_renew(struct prl_node *n)
{
	prl_node_session_end(n);
	prl_node_backlog_drop(n);
	n->nonce = pr_nonce_make();
	memset(n->retired, 0, sizeof(n->retired));
}

/* A frame of a dispatcher that we left was recorded then; or, after a while, it is back. */
static bool
retired(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	bool found = false;

	for (unsigned i = 0; i < RETIRED_MAX; i++)
		found |= n->retired[i] == f->header.sender_nonce;
	if (found && now - n->marked >= RETIRED_NS)
		nonce_renew(n);
	n->stats.control_refused += found;
	return found;
}

static void
prl_node_follow(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (!prl_node_of_session(n, f)) {
		if (retired(n, f, now))
			return;
		session_begin(n, f);
	}
	if (!n->s.match)
		return;
	n->phase = PHASE_FOLLOWING;
	n->marked = now;
	for (size_t i = 0; i < n->backlog_count; i++)
		data_take(n, n->backlog[i], now);
	n->backlog_count = 0;
	prl_node_send_status(n, now);
}

/* ---- control frames ---- */

/* Only while announcing: a replayed old ANN_ACK must not start a session. */
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
	const struct pr_mark *mark = &f->body.mark;
	struct pr_ledger_mark line = {.epoch = n->s.epoch,
		.said_until = mark->said_until,
		.stopping = mark->stopping};

	n->marked = now;
	if (!mark->stopping)
		n->stopped = false;
	n->s.links_told = mark->link_count;
	n->s.stopping = mark->stopping;
	prl_match_note_sent_below(n->s.match, mark->next_ordinal, match_now(n, now, true));
	for (uint16_t i = 0; i < mark->count; i++) {
		const struct pr_mark_link *m = &mark->links[i];
		struct link_info *info = link_info(n, m->link);

		if (!info)
			continue;
		if (!info->named) {
			struct pr_ledger_entry e = prl_link_entry(
				line.epoch, m->link, m->linktype, m->snaplen, m->name);

			info->linktype = m->linktype;
			info->named = true;
			prl_writer_keep(n->c.append, &e);
		}
		info->stopping = mark->stopping;
		line.link = *m;
		/* true only with the facts that belong to it; the next one comes in 100 ms */
		if (f->header.flags == info->observation.generation) {
			info->latest = line;
			info->has_latest = true;
		}
		prl_match_mark(n->s.match, m->link, m->last_log, match_now(n, now, true));
		settle_marks(n, info);
	}
}

static void
on_tslog(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	if (prl_match_tslog(
		    n->s.match, f->body.raw.data, f->body.raw.len, match_now(n, now, true)))
		n->stats.control_bad[PR_FRAME_BAD_BODY]++;
}

static void
on_gone(struct prl_node *n, const struct pr_frame *f, int64_t now)
{
	prl_match_gone(n->s.match, &f->body.gone, match_now(n, now, true));
}

static void
on_port(struct prl_node *n, const struct pr_frame *f, PR_UNUSED int64_t now)
{
	const struct pr_port *port = &f->body.port;
	struct link_info *info = link_info(n, port->link);

	if (!info || (info->port.speed == port->speed &&
			     pr_clock_equal(&info->port.clock, &port->clock)))
		return;
	info->port = *port;
	prl_writer_keep(n->c.append,
		&(struct pr_ledger_entry){PR_LEDGER_PORT,
			.u.port = {n->s.epoch, port->link, port->speed, port->clock}});
}

static void
on_class(struct prl_node *n, const struct pr_frame *f, PR_UNUSED int64_t now)
{
	prl_writer_set_class(n->c.append, &f->body.class);
}

/* What is new goes into the ledger: before the MARK that it belongs to. */
static void
on_unobserved(struct prl_node *n, const struct pr_frame *f, PR_UNUSED int64_t now)
{
	const struct pr_observation *o = &f->body.observation;
	struct link_info *info = link_info(n, o->link);

	if (info)
		prl_writer_tell_observation(n->c.append, n->s.epoch, &info->observation, o);
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

/*
 * IDENTIFY, RESET. A repeated command is not carried out again; its result is sent again.
 */
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
	nonce_renew(n);
	n->phase = PHASE_AWAY;
	pr_log_info("disconnected by order of the dispatcher");
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
	bool bound; /* taken only from our dispatcher, and for our present nonce */
};

static const struct row table[PR_FRAME_TYPES] = {[PR_FRAME_ANN_ACK] = {on_ann_ack, false},
	[PR_FRAME_TSLOG] = {on_tslog, true},
	[PR_FRAME_MARK] = {on_mark, true},
	[PR_FRAME_GONE] = {on_gone, true},
	[PR_FRAME_STOP] = {on_stop, true},
	[PR_FRAME_IDENTIFY] = {on_deed, true},
	[PR_FRAME_RESET] = {on_deed, true},
	[PR_FRAME_DISCONNECT] = {on_disconnect, true},
	[PR_FRAME_RECONNECT] = {on_reconnect, false},
	[PR_FRAME_PORT] = {on_port, true},
	[PR_FRAME_CLASS] = {on_class, true},
	[PR_FRAME_UNOBSERVED] = {on_unobserved, true}};

static void
prl_node_control(struct prl_node *n, const struct prl_capture_record *rec, int64_t now)
{
	struct pr_frame f;

	enum pr_frame_result result =
		pr_frame_decode(rec->data, rec->caplen, n->c.ethertype, n->c.key, &f);
	if (result != PR_FRAME_OK) {
		n->stats.control_bad[result]++;
		return;
	}
	const struct row *row =
		f.header.type < PR_FRAME_TYPES ? &table[f.header.type] : NULL;
	if (f.header.rack != n->c.rack || !row || !row->call)
		return; /* another rack's, or another node's announcement */
	if (n->c.key)
		pr_rack_key_heard(n->c.key, f.by_alternate);
	bool for_us =
		f.header.type == PR_FRAME_RECONNECT || f.header.receiver_nonce == n->nonce;
	bool of_capture = f.header.type == PR_FRAME_MARK || f.header.type == PR_FRAME_TSLOG;
	/*
	 * It has our present nonce: so the dispatcher acknowledged us, and its ANN_ACK was
	 * lost or is late.
	 */
	if (for_us && of_capture && n->phase == PHASE_ANNOUNCING && !n->s.match &&
		f.header.epoch)
		prl_node_follow(n, &f, now);
	if (!for_us || (row->bound && !prl_node_of_session(n, &f))) {
		n->stats.control_refused++;
		/*
		 * The dispatcher has an old nonce of ours, or is another one: announces the
		 * node again.
		 */
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
	} else if (n->s.match) {
		data_take(n, rec, now);
	} else if (n->phase != PHASE_ANNOUNCING || n->backlog_count == BACKLOG_MAX) {
		n->stats.unexpected++;
	} else {
		if (n->backlog_count == 0)
			n->backlog_since = now;
		n->backlog[n->backlog_count++] = rec;
	}
}

static void
session_tick(struct prl_node *n, int64_t now)
{
	prl_match_tick(n->s.match, match_now(n, now, false));
	settle_all_marks(n);
}

/* STOP is answered when all that was sent before is on the disk, or lost for sure. */
static void
stop_try(struct prl_node *n, int64_t now)
{
	size_t stopping = 0;
	struct pr_error err;

	/* All that the last MARK of a stopping dispatcher tells of is stored or lost, and the volume takes more. */
	for (size_t i = 0; n->stop_asked && i < n->s.link_count; i++)
		stopping += n->s.links[i].stopping;
	if (!n->stop_asked || !n->s.stopping || stopping < n->s.links_told ||
		!prl_match_settled(n->s.match) || prl_writer_suspend_reason(n->c.append))
		return; /* tried again */
	prl_match_drop_leftovers(n->s.match);
	session_tick(n, now);
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
	if (!n->s.match) {
		if (full || now - n->backlog_since >= BACKLOG_NS)
			prl_node_backlog_drop(n);
		if (n->backlog_count == 0)
			pr_ring_release(n->c.ring);
		return;
	}
	prl_match_run(n->s.match, match_now(n, now, false));
	release(n, full);
	stop_try(n, now);
	if (n->s.settled_cost - n->s.reported_cost >= n->c.ann.buffer_size / 4)
		prl_node_send_status(n, now);
}

void
prl_node_tick(struct prl_node *n, int64_t now)
{
	if (n->s.match) {
		session_tick(n, now);
		stop_try(n, now);
	}
	if (n->phase == PHASE_FOLLOWING && now - n->marked >= SILENCE_NS) {
		pr_log_warning("no frame of the dispatcher for 2 s: announcing again");
		n->phase = PHASE_ANNOUNCING;
	}
	if (n->phase == PHASE_ANNOUNCING &&
		(!n->announced || now - n->announced >= ANNOUNCE_NS))
		prl_node_announce(n, now);
	if (n->s.match && n->phase != PHASE_AWAY && now - n->reported >= STATUS_NS)
		prl_node_send_status(n, now);
}

bool
prl_node_quit(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (n->phase != PHASE_LEAVING) {
		n->phase = PHASE_LEAVING;
		n->left = now;
		if (n->s.match)
			prl_node_send(n, &quit, PR_FRAME_QUIT, n->peer);
	}
	return !n->s.match || n->stopped || now - n->left >= LEAVE_NS;
}

void
prl_node_finish(struct prl_node *n, int64_t now)
{
	struct pr_frame quit = {0};

	if (!n->s.match)
		return;
	prl_match_finish(n->s.match);
	settle_all_marks(n);
	prl_writer_flush(n->c.append, NULL); /* an error will show again at the caller */
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
		return pr_error_null(err, "no memory for the node");
	}
	n->c = *config;
	n->nonce = pr_nonce_make();
	return n;
}

void
prl_node_destroy(struct prl_node **node)
{
	struct prl_node *n = PR_TAKE(node);

	if (!n)
		return;
	prl_node_session_end(n);
	free(n->backlog);
	free(n);
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
	out->epoch = n->s.epoch;
	out->ordinal = n->s.match ? prl_match_ordinal(n->s.match) : 0;
}
