/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/source.h"

/*
 * A packet filter as libpcap compiles it, and its interpreter. Programs come over the network and are not trusted:
 * they are checked once when they are made, and their steps are bounded when they run. For a valid program the
 * result equals that of pcap_offline_filter, but for the two extensions below. Immutable; any thread may run it.
 */
struct pr_insn { /* as struct bpf_insn */
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

/*
 * Two extensions of BPF. filter.c makes them (libpcap never does), bpf.c runs them and
 * plan.c reads them.
 *
 * PART: a jump to the next instruction with jt 1. The next part of an OR follows it. A load
 * beyond the captured bytes rejects only its own part.
 */
#define PR_INSN_PART ((struct pr_insn){.code = 0x05, .jt = 1})
static inline bool
pr_insn_begins_part(const struct pr_insn *in)
{
	return in->code == 0x05 && in->jt == 1 && in->k == 0;
}

/*
 * TIME: a program begins with its terms of time, two instructions each. Term i has an
 * offset at which no packet has bytes (PR_TIMES_AT, PR_TIMES_APART). A load of four bytes
 * there gives 1 if the packet's time is at or after the term's (`before`: at or before it),
 * otherwise 0.
 */
enum { PR_INSN_TIME = 0xc0, PR_TIMES_MAX = 1000 };
#define PR_TIMES_AT UINT32_C(0xc0000000)
/* between two terms' offsets; a header's length may be added to one */
#define PR_TIMES_APART UINT32_C(0x40000)

struct pr_bpf_time {
	int64_t time;
	bool after;
};
void pr_bpf_put_time(struct pr_insn head[2], const struct pr_bpf_time *time);
/* The term of time i, which must exist. */
struct pr_bpf_time pr_bpf_time(const struct pr_insn *insns, size_t i);
/* The number of the term at this offset; PR_TIMES_MAX: none. */
static inline size_t
pr_bpf_time_at(uint64_t offset)
{
	uint64_t i = (offset - PR_TIMES_AT) / PR_TIMES_APART;

	return i < PR_TIMES_MAX ? (size_t)i : PR_TIMES_MAX;
}

#define PR_BPF_MAX 200000 /* instructions */
#define PR_BPF_MEMORY 16 /* words of scratch memory */

struct pr_bpf {
	uint16_t linktype; /* as in pcap files */
	size_t count, times; /* instructions; terms of time at their head */
	uint32_t steps; /* about what a packet takes at most */
	struct pr_insn insns[];
};

/* No instructions: everything matches. insns are copied. */
struct pr_bpf *pr_bpf_create(
	uint16_t linktype, const struct pr_insn *insns, size_t count, struct pr_error *err);
void pr_bpf_destroy(struct pr_bpf **program);

/*
 * What the program returns for a packet; 0: no match. A program that runs longer than any sensible one (backward
 * jumps: `ip6 protochain`) does not match.
 */
uint32_t pr_bpf_run(const struct pr_bpf *program, const struct pr_packet *packet);

/*
 * Likewise, of a packet of which only some bytes are known (known: of each captured one); nor is its length or its time. *unknown: the
 * result depends on more, or a load was beyond the captured bytes. known NULL: all that was captured is.
 */
uint32_t pr_bpf_run_known(const struct pr_bpf *program, const struct pr_packet *packet,
	const bool *known, bool *unknown);

/*
 * The programs of a filter, one for each link type. If the set is empty, all packets match;
 * otherwise packets of other link types do not.
 */
struct pr_bpf_set {
	struct pr_bpf **items;
	size_t count;
};
/* Takes the program over, even on error. Two programs of one link type are an error. */
int pr_bpf_set_add(
	struct pr_bpf_set *programs, struct pr_bpf *program, struct pr_error *err);
const struct pr_bpf *pr_bpf_set_find(
	const struct pr_bpf_set *programs, uint16_t linktype); /* or NULL */
void pr_bpf_set_free(struct pr_bpf_set *programs);
/* True if all packets of this link type match. */
bool pr_bpf_set_all(const struct pr_bpf_set *programs, uint16_t linktype);
/* Packets that can be filtered in this many steps, at least 1: a step takes 1 to 2 ns. */
uint32_t pr_bpf_set_packets(const struct pr_bpf_set *programs, uint32_t steps);
bool pr_bpf_set_match(const struct pr_bpf_set *programs, const struct pr_packet *packet);
