/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "logger/timestamp_match.h"

/*
 * A hash table of items that live in a ring: buckets of doubly linked chains, first in first out, linked by
 * the items' numbers so that a ring may grow under it.
 */
#define MATCH_NONE UINT64_MAX
#define MATCH_BUCKETS 8192u

struct match_hook {
	uint64_t prev, next;
};

struct match_bucket {
	uint64_t head, tail;
};

struct match_table {
	struct match_bucket *buckets;
	uint8_t *items; /* the ring; each item begins with its hook */
	size_t size;
	uint64_t mask;
};

static inline struct match_hook *
match_hook_at(const struct match_table *t, uint64_t number)
{
	return (struct match_hook *)(void *)(t->items + (number & t->mask) * t->size);
}

static inline struct match_bucket *
match_bucket_of(const struct match_table *t, uint32_t fingerprint)
{
	return &t->buckets[(fingerprint ^ fingerprint >> 15) & (MATCH_BUCKETS - 1)];
}

static inline bool
match_table_init(struct match_table *t, size_t size, uint64_t room)
{
	t->size = size;
	t->mask = room - 1;
	t->items = calloc(room, size);
	t->buckets = malloc(MATCH_BUCKETS * sizeof(*t->buckets));
	if (!t->items || !t->buckets)
		return false;
	for (uint32_t i = 0; i < MATCH_BUCKETS; i++)
		t->buckets[i] = (struct match_bucket){MATCH_NONE, MATCH_NONE};
	return true;
}

static inline void
match_table_add(struct match_table *t, uint32_t fingerprint, uint64_t number)
{
	struct match_bucket *b = match_bucket_of(t, fingerprint);
	struct match_hook *h = match_hook_at(t, number);

	h->prev = b->tail;
	h->next = MATCH_NONE;
	if (b->tail == MATCH_NONE)
		b->head = number;
	else
		match_hook_at(t, b->tail)->next = number;
	b->tail = number;
}

static inline void
match_table_remove(struct match_table *t, uint32_t fingerprint, uint64_t number)
{
	struct match_bucket *b = match_bucket_of(t, fingerprint);
	struct match_hook *h = match_hook_at(t, number);

	if (h->prev == MATCH_NONE)
		b->head = h->next;
	else
		match_hook_at(t, h->prev)->next = h->next;
	if (h->next == MATCH_NONE)
		b->tail = h->prev;
	else
		match_hook_at(t, h->next)->prev = h->prev;
}

/*
 * What the matcher's two files share: timestamp_match.c (arriving timestamp logs, giving out in
 * order, losses, the calls of timestamp_match.h) and timestamp_align.c (which frame has which entry, what
 * has waited too long).
 */
enum slot_state {
	SLOT_UNKNOWN, /* no log has told of this ordinal */
	SLOT_WAITING,
	SLOT_MATCHED,
	SLOT_LOST,
	SLOT_SETTLED, /* given out */
};

/* One ordinal: what the logs say of it. */
struct match_entry {
	struct match_hook hook; /* in the entry table, while hashed */
	struct pr_entry e;
	int64_t came; /* when its log came, or another that has a higher ordinal */
	uint64_t frame; /* arrival number of its frame; valid if framed */
	uint32_t step; /* to the next entry of the same log; 0: the last */
	uint16_t link; /* index in links */
	uint8_t state;
	bool hashed, framed, counted;
	bool behind; /* its log came late: later entries may have got identical frames */
};

enum held_state {
	HELD_QUEUED, /* not looked at yet */
	HELD_PARKED, /* found no entry so far */
	HELD_MATCHED,
	HELD_DONE,
};

/* One frame. */
struct match_frame {
	struct match_hook hook; /* in the frame table, while parked */
	struct prl_match_frame f;
	uint64_t ordinal;
	int64_t came; /* or was parked */
	uint32_t sent_len;
	uint32_t gone; /* stats.logs_gone when it was parked */
	uint8_t state;
};

enum log_state {
	LOG_MISSING,
	LOG_TAKING, /* it is here, and room is being made for it */
	LOG_PRESENT,
	LOG_GONE,
};

struct match_log {
	uint64_t first_ordinal, last_ordinal, first_seq;
	int64_t base_time;
	int64_t missing_since, asked;
	struct pr_gone gone; /* what is known of it if it is */
	uint32_t count;
	uint8_t state;
	bool told; /* gone; its losses are reported with those of another log */
};

struct match_link {
	uint16_t id;
	struct match_log *logs; /* ring by number */
	uint64_t log_room;
	uint64_t out; /* number of the log that is being given out */
	uint64_t next; /* one above the highest number known */
	bool started; /* cursor stands within log `out` */
	uint64_t cursor; /* ordinal of the next entry to be given out */
	uint64_t last_seq, last_ordinal; /* given out so far */
	bool any;
	int64_t last_otime;
	struct pr_loss run; /* loss that is being put together; count 0: none */
	bool run_chain; /* of identical frames */
};

