/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/port/shunt_record.h"

/*
 * Shunting: an XDP program (shunt.bpf.c) on each capture interface drops the packets of the connections that it is told, so
 * that they cost nothing else, and counts them for each connection, direction and second. What begins or ends a connection
 * passes. The programs hang on links of this process: when it ends, by whatever way, the kernel takes them off.
 *
 * open needs what pr_fast_open needs. open, close: one thread, while no other uses it. set_running: any thread. All else:
 * one thread.
 */
struct pr_shunts;

struct pr_shunts *pr_shunts_open(
	const char *const *ifnames, unsigned count, struct pr_error *err);
void pr_shunts_close(struct pr_shunts **shunts);
/* "native" or "generic", for people */
const char *pr_shunts_mode(const struct pr_shunts *s);
/* Off: all packets pass. */
void pr_shunts_set_running(struct pr_shunts *s, bool running);

/* now: ns UTC. Returns the connection's number, from 0 on, below PR_SHUNT_SETS * PR_SHUNT_PLACES; -1: there is no room. */
int pr_shunt_add(struct pr_shunts *s, const struct pr_shunt_key *key, int64_t now);
/* From now on its packets pass; what was counted can still be taken. */
void pr_shunt_end(struct pr_shunts *s, int number);
bool pr_shunt_ended(const struct pr_shunts *s, int number);
/* Forgets it. Not before some microseconds have passed since it was ended, and its sums were taken. */
void pr_shunt_free(struct pr_shunts *s, int number);
/*
 * The sum of a direction (0, 1: the end that sends) of an earlier second than this, without which the program could not
 * count on. False: there is none. Call until then.
 */
bool pr_shunt_take(struct pr_shunts *s, int number, unsigned from, uint64_t second,
	struct pr_shunt_sum *sum);
/* After steps of the clock. */
void pr_shunts_read_clock(struct pr_shunts *s);
