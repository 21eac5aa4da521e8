/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_QUERY_MESSAGE_H
#define PRI_INDEXER_QUERY_MESSAGE_H

#include "indexer/filter/bpf.h"
#include "indexer/query/query.h"
#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* Programs and queries as messages. What comes from a message is checked again: programs are run. */

/* -1 and err: the query cannot be carried out as it is (a bad request). link points into message. */
int pri_query_from_message(
	const Packrack__Query *message, struct pri_query_spec *out, struct pr_error *err);

/*
 * Puts the programs into message (memory of its own, freed by pri_query_message_free); for askers.
 * No programs: every packet of every link type is asked for.
 */
int pri_query_set_programs(
	Packrack__Query *message, const struct pri_bpf_set *programs, struct pr_error *err);
void pri_query_message_free(Packrack__Query *message);

#endif
