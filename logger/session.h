/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_SESSION_H
#define PR_LOGGER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/append.h"
#include "logger/capture.h"
#include "logger/match.h"
#include "proto/base/ring.h"

/*
 * One admission by one dispatcher: from ANN_ACK on, frames are matched with its logs and stored. Joins the
 * matcher to the frame buffer and the volume. One thread.
 */
struct pr_session;

struct pr_session_config {
	struct pr_append *append;
	struct pr_ring *ring;
	struct pr_match_options match; /* epoch among them */
	void (*resend)(void *arg, const struct pr_resend *resend);
	void *arg;
};

struct pr_session_stats {
	struct pr_match_stats match;
	uint64_t stored, refused;
	uint64_t
		settled_cost; /* bytes of frames given back, with what each takes besides */
	uint64_t stashed; /* frames copied out of the buffer */
};

struct pr_session *pr_session_create(
	const struct pr_session_config *config, struct pr_error *err);
/* Settles what is open first: entries are lost, frames without one are strays. */
void pr_session_destroy(struct pr_session **session);
/* The same without the end: entries that wait are lost, all frames are given back. */
void pr_session_finish(struct pr_session *s);

/* A data frame, in the frame buffer. It stays there until pr_session_release says otherwise. */
void pr_session_frame(struct pr_session *s, struct pr_capture_record *rec, int64_t now);
int pr_session_tslog(struct pr_session *s, const void *body, size_t len, int64_t now);
void pr_session_gone(struct pr_session *s, const struct pr_gone *gone, int64_t now);
void pr_session_mark(struct pr_session *s, const struct pr_mark *mark, int64_t now);
void pr_session_port(struct pr_session *s, const struct pr_port *port);
/* After a batch of records. */
void pr_session_run(struct pr_session *s, int64_t now);
void pr_session_tick(struct pr_session *s, int64_t now);
/* Gives the buffer back what is not needed. full: the receiver waits for room. */
void pr_session_release(struct pr_session *s, bool full);

/* All that the last MARK of a stopping dispatcher tells of is stored or lost. */
bool pr_session_settled(const struct pr_session *s);
/* When settled: frames that no log tells of will not be needed. */
void pr_session_drop_leftovers(struct pr_session *s);
uint64_t pr_session_epoch(const struct pr_session *s);
uint64_t pr_session_ordinal(const struct pr_session *s);
void pr_session_get_stats(const struct pr_session *s, struct pr_session_stats *out);

#endif
