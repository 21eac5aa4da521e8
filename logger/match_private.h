/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_MATCH_PRIVATE_H
#define PRL_LOGGER_MATCH_PRIVATE_H

#include "logger/match.h"
#include "logger/match_table.h"

/*
 * Inside of the matcher, for its files: match.c (the calls), match_entries.c (logs that come), match_join.c
 * (which frame has which entry), match_age.c (what waits for too long), match_links.c (giving out in order),
 * match_loss.c (what is lost, put together).
 */
enum slot_state {
	SLOT_UNKNOWN, /* no log has told of this ordinal */
	SLOT_WAITING,
	SLOT_MATCHED,
	SLOT_LOST,
	SLOT_SETTLED, /* given out */
};

/* One ordinal: what the logs say of it. */
struct slot {
	struct match_hook hook; /* in the entry table, while hashed */
	struct pr_entry e;
	int64_t came; /* when its log came */
	uint64_t frame; /* arrival number of its frame; valid if framed */
	uint32_t step; /* to the next entry of the same log; 0: the last */
	uint16_t link; /* index in links */
	uint8_t state;
	bool hashed, framed, counted;
	bool behind; /* its log came late: frames alike may have gone to later entries */
};

enum held_state {
	HELD_QUEUED, /* not looked at yet */
	HELD_PARKED, /* found no entry so far */
	HELD_MATCHED,
	HELD_DONE,
};

/* One frame. */
struct held {
	struct match_hook hook; /* in the frame table, while parked */
	struct prl_match_frame f;
	uint64_t ordinal;
	int64_t came;
	uint32_t sent_len;
	uint32_t gone; /* logs that were gone when it was parked */
	uint8_t state;
};

enum log_state {
	LOG_MISSING,
	LOG_TAKING, /* it is here, and room is being made for it */
	LOG_PRESENT,
	LOG_GONE,
};

struct log {
	uint64_t first_ordinal, last_ordinal, first_seq;
	int64_t base_time;
	int64_t missing_since, asked;
	uint64_t gone_first, gone_last, gone_count;
	int64_t gone_first_time, gone_last_time;
	uint32_t count;
	uint8_t state;
	bool told; /* gone, and its losses are told with another log's */
};

struct link {
	uint16_t id;
	struct log *logs; /* ring by number */
	uint64_t log_room;
	uint64_t out; /* number of the log that is being given out */
	uint64_t next; /* one above the highest number known */
	bool started; /* cursor stands within log `out` */
	uint64_t cursor; /* ordinal of the next entry to be given out */
	uint64_t last_seq, last_ordinal; /* given out so far */
	bool any;
	int64_t last_otime;
	struct pr_loss run; /* being put together; count 0: none */
	bool run_open; /* an exact run: ends with the next packet */
};

/* What was matched or lost of late, by fingerprint: buckets of a cache line each. */
struct recent {
	uint32_t fingerprint;
	uint32_t
		arrival; /* low bits; of the last frame like it, or of the next when it was lost */
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

	struct slot *slots; /* ring by ordinal */
	uint64_t slot_room;
	uint64_t base; /* all below are settled */
	uint64_t front; /* the entry that the next frame should have */
	uint64_t top; /* one above the highest ordinal known */
	uint64_t hashed; /* waiting entries below are in the table */
	uint64_t oldest; /* none below is waiting */
	uint64_t above; /* matched with ordinals above oldest */
	uint64_t waiting;
	int64_t base_since; /* when base last moved */
	struct match_table entries;

	struct held *held; /* ring by arrival */
	uint64_t held_room;
	uint64_t held_base, held_at, held_top; /* first not done; first queued; next */
	uint64_t held_ring; /* first not done nor moved */
	uint64_t held_old; /* no parked ones below */
	uint64_t front_arrival; /* of the frame that moved front last */
	uint64_t pace_arrival,
		pace_ordinal; /* of the last pair in the order of both sides */
	uint64_t marked
		[2]; /* frames that had come by the last MARK but one, and by the last */
	int64_t marked_at;
	uint64_t parked;
	bool stuck; /* the head of the queue fits nothing that is known */
	struct match_span span;
	struct match_table frames;

	struct link *links;
	size_t link_count;
	uint64_t missing; /* logs, over all links */
	bool several; /* logs say that links share the ordinals */
	uint64_t told; /* ordinals below were sent, says the dispatcher */
	int64_t told_since;

	struct recent *recent, *lost; /* sets of RECENT_WAYS */
	struct pr_entry *scratch; /* a log's entries, before they are known to be good */
	uint16_t scratch_room;
};

static inline struct slot *
slot_at(const struct prl_match *m, uint64_t ordinal)
{
	return &m->slots[ordinal & (m->slot_room - 1)];
}

static inline struct held *
held_at(const struct prl_match *m, uint64_t arrival)
{
	return &m->held[arrival & (m->held_room - 1)];
}

/* Waiting begins with the first frame or log, not with the clock's zero. */
static inline void
match_started(struct prl_match *m, int64_t now)
{
	if (m->base_since == 0)
		m->base_since = now;
}

/* match_join.c */
void match_drain(struct prl_match *m, bool force);
void match_entries_begin(struct prl_match *m, uint64_t first, uint64_t last);
void match_entry_added(struct prl_match *m, uint64_t ordinal);
void match_lose(struct prl_match *m, uint64_t ordinal);
void match_lose_until(struct prl_match *m, uint64_t ordinal);
void match_oldest_move(struct prl_match *m);
/* Before an entry is declared lost: is there a frame that fits but for zeros added by the switch? */
bool match_last_chance(struct prl_match *m, struct slot *s);

/* match_age.c */
void match_expire(struct prl_match *m, int64_t now);
void match_age_parked(struct prl_match *m, int64_t now, bool all);
void match_held_done(struct prl_match *m, uint64_t arrival);
enum prl_match_fate match_fate(const struct prl_match *m, uint64_t arrival);
void match_leave(struct prl_match *m, uint64_t arrival, enum prl_match_fate fate);

/* match_links.c */
struct link *match_link(struct prl_match *m, uint16_t id, bool make);
void match_links_destroy(struct prl_match *m);
struct log *match_log(struct link *link, uint64_t number);
bool match_log_expect(struct prl_match *m, struct link *link, uint64_t last, int64_t now);
void match_log_gone(struct prl_match *m, struct log *log);
void match_links_ask(struct prl_match *m, int64_t now);
void match_links_give(struct prl_match *m);
void match_links_give_up(struct prl_match *m);
void match_base_move(struct prl_match *m, int64_t now);

/* match_loss.c */
void match_loss_entry(struct prl_match *m, struct link *link, const struct slot *s);
void match_loss_log(struct prl_match *m, struct link *link, const struct log *log);
void match_loss_passed(struct prl_match *m, struct link *link, const struct slot *s);
void match_loss_flush(struct prl_match *m, struct link *link);

#endif
