/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/options.h"

/* The program. Returns its exit status. */
int prd_dispatcher_main(int argc, char **argv);

enum prd_exit_status { PRD_EXIT_FAILED = 1, PRD_EXIT_USAGE = 2 }; /* 0: done */

enum prd_path { PRD_PATH_PACKET, PRD_PATH_AUTO, PRD_PATH_XDP };
enum prd_pace { PRD_PACE_MAX, PRD_PACE_RECORDED };

struct prd_options {
	struct pr_string_list in; /* interfaces, commas split */
	struct pr_string_list read; /* files */
	struct pr_string_list classes;
	char *out, *filter, *manage, *metrics, *name, *user;
	char *key_flag; /* as given */
	const char *keys; /* key directory, or NULL */
	int pace, path, spread, log_format, no_canary, timestamps;
	struct pr_fast *fast; /* the XDP path, if it is used */
	struct pr_shunts *shunts; /* with --shunt */
	uint64_t copies, snaplen, ring_size, buffer_size, log_memory, class_memory,
		wait_nodes, rack_id, ethertype;
	int64_t hold_time, log_age, wait_time;
	bool cuts; /* there are classes, which may have cutoffs */
	bool shunt, allow_cut, exit_after_read, verbose;
};
