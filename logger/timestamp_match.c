/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/timestamp_private.h"

#include "logger/timestamp_match.h"
#include "proto/base/array.h"

enum { LOG_ROOM_FIRST = 64, LOG_ROOM_MAX = 65536 };

static struct match_link *
match_link(struct prl_match *m, uint16_t id, bool make)
{
	for (size_t i = 0; i < m->link_count; i++)
		if (m->links[i].id == id)
			return &m->links[i];
	if (!make || m->link_count == PRL_MATCH_LINKS_MAX ||
		PR_ARRAY_GROW(m->links, m->link_count) < 0)
		return NULL;
	struct match_link *link = &m->links[m->link_count];
	*link = (struct match_link){
		.id = id, .out = 1, .next = 1, .log_room = LOG_ROOM_FIRST};
	link->logs = calloc(link->log_room, sizeof(*link->logs));
	if (!link->logs)
		return NULL;
	m->link_count++;
	return link;
}

static struct match_log *
match_log(struct match_link *link, uint64_t number)
{
	return &link->logs[number & (link->log_room - 1)];
}

static void
match_log_gone(struct prl_match *m, struct match_log *log)
{
	log->state = LOG_GONE;
	m->missing--;
	m->stats.logs_gone++;
}

/* ---- what is lost, put together ---- */

/*
 * Losses are joined to runs that name each seq. Among entries of byte-identical frames it cannot be known
 * which are lost. So the loss is "count of first..last" for the whole chain of identical
 * entries, each within the window of the next.
 */
#define CHAIN_STEPS 4096

/*
 * Finds the end of the chain that s is in: the first entry (step -1) or the last known one
 * (step 1). Sets *matched if an earlier entry has a frame, or a later one has or may get
 * one.
 */
static const struct match_entry *
chain_end(const struct prl_match *m, const struct match_entry *s, int step, bool *matched)
{
	const struct match_entry *last = s;
	uint64_t most = step < 0 ? s->e.ordinal + 1 : m->end - s->e.ordinal;

	for (uint64_t k = 1; k < most && k < CHAIN_STEPS; k++) {
		uint64_t o = step < 0 ? s->e.ordinal - k : s->e.ordinal + k;
		const struct match_entry *t = slot_at(m, o);

		if ((step < 0 ? last->e.ordinal - o : o - last->e.ordinal) > m->o.window)
			break;
		if (t->state == SLOT_UNKNOWN || t->e.ordinal != o || t->link != s->link ||
			t->e.fingerprint != s->e.fingerprint)
			continue;
		*matched |= step < 0 ? t->framed : t->state != SLOT_LOST;
		last = t;
	}
	return last;
}

static void
match_loss_flush(struct prl_match *m, struct match_link *link)
{
	if (link->run.count)
		m->calls.loss(m->calls.arg, &link->run);
	link->run.count = 0;
}

static void
match_loss_entry(struct prl_match *m, struct match_link *link, const struct match_entry *s)
{
	bool matched = false;
	const struct match_entry *first = chain_end(m, s, -1, &matched);
	const struct match_entry *last = chain_end(m, s, 1, &matched);
	struct pr_loss *run = &link->run, lost;

	if (!matched)
		first = last = s;
	lost = pr_loss_of(m->o.epoch, link->id, first->e.seq, first->e.otime,
		PR_LOSS_SWITCH, s->e.flags & PR_ENTRY_SECOND);
	lost.last_seq = last->e.seq;
	lost.last_time = last->e.otime;
	if (matched && run->count && link->run_chain && run->first_seq == lost.first_seq) {
		lost.count += run->count;
		lost.second = run->second;
	} else if (!matched && !link->run_chain && pr_loss_join(run, &lost)) {
		return;
	} else {
		match_loss_flush(m, link);
	}
	*run = lost;
	link->run_chain = matched;
}

