/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from statements over kept flows: their conditions as a plan, and nothing of what may not exclude rows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include "merger/cli/flows/sql_kept.h"
#include "tests/unit/unit.h"

static struct pr_error err;
static struct sql_engine *engine;

static void
print_node(FILE *to, const struct pri_plan *p, uint32_t i)
{
	const struct pri_plan_node *n = &p->nodes[i];
	char text[INET6_ADDRSTRLEN];

	if (n->op == PRI_PLAN_KEY) {
		const struct pri_key *k = &p->keys[n->left];

		fprintf(to, "%s=%s", k->kind == PRI_KEY_SRC ? "src" : "dst",
			inet_ntop(k->len == 4 ? AF_INET : AF_INET6, k->bytes, text,
				sizeof(text)));
	} else if (n->op == PRI_PLAN_RANGE) {
		const struct pri_plan_range *r = &p->ranges[n->left];

		fprintf(to, "%u:", (unsigned)(r->number - FLOW_NUMBER(0)));
		if (r->least != INT64_MIN)
			fprintf(to, "%" PRId64, r->least);
		fputs("..", to);
		if (r->most != INT64_MAX)
			fprintf(to, "%" PRId64, r->most);
	} else {
		fputc('(', to);
		print_node(to, p, n->left);
		fputs(n->op == PRI_PLAN_AND ? " and " : " or ", to);
		print_node(to, p, n->right);
		fputc(')', to);
	}
}

static void
expect(const char *statement, const char *expected)
{
	bool query;
	struct sql_sums sums;
	struct pri_plan *p = sql_kept_plan(engine, statement, &query, &sums);
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	uint32_t root = p ? (uint32_t)p->count - 1 : 0;

	/* the root may stand twice, to be the last */
	if (p && p->nodes[root].op == PRI_PLAN_AND &&
		p->nodes[root].left == p->nodes[root].right)
		root = p->nodes[root].left;
	if (p)
		print_node(to, p, root);
	fclose(to);
	ck_assert_msg(!strcmp(text, expected), "%s\n  gives %s\n  not %s", statement, text,
		expected);
	free(text);
	pri_plan_destroy(&p);
}

#define ALL "select count(*) from flows where "
#define DAY "1704067200000000000" /* 2024-01-01 */

