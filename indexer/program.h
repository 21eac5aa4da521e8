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

#define PR_PROGRAM_MAX 200000 /* instructions */
#define PR_PROGRAM_MEMORY 16 /* words of scratch memory */

struct pr_program;

/* linktype as in pcap files. No instructions: everything matches. insns are copied. */
struct pr_program *pr_program_create(
	uint16_t linktype, const struct pr_insn *insns, size_t count, struct pr_error *err);
void pr_program_destroy(struct pr_program **program);
uint16_t pr_program_linktype(const struct pr_program *program);
const struct pr_insn *pr_program_insns(const struct pr_program *program, size_t *count);

/*
 * What the program returns for a packet: 0 is no match. A program that runs on longer than any
 * sensible one could (backward jumps: `ip6 protochain`) does not match.
 */
uint32_t pr_program_run(const struct pr_program *program, const uint8_t *data, uint32_t len,
	uint32_t caplen);

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
