/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness_internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * The union of stretches, seq by seq in steps of up to 64, with all-held and none-held stretches
 * taken whole. Costs nodes x seqs / 64 on a rack, and nothing per seq on a monitor.
 */

/* More overlapping stretches than this come from no honest nodes; the surplus counts as not held. */
#define ACTIVE_MAX 4096

struct sweep {
	struct prm_completeness *c;
	struct line *line;
	size_t next; /* first piece not yet active */
	size_t active; /* count */
	uint64_t at;
};

static void
point_raise(struct point *known, uint64_t seq, int64_t otime)
{
	if (seq > known->seq)
		*known = (struct point){seq, otime};
}

/* Takes up the pieces that begin here, drops those that end before. */
static void
activate(struct sweep *s)
{
	struct prm_completeness *c = s->c;
	size_t kept = 0;

	for (size_t i = 0; i < s->active; i++) {
		const struct piece *p = &s->line->pieces[c->active[i]];

		if (p->last >= s->at)
			c->active[kept++] = c->active[i];
		else
			point_raise(&s->line->last, p->last, p->last_otime);
	}
	s->active = kept;
	for (; s->next < s->line->count && s->line->pieces[s->next].first <= s->at;
		s->next++) {
		if (s->line->pieces[s->next].last < s->at || s->active >= ACTIVE_MAX)
			continue;
		if (!prm_completeness_grow((void **)&c->active, s->active, &c->active_room,
			    sizeof(*c->active))) {
			c->failed_memory = true;
			continue;
		}
		c->active[s->active++] = s->next;
	}
}

/* The lowest seq from `seq` on whose otime is known. */
static struct point
point_after(const struct sweep *s, uint64_t seq)
{
	struct point best = {0, INT64_MAX};

	for (size_t i = 0; i < s->active; i++) {
		const struct piece *p = &s->line->pieces[s->c->active[i]];
		uint64_t known = p->first >= seq ? p->first : p->last;

		if (known >= seq && (!best.seq || known < best.seq))
			best = (struct point){
				known, p->first >= seq ? p->first_otime : p->last_otime};
	}
	if (s->next < s->line->count &&
		(!best.seq || s->line->pieces[s->next].first < best.seq))
		best = (struct point){s->line->pieces[s->next].first,
			s->line->pieces[s->next].first_otime};
	return best;
}

/* The highest seq up to `seq` whose otime is known. */
static struct point
point_before(const struct sweep *s, uint64_t seq)
{
	struct point best = s->line->last;

	for (size_t i = 0; i < s->active; i++) {
		const struct piece *p = &s->line->pieces[s->c->active[i]];

		if (p->first <= seq)
			point_raise(&best, p->first, p->first_otime);
		if (p->last <= seq)
			point_raise(&best, p->last, p->last_otime);
	}
	return best;
}

static uint64_t
within(const struct line *line, uint64_t first, uint64_t last)
{
	return prm_completeness_clip(line, &first, &last) ? last - first + 1 : 0;
}

/* at, ..., at + count - 1 are held; whatever lies between them and the last such is a hole. */
static void
take_held(struct sweep *s, uint64_t at, uint64_t count)
{
	struct line *line = s->line;
	struct point before;

	if (!line->first.seq) {
		line->first = (struct point){at, point_after(s, at).otime};
	} else if (at > line->top + 1) {
		before = point_before(s, line->top);
		prm_completeness_hole(s->c, (size_t)(line - s->c->lines), line->top + 1,
			at - 1, before.seq ? before.otime : INT64_MIN,
			point_after(s, at).otime);
	}
	line->top = at + count - 1;
	line->held += within(line, at, at + count - 1);
	s->c->held += count;
}

static uint64_t
load_bits(const struct piece *p, uint64_t at, unsigned width)
{
	uint64_t offset = at - p->first, word = 0;
	size_t byte = offset / 8, len = (p->last - p->first) / 8 + 1;
	unsigned shift = offset % 8;
	uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;

	if (!p->bits)
		return mask;
	for (unsigned i = 0; i < 8 && byte + i < len; i++)
		word |= (uint64_t)p->bits[byte + i] << (8 * i);
	word >>= shift;
	if (shift && byte + 8 < len)
		word |= (uint64_t)p->bits[byte + 8] << (64 - shift);
	return word & mask;
}

static void
take_word(struct sweep *s, unsigned width)
{
	uint64_t word = 0;

	for (size_t i = 0; i < s->active; i++) {
		uint64_t bits = load_bits(&s->line->pieces[s->c->active[i]], s->at, width);

		s->c->told += (unsigned)__builtin_popcountll(bits);
		word |= bits;
	}
	for (unsigned done = 0; done < width;) {
		bool set = word >> done & 1;
		uint64_t rest = (set ? ~word : word) >> done;
		unsigned run = rest ? (unsigned)__builtin_ctzll(rest) : width - done;

		if (run > width - done)
			run = width - done;
		if (set)
			take_held(s, s->at + done, run);
		done += run;
	}
	s->at += width;
}

/* How many seqs from `at` on see the same pieces, up to upto. */
static uint64_t
same_pieces(const struct sweep *s, uint64_t upto)
{
	uint64_t last = upto;

	for (size_t i = 0; i < s->active; i++)
		if (s->line->pieces[s->c->active[i]].last < last)
			last = s->line->pieces[s->c->active[i]].last;
	if (s->next < s->line->count && s->line->pieces[s->next].first <= last)
		last = s->line->pieces[s->next].first - 1;
	return last - s->at + 1;
}

static bool
all_full(const struct sweep *s)
{
	for (size_t i = 0; i < s->active; i++)
		if (s->line->pieces[s->c->active[i]].bits)
			return false;
	return true;
}

static void
step(struct sweep *s, uint64_t upto)
{
	uint64_t width;

	activate(s);
	width = same_pieces(s, upto);
	if (!s->active) {
		s->at += width;
	} else if (all_full(s)) {
		take_held(s, s->at, width);
		s->c->told += width * s->active;
		s->at += width;
	} else {
		take_word(s, width > 64 ? 64 : (unsigned)width);
	}
}

static void
forget(struct prm_completeness *c, struct line *line)
{
	size_t kept = 0;

	for (size_t i = 0; i < line->count; i++) {
		struct piece *p = &line->pieces[i];

		if (p->last > line->judged) {
			line->pieces[kept++] = *p;
			continue;
		}
		c->bytes -= sizeof(*p) + (p->bits ? (p->last - p->first) / 8 + 1 : 0);
		free(p->bits);
	}
	line->count = kept;
}

void
prm_completeness_sweep(struct prm_completeness *c, struct line *line, uint64_t upto)
{
	struct sweep s = {.c = c, .line = line, .at = line->judged + 1};

	/* what lies before the first held seq is bounded by the edges, which come to light later */
	if (!line->judged && line->count && line->pieces[0].first > s.at)
		s.at = line->pieces[0].first;
	while (s.at <= upto)
		step(&s, upto);
	activate(&s);
	line->judged = upto;
	forget(c, line);
}

void
prm_completeness_settle(struct prm_completeness *c, struct line *line, int64_t before)
{
	uint64_t upto = 0;

	for (size_t i = 0; i < line->count; i++)
		if ((before == INT64_MAX || line->pieces[i].last_otime < before) &&
			line->pieces[i].last > upto)
			upto = line->pieces[i].last;
	if (upto > line->judged)
		prm_completeness_sweep(c, line, upto);
}
