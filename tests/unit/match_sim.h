/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/timestamp_match.h"
#include "proto/base/clock.h"

/*
 * A dispatcher and a faulty switch in front of the matcher, by a seed: what they are made of.
 * match_sim_switch.h makes what reaches the node, match_sim_run.h gives it to the matcher and looks at what
 * comes out. Rates are per mille. Headers only, as each file under tests/unit is a program.
 */
#define SIM_EPOCH UINT64_C(0x1234567890abcdef)
#define SIM_PACKET_MAX 200
#define SIM_LINKS 20
#define SIM_LOG_MAX 60000
#define SIM_REACH 64 /* frames: how far the switch reorders */
#define SIM_STEP 20000 /* ns between two frames */

struct sim_case {
	uint64_t seed;
	unsigned links, packets;
	unsigned loss, burst /* length of one */, dup, reorder, corrupt, pad;
	unsigned alike; /* packets that are one of a few alike */
	unsigned run; /* length of one run of alike ones */
	unsigned every; /* packets: the run comes so often; 0: once, in the middle */
	unsigned replay; /* copies of the first `record` frames, in order */
	unsigned record;
	unsigned log_loss, log_gone; /* gone: RESEND is answered so */
	unsigned hold_log; /* number of the log of link 0 that comes late */
	unsigned
		turn; /* links send so many in turn, and carry the same packets at other times */
	bool large_logs;
	uint32_t room;
	bool mute; /* RESEND is not answered */
};

struct sim_packet {
	uint16_t link;
	uint64_t seq;
	uint32_t len;
	uint8_t data[SIM_PACKET_MAX];
	bool stored, lost_told;
};

struct sim_log {
	uint8_t *body;
	size_t len;
	uint16_t link;
	uint64_t number, first_seq, last_seq;
	uint64_t count;
	bool dropped;
};

struct sim_event {
	uint64_t key, tie;
	long packet, log; /* one of them, the other -1 */
	uint32_t pad;
	bool corrupt;
};

struct sim_ask {
	int64_t due;
	size_t log;
};

struct sim {
	struct sim_case c;
	struct prl_match *match;
	struct sim_packet *packets;
	struct sim_log *logs;
	size_t log_count;
	struct sim_event *events;
	size_t event_count;
	struct sim_ask *asks;
	size_t ask_count;
	uint64_t random;
	int64_t now;
	bool holding;

	uint64_t frames_in, frames_out, stored, lost, strays, duplicates, leftovers;
	uint64_t dropped, corrupted, doubled, stored_while_held;
	uint64_t last_seq[SIM_LINKS];
	size_t counts[SIM_LINKS]; /* packets of each link */
	struct prl_match_stats stats;
	char bad[200];
};

static inline uint64_t
sim_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * UINT64_C(2685821657736338717) >> 11;
}

static inline bool
sim_chance(struct sim *s, unsigned per_mille)
{
	return per_mille && sim_random(&s->random) % 1000 < per_mille;
}

#define SIM_BAD(s, ...)                                                                    \
	do {                                                                               \
		if (!(s)->bad[0])                                                          \
			snprintf((s)->bad, sizeof((s)->bad), __VA_ARGS__);                 \
	} while (0)
