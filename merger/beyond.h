/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * What cutoffs kept back of an answer's connections, by class: adds the sums that nodes report (Batch.beyond), each
 * once, whichever nodes have it. Zeroed is empty. One thread. Not trusted: more than PRM_BEYOND_MOST sums are added without being
 * compared, and then the class has at most so much.
 */
#define PRM_BEYOND_MOST 250000 /* 40 bytes each */
#define PRM_BEYOND_CLASSES_MAX 256

struct prm_beyond {
	struct prm_beyond_sum *sums;
	size_t count;
	Packrack__BeyondClass **classes;
	size_t class_count;
};

/* -1: too many classes, or no memory. */
int prm_beyond_add(struct prm_beyond *b, const Packrack__Beyond *sum, struct pr_error *err);
/* Moves the classes to out, the largest first. */
void prm_beyond_finish(struct prm_beyond *b, Packrack__Completeness *out);
void prm_beyond_free(struct prm_beyond *b);
/* Adds the class of an earlier round, if it is the same; false: it is another. */
bool prm_beyond_same(void *now, const void *before);
