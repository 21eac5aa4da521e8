/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "indexer/query/query.h"
#include "tests/unit/query_ask.h"
#include "tests/unit/unit.h"

/* Queries of what was recycled or damaged: what is left is given, what is not is told. */

/* Drops from the model what the volume has recycled; returns how many. */
static size_t
forget_expired(struct pri_volume *view)
{
	static uint8_t buf[65536];
	size_t kept = 0, length, gone;

	for (size_t i = 0; i < model_count; i++) {
		struct sfs_record record;
		int rc = sfs_read(view->sfs, &model[i].handle, buf, sizeof(buf), &length,
			&record, &err);
		if (rc == SFS_EXPIRED)
			continue;
		ck_assert_int_eq(rc, SFS_OK);
		model[kept++] = model[i];
	}
	gone = model_count - kept;
	model_count = kept;
	sort_model();
	return gone;
}

START_TEST(recycled_is_evicted)
{
	struct pri_volume *view, *fresh;
	struct question all = {PR_TIME_MIN, PR_TIME_MAX, "", NULL, 0, false};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pri_answer *a;
	const Packrack__End *end;
	uint64_t evicted = 0;

	srandom(11);
	open_writer(2 << 20);
	view = open_view();
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		write_epoch(epoch, (int64_t)epoch * 100000000, 12000, 100);
		flush_directory();
		refresh(view);
	}
	ck_assert_uint_gt(forget_expired(view), 10000);
	ck_assert_uint_eq(view->catalog.packets, model_count);
	ask(view, &all);
	fresh = open_view();
	refresh(fresh);
	ask(fresh, &all);
	for (int i = 0; i < 2; i++) {
		query.since = PR_TIME_MIN;
		query.until = PR_TIME_MAX;
		a = pri_answer_create(i ? fresh : view, &query, &err);
		ck_assert_ptr_nonnull(a);
		end = pri_answer_end(a, &err);
		ck_assert_ptr_nonnull(end);
		evicted = 0;
		for (size_t j = 0; j < end->n_evicted; j++) {
			ck_assert_str_eq(end->evicted[j]->stream,
				end->evicted[j]->link ? "packets.1" : "packets.0");
			for (size_t k = 0; k < model_count; k++)
				ck_assert(model[k].p.epoch != end->evicted[j]->epoch ||
					  model[k].p.link != end->evicted[j]->link ||
					  model[k].p.seq > end->evicted[j]->last_seq);
			evicted += end->evicted[j]->last_seq;
		}
		ck_assert_uint_eq(evicted + model_count, 36000);
		ck_assert_uint_eq(end->n_ledgers, 6);
		pri_answer_destroy(&a);
	}
	pri_volume_close(&fresh);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* The frontier runs over a query: what it still gives is right, and it says what went. */
START_TEST(recycled_while_asked)
{
	struct pri_volume *view;
	struct pri_query_spec spec = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct pri_query *query;
	struct pr_packet p, last = {0};
	struct pri_evicted_list evicted;
	size_t got = 0;
	int rc;

	srandom(12);
	open_writer(2 << 20);
	view = open_view();
	write_epoch(1, 1000000, 12000, 100);
	flush_directory();
	refresh(view);
	query = pri_query_create(view, &spec, &err);
	ck_assert_ptr_nonnull(query);
	ck_assert_int_eq(pri_query_next(query, &p, &err), PR_SOURCE_PACKET);
	write_epoch(2, 100000000, 14000, 100); /* not yet all of the first */
	for (rc = PR_SOURCE_WAIT; rc != PR_SOURCE_END;) {
		rc = pri_query_next(query, &p, &err);
		ck_assert_int_ne(rc, PR_SOURCE_ERROR);
		if (rc != PR_SOURCE_PACKET)
			continue;
		ck_assert(got++ == 0 || pr_packet_compare(&last, &p) < 0);
		ck_assert_uint_eq(p.epoch, 1);
		last = p;
	}
	ck_assert_uint_lt(got, 11000);
	ck_assert_uint_eq(pri_query_stats(query)->corrupt_records, 0);
	ck_assert_int_eq(pri_query_evicted(query, &evicted, &err), 0);
	ck_assert_uint_gt(evicted.count, 0);
	free(evicted.items);
	pri_query_destroy(&query);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

#define S PR_NS_PER_S

static uint64_t
drops_told(struct pri_volume *view, int64_t since)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pri_answer *a;
	const Packrack__End *end;
	uint64_t drops = 0;

	query.since = since;
	query.until = PR_TIME_MAX;
	a = pri_answer_create(view, &query, &err);
	ck_assert_ptr_nonnull(a);
	end = pri_answer_end(a, &err);
	for (size_t i = 0; i < end->n_ledgers; i++)
		drops += end->ledgers[i]->dropped_ring;
	pri_answer_destroy(&a);
	return drops;
}

