/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * Samples of the counters of one program, node or link. They give CLog's three columns
 * (section 3.4, figure 6): change since the last sample, rate per second over the last ten,
 * total. One counter is also kept as a curve. Counters have the names
 * that they have in messages.
 */
enum { SERIES_VALUES = 64, SERIES_WINDOW = 11, SERIES_SPARK = 240 };

/* The names that all things of one kind share; grows as names turn up. */
struct series_names {
	unsigned count;
	char name[SERIES_VALUES][48];
};

struct series_sample {
	int64_t time;
	uint64_t values[SERIES_VALUES];
};

struct series {
	const struct series_names *names;
	/* samples taken since the counters began; the last SERIES_WINDOW are kept */
	unsigned count;
	struct series_sample samples[SERIES_WINDOW];
	uint64_t spark[SERIES_SPARK]; /* the oldest first */
	unsigned spark_count;
};
bool series_has(const struct series *s, const char *name);

/*
 * Of one counter, or the sum of several ("dropped_ring+dropped_send"); 0 without them: the last sample, how much more
 * than in the one before, and how much more a second over the window; 0 when it has fallen.
 */
uint64_t series_now(const struct series *s, const char *names);
uint64_t series_instant(const struct series *s, const char *names);
double series_rate(const struct series *s, const char *names);

/*
 * All values that the console shows: those of the dispatcher and of the first merger,
 * nodes joined by name, and a list of events. The last answer of each is kept as it came.
 * No I/O: messages and times are arguments.
 */
enum { MODEL_MERGERS = 8, MODEL_EVENTS = 500, MODEL_LINKS = 64, MODEL_STORES = 512 };
#define MODEL_NAME 65 /* with its end: PR_NAME_MAX bytes are a name */

/* A program that is asked. */
struct model_peer {
	char endpoint[128];
	bool wanted; /* the user named it; else its absence is not reported */
	bool answers; /* the last request was answered in time */
	char error[160]; /* why not; or "" while nothing is known */
	Packrack__Status *status; /* its last answer; NULL: there was none */
	struct series_names names;
	struct series series;
};

struct model_node {
	char name[MODEL_NAME], mac[18];
	bool seen; /* while a message is read: the message has this node */
	/* in the last answers of the dispatcher and the merger; NULL: not known to it */
	const Packrack__DispatcherNode *sent;
	const Packrack__NodeStatus *held;
	struct series dispatcher_values, merger_values; /* empty while not known to it */
};

struct model_link {
	unsigned number;
	char name[MODEL_NAME];
	bool ended;
	uint64_t last_seq;
	struct series series;
};

/* A stream of packets of a node's volume, in the merger's last answer. */
struct model_store {
	const Packrack__NodeStatus *node;
	const Packrack__StreamHeld *held;
};

struct model_event {
	int64_t time;
	char text[200];
};

struct model {
	struct model_peer dispatcher, mergers[MODEL_MERGERS];
	unsigned merger_count;
	struct model_node **nodes; /* in order of name */
	size_t node_count;
	struct series_names dispatcher_names, merger_names, link_names;
	struct model_link links[MODEL_LINKS];
	unsigned link_count;
	Packrack__RunningQuery **queries; /* in the merger's last answer */
	size_t query_count;
	struct model_store stores[MODEL_STORES];
	unsigned store_count;
	struct model_event events[MODEL_EVENTS]; /* ring: the last ones */
	unsigned event_count; /* of all that there were */
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

/* The state of a node in one word, from both reports; *bad: it needs attention. */
const char *node_state(const struct model *m, const struct model_node *n, bool *bad);

/*
 * Seconds until the node's volume is full and old data is overwritten, at the rate of the
 * last samples; < 0: unknown.
 */
double node_full_in(const struct model_node *n);

/* Sum over nodes of what the dispatcher reported. */
uint64_t nodes_sum(const struct model *m, const char *name);
