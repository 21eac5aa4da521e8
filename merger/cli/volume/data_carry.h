/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_DATA_CARRY_H
#define PR_CLI_DATA_CARRY_H

#include "merger/cli/volume/data_place.h"
#include "merger/trace_writer.h"

/*
 * Questions that a move asks, each of one node or volume. An answer that is not all of what is there
 * (a node that does not answer, records that cannot be read) is an error.
 */

/* The packets of an answer by name, in the total order: 32 bytes each. */
struct data_name {
	int64_t otime;
	uint64_t epoch, seq;
	uint16_t link;
};
struct data_names {
	struct data_name *items;
	size_t count, room;
};
void data_names_free(struct data_names *names);

int data_ask_count(const struct query_args *q, uint64_t *count, struct pr_error *err);
int data_ask_names(
	const struct query_args *q, struct data_names *names, struct pr_error *err);
/*
 * Stores all but those that `have` names, and notes and hashes all. Interrupted: an error. stored counts
 * on.
 */
int data_ask_copy(const struct query_args *q, const struct data_names *have,
	struct data_place *place, struct data_names *all, struct prm_trace_hash *hash,
	uint64_t *stored, struct pr_error *err);
/* Are all of them there? Hashes those; *found is how many. */
int data_ask_verify(const struct query_args *q, const struct data_names *all,
	struct prm_trace_hash *hash, uint64_t *found, struct pr_error *err);
/* Into a new trace file, and its hash there. */
int data_ask_file(const struct query_args *q, char hash[PRM_TRACE_HASH_TEXT],
	uint64_t *packets, struct pr_error *err);

#endif
