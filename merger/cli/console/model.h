/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_CONSOLE_MODEL_H
#define PR_CLI_CONSOLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Counters of one thing as they came in, for CLog's three columns (section 3.4, figure 6): how
 * much since the last time, how much a second over the last ten times, how much in all. And one of
 * them as a line of a minute. Counters go by the names that the messages give them.
 */
#define SERIES_VALUES 64
#define SERIES_WINDOW 11
#define SERIES_SPARK 60

/* The names that all things of one kind share; grows as names turn up. */
struct series_names {
	unsigned count;
	char name[SERIES_VALUES][48];
};

struct series {
	unsigned
		count; /* samples taken since the counters began; the last SERIES_WINDOW are kept */
	int64_t times[SERIES_WINDOW];
	uint64_t values[SERIES_WINDOW][SERIES_VALUES];
	uint64_t spark[SERIES_SPARK]; /* the oldest first */
	unsigned spark_count;
};
uint64_t series_now(const struct series *s, const struct series_names *n, const char *name);
bool series_has(const struct series *s, const struct series_names *n, const char *name);

/* Since the last sample; 0 with one only, or when it has fallen. */
uint64_t series_instant(
	const struct series *s, const struct series_names *n, const char *name);

/* A second, over the window. */
double series_rate(const struct series *s, const struct series_names *n, const char *name);

/*
 * All values that the console shows: those of the dispatcher and of the first merger,
 * nodes joined by name, and a list of events. No I/O: messages and times are arguments.
 * Texts of other machines are cut to size.
 */
#define MODEL_MERGERS 8
#define MODEL_EVENTS 500
#define MODEL_QUERIES 64
#define MODEL_LINKS 64
#define MODEL_STORES 512
#define MODEL_NAME 65 /* with its end: PR_NAME_MAX bytes are a name */

/* A program that is asked. */
struct model_peer {
	char endpoint[128];
	bool wanted; /* the user named it; else its absence is not reported */
	bool answers; /* the last request was answered in time */
	char error[160]; /* why not; or "" while nothing is known */
	char version[32], state[32];
	int64_t time; /* its own, of the last answer; 0: there was none */
	uint64_t epoch; /* dispatcher */
	struct series_names names;
	struct series series;
	unsigned nodes, queries; /* merger */
};

struct model_node {
	char name[MODEL_NAME], mac[18], state[32]; /* state: as the dispatcher says */
	unsigned number;
	bool known_to_dispatcher;
	bool known_to_merger;
	bool connected, writer; /* merger */
	bool seen; /* while a message is taken in */
	int64_t heard; /* by the dispatcher */
	int64_t last_seen; /* by the merger */
	struct series dispatcher_values,
		merger_values; /* the dispatcher's and the merger's figures */
};

struct model_link {
	unsigned number;
	char name[MODEL_NAME];
	bool ended;
	uint64_t last_seq;
	struct series series;
};

struct model_query {
	uint64_t number, matched, bytes;
	int64_t started;
	unsigned nodes, nodes_left;
	char user[MODEL_NAME], text[256];
};

/* A stream of packets of a node's volume. */
struct model_store {
	char node[MODEL_NAME], stream[48], link[MODEL_NAME];
	bool connected;
	uint64_t packets, bytes, guarantee;
	int64_t oldest, newest; /* packets 0: unused */
	int64_t gone_until; /* 0: nothing has gone */
	char deleted[200]; /* the last deletion; or "" */
};

struct model_event {
	int64_t time;
	char text[200];
};

struct model {
	struct model_peer dispatcher, mergers[MODEL_MERGERS];
	unsigned merger_count;
	struct model_node **nodes; /* in order of name */
	size_t node_count, node_room;
	struct series_names dispatcher_names, merger_names, link_names;
	struct model_link links[MODEL_LINKS];
	unsigned link_count;
	struct model_query queries[MODEL_QUERIES];
	unsigned query_count;
	struct model_store stores[MODEL_STORES];
	unsigned store_count;
	struct model_event events[MODEL_EVENTS]; /* ring */
	unsigned event_count;
};
struct model *model_create(struct pr_error *err);
void model_destroy(struct model **m);

/* now: ns since 1970, for the list of events. Without memory for a new node it is left out. */
void model_take_dispatcher(struct model *m, const Packrack__Status *status, int64_t now);
void model_take_merger(
	struct model *m, unsigned which, const Packrack__Status *status, int64_t now);

/* No answer: the values stay, and are shown as out of date. */
void model_silent(struct model *m, struct model_peer *peer, const char *name,
	const char *why, int64_t now);
void model_event(struct model *m, int64_t now, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* back 0: the newest; NULL: there are no more. */
const struct model_event *model_event_at(const struct model *m, unsigned back);

/* A value of a node, as the dispatcher or the merger reported it; 0 if it did not. */
uint64_t node_dispatcher_value(
	const struct model *m, const struct model_node *n, const char *name);
uint64_t node_merger_value(
	const struct model *m, const struct model_node *n, const char *name);

/* The state of a node in one word, from both reports; *bad: it needs attention. */
const char *node_state(const struct model *m, const struct model_node *n, bool *bad);

/* Seconds until its volume is full and recycles, at the rate of the last samples; < 0: unknown. */
double node_full_in(const struct model *m, const struct model_node *n);

/* Sum over nodes. */
uint64_t nodes_sum(const struct model *m, const char *name, bool out);

#endif
