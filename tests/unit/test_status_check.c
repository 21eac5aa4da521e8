/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "merger/cli/rack/status.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/rpc/status.h"
#include "tests/unit/unit.h"

#define HOUR (3600 * PR_NS_PER_S)

/* A rack of two nodes on which all is well; tests spoil something. */
struct rack {
	Packrack__Status m, d;
	Packrack__NodeStatus nodes[2], *node_list[2];
	Packrack__DispatcherNode loggers[2], *logger_list[2];
	Packrack__DispatcherLink link, *link_list[1];
	Packrack__Value dropped, *dropped_list[1], disk[2][3], *disk_list[2][3];
	char out[1024];
};

static void
value(Packrack__Value *v, Packrack__Value **at, const char *name, uint64_t number)
{
	packrack__value__init(v);
	v->name = (char *)(uintptr_t)name;
	v->number = number;
	*at = v;
}

static void
rack_make_node(struct rack *r, int i, const char *name)
{
	Packrack__NodeStatus *n = &r->nodes[i];
	Packrack__DispatcherNode *l = &r->loggers[i];

	packrack__node_status__init(n);
	packrack__dispatcher_node__init(l);
	r->node_list[i] = n;
	r->logger_list[i] = l;
	n->name = l->name = (char *)(uintptr_t)name;
	l->state = (char *)(uintptr_t) "active";
	n->connected = n->writer_alive = true;
	n->packets = 10;
	n->first_time = 100 * HOUR;
	n->volume_bytes = 1000;
	n->volume_used = 500;
	value(&r->disk[i][0], &r->disk_list[i][0], "volume_free_bytes", 3600000);
	value(&r->disk[i][1], &r->disk_list[i][1], "write_bytes_per_s", 1000);
	value(&r->disk[i][2], &r->disk_list[i][2], "missing_packets", 0);
	l->values = r->disk_list[i];
	l->n_values = 3;
}

static void
rack_make(struct rack *r)
{
	memset(r, 0, sizeof *r);
	packrack__status__init(&r->m);
	packrack__status__init(&r->d);
	packrack__dispatcher_link__init(&r->link);
	rack_make_node(r, 0, "log1");
	rack_make_node(r, 1, "log2");
	r->m.time = 110 * HOUR;
	r->m.nodes = r->node_list;
	r->m.n_nodes = 2;
	r->d.epoch = 7;
	r->d.state = (char *)(uintptr_t) "capturing";
	r->d.dispatcher_nodes = r->logger_list;
	r->d.n_dispatcher_nodes = 2;
	value(&r->dropped, &r->dropped_list[0], "dropped_ring", 0);
	r->link.last_seq = 1000;
	r->link.values = r->dropped_list;
	r->link.n_values = 1;
	r->link_list[0] = &r->link;
	r->d.dispatcher_links = r->link_list;
	r->d.n_dispatcher_links = 1;
}

static struct check_limits
limits(void)
{
	return (struct check_limits){.loss.critical = 1, .silent.critical = 1};
}

static enum check_status
judge(struct rack *r, const struct check_limits *l, const struct check_counts *before)
{
	FILE *to = fmemopen(r->out, sizeof r->out, "w");
	enum check_status status = status_check(to, l, &r->m, &r->d, NULL, before);

	fclose(to);
	ck_assert_ptr_eq(strchr(r->out, '\n'), r->out + strlen(r->out) - 1);
	return status;
}

START_TEST(all_is_well)
{
	struct check_limits l = limits();
	struct rack r;

	rack_make(&r);
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_OK);
	ck_assert_str_eq(r.out,
		"PACKRACK OK - 2 nodes, capturing | silent=0;0;1;0;2 "
		"loss=0.000000%;0;1;0;100 captured=1000c lost=0c full_in=3600s;;;0;\n");
}
END_TEST

START_TEST(loss)
{
	struct check_counts before = {.epoch = 7, .captured = 900, .lost = 5};
	struct check_limits l = limits();
	struct rack r;

	rack_make(&r);
	r.disk[1][2].number = 5;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	ck_assert_ptr_nonnull(strstr(r.out, "WARNING - 5 of 1000 packets lost |"));
	ck_assert_ptr_nonnull(strstr(r.out, " loss=0.500000%;0;1;0;100 "));
	ck_assert_int_eq(judge(&r, &l, &before), CHECK_OK);
	before.epoch = 8; /* another start: nothing is known of before */
	ck_assert_int_eq(judge(&r, &l, &before), CHECK_WARNING);
	r.dropped.number = 10; /* never had a number, but came */
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
	ck_assert_ptr_nonnull(strstr(r.out, "15 of 1010 packets lost"));
	l.loss.critical = 2;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	l.loss.warning = 2;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_OK);
	r.link.last_seq = 0;
	r.dropped.name = (char *)(uintptr_t) "dropped_send";
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
}
END_TEST

