/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_APPEND_STATE_H
#define PR_LOGGER_APPEND_STATE_H

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

struct pr_append {
	struct sfs *sfs;
	struct pr_append_options o;
	size_t target, room;
	struct out *outs[LINKS_MAX];
	size_t out_count;
	struct pr_journal *ledger;
	struct pr_directory_journal *segments, *summaries;
	struct pr_indexes *indexes;
	struct pr_marks *marks;
	struct pr_ledger_entry
		*told; /* BOOT, LINK and PORT, the last of each: a reset tells them again */
	size_t told_count;
	uint64_t stray_seq;
	bool suspended;
	int64_t retry_at;
	struct pr_error why;
	struct pr_append_counters counters;
};

/* The volume refuses: nothing is given to it until it is tried again. */
void pr_append_suspend(struct pr_append *a, const struct pr_error *why);
/* Gives the volume what is in the builder. -1: it refuses; tried again later. */
int pr_append_seal(struct pr_append *a, struct out *o);
/* append_facts.c: where the segment in the builder, just appended, lies. */
void pr_append_directory(
	struct pr_append *a, const struct out *o, const struct sfs_handle *handle);
/* append_facts.c: after a reset, who the links are. */
void pr_append_tell_again(struct pr_append *a);
/* append_facts.c: the marks that are kept. */
void pr_append_marks_write(struct pr_append *a);

#endif
