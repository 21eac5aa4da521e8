/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/console/ui.h"
#include "tests/unit/canvas_row.h"
#include "tests/unit/unit.h"

/*
 * The console without a terminal: whole screens against tests/data/console (written anew when
 * CONSOLE_GOLDEN=write is set; look at the difference then), and what keys do.
 */
#define T0 INT64_C(1700000000000000000)
#define SECOND INT64_C(1000000000)
#define VALUES 24

static struct model *model;
static struct canvas canvas;

struct list {
	Packrack__Value room[VALUES], *values[VALUES];
	size_t count;
};

static void
put(struct list *l, const char *name, uint64_t number)
{
	packrack__value__init(&l->room[l->count]);
	l->room[l->count].name = (char *)name;
	l->room[l->count].number = number;
	l->values[l->count] = &l->room[l->count];
	l->count++;
}

/* Second t of a dispatcher with nodes of which the second, if any, is silent. */
static void
feed_dispatcher(int nodes, uint64_t t)
{
	static struct list of_nodes[64];
	static Packrack__DispatcherNode room[64], *pointers[64];
	static char names[64][8];
	Packrack__Status s = PACKRACK__STATUS__INIT;
	Packrack__DispatcherLink link = PACKRACK__DISPATCHER_LINK__INIT, *links = &link;
	struct list all = {.count = 0};

	put(&all, "captured_packets", 1000 * t);
	put(&all, "captured_bytes", 500000 * t);
	put(&all, "sent_packets", 990 * t);
	put(&all, "dropped_kernel", 7 * t);
	put(&all, "dropped_no_node", 3 * t);
	put(&all, "control_frames", 30 * t);
	put(&all, "control_received_frames", 6 * t);
	put(&all, "log_frames", 20 * t);
	put(&all, "goodness_permille", 990);
	put(&all, "input_bytes_per_s", 500000);
	put(&all, "buffer_used_bytes", 8 << 20);
	put(&all, "buffer_size_bytes", 32 << 20);
	put(&all, "spread_mode", 2);
	for (int i = 0; i < nodes; i++) {
		struct list *l = &of_nodes[i];

		l->count = 0;
		put(l, "sent_frames", (10 + (uint64_t)i) * t);
		put(l, "stored_packets", (10 + (uint64_t)i) * t * (1 + t % 3));
		put(l, "missing_packets", i == 2 ? 5 : 0);
		put(l, "volume_size_bytes", UINT64_C(500000000000));
		put(l, "volume_free_bytes", UINT64_C(400000000000) - 1000000 * t);
		put(l, "stored_bytes", 1000000 * t);
		put(l, "buffer_fill_percent", 25);
		snprintf(names[i], sizeof(names[i]), "n%02u", (unsigned)(i + 1) % 100);
		packrack__dispatcher_node__init(&room[i]);
		room[i].name = names[i];
		room[i].mac = (char *)"02:00:00:00:00:01";
		room[i].state = (char *)(i == 1 ? "gone" : "active");
		room[i].number = (uint32_t)i;
		room[i].last_seen = T0 + (int64_t)t * SECOND - SECOND / 2;
		room[i].values = l->values;
		room[i].n_values = l->count;
		pointers[i] = &room[i];
	}
	link.name = (char *)"tap0";
	link.last_seq = 1000 * t;
	link.values = all.values;
	link.n_values = 5;
	s.program = (char *)"packrack-dispatcher";
	s.version = (char *)"9.9";
	s.state = (char *)"capturing";
	s.time = T0 + (int64_t)t * SECOND;
	s.epoch = 1;
	s.values = all.values;
	s.n_values = all.count;
	s.dispatcher_nodes = pointers;
	s.n_dispatcher_nodes = (size_t)nodes;
	s.dispatcher_links = &links;
	s.n_dispatcher_links = 1;
	model_take_dispatcher(model, &s, s.time);
}

