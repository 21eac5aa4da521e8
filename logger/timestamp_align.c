/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/timestamp_private.h"

/* ---- which frame has which entry ---- */

/* PR_FINGERPRINT_STEP * this == 1 mod 2^32: finds by how much a frame has grown. */
#define STEP_INVERSE 0x0e8b2f51u
/* A neighbour may have got the frame of an identical one, a little further on. */
#define SPAN_WINDOWS 8

/*
 * The length that the frame was sent with, if it fits an entry's fingerprint, else 0. A frame that the
 * switch padded with zeros has the same hash and a longer length (proto/wire/frame.h).
 */
static uint32_t
fit(const struct match_frame *h, uint32_t fingerprint)
{
	uint32_t grown = (h->f.fingerprint - fingerprint) * STEP_INVERSE;

	if (grown == 0)
		return h->f.len;
	if (h->f.len < PR_ETHER_LEN || grown > h->f.len - PR_ETHER_LEN)
		return 0;
	for (uint32_t i = h->f.len - grown; i < h->f.len; i++)
		if (h->f.data[i])
			return 0;
	return h->f.len - grown;
}

static void
hash_entry(struct prl_match *m, struct match_entry *s)
{
	if (!s->hashed) {
		match_table_add(&m->entries, s->e.fingerprint, s->e.ordinal);
		s->hashed = true;
	}
}

/* Waiting entries below `until` can be found by fingerprint from now on. */
static void
hash_until(struct prl_match *m, uint64_t until)
{
	uint64_t from = PR_MAX(m->indexed_below, m->next_expected);

	for (uint64_t o = from; o < until; o++) {
		struct match_entry *s = slot_at(m, o);

		if (s->state == SLOT_WAITING)
			hash_entry(m, s);
	}
	m->indexed_below = PR_MAX(m->indexed_below, until);
}

static void
match_oldest_move(struct prl_match *m)
{
	while (m->first_waiting < m->end) {
		struct match_entry *s = slot_at(m, m->first_waiting);

		if (s->state == SLOT_WAITING)
			return;
		if (s->counted) {
			s->counted = false;
			m->matched_above--;
		}
		m->first_waiting++;
	}
}

static void
resolved(struct prl_match *m, struct match_entry *s)
{
	if (s->hashed)
		match_table_remove(&m->entries, s->e.fingerprint, s->e.ordinal);
	s->hashed = false;
	m->waiting--;
	if (s->e.ordinal == m->first_waiting)
		match_oldest_move(m);
}

static void
pair(struct prl_match *m, struct match_entry *s, uint64_t arrival, uint32_t sent_len)
{
	struct match_frame *h = held_at(m, arrival);
	uint64_t ordinal = s->e.ordinal;
	bool queued = h->state == HELD_QUEUED;

	if (h->state == HELD_PARKED) {
		match_table_remove(&m->frames, h->f.fingerprint, arrival);
		m->parked--;
	}
	h->state = HELD_MATCHED;
	h->ordinal = ordinal;
	h->sent_len = sent_len;
	/* Not if padded by the switch: identical frames may be padded alike. */
	if (sent_len == h->f.len)
		match_recent_note(m->recent, h->f.fingerprint, arrival);
	if (ordinal >= m->next_expected) {
		if (ordinal > m->next_expected)
			hash_until(m, ordinal);
		m->next_expected = ordinal + 1;
		m->front_arrival = arrival;
		if (queued) {
			m->pace_arrival = arrival;
			m->pace_ordinal = ordinal;
		}
	}
	s->state = SLOT_MATCHED;
	s->framed = true;
	s->frame = arrival;
	if (ordinal > m->first_waiting) {
		s->counted = true;
		m->matched_above++;
	}
	m->stats.matched++;
	resolved(m, s);
}

