/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/query/ask.h"
#include "merger/cli/query/query_args.h"
#include "merger/cli/render.h"
#include "proto/rpc/status.h"
#include "tests/unit/unit.h"

/* ---- arguments ---- */

static int
parse(struct query_args *a, const struct cli_command *command, const char *line)
{
	static char copy[500], *argv[50];
	struct pr_cmdline program = {.name = "query"};
	struct pr_error err;
	int argc = 0, operand = 0;

	snprintf(copy, sizeof(copy), "query %s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	*a = (struct query_args)QUERY_ARGS;
	PR_COPY(&program, command, options, option_count);
	int status = cli_parse(&program, a, argc, argv, &operand);
	const struct cli_call call = {"query", command, a, argc - operand, argv + operand};
	if (status < 0 && query_args_check(a, &call, &err) < 0)
		return CLI_USAGE;
	return status;
}

static void
query_args_free(struct query_args *a)
{
	struct pr_cmdline program = {.name = "query"};

	PR_COPY(&program, &query_command, options, option_count);
	free(a->filter);
	pr_options_free(&program, a);
}

START_TEST(test_args)
{
	struct query_args a;

	ck_assert_int_eq(parse(&a, &query_command,
				 "--since @10 --until @20.5 --limit 7 tcp port 80"),
		-1);
	ck_assert_int_eq(a.since, 10000000000);
	ck_assert_int_eq(a.until, 20500000000);
	ck_assert_uint_eq(a.limit, 7);
	ck_assert_str_eq(a.filter, "tcp port 80");
	query_args_free(&a);
	ck_assert_int_eq(parse(&a, &query_command,
				 "udp and --format pcap-ns port 53 -w - --link tap0"),
		-1);
	ck_assert_str_eq(a.filter, "udp and port 53");
	ck_assert_int_eq(a.format, PRM_TRACE_PCAP_NS);
	ck_assert_str_eq(a.write, "-");
	ck_assert_str_eq(a.link, "tap0");
	query_args_free(&a);
	ck_assert_int_eq(parse(&a, &query_command, ""), -1);
	ck_assert_int_eq(a.since, INT64_MIN);
	ck_assert_int_eq(a.until, INT64_MAX);
	ck_assert_str_eq(a.filter, "");
	query_args_free(&a);
}
END_TEST

static const char *const bad_lines[] = {"--since @20 --until @10", "-w x --count",
	"--volume v -m ipc://x", "--volume v --node n", "--json --keyvalue",
	"--format pcapx", "--limit many", "--sincee @1", "--since"};

START_TEST(test_bad_args)
{
	struct query_args a;

	ck_assert_int_eq(parse(&a, &query_command, bad_lines[_i]), CLI_USAGE);
	query_args_free(&a);
}
END_TEST

START_TEST(test_export_needs_file)
{
	struct query_args a;

	ck_assert_int_eq(parse(&a, &export_command, "tcp"), CLI_USAGE);
	query_args_free(&a);
	ck_assert_int_eq(parse(&a, &export_command, "tcp -w file"), -1);
	query_args_free(&a);
}
END_TEST

/* ---- the question ---- */

START_TEST(test_question)
{
	const uint16_t types[] = {1, 113};
	struct pr_error err = {""};
	struct query_args a;
	struct question q;

	parse(&a, &query_command, "--count host 192.0.2.1");
	ck_assert_int_eq(question_check(&a, &err), 0);
	ck_assert_msg(question_make(&q, &a, types, 2, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(q.query.n_programs, 2);
	ck_assert_uint_eq(q.query.programs[1]->linktype, 113);
	ck_assert_uint_gt(q.query.programs[0]->n_instructions, 1);
	ck_assert(q.query.count_only);
	question_free(&q);
	query_args_free(&a);
	parse(&a, &query_command, "prot tcp");
	ck_assert_int_eq(question_check(&a, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "prot tcp"));
	query_args_free(&a);
	parse(&a, &query_command, "wlan type mgt"); /* for links that are not here */
	ck_assert_int_eq(question_check(&a, &err), 0);
	ck_assert_int_eq(question_make(&q, &a, types, 1, &err), -1);
	question_free(&q);
	query_args_free(&a);
}
END_TEST

/* ---- rendering ---- */

static char *
rendered(enum render_form form)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct render *r = render_begin(f, form);

	render_uint(r, "missing_packets", 3);
	render_object(r, "merger");
	render_bool(r, "fine", true);
	render_string(r, "name", "a\"b\xff");
	render_close(r);
	render_list(r, "nodes");
	render_object(r, NULL);
	render_time(r, "seen", 1);
	render_epoch(r, "epoch", 255);
	render_close(r);
	render_object(r, NULL);
	render_json(r, "logger", "{\"x\": 5}");
	render_json(r, "broken", "{");
	render_close(r);
	render_close(r);
	render_uint(r, "after", UINT64_MAX);
	ck_assert_int_eq(render_end(&r), 0);
	fclose(f);
	return text;
}

START_TEST(test_render_json)
{
	char *text = rendered(RENDER_JSON);
	json_t *j = json_loads(text, 0, NULL), *nodes;

	ck_assert_msg(j != NULL, "%s", text);
	ck_assert_int_eq(json_integer_value(json_object_get(j, "missing_packets")), 3);
	ck_assert(json_is_true(json_object_get(json_object_get(j, "merger"), "fine")));
	nodes = json_object_get(j, "nodes");
	ck_assert_uint_eq(json_array_size(nodes), 2);
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_array_get(nodes, 0), "seen")), 1);
	ck_assert_str_eq(
		json_string_value(json_object_get(json_array_get(nodes, 0), "epoch")),
		"00000000000000ff");
	ck_assert_int_eq(json_integer_value(json_object_get(
				 json_object_get(json_array_get(nodes, 1), "logger"), "x")),
		5);
	ck_assert(json_is_string(json_object_get(json_array_get(nodes, 1), "broken")));
	json_decref(j);
	free(text);
}
END_TEST