/* What n01 and n03 hold; the second was emptied. */
static void
feed_stores(Packrack__Status *s)
{
	static Packrack__NodeStatus nodes[2], *list[2];
	static Packrack__StreamHeld streams[2], *held[2];
	static Packrack__Deleted deleted, *deletions = &deleted;

	packrack__deleted__init(&deleted);
	deleted.by = (char *)"ann";
	deleted.until = T0 - 3600 * SECOND;
	for (int i = 0; i < 2; i++) {
		packrack__node_status__init(&nodes[i]);
		packrack__stream_held__init(&streams[i]);
		streams[i].name = (char *)"packets.0";
		streams[i].link_name = (char *)"tap0";
		streams[i].packet_stream = true;
		nodes[i].name = (char *)(i ? "n03" : "n01");
		nodes[i].connected = nodes[i].writer_alive = true;
		nodes[i].streams = &held[i];
		nodes[i].n_streams = 1;
		held[i] = &streams[i];
		list[i] = &nodes[i];
	}
	streams[0].packets = 123456;
	streams[0].bytes = 77 << 20;
	streams[0].first_time = T0;
	streams[0].last_time = T0 + 15 * SECOND;
	streams[1].evicted_segments = 9;
	streams[1].evicted_until = deleted.until;
	streams[1].deleted = &deletions;
	streams[1].n_deleted = 1;
	s->nodes = list;
	s->n_nodes = 2;
}

static void
feed_merger(int nodes, uint64_t t)
{
	Packrack__RunningQuery q = PACKRACK__RUNNING_QUERY__INIT, *queries = &q;
	Packrack__Status s = PACKRACK__STATUS__INIT;
	struct list all = {.count = 0};

	put(&all, "queries_total", 9);
	put(&all, "running_query_count", 1);
	q.number = 9;
	q.user = (char *)"ann\x1b[2J";
	q.text = (char *)"udp port 53";
	q.started = T0;
	q.nodes = 3;
	q.nodes_left = 1;
	q.matched = 12345;
	q.bytes = 9 << 20;
	s.program = (char *)"packrack-merger";
	s.version = (char *)"9.9";
	s.state = (char *)"running";
	s.time = T0 + (int64_t)t * SECOND;
	s.values = all.values;
	s.n_values = all.count;
	s.queries = &queries;
	s.n_queries = 1;
	if (nodes >= 3)
		feed_stores(&s);
	model_take_merger(model, 0, &s, s.time);
}

static void
set_up(int nodes)
{
	setenv("TZ", "UTC", 1);
	model = model_create(NULL);
	ck_assert_ptr_nonnull(model);
	model->merger_count = 1;
	strcpy(model->mergers[0].endpoint, "ipc://m.sock");
	strcpy(model->dispatcher.endpoint, "ipc://d.sock");
	for (uint64_t t = 1; t <= 15; t++) {
		feed_dispatcher(nodes, t);
		feed_merger(nodes, t);
	}
}

static void
tear_down(void)
{
	model_destroy(&model);
	canvas_free(&canvas);
}

static void
screens(FILE *to, int rows, int cols)
{
	static char line[CONSOLE_COLS_MAX * 4 + 1];
	struct console_order order;
	struct ui ui = {0};

	for (const char *key = "123\n45678?"; *key; key++) {
		ui_key(&ui, model, *key, &order);
		canvas_reset(&canvas, rows, cols, NULL);
		view_draw(&canvas, model, &ui, NULL);
		for (int row = 0; row < rows; row++)
			fprintf(to, "%s\n", canvas_row(&canvas, row, line, sizeof(line)));
	}
}

static void
compare(int nodes, int rows, int cols)
{
	char path[80], *text, *want;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	const char *write = getenv("CONSOLE_GOLDEN");

	set_up(nodes);
	screens(f, rows, cols);
	fclose(f);
	snprintf(path, sizeof(path), "tests/data/console/%d-nodes-%dx%d.txt", nodes, cols,
		rows);
	if (write && !strcmp(write, "write")) {
		f = fopen(path, "w");
		ck_assert_ptr_nonnull(f);
		fwrite(text, 1, len, f);
		fclose(f);
	}
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s cannot be read", path);
	want = calloc(1, len + 2);
	ck_assert_uint_eq(fread(want, 1, len + 1, f), len);
	fclose(f);
	ck_assert_msg(!strcmp(text, want), "not as in %s", path);
	free(want);
	free(text);
	tear_down();
}

