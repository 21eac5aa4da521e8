/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and the largest of kept flows: what several threads find by sums of hashes is what all flows, one by one, give. */
#define BUCKET_BITS 10
#include "merger/cli/flows/flow_groups.c"

#include "logger/streamfs/streamfs.h"
#include "proto/base/cursor.h"
#include "tests/unit/unit.h"

#define MANY (FLOW_GROUPS_MAX + 50000)

static struct pr_error err;
static char path[64];
static uint64_t state = 7;

static uint32_t
next_random(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33) % below;
}

static void
create_volume(uint64_t size)
{
	struct sfs_create_options o = {.size = size, .block_size = 65536, .force = true};
	const char *const paths[] = {path};

	snprintf(path, sizeof(path), "/tmp/test_flow_groups.%d", (int)getpid());
	unit_must(sfs_create(paths, 1, &o, &err) == SFS_OK);
}

/* Sizes of a case: all alike, any, some much larger, or none. */
static uint64_t
size_make(unsigned kind)
{
	const uint64_t sizes[] = {
		60, next_random(1000), (uint64_t)1 << next_random(next_random(40) + 1), 0};

	return sizes[kind];
}

/* hosts: of how many; no two have the same time */
static struct pri_flow
flow_make(int64_t now, uint32_t hosts, unsigned kind)
{
	static const uint8_t protocols[] = {6, 6, 17, 1};
	struct pri_flow_key key = {.address_len = next_random(4) ? 4 : 16,
		.protocol = protocols[next_random(4)],
		.link = (uint16_t)now, /* no two are alike in all that tells them apart */
		.vlan = next_random(3) ? PRI_FLOW_UNTAGGED : 7};
	unsigned o = next_random(2);
	struct pri_flow f;

	for (int i = 0; i < 2; i++) {
		pr_put_be32(key.address[i], 0x0a000000u + next_random(hosts) * 77);
		if (key.address_len == 16)
			pr_put_be32(&key.address[i][12], next_random(hosts));
		key.port[i] = (uint16_t)next_random(hosts);
	}
	pri_flow_begin(&f, &key);
	f.originator = (uint8_t)o;
	for (unsigned i = 0; i < 2; i++) {
		struct pri_flow_side *s = &f.side[o ^ i];

		if (i && !next_random(3))
			continue;
		s->packets = 1 + next_random(9);
		s->bytes = size_make(kind);
		s->payload = s->bytes / 2;
		s->first = now - (int64_t)next_random(next_random(3) ? 20 : 4000);
		s->last = now;
		s->flags = (uint8_t)next_random(64);
		s->syn = next_random(2) ? s->first : PRI_FLOW_NEVER;
		s->fin = next_random(2) ? s->last : PRI_FLOW_NEVER;
	}
	return f;
}

static void
make_volume(void)
{
	struct flow_keeper *k;
	uint32_t hosts = 1 + next_random(next_random(2) ? 4 : 400);
	unsigned kind = next_random(4);
	int64_t now = 0;

	create_volume(32 << 20);
	k = flow_keeper_open(path, false, &err);
	unit_must(k != NULL);
	for (int i = 1 + (int)next_random(5); i > 0; i--) {
		struct flow_window w = {
			.since = now, .until = now + 1000, .complete = true};

		for (uint32_t n = next_random(900); n > 0; n--) {
			struct pri_flow f = flow_make(++now, hosts, kind);

			unit_must(flow_keeper_put(k, &f, n % 5, now, &err) == 0);
		}
		unit_must(flow_keeper_commit(k, &w, NULL, &err) == 0);
		now = w.until;
	}
	flow_keeper_close(&k);
}

/* ---- one by one ---- */

struct one_by_one {
	struct flow_groups *groups;
	const struct pri_flow_filter *filter;
	uint64_t found;
};

static int
take_one(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *e)
{
	struct one_by_one *o = arg;

	if (!pri_flow_filter_match(o->filter, flow))
		return 0;
	o->found++;
	return flow_groups_add(o->groups, flow, missing, row, e);
}

/* ---- questions ---- */

struct asking {
	char by[80]; /* "": none */
	enum flow_measure of;
	uint64_t top;
	const char *filter;
	enum flow_form form;
	struct query_args range;
};

