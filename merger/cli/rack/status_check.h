/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RACK_STATUS_CHECK_H
#define PR_CLI_RACK_STATUS_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * The state of a rack as one line and one exit status, as Nagios' plugins give them: what is wrong, then
 * figures with their thresholds. A pure core: the asking is done before, the time is in the statuses.
 */
enum check_status { CHECK_OK, CHECK_WARNING, CHECK_CRITICAL, CHECK_UNKNOWN };

/* As Nagios has it: above a threshold is wrong; of times, below it. Times: ns, 0: not looked at. */
struct check_limits {
	double loss_warning, loss_critical; /* percent of the packets that came */
	uint64_t silent_warning, silent_critical; /* nodes that store nothing */
	int64_t full_warning, full_critical; /* until a volume is full for the first time */
	int64_t kept_warning, kept_critical; /* back to the oldest packet */
};

/* "WARNING,CRITICAL" or "WARNING": what is not said stays. -1: err, naming the option. */
int check_limits_loss(struct check_limits *l, const char *text, struct pr_error *err);
int check_limits_silent(struct check_limits *l, const char *text, struct pr_error *err);
int check_limits_full(struct check_limits *l, const char *text, struct pr_error *err);
int check_limits_kept(struct check_limits *l, const char *text, struct pr_error *err);

/* What was counted at the last check, so that an old loss is not reported for ever. */
struct check_counts {
	uint64_t epoch, captured, lost;
};

/* 0; 1: there is no such file yet; -1: it cannot be read, or is none of ours. */
int check_counts_load(const char *path, struct check_counts *out, struct pr_error *err);
int check_counts_store(
	const char *path, const struct check_counts *counts, struct pr_error *err);
void check_counts_take(struct check_counts *out, const Packrack__Status *dispatcher);

/*
 * Prints the line. silent: who should have answered and did not, or NULL. merger and dispatcher: NULL
 * when there is none. before: NULL: losses count since the dispatcher's start.
 */
enum check_status status_check(FILE *to, const struct check_limits *limits,
	const Packrack__Status *merger, const Packrack__Status *dispatcher,
	const char *silent, const struct check_counts *before);

#endif
