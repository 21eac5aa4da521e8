/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_SESSION_H
#define PRL_LOGGER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/volume_writer.h"
#include "logger/capture.h"
#include "logger/match.h"
#include "proto/base/ring.h"
#include "proto/wire/source.h"
#include "proto/wire/tslog.h"

/*
 * Makes of a data frame and its entry the packet as it was captured: both MACs, an escaped Ethertype,
 * lengths, runts. Changes data in place; out->data points into data, or into e for a runt. len is the
 * length that the frame was sent with. Epoch, link and link type are the caller's to set.
 * false: the entry says what the frame cannot hold (more captured bytes than were sent).
 */
bool prl_restore(
	const struct pr_entry *e, uint8_t *data, uint32_t len, struct pr_packet *out);

/*
 * One admission by one dispatcher: from ANN_ACK on, frames are matched with its logs and stored. Joins the
 * matcher to the frame buffer and the volume. One thread.
 */
struct prl_session;

struct prl_session_config {
	struct prl_volume_writer *append;
	struct pr_ring *ring;
	struct prl_match_options match; /* epoch among them */
	void (*resend)(void *arg, const struct pr_resend *resend);
	void *arg;
};

struct prl_session_stats {
	struct prl_match_stats match;
	uint64_t
		settled_cost; /* bytes of frames given back, with what each takes besides */
	uint64_t stashed; /* frames copied out of the buffer */
};

struct prl_session *prl_session_create(
	const struct prl_session_config *config, struct pr_error *err);
/* Settles what is open first: entries are lost, frames without one are strays. */
void prl_session_destroy(struct prl_session **session);
/* The same without the end: entries that wait are lost, all frames are given back. */
void prl_session_finish(struct prl_session *s);

/* A data frame, in the frame buffer. It stays there until prl_session_release says otherwise. */
void prl_session_frame(struct prl_session *s, struct prl_capture_record *rec, int64_t now);
/* Where its timestamp logs and GONEs go. Call prl_match_run on it after a batch of records. */
struct prl_match *prl_session_match(const struct prl_session *s);
void prl_session_mark(struct prl_session *s, const struct pr_mark *mark, int64_t now);
void prl_session_port(struct prl_session *s, const struct pr_port *port);
void prl_session_tick(struct prl_session *s, int64_t now);
/* Gives the buffer back what is not needed. full: the receiver waits for room. */
void prl_session_release(struct prl_session *s, bool full);

/* All that the last MARK of a stopping dispatcher tells of is stored or lost. */
bool prl_session_settled(const struct prl_session *s);
/* When settled: frames that no log tells of will not be needed. */
void prl_session_drop_leftovers(struct prl_session *s);
uint64_t prl_session_epoch(const struct prl_session *s);
void prl_session_get_stats(const struct prl_session *s, struct prl_session_stats *out);

#endif