static void
match_lose(struct prl_match *m, uint64_t ordinal)
{
	struct match_entry *s = slot_at(m, ordinal);

	match_recent_note(m->lost, s->e.fingerprint, m->held_at);
	s->state = SLOT_LOST;
	m->stats.lost++;
	resolved(m, s);
}

void
match_lose_until(struct prl_match *m, uint64_t ordinal)
{
	for (match_oldest_move(m); m->first_waiting < ordinal; match_oldest_move(m))
		match_lose(m, m->first_waiting);
}

/*
 * Among the waiting entries that fit, the one nearest to next_expected. An entry that was
 * passed over is taken before one twice as far ahead: a frame is more often late than
 * early, because losses lie between.
 */
static struct match_entry *
choose_entry(struct prl_match *m, uint32_t fingerprint)
{
	struct match_entry *best = NULL;
	uint64_t best_score = UINT64_MAX,
		 n = match_bucket_of(&m->entries, fingerprint)->head;

	for (unsigned steps = 0; n != MATCH_NONE && steps < 1024; steps++) {
		struct match_entry *s = slot_at(m, n);
		uint64_t score = n < m->next_expected ? m->next_expected - n
						      : 2 * (n - m->next_expected) + 1;

		if (s->e.fingerprint == fingerprint && score < best_score) {
			best = s;
			best_score = score;
		}
		n = s->hook.next;
	}
	return best;
}

/* Looks for a waiting entry for the first queued frame. False: no entry fits. */
static bool
seek(struct prl_match *m)
{
	struct match_frame *h = held_at(m, m->held_at);

	hash_until(m, m->end);
	struct match_entry *s = choose_entry(m, h->f.fingerprint);
	if (s) {
		pair(m, s, m->held_at++, h->f.len);
		return true;
	}
	/* Padded by the switch? Only if the logs ahead would have the longer frame. */
	if (m->end - m->next_expected < m->o.window)
		return false;
	s = slot_at(m, m->next_expected);
	uint32_t len = fit(h, s->e.fingerprint);
	if (len)
		pair(m, s, m->held_at++, len);
	return len != 0;
}

void
match_drain(struct prl_match *m, uint64_t all_below)
{
	while (m->held_at < m->held_top) {
		struct match_frame *h = held_at(m, m->held_at);

		while (m->next_expected < m->end &&
			slot_at(m, m->next_expected)->state != SLOT_WAITING)
			m->next_expected++;
		struct match_entry *s = slot_at(m, m->next_expected);
		if (m->next_expected < m->end && s->e.fingerprint == h->f.fingerprint) {
			pair(m, s, m->held_at++, h->f.len);
			continue;
		}
		if (m->stuck && m->held_at >= all_below)
			return;
		m->stats.searched++;
		if (seek(m))
			continue;
		if (m->next_expected == m->end && m->held_at >= all_below) {
			m->stuck = true; /* until the next log */
			return;
		}
		h->gone = m->stats.logs_gone;
		h->came = m->heard; /* its log may be on its way only now */
		h->state = HELD_PARKED;
		match_table_add(&m->frames, h->f.fingerprint, m->held_at++);
		m->parked++;
	}
}

/* Frames that can belong to an entry lie around those of its neighbours. */
static void
span_around(
	const struct prl_match *m, uint64_t first, uint64_t last, struct match_span *span)
{
	uint64_t slack = SPAN_WINDOWS * (uint64_t)m->o.window;

	*span = (struct match_span){0, UINT64_MAX};
	for (uint64_t k = 1; k <= 1024 && k <= first; k++) {
		const struct match_entry *s = slot_at(m, first - k);

		if (s->framed && s->e.ordinal == first - k) {
			span->floor = s->frame > slack ? s->frame - slack : 0;
			break;
		}
	}
	for (uint64_t k = 1; k <= 1024 && last + k < m->end; k++) {
		const struct match_entry *s = slot_at(m, last + k);

		if (s->framed && s->e.ordinal == last + k) {
			span->ceiling = s->frame + slack;
			break;
		}
	}
}