static void
ask_any(struct asking *q)
{
	static const char *const names[] = {"src", "dst", "sport", "dport", "proto", "vlan",
		"link", "state", "src/9", "dst/24", "src/40", "dst/127"};
	static const char *const filters[] = {"", "", "tcp", "udp and port 1",
		"state = S0 or state = SF", "bytes > 100", "duration > 10ns and not icmp",
		"src net 10.0.0.0/25 or ip6", "tcp[tcpflags] & tcp-syn != 0", "vlan 7",
		"packets_sent > 4 and payload < 1k", "host 10.0.0.77", "icmp[0] = 1"};
	static const uint64_t tops[] = {0, 1, 2, 25, 300};

	*q = (struct asking){.of = next_random(5),
		.top = tops[next_random(5)],
		.filter = filters[next_random(PR_COUNT(filters))],
		.form = next_random(FLOW_JSON + 1),
		.range = {.since = PR_TIME_MIN, .until = PR_TIME_MAX}};
	for (uint32_t n = next_random(4), at = next_random(5); n > 0; n--, at += 7) {
		snprintf(q->by + strlen(q->by), 40, "%s%s", *q->by ? "," : "",
			names[at % PR_COUNT(names)]);
	}
	q->of = !*q->by && q->of == FLOW_BY_FLOWS ? FLOW_BY_BYTES : q->of;
	if (!next_random(3)) {
		q->range.since = next_random(3000);
		q->range.until = q->range.since + next_random(2000);
	}
}

/* What is printed, and how many were found; fast: by flow_groups_kept. Free it. */
static char *
answer_of(const struct asking *q, bool fast)
{
	char *one = path, *text = NULL;
	size_t len;
	const struct flow_context context = {.kept = true};
	FILE *before = stdout;
	struct flow_groups *g =
		flow_groups_create(*q->by ? q->by : NULL, q->of, q->top, &err);
	struct pri_flow_filter *filter = pri_flow_filter_create(q->filter, &err);
	struct pri_plan *plan = pri_flow_filter_plan(filter, &err);
	struct flow_kept *kept = flow_kept_open_all(
		&(const struct pr_string_list){&one, 1}, &q->range, &err);
	struct one_by_one o = {.groups = g, .filter = filter};
	const struct flow_taker taker = {
		.take = take_one, .arg = &o, .columns = PRI_COLUMNS_ALL};

	unit_must(g && filter && plan && kept);
	if (fast)
		unit_must(flow_groups_kept(g, kept, plan, *q->filter ? filter : NULL,
				  &o.found, &err) == 0);
	else
		unit_must(flow_kept_read(kept, NULL, &taker, 1, &err) == 0);
	stdout = open_memstream(&text, &len);
	unit_must(stdout && flow_groups_print(g, q->form, &context) != SIZE_MAX);
	printf("%" PRIu64 " found\n", o.found);
	fclose(stdout);
	stdout = before;
	flow_kept_close(&kept);
	pri_plan_destroy(&plan);
	pri_flow_filter_destroy(&filter);
	flow_groups_destroy(&g);
	return text;
}

START_TEST(any_question)
{
	for (int i = 0; i < 20; i++) {
		make_volume();
		for (int j = 0; j < 20; j++) {
			struct asking q;
			char *slow, *fast;

			ask_any(&q);
			slow = answer_of(&q, false);
			fast = answer_of(&q, true);
			ck_assert_msg(!strcmp(slow, fast),
				"volume %d: --by '%s' --of %s --top %" PRIu64
				" '%s':\n%.800s\n%.800s",
				i, q.by, flow_measures[q.of], q.top, q.filter, slow, fast);
			free(slow);
			free(fast);
		}
	}
	unlink(path);
}
END_TEST