static const char *const where[][2] = {{"src_ip = '10.0.0.1'", "src=10.0.0.1"},
	{"'10.0.0.1' = dst_ip", "dst=10.0.0.1"}, {"dst_ip = 'FE80::1'", "dst=fe80::1"},
	{"SRC_IP = '10.0.0.1'", "src=10.0.0.1"},
	{"\"src_ip\" = '10.0.0.1'", "src=10.0.0.1"},
	{"flows.src_ip = '10.0.0.1'", "src=10.0.0.1"},
	{"src_ip in ('10.0.0.1', '10.0.0.2', '::')",
		"(src=10.0.0.1 or (src=10.0.0.2 or src=::))"},
	{"dst_port = 80", "5:80..80"}, {"80 < dst_port", "5:80.."},
	{"-1 >= dst_port", "5:..-1"}, {"dst_port in (80, 443)", "(5:80..80 or 5:443..443)"},
	{"dst_port in (80)", "5:80..80"}, {"protocol between 1 and 6", "(6:1.. and 6:..6)"},
	{"vlan >= 5", "7:5.."},
	{"link = 3 and bytes_sent > 10000000000", "(8:3..3 and 18:10000000000..)"},
	{"src_ip = '10.0.0.1' and state = 'S0'", "src=10.0.0.1"},
	{"state = 'S0' and (duration > 1 or true) and src_ip = '10.0.0.1'", "src=10.0.0.1"},
	{"src_ip = '10.0.0.1' or dst_ip = '10.0.0.1'", "(src=10.0.0.1 or dst=10.0.0.1)"},
	{"src_ip = '10.0.0.1' or state = 'S0'", ""},
	{"(src_ip = '10.0.0.1' and state = 'S0') or dst_port = 80",
		"(src=10.0.0.1 or 5:80..80)"},
	{"tcqtime >= '2024-01-01'", "0:1704067200000000000.."},
	{"tcqtime < timestamp '2024-01-01'", "0:..1704067199999999999"},
	{"timestamp '2024-01-01' > tcqtime", "0:..1704067199999999999"},
	{"tcqtime > '2024-01-01'", "0:1704067199000000000.."},
	{"tcqtime <= '2024-01-01'", "0:..1704067201000000000"},
	{"tcqtime >= '2024-01-01 00:00:00.0000001'", "0:1704067199000000100.."},
	{"tcqtime >= timestamp '2024-01-01 00:00:00+02'", "0:1704067200000000000.."},
	{"last <= '2024-01-01'::timestamp_ns", "0:..1704067201000000000"},
	{"last = timestamp '2024-01-01 00:00:00'", "0:..1704067201000000000"},
	{"last >= '2024-01-01'", "0:.."},
	/* not understood */
	{"not src_ip = '10.0.0.1' or false", ""}, {"src_ip <> '10.0.0.1'", ""},
	{"src_ip > '10.0.0.1'", ""}, {"not (src_ip = '10.0.0.1')", ""},
	{"not (src_ip in ('10.0.0.1'))", ""}, {"src_ip not in ('10.0.0.1')", ""},
	{"not (protocol between 1 and 6)", ""}, {"src_ip = '10.0.0.1' collate nocase", ""},
	{"src_ip is not distinct from '10.0.0.1'", ""}, {"src_ip = 'nobody'", ""},
	{"src_ip || '' = '10.0.0.1'", ""}, {"src_ip = null", ""},
	{"src_ip = '10.0.0.1' || ''", ""}, {"src_ip in ('10.0.0.1', dst_ip)", ""},
	{"src_ip in ('10.0.0.1', null)", ""}, {"src_ip in (select '10.0.0.1')", ""},
	{"src_ip = any(['10.0.0.1'])", ""}, {"src_ip like '10.0.0.1'", ""},
	{"(src_ip, dst_port) = ('10.0.0.1', 80)", ""}, {"src_ip = dst_ip", ""},
	{"dst_port = '80'", ""}, {"dst_port = 80.5", ""}, {"dst_port = 80::utinyint", ""},
	{"dst_port = 79 + 1", ""}, {"dst_port::varchar = '80'", ""},
	{"try_cast('2024-01-01' as timestamp) = tcqtime",
		"0:1704067199000000000..1704067201000000000"},
	{"tcqtime >= 5", ""}, {"tcqtime >= '2024-01-01'::timestamptz", ""},
	{"tcqtime >= now()", ""}, {"tcqtime >= 'nonsense'", ""},
	{"tcqtime >= timestamp '2024-01-01' + interval 1 day", ""},
	{"tcqtime::date = '2024-01-01'", ""},
	{"case when src_ip = '10.0.0.1' then true else false end", ""},
	{"coalesce(src_ip = '10.0.0.1', true)", ""}, {"(src_ip = '10.0.0.1') = false", ""},
	{"(src_ip = '10.0.0.1') is null", ""}, {"if(true, src_ip, '') = '10.0.0.1'", ""},
	{"outgoing = true", ""}, {"duration > 1", ""}, {"uid = 'x'", ""},
	{"other.src_ip = '10.0.0.1'", ""}, {"nope = 80", ""},
	{"exists (select 1 where src_ip = '10.0.0.1')", ""}, {"src_ip = $1", ""},
	{"dst_port = 99999999999999999999", ""}, {"true", ""}};

START_TEST(conditions)
{
	char statement[400];

	for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
		snprintf(statement, sizeof(statement), ALL "%s", where[i][0]);
		expect(statement, where[i][1]);
	}
}
END_TEST

#define W "src_ip = '10.0.0.1'"
#define P "src=10.0.0.1"

