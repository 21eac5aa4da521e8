/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the cutoff, and how nodes keep its classes. */
#include "tests/unit/cutoff_packets.h"

/* ---- the text of a rule ---- */

#define WHAT                                                                               \
	"a connection is PROTOCOL ADDRESS PORT ADDRESS PORT, as in tcp 192.0.2.1 1025 "    \
	"198.51.100.7 443"
#define MOVED "an address is moved by ADDRESS CLASS [src|dst|both]"
#define X63 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
	enum prd_rule_kind kind;
	const char *text, *want;
} bad_rules[] = {
	{PRD_RULE_SUSPEND, "", WHAT},
	{PRD_RULE_SUSPEND, "tcp", WHAT},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 10.0.0.2 5", WHAT},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 1 10.0.0.2 2 3", WHAT},
	{PRD_RULE_SUSPEND, "tpc 10.0.0.1 1 10.0.0.2 2",
		"'tpc' is not a protocol (tcp, udp, sctp or its number)"},
	{PRD_RULE_SUSPEND, "256 10.0.0.1 1 10.0.0.2 2",
		"'256' is not a protocol (tcp, udp, sctp or its number)"},
	{PRD_RULE_SUSPEND, "-6 10.0.0.1 1 10.0.0.2 2",
		"'-6' is not a protocol (tcp, udp, sctp or its number)"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0 1 10.0.0.2 2", "'10.0.0' is not an IP address"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 1 10.0.0.256 2",
		"'10.0.0.256' is not an IP address"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 1 fd00::1 2",
		"fd00::1 is not of the same IP version"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 65536 10.0.0.2 2", "'65536' is not a port"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 http 10.0.0.2 2", "'http' is not a port"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 1 10.0.0.2 2x", "'2x' is not a port"},
	{PRD_RULE_SUSPEND, "tcp 10.0.0.1 1 10.0.0.2 99999999999999999999999999",
		"'99999999999999999999999999' is not a port"},
	{PRD_RULE_SUSPEND, "icmp " X63 " 10.0.0.1", "'" X63 "' is not an IP address"},
	{PRD_RULE_MOVE, "", MOVED},
	{PRD_RULE_MOVE, " \t\n", MOVED},
	{PRD_RULE_MOVE, "10.0.0.1 a src dst", MOVED},
	{PRD_RULE_MOVE, "10.0.0.1 a all", "'all' is not src, dst or both"},
	{PRD_RULE_MOVE, "10.0.0.0/8 a", "'10.0.0.0/8' is not an IP address"},
};

START_TEST(bad_rule)
{
	struct prd_rule rule;

	ck_assert_int_eq(
		prd_rule_parse(&rule, bad_rules[_i].kind, bad_rules[_i].text, &err), -1);
	ck_assert_str_eq(err.text, bad_rules[_i].want);
}
END_TEST

static struct prd_rule
rule_of(enum prd_rule_kind kind, const char *text)
{
	struct prd_rule rule;

	ck_assert_msg(
		prd_rule_parse(&rule, kind, text, &err) == 0, "%s: %s", text, err.text);
	return rule;
}

/* Words of any length and bytes: an error, or a rule whose strings end. */
START_TEST(any_words)
{
	static const char *const parts[] = {"tcp", "udp", "10.0.0.1", "10.0.0.2", "fd00::1",
		"::ffff:10.0.0.1", "0", "65535", "80", "src", "dst", "a", X63, X63 X63,
		"%s%n", "\xff\xfe", "\x1b[2J", "-1", "0x10", "1e3"};
	unsigned good = 0;

	srand(1);
	for (int i = 0; i < 200000; i++) {
		char text[1024] = "";
		struct prd_rule rule, again;
		enum prd_rule_kind kind = rand() % 2 ? PRD_RULE_MOVE : PRD_RULE_SUSPEND;

		for (int n = rand() % 8; n > 0; n--) {
			strcat(text, parts[(size_t)rand() % PR_COUNT(parts)]);
			strcat(text, rand() % 10 ? " " : "\t\n");
		}
		err.text[0] = '\0';
		if (prd_rule_parse(&rule, kind, text, &err) < 0) {
			unit_must(err.text[0] && !strchr(err.text, '\n'));
			continue;
		}
		good++;
		unit_must(memchr(rule.class, '\0', sizeof rule.class));
		unit_must(prd_rule_parse(&again, kind, text, &err) == 0);
		char key[2][129];
		prd_rule_key(&rule, key[0], sizeof key[0]);
		prd_rule_key(&again, key[1], sizeof key[1]);
		unit_must(!strcmp(key[0], key[1]) && strlen(key[0]) < 128);
	}
	ck_assert_uint_gt(good, 500);
}
END_TEST