START_TEST(golden)
{
	static const int counts[] = {0, 3, 64};

	for (int i = 0; i < 3; i++) {
		compare(counts[i], 24, 80);
		compare(counts[i], 60, 200);
	}
}
END_TEST

START_TEST(any_size)
{
	struct ui ui = {.screen = SCREEN_METRICS};
	struct console_order order;

	set_up(64);
	for (int size = 1; size < 90; size++)
		for (const char *key = "123\n45678??"; *key; key++) {
			ui_key(&ui, model, *key, &order);
			canvas_reset(&canvas, size / 3 + 1, size, NULL);
			view_draw(&canvas, model, &ui, NULL);
		}
	tear_down();
}
END_TEST

static bool
type(struct ui *ui, const char *keys, struct console_order *order)
{
	bool given = false;

	for (; *keys; keys++)
		given |= ui_key(ui, model, *keys, order);
	return given;
}

START_TEST(orders)
{
	struct console_order o = {0};
	struct ui ui = {0};

	set_up(3);
	ck_assert(type(&ui, "3i", &o));
	ck_assert_str_eq(o.verb, "identify");
	ck_assert_str_eq(o.node, "n01");
	ck_assert(!type(&ui, "dn", &o));
	ck_assert(type(&ui, "dy", &o));
	ck_assert_str_eq(o.verb, "disconnect");
	ck_assert(!type(&ui, "Ry\n", &o)); /* a reset wants the name */
	ck_assert(!type(&ui, "Rn02\n", &o));
	ck_assert(type(&ui, "Rn01\n", &o));
	ck_assert_str_eq(o.verb, "reset");
	ck_assert(type(&ui, "6cy", &o));
	ck_assert_str_eq(o.verb, "cancel");
	ck_assert_uint_eq(o.number, 9);
	ck_assert(type(&ui, "4wy", &o));
	ck_assert_str_eq(o.node, "weighted");
	/* of data: a text first, and who deletes types the name behind it */
	ck_assert(!type(&ui, "8e\n", &o));
	ck_assert(type(&ui, "e/tmp/x y\n", &o));
	ck_assert_str_eq(o.verb, "export");
	ck_assert_str_eq(o.node, "n01");
	ck_assert_str_eq(o.text, "/tmp/x y");
	ck_assert(type(&ui, "vn02\n", &o));
	ck_assert_str_eq(o.verb, "move");
	ck_assert_str_eq(o.text, "n02");
	ck_assert(!type(&ui, "x3h ago\nn02\n", &o));
	ck_assert(!type(&ui, "xn01\n\n", &o));
	ck_assert(type(&ui, "x3h ago\nn01\n", &o));
	ck_assert_str_eq(o.verb, "delete");
	ck_assert_str_eq(o.text, "3h ago");
	ui_key(&ui, model, KEY_IS_DOWN, &o);
	ck_assert(type(&ui, "x\nn03\n", &o));
	ck_assert_str_eq(o.text, "");
	ck_assert_str_eq(o.node, "n03");
	tear_down();
}
END_TEST

START_TEST(columns)
{
	set_up(3);
	ck_assert_uint_eq(series_now(&model->dispatcher.series, "captured_packets"), 15000);
	ck_assert_uint_eq(
		series_instant(&model->dispatcher.series, "captured_packets"), 1000);
	ck_assert_double_eq_tol(
		series_rate(&model->dispatcher.series, "captured_packets"), 1000, 1e-6);
	feed_dispatcher(3, 15); /* the same again is no sample */
	ck_assert_uint_eq(
		series_instant(&model->dispatcher.series, "captured_packets"), 1000);
	feed_merger(0, 16); /* a node that is named no more is gone */
	feed_dispatcher(2, 16);
	ck_assert_uint_eq(model->node_count, 2);
	ck_assert_uint_eq(model->store_count, 0);
	tear_down();
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, golden);
	tcase_add_test(tc, any_size);
	tcase_add_test(tc, orders);
	tcase_add_test(tc, columns);
}

int
main(void)
{
	return unit_run("console", fill);
}
