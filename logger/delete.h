/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/volume_writer.h"

/*
 * Deletes packets from a volume by order of a user: from each stream of packets the
 * segments that lie whole in `since` to `until`, and from its index the records that cover
 * only deleted segments. Their bytes are overwritten, and the ledger has who deleted them.
 * A segment that reaches beyond the range stays whole. By the volume's writer; one thread.
 */
struct prl_delete_fence {
	const char *stream;
	uint64_t last; /* last segment of it that may be deleted */
};

struct prl_delete_order {
	int64_t since, until; /* included; PR_TIME_MIN, PR_TIME_MAX: all that is there */
	int64_t at; /* time of the order, the same in all its steps */
	const char *by;
	const char *moved_to; /* node, volume or file that has a copy; NULL: none */
	uint64_t step; /* 0, 1, ...: the first only announces it in the ledger */
	/* fenced: delete only from these streams, and no segment after `last` */
	bool fenced;
	const struct prl_delete_fence *fences;
	size_t fence_count;
};

struct prl_deleted {
	uint64_t segments, bytes; /* of packets, by this step */
	bool more; /* call again */
};

/*
 * One step of a deletion: some MiB, or about 50 ms, depending on the device; between two
 * steps a logger does other work. Packets gathered in memory are stored first. -1: err; out
 * then has what was done before the error.
 */
int prl_delete_step(struct sfs *sfs, struct prl_volume_writer *append,
	const struct prl_delete_order *order, struct prl_deleted *out,
	struct pr_error *err);
