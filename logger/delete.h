/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_DELETE_H
#define PRL_LOGGER_DELETE_H

#include <stdbool.h>
#include <stdint.h>

#include "logger/volume_writer.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

/*
 * Deleting packets from a volume at somebody's word: of each stream of packets the segments of which all
 * packets are of `since` to `until`, and of its index what speaks of no others. They are written over, and the
 * ledger says who deleted them. A segment that reaches beyond keeps all that it holds.
 * By the volume's writer; one thread.
 */
struct prl_delete_fence {
	const char *stream;
	uint64_t last; /* segment of it that may go */
};

struct prl_delete_order {
	int64_t since, until; /* included; PR_TIME_MIN, PR_TIME_MAX: all that is there */
	int64_t at; /* when it was given; one order has the same in all its steps */
	const char *by;
	const char *moved_to; /* what has a copy; NULL: nothing */
	uint64_t step; /* 0, 1, ...: the first only announces it in the ledger */
	/* fenced: of these streams alone, and of them no later segment */
	bool fenced;
	const struct prl_delete_fence *fences;
	size_t fence_count;
};

struct prl_deleted {
	uint64_t segments, bytes; /* of packets, by this step */
	bool more; /* call again */
};

/*
 * A step of it: some MiB, or about 50 ms, as the volume's device goes; a logger does something else
 * between two. What is gathered in memory is stored first. -1: err; out says what was done all the same.
 */
int prl_delete_step(struct sfs *sfs, struct prl_volume_writer *append,
	const struct prl_delete_order *order, struct prl_deleted *out,
	struct pr_error *err);

#endif
