/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filter programs from the network, and their plans. Covers proto/wire/bpf.c
 * Options -max_len=1024
 *
 * An input is a packet's length (one byte), the packet, and instructions of eight bytes as in a
 * BPF file. What both we and libpcap take must give the same, and no plan denies a match.
 */
#include <pcap/pcap.h>
#include <string.h>

#include "proto/wire/bpf.h"
#include "proto/base/cursor.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/plan_own.h"

enum { INSNS_MAX = 128, INSN_BYTES = 8, WORDS = BPF_MEMWORDS, JA = BPF_JMP | BPF_JA };

/* libpcap's scratch memory begins as it may, ours with zeros: so theirs begins with stores of 0. */
static size_t
load_insns(const uint8_t *at, size_t size, struct pr_insn *ours, struct bpf_insn *theirs)
{
	size_t count = size / INSN_BYTES;

	if (count > INSNS_MAX)
		count = INSNS_MAX;
	for (uint32_t i = 0; i < WORDS; i++)
		theirs[i] = (struct bpf_insn){BPF_ST, 0, 0, i};
	for (size_t i = 0; i < count; i++, at += INSN_BYTES) {
		ours[i] = (struct pr_insn){
			pr_get_le16(at), at[2], at[3], pr_get_le32(at + 4)};
		theirs[WORDS + i] =
			(struct bpf_insn){ours[i].code, at[2], at[3], ours[i].k};
	}
	return count;
}

/* Backward jumps: ours ends them, libpcap's may run for ever. And libpcap knows no parts. */
static bool
goes_forward(const struct pr_insn *insns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((insns[i].code == JA && insns[i].k >= count) ||
			pr_insn_begins_part(&insns[i]))
			return false;
	return true;
}

static void
plan(const struct pr_bpf *program, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	const struct pr_packet packet = {.linktype = 1,
		.data = data,
		.caplen = caplen,
		.len = len,
		.time = caplen < 8 ? 0 : (int64_t)pr_get_le64(data)};
	struct pri_plan *made = pri_plan_create(program, NULL, NULL);
	struct own own;

	own_of(&packet, &own);
	MUST(made && (holds(made, &own) || !pr_bpf_run(program, &packet)));
	pri_plan_destroy(&made);
}

/* The program as one of a set: asked for its link type alone, and there only once. Takes it over. */
static void
check_set(struct pr_bpf *program, const struct pr_insn *insns, const struct pr_packet *p)
{
	struct pr_bpf_set set = {0};
	struct pr_packet other = *p;
	uint32_t result = pr_bpf_run(program, p);

	other.linktype = 113;
	MUST(pr_bpf_set_match(&set, p) && pr_bpf_set_all(&set, p->linktype));
	MUST(pr_bpf_set_packets(&set, 1000) == 1000);
	MUST(pr_bpf_set_add(&set, program, NULL) == 0);
	MUST(pr_bpf_set_match(&set, p) == (result != 0) && !pr_bpf_set_match(&set, &other));
	MUST(!pr_bpf_set_all(&set, p->linktype) || result);
	MUST(pr_bpf_set_packets(&set, 1000) >= 1);
	MUST(pr_bpf_set_add(&set, pr_bpf_create(p->linktype, insns, program->count, NULL),
		     NULL) < 0);
	MUST(pr_bpf_set_add(&set,
		     pr_bpf_create(other.linktype, insns, program->count, NULL),
		     NULL) == 0);
	MUST(pr_bpf_set_match(&set, &other) == (result != 0) && set.count == 2);
	pr_bpf_set_free(&set);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bpf_insn theirs[WORDS + INSNS_MAX];
	struct pr_insn ours[INSNS_MAX];
	struct pr_error err = {""};
	struct pr_bpf *program;
	struct pr_packet packet;
	uint32_t caplen, len, result;
	size_t count;

	if (size < 1 || data[0] > size - 1)
		return -1;
	caplen = data[0];
	len = caplen + (caplen & 1 ? 1000 : 0);
	count = load_insns(data + 1 + caplen, size - 1 - caplen, ours, theirs);
	program = pr_bpf_create(1, ours, count, &err);
	if (!program) {
		MUST(err.text[0]);
		return 0;
	}
	packet = (struct pr_packet){
		.linktype = 1, .data = data + 1, .len = len, .caplen = caplen};
	result = pr_bpf_run(program, &packet);
	if (count && goes_forward(ours, count) &&
		bpf_validate(theirs, (int)(WORDS + count)))
		MUST(result == bpf_filter(theirs, data + 1, len, caplen));
	plan(program, data + 1, caplen, len);
	check_set(program, ours, &packet);
	return 0;
}
