/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/*
 * Files of flows that others, or packrack itself, wrote: IPFIX (RFC 5655), nfdump's (nfdump lists them), CSV with a head,
 * Zeek's conn.log, EVE, JSON, Parquet. What a file is, its first bytes tell. DuckDB reads all but the first two.
 */
struct flow_file {
	int fd; /* -1: not open */
	uint64_t hash; /* of all that is in it; not 0 */
	uint64_t lost; /* records, by the numbers of IPFIX */
	uint64_t records; /* so far */
	char head[65536]; /* its first bytes, and 0 */
};

/* flow_file_close in any case. Errors do not name the file. */
int flow_file_open(struct flow_file *f, const char *path, struct pr_error *err);
void flow_file_close(struct flow_file *f);
/* Takes each flow; missing: as the file says. -1: err, also if the file is damaged: some of its flows were taken then. */
typedef int flow_file_take(
	void *arg, const struct pri_flow *flow, uint64_t missing, struct pr_error *err);
int flow_file_read(
	struct flow_file *f, flow_file_take *take, void *arg, struct pr_error *err);