START_TEST(nodes)
{
	struct check_limits l = limits();
	struct rack r;

	rack_make(&r);
	r.nodes[1].connected = false;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	ck_assert_ptr_nonnull(strstr(r.out, "1 of 2 nodes silent (log2)"));
	r.loggers[1].state = (char *)(uintptr_t) "gone"; /* the same node, once */
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	r.loggers[0].state = (char *)(uintptr_t) "suspended";
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
	l.silent.warning = l.silent.critical = 9; /* all of them is never well */
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
	r.loggers[0].state = (char *)(uintptr_t) "disconnected"; /* as told */
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_OK);
	r.m.n_nodes = r.d.n_dispatcher_nodes = 0;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
	ck_assert_ptr_nonnull(strstr(r.out, "no node"));
}
END_TEST

START_TEST(disks)
{
	struct check_limits l = limits();
	struct rack r;

	rack_make(&r);
	l.full.warning = 2 * 3600;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	ck_assert_ptr_nonnull(strstr(r.out, "a volume is full in 1.0 hours"));
	ck_assert_ptr_nonnull(strstr(r.out, " full_in=3600s;7200:;;0;"));
	l.full.critical = 3600.001;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
	r.disk[0][1].number = r.disk[1][0].number = 0; /* idle; full already */
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_OK);

	l.kept.warning = 11 * 3600;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_OK); /* nothing is overwritten yet */
	r.nodes[0].volume_used = 1000;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	ck_assert_ptr_nonnull(strstr(r.out, "packets are overwritten after 10.0 hours"));
	l.kept.critical = 10 * 3600 + 0.001;
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_CRITICAL);
}
END_TEST

START_TEST(who_answers)
{
	struct check_limits l = limits();
	struct rack r;
	FILE *to;

	rack_make(&r);
	r.d.state = (char *)(uintptr_t) "stopped";
	ck_assert_int_eq(judge(&r, &l, NULL), CHECK_WARNING);
	ck_assert_ptr_nonnull(strstr(r.out, "the dispatcher is stopped"));
	to = fmemopen(r.out, sizeof r.out, "w");
	ck_assert_int_eq(
		status_check(to, &l, &r.m, NULL, "the dispatcher", NULL), CHECK_CRITICAL);
	ck_assert_int_eq(status_check(to, &l, NULL, NULL, NULL, NULL), CHECK_UNKNOWN);
	ck_assert_int_eq(status_check(to, &l, &r.m, NULL, NULL, NULL), CHECK_OK);
	fclose(to);
}
END_TEST

START_TEST(limits_are_read)
{
	static const char *const bad[] = {"", ",", "1,", ",1", "1,2,3", "x", "1,x", "-1",
		"nan", "inf", "1e999", "9999999999999999999999999999999999999"};
	struct check_limits l = limits();
	struct pr_error err;

	ck_assert_int_eq(check_limit_parse(&l.loss, "loss", "0.25%,1.5", &err), 0);
	ck_assert(l.loss.warning == 0.25 && l.loss.critical == 1.5);
	ck_assert_int_eq(check_limit_parse(&l.silent, "max-unreachable", "3", &err), 0);
	ck_assert(l.silent.warning == 3 && l.silent.critical == 1);
	ck_assert_int_eq(check_limit_parse(&l.full, "full-within", "24h,90m", &err), 0);
	ck_assert(l.full.warning == 24 * 3600 && l.full.critical == 5400);
	ck_assert_int_eq(check_limit_parse(&l.kept, "retention", "14d", &err), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		ck_assert_msg(
			check_limit_parse(&l.loss, "loss", bad[i], &err) < 0, "%s", bad[i]);
		ck_assert_msg(
			check_limit_parse(&l.silent, "max-unreachable", bad[i], &err) < 0,
			"%s", bad[i]);
		ck_assert_msg(check_limit_parse(&l.full, "full-within", bad[i], &err) < 0,
			"%s", bad[i]);
		ck_assert_ptr_nonnull(strstr(err.text, "--full-within"));
	}
}
END_TEST

START_TEST(counts_are_kept)
{
	struct check_counts c = {.epoch = UINT64_MAX, .captured = 12, .lost = 3}, back;
	char path[] = "/tmp/packrack-check.XXXXXX";
	struct pr_error err;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(check_counts_load(path, &back, &err), -1); /* empty: not ours */
	ck_assert_int_eq(check_counts_store(path, &c, &err), 0);
	ck_assert_int_eq(check_counts_load(path, &back, &err), 0);
	ck_assert(back.epoch == c.epoch && back.captured == 12 && back.lost == 3);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	close(fd);
	fd = open(path, O_WRONLY | O_TRUNC);
	ck_assert_int_eq(write(fd, "{\"epoch\": 5}", 12), 12);
	close(fd);
	ck_assert_int_eq(check_counts_load(path, &back, &err), -1);
	unlink(path);
	ck_assert_int_eq(check_counts_load(path, &back, &err), 1);
	ck_assert_int_eq(check_counts_store("/nowhere/at/all", &c, &err), -1);
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

static void
fill(TCase *tc)
{
	tcase_add_test(tc, old_names_are_read);
	tcase_add_test(tc, all_is_well);
	tcase_add_test(tc, loss);
	tcase_add_test(tc, nodes);
	tcase_add_test(tc, disks);
	tcase_add_test(tc, who_answers);
	tcase_add_test(tc, limits_are_read);
	tcase_add_test(tc, counts_are_kept);
}

int
main(void)
{
	return unit_run("status check", fill);
}