/* A node says which seqs lie around the range, also where it has no packet of them any more. */
START_TEST(points_around_the_range)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pr_ledger_entry e = {
		.type = PR_LEDGER_MARK, .u.mark.epoch = UINT64_C(90) << 32};
	const Packrack__Ledger *told;
	struct pri_volume *view;
	struct pri_answer *a;

	open_writer(2 << 20);
	view = open_view();
	for (int64_t i = 1; i <= 5; i++) {
		e.u.mark.said_until = e.u.mark.link.last_otime = i * 100 * S;
		e.u.mark.link.last_seq = 10 * (uint64_t)i;
		write_ledger(&e);
	}
	flush_directory();
	refresh(view);
	query.since = 250 * S;
	query.until = 350 * S;
	a = pri_answer_create(view, &query, &err);
	ck_assert_ptr_nonnull(a);
	told = pri_answer_end(a, &err)->ledgers[0];
	ck_assert_uint_eq(told->below_seq, 20);
	ck_assert_int_eq(told->below_otime, 200 * S);
	ck_assert_uint_eq(told->above_seq, 40);
	ck_assert_int_eq(told->above_otime, 400 * S);
	pri_answer_destroy(&a);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* Between two epochs the older one says since when nothing is observed, also if the newer has said nothing yet. */
START_TEST(epochs_around_the_range)
{
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK};
	struct pri_volume *view;
	struct pri_answer *a;

	open_writer(2 << 20);
	view = open_view();
	for (uint64_t i = 1; i <= 3; i++) {
		e.u.mark = (struct pr_ledger_mark){.epoch = (i * 100) << 32};
		if (i < 3) {
			e.u.mark.said_until = e.u.mark.link.last_otime =
				(int64_t)(i * 100 + 50) * S;
			e.u.mark.link.last_seq = 10;
		}
		write_ledger(&e);
	}
	flush_directory();
	refresh(view);
	query.since = 260 * S;
	query.until = 270 * S;
	a = pri_answer_create(view, &query, &err);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(pri_answer_end(a, &err)->n_ledgers, 2);
	ck_assert_uint_eq(pri_answer_end(a, &err)->ledgers[0]->epoch >> 32, 300);
	ck_assert_uint_eq(pri_answer_end(a, &err)->ledgers[1]->epoch >> 32, 200);
	pri_answer_destroy(&a);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* A range that begins with the oldest packet has no drops of before. */
START_TEST(drops_before_the_oldest)
{
	struct pri_volume *view;
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK,
		.u.mark = {.epoch = UINT64_C(90) << 32, .said_until = 100 * S}};

	srandom(14);
	open_writer(2 << 20);
	view = open_view();
	e.u.mark.link.last_seq = 1;
	e.u.mark.link.last_otime = 95 * S;
	e.u.mark.link.dropped_ring = 7;
	write_ledger(&e);
	write_epoch(UINT64_C(190) << 32, 200 * S, 1000, 100);
	flush_directory();
	refresh(view);
	ck_assert_uint_eq(drops_told(view, PR_TIME_MIN), 7); /* nothing is overwritten */
	write_epoch(UINT64_C(290) << 32, 300 * S, 30000, 100);
	flush_directory();
	refresh(view);
	ck_assert_uint_eq(drops_told(view, PR_TIME_MIN), 0);
	ck_assert_uint_eq(drops_told(view, 0), 7);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/*
 * Of an epoch that was over before the range only a LINK is left, no MARK: what is deleted later was not of it. Nor was it
 * of one whose first MARK, with its first packet, came after that.
 */
