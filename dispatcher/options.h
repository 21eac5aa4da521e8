/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_OPTIONS_H
#define PR_DISPATCHER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/options.h"

/* Of the program, when it does not succeed. */
enum prd_exit_status { PRD_EXIT_FAILED = 1, PRD_EXIT_USAGE = 2 };

enum prd_pace { PRD_PACE_MAX, PRD_PACE_RECORDED };

struct prd_options {
	struct pr_string_list in; /* interfaces, commas split */
	struct pr_string_list read; /* files */
	char *out, *filter, *manage, *metrics, *name;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	int pace, spread, log_format;
	uint64_t copies, snaplen, ring_size, buffer_size, log_memory, wait_nodes, rack_id,
		ethertype;
	int64_t hold_time, log_age, wait_time;
	bool allow_cut, exit_after_read, verbose;
};

/* 0; 1: help was shown, exit 0; -1: bad usage, exit 2. Free with prd_options_free in all cases. */
int prd_options_parse(struct prd_options *o, int argc, char **argv, struct pr_error *err);
void prd_options_free(struct prd_options *o);

#endif
