/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_QUERY_ASK_H
#define PR_CLI_QUERY_ASK_H

#include "indexer/filter/plan.h"
#include "merger/cli/query/query_args.h"
#include "proto/rpc/tally.h"
#include "proto/wire/source.h"

/* An answer: where its packets go (a trace, one line each, or nowhere: they are counted), and its end. */
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
	/* what args.tally asks for: packets, or what nodes have counted */
	struct pr_tally *tally;
	struct progress progress;
	Packrack__End *end; /* when all packets came */
	struct pri_plans plans; /* of the question, with --explain */
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

/* Forgets all counts, and the end: packets follow instead. */
int sink_recount(struct sink *s, struct pr_error *err);
int sink_packet(struct sink *s, const struct pr_packet *p, struct pr_error *err);

/* Once a batch: progress, and lines to a terminal at once. */
int sink_pause(struct sink *s, struct pr_error *err);

/* Of a failure to write: ASK_CLOSED if the reader of a pipe has gone, else CLI_FAILED. */
int sink_failure(const struct sink *s);

/* Closes the trace with the completeness report. */
int sink_finish(struct sink *s, struct pr_error *err);
void sink_close(struct sink *s);

/*
 * One packet in one line, the essentials of `tcpdump -n`: time (UTC), what it is, from where to where,
 * lengths. Returns the length; buf of at least PACKET_LINE bytes. Ends in a newline.
 */
#define PACKET_LINE 400
size_t packet_line(const struct pr_packet *p, char *buf, size_t size);

/*
 * Asks a merger, or volumes in this process; packets go into the sink as they come. The filter is checked
 * first: CLI_USAGE before anything is opened.
 */
enum {
	ASK_CLOSED = 4
}; /* nobody reads our output any more; else CLI_OK, ..FAILED, ..USAGE */
int ask_query(struct sink *sink, struct pr_error *err);

/* The two ways of ask_query(). */
int ask_merger(struct sink *sink, struct pr_error *err);
int ask_volumes(struct sink *sink, struct pr_error *err);

/* The question for the link types there are, its plans, and the sink for the links' names. */
int ask_prepare(struct question *q, struct sink *sink, Packrack__LinkInfo *const *links,
	size_t count, struct pr_error *err);

/* The distinct link types of links; *out from malloc. Returns their number, or -1: no memory. */
int ask_linktypes(Packrack__LinkInfo *const *links, size_t count, uint16_t **out,
	struct pr_error *err);

/* As pri_volume_open; volume: PATH[,PATH]. */
struct pri_volume *ask_volume_open(
	const char *volume, unsigned options, struct pr_error *err);

/* ---- what an answer says of itself ---- */

/* CLI_OK or CLI_PARTIAL. */
int report_status(const Packrack__End *end);

/* A block for people. */
void report_text(FILE *to, const struct sink *sink);

/* The whole of it, for JSON and key=value. */
void report_render(struct render *r, const struct sink *sink);

/* The block for people as a string (free), for a trace's comment; NULL: no memory. */
char *report_comment(const Packrack__End *end);

/*
 * What --explain says of an answer: the time range that flags and filter come to, the plan in words, for
 * each link type there is, and what was read and skipped, node by node.
 */
void explain_text(FILE *to, const struct sink *sink);
void explain_render(struct render *r, const struct sink *sink);

#endif