/* What was matched or lost of late, by fingerprint: buckets of a cache line each. */
struct match_history {
	uint32_t fingerprint;
	/* Low bits of an arrival: of the last frame matched, or of the next at a loss. */
	uint32_t arrival;
};
#define RECENT_WAYS 8u
#define RECENT_SETS 2048u
#define RECENT_FRAMES 8192u

/* Arrival numbers, both included. */
struct match_span {
	uint64_t floor, ceiling;
};

struct prl_match {
	struct prl_match_options o;
	struct prl_match_calls calls;
	struct prl_match_stats stats;

	uint64_t settled_below; /* all below are settled */
	uint64_t next_expected; /* the entry that the next frame should have */
	uint64_t end; /* one above the highest ordinal known */
	uint64_t indexed_below; /* waiting entries below are in the table */
	uint64_t first_waiting; /* none below is waiting */
	uint64_t matched_above; /* matched with ordinals above first_waiting */
	uint64_t waiting;
	int64_t heard; /* when a frame or log came last */
	struct match_table entries; /* struct match_entry, ring by ordinal */

	uint64_t held_base, held_at, held_top; /* first not done; first queued; next */
	uint64_t first_in_ring; /* first not done nor moved */
	uint64_t first_parked; /* no parked ones below */
	uint64_t front_arrival; /* of the frame that last moved next_expected */
	/* of the last pair that was in order on both sides */
	uint64_t pace_arrival, pace_ordinal;
	uint64_t marked
		[2]; /* frames that had come by the last MARK but one, and by the last */
	int64_t marked_at;
	uint64_t parked;
	bool stuck; /* the head of the queue fits nothing that is known */
	struct match_span span;
	struct match_table frames; /* struct match_frame, ring by arrival */

	struct match_link *links;
	size_t link_count;
	uint64_t missing; /* logs, over all links */
	bool several; /* logs say that links share the ordinals */
	uint64_t sent_below; /* ordinals below were sent, says the dispatcher */
	int64_t sent_below_since;

	struct match_history *recent, *lost; /* sets of RECENT_WAYS */
	struct pr_entry *scratch; /* a log's entries, before they are known to be good */
	uint16_t scratch_room;
};

static inline struct match_entry *
slot_at(const struct prl_match *m, uint64_t ordinal)
{
	return (struct match_entry *)(void *)m->entries.items + (ordinal & m->entries.mask);
}

static inline struct match_frame *
held_at(const struct prl_match *m, uint64_t arrival)
{
	return (struct match_frame *)(void *)m->frames.items + (arrival & m->frames.mask);
}

/* timestamp_align.c */
/* all_below: frames of lower arrivals wait for no further logs. */
void match_drain(struct prl_match *m, uint64_t all_below);
void match_entries_begin(struct prl_match *m, uint64_t first, uint64_t last);
void match_entry_added(struct prl_match *m, uint64_t ordinal);
void match_lose_until(struct prl_match *m, uint64_t ordinal);
void match_expire(struct prl_match *m, int64_t now);
void match_age_parked(struct prl_match *m, int64_t now, uint64_t all_below);
void match_held_done(struct prl_match *m, uint64_t arrival);
enum prl_match_fate match_fate(const struct prl_match *m, uint64_t arrival);
void match_leave(struct prl_match *m, uint64_t arrival, enum prl_match_fate fate);

/*
 * What was matched or lost of late, by fingerprint: a table of RECENT_SETS sets of RECENT_WAYS. Bounded: what
 * is older than some RECENT_FRAMES frames is forgotten.
 */

static inline size_t
match_recent_set(uint32_t fingerprint)
{
	return ((fingerprint ^ fingerprint >> 16) & (RECENT_SETS - 1)) * RECENT_WAYS;
}

/* Replaces the item with the same fingerprint, or else the oldest. */
static inline void
match_recent_note(struct match_history *table, uint32_t fingerprint, uint64_t arrival)
{
	struct match_history *r = &table[match_recent_set(fingerprint)];
	uint32_t now = (uint32_t)arrival, oldest = 0;

	for (uint32_t i = 0; i < RECENT_WAYS; i++) {
		if (r[i].fingerprint == fingerprint) {
			oldest = i;
			break;
		}
		if ((int32_t)(r[i].arrival - r[oldest].arrival) < 0)
			oldest = i;
	}
	r[oldest] = (struct match_history){fingerprint, now};
}

static inline bool
match_recent_has(const struct match_history *table, uint32_t fingerprint, uint64_t arrival)
{
	const struct match_history *r = &table[match_recent_set(fingerprint)];

	for (uint32_t i = 0; i < RECENT_WAYS; i++) {
		/* frames overtake each other: the noted arrival may be a little higher */
		if (r[i].fingerprint == fingerprint &&
			(uint32_t)arrival - r[i].arrival + RECENT_FRAMES <
				2 * RECENT_FRAMES)
			return true;
	}
	return false;
}
