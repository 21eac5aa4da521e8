/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/metrics_server.h"
#include "proto/base/utf8.h"
#include "tests/unit/unit.h"

static bool
ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static bool
is_name(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(s);
}

START_TEST(table_follows_conventions)
{
	for (size_t i = 0; i < pr_metric_count; i++) {
		const struct pr_metric *m = &pr_metric_table[i];

		ck_assert_msg(is_name(m->name), "%s", m->name);
		ck_assert_msg(strncmp(m->name, "packrack_", 9) == 0 ||
				      strncmp(m->name, "process_", 8) == 0,
			"%s", m->name);
		ck_assert_msg(ends(m->name, "_total") == (m->type == PR_METRIC_COUNTER),
			"%s", m->name);
		ck_assert_msg(ends(m->help, "."), "%s", m->name);
		ck_assert_msg(!strpbrk(m->help, "\\\n"), "%s", m->name);
		if (m->unit == PR_METRIC_US || m->unit == PR_METRIC_NS)
			ck_assert_msg(strstr(m->name, "_seconds"), "%s", m->name);
		if (m->unit == PR_METRIC_PERCENT || m->unit == PR_METRIC_PERMILLE)
			ck_assert_msg(ends(m->name, "_ratio"), "%s", m->name);
		if (m->unit == PR_METRIC_KIB)
			ck_assert_msg(ends(m->name, "_bytes"), "%s", m->name);
	}
}
END_TEST

/* One name is one metric: together, of one type, and told apart by labels. */
START_TEST(rows_of_a_name_agree)
{
	for (size_t i = 0; i < pr_metric_count; i++)
		for (size_t j = 0; j < i; j++) {
			const struct pr_metric *a = &pr_metric_table[j],
					       *b = &pr_metric_table[i];

			if (a->scope == b->scope)
				ck_assert_msg(
					strcmp(a->value, b->value), "%s twice", a->value);
			if (strcmp(a->name, b->name))
				continue;
			ck_assert_msg(!strcmp(b[-1].name, b->name), "%s", b->name);
			ck_assert_int_eq(a->type, b->type);
			ck_assert_int_eq(a->scope, b->scope);
			ck_assert_str_eq(a->help, b->help);
			ck_assert_msg(strcmp(a->labels, b->labels), "%s", a->name);
		}
}
END_TEST

static char *
text_of(struct pr_metrics_page *page)
{
	size_t len;
	char *text = pr_metrics_page_text(page, &len);

	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(len, strlen(text));
	pr_metrics_page_destroy(&page);
	return text;
}

START_TEST(page_groups_and_converts)
{
	struct pr_metrics_page *page = pr_metrics_page_create();
	char *text;

	pr_metrics_label(page, {"link", "a"}, {"number", "0"});
	pr_metrics_value(page, PR_METRIC_DISPATCHER_LINK, "dropped_ring", 7);
	pr_metrics_value(page, PR_METRIC_DISPATCHER_LINK, "captured_packets", UINT64_MAX);
	pr_metrics_value(page, PR_METRIC_DISPATCHER_LINK, "unheard_of", 1);
	pr_metrics_label(page, {"link", "b"}, {"number", "1"});
	pr_metrics_value(page, PR_METRIC_DISPATCHER_LINK, "captured_packets", 5);
	pr_metrics_no_labels(page);
	pr_metrics_value(page, PR_METRIC_DISPATCHER, "cpu_user_us", 1500002);
	pr_metrics_value(page, PR_METRIC_DISPATCHER, "goodness_permille", 999);
	pr_metrics_value(page, PR_METRIC_DISPATCHER, "memory_peak_kib", 2);
	text = text_of(page);
	ck_assert_str_eq(text,
		"# HELP packrack_dispatcher_captured_packets_total Packets taken from the "
		"link.\n"
		"# TYPE packrack_dispatcher_captured_packets_total counter\n"
		"packrack_dispatcher_captured_packets_total{link=\"a\",number=\"0\"} "
		"18446744073709551615\n"
		"packrack_dispatcher_captured_packets_total{link=\"b\",number=\"1\"} 5\n"
		"# HELP packrack_dispatcher_dropped_packets_total Packets of the link that "
		"were lost, by place and reason.\n"
		"# TYPE packrack_dispatcher_dropped_packets_total counter\n"
		"packrack_dispatcher_dropped_packets_total{link=\"a\",number=\"0\",place="
		"\"dispatcher\",reason=\"buffer_full\"} 7\n"
		"# HELP packrack_dispatcher_goodness_ratio Share of the packets of all "
		"links that were captured and sent, since the start.\n"
		"# TYPE packrack_dispatcher_goodness_ratio gauge\n"
		"packrack_dispatcher_goodness_ratio 0.999\n"
		"# HELP packrack_dispatcher_cpu_seconds_total Processor time of the "
		"dispatcher.\n"
		"# TYPE packrack_dispatcher_cpu_seconds_total counter\n"
		"packrack_dispatcher_cpu_seconds_total{mode=\"user\"} 1.500002\n"
		"# HELP packrack_dispatcher_memory_peak_bytes The most memory that the "
		"dispatcher had in RAM.\n"
		"# TYPE packrack_dispatcher_memory_peak_bytes gauge\n"
		"packrack_dispatcher_memory_peak_bytes 2048\n");
	free(text);
}
END_TEST

