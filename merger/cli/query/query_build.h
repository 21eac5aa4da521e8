/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_QUERY_BUILD_H
#define PR_CLI_QUERY_QUERY_BUILD_H

#include "indexer/filter/plan.h"
#include "indexer/filter/bpf.h"
#include "merger/cli/query/query_args.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * What mergers get to know of a filter, so that they can leave out nodes: the plan of each program, as
 * look-ups of the hashes that summaries have. The plan is made here, where filters are compiled, so that
 * mergers need neither filters nor keys.
 */
struct lookups {
	Packrack__Lookups *room, **list; /* one for each program, in their order */
	size_t count;
};

/* The parts of --related's second question. */
struct related_question {
	Packrack__Related message;
	Packrack__Query core; /* its programs are the filter's own */
	uint64_t *keys, *lasting;
	int64_t *first, *spans;
};

#define QUESTION_TEXT                                                                      \
	4096 /* bytes of a filter, for logs and status; a message takes 64 KiB */

/* The Query message that args make, with the filter compiled for the link types that there are. */
struct question {
	Packrack__Query query;
	char text[QUESTION_TEXT];
	Packrack__TallySpec tally;
	struct related_question related;
	struct pri_bpf_set programs;
	struct lookups lookups;
};

/* Does the filter make sense for any common link type? Before anything is asked: -1 is bad usage. */
int question_check(const struct query_args *a, struct pr_error *err);

/*
 * linktypes: of what will be asked; none known: Ethernet. Borrows from args. -1: bad usage.
 * question_free in any case.
 */
int question_make(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err);

/* The plans of its programs, if args ask for them. */
int question_explain(const struct question *q, const struct query_args *a,
	struct pri_plans *plans, struct pr_error *err);
void question_free(struct question *q);

#endif