START_TEST(test_render_lines)
{
	char *text = rendered(RENDER_KEYVALUE);

	ck_assert_ptr_nonnull(strstr(text, "missing_packets=3\nmerger.fine=true\n"));
	ck_assert_ptr_nonnull(strstr(text, "nodes.0.epoch=00000000000000ff\n"));
	ck_assert_ptr_nonnull(strstr(text, "nodes.1.broken={\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nafter=18446744073709551615\n"));
	free(text);
	text = rendered(RENDER_TEXT);
	ck_assert_ptr_nonnull(strstr(text, "missing packets: 3\nmerger:\n  fine: yes\n"));
	free(text);
}
END_TEST

/* ---- a packet in a line ---- */

static const uint8_t dns[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, /* Ethernet */
	0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, /* IPv4 */
	0xc0, 0x00, 0, 53, 0, 8, 0, 0}; /* UDP */

static const char *
line_of(const uint8_t *data, uint32_t caplen, uint16_t linktype)
{
	static char buf[PACKET_LINE + 1];
	struct pr_packet p = {
		.caplen = caplen, .len = caplen, .linktype = linktype, .data = data};

	buf[packet_line(&p, buf, PACKET_LINE)] = 0;
	return buf;
}

START_TEST(test_line)
{
	ck_assert_str_eq(line_of(dns, sizeof(dns), 1),
		"1970-01-01T00:00:00.000000000Z IP 192.0.2.1.49152 > 192.0.2.2.53: udp, "
		"len 42\n");
	ck_assert_ptr_nonnull(strstr(line_of(dns, 14, 1), "len 14"));
	ck_assert_ptr_nonnull(strstr(line_of(dns, 3, 1), "link type 1, len 3"));
	ck_assert_ptr_nonnull(strstr(line_of(dns, 0, 147), "link type 147"));
}
END_TEST

/* Whatever the bytes are, a line is one line, and no longer than it may be. */
START_TEST(test_line_noise)
{
	static const uint16_t types[] = {0, 1, 12, 101, 113, 276, 9};
	uint8_t data[200];

	srand(5);
	for (int i = 0; i < 20000; i++) {
		const char *line;

		for (size_t j = 0; j < sizeof(data); j++)
			data[j] = (uint8_t)rand();
		memcpy(data, dns, (size_t)rand() % sizeof(dns));
		line = line_of(data, (uint32_t)rand() % sizeof(data), types[i % 7]);
		ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
	}
}
END_TEST

/* ---- the report ---- */

static void
report_with(Packrack__Completeness *c, const char *expected, int status)
{
	const struct query_args args = {.json = false};
	struct sink sink = {.args = &args};
	Packrack__End end = PACKRACK__END__INIT;
	char *text;

	end.completeness = c;
	end.matched = 5;
	sink.end = &end;
	text = report_comment(&sink);
	ck_assert_msg(
		strstr(text, expected) != NULL, "'%s' is not in '%s'", expected, text);
	ck_assert_int_eq(report_status(&sink), status);
	free(text);
}