static bool
same_key(const struct prd_rule *a, const struct prd_rule *b)
{
	char x[129], y[129];

	prd_rule_key(a, x, sizeof x);
	prd_rule_key(b, y, sizeof y);
	return !strcmp(x, y);
}

/* A class may have a name as long as names may be. */
START_TEST(longest_class)
{
	struct prd_rule rule = rule_of(PRD_RULE_MOVE, "10.0.0.1 " X63 "y src");

	ck_assert_str_eq(rule.class, X63 "y");
	ck_assert_int_eq(rule.sides, PRD_RULE_SRC);
	ck_assert_int_eq(
		prd_rule_parse(&rule, PRD_RULE_MOVE, "10.0.0.1 " X63 "yz src", &err), -1);
}
END_TEST

START_TEST(same_rules)
{
	struct prd_rule a = rule_of(PRD_RULE_SUSPEND, "tcp 10.0.0.1 5 10.0.0.2 80"),
			b = rule_of(PRD_RULE_SUSPEND, "6 10.0.0.2 80 10.0.0.1 5"),
			udp_too = rule_of(PRD_RULE_SUSPEND, "udp 10.0.0.2 80 10.0.0.1 5"),
			turned = rule_of(PRD_RULE_SUSPEND, "tcp 10.0.0.1 80 10.0.0.2 5"),
			pair = rule_of(PRD_RULE_SUSPEND, "tcp 10.0.0.1 10.0.0.2"),
			move = rule_of(PRD_RULE_MOVE, "10.0.0.1 a src"),
			other = rule_of(PRD_RULE_MOVE, "10.0.0.1 b dst"),
			both = rule_of(PRD_RULE_MOVE, "10.0.0.1 b"),
			named = rule_of(PRD_RULE_MOVE, "10.0.0.1 b both");

	ck_assert(same_key(&a, &b));
	ck_assert(!same_key(&a, &udp_too));
	ck_assert(!same_key(&a, &turned));
	ck_assert(!same_key(&a, &pair));
	ck_assert(!same_key(&a, &move));
	/* about one address there is one */
	ck_assert(same_key(&move, &other));
	ck_assert_int_eq(move.sides, PRD_RULE_SRC);
	ck_assert_int_eq(other.sides, PRD_RULE_DST);
	ck_assert_int_eq(both.sides, PRD_RULE_SRC | PRD_RULE_DST);
	ck_assert_int_eq(named.sides, both.sides);
	ck_assert_str_eq(both.class, "b");
	/* the same ports and addresses at both ends */
	a = rule_of(PRD_RULE_SUSPEND, "sctp 10.0.0.1 9 10.0.0.1 7");
	b = rule_of(PRD_RULE_SUSPEND, "132 10.0.0.1 7 10.0.0.1 9");
	ck_assert(same_key(&a, &b));
	ck_assert_uint_eq(a.of.port[0], 7);
}
END_TEST

/* ---- what rules do ---- */

static void
set_rule(struct prd_cutoff *c, enum prd_rule_kind kind, const char *text, bool comes)
{
	struct prd_rule rule = rule_of(kind, text);

	ck_assert_msg(prd_cutoff_rule(c, &rule, comes, &err) == 0, "%s", err.text);
}