static void
bounds_from_neighbours(
	const struct prl_match *m, struct match_link *link, struct pr_loss *loss)
{
	uint64_t most, from = link->any ? link->last_ordinal + 1 : 0;
	const struct match_log *next = NULL;

	/* The next log of the link that has arrived. */
	for (uint64_t n = link->out + 1; n < link->next && !next; n++)
		if (match_log(link, n)->state == LOG_PRESENT)
			next = match_log(link, n);
	loss->first_time = loss->last_time = link->last_otime;
	loss->count = 1;
	if (!next || next->first_seq <= link->last_seq + 1)
		return; /* its seqs are not known: any seq may be another node's */
	loss->first_seq = link->last_seq + 1;
	loss->last_seq = next->first_seq - 1;
	loss->last_time = next->base_time;
	if (next->first_ordinal > from)
		loss->count = next->first_ordinal - from;
	/* with several links some of the ordinals are of another: that all seqs were this node's is never certain */
	most = loss->last_seq - loss->first_seq + 1;
	most -= m->link_count > 1 && most > 1;
	loss->count = PR_MIN(loss->count, most);
}

/*
 * Reports the losses of a log that is gone. GONE has its range; else the neighbouring logs
 * give bounds for the seqs, and the ordinals between them the count (with several links: at
 * most).
 */
static void
match_loss_log(struct prl_match *m, struct match_link *link, const struct match_log *log)
{
	struct pr_loss loss = {
		.epoch = m->o.epoch, .link = link->id, .reason = PR_LOSS_LOG_GONE};
	const struct pr_gone *gone = &log->gone;

	match_loss_flush(m, link);
	if (gone->first_seq && gone->last_seq >= gone->first_seq) {
		PR_COPY(&loss, gone, first_seq, last_seq, first_time, last_time);
		loss.count = gone->count ? gone->count : loss.last_seq - loss.first_seq + 1;
	} else {
		bounds_from_neighbours(m, link, &loss);
	}
	link->last_seq = PR_MAX(link->last_seq, loss.last_seq);
	link->last_otime = loss.last_time;
	link->last_ordinal += loss.count;
	m->calls.loss(m->calls.arg, &loss);
}

/* ---- giving out in order ---- */

/* Gives out the entries at the cursor that are ready. True: the whole log was given out. */
static bool
give_log(struct prl_match *m, struct match_link *link, const struct match_log *log)
{
	if (!link->started) {
		link->started = true;
		link->cursor = log->first_ordinal;
	}
	for (;;) {
		struct match_entry *s = slot_at(m, link->cursor);

		if (s->state == SLOT_MATCHED) {
			struct match_frame *h = held_at(m, s->frame);

			m->calls.packet(m->calls.arg, link->id, &s->e, &h->f, h->sent_len);
			match_held_done(m, s->frame);
		} else if (s->state == SLOT_LOST) {
			match_loss_entry(m, link, s);
		} else {
			return false;
		}
		s->state = SLOT_SETTLED;
		link->last_seq = s->e.seq;
		link->last_otime = s->e.otime;
		link->last_ordinal = s->e.ordinal;
		link->any = true;
		if (!s->step)
			return true;
		link->cursor += s->step;
	}
}

/* A link waits only for its own logs and entries. */
static void
match_links_give(struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++) {
		struct match_link *link = &m->links[i];

		for (; link->out < link->next; link->out++) {
			struct match_log *log = match_log(link, link->out);

			if (log->state == LOG_MISSING || log->state == LOG_TAKING ||
				(log->state == LOG_PRESENT && !give_log(m, link, log)))
				break;
			if (log->state == LOG_GONE && !log->told) /* else with its range */
				match_loss_log(m, link, log);
			link->started = false;
		}
	}
}

/* No room to wait any longer: missing logs are gone. */
static void
match_links_give_up(struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++) {
		struct match_link *link = &m->links[i];

		for (uint64_t n = link->out; n < link->next; n++) {
			struct match_log *log = match_log(link, n);

			if (log->state == LOG_MISSING) {
				match_log_gone(m, log);
				m->stats.given_up_early++;
			}
		}
	}
	match_links_give(m);
}

/*
 * Ordinals in no log: with one link, and no log missing, their log is gone. With several links
 * another link's log may still be on its way, so these ordinals are passed hold_ns after they
 * were heard of; any: at once.
 */
