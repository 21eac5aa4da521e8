/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/bpf.h"
#include "merger/cli/cli.h"
#include "merger/trace_writer.h"
#include "proto/wire/relation.h"

/* What `packrack query` and `packrack export` were asked. */
struct query_args {
	struct cli_connection merger;
	struct pr_string_list volumes, nodes, files;
	int64_t since, until;
	char *write;
	/* as tcpdump's -C, -G and -W: when the next file begins, 0 never; how many there are */
	uint64_t rotate_bytes, rotate_count;
	int64_t rotate_ns;
	int format; /* enum prm_trace_format */
	uint64_t limit;
	bool verify; /* count the packets of the written file again */
	bool strict;
	bool manifest;
	struct pr_string_list allow; /* reasons for being partial that the user accepts */
	bool no_wait;
	bool tagged; /* the filter also finds packets behind VLAN tags */
	bool count, follow, quiet, strays, explain, estimate, memory_only, json, keyvalue,
		related, numeric;
	char *link;
	char *filter; /* the operands, joined; "" none */
	const char *purpose; /* for logs and status in place of the filter; NULL: none */
	Packrack__TallySpec tally; /* group 0: packets are given, not counted */
	/*
	 * Of a rack: what takes the packets also takes parts of flows (PR_PACKET_PARTS), of this share only (of 0: all);
	 * it must have fewer then
	 */
	bool parts;
	uint32_t share, shares;
	/*
	 * --related runs the query twice. The first run notes what matches in `note`; the
	 * second uses it as `noted`.
	 */
	struct pr_relations *note;
	const struct pr_relations *noted;
};

/*
 * Rows of option tables: whom to ask, time range, link and nodes. at: prefix of the members
 * of query_args, such as `query.`
 */
#define QUERY_RANGE_OPTIONS(at)                                                            \
	CLI_MERGER_OPTION(at merger.endpoint, "ask this merger"),                          \
		PR_OPT_LIST(at volumes, "volume", 0, "VOLUME",                             \
			"ask this volume, without a rack"),                                \
		PR_OPT_LIST(at files, "read", 'r', "FILE",                                 \
			"ask this trace file (pcap, pcapng; also .gz, .zst; -: standard "  \
			"input), without a volume"),                                       \
		CLI_TIME_OPTIONS(at),                                                      \
		PR_OPT_STRING(at link, "link", 0, "LINK",                                  \
			"packets of this link only: its name or number"),                  \
		PR_OPT_LIST(at nodes, "node", 0, "NAME", "ask this node only"),            \
		PR_OPT_LIST(at allow, "allow", 0, "REASON[,REASON]",                       \
			"exit with 0 although the answer is partial, if only for these "   \
			"reasons: as the report names them, such as stopped, gone, "       \
			"overwritten, switch"),                                            \
		PR_OPT_FLAG(at strict, "strict", 0,                                        \
			"exit with 3 if packets are beyond the cutoff of a class"),        \
		PR_OPT_FLAG(at no_wait, "no-wait", 0,                                      \
			"do not wait until packets up to now are stored")

/* The operands become the filter; -1: no memory, or options that do not go together. */
int query_args_take(struct query_args *a, int count, char **words, struct pr_error *err);

/* Values before options are parsed. */
#define QUERY_ARGS                                                                         \
	{                                                                                  \
		.since = PR_TIME_MIN, .until = PR_TIME_MAX,                                \
		.tally = PACKRACK__TALLY_SPEC__INIT                                        \
	}

/*
 * `after TIME` and `before TIME` within a filter, as in "after 3h ago and tcp port 80"; TIME is what --since
 * takes, and is included. Sets the time range outside of which the filter cannot match. A
 * term that is joined to all the rest by `and` is then removed from the text. Other terms
 * stay in the text as `after @SECONDS`, which filter.h takes. `after` behind a word like
 * `host` is a name, and stays. No I/O. Returns the remaining text, to be freed; NULL: err.
 */
char *time_terms_take(const char *filter, int64_t now, int64_t *since, int64_t *until,
	struct pr_error *err);

/* query_args_take, and the rules of query; then those of the command, its task. */
int query_args_check(
	struct query_args *a, const struct cli_call *call, struct pr_error *err);

/* bytes of a filter, for logs and status; a message takes 64 KiB */
#define QUESTION_TEXT 4096

/* The Query message that args make, with the filter compiled for the link types that there are. */
struct question {
	Packrack__Query query;
	char text[QUESTION_TEXT];
	struct pr_bpf_set programs;
	/* of --related's second question; core, direct: its programs are the filter's own */
	struct pr_bpf_set direct;
	Packrack__Related related;
	Packrack__Query core;
};

/* Are sums beyond a cutoff (proto/wire/beyond.h) asked for, too? Not for rates: a sum tells the second, not when in it. */
bool query_takes_sums(const struct query_args *a);
/* Does the filter make sense for any common link type? Before anything is asked: -1 is bad usage. */
int question_check(const struct query_args *a, struct pr_error *err);

/*
 * linktypes: of what will be asked; none known: Ethernet. Borrows from args. -1: bad usage.
 * question_free in any case.
 */
int question_make(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err);
void question_free(struct question *q);
