/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_ANSWER_SINK_H
#define PR_CLI_QUERY_ANSWER_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/cli/render.h"
#include "merger/cli/query/query_args.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/rpc/tally.h"
#include "proto/wire/source.h"

/* Where an answer's packets go: a trace, one line each, or nowhere (they are counted). */
struct sink {
	const struct query_args *args;
	struct prm_output out;
	struct prm_trace_writer *trace; /* NULL: lines */
	bool none;
	/* Set after sink_init: takes the packets, and nothing is opened. */
	int (*take)(void *arg, const struct pr_packet *p, struct pr_error *err);
	void *take_arg;
	bool to_stdout, opened, regular, terminal;
	uint64_t packets, unsure, strays, related;
	int64_t last_time;
	struct pr_tally
		*tally; /* what args.tally asks for: packets, or what nodes have counted */
	struct progress progress;
};

/* args must outlive it. sink_close in any case. */
void sink_init(struct sink *s, const struct query_args *args);

/*
 * Opens FILE, and takes the names of the links. Call when an answer is certain, as an
 * existing file is truncated.
 */
int sink_open(struct sink *s, Packrack__LinkInfo *const *links, size_t count,
	struct pr_error *err);

/* Adds counts made by nodes. */
int sink_tally(struct sink *s, const Packrack__Tally *part, struct pr_error *err);

/* Forgets all counts: packets follow instead. */
int sink_recount(struct sink *s, struct pr_error *err);
int sink_packet(struct sink *s, const struct pr_packet *p, struct pr_error *err);

/* Once a batch: progress, and lines to a terminal at once. */
int sink_pause(struct sink *s, struct pr_error *err);

/* Writing failed because the reader of a pipe has gone: end quietly. */
bool sink_closed(const struct sink *s);

/* Closes the trace with the completeness report (end may be NULL). */
int sink_finish(struct sink *s, const Packrack__End *end, struct pr_error *err);
void sink_close(struct sink *s);

/*
 * One packet in one line, the essentials of `tcpdump -n`: time (UTC), what it is, from where to where,
 * lengths. Returns the length; buf of at least PACKET_LINE bytes. Ends in a newline.
 */
#define PACKET_LINE 400
size_t packet_line(const struct pr_packet *p, char *buf, size_t size);

#endif