static void
match_base_move(struct prl_match *m, int64_t now, bool any)
{
	any |= !m->several && m->missing == 0;
	while (m->settled_below < m->end) {
		const struct match_entry *s = slot_at(m, m->settled_below);

		if (s->state != SLOT_SETTLED &&
			!(s->state == SLOT_UNKNOWN &&
				(any || now - s->came >= m->o.hold_ns)))
			break;
		m->settled_below++;
	}
}

static bool
logs_grow(struct match_link *link, uint64_t last)
{
	uint64_t room = link->log_room;

	while (last - link->out >= room) {
		if (room == LOG_ROOM_MAX)
			return false;
		room *= 2;
	}
	if (room == link->log_room)
		return true;
	struct match_log *logs = calloc(room, sizeof(*logs));
	if (!logs)
		return false;
	for (uint64_t n = link->out; n < link->next; n++)
		logs[n & (room - 1)] = *match_log(link, n);
	free(link->logs);
	link->logs = logs;
	link->log_room = room;
	return true;
}

/* Notes that logs up to `last` exist; false: that is implausibly far ahead. */
static bool
match_log_expect(struct prl_match *m, struct match_link *link, uint64_t last, int64_t now)
{
	if (last < link->next)
		return true;
	if (last - link->out >= LOG_ROOM_MAX / 2) {
		match_links_give_up(m);
		if (last - link->out >= LOG_ROOM_MAX / 2)
			return false;
	}
	if (!logs_grow(link, last))
		return false;
	for (; link->next <= last; link->next++) {
		*match_log(link, link->next) =
			(struct match_log){.state = LOG_MISSING, .missing_since = now};
		m->missing++;
	}
	return true;
}

/* Asks for missing logs, and gives up those missing for too long. */
static void
match_links_ask(struct prl_match *m, int64_t now)
{
	for (size_t i = 0; m->missing && i < m->link_count; i++) {
		struct match_link *link = &m->links[i];
		struct pr_resend ask = {.link = link->id};

		for (uint64_t n = link->out; n < link->next; n++) {
			struct match_log *log = match_log(link, n);

			if (log->state == LOG_MISSING &&
				now - log->missing_since >= m->o.hold_ns)
				match_log_gone(m, log);
			if (log->state != LOG_MISSING ||
				(log->asked ? now - log->asked < m->o.resend_ns
					    : now - log->missing_since < m->o.grace_ns))
				continue;
			if (ask.first_log && ask.last_log + 1 != n) {
				m->calls.resend(m->calls.arg, &ask);
				ask.first_log = 0;
			}
			if (!ask.first_log)
				ask.first_log = n;
			ask.last_log = n;
			log->asked = now;
			m->stats.logs_requested++;
		}
		if (ask.first_log)
			m->calls.resend(m->calls.arg, &ask);
	}
}

/* ---- logs that come ---- */

/* Arriving logs, and logs that will never arrive; room for their entries. */

/* Entries stay readable for this many ordinals: losses look back for identical ones. */
#define HISTORY 2048

/* The ring of the table's items, first..end of which are in use, becomes twice as large. */
static bool
grow(const struct prl_match *m, struct match_table *t, uint64_t first, uint64_t end)
{
	uint64_t mask = 2 * t->mask + 1;
	uint8_t *items;

	if (mask >= m->o.room || !(items = calloc(mask + 1, t->size)))
		return false;
	for (; first < end; first++)
		memcpy(items + (first & mask) * t->size, match_hook_at(t, first), t->size);
	free(t->items);
	t->items = items;
	t->mask = mask;
	return true;
}

static bool
scratch_load(struct prl_match *m, struct pr_tslog_reader *r)
{
	uint16_t n = r->header.count;

	if (n > m->scratch_room) {
		struct pr_entry *room = realloc(m->scratch, n * sizeof(*room));

		if (!room)
			return false;
		m->scratch = room;
		m->scratch_room = n;
	}
	for (uint16_t i = 0; i < n; i++)
		if (pr_tslog_next(r, &m->scratch[i]) != 1)
			return false;
	return n > 0;
}

