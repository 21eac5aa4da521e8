/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_OPTIONS_H
#define PRI_INDEXER_OPTIONS_H

#include <stdbool.h>

#include "indexer/index/index_key.h"
#include "proto/base/error.h"
#include "proto/base/options.h"
#include "proto/rpc/rpc.h"

struct pri_indexer_options {
	struct pr_string_list volume; /* as given: PATH[,PATH] */
	struct pr_string_list paths; /* its parts */
	struct pr_string_list merger;
	char *name, *manage, *cluster, *metrics;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	uint64_t queries;
	int log_format; /* enum pr_log_format */
	bool verbose;
	struct pr_string_list composite; /* as given */
	struct pri_composites composites;
};

/* Returns as pr_options_parse. Free with pri_indexer_options_free in any case. */
int pri_indexer_options_parse(
	struct pri_indexer_options *o, int argc, char **argv, struct pr_error *err);
void pri_indexer_options_free(struct pri_indexer_options *o);

#endif
