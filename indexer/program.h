/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_PROGRAM_H
#define PR_INDEXER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/source.h"

/*
 * A packet filter as libpcap compiles it, and its interpreter. Programs come over the network and
 * are not trusted: they are checked once when made, and their steps are bounded when run. What a
 * valid one gives equals what pcap_offline_filter gives (but for parts, see below). Immutable once made; any thread may run it.
 */
struct pr_insn { /* as struct bpf_insn */
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

/*
 * Made by filter.c, never by libpcap: a jump to the next instruction, with jt 1. Behind it lies another
 * part of an OR; where a load fails in one part, the others have their say all the same.
 */
#define PR_INSN_PART ((struct pr_insn){.code = 0x05, .jt = 1})
static inline bool
pr_insn_begins_part(const struct pr_insn *in)
{
	return in->code == 0x05 && in->jt == 1 && in->k == 0;
}

/*
 * Terms of time stand at a program's head, two instructions each; made by filter_time.c, never by libpcap.
 * A load of four bytes about where term i has its place, at which no packet has bytes, gives 1 if
 * the packet is of a time at or after (before: at or before) the term's, else 0.
 */
#define PR_INSN_TIME 0xc0
#define PR_TIMES_MAX 1000
#define PR_TIMES_AT UINT32_C(0xc0000000)
#define PR_TIMES_APART UINT32_C(0x40000) /* a header's length may be added to a place */

struct pr_program_time {
	int64_t time;
	bool after;
};
void pr_program_put_time(struct pr_insn head[2], const struct pr_program_time *time);
/* Of term i, which must be there. */
struct pr_program_time pr_program_time(const struct pr_insn *insns, size_t i);
/* PR_TIMES_MAX: it is no term's place. */
static inline size_t
pr_program_time_at(uint64_t offset)
{
	uint64_t i = (offset - PR_TIMES_AT) / PR_TIMES_APART;

	return i < PR_TIMES_MAX ? (size_t)i : PR_TIMES_MAX;
}

#define PR_PROGRAM_MAX 200000 /* instructions */
#define PR_PROGRAM_MEMORY 16 /* words of scratch memory */

struct pr_program;

/* linktype as in pcap files. No instructions: everything matches. insns are copied. */
struct pr_program *pr_program_create(
	uint16_t linktype, const struct pr_insn *insns, size_t count, struct pr_error *err);
void pr_program_destroy(struct pr_program **program);
uint16_t pr_program_linktype(const struct pr_program *program);
const struct pr_insn *pr_program_insns(const struct pr_program *program, size_t *count);
size_t pr_program_times(
	const struct pr_program *program); /* how many terms of time it has */

/*
 * What the program returns for a packet: 0 is no match. A program that runs on longer than any
 * sensible one could (backward jumps: `ip6 protochain`) does not match.
 */
uint32_t pr_program_run(const struct pr_program *program, const uint8_t *data, uint32_t len,
	uint32_t caplen);
/* The same of a packet that has a time. */
bool pr_program_match(const struct pr_program *program, const struct pr_packet *packet);

/* A filter over several link types. Empty: all packets match; else those of other types do not. */
struct pr_programs {
	struct pr_program **items;
	size_t count;
};
int pr_programs_add(struct pr_programs *programs, struct pr_program *program,
	struct pr_error
		*err); /* takes it over, also on error; two of a link type are an error */
const struct pr_program *pr_programs_find(
	const struct pr_programs *programs, uint16_t linktype); /* or NULL */
void pr_programs_free(struct pr_programs *programs);
/* Nothing is filtered out, of this link type at least: each program there is says yes at once. */
bool pr_programs_all(const struct pr_programs *programs, uint16_t linktype);
bool pr_programs_match(const struct pr_programs *programs, const struct pr_packet *packet);

#endif
