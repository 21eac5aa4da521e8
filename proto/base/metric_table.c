/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics.h"

/*
 * Every metric. To add one: give the counter a name in the program's status, and a row to the file of its
 * program; a test says what packrack-metrics(7) then lacks. Counters end in _total, units come before.
 */
#define ROW(scope, value, name, type, unit, labels, help)                                  \
	{PR_METRIC_##scope, value, name, PR_METRIC_##type, PR_METRIC_##unit, labels, help},

const struct pr_metric pr_metric_table[] = {
	/* one row a line */
	/* clang-format off */
	ROW(PROGRAM, "cpu_us", "process_cpu_seconds_total", COUNTER, US, "",
		"Processor time of the program, user and system.")
	ROW(PROGRAM, "resident_kib", "process_resident_memory_bytes", GAUGE, KIB, "",
		"Memory of the program that is in RAM.")
	ROW(PROGRAM, "started_us", "process_start_time_seconds", GAUGE, US, "",
		"When the program was started, seconds since 1970.")
	ROW(PROGRAM, "open_files", "process_open_fds", GAUGE, ONE, "",
		"Files and sockets that the program has open.")
	ROW(PROGRAM, "build", "packrack_build_info", GAUGE, ONE, "",
		"Always 1; its labels name the program and its version.")
#include "proto/base/metric_rows_dispatcher.h"
#include "proto/base/metric_rows_node.h"
#include "proto/base/metric_rows_merger.h"
	/* clang-format on */
};

const size_t pr_metric_count = sizeof pr_metric_table / sizeof pr_metric_table[0];