START_TEST(states_are_told_apart)
{
	struct pr_metrics_page *page = pr_metrics_page_create();
	char *text;

	pr_metrics_label(page, {"node", "n"});
	pr_metrics_state(page, PR_METRIC_LOGGER, "suspended");
	text = text_of(page);
	ck_assert_ptr_nonnull(strstr(text, "{node=\"n\",state=\"running\"} 0\n"));
	ck_assert_ptr_nonnull(strstr(text, "{node=\"n\",state=\"suspended\"} 1\n"));
	free(text);
}
END_TEST

/* Names come from other machines. */
START_TEST(labels_are_escaped)
{
	static const struct {
		const char *name, *shown;
	} names[] = {{"a\"b\\c", "{node=\"a\\\"b\\\\c\"}"},
		{"a\nb}\x7f", "{node=\"a?b}?\"}"},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x93\xa6",
			"{node=\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x93\xa6\"}"},
		{"\xff\xc3", "{node=\"\?\?\"}"},
		{"\xc0\x80\xed\xa0\x80", "{node=\"\?\?\?\?\?\"}"}, {"", "{node=\"\"}"}};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct pr_metrics_page *page = pr_metrics_page_create();
		char *text;

		pr_metrics_label(page, {"node", names[i].name});
		pr_metrics_value(page, PR_METRIC_LOGGER, "matched", 1);
		text = text_of(page);
		ck_assert_msg(strstr(text, names[i].shown), "%s", text);
		free(text);
	}
}
END_TEST

/* However long a name is: the quote closes, and no character is cut in two. */
START_TEST(labels_are_bounded)
{
	for (size_t n = 1000; n < 1040; n++) {
		struct pr_metrics_page *page = pr_metrics_page_create();
		char name[1100] = "", *text, *line;

		for (size_t i = 0; i < n; i += 3)
			memcpy(name + i, "\xe2\x82\xac", 3);
		pr_metrics_label(page, {"node", name});
		pr_metrics_value(page, PR_METRIC_LOGGER, "matched", 1);
		text = text_of(page);
		line = strrchr(text, '"');
		ck_assert_ptr_nonnull(line);
		ck_assert_str_eq(line, "\"} 1\n");
		line[0] = 0;
		for (line = strstr(text, "node=\"") + 6; *line;
			line += pr_utf8_length(line))
			ck_assert_uint_ne(pr_utf8_length(line), 0);
		free(text);
	}
}
END_TEST

START_TEST(addresses)
{
	static const char *const good[] = {"127.0.0.1:9471", "9471", ":9471", "localhost:0",
		"[::1]:65535", "0.0.0.0:1", "[::]:1"};
	static const char *const bad[] = {"", ":", "127.0.0.1", "127.0.0.1:", "host:1",
		"127.0.0.1:65536", "127.0.0.1:-1", "::1:9471", "[::1]", "127.0.0.1:9471x",
		"127.0.0.1:999999999999", "[127.0.0.1:1", "300.0.0.1:1",
		"0000000000000000000000000000000000000000000000000000000000000000000:1"};
	struct pr_error err;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		ck_assert_msg(!pr_metrics_check_address(good[i], &err), "%s", err.text);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		ck_assert_msg(pr_metrics_check_address(bad[i], &err) < 0, "%s", bad[i]);
		ck_assert_msg(strstr(err.text, "--metrics: "), "%s", err.text);
	}
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, table_follows_conventions);
	tcase_add_test(tc, rows_of_a_name_agree);
	tcase_add_test(tc, page_groups_and_converts);
	tcase_add_test(tc, states_are_told_apart);
	tcase_add_test(tc, labels_are_escaped);
	tcase_add_test(tc, labels_are_bounded);
	tcase_add_test(tc, addresses);
}

int
main(void)
{
	return unit_run("base metrics", fill);
}
