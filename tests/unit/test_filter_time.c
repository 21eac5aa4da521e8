/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "tests/unit/plan_packets.h"
#include "tests/unit/unit.h"

/* `after` and `before` anywhere in a filter mean what they say, and the plan denies no match. */

static struct pr_error err;

#define PACKETS 400

static struct pr_packet packets[PACKETS];
static struct own owns[PACKETS];
static uint8_t all_bytes[PACKETS][PACKET_MAX];

/* Whole ones: what a load beyond the end rejects is no matter of its own term alone. */
static void
make_whole(void)
{
	make_packets(all_bytes, packets, owns, PACKETS, true);
}

/* ---- random filters, and what they say of each packet by their parts ---- */

static const char *const leaves[] = {"tcp", "udp", "ip6", "arp", "port 53", "host 10.0.0.1",
	"net 192.168.0.0/16", "greater 200", "icmp or icmp6", "ip[9] & 1 = 1",
	"udp portrange 1-1000"};

struct filter {
	char text[2000];
	size_t used;
	bool want[PACKETS];
};

static void __attribute__((format(printf, 2, 3)))
say(struct filter *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	f->used += (size_t)vsnprintf(
		f->text + f->used, sizeof(f->text) - f->used, format, args);
	va_end(args);
	ck_assert_uint_lt(f->used, sizeof(f->text));
}

static void
say_leaf(struct filter *f, uint16_t linktype, bool *want)
{
	const char *text = PICK(leaves);
	struct pr_bpf *program = pri_filter_compile(linktype, text, &err);

	if (!program) /* of PPP, which carries no ARP */
		program = pri_filter_compile(linktype, text = "tcp", &err);
	ck_assert_msg(program != NULL, "%s", err.text);
	for (size_t i = 0; i < PACKETS; i++)
		want[i] = packets[i].linktype == linktype &&
			  (pr_bpf_run(program, &packets[i]) != 0);
	say(f, "(%s)", text);
	pr_bpf_destroy(&program);
}

static void
say_time(struct filter *f, bool *want)
{
	int64_t time = PICK(times);
	bool after = random() % 2;
	uint64_t size = time < 0 ? 0 - (uint64_t)time : (uint64_t)time;

	for (size_t i = 0; i < PACKETS; i++)
		want[i] = after ? packets[i].time >= time : packets[i].time <= time;
	say(f, "%s%s@%s%" PRIu64 ".%09" PRIu64, after ? "after" : "before",
		random() % 2 ? " " : "\t ", time < 0 ? "-" : "", size / SECOND,
		size % SECOND);
}

static void
say_filter(struct filter *f, uint16_t linktype, unsigned depth, bool *want)
{
	bool other[PACKETS], both = random() % 2, inverse = random() % 4 == 0;

	if (inverse)
		say(f, "%s", random() % 2 ? "not " : "!");
	if (depth == 0 && random() % 2)
		say_time(f, want);
	else if (depth == 0)
		say_leaf(f, linktype, want);
	if (depth > 0) {
		say(f, "(");
		say_filter(f, linktype, depth - 1, want);
		say(f, "%s", both ? " and " : " || ");
		say_filter(f, linktype, depth - 1, other);
		say(f, ")");
		for (size_t i = 0; i < PACKETS; i++)
			want[i] = both ? want[i] && other[i] : want[i] || other[i];
	}
	for (size_t i = 0; i < PACKETS; i++)
		want[i] ^= inverse;
}

static unsigned matched, denied;

static void
compare(const struct filter *f, uint16_t linktype)
{
	struct pr_bpf *program = pri_filter_compile(linktype, f->text, &err);
	struct pri_plan *plan;

	if (!program && strstr(err.text, "rejects all packets")) {
		for (size_t i = 0; i < PACKETS; i++)
			unit_must(packets[i].linktype != linktype || !f->want[i]);
		return;
	}
	ck_assert_msg(program != NULL, "%s", err.text);
	plan = pri_plan_create(program, NULL, &err);
	ck_assert_ptr_nonnull(plan);
	for (size_t i = 0; i < PACKETS; i++) {
		if (packets[i].linktype != linktype)
			continue;
		if ((pr_bpf_run(program, &packets[i]) != 0) != f->want[i])
			ck_abort_msg("'%s' on link type %u, packet %zu at %" PRId64,
				f->text, linktype, i, packets[i].time);
		if (f->want[i] && !holds(plan, &owns[i]))
			ck_abort_msg("a match is denied: '%s'", f->text);
		matched += f->want[i];
		denied += !holds(plan, &owns[i]);
	}
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
}

