/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "indexer/filter/plan.h"
#include "merger/cli/query/query_args.h"
#include "proto/rpc/tally.h"

/*
 * Takes an answer: its packets go to a trace, to lines of text, or are only counted; and
 * its End is kept.
 */
struct sink {
	const struct query_args *args;
	struct prm_output out;
	struct prm_trace_writer *trace; /* NULL: lines */
	char path[PATH_MAX]; /* of the file that is written */
	unsigned number; /* of it, behind its name */
	uint64_t written_files;
	int64_t begun; /* time of its first packet */
	bool none;
	/* If set (after sink_init): takes the packets; no file is opened. */
	int (*take)(void *arg, const struct pr_packet *p, struct pr_error *err);
	/* If set: called at pauses, for what takes packets in batches. */
	int (*pause)(void *arg, struct pr_error *err);
	void *take_arg;
	bool through; /* what takes packets gives others to sink_write: FILE is opened */
	bool bare; /* the trace has no names, comments and counts */
	/* If set (after sink_init): of other packets nothing is known here. */
	bool (*wanted)(void *arg, const struct pr_packet *p);
	void *wanted_arg;
	bool to_stdout, opened, regular, terminal;
	uint64_t packets, unsure, related, truncated, from_cut, from_headers;
	int64_t last_time;
	/* times of what is asked, for the progress line; last PR_TIME_MIN: not known */
	int64_t held_first, held_last;
	/* counts for args.tally: of packets here, or by nodes */
	struct pr_tally *tally;
	struct progress progress;
	Packrack__End *end; /* set when all packets have arrived */
	struct pri_plans plans; /* of the question, with --explain */
};

/* args must outlive the sink. Call sink_close in any case. */
void sink_init(struct sink *s, const struct query_args *args);

/*
 * Opens FILE, and takes the names of the links. Call it only when an answer will come,
 * since an existing file is truncated.
 */
int sink_open(struct sink *s, Packrack__LinkInfo *const *links, size_t count,
	struct pr_error *err);

/* A node or volume that is asked holds packets of these times. */
void sink_reaches(struct sink *s, int64_t first, int64_t last);

/* Adds counts made by nodes. */
int sink_tally(struct sink *s, const Packrack__Tally *part, struct pr_error *err);

/* Forgets all counts, and the end: packets follow instead. */
int sink_recount(struct sink *s, struct pr_error *err);
int sink_packet(struct sink *s, const struct pr_packet *p, struct pr_error *err);
/* Into FILE, uncounted. */
int sink_write(struct sink *s, const struct pr_packet *p, struct pr_error *err);

/* Once a batch: progress, and lines to a terminal at once. */
int sink_pause(struct sink *s, struct pr_error *err);

/* After a write error: ASK_CLOSED if the reader of a pipe has gone, else CLI_FAILED. */
int sink_failure(const struct sink *s);

/* Closes the trace with the completeness report. */
int sink_finish(struct sink *s, struct pr_error *err);
void sink_close(struct sink *s);

/*
 * Prints a packet as one line, like `tcpdump -n` in short: time (UTC), type, source and
 * destination, lengths. Returns the length. buf has at least PACKET_LINE bytes; the line
 * ends in a newline.
 */
#define PACKET_LINE 400
size_t packet_line(const struct pr_packet *p, char *buf, size_t size);

/*
 * Asks a merger, or volumes or trace files in this process; packets go into the sink as they come. The filter is checked
 * first: CLI_USAGE before anything is opened. CLI_OK, CLI_FAILED, CLI_USAGE, or ASK_CLOSED: nobody reads our output any
 * more. The progress line is gone then.
 */
enum { ASK_CLOSED = 4 };
int ask_query(struct sink *sink, struct pr_error *err);

/* The three ways of ask_query(). */
int ask_merger(struct sink *sink, struct pr_error *err);
int ask_volumes(struct sink *sink, struct pr_error *err);
int ask_files(struct sink *sink, struct pr_error *err);

/*
 * Prepares the question for the link types in `links`, its plans, and the names of the
 * links in the sink.
 */
int ask_prepare(struct question *q, struct sink *sink, Packrack__LinkInfo *const *links,
	size_t count, struct pr_error *err);

/* The distinct link types of links; *out from malloc. Returns their number, or -1: no memory. */
int ask_linktypes(Packrack__LinkInfo *const *links, size_t count, uint16_t **out,
	struct pr_error *err);

/* As pri_volume_open; volume: PATH[,PATH]. */
struct pri_volume *ask_volume_open(
	const char *volume, unsigned options, struct pr_error *err);

/* ---- the completeness report ---- */

/* CLI_OK, also if it is partial only for reasons that --allow names; or CLI_PARTIAL. */
int report_status(const struct sink *sink);
/* An entry of the list of missing packets, or a class of such; those at 0 to n_missing + n_missing_classes - 1. */
const Packrack__Loss *report_missing(const Packrack__Completeness *c, size_t at);
/* Missing packets that no entry or class has, as of a merger of an older version. */
uint64_t report_untold(const Packrack__Completeness *c);

/* -1: err, --allow names a reason that there is not. Splits items at their commas. */
int allow_check(struct pr_string_list *allow, struct pr_error *err);

/* A block for people. */
void report_text(FILE *to, const struct sink *sink);

/* Prints the whole report as JSON or key=value. */
void report_render(struct render *r, const struct sink *sink);

/* The text report as a string (free it), for a trace's comment; NULL: no memory. */
char *report_comment(const struct sink *sink);

/*
 * Prints what --explain adds: the time range that options and filter give, the plan in
 * words for each link type, and what was read and skipped on each node.
 */
void explain_text(FILE *to, const struct sink *sink);
void explain_render(struct render *r, const struct sink *sink);
