/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUESTION_H
#define PR_CLI_QUESTION_H

#include <pthread.h>

#include "indexer/filter/plan.h"
#include "indexer/filter/bpf.h"
#include "merger/cli/query/lookups_made.h"
#include "merger/cli/query/query_args.h"
#include "proto/rpc/packrack.pb-c.h"

/* The parts of --related's second question (question_related.c). */
struct related_question {
	Packrack__Related message;
	Packrack__Query core; /* its programs are the filter's own */
	uint64_t *keys, *lasting;
	int64_t *first, *spans;
};

/*
 * The programs that let through what matches and what could be related to it, where the filter
 * makes sense or not; -1 err.
 */
int related_programs(const char *filter, const uint16_t *linktypes, size_t count,
	struct pri_bpf_set *out, struct pr_error *err);
/* The message, of what was noted and the filter's own programs. related_free in any case. */
int related_make(struct related_question *q, const struct pr_relations *noted,
	const struct pri_bpf_set *core, struct pr_error *err);
void related_free(struct related_question *q);

/* The Query message that args make, with the filter compiled for the link types that there are. */
#define QUESTION_TEXT 4096 /* of a filter, for logs and status; a message takes 64 KiB */
struct question {
	Packrack__Query query;
	char text[QUESTION_TEXT];
	Packrack__TallySpec tally;
	struct related_question related;
	struct pri_bpf_set programs;
	Packrack__Program *room, **list;
	Packrack__Instruction *instruction_room, **instructions;
	struct lookups lookups;
};

/* Does the filter make sense for any common link type? Before anything is asked: -1 is bad usage. */
int question_check(const struct query_args *a, struct pr_error *err);
/*
 * The same in a thread of its own, which loads the compiler's libraries from the disk while the caller opens
 * volumes. Each begin has its end, which returns what question_check does; args outlive it.
 */
struct question_check {
	const struct query_args *args;
	pthread_t thread;
	bool running;
	int rc;
	struct pr_error err;
};
void question_check_begin(struct question_check *c, const struct query_args *args);
int question_check_end(struct question_check *c, struct pr_error *err);
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