/*
 * Entries first..last are about to be added, in order. Several links may carry the same
 * packets. Then neighbours give no bounds: a frame goes to the first identical entry that a
 * log brings, and the other entry's frame may be anywhere.
 */
void
match_entries_begin(struct prl_match *m, uint64_t first, uint64_t last)
{
	uint64_t slack = SPAN_WINDOWS * (uint64_t)m->o.window;

	m->stuck = false;
	if (m->parked == 0)
		return;
	if (m->several)
		m->span.floor = 0;
	else if (first < m->next_expected)
		span_around(m, first, last, &m->span);
	else
		m->span.floor = m->front_arrival > slack ? m->front_arrival - slack : 0;
	/*
		 * Later entries may have got identical frames; the one left over lies
		 * anywhere behind.
		 */
	m->span.ceiling = UINT64_MAX;
}

/*
 * Takes the first parked frame that fits. With several links frames stay parked for long;
 * then it takes the one nearest to its expected place: fewer frames are swapped, and fewer
 * are matched because two fingerprints are equal by chance.
 */
static bool
find_parked(struct prl_match *m, struct match_entry *s)
{
	uint64_t n = match_bucket_of(&m->frames, s->e.fingerprint)->head;
	uint64_t best = MATCH_NONE, best_off = UINT64_MAX;

	for (unsigned steps = 0; n != MATCH_NONE && steps < 1024; steps++) {
		struct match_frame *h = held_at(m, n);

		if (h->f.fingerprint == s->e.fingerprint && n >= m->span.floor &&
			n <= m->span.ceiling) {
			/* how far it lies from its place, had nothing been lost or doubled since */
			int64_t late = (int64_t)(n - m->pace_arrival) -
				       (int64_t)(s->e.ordinal - m->pace_ordinal);
			uint64_t off = late < 0 ? -late : late;

			if (off >= best_off)
				break; /* they lie in order of arrival */
			best = n;
			best_off = off;
			if (!m->several)
				break;
		}
		n = h->hook.next;
	}
	if (best == MATCH_NONE)
		return false;
	pair(m, s, best, held_at(m, best)->f.len);
	return true;
}

void
match_entry_added(struct prl_match *m, uint64_t ordinal)
{
	struct match_entry *s = slot_at(m, ordinal);

	m->waiting++;
	/* A late log brings an entry below first_waiting: matched entries above it count again. */
	if (ordinal < m->first_waiting) {
		for (uint64_t o = ordinal + 1; o < m->first_waiting; o++) {
			struct match_entry *t = slot_at(m, o);

			if (t->framed && !t->counted && t->e.ordinal == o) {
				t->counted = true;
				m->matched_above++;
			}
		}
		m->first_waiting = ordinal;
	}
	if (m->parked && find_parked(m, s))
		return;
	if (ordinal < m->next_expected || ordinal < m->indexed_below)
		hash_entry(m, s);
}

/* Before an entry is declared lost: is there a frame that fits but for zeros added by the switch? */
static bool
match_last_chance(struct prl_match *m, struct match_entry *s)
{
	struct match_span span;

	if (m->parked == 0)
		return false;
	span_around(m, s->e.ordinal, s->e.ordinal, &span);
	span.floor = PR_MAX(span.floor, m->held_base);
	for (uint64_t n = span.floor; n < m->held_at && n <= span.ceiling; n++) {
		const struct match_frame *h = held_at(m, n);
		uint32_t len = h->state == HELD_PARKED ? fit(h, s->e.fingerprint) : 0;

		if (len) {
			pair(m, s, n, len);
			return true;
		}
		if (n - span.floor > 2 * SPAN_WINDOWS * (uint64_t)m->o.window)
			break;
	}
	return false;
}

/* ---- what waits for too long ---- */

/* When waiting for a frame or an entry ends, and what becomes of what waited. */

#define PATIENCE 3

