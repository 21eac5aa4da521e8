/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/session.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"

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
			data[at] = (uint8_t)(e->ethertype >> 8);
			data[at + 1] = (uint8_t)e->ethertype;
		}
	}
	out->caplen = caplen;
	out->len = e->flags & (PR_ENTRY_LEN | PR_ENTRY_CAPLEN) ? e->len : caplen;
	return true;
}

/* ---- the session ---- */

/* What a frame takes in a buffer besides its bytes, as the dispatcher reckons too. */
#define FRAME_COST 128

struct link_info {
	uint16_t link, linktype;
	bool named; /* the ledger has its LINK entry */
	uint64_t speed; /* of its PORT entry; 0 none */
	/* What a MARK declares is stored once all logs that it counts are settled here. */
	struct pr_ledger_mark waiting, latest;
	bool has_waiting, has_latest, stopping;
	bool told; /* the ledger knows that this node hears of the link */
};

struct prl_session {
	struct prl_session_config config;
	struct prl_match *match;
	struct link_info *links;
	size_t link_count;
	uint16_t links_told; /* of the dispatcher, as MARK says */
	bool stopping;
	struct prl_session_stats stats;
};

static struct link_info *
link_info(struct prl_session *s, uint16_t link)
{
	for (size_t i = 0; i < s->link_count; i++) {
		if (s->links[i].link == link)
			return &s->links[i];
	}
	if (s->link_count == PRL_MATCH_LINKS_MAX ||
		PR_ARRAY_GROW(s->links, s->link_count) < 0)
		return NULL;
	s->links[s->link_count] = (struct link_info){.link = link, .linktype = 1};
	return &s->links[s->link_count++];
}

static void
give_back(struct prl_session *s, const struct prl_match_frame *f)
{
	s->stats.settled_cost += f->len + FRAME_COST;
	if (f->moved)
		free(f->data);
}

static void
on_loss(void *arg, const struct pr_loss *loss)
{
	const struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS, .u.loss = *loss};
	struct prl_session *s = arg;

	prl_writer_tell(s->config.append, &e);
}

static void
on_packet(void *arg, uint16_t link, const struct pr_entry *e,
	const struct prl_match_frame *f, uint32_t len)
{
	struct prl_session *s = arg;
	const struct link_info *info = link_info(s, link);
	struct pr_packet p;

	if (prl_restore(e, f->data, len, &p)) {
		p.epoch = s->config.match.epoch;
		p.link = link;
		p.linktype = info ? info->linktype : 1;
		prl_writer_put_packet(s->config.append, &p);
	} else {
		/* The log and the frame agree by fingerprint and yet cannot be of one packet. */
		const struct pr_loss loss = {
			.epoch = s->config.match.epoch,
			.link = link,
			.first_seq = e->seq,
			.last_seq = e->seq,
			.count = 1,
			.first_time = e->otime,
			.last_time = e->otime,
			.reason = PR_LOSS_SWITCH,
			.second = (e->flags & PR_ENTRY_SECOND) != 0,
		};

		on_loss(s, &loss);
	}
	give_back(s, f);
}

static void
on_leftover(void *arg, const struct prl_match_frame *f, enum prl_match_fate fate)
{
	struct prl_session *s = arg;
	struct pr_packet p = {
		.time = f->time,
		.epoch = s->config.match.epoch,
		.caplen = f->len,
		.len = f->len,
		.linktype = 1,
		.data = f->data,
	};

	if (fate != PRL_MATCH_DUPLICATE)
		prl_writer_stray(s->config.append, &p);
	give_back(s, f);
}

static void
on_resend(void *arg, const struct pr_resend *resend)
{
	struct prl_session *s = arg;

	s->config.resend(s->config.arg, resend);
}

struct prl_session *
prl_session_create(const struct prl_session_config *config, struct pr_error *err)
{
	struct prl_session *s = calloc(1, sizeof(*s));
	struct prl_match_calls calls = {on_packet, on_loss, on_leftover, on_resend, s};

	if (!s) {
		pr_error_set(err, "no memory for a dispatcher's session");
		return NULL;
	}
	s->config = *config;
	s->match = prl_match_create(&config->match, &calls, err);
	if (!s->match) {
		free(s);
		return NULL;
	}
	return s;
}

/*
 * A reader of the volume takes what the ledger declares for stored or lost. So a MARK waits for its
 * logs; while one waits, only the newest of those that follow is kept.
 */
static void
settle_marks(struct prl_session *s, struct link_info *info)
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
		if (!info->told && info->waiting.link.last_seq) {
			struct pr_ledger_mark mark = info->waiting;

			info->told = true;
			mark.link.last_seq = mark.link.last_log = mark.link.assigned = 0;
			mark.link.last_otime = PR_TIME_MIN;
			mark.link.ended = 0;
			prl_writer_put_mark(s->config.append, &mark);
		}
		if (!prl_match_flush_losses(
			    s->match, info->link, info->waiting.link.last_log))
			return;
		prl_writer_put_mark(s->config.append, &info->waiting);
		info->has_waiting = false;
	}
}

