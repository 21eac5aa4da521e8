/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead, reads that give way, and writes from registered memory in pieces. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"
#include "tests/unit/streamfs_file.h"
#include "tests/unit/unit.h"

#define BLOCK 65536
#define BODY 5000
#define RECORDS 600

static struct sfs *writer;
static int stream;

static void
fill_body(uint8_t *body, uint64_t n)
{
	for (size_t i = 0; i < BODY; i++)
		body[i] = (uint8_t)(n * 31 + i * (n % 7 + 1));
}

static void
append(uint64_t n)
{
	uint8_t body[BODY];
	fill_body(body, n);
	ck_assert_msg(sfs_append(writer, stream, (int64_t)n, (int64_t)n, body, BODY, NULL,
			      &err) == SFS_OK,
		"%s", err.text);
}

static struct sfs *
open_queue(bool write, bool no_direct)
{
	return open_with(&(struct sfs_open_options){
		.writer = write, .no_direct = no_direct, .shm_bytes = 4 * BLOCK});
}

static void
setup_queue(bool no_direct)
{
	make_volume(&(struct sfs_create_options){.size = 120 * BLOCK, .block_size = BLOCK});
	writer = open_queue(true, no_direct);
	stream = sfs_stream_open(writer, "s", 0, 0, &err);
	for (uint64_t n = 1; n <= RECORDS; n++)
		append(n);
	ck_assert(sfs_flush(writer, &err) == SFS_OK);
}

static void
setup(void)
{
	setup_queue(false);
}

static void
setup_threads(void)
{
	setup_queue(true);
}

static void
teardown(void)
{
	sfs_close(&writer);
	remove_file();
}

static void
expect(const struct sfs_record *r)
{
	uint8_t body[BODY];
	fill_body(body, r->sequence);
	ck_assert_uint_eq(r->length, BODY);
	ck_assert_mem_eq(r->body, body, BODY);
}

/* All records in order; most: reads under way at any time. */
static uint64_t
walk(struct sfs *sfs, uint32_t *most)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	struct sfs_record r;
	uint64_t n = 0;
	*most = 0;
	while (sfs_cursor_next(c, &r, &err) == 1) {
		ck_assert_uint_eq(r.sequence, ++n);
		expect(&r);
		*most = sfs->reads.in_flight > *most ? sfs->reads.in_flight : *most;
	}
	sfs_cursor_close(&c);
	return n;
}

START_TEST(test_reads_ahead)
{
	struct sfs *sfs = open_queue(false, false);
	uint32_t most;
	ck_assert_uint_eq(walk(sfs, &most), RECORDS);
	ck_assert_uint_gt(most, 1);
	ck_assert_uint_le(most, SFS_AHEAD_BLOCKS);
	ck_assert_uint_eq(sfs->reads.in_flight, 0);
	sfs_close(&sfs);
}
END_TEST

START_TEST(test_gives_way)
{
	struct sfs *sfs = open_queue(false, false);
	uint32_t most;
	atomic_store(&writer->shm.header->backlog, 1000);
	ck_assert_uint_eq(walk(sfs, &most), RECORDS);
	ck_assert_uint_eq(most, 0);
	sfs_close(&sfs);
}
END_TEST

/* What was read ahead may have been recycled and be something else by the time it is looked at. */
START_TEST(test_recycled_meanwhile)
{
	struct sfs *sfs = open_queue(false, false);
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	struct sfs_record r;
	uint64_t last = 0, appended = RECORDS, expired = 0;
	while (last < 3000) {
		int rc = sfs_cursor_next(c, &r, &err);
		ck_assert_msg(
			rc == 1 || rc == 0 || rc == SFS_EXPIRED, "%d: %s", rc, err.text);
		expired += rc == SFS_EXPIRED;
		if (rc == 1) {
			ck_assert_uint_gt(r.sequence, last);
			last = r.sequence;
			expect(&r);
		}
		/* now and then the writer goes once round the volume */
		for (int i = 0; rc == 1 && last % 250 == 249 && i < 1400; i++)
			append(++appended);
		append(++appended);
	}
	ck_assert_uint_gt(expired, 0);
	sfs_cursor_close(&c);
	sfs_close(&sfs);
}
END_TEST

/* What is under way is told to readers, and none is when all is written. */
START_TEST(test_backlog)
{
	uint32_t most = 0;
	for (uint64_t n = 1; n <= 100; n++) {
		append(RECORDS + n);
		uint32_t now = atomic_load(&writer->shm.header->backlog);
		most = now > most ? now : most;
	}
	ck_assert_uint_gt(most, 0);
	ck_assert_uint_le(most, 1000);
	ck_assert(sfs_flush(writer, &err) == SFS_OK);
	ck_assert_uint_eq(atomic_load(&writer->shm.header->backlog), 0);
}
END_TEST

