/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/metrics_server.h"
#include "proto/base/text.h"
#include "tests/unit/unit.h"

struct figures {
	uint64_t captured, dropped, cpu_us, kib;
	uint32_t permille;
	bool on;
	int64_t seen;
};

#define PR_COUNTED struct figures
static const struct pr_counter_row link_rows[] = {
	PR_COUNTER_OF(captured, "captured_packets", "Packets taken from the link."),
	PR_METRIC(dropped, "dropped_ring", PR_COUNTER, "dropped_packets_total", PR_ONE,
		"place=\"dispatcher\",reason=\"buffer_full\"", "Packets lost."),
};
static const struct pr_counter_row rows[] = {
	PR_METRIC(cpu_us, "cpu_user_us", PR_COUNTER, "cpu_seconds_total", PR_US,
		"mode=\"user\"", "Processor time."),
	PR_METRIC(permille, "goodness", PR_GAUGE, "goodness_ratio", PR_PERMILLE, NULL,
		"Share."),
	PR_METRIC(kib, "peak_kib", PR_GAUGE, "peak_bytes", PR_KIB, NULL, "Memory."),
	PR_GAUGE_OF(on, "on", "1 or 0."),
	PR_METRIC(seen, "seen", PR_GAUGE, "seen_timestamp_seconds", PR_NS, NULL, "When."),
};
#undef PR_COUNTED

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
	struct figures a = {.captured = UINT64_MAX, .dropped = 7}, b = {.captured = 5};
	struct figures all = {.cpu_us = 1500002, .permille = 999, .kib = 2, .on = true};
	char *text;

	pr_metrics_label(page, {"link", "a"}, {"number", "0"});
	pr_metrics_table(page, "packrack_x_", PR_COUNTER_TABLE(link_rows, &a));
	pr_metrics_label(page, {"link", "b"}, {"number", "1"});
	pr_metrics_table(page, "packrack_x_", PR_COUNTER_TABLE(link_rows, &b));
	pr_metrics_no_labels(page);
	pr_metrics_table(page, "packrack_x_", PR_COUNTER_TABLE(rows, &all));
	text = text_of(page);
	ck_assert_str_eq(text,
		"# HELP packrack_x_captured_packets_total Packets taken from the link.\n"
		"# TYPE packrack_x_captured_packets_total counter\n"
		"packrack_x_captured_packets_total{link=\"a\",number=\"0\"} "
		"18446744073709551615\n"
		"packrack_x_captured_packets_total{link=\"b\",number=\"1\"} 5\n"
		"# HELP packrack_x_cpu_seconds_total Processor time.\n"
		"# TYPE packrack_x_cpu_seconds_total counter\n"
		"packrack_x_cpu_seconds_total{mode=\"user\"} 1.500002\n"
		"# HELP packrack_x_dropped_packets_total Packets lost.\n"
		"# TYPE packrack_x_dropped_packets_total counter\n"
		"packrack_x_dropped_packets_total{link=\"a\",number=\"0\",place="
		"\"dispatcher\",reason=\"buffer_full\"} 7\n"
		"packrack_x_dropped_packets_total{link=\"b\",number=\"1\",place="
		"\"dispatcher\",reason=\"buffer_full\"} 0\n"
		"# HELP packrack_x_goodness_ratio Share.\n"
		"# TYPE packrack_x_goodness_ratio gauge\n"
		"packrack_x_goodness_ratio 0.999\n"
		"# HELP packrack_x_on 1 or 0.\n"
		"# TYPE packrack_x_on gauge\n"
		"packrack_x_on 1\n"
		"# HELP packrack_x_peak_bytes Memory.\n"
		"# TYPE packrack_x_peak_bytes gauge\n"
		"packrack_x_peak_bytes 2048\n");
	free(text);
}
END_TEST

START_TEST(states_are_told_apart)
{
	static const char *const states[] = {"running", "suspended", NULL};
	static const struct pr_counter_row state = PR_STATES_OF("state", "Its state.");
	struct pr_metrics_page *page = pr_metrics_page_create();
	char *text;

	pr_metrics_label(page, {"node", "n"});
	pr_metrics_states(page, "packrack_x_", &state, states, "suspended");
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
		struct figures f = {.captured = 1};
		char *text;

		pr_metrics_label(page, {"node", names[i].name});
		pr_metrics_table(page, "packrack_x_", PR_COUNTER_TABLE(link_rows, &f));
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
		struct figures f = {.captured = 1};
		char name[1100] = "", *text, *line;

		for (size_t i = 0; i < n; i += 3)
			memcpy(name + i, "\xe2\x82\xac", 3);
		pr_metrics_label(page, {"node", name});
		pr_metrics_table(
			page, "packrack_x_", (struct pr_counter_table){link_rows, 1, &f});
		text = text_of(page);
		line = strrchr(text, '"');
		ck_assert_ptr_nonnull(line);
		ck_assert_str_eq(line, "\"} 1\n");
		line[0] = 0;
		for (line = strstr(text, "node=\"") + 6; *line; line += pr_text_plain(line))
			ck_assert_uint_ne(pr_text_plain(line), 0);
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