/* The next packet of its connection is kept, as it is suspended, from when the rule comes until it goes. */
START_TEST(suspended)
{
	static const struct {
		const char *text;
		struct shape of;
	} cases[] = {
		{"udp 10.1.0.1 1000 10.2.0.2 53", {.protocol = UDP, .port = {1000, 53}}},
		{"udp 10.2.0.2 53 10.1.0.1 1000",
			{.protocol = UDP, .port = {1000, 53}, .vlan = 7}},
		{"tcp 10.2.0.2 53 10.1.0.1 1000", {.protocol = TCP, .port = {1000, 53}}},
		{"icmp 10.1.0.1 10.2.0.2", {.protocol = ICMP}},
		{"103 10.2.0.2 10.1.0.1", {.protocol = 103}},
		{"udp fd00:0:200::2 5 fd00:0:100::1 6",
			{.protocol = UDP, .six = true, .port = {6, 5}}},
	};

	for (size_t i = 0; i < PR_COUNT(cases); i++) {
		struct prd_cutoff *c = CREATE(1 << 20, 1, "all; cutoff=0");
		struct shape of = cases[i].of;

		ck_assert_ptr_nonnull(c);
		of.host[0] = 1;
		of.host[1] = 2;
		of.vlan = of.vlan ? of.vlan : PR_UNTAGGED;
		of.time = BEGIN;
		of.len = 100;
		ck_assert(!keeps(c, of));
		set_rule(c, PRD_RULE_SUSPEND, cases[i].text, true);
		ck_assert_msg(keeps(c, of), "%s", cases[i].text);
		ck_assert(keeps(c, WITH(of, turn(s))));
		ck_assert(!keeps(c, WITH(of, s->port[0]++; s->host[1]++)));
		ck_assert_uint_eq(prd_cutoff_figures(c)->suspended, 2);
		set_rule(c, PRD_RULE_SUSPEND, cases[i].text, false);
		ck_assert(!keeps(c, of));
		/* of a rule that is not there: nothing */
		set_rule(c, PRD_RULE_SUSPEND, cases[i].text, false);
		ck_assert_uint_eq(prd_cutoff_figures(c)->suspended, 2);
		/* what was beyond is counted: the other three packets */
		uint64_t packets = 0;
		while (prd_cutoff_oldest(c, 0) != PR_TIME_MAX)
			packets += take_packets(c, 0);
		ck_assert_uint_eq(packets, 3);
		prd_cutoff_destroy(&c);
	}
}
END_TEST

/* New connections from it, to it, or both; those that are there stay as they are. */
START_TEST(moved)
{
	struct prd_cutoff *c =
		CREATE(1 << 20, 1, "keep; filter = port 9", "cut; cutoff = 0");
	const struct shape from = WITH(udp, s->port[0] = 1), to = WITH(from, turn(s));

	ck_assert_ptr_nonnull(c);
	ck_assert(prd_classes_have(prd_cutoff_classes(c), "keep"));
	ck_assert(!prd_classes_have(prd_cutoff_classes(c), "kee"));
	ck_assert(!keeps(c, from));
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep src", true);
	ck_assert(!keeps(c, from));
	ck_assert(keeps(c, WITH(from, s->port[0] = 2)));
	ck_assert(keeps(c, WITH(to, s->port[1] = 2))); /* of the same connection */
	ck_assert(!keeps(c, WITH(to, s->port[1] = 3)));
	/* in its place: the other direction */
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep dst", true);
	ck_assert(!keeps(c, WITH(from, s->port[0] = 4)));
	ck_assert(keeps(c, WITH(to, s->port[1] = 5)));
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep", true);
	ck_assert(keeps(c, WITH(from, s->port[0] = 6)));
	ck_assert(keeps(c, WITH(to, s->port[1] = 7)));
	/* both ends have a rule: that of the sender counts */
	set_rule(c, PRD_RULE_MOVE, "10.2.0.2 cut", true);
	ck_assert(keeps(c, WITH(from, s->port[0] = 8)));
	ck_assert(!keeps(c, WITH(to, s->port[1] = 11)));
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep", false);
	ck_assert(!keeps(c, WITH(from, s->port[0] = 12)));
	set_rule(c, PRD_RULE_MOVE, "10.2.0.2 cut", false);
	/* without rules filters decide */
	ck_assert(keeps(c, WITH(from, s->port[0] = 9)));
	/* a connection that begins anew is a new one */
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep", true);
	ck_assert(keeps(c, WITH(from, s->time += PRD_CUTOFF_IDLE + 1)));
	/* a rule about an IPv4 address is none about an IPv6 one that begins with its bytes */
	set_rule(c, PRD_RULE_MOVE, "fd00:0:100::1 keep", true);
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 keep", false);
	ck_assert(keeps(c, WITH(from, s->six = true; s->time += 2 * PRD_CUTOFF_IDLE)));
	ck_assert(!keeps(c, WITH(from, s->port[0] = 20)));
	/* a class that is not there: all is kept */
	set_rule(c, PRD_RULE_MOVE, "10.1.0.1 none", true);
	ck_assert(keeps(c, WITH(from, s->port[0] = 21)));
	prd_cutoff_destroy(&c);
}
END_TEST

