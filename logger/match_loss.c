/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/match_private.h"

/*
 * Losses in runs. Entries of byte-identical frames leave no choice: which of them are lost cannot be
 * known, so the loss is "count of first..last", over the whole chain of alike entries that lie within the
 * window of one another.
 */
#define CHAIN_STEPS 4096

/* The first of the chain that s is in, as far back as is known; *matched is set if one has a frame. */
static const struct slot *
chain_start(const struct prl_match *m, const struct slot *s, bool *matched)
{
	const struct slot *first = s;

	for (uint64_t k = 1; k <= s->e.ordinal && k < CHAIN_STEPS; k++) {
		const struct slot *t = slot_at(m, s->e.ordinal - k);

		if (first->e.ordinal - (s->e.ordinal - k) > m->o.window)
			break;
		if (t->state == SLOT_UNKNOWN || t->e.ordinal != s->e.ordinal - k ||
			t->link != s->link || t->e.fingerprint != s->e.fingerprint)
			continue;
		*matched |= t->framed;
		first = t;
	}
	return first;
}

/* The last of the chain that s is in; *matched is set if one of the rest has or may get a frame. */
static const struct slot *
chain_end(const struct prl_match *m, const struct slot *s, bool *matched)
{
	const struct slot *last = s;

	for (uint64_t o = s->e.ordinal + 1; o < m->top && o - s->e.ordinal < CHAIN_STEPS;
		o++) {
		const struct slot *t = slot_at(m, o);

		if (o - last->e.ordinal > m->o.window)
			break;
		if (t->state == SLOT_UNKNOWN || t->link != s->link ||
			t->e.fingerprint != s->e.fingerprint)
			continue;
		*matched |= t->state != SLOT_LOST;
		last = t;
	}
	return last;
}

void
match_loss_flush(struct prl_match *m, struct link *link)
{
	if (link->run.count)
		m->calls.loss(m->calls.arg, &link->run);
	link->run.count = 0;
}

void
match_loss_passed(struct prl_match *m, struct link *link, const struct slot *s)
{
	if (link->run.count && (link->run_open || s->e.seq > link->run.last_seq))
		match_loss_flush(m, link);
}

static void
run_start(struct prl_match *m, struct link *link, const struct slot *s, bool open)
{
	match_loss_flush(m, link);
	link->run_open = open;
	link->run = (struct pr_loss){
		.epoch = m->o.epoch,
		.link = link->id,
		.first_seq = s->e.seq,
		.last_seq = s->e.seq,
		.first_time = s->e.otime,
		.last_time = s->e.otime,
		.count = 1,
		.reason = PR_LOSS_SWITCH,
		.second = (s->e.flags & PR_ENTRY_SECOND) != 0,
	};
}

static void
loss_among_alike(struct prl_match *m, struct link *link, const struct slot *s,
	const struct slot *first, const struct slot *last)
{
	struct pr_loss *run = &link->run;

	if (run->count && !link->run_open && run->first_seq == first->e.seq) {
		run->count++;
	} else {
		run_start(m, link, s, false);
		run->first_seq = first->e.seq;
		run->first_time = first->e.otime;
	}
	run->last_seq = last->e.seq;
	run->last_time = last->e.otime;
}

void
match_loss_entry(struct prl_match *m, struct link *link, const struct slot *s)
{
	bool matched = false, second = (s->e.flags & PR_ENTRY_SECOND) != 0;
	const struct slot *first = chain_start(m, s, &matched);
	const struct slot *last = chain_end(m, s, &matched);

	if (matched) {
		loss_among_alike(m, link, s, first, last);
		return;
	}
	if (!link->run.count || !link->run_open || (link->run.second != 0) != second) {
		run_start(m, link, s, true);
		return;
	}
	link->run.count++;
	link->run.last_seq = s->e.seq;
	link->run.last_time = s->e.otime;
}

/* Where the next log of the link that is there begins, or 0. */
static const struct log *
log_after(struct link *link)
{
	for (uint64_t n = link->out + 1; n < link->next; n++) {
		const struct log *log = match_log(link, n);

		if (log->state == LOG_PRESENT)
			return log;
	}
	return NULL;
}

static void
bounds_from_neighbours(struct link *link, struct pr_loss *loss)
{
	const struct log *next = log_after(link);
	uint64_t from = link->any ? link->last_ordinal + 1 : 0;

	loss->first_seq = link->last_seq + 1;
	loss->first_time = link->last_otime;
	loss->last_seq = next ? next->first_seq - 1 : loss->first_seq;
	loss->last_time = next ? next->base_time : link->last_otime;
	if (loss->last_seq < loss->first_seq)
		loss->last_seq = loss->first_seq;
	loss->count = next && next->first_ordinal > from ? next->first_ordinal - from : 1;
	if (loss->count > loss->last_seq - loss->first_seq + 1)
		loss->count = loss->last_seq - loss->first_seq + 1;
}

/*
 * A log is gone. GONE says what it held; else its neighbours give bounds, and the ordinals between them
 * how many (with several links: at most).
 */
void
match_loss_log(struct prl_match *m, struct link *link, const struct log *log)
{
	struct pr_loss loss = {
		.epoch = m->o.epoch, .link = link->id, .reason = PR_LOSS_LOG_GONE};

	match_loss_flush(m, link);
	if (log->gone_first && log->gone_last >= log->gone_first) {
		loss.first_seq = log->gone_first;
		loss.last_seq = log->gone_last;
		loss.first_time = log->gone_first_time;
		loss.last_time = log->gone_last_time;
		loss.count = log->gone_count ? log->gone_count
					     : loss.last_seq - loss.first_seq + 1;
	} else {
		bounds_from_neighbours(link, &loss);
	}
	link->last_seq = loss.last_seq;
	link->last_otime = loss.last_time;
	link->last_ordinal += loss.count;
	m->calls.loss(m->calls.arg, &loss);
}
