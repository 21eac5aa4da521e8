/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_REPORT_H
#define PR_LOGGER_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/append.h"
#include "logger/capture.h"

/*
 * The logger's figures in one list of names and numbers: shown in the volume's note as JSON, and in
 * answers to status requests.
 */
#define PR_REPORT_MAX 64

struct pr_report {
	const char *mode; /* "rack", "tap", "read" */
	const char *name, *state, *trouble; /* trouble: NULL or why it is suspended */
	uint64_t epoch;
	struct {
		const char *name; /* snake_case */
		uint64_t number;
	} values[PR_REPORT_MAX];
	size_t count;
};

void pr_report_add(struct pr_report *r, const char *name, uint64_t number);
/* What was received, and what was stored. */
void pr_report_counters(struct pr_report *r, const struct pr_append_counters *append,
	const struct pr_capture_counters *capture);
/* As JSON; false: it does not fit. */
bool pr_report_text(const struct pr_report *r, char *buf, size_t size);

#endif
