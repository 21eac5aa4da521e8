/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_REPORT_H
#define PR_CLI_REPORT_H

#include <stdio.h>

#include "merger/cli/render.h"
#include "merger/cli/query/sink.h"
#include "proto/rpc/packrack.pb-c.h"

/* What an answer says of itself. */

/* CLI_OK or CLI_PARTIAL. */
int report_status(const Packrack__End *end);
/* A block for people. */
void report_text(FILE *to, const Packrack__End *end, const struct sink *sink);
/* The whole of it, for JSON and key=value. */
void report_render(struct render *r, const Packrack__End *end, const struct sink *sink);
/* The block for people as a string (free), for a trace's comment; NULL: no memory. */
char *report_comment(const Packrack__End *end);

#endif
