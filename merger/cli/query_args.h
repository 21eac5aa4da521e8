/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_ARGS_H
#define PR_CLI_QUERY_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "merger/trace_writer.h"

/* What `packrack query` and `packrack export` were asked. */
struct query_args {
	struct cli_connection merger;
	struct pr_string_list volumes, nodes;
	int64_t since, until;
	char *write;
	int format; /* enum pr_trace_format */
	uint64_t limit;
	bool count, strays, explain, json, keyvalue;
	char *link;
	char *filter; /* the operands, joined; "" none */
	const char *program; /* "packrack query" */
};

/* -1: go on; else the exit status. exporting: -w is required. Free in any case. */
int query_args_parse(struct query_args *a, bool exporting, int argc, char **argv);
void query_args_free(struct query_args *a);

enum render_form query_form(const struct query_args *a);

#endif
