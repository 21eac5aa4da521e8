/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_APPEND_STATE_H
#define PRL_LOGGER_APPEND_STATE_H

#include "logger/append.h"
#include "logger/directory_journal.h"
#include "logger/journal.h"
#include "logger/marks.h"
#include "proto/wire/segment.h"

/* Between append.c, which stores packets, and append_facts.c, which stores what is said of them. */
#define LINKS_MAX 300
#define DURABLE_POINTS 1024

struct point {
	uint64_t record, packets; /* packets in the stream up to this record */
};

struct out {
	uint16_t link;
	int stream;
	struct pr_segment_builder b;
	uint8_t *buf;
	size_t sealed; /* length of a segment that the volume has refused so far */
	int64_t began;
	uint64_t packets, durable;
	struct point points[DURABLE_POINTS]; /* ring of records that are not durable yet */
	unsigned point_first, point_count;
	struct pr_loss lost; /* run of packets lost to a refusing volume */
};

struct prl_append {
	struct sfs *sfs;
	struct prl_append_options o;
	size_t target, room;
	struct out *outs[LINKS_MAX];
	size_t out_count;
	struct prl_journal *ledger;
	struct prl_directory_journal *segments, *summaries;
	struct prl_indexes *indexes;
	struct prl_marks *marks;
	struct pr_ledger_entry
		*told; /* BOOT, LINK and PORT, the last of each: a reset tells them again */
	size_t told_count;
	uint64_t stray_seq;
	bool suspended;
	int64_t retry_at;
	struct pr_error why;
	struct prl_append_counters counters;
};

/* The volume refuses: nothing is given to it until it is tried again. */
void prl_append_suspend(struct prl_append *a, const struct pr_error *why);
/* Gives the volume what is in the builder. -1: it refuses; tried again later. */
int prl_append_seal(struct prl_append *a, struct out *o);
/* append_facts.c: where the segment in the builder, just appended, lies. */
void prl_append_directory(
	struct prl_append *a, const struct out *o, const struct sfs_handle *handle);
/* append_facts.c: after a reset, who the links are. */
void prl_append_tell_again(struct prl_append *a);
/* append_facts.c: the marks that are kept. */
void prl_append_marks_write(struct prl_append *a);

#endif
