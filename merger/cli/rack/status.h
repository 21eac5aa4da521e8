/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* Prints the rack's status for people. merger or dispatcher may be NULL. */
void status_text(
	FILE *to, const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* True for states in which a node stores nothing, except by the operator's command. */
bool status_takes_nothing(const char *state);

/* True if a node is unreachable or stores nothing, or a packet was lost anywhere. */
bool status_is_degraded(const Packrack__Status *merger, const Packrack__Status *dispatcher);

/*
 * Counts of packets by where they went, over the whole rack. merger or dispatcher may be
 * NULL.
 */
struct status_sums {
	uint64_t captured, delivered, beyond, kernel, dispatcher, node, missing;
};
struct status_sums status_sum(
	const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* A value by name; 0 when there is none. */
uint64_t status_value(Packrack__Value *const *values, size_t count, const char *name);

/*
 * The state of a rack as one line and an exit status, in the form of Nagios plugins: first
 * what is wrong, then values with their thresholds. No I/O: the caller has got the
 * statuses, which contain the time.
 */
enum check_status { CHECK_OK, CHECK_WARNING, CHECK_CRITICAL, CHECK_UNKNOWN };

/*
 * Limits as in Nagios: a value above a limit is wrong. For times, a value below it is
 * wrong, and 0 means no limit.
 */
struct check_limit {
	double warning, critical;
};
struct check_limits {
	struct check_limit loss; /* percent of the packets that came */
	struct check_limit silent; /* nodes that store nothing */
	struct check_limit full; /* seconds until a volume is full for the first time */
	struct check_limit kept; /* seconds back to the oldest packet */
};

/*
 * Parses "WARNING,CRITICAL" or "WARNING", as --loss, --max-unreachable, --full-within or
 * --retention takes it. Values not given are unchanged; NULL changes nothing. -1: err names
 * the option.
 */
int check_limit_parse(struct check_limit *limit, const char *option, const char *text,
	struct pr_error *err);

/* The counts of the last check, so that an old loss is not reported forever. */
struct check_counts {
	uint64_t epoch, captured, lost;
};

/*
 * 0: loaded; 1: no such file yet; -1: it cannot be read, or is not a file of this command.
 */
int check_counts_load(const char *path, struct check_counts *out, struct pr_error *err);
int check_counts_store(
	const char *path, const struct check_counts *counts, struct pr_error *err);
void check_counts_take(struct check_counts *out, const Packrack__Status *dispatcher);

/*
 * Prints the line. silent: the program that should have answered and did not, or NULL.
 * merger, dispatcher: NULL if there is none. before NULL: losses are counted since the
 * dispatcher's start.
 */
enum check_status status_check(FILE *to, const struct check_limits *limits,
	const Packrack__Status *merger, const Packrack__Status *dispatcher,
	const char *silent, const struct check_counts *before);