START_TEST(means_what_it_says)
{
	static const uint16_t linktypes[] = {1, 1, 113, 276, 101, 0, 9};

	srandom(getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1);
	make_whole();
	for (unsigned i = 0; i < 1500; i++) {
		struct filter f = {.used = 0};
		uint16_t linktype = PICK(linktypes);

		say_filter(&f, linktype, (unsigned)random() % 4, f.want);
		compare(&f, linktype);
	}
	printf("%u match, %u denied\n", matched, denied);
	ck_assert_uint_gt(matched, 20000);
	ck_assert_uint_gt(denied, 20000);
}
END_TEST

/* Also where the link's header is of any length, and where it has none. */
static const uint16_t all_linktypes[] = {0, 1, 6, 9, 10, 50, 100, 101, 104, 105, 107, 108,
	113, 119, 127, 163, 192, 195, 227, 228, 229, 253, 276};

START_TEST(on_each_link_type)
{
	uint8_t bytes[PACKET_MAX] = {0, 0, 8}; /* radiotap and PPI: how long */
	struct pr_packet p = {.data = bytes,
		.caplen = PACKET_MAX,
		.len = PACKET_MAX,
		.linktype = all_linktypes[_i]};
	struct pr_bpf *program;
	static const char *const texts[] = {"after @5 and before @5.000000001",
		"not (before @4.999999999 or not before @5.000000001)"};

	bytes[4] = p.linktype == 192 ? 105 : 0; /* of 802.11 */
	for (size_t i = 0; i < 2; i++) {
		program = pri_filter_compile(p.linktype, texts[i], &err);
		ck_assert_msg(program != NULL, "link type %u: %s", p.linktype, err.text);
		for (p.time = 5 * SECOND - 3; p.time < 5 * SECOND + 4; p.time++)
			ck_assert_msg(
				(pr_bpf_run(program, &p) != 0) ==
					(p.time >= 5 * SECOND && p.time <= 5 * SECOND + 1),
				"link type %u, %" PRId64, p.linktype, p.time);
		pr_bpf_destroy(&program);
	}
}
END_TEST

/* Inner headers, whose beginning libpcap computes. */
START_TEST(behind_tunnels)
{
	static const char *const texts[] = {"vlan and (tcp or after @5)",
		"geneve and (after @5 or udp)", "mpls and not after @5",
		"pppoes and (after @5 or ip)", "(vlan or after @5) and ip"};
	struct pr_bpf *program = pri_filter_compile(1, texts[_i], &err);
	struct pri_plan *plan;

	ck_assert_msg(program != NULL, "%s", err.text);
	plan = pri_plan_create(program, NULL, &err);
	make_whole();
	for (size_t i = 0; i < PACKETS; i++)
		if (packets[i].linktype == 1 && pr_bpf_run(program, &packets[i]) != 0)
			unit_must(holds(plan, &owns[i]));
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
}
END_TEST

START_TEST(refused)
{
	static const char *const texts[] = {"tcp or after @", "tcp or after @1.2.3",
		"host after @5", "after @5 tcp", "tcp or after @99999999999999999999999",
		"tcp or after yesterday", "ether[after @5] = 3"};
	struct pr_bpf *program = pri_filter_compile(1, texts[_i], &err);

	ck_assert_msg(program == NULL, "%s", texts[_i]);
	ck_assert(err.text[0]);
	ck_assert_ptr_null(strstr(err.text, "link["));
}
END_TEST