START_TEST(too_many_rules)
{
	struct prd_cutoff *c = CREATE(1 << 20, 1, "all; cutoff = 0");
	struct prd_rule rule;
	char text[64];

	ck_assert_ptr_nonnull(c);
	for (int i = 0; i <= PRD_RULES_MAX; i++) {
		PR_PRINT(text, "10.0.%d.%d all", i >> 8, i & 255);
		rule = rule_of(PRD_RULE_MOVE, text);
		unit_must(prd_cutoff_rule(c, &rule, true, &err) ==
			  (i < PRD_RULES_MAX ? 0 : -1));
	}
	ck_assert_str_eq(err.text, "there are 4096 rules already");
	/* in the place of one that is there */
	set_rule(c, PRD_RULE_MOVE, "10.0.0.1 all src", true);
	set_rule(c, PRD_RULE_MOVE, "10.0.0.1 all src", false);
	ck_assert_int_eq(prd_cutoff_rule(c, &rule, true, &err), 0);
	prd_cutoff_destroy(&c);
}
END_TEST

/* ---- how nodes keep what is kept ---- */

static void
check_kept(struct prd_cutoff *c, struct shape s, uint32_t caplen, uint8_t class)
{
	uint32_t is = 90;
	uint8_t number = 99;

	keeps(c, s);
	prd_cutoff_kept(c, &is, &number);
	ck_assert_uint_eq(is, caplen);
	ck_assert_uint_eq(number, class);
}

START_TEST(kept)
{
	struct prd_cutoff *c = CREATE(1 << 20, 1, "short; filter = udp; snaplen = 60",
		"long; filter = tcp; snaplen=68; guarantee = 12.5%; keep = 2h",
		"longest; filter = icmp; snaplen = 262144; keep=1d");
	const struct pr_class *stored = prd_cutoff_class(c, 0),
			      *last = prd_cutoff_class(c, 1);

	ck_assert_ptr_nonnull(c);
	ck_assert(pr_class_valid(stored) && pr_class_valid(last));
	ck_assert_str_eq(stored->name, "long");
	ck_assert_uint_eq(stored->guarantee, 125);
	ck_assert_int_eq(stored->keep, 7200 * PR_NS_PER_S);
	ck_assert_uint_eq(last->guarantee, 0);
	ck_assert_uint_ne(stored->number, last->number);
	ck_assert_ptr_null(prd_cutoff_class(c, 2));
	check_kept(c, udp, 60, 0);
	check_kept(c, tcp, 68, stored->number);
	check_kept(c, WITH(udp, s->protocol = ICMP), 90, last->number);
	/* of no class: other protocols, and what is not IP, also after one of a class */
	check_kept(c, WITH(udp, s->protocol = 103), 90, 0);
	check_kept(c, tcp, 68, stored->number);
	check_kept(c, WITH(udp, s->kind = NOT_IP), 90, 0);
	prd_cutoff_destroy(&c);
}
END_TEST

/* All guarantees together are those of one volume; what was too much already may become less. */
START_TEST(guarantees)
{
	static const char *const too_much[] = {
		"a; guarantee = 50%", "b; degrees = full 1d 20%, cut 2d 25.1%"};
	struct prd_cutoff *c = CREATE(
		1 << 20, 1, "a; guarantee = 50%", "b; degrees = full 1d 20%, cut 2d 25%");
	struct prd_classes *more, *less;

	ck_assert_ptr_nonnull(c);
	const struct prd_classes *now = prd_cutoff_classes(c);
	more = prd_classes_change(now, NULL, "d; guarantee = 5%", &err);
	less = prd_classes_change(more, NULL, "a; guarantee = 49%", &err);
	ck_assert_int_eq(prd_classes_check(now, NULL, &err), 0);
	ck_assert_int_eq(prd_classes_check(more, now, &err), -1);
	ck_assert_str_eq(err.text,
		"the guarantees of all classes and degrees are 100.0% together: nodes can "
		"give 95% at most");
	ck_assert_int_eq(prd_classes_check(less, more, &err), 0);
	ck_assert_int_eq(prd_classes_check(less, now, &err), -1);
	prd_classes_free(less, more);
	prd_classes_free(more, now);
	prd_cutoff_destroy(&c);
	ck_assert_ptr_null(create(1 << 20, 1, PR_COUNT(too_much), too_much));
}
END_TEST