/* Makes room for the range of ordinals; false: not possible. */
static bool
slots_ready(struct prl_match *m, uint64_t first, uint64_t last, int64_t now)
{
	struct match_table *t = &m->entries;

	if (first < m->settled_below || last < first || last - first >= m->o.room / 2)
		return false;
	while (last + HISTORY - m->settled_below > t->mask &&
		grow(m, t, m->end > t->mask + 1 ? m->end - t->mask - 1 : 0, m->end))
		;
	if (last - m->settled_below > t->mask) {
		/* The gap is too wide to wait for: gives up all that is still open. */
		match_lose_until(m, m->end);
		match_links_give_up(m);
		match_base_move(m, now, true);
	}
	if (last - m->settled_below > t->mask && m->settled_below == m->end &&
		first > m->end) {
		m->settled_below = m->next_expected = m->first_waiting = m->end =
			m->indexed_below = first;
	}
	for (; m->end <= last && last - m->settled_below <= t->mask; m->end++)
		*slot_at(m, m->end) =
			(struct match_entry){.state = SLOT_UNKNOWN, .came = now};
	return last < m->end;
}

static void
entries_add(
	struct prl_match *m, struct match_link *link, struct match_log *log, int64_t now)
{
	const struct pr_entry *e = m->scratch;
	bool late = log->asked || !m->several;

	match_entries_begin(m, log->first_ordinal, log->last_ordinal);
	for (uint32_t i = 0; i < log->count; i++) {
		struct match_entry *s = slot_at(m, e[i].ordinal);

		s->e = e[i];
		s->came = now;
		s->step = i + 1 < log->count ? (e[i + 1].ordinal - e[i].ordinal) : 0;
		s->link = link - m->links;
		s->state = SLOT_WAITING;
		s->hashed = s->framed = s->counted = false;
		s->behind = late && e[i].ordinal < m->next_expected;
		match_entry_added(m, e[i].ordinal);
	}
}

static void
log_take(struct prl_match *m, struct match_link *link, struct match_log *log, int64_t now)
{
	const struct pr_entry *first = m->scratch, *last = first + log->count - 1;

	log->first_seq = first->seq;
	log->base_time = first->otime;
	log->first_ordinal = first->ordinal;
	log->last_ordinal = last->ordinal;
	log->state = LOG_TAKING;
	m->missing--;
	bool placed = slots_ready(m, first->ordinal, last->ordinal, now);
	for (uint32_t i = 0; placed && i < log->count; i++)
		placed = slot_at(m, first[i].ordinal)->state == SLOT_UNKNOWN;
	if (placed) {
		log->state = LOG_PRESENT;
		entries_add(m, link, log, now);
		return;
	}
	/* A log whose entries do not fit counts as gone; its losses are reported. */
	m->stats.logs_bad++;
	log->gone = (struct pr_gone){.first_seq = first->seq,
		.last_seq = last->seq,
		.first_time = first->otime,
		.last_time = last->otime,
		.count = log->count};
	log->state = LOG_GONE;
	m->stats.logs_gone++;
}

int
prl_match_tslog(struct prl_match *m, const void *body, size_t len, int64_t now)
{
	struct pr_tslog_reader r;
	struct match_link *link = NULL;

	if (pr_tslog_open(&r, body, len) == 0 && r.header.number)
		link = match_link(m, r.header.link, true);
	if (!link || m->o.whole != !!(r.header.flags & PR_TSLOG_WHOLE) ||
		!scratch_load(m, &r)) {
		m->stats.logs_bad++;
		return -1;
	}
	m->heard = now;
	m->stats.logs++;
	m->several |= (r.header.flags & PR_TSLOG_INTERLEAVED) || m->link_count > 1;
	if (r.header.number < link->out ||
		(r.header.number < link->next &&
			match_log(link, r.header.number)->state != LOG_MISSING)) {
		m->stats.logs_repeated++;
		return 0;
	}
	if (!match_log_expect(m, link, r.header.number, now)) {
		m->stats.logs_bad++;
		return -1;
	}
	struct match_log *log = match_log(link, r.header.number);
	log->count = r.header.count;
	log_take(m, link, log, now);
	prl_match_run(m, now);
	return 0;
}