/* What is missing is of each flow, and not of the last that was read. */
START_TEST(missing_of_each)
{
	const struct asking q = {.top = 9,
		.filter = "",
		.form = FLOW_JSON,
		.range = {.since = PR_TIME_MIN, .until = PR_TIME_MAX}};
	struct flow_window w = {.since = 0, .until = 1000, .complete = true};
	struct flow_keeper *k;
	char *text, *at;

	create_volume(32 << 20);
	k = flow_keeper_open(path, false, &err);
	unit_must(k != NULL);
	for (uint32_t i = 0; i < 9; i++) {
		struct pri_flow f = flow_make(i, 9, 0);

		f.side[f.originator].bytes = 1000 * (10 - i);
		unit_must(flow_keeper_put(k, &f, i, i, &err) == 0);
	}
	unit_must(flow_keeper_commit(k, &w, NULL, &err) == 0);
	flow_keeper_close(&k);
	at = text = answer_of(&q, true);
	for (unsigned i = 0; i < 9; i++) {
		at = strstr(at, "\"missing\": ");
		ck_assert_msg(at && strtoul(at + 11, NULL, 10) == i, "%s", text);
		at++;
	}
	free(text);
	unlink(path);
}
END_TEST

/* ---- more sums than there may be ---- */

/* Flow i is alone in its sum; 30 of them, anywhere, are large. */
static void
make_many(void)
{
	struct flow_window w = {.since = 0, .until = MANY, .complete = true};
	struct flow_keeper *k;

	create_volume(256 << 20);
	k = flow_keeper_open(path, false, &err);
	unit_must(k != NULL);
	for (uint32_t i = 0; i < MANY; i++) {
		struct pri_flow_key key = {.address_len = 4, .protocol = 17};
		struct pri_flow f;

		pr_put_be32(key.address[0], 0x0a000000u + i / 1000);
		pr_put_be32(key.address[1], 0x0b000000u + i % 7);
		key.port[1] = (uint16_t)(i % 1000);
		pri_flow_begin(&f, &key);
		f.side[0].packets = 1;
		f.side[0].bytes = i % (MANY / 30) == 999 ? 1000000 + i : 60;
		f.side[0].first = f.side[0].last = i;
		unit_must(flow_keeper_put(k, &f, 0, i, &err) == 0);
	}
	unit_must(flow_keeper_commit(k, &w, NULL, &err) == 0);
	flow_keeper_close(&k);
}

static int
ask_many(uint64_t top, struct flow_groups **g, uint64_t *found)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	char *one = path;
	struct flow_kept *kept =
		flow_kept_open_all(&(const struct pr_string_list){&one, 1}, &all, &err);
	int rc;

	*found = 0;
	*g = flow_groups_create("src,dst,dport", FLOW_BY_BYTES, top, &err);
	unit_must(kept && *g);
	rc = flow_groups_kept(*g, kept, NULL, NULL, found, &err);
	flow_kept_close(&kept);
	return rc;
}

START_TEST(more_than_there_may_be)
{
	struct flow_groups *g;
	uint64_t found, large = 0, bytes = 0;

	make_many();
	ck_assert_int_eq(ask_many(25, &g, &found), 0);
	ck_assert_uint_eq(found, MANY);
	ck_assert_uint_lt(HASH_COUNT(g->all), MANY / 2);
	for (const struct group *e = g->all; e; e = e->hh.next) {
		large += e->bytes[0] > 60;
		bytes += e->bytes[0] > 60 ? e->bytes[0] : 0;
	}
	ck_assert_uint_eq(large, 30);
	ck_assert_uint_eq(bytes, 30 * (1000000 + 999) + 29 * 30 / 2 * (MANY / 30));
	ck_assert_uint_eq(g->total, bytes + 60 * (MANY - 30));
	flow_groups_destroy(&g);
	/* all of them, or so many that all may be among them */
	ck_assert_int_eq(ask_many(0, &g, &found), -1);
	ck_assert_msg(strstr(err.text, "name fewer keys"), "%s", err.text);
	flow_groups_destroy(&g);
	ck_assert_int_eq(ask_many(31, &g, &found), -1);
	ck_assert_msg(strstr(err.text, "name fewer keys"), "%s", err.text);
	flow_groups_destroy(&g);
	unlink(path);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, any_question);
	tcase_add_test(tests, missing_of_each);
	tcase_add_test(tests, more_than_there_may_be);
}

int
main(void)
{
	return unit_run("flow_groups", fill);
}