static void
settle_all_marks(struct prl_session *s)
{
	for (size_t i = 0; i < s->link_count; i++)
		settle_marks(s, &s->links[i]);
}

void
prl_session_destroy(struct prl_session **session)
{
	struct prl_session *s = *session;

	if (!s)
		return;
	prl_session_finish(s);
	prl_match_destroy(&s->match);
	free(s->links);
	free(s);
	*session = NULL;
}

void
prl_session_finish(struct prl_session *s)
{
	prl_match_finish(s->match);
	settle_all_marks(s);
}

void
prl_session_frame(struct prl_session *s, struct prl_capture_record *rec, int64_t now)
{
	struct prl_match_frame f = {
		.data = rec->data,
		.len = rec->caplen,
		.fingerprint = rec->fingerprint,
		.time = rec->time,
	};

	/* Received before the receiver knew of this epoch. */
	if (rec->epoch != s->config.match.epoch)
		f.fingerprint =
			pr_fingerprint(rec->data, rec->caplen, s->config.match.epoch);
	prl_match_frame(s->match, &f, now);
}

struct prl_match *
prl_session_match(const struct prl_session *s)
{
	return s->match;
}

void
prl_session_mark(struct prl_session *s, const struct pr_mark *mark, int64_t now)
{
	struct pr_ledger_mark line = {
		.epoch = s->config.match.epoch,
		.said_until = mark->said_until,
		.stopping = mark->stopping,
	};

	s->links_told = mark->link_count;
	s->stopping = mark->stopping;
	prl_match_note_sent_below(s->match, mark->next_ordinal, now);
	for (uint16_t i = 0; i < mark->count; i++) {
		const struct pr_mark_link *m = &mark->links[i];
		struct link_info *info = link_info(s, m->link);

		if (!info)
			continue;
		if (!info->named) {
			struct pr_ledger_entry e = {.type = PR_LEDGER_LINK,
				.u.link = {.epoch = line.epoch,
					.link = m->link,
					.linktype = m->linktype,
					.snaplen = m->snaplen}};

			memcpy(e.u.link.name, m->name, sizeof(e.u.link.name));
			info->linktype = m->linktype;
			info->named = true;
			prl_writer_keep(s->config.append, &e);
		}
		info->stopping = mark->stopping;
		line.link = *m;
		info->latest = line;
		info->has_latest = true;
		prl_match_mark(s->match, m->link, m->last_log, now);
		settle_marks(s, info);
	}
}

void
prl_session_port(struct prl_session *s, const struct pr_port *port)
{
	struct link_info *info = link_info(s, port->link);

	if (!info || info->speed == port->speed)
		return;
	info->speed = port->speed;
	prl_writer_keep(s->config.append,
		&(struct pr_ledger_entry){PR_LEDGER_PORT,
			.u.port = {s->config.match.epoch, port->link, port->speed}});
}

void
prl_session_tick(struct prl_session *s, int64_t now)
{
	prl_match_tick(s->match, now);
	settle_all_marks(s);
}

void
prl_session_release(struct prl_session *s, bool full)
{
	struct pr_ring *ring = s->config.ring;
	struct prl_match_frame *f;
	uint8_t *copy;

	while ((f = prl_match_oldest(s->match)) != NULL) {
		if (!full && pr_ring_used(ring) < pr_ring_size(ring) / 2)
			break;
		/* Out of the buffer's way: few frames stay behind while those around them go. */
		if (prl_match_parked_oldest(s->match) &&
			(copy = malloc(f->len ? f->len : 1)) != NULL) {
			memcpy(copy, f->data, f->len);
			f->data = copy;
			f->moved = true;
			s->stats.stashed++;
			continue;
		}
		if (!full)
			break;
		prl_match_drop_oldest(s->match);
		full = false;
	}
	if (f)
		pr_ring_release_before(
			ring, f->data - offsetof(struct prl_capture_record, data));
	else
		pr_ring_release(ring);
}

bool
prl_session_settled(const struct prl_session *s)
{
	size_t stopping = 0;

	for (size_t i = 0; i < s->link_count; i++)
		stopping += s->links[i].stopping;
	return s->stopping && stopping >= s->links_told && prl_match_settled(s->match);
}

void
prl_session_drop_leftovers(struct prl_session *s)
{
	prl_match_drop_leftovers(s->match);
	settle_all_marks(s);
}

uint64_t
prl_session_epoch(const struct prl_session *s)
{
	return s->config.match.epoch;
}

void
prl_session_get_stats(const struct prl_session *s, struct prl_session_stats *out)
{
	*out = s->stats;
	prl_match_get_stats(s->match, &out->match);
}