void
prl_match_gone(struct prl_match *m, const struct pr_gone *gone, int64_t now)
{
	struct match_link *link = match_link(m, gone->link, false);
	bool told = false;

	if (!link)
		return;
	for (uint64_t n = gone->first_log; n <= gone->last_log && n < link->next; n++) {
		struct match_log *log = match_log(link, n);

		if (n < link->out || log->state != LOG_MISSING)
			continue;
		/*
		 * GONE gives one range for all its logs: it is reported once, with the
		 * first.
		 */
		if (!told)
			log->gone = *gone;
		log->told = told && gone->first_seq;
		told = true;
		match_log_gone(m, log);
	}
	prl_match_run(m, now);
}

/* ---- the calls ---- */

enum { ROOM_FIRST = 4096, ROOM_DEFAULT = 65536 };
/* Half the period of MARKs, each of which takes one or several frames. */
#define MARKS_APART (50 * PR_NS_PER_MS)

void
prl_match_defaults(struct prl_match_options *o)
{
	*o = (struct prl_match_options){.window = PRL_MATCH_WINDOW_DEFAULT,
		.room = ROOM_DEFAULT,
		.hold_ns = 2 * PR_NS_PER_S,
		.grace_ns = 20 * PR_NS_PER_MS,
		.resend_ns = 100 * PR_NS_PER_MS,
		.expire_ns = 100 * PR_NS_PER_MS};
}

struct prl_match *
prl_match_create(const struct prl_match_options *options,
	const struct prl_match_calls *calls, struct pr_error *err)
{
	const size_t recent = RECENT_SETS * RECENT_WAYS;
	struct prl_match *m = calloc(1, sizeof(*m));

	if (m) {
		m->recent = calloc(recent, sizeof(*m->recent));
		m->lost = calloc(recent, sizeof(*m->lost));
	}
	if (!m || !m->recent || !m->lost ||
		!match_table_init(&m->entries, sizeof(struct match_entry), ROOM_FIRST) ||
		!match_table_init(&m->frames, sizeof(struct match_frame), ROOM_FIRST)) {
		pr_error_set(err, "no memory for matching frames");
		prl_match_destroy(&m);
		return NULL;
	}
	/* Arrival 0 stands for an empty place in the table of recent frames. */
	m->held_base = m->held_at = m->held_top = 1;
	m->o = *options;
	m->calls = *calls;
	m->o.window = PR_MAX(m->o.window, PRL_MATCH_WINDOW_MIN);
	m->o.window = PR_MIN(m->o.window, PRL_MATCH_WINDOW_MAX);
	m->o.room = PR_MAX(m->o.room, 2 * ROOM_FIRST);
	return m;
}

void
prl_match_destroy(struct prl_match **match)
{
	struct prl_match *m = PR_TAKE(match);

	if (!m)
		return;
	for (size_t i = 0; i < m->link_count; i++)
		free(m->links[i].logs);
	PR_FREE(m, links, entries.items, frames.items, recent, lost, entries.buckets,
		frames.buckets, scratch);
	free(m);
}

/* Gives up what the oldest frame waits for, then gives out what is ready. */
void
prl_match_drop_oldest(struct prl_match *m)
{
	struct match_frame *h = held_at(m, m->held_base);

	if (m->held_base == m->held_top)
		return;
	if (h->state == HELD_QUEUED)
		match_drain(m, UINT64_MAX);
	if (h->state == HELD_PARKED)
		match_leave(m, m->held_base, match_fate(m, m->held_base));
	if (h->state != HELD_MATCHED)
		return;
	match_lose_until(m, h->ordinal);
	match_links_give_up(m);
	if (h->state == HELD_MATCHED) /* logs whose ordinals go backwards */
		match_lose_until(m, m->end);
	match_links_give(m);
}