START_TEST(deleted_after_an_epoch)
{
	struct pri_volume *view;
	struct pri_query_spec spec = {.since = 150 * S, .until = PR_TIME_MAX};
	struct sfs_delete_range range = {.last = UINT64_MAX};
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK,
		.u.link = {.epoch = UINT64_C(90) << 32, .linktype = 1}};
	struct pri_evicted_list evicted;
	struct sfs_trimmed out;
	struct pri_query *query;

	srandom(15);
	open_writer(16 << 20);
	write_ledger(&e);
	write_epoch(UINT64_C(100) << 32, 200 * S, 20000, 100);
	flush_directory();
	e.type = PR_LEDGER_MARK;
	e.u.mark = (struct pr_ledger_mark){.epoch = UINT64_C(900000) << 32,
		.said_until = 900001 * S,
		.link = {.last_seq = 1, .last_otime = 900001 * S}};
	write_ledger(&e);
	sort_model();
	range.since = model[model_count / 3].p.time;
	range.until = model[2 * (model_count / 3)].p.time;
	ck_assert_int_eq(sfs_delete(w.sfs, sfs_stream_find(w.sfs, "packets.0"), &range, 0,
				 &out, &err),
		SFS_OK);
	view = open_view();
	refresh(view);
	query = pri_query_create(view, &spec, &err);
	ck_assert_ptr_nonnull(query);
	ck_assert_int_eq(pri_query_evicted(query, &evicted, &err), 0);
	ck_assert_uint_gt(evicted.count, 0);
	for (size_t i = 0; i < evicted.count; i++)
		ck_assert_uint_eq(evicted.items[i].epoch, UINT64_C(100) << 32);
	free(evicted.items);
	pri_query_destroy(&query);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* Writes one epoch durably and one not, tells, and waits to be killed. */
