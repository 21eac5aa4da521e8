/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "tests/unit/plan_filters.h"
#include "tests/unit/plan_packets.h"
#include "tests/unit/unit.h"

/* Plans of filters and programs that nobody thought of: none denies a packet that its program accepts. */

#define ETHERNET 1

static struct pr_error err;

static unsigned pairs, accepted, denied, held;

static void
compare(const struct pr_bpf *program, const struct pri_plan *plan,
	const struct pr_packet *packet, struct own *own, const char *what)
{
	bool match = pr_bpf_run(program, packet) != 0, may = holds(plan, own);

	pairs++;
	accepted += match;
	held += may && !match && !pri_plan_is(plan, PRI_PLAN_TRUE);
	denied += !may;
	if (!match || may)
		return;
	pri_plan_print(stdout, plan, 1);
	ck_abort_msg("a match is denied: '%s', link type %u, captured %u", what,
		packet->linktype, packet->caplen);
}

#define PACKETS 600

static struct pr_packet packets[PACKETS];
static struct own owns[PACKETS];
static uint8_t all_bytes[PACKETS][PACKET_MAX];

static void
compare_filter(const char *text, uint16_t linktype)
{
	struct pr_bpf *program = pri_filter_compile(linktype, text, &err);
	struct pri_plan *plan;

	if (!program)
		return;
	plan = pri_plan_create(program, NULL, &err);
	ck_assert_ptr_nonnull(plan);
	ck_assert_uint_eq(plan->linktype, linktype);
	for (size_t i = 0; i < PACKETS; i++)
		if (packets[i].linktype == linktype)
			compare(program, plan, &packets[i], &owns[i], text);
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
}

/* The program's word on a packet is the oracle: what it accepts its plan must not deny. */
START_TEST(denies_no_match_of_random_filters)
{
	static const uint16_t linktypes[] = {1, 113, 276, 101, 0, 9, 105, 12};

	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1);
	pairs = accepted = denied = held = 0;
	make_packets(all_bytes, packets, owns, PACKETS, false);
	for (unsigned i = 0; i < 1500; i++) {
		struct text t = {.used = 0};

		say_filter(&t, 1 + (unsigned)random() % 3);
		for (size_t j = 0; j < COUNT(linktypes); j++)
			compare_filter(t.bytes, linktypes[j]);
	}
	printf("%u composites asked, %u pairs of filter and packet: %u match, %u denied, "
	       "%u "
	       "allowed for nothing\n",
		composites_asked, pairs, accepted, denied, held);
	ck_assert_uint_gt(pairs, 300000);
	ck_assert_uint_gt(composites_asked, 500);
	ck_assert_uint_gt(accepted, 30000);
	ck_assert_uint_gt(denied, 100000);
}
END_TEST

START_TEST(denies_no_match_of_random_programs)
{
	struct pr_insn insns[80];

	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 2);
	pairs = accepted = denied = held = 0;
	make_packets(all_bytes, packets, owns, PACKETS, false);
	for (unsigned round = 0; round < 4000; round++) {
		size_t n = 4 + (size_t)random() % 70;
		uint16_t linktype =
			random() % 2 ? 1 : packets[(size_t)random() % PACKETS].linktype;

		for (size_t i = 0; i + 2 < n; i++)
			insns[i] = random_insn(i, n);
		insns[n - 2] = (struct pr_insn){RET_K, 0, 0, 1};
		insns[n - 1] = (struct pr_insn){RET_K, 0, 0, 0};
		struct pr_bpf *program = pr_bpf_create(linktype, insns, n, &err);
		ck_assert_msg(program != NULL, "%s", err.text);
		struct pri_plan *plan = pri_plan_create(program, NULL, &err);
		for (size_t i = 0; i < PACKETS; i++)
			if (packets[i].linktype == linktype)
				compare(program, plan, &packets[i], &owns[i], "a program");
		pri_plan_destroy(&plan);
		pr_bpf_destroy(&program);
	}
	printf("%u pairs of program and packet: %u match, %u denied, %u allowed for "
	       "nothing\n",
		pairs, accepted, denied, held);
	ck_assert_uint_gt(accepted, 30000);
	ck_assert_uint_gt(denied, 30000);
}
END_TEST