/* Long requests come back once and whole, from registered memory and from any other. */
START_TEST(test_long_requests)
{
	const size_t size = 20 * 1024 * 1024; /* more than the kernel is given at once */
	struct sfs_disk disk;
	struct sfs_queue q;
	char name[] = "/tmp/sfs-queue.XXXXXX";
	uint8_t *from = sfs_buffer(size), *to = sfs_buffer(size);
	close(mkstemp(name));
	ck_assert(sfs_disk_open(&disk, name, true, true, &err) == 0);
	ck_assert(sfs_queue_open(&q, (enum sfs_queue_kind)(_i % 3), &err) == 0);
	if (_i >= 3)
		sfs_queue_pin(&q, from, size);
	for (size_t i = 0; i < size; i++)
		from[i] = (uint8_t)(i * 7 + i / 4096);
	struct sfs_request w = {.disk = &disk, .buf = from, .len = size},
			   s = {.disk = &disk};
	struct sfs_request r = {.disk = &disk, .into = to, .len = size};
	struct sfs_request *each[] = {&w, &s, &r};
	for (size_t i = 0; i < 3; i++) {
		sfs_queue_submit(&q, each[i]);
		ck_assert_ptr_eq(sfs_queue_reap(&q, true), each[i]);
		ck_assert_int_eq(each[i]->error, 0);
		ck_assert_uint_eq(q.in_flight, 0);
	}
	ck_assert_mem_eq(from, to, size);
	/* past the end: an error, and once */
	r.offset = 4096;
	sfs_queue_submit(&q, &r);
	ck_assert_ptr_eq(sfs_queue_reap(&q, true), &r);
	ck_assert_int_eq(r.error, EIO);
	sfs_queue_close(&q);
	sfs_disk_close(&disk);
	unlink(name);
	free(from);
	free(to);
}
END_TEST

/* Writes that are few may gather, but who only looks, without waiting, has them on their way. */
START_TEST(test_gathered_writes)
{
	enum { COUNT = 20 };
	struct sfs_request w[COUNT];
	uint8_t *from = sfs_buffer(4096), *to = sfs_buffer(4096);
	char name[] = "/tmp/sfs-queue.XXXXXX";
	int64_t end = pr_now_mono() + 10 * PR_NS_PER_S;
	struct sfs_disk disk;
	struct sfs_queue q;
	memset(from, 'x', 4096);
	close(mkstemp(name));
	ck_assert(sfs_disk_open(&disk, name, true, true, &err) == 0);
	ck_assert(sfs_queue_open(&q, (enum sfs_queue_kind)_i, &err) == 0);
	for (size_t i = 0; i < COUNT; i++) {
		w[i] = (struct sfs_request){
			.disk = &disk, .buf = from, .len = 4096, .offset = i * 4096};
		sfs_queue_submit(&q, &w[i]);
	}
	while (q.in_flight > 0 && pr_now_mono() < end)
		for (struct sfs_request *r = sfs_queue_reap(&q, false); r; r = r->next)
			ck_assert_int_eq(r->error, 0);
	ck_assert_uint_eq(q.in_flight, 0);
	for (size_t i = 0; i < COUNT; i++) {
		ck_assert(sfs_disk_read(&disk, to, 4096, i * 4096) == 0);
		ck_assert_mem_eq(from, to, 4096);
	}
	sfs_queue_close(&q);
	sfs_disk_close(&disk);
	unlink(name);
	free(from);
	free(to);
}
END_TEST

/* A root does not wait behind the data of other blocks, and leaves their order alone. */
START_TEST(test_waiting_order)
{
	struct sfs_request data[3] = {0}, root = {.first = true}, sync = {.first = true};
	struct sfs_request *list = NULL, **tail = &list;
	sfs_request_wait(&list, &tail, &sync);
	ck_assert_ptr_eq(list, &sync);
	for (int i = 0; i < 2; i++)
		sfs_request_wait(&list, &tail, &data[i]);
	list = sync.next;
	sfs_request_wait(&list, &tail, &root);
	sfs_request_wait(&list, &tail, &data[2]);
	const struct sfs_request *want[] = {&root, &data[0], &data[1], &data[2]};
	for (size_t i = 0; i < 4; i++, list = list->next)
		ck_assert_ptr_eq(list, want[i]);
	ck_assert_ptr_null(list);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("streamfs ahead");
	TCase *t = tcase_create("io_uring"), *n = tcase_create("threads"),
	      *q = tcase_create("queue");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_reads_ahead);
	tcase_add_test(t, test_gives_way);
	tcase_add_test(t, test_recycled_meanwhile);
	tcase_add_test(t, test_backlog);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(n, setup_threads, teardown);
	tcase_add_test(n, test_recycled_meanwhile);
	tcase_add_test(n, test_backlog);
	suite_add_tcase(s, n);
	tcase_set_timeout(t, 60);
	tcase_set_timeout(n, 60);
	tcase_add_loop_test(q, test_long_requests, 0, 6);
	tcase_add_loop_test(q, test_gathered_writes, 0, 3);
	tcase_add_test(q, test_waiting_order);
	suite_add_tcase(s, q);
	return unit_run_suite(s);
}
