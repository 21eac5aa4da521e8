/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_REPORT_H
#define PRL_LOGGER_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logger/append.h"
#include "logger/capture.h"

/*
 * The logger's figures in one list of names and numbers: shown in the volume's note as JSON, and in
 * answers to status requests.
 */
#define PRL_REPORT_MAX 64

struct prl_report {
	const char *mode; /* "rack", "tap", "read" */
	const char *name, *state, *trouble; /* trouble: NULL or why it is suspended */
	uint64_t epoch;
	struct {
		const char *name; /* snake_case */
		uint64_t number;
	} values[PRL_REPORT_MAX];
	size_t count;
};

void prl_report_add(struct prl_report *r, const char *name, uint64_t number);
/* What was received, and what was stored. */
void prl_report_counters(struct prl_report *r, const struct prl_append_counters *append,
	const struct prl_capture_counters *capture);
/* As JSON; false: it does not fit. */
bool prl_report_text(const struct prl_report *r, char *buf, size_t size);

#endif