/* ---- many terms ---- */

#define TERMS 5000

/* src or dst one of so many hosts, as libpcap writes it; it takes minutes for that itself. */
static struct pr_bpf *
many_hosts(size_t terms)
{
	struct pr_insn *insns = calloc(4 * terms + 8, sizeof(*insns));
	struct pr_bpf *program;
	size_t n = 0;

	insns[n++] = (struct pr_insn){LD_H_ABS, 0, 0, 12};
	insns[n++] = (struct pr_insn){JEQ_K, 1, 0, 0x0800};
	insns[n++] = (struct pr_insn){RET_K, 0, 0, 0};
	for (unsigned side = 0; side < 2; side++) {
		insns[n++] = (struct pr_insn){LD_W_ABS, 0, 0, 26 + 4 * side};
		for (size_t i = 0; i < terms; i++) {
			insns[n++] =
				(struct pr_insn){JEQ_K, 0, 1, 0x0b000000 + (uint32_t)i};
			insns[n++] = (struct pr_insn){RET_K, 0, 0, 1};
		}
	}
	insns[n++] = (struct pr_insn){RET_K, 0, 0, 0};
	program = pr_bpf_create(ETHERNET, insns, n, &err);
	free(insns);
	return program;
}

START_TEST(prunes_by_thousands_of_hosts)
{
	struct pr_bpf *program = many_hosts(TERMS);
	struct pri_plan *plan = pri_plan_create(program, NULL, &err);
	uint8_t bytes[PACKET_MAX] = {0};
	struct pr_packet packet = {.data = bytes,
		.caplen = PACKET_MAX,
		.len = PACKET_MAX,
		.linktype = ETHERNET};
	struct own own;

	ck_assert_uint_eq(plan->key_count, 2 * TERMS + 1);
	ck_assert_uint_lt(plan->count, 5 * TERMS);
	put(bytes, 12, 0x0800, 2);
	for (unsigned i = 0; i < 100; i++) {
		uint32_t host = 0x0b000000 + (uint32_t)random() % (2 * TERMS);
		put(bytes, 30, host, 4);
		own_of(&packet, &own);
		ck_assert(holds(plan, &own) == (host < 0x0b000000 + TERMS));
	}
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
}
END_TEST

/* What a stranger may send: as long as programs may be, with no sense in it. */
START_TEST(takes_hostile_programs)
{
	const size_t n = PR_BPF_MAX;
	struct pr_insn *insns = calloc(n, sizeof(*insns));

	srandom(3);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i + 1 < n; i++) {
			uint32_t k = round ? PICK(hosts) + (uint32_t)random() % 1000
					   : PICK(types);
			size_t left = n - 2 - i;
			uint8_t j =
				(uint8_t)((size_t)random() % (left < 255 ? left + 1 : 256));
			insns[i] = i % (2 + round) == 0
					   ? (struct pr_insn){LD_W_ABS, 0, 0,
						     8 + 4 * ((uint32_t)random() % 8)}
					   : (struct pr_insn){JEQ_K,
						     (uint8_t)(left ? random() % 2 : 0),
						     round == 2 ? j : 0, k};
			if (i < 40 && i % 2)
				insns[i] = (struct pr_insn){JEQ_K, 0, 0, 0x0800};
		}
		insns[n - 1] = (struct pr_insn){RET_K, 0, 0, 1};
		struct pr_bpf *program = pr_bpf_create(ETHERNET, insns, n, &err);
		ck_assert_msg(program != NULL, "%s", err.text);
		struct pri_plan *plan = pri_plan_create(program, NULL, &err);
		ck_assert_ptr_nonnull(plan);
		ck_assert_uint_lt(plan->count, 2 * PR_BPF_MAX);
		pri_plan_destroy(&plan);
		pr_bpf_destroy(&program);
	}
	free(insns);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, denies_no_match_of_random_filters);
	tcase_add_test(tests, denies_no_match_of_random_programs);
	tcase_add_test(tests, prunes_by_thousands_of_hosts);
	tcase_add_test(tests, takes_hostile_programs);
}

int
main(void)
{
	return unit_run("random plans", fill);
}