void
prl_match_frame(struct prl_match *m, const struct prl_match_frame *frame, int64_t now)
{
	while (m->held_top - m->held_base > m->frames.mask &&
		!grow(m, &m->frames, m->held_base, m->held_top))
		prl_match_drop_oldest(m);
	struct match_frame *h = held_at(m, m->held_top++);
	*h = (struct match_frame){.f = *frame, .came = now, .state = HELD_QUEUED};
	m->heard = now;
	m->stats.frames++;
}

void
prl_match_run(struct prl_match *m, int64_t now)
{
	match_drain(m, 0);
	match_links_give(m);
	match_base_move(m, now, false);
}

bool
prl_match_flush_losses(struct prl_match *m, uint16_t id, uint64_t number)
{
	struct match_link *link = match_link(m, id, false);

	if (number == 0)
		return true;
	if (!link || link->out <= number)
		return false;
	match_loss_flush(m, link); /* the last of them may still be put together */
	return true;
}

void
prl_match_mark(struct prl_match *m, uint16_t id, uint64_t last_log, int64_t now)
{
	struct match_link *link = match_link(m, id, true);

	if (link)
		match_log_expect(m, link, last_log, now);
}

void
prl_match_note_sent_below(struct prl_match *m, uint64_t ordinal, int64_t now)
{
	if (ordinal != m->sent_below) {
		m->sent_below = ordinal;
		m->sent_below_since = now;
	}
	if (now - m->marked_at >= MARKS_APART) { /* not another frame of the same MARK */
		m->marked_at = now;
		m->marked[0] = m->marked[1];
		m->marked[1] = m->held_top;
	}
}

void
prl_match_tick(struct prl_match *m, int64_t now)
{
	match_drain(m, 0);
	match_expire(m, now);
	match_links_ask(m, now);
	match_links_give(m);
	match_base_move(m, now, false);
	match_age_parked(m, now, 0);
	/* The last logs are gone, and none follows: their entries will never be known. */
	if (m->sent_below > m->end && now - m->sent_below_since >= m->o.hold_ns &&
		prl_match_settled(m))
		m->settled_below = m->next_expected = m->first_waiting = m->end =
			m->indexed_below = m->sent_below;
	for (size_t i = 0; i < m->link_count; i++)
		match_loss_flush(m, &m->links[i]);
}

bool
prl_match_settled(const struct prl_match *m)
{
	for (size_t i = 0; i < m->link_count; i++)
		if (m->links[i].out != m->links[i].next)
			return false;
	return m->missing == 0 && m->waiting == 0;
}

uint64_t
prl_match_ordinal(const struct prl_match *m)
{
	return m->settled_below;
}

static void
drop_leftovers(struct prl_match *m, uint64_t below)
{
	match_drain(m, below);
	match_links_give(m);
	match_age_parked(m, PR_TIME_MAX / 2, below);
}

void
prl_match_drop_leftovers(struct prl_match *m)
{
	drop_leftovers(m, m->marked[1]);
}

void
prl_match_finish(struct prl_match *m)
{
	match_drain(m, UINT64_MAX);
	match_lose_until(m, m->end);
	match_links_give_up(m);
	drop_leftovers(m, UINT64_MAX);
	for (size_t i = 0; i < m->link_count; i++)
		match_loss_flush(m, &m->links[i]);
	m->settled_below = m->end;
}

struct prl_match_frame *
prl_match_oldest(struct prl_match *m)
{
	m->first_in_ring = PR_MAX(m->first_in_ring, m->held_base);
	for (; m->first_in_ring < m->held_top; m->first_in_ring++) {
		struct match_frame *h = held_at(m, m->first_in_ring);

		if (h->state != HELD_DONE && !h->f.moved)
			return &h->f;
	}
	return NULL;
}

bool
prl_match_parked_oldest(const struct prl_match *m)
{
	return m->first_in_ring < m->held_top &&
	       held_at(m, m->first_in_ring)->state == HELD_PARKED;
}

void
prl_match_get_stats(const struct prl_match *m, struct prl_match_stats *out)
{
	*out = m->stats;
	out->pending_entries = m->waiting;
	out->pending_frames = m->held_top - m->held_at + m->parked;
}