/* Of each of many classes: its number is the same when others come, go, and change places. */
START_TEST(numbers_stay)
{
	static const char *const names[] = {"web; keep=1d", "dns; keep=1d", "mail; keep=1d",
		"bulk; cutoff=15K; guarantee=5%", "phone; keep=1h", "scada; guarantee=1%"};
	uint8_t number[PR_COUNT(names)];
	bool used[PR_CLASS_MAX + 1] = {false};

	for (size_t i = 0; i < PR_COUNT(names); i++) {
		struct prd_cutoff *c = create(1 << 20, 1, 1, &names[i]);

		number[i] = prd_cutoff_class(c, 0)->number;
		/* these names do not share a number; of two that do, the one that comes first has it */
		ck_assert(!used[number[i]]);
		used[number[i]] = true;
		prd_cutoff_destroy(&c);
	}
	srand(5);
	for (int round = 0; round < 100; round++) {
		const char *some[PR_COUNT(names)];
		size_t count = 0;

		for (size_t i = 0; i < PR_COUNT(names); i++)
			if (rand() % 2) {
				size_t at = (size_t)rand() % (count + 1);

				memmove(some + at + 1, some + at,
					(count++ - at) * sizeof *some);
				some[at] = names[i];
			}
		struct prd_cutoff *c = create(1 << 20, 1, count, some);
		unit_must(c);
		for (unsigned k = 0; k < count; k++) {
			const struct pr_class *class = prd_cutoff_class(c, k);

			for (size_t i = 0; i < PR_COUNT(names); i++)
				if (!strncmp(names[i], class->name, strlen(class->name)))
					unit_must(class->number == number[i]);
		}
		unit_must(!prd_cutoff_class(c, (unsigned)count));
		prd_cutoff_destroy(&c);
	}
}
END_TEST

/* As many as there may be, degrees too: names that share a number get others, none is used twice. */
START_TEST(all_numbers)
{
	enum { PLAIN = PR_CLASS_HOLDS - 1 - 3 };
	char text[PLAIN + 2][64];
	const char *list[PLAIN + 2];
	bool used[PR_CLASS_HOLDS] = {false};

	for (int i = 0; i < PLAIN; i++)
		PR_PRINT(text[i], "c%d; keep = 1d", i);
	PR_PRINT(text[PLAIN], "aged; degrees = full 1d, cut 2d 5%%, headers 3d");
	PR_PRINT(text[PLAIN + 1], "more; keep = 1d");
	for (int i = 0; i < PLAIN + 2; i++)
		list[i] = text[i];
	ck_assert_ptr_null(create(1 << 20, 1, PLAIN + 2, list));
	ck_assert_str_eq(err.text,
		"class more: 47 classes and degrees are kept in a way of "
		"their own already");
	struct prd_cutoff *c = create(1 << 20, 1, PLAIN + 1, list);
	ck_assert_ptr_nonnull(c);
	for (unsigned i = 0; i < PR_CLASS_HOLDS - 1; i++) {
		const struct pr_class *class = prd_cutoff_class(c, i);

		ck_assert(class && pr_class_valid(class) &&
			  class->number < PR_CLASS_HOLDS && !used[class->number]);
		used[class->number] = true;
		if (i == PLAIN + 1)
			ck_assert(pr_class_is_degree(class->name, "aged", PR_DEGREE_CUT) &&
				  pr_class_degree(class->name) == PR_DEGREE_CUT &&
				  class->keep == INT64_C(172800) * PR_NS_PER_S &&
				  class->guarantee == 50);
	}
	ck_assert_ptr_null(prd_cutoff_class(c, PR_CLASS_HOLDS - 1));
	prd_cutoff_destroy(&c);
}
END_TEST

/* With a full degree nothing is kept back, but what is beyond the cutoff is marked. */
START_TEST(full_degree)
{
	static const char *const aged = "all; cutoff=150; degrees=full 1d, headers 3d";
	struct prd_cutoff *c = create(1 << 20, 1, 1, &aged);
	uint32_t caplen = 100;
	uint8_t number[3];

	ck_assert_ptr_nonnull(c);
	for (int i = 0; i < 3; i++) {
		ck_assert(keeps(c, udp));
		prd_cutoff_kept(c, &caplen, &number[i]);
	}
	ck_assert_uint_eq(number[0], prd_cutoff_class(c, 0)->number);
	ck_assert_uint_eq(number[1], number[0]);
	ck_assert_uint_eq(number[2], number[0] | PR_CLASS_BEYOND);
	ck_assert_int_eq(prd_cutoff_oldest(c, 0), PR_TIME_MAX);
	prd_cutoff_destroy(&c);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_loop_test(t, bad_rule, 0, PR_COUNT(bad_rules));
	tcase_add_test(t, any_words);
	tcase_add_test(t, longest_class);
	tcase_add_test(t, same_rules);
	tcase_add_test(t, suspended);
	tcase_add_test(t, moved);
	tcase_add_test(t, too_many_rules);
	tcase_add_test(t, kept);
	tcase_add_test(t, full_degree);
	tcase_add_test(t, guarantees);
	tcase_add_test(t, numbers_stay);
	tcase_add_test(t, all_numbers);
}

int
main(void)
{
	return unit_run("cutoff rules", fill);
}