START_TEST(test_report)
{
	Packrack__Completeness c = PACKRACK__COMPLETENESS__INIT;
	Packrack__NodeAnswer node = PACKRACK__NODE_ANSWER__INIT, *nodes = &node;
	Packrack__Evicted evicted = PACKRACK__EVICTED__INIT, *evictions = &evicted;
	Packrack__Deleted deleted = PACKRACK__DELETED__INIT;
	Packrack__Loss losses[30], *list[30];

	c.complete = true;
	report_with(&c, "complete: 5 packets match", CLI_OK);
	c.complete = false;
	for (int i = 0; i < 30; i++) {
		packrack__loss__init(&losses[i]);
		list[i] = &losses[i];
		losses[i].first_seq = losses[i].last_seq = (uint64_t)i + 10;
		losses[i].count = 1;
		losses[i].reason = (char *)(i % 2 ? "switch" : "undelivered");
	}
	c.missing = list;
	c.n_missing = c.missing_ranges = c.missing_packets = 2;
	report_with(&c, "link 0 seq 11, ", CLI_PARTIAL);
	c.n_missing = c.missing_ranges = c.missing_packets = 30;
	report_with(&c, "missing: 30 packets in 30 ranges", CLI_PARTIAL);
	losses[0].last_seq = 106;
	losses[0].step = 3;
	losses[0].ranges = 33;
	losses[0].count = 33;
	c.missing_classes = list + 1;
	c.n_missing = c.n_missing_classes = 1;
	losses[1].last_seq = 99;
	losses[1].count = losses[1].ranges = 20;
	c.missing_packets = c.missing_ranges = 53;
	report_with(&c, "link 0 seq 10..106, 1 of every 3, ", CLI_PARTIAL);
	report_with(&c, "link 0 seq 11..99, 20 in 20 ranges, ", CLI_PARTIAL);
	c.missing_packets = 60;
	report_with(&c, "not listed: 7 packets more", CLI_PARTIAL);
	c.n_missing_classes = 0;
	node.node = (char *)"log7";
	node.error = (char *)"no sign of life";
	c.nodes = &nodes;
	c.n_nodes = 1;
	report_with(&c, "not answered: log7: no sign of life", CLI_PARTIAL);
	evicted.stream = (char *)"packets.0";
	c.evicted = &evictions;
	c.n_evicted = 1;
	report_with(&c, "overwritten: stream packets.0", CLI_PARTIAL);
	/* packets were deleted, and more are overwritten since: that is the reason */
	evicted.deleted = &deleted;
	evicted.until = 2 * PR_NS_PER_S;
	deleted.until = PR_NS_PER_S;
	report_with(&c, "overwritten: stream packets.0: packets up to 1970-01-01T00:00:02",
		CLI_PARTIAL);
	report_with(&c, "(those up to 1970-01-01T00:00:01", CLI_PARTIAL);
	deleted.until = evicted.until;
	report_with(&c, "deleted: stream packets.0", CLI_PARTIAL);
	report_with(NULL, "partial", CLI_PARTIAL);
}
END_TEST

/* Figures of older daemons get their present names; present ones stay. */
START_TEST(old_names_are_read)
{
	Packrack__Value items[2], *list[2] = {&items[0], &items[1]};
	Packrack__Status status = PACKRACK__STATUS__INIT;

	for (int i = 0; i < 2; i++) {
		packrack__value__init(&items[i]);
		items[i].name = strdup(i ? "sent_frames" : "queries_running");
	}
	status.values = list;
	status.n_values = 2;
	pr_status_rename_old(&status);
	ck_assert_str_eq(items[0].name, "running_query_count");
	ck_assert_str_eq(items[1].name, "sent_frames");
	ck_assert_str_eq(pr_status_new_name("kernel_drops"), "dropped_kernel");
	ck_assert_str_eq(pr_status_new_name("dropped_kernel"), "dropped_kernel");
	free(items[0].name);
	free(items[1].name);
}
END_TEST

START_TEST(test_progress)
{
	struct progress_state s = {"a.pcap", "packets", 3000, 25, 100};
	char line[120];

	ck_assert_str_eq(progress_text(line, sizeof(line), &s, 2 * PR_NS_PER_S),
		"a.pcap: 3000 packets, 1500/s, 25 %, 0:00:06 left");
	s.done = 1;
	s.total = 4000;
	ck_assert_str_eq(progress_text(line, sizeof(line), &s, 10 * PR_NS_PER_S),
		"a.pcap: 3000 packets, 300/s, 0 %, 11:06:30 left");
	s.done = 4100; /* a file that grows */
	ck_assert_str_eq(progress_text(line, sizeof(line), &s, 10 * PR_NS_PER_S),
		"a.pcap: 3000 packets, 300/s, 100 %, 0:00:00 left");
	s.total = 0;
	ck_assert_str_eq(progress_text(line, sizeof(line), &s, 10 * PR_NS_PER_S),
		"a.pcap: 3000 packets, 300/s");
	s.total = 100;
	s.done = 0; /* nothing to tell the time by */
	ck_assert_str_eq(progress_text(line, sizeof(line), &s, 0),
		"a.pcap: 3000 packets, 3000000000000/s");
	ck_assert_str_eq(progress_text(line, 9, &s, PR_NS_PER_S), "a.pcap: ");
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_test(t, test_args);
	tcase_add_loop_test(t, test_bad_args, 0, sizeof(bad_lines) / sizeof(bad_lines[0]));
	tcase_add_test(t, test_export_needs_file);
	tcase_add_test(t, test_question);
	tcase_add_test(t, test_render_json);
	tcase_add_test(t, test_render_lines);
	tcase_add_test(t, test_line);
	tcase_add_test(t, test_line_noise);
	tcase_add_test(t, test_report);
	tcase_add_test(t, old_names_are_read);
	tcase_add_test(t, test_progress);
}

int
main(void)
{
	return unit_run("cli", fill);
}