static pid_t
start_writer(void)
{
	int told[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(told), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		srandom(16);
		open_writer(16 << 20);
		write_epoch(1, 100 * S, 8000, 100);
		flush_directory();
		ck_assert_int_eq(sfs_flush(w.sfs, &err), SFS_OK);
		write_epoch(2, 200 * S, 500, 100);
		flush_directory();
		ck_assert_int_eq(write(told[1], "", 1), 1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(told[0], &byte, 1), 1);
	close(told[0]);
	close(told[1]);
	return pid;
}

/* The logger is killed while a query reads: the query still gives what was durable. */
START_TEST(killed_while_asked)
{
	pid_t writer = start_writer();
	struct pri_volume *view = open_view();
	struct pri_query_spec spec = {.since = PR_TIME_MIN, .until = 150 * S};
	struct pri_query *query;
	struct pr_packet p;
	size_t got = 0;
	int rc = PR_SOURCE_WAIT;

	refresh(view);
	ck_assert_uint_eq(view->catalog.packets, 8500);
	query = pri_query_create(view, &spec, &err);
	ck_assert_ptr_nonnull(query);
	while (rc != PR_SOURCE_END) {
		rc = pri_query_next(query, &p, &err);
		ck_assert_int_ne(rc, PR_SOURCE_ERROR);
		if (rc != PR_SOURCE_PACKET || got++)
			continue;
		kill(writer, SIGKILL);
		ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
		/* the kernel may hold its lock a moment longer */
		for (int64_t until = pr_now_mono() + 20 * PR_NS_PER_S;
			view->catalog.packets >= 8500 && pr_now_mono() < until;)
			refresh(view);
		ck_assert_uint_lt(view->catalog.packets, 8500);
	}
	ck_assert_uint_eq(got, 8000);
	pri_query_destroy(&query);
	pri_volume_close(&view);
}
END_TEST

/* A logger begins: the ledger is read again, little by little. Until all of it is read, answers have the one before. */
START_TEST(ledger_read_again)
{
	struct pr_ledger_entry loss = {.type = PR_LEDGER_LOSS};
	const struct sfs_open_options open = {.writer = true, .shm_bytes = 4 << 20};
	const char *paths[] = {path};
	struct pri_volume *view;
	unsigned calls = 0;
	int rc;

	open_writer(16 << 20);
	for (uint64_t i = 0; i < 50; i++) {
		loss.u.loss = pr_loss_of(1, 0, 1 + 10 * i, 100 * S, PR_LOSS_SWITCH, false);
		write_ledger(&loss);
	}
	write_epoch(1, 100 * S, 1000, 100);
	view = open_view();
	refresh(view);
	ck_assert_uint_eq(view->ledger.missing, 50);
	sfs_close(&w.sfs);
	w.sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_ptr_nonnull(w.sfs);
	loss.u.loss = pr_loss_of(1, 0, 999, 101 * S, PR_LOSS_SWITCH, false);
	write_ledger(&loss);
	do {
		rc = pri_volume_refresh(view, false, pr_now_mono() - 1, &err);
		ck_assert_int_ge(rc, 0);
		ck_assert_uint_ge(view->ledger.missing, 50);
	} while (++calls < 1000 && (rc == 1 || view->ledger.missing < 51));
	ck_assert_uint_gt(calls, 50);
	ck_assert_uint_eq(view->ledger.missing, 51);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* One byte of a segment turned on the device: it is skipped and counted, the rest is given. */
/* A stream of which nothing is left has no oldest record: what an answer still looks for was deleted, too. */
START_TEST(deleted_while_asked)
{
	struct pri_query_spec spec = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct sfs_trimmed trimmed = SFS_TRIMMED_NONE;
	struct sfs_stream_info info;
	struct pri_volume *view;
	struct pri_query *query;
	struct pr_packet p;
	size_t got = 1;

	srandom(14);
	open_writer(16 << 20);
	view = open_view();
	write_epoch(1, 1000000, 12000, 100);
	flush_directory();
	refresh(view);
	query = pri_query_create(view, &spec, &err);
	ck_assert_ptr_nonnull(query);
	ck_assert_int_eq(pri_query_next(query, &p, &err), PR_SOURCE_PACKET);
	for (size_t i = 0; sfs_stream_info(w.sfs, i, &info, NULL) == SFS_OK; i++)
		if (!strncmp(info.name, "packets.", 8))
			ck_assert_int_eq(
				sfs_trim(w.sfs, (int)info.id, INT64_MAX, 0, &trimmed, &err),
				SFS_OK);
	ck_assert(trimmed.records > 0 && !trimmed.more);
	for (int rc = PR_SOURCE_WAIT; rc != PR_SOURCE_END; got += rc == PR_SOURCE_PACKET)
		ck_assert_int_ne(rc = pri_query_next(query, &p, &err), PR_SOURCE_ERROR);
	ck_assert_uint_lt(got, 12000);
	ck_assert_uint_eq(pri_query_stats(query)->corrupt_records, 0);
	pri_query_destroy(&query);
	pri_volume_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

START_TEST(corrupt_is_skipped)
{
	struct pri_volume *view;
	struct question all = {PR_TIME_MIN, PR_TIME_MAX, "", NULL, 0, false};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct sfs_handle bad;
	struct pri_answer *a;
	enum pri_answer_state state;
	uint64_t got = 0, lost = 0;
	FILE *f;

	srandom(13);
	open_writer(16 << 20);
	write_epoch(1, 1000000, 5000, 100);
	flush_directory();
	sfs_close(&w.sfs);
	sort_model();
	view = open_view();
	refresh(view);
	ask(view, &all);
	pri_volume_close(&view);
	bad = model[2500].handle;
	for (size_t i = 0; i < model_count; i++)
		lost += !memcmp(&model[i].handle, &bad, sizeof(bad));
	f = fopen(path, "r+");
	/* its first packet's bytes are somewhere in the file: turn the one that is ours */
	ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
	long size = ftell(f);
	uint8_t *bytes = malloc((size_t)size);
	rewind(f);
	ck_assert_uint_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
	for (long at = 0; at + 64 < size; at += 8)
		if (!memcmp(bytes + at, model[2500].data, 60)) {
			fseek(f, at + 10, SEEK_SET);
			fputc(bytes[at + 10] ^ 1, f);
		}
	fclose(f);
	free(bytes);
	view = open_view();
	refresh(view);
	query.since = PR_TIME_MIN;
	query.until = PR_TIME_MAX;
	a = pri_answer_create(view, &query, &err);
	while ((state = pri_answer_step(a, INT64_MAX, &err)) != PRI_ANSWER_END)
		ck_assert_int_eq(state, PRI_ANSWER_BATCH);
	got = pri_answer_end(a, &err)->matched;
	ck_assert_uint_ge(pri_answer_end(a, &err)->corrupt_records, 1);
	ck_assert_uint_lt(got, model_count);
	ck_assert_uint_ge(got, model_count - 4 * lost - 400);
	pri_answer_destroy(&a);
	pri_volume_close(&view);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_checked_fixture(tests, make_volume, remove_volume);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, recycled_is_evicted);
	tcase_add_test(tests, recycled_while_asked);
	tcase_add_test(tests, deleted_while_asked);
	tcase_add_test(tests, points_around_the_range);
	tcase_add_test(tests, epochs_around_the_range);
	tcase_add_test(tests, drops_before_the_oldest);
	tcase_add_test(tests, deleted_after_an_epoch);
	tcase_add_test(tests, ledger_read_again);
	tcase_add_test(tests, killed_while_asked);
	tcase_add_test(tests, corrupt_is_skipped);
}

int
main(void)
{
	return unit_run("query of what is gone", fill);
}