void
match_expire(struct prl_match *m, int64_t now)
{
	const uint64_t window = m->o.window;

	for (match_oldest_move(m); m->first_waiting < m->end; match_oldest_move(m)) {
		uint64_t ordinal = m->first_waiting;
		struct match_entry *s = slot_at(m, ordinal);
		int64_t age = now - s->came;
		/*
		 * Many later frames have come: it is lost. Few: it may be that the switch holds it back, so it gets
		 * more time although what follows it on the link has to wait.
		 */
		bool timed = age >= PATIENCE * m->o.expire_ns ||
			     (age >= m->o.expire_ns && m->matched_above >= window);

		/*
 * True if an entry is lost because enough later frames were matched. Not if its log came
 * late: its frame may be an identical one further on.
 */
		if (!timed && (s->behind || m->matched_above < 2 * window))
			return;
		/*
		 * The entry's frame may be queued behind one that fits nothing yet: of
		 * another link, whose log is not late, or sent twice.
		 */
		match_drain(m, UINT64_MAX);
		if (s->state == SLOT_WAITING && !match_last_chance(m, s))
			match_lose(m, ordinal);
	}
}

void
match_held_done(struct prl_match *m, uint64_t arrival)
{
	held_at(m, arrival)->state = HELD_DONE;
	while (m->held_base < m->held_at && held_at(m, m->held_base)->state == HELD_DONE)
		m->held_base++;
}

void
match_leave(struct prl_match *m, uint64_t arrival, enum prl_match_fate fate)
{
	struct match_frame *h = held_at(m, arrival);

	if (h->state == HELD_PARKED) {
		match_table_remove(&m->frames, h->f.fingerprint, arrival);
		m->parked--;
	}
	if (fate == PRL_MATCH_DUPLICATE)
		m->stats.duplicates++;
	else if (fate == PRL_FATE_ALREADY_LOST)
		m->stats.late++;
	else
		m->stats.strays++;
	m->calls.leftover(m->calls.arg, &h->f, fate);
	match_held_done(m, arrival);
}

static bool
parked_over(const struct prl_match *m, const struct match_frame *h, uint64_t arrival,
	int64_t now)
{
	int64_t age = now - h->came;

	if (age >= m->o.hold_ns)
		return true;
	/* A frame seen before need not wait once all logs that could have it are here. */
	if (m->missing || !match_recent_has(m->recent, h->f.fingerprint, arrival))
		return false;
	/*
 * True if MARKs have reported all logs that were sent before the frame came. The last round
 * but one counts: a round takes several frames (8 links each), and the switch may reorder a
 * little.
 */
	if (m->several && arrival + m->o.window >= m->marked[0])
		return false;
	return age >= 2 * m->o.expire_ns ||
	       (!m->several && m->front_arrival > arrival + 2 * (uint64_t)m->o.window);
}

/* A frame seen before is a stray if a log that is gone may have had its entry. */
enum prl_match_fate
match_fate(const struct prl_match *m, uint64_t arrival)
{
	const struct match_frame *h = held_at(m, arrival);

	if (m->missing == 0 && h->gone == (uint32_t)m->stats.logs_gone &&
		match_recent_has(m->recent, h->f.fingerprint, arrival))
		return PRL_MATCH_DUPLICATE;
	return match_recent_has(m->lost, h->f.fingerprint, arrival) ? PRL_FATE_ALREADY_LOST
								    : PRL_MATCH_STRAY;
}

void
match_age_parked(struct prl_match *m, int64_t now, uint64_t all_below)
{
	m->first_parked = PR_MAX(m->first_parked, m->held_base);
	for (; m->first_parked < m->held_at; m->first_parked++) {
		struct match_frame *h = held_at(m, m->first_parked);

		if (h->state != HELD_PARKED)
			continue;
		if (m->first_parked >= all_below &&
			(all_below || !parked_over(m, h, m->first_parked, now)))
			return;
		match_leave(m, m->first_parked, match_fate(m, m->first_parked));
	}
}
