/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/ledger.h"
#include "proto/wire/tslog.h"

/*
 * Gives each data frame its entry of the timestamp logs (CLog section 3.3, with the loss, reordering
 * and duplicates that a switch adds). A pure core: no I/O, time is an argument (ns, monotonic).
 *
 * Frames and entries come in the same order, so mostly the heads of both queues fit and are paired off
 * without any search. Otherwise both sides are joined by fingerprint: a frame looks for a waiting entry,
 * a new entry looks among the frames that found none. A frame only ever gets an entry whose fingerprint
 * fits; among byte-identical frames order decides.
 * An entry is lost when twice `window` frames of later ordinals have been matched. By age
 * it is lost after `expire_ns` if `window` such frames have been matched, else after three
 * times `expire_ns`.
 *
 * Results come by call-backs from within the calls below, per link in order of seq; a link never waits
 * for another. One thread.
 */

struct prl_match_frame {
	uint8_t *data; /* the caller's, until the frame is given back by a call-back */
	uint32_t len;
	uint32_t fingerprint;
	int64_t time; /* real time of arrival, for strays */
	bool moved; /* the caller's: data has been copied out of its buffer */
};

enum prl_match_fate {
	PRL_MATCH_STRAY, /* no entry came within the match timeout */
	PRL_FATE_ALREADY_LOST, /* its entry had been declared lost */
	PRL_MATCH_DUPLICATE, /* the same as one matched before */
};

struct prl_match_calls {
	/* The frame was sent as len bytes (the switch may have added zeros). Gives frame back. */
	void (*packet)(void *arg, uint16_t link, const struct pr_entry *entry,
		const struct prl_match_frame *frame, uint32_t len);
	void (*loss)(void *arg, const struct pr_loss *loss);
	/* Gives frame back. */
	void (*leftover)(
		void *arg, const struct prl_match_frame *frame, enum prl_match_fate fate);
	void (*resend)(void *arg, const struct pr_resend *resend);
	void *arg;
};

#define PRL_MATCH_WINDOW_MIN 2
#define PRL_MATCH_WINDOW_DEFAULT 128
#define PRL_MATCH_WINDOW_MAX 4096
#define PRL_MATCH_LINKS_MAX 256

struct prl_match_options {
	uint64_t epoch;
	bool whole; /* logs and frames have fingerprints of the second kind */
	uint32_t window; /* frames; reordering by up to half of it is always repaired */
	uint32_t room; /* most entries, and frames, held; rounded up to a power of two */
	/* Match timeout: for how long a log is asked for, and a frame waits for its log. */
	int64_t hold_ns;
	int64_t grace_ns; /* before the first RESEND: frames may have overtaken the log */
	int64_t resend_ns; /* between RESENDs */
	int64_t expire_ns;
};
void prl_match_defaults(struct prl_match_options *options);

struct prl_match_stats {
	uint64_t frames, matched, lost; /* lost: entries */
	uint64_t strays, late, duplicates;
	uint64_t logs, logs_requested, logs_gone, logs_bad, logs_repeated;
	uint64_t given_up_early; /* missing logs given up before hold_ns: memory was full */
	uint64_t searched; /* frames that did not fit the expected entry */
	uint64_t pending_frames, pending_entries;
};

/*
 * The matcher's clock stands still while nothing of the dispatcher comes (it sends a MARK every 100 ms), for `most` ns at
 * most. Perhaps its line is down: the logs that frames wait for come when it is back. The dispatcher keeps
 * its logs for three match timeouts. Zeroed is ready. One thread.
 */
struct prl_silence_clock {
	int64_t heard, left_out;
};

#define PRL_SILENT_NS (500 * PR_NS_PER_MS)

/* now: of prl_stall_clock. heard: something of the dispatcher came. */
static inline int64_t
prl_silence_clock_now(struct prl_silence_clock *c, int64_t now, bool heard, int64_t most)
{
	int64_t silent = c->heard ? now - c->heard - PRL_SILENT_NS : 0;

	silent = silent < 0 ? 0 : PR_MIN(silent, most);
	if (!heard)
		return now - c->left_out - silent;
	c->left_out += silent;
	c->heard = now;
	return now - c->left_out;
}

struct prl_match *prl_match_create(const struct prl_match_options *options,
	const struct prl_match_calls *calls, struct pr_error *err);
/* Frames still held are not given back: call prl_match_finish first. */
void prl_match_destroy(struct prl_match **match);

/* Frames in order of arrival. Call prl_match_run after a batch of them. */
void prl_match_frame(struct prl_match *m, const struct prl_match_frame *frame, int64_t now);
void prl_match_run(struct prl_match *m, int64_t now);
/* -1: the body is corrupt; nothing was taken from it. */
int prl_match_tslog(struct prl_match *m, const void *body, size_t len, int64_t now);
void prl_match_gone(struct prl_match *m, const struct pr_gone *gone, int64_t now);
/*
 * True if all packets of a link's logs up to this number have been given out; then also
 * gives out a loss that is still being put together.
 */
bool prl_match_flush_losses(struct prl_match *match, uint16_t link, uint64_t log);
/* What a MARK says of a link: logs up to last_log have been sent. */
void prl_match_mark(struct prl_match *m, uint16_t link, uint64_t last_log, int64_t now);
/* What a MARK says of this node: frames of lower ordinals were sent, or never will be. */
void prl_match_note_sent_below(struct prl_match *m, uint64_t ordinal, int64_t now);
/* Call every 10 or 20 ms: declares losses, asks again by RESEND, ends waits. */
void prl_match_tick(struct prl_match *m, int64_t now);

/* True if everything that logs and MARKs have reported is stored, lost or given up. */
bool prl_match_settled(const struct prl_match *m);
/* Frames of lower ordinals are all stored, lost or given up. */
uint64_t prl_match_ordinal(const struct prl_match *m);
/* Gives everything up: entries are lost, frames are strays, all are given back. */
void prl_match_finish(struct prl_match *m);
/*
 * Gives back the frames without an entry that came before the last MARK. For STOP, when prl_match_settled is true: what
 * comes behind the MARK belongs to a capture that has begun again.
 */
void prl_match_drop_leftovers(struct prl_match *m);

/*
 * The oldest frame that is held and not moved, or NULL: what comes before it in the caller's buffer may
 * be released. The caller may copy its data away, set data and moved, and ask again.
 */
struct prl_match_frame *prl_match_oldest(struct prl_match *m);
/*
 * True if the frame that prl_match_oldest returned last has found no entry: it may stay
 * long.
 */
bool prl_match_parked_oldest(const struct prl_match *m);
/* Call when the buffer is nearly full: gives up what the oldest frame waits for. */
void prl_match_drop_oldest(struct prl_match *m);

void prl_match_get_stats(const struct prl_match *m, struct prl_match_stats *out);