START_TEST(statements)
{
	static const char *const rows[][2] = {{"from flows where " W, P},
		{"FROM main.FLOWS WHERE " W ";\n", P},
		{"select * from \"flows\" where " W " order by 1 limit 3", P},
		{"select 1 from flows f where f." W, P},
		{"select 1 from flows as f where " W, P},
		{"with x as (select * from flows where " W ") select * from x, x y", P},
		{"select * from (from flows where " W ") where dst_port = 80", P},
		{"select 1 where 1 in (select dst_port from flows where " W ")", P},
		{"select * from range(5) t(i) where exists (from flows where " W
		 " and dst_port = i)",
			P},
		{"select * from live where src_ip not in (select src_ip from flows where " W
		 ")",
			P},
		{"select unnest([1, 2]) from flows where " W, P},
		{"select src_ip, count(*) from flows where " W
		 " group by all having count(*) > 1",
			P},
		{"select 'x' as src_ip from flows where " W, P},
		{"select 1 from flows", ""}, {"select 1", ""},
		{"select 1 from flows having " W, ""},
		{"select count(*) filter (where " W ") from flows", ""},
		{"select 1 from flows f where flows." W, ""},
		/* rows that the condition does not exclude are asked for, too */
		{"select 1 from flows a, flows b where a." W, ""},
		{"select 1 from flows, live where flows." W, ""},
		{"select 1 from flows left join live on flows." W, ""},
		{"select 1 from live left join flows on true where flows." W, ""},
		{"from flows where " W " union all from flows", ""},
		{"from flows where " W " union all from flows where " W, ""},
		{"select (select count(*) from flows) from flows where " W, ""},
		{"with flows as (select * from flows where " W ") from flows", ""},
		{"with recursive flows as (select 1 union select 2) select * from flows "
		 "where " W,
			""},
		{"with x as (from flows) select * from x, (from flows where " W ")", ""},
		{"select 1 from flows f(a, b, src_ip, dst_ip) where " W, ""},
		{"select 1 from flows tablesample 10% where " W, ""},
		{"select 1 from flows where " W " using sample 5", ""},
		{"from (from flows where " W "), query_table('flows')", ""},
		{"from (from flows where " W "), query('from flows')", ""},
		{"from (from flows where " W "), some_macro()", ""},
		{"from flows, lateral (select flows.src_ip s) where " W, ""},
		{"select 1 from x.flows_2 where " W, ""}, {"pivot flows on src_ip", ""},
		{"explain from flows where " W, ""},
		{"from flows where " W "; from flows", ""},
		{"create table t as from flows where " W, ""}, {"nonsense", ""}, {"", ""},
		{"from flows where 18446744073709551615 > dst_port and " W, P}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		expect(rows[i][0], rows[i][1]);
}
END_TEST

/* After a statement that is no query, a view or a macro may read the table under another name. */
START_TEST(other_statements)
{
	struct sql_kept k = {.engine = engine};

	sql_kept_ask(&k, "from flows where " W);
	ck_assert(k.plan && !k.changed);
	sql_kept_ask(&k, "select 18446744073709551614");
	ck_assert(!k.plan && !k.changed);
	sql_kept_ask(&k, "create view v as from flows");
	ck_assert(!k.plan && k.changed);
	sql_kept_ask(&k, "from flows where " W);
	ck_assert(!k.plan);
}
END_TEST

#define T "tcqtime >= '2024-01-01'"

/* Statements whose rows may become one: what is summed, and whether the time need not be read; "no": they may not. */
static const char *const become_one[][2] = {
	{"select src_ip, sum(bytes_sent) from flows group by src_ip", "bytes_sent"},
	{"select src_ip, sum(f.bytes_sent + bytes_recv::double)::ubigint s from "
	 "flows f where not outgoing and " T " group by all having s > 5 order by "
	 "all limit 3",
		"time way bytes_sent bytes_recv"},
	{"select sum(packets_sent) filter (where dst_port = 80) from flows "
	 "where " T,
		"time packets_sent"},
	{"select hash(src_ip, dst_ip) p from flows where src_ip in ('::', '::1') "
	 "and " T " group by p",
		"time"},
	{"select distinct src_ip, dst_port from flows", ""},
	{"select prefix(src_ip, 16), max(dst_port) from flows group by 1", ""},
	{"select count(*), sum(s) from (select if(outgoing, src_ip, dst_ip) i, "
	 "sum(bytes_sent) s from flows group by i)",
		"bytes_sent"},
	/* the time is read: another condition, or one that is wider than it was asked */
	{"select sum(bytes_sent) from flows where " T " and tcqtime::date > "
	 "'2024-01-01'",
		"bytes_sent"},
	{"select sum(bytes_sent) from flows where tcqtime > '2024-01-01'", "bytes_sent"},
	{"select sum(bytes_sent) from flows where " T " or dst_port = 80", "bytes_sent"},
	{"select sum(bytes_sent), min(tcqtime) from flows where " T, "bytes_sent"},
	{"select sum(bytes_sent) from flows where tcqtime between '2024-01-01' and "
	 "last",
		"bytes_sent"},
	{"select sum(bytes_sent) from flows where not (tcqtime < '2024-01-01')",
		"time bytes_sent"},
	{"select sum(bytes_sent) from flows where not outgoing and " T,
		"time way bytes_sent"},
	{"select sum(bytes_sent) from flows where outgoing", "way bytes_sent"},
	{"select outgoing, sum(bytes_sent) from flows where outgoing group by 1",
		"bytes_sent"},
	{"select count(*) from flows where " T, "no time"},
	{"select sum(bytes_sent) from flows where " T " and tcqtime.year() = 2024", "no"},
	{"select sum(bytes_sent), bytes_sent.max() from flows", "no"},
	{"select max(dst_port, 3), sum(bytes_sent) from flows", "no"},
	{"select distinct on (columns(*)) src_ip from flows where " T, "no"},
	{"select src_ip, sum(bytes_sent) from flows where " T
	 " group by 1 order by * exclude (uid)",
		"no"},
	/* rows that are there, or are counted */
	{"select src_ip from flows", "no"}, {"from flows", "no"},
	{"select src_ip, count(*) from flows group by 1", "no"},
	{"select src_ip, count(dst_ip) from flows group by 1", "no"},
	{"select src_ip, sum(distinct bytes_sent) from flows group by 1", "no"},
	{"select src_ip, avg(bytes_sent) from flows group by 1", "no"},
	{"select list(src_ip), sum(bytes_sent) from flows", "no"},
	{"select bytes_sent, sum(bytes_sent) from flows group by 1", "no"},
	{"select sum(bytes_sent) from flows where bytes_sent > 5", "no"},
	{"select sum(bytes_sent) filter (where bytes_sent > 5) from flows", "no"},
	{"select sum(bytes_sent) from flows having max(bytes_sent) > 5", "no"},
	{"select src_ip, bytes_sent as b, sum(b) from flows group by all", "no"},
	{"select sum(bytes_sent * 2) from flows", "no"},
	{"select sum(bytes_sent::utinyint) from flows", "no"},
	{"select sum(src_port) from flows", "no"}, {"select sum(missing) from flows", "no"},
	{"select sum(1) from flows", "no"},
	{"select *, sum(bytes_sent) over () from flows", "no"},
	{"select sum(columns('bytes_.*')) from flows", "no"},
	{"select flows, sum(bytes_sent) from flows group by 1", "no"},
	{"select f, sum(bytes_sent) from flows f group by 1", "no"},
	{"select #8, sum(bytes_sent) from flows group by 1", "no"},
	{"select src_ip, row_number() over () from flows group by 1", "no"},
	{"select src_ip, random() r from flows group by all", "no"},
	{"select sum(bytes_sent), (select count(*) from live) from flows", "no"},
	{"select sum(a.bytes_sent) from flows a, live", "no"}};

START_TEST(rows_become_one)
{
	for (size_t i = 0; i < sizeof(become_one) / sizeof(*become_one); i++) {
		bool query;
		struct sql_sums sums;
		struct pri_plan *p = sql_kept_plan(engine, become_one[i][0], &query, &sums);
		char text[200] = "";

		if (!sums.may)
			strcpy(text, " no");
		if (sums.tested & 1)
			strcat(text, " time");
		if (sums.tested >> 1)
			strcat(text, " way");
		for (size_t c = 0; c < SQL_FLOW_COLUMNS; c++)
			if (sums.may && sums.summed >> c & 1)
				sprintf(text + strlen(text), " %s", flow_columns[c].name);
		ck_assert(query);
		ck_assert_msg(!strcmp(text + (*text == ' '), become_one[i][1]),
			"%s\n  gives%s\n  not %s", become_one[i][0], text,
			become_one[i][1]);
		pri_plan_destroy(&p);
	}
}
END_TEST

START_TEST(deep_statements)
{
	char *statement = malloc(200000), *at = statement;

	at += sprintf(at, ALL);
	for (int i = 0; i < 900; i++)
		at += sprintf(at, "(src_ip = '10.0.0.1' and ");
	at += sprintf(at, "true");
	for (int i = 0; i < 900; i++)
		*at++ = ')';
	*at = 0;
	for (int depth = 0; depth < 2; depth++) {
		bool query;
		struct sql_sums sums;
		struct pri_plan *p = sql_kept_plan(engine, statement, &query, &sums);

		pri_plan_destroy(&p);
	}
	free(statement);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("sql_kept");
	TCase *tests = tcase_create("sql_kept");
	SRunner *runner;
	int failed;

	engine = sql_open(NULL, NULL, false, &err);
	if (!engine) {
		printf("# %s: not tested\n", err.text);
		return 0;
	}
	tcase_add_test(tests, conditions);
	tcase_add_test(tests, statements);
	tcase_add_test(tests, other_statements);
	tcase_add_test(tests, rows_become_one);
	tcase_add_test(tests, deep_statements);
	suite_add_tcase(suite, tests);
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_NOFORK); /* DuckDB has threads */
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	sql_close(&engine);
	return failed != 0;
}