/* Only at the head are there terms of time, and a place without a term is behind the packet. */
START_TEST(only_its_own)
{
	struct pr_insn insns[] = {{0}, {0}, {0x20, 0, 0, PR_TIMES_AT}, {0x06, 0, 0, 1},
		{0x20, 0, 0, PR_TIMES_AT + PR_TIMES_APART}, {0x06, 0, 0, 1}};
	const struct pr_bpf_time time = {.time = -5, .after = true};
	uint8_t bytes[PACKET_MAX] = {0};
	struct pr_packet p = {
		.data = bytes, .caplen = PACKET_MAX, .len = PACKET_MAX, .linktype = 1};
	struct pr_bpf *with, *without, *other;

	pr_bpf_put_time(insns, &time);
	with = pr_bpf_create(1, insns, 4, &err);
	without = pr_bpf_create(1, insns + 2, 2, &err);
	insns[2] = insns[4];
	other = pr_bpf_create(1, insns, 4, &err);
	ck_assert(pr_bpf_run(with, &p) != 0);
	ck_assert(!pr_bpf_run(without, &p));
	ck_assert(!pr_bpf_run(other, &p));
	pr_bpf_destroy(&with);
	pr_bpf_destroy(&without);
	pr_bpf_destroy(&other);
	/* half of one, and one in the midst */
	ck_assert_ptr_null(pr_bpf_create(1, insns + 1, 3, &err));
	memcpy(&insns[3], insns, 2 * sizeof(*insns));
	ck_assert_ptr_null(pr_bpf_create(1, insns + 2, 4, &err));
}
END_TEST

START_TEST(too_many)
{
	char *text = malloc(20 * (PR_TIMES_MAX + 2));
	struct pr_bpf *program;
	size_t at = 0;

	for (unsigned i = 0; i <= PR_TIMES_MAX; i++)
		at += (size_t)sprintf(text + at, "%safter @%u", i ? " or " : "", i);
	ck_assert_ptr_null(pri_filter_compile(1, text, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "use fewer"));
	*strrchr(text, 'o') = 0;
	program = pri_filter_compile(1, text, &err);
	ck_assert_msg(program != NULL, "%s", err.text);
	pr_bpf_destroy(&program);
	free(text);
}
END_TEST

/* ---- plans ---- */

static const char *
plan_words(const char *filter)
{
	static char words[4000];
	struct pr_bpf *program = pri_filter_compile(1, filter, &err);
	struct pri_plan *plan;
	FILE *to = fmemopen(words, sizeof(words), "w");

	ck_assert_msg(program != NULL, "%s", err.text);
	plan = pri_plan_create(program, NULL, &err);
	pri_plan_print(to, plan, 0);
	fclose(to);
	pri_plan_destroy(&plan);
	pr_bpf_destroy(&program);
	return words;
}

START_TEST(planned)
{
	static const struct {
		const char *filter, *words;
	} cases[] = {
		{"(after @5)", "after 1970-01-01T00:00:05.000000000Z\n"},
		{"(before @5)", "before 1970-01-01T00:00:05.000000000Z\n"},
		{"(after @5 and before @7.5)", "between 1970-01-01T00:00:05.000000000Z and "
					       "1970-01-01T00:00:07.500000000Z\n"},
		{"not (before @5)", "after 1970-01-01T00:00:05.000000001Z\n"},
		{"(after @5 and before @50 and ether proto 0x88cc) or (before @3 and tcp)",
			"any of\n\tall of\n\t\ttype 0x88cc\n\t\tbetween "
			"1970-01-01T00:00:05.000000000Z and "
			"1970-01-01T00:00:50.000000000Z\n"
			"\tall of\n\t\tbefore 1970-01-01T00:00:03.000000000Z\n"
			"\t\tprotocol TCP\n"},
	};

	ck_assert_str_eq(plan_words(cases[_i].filter), cases[_i].words);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, means_what_it_says);
	tcase_add_loop_test(tests, on_each_link_type, 0, COUNT(all_linktypes));
	tcase_add_loop_test(tests, behind_tunnels, 0, 5);
	tcase_add_loop_test(tests, refused, 0, 7);
	tcase_add_test(tests, only_its_own);
	tcase_add_test(tests, too_many);
	tcase_add_loop_test(tests, planned, 0, 5);
}

int
main(void)
{
	return unit_run("times in filters", fill);
}
