/* SPDX-License-Identifier: Apache-2.0 */
/* A volume in several processes: readers beside the writer, writers that are killed, and one at a time. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/streamfs_records.h"
#include "tests/unit/unit.h"

static void
wait_for(pid_t child)
{
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %#x", status);
}

/* A reader in another process sees each record as soon as it is appended, and no other. */
START_TEST(test_reader_follows)
{
	enum { RECORDS = 3000 };
	int go[2];
	create(16 << 20, 65536);
	ck_assert_int_eq(pipe(go), 0);
	pid_t child = fork();
	if (child == 0) {
		char c;
		close(go[1]);
		ck_assert_int_eq(read(go[0], &c, 1), 1);
		struct sfs *r = open_volume(false);
		int a = sfs_stream_find(r, "a");
		struct sfs_cursor *cursor = sfs_cursor_open(r, a, NULL, &err);
		struct sfs_record rec;
		uint64_t next = 1;
		time_t end = time(NULL) + 20;
		char note[64];
		while (next <= RECORDS && time(NULL) < end) {
			int rc = sfs_cursor_next(cursor, &rec, &err);
			if (rc == 1)
				expect(&rec, a, next++, 8000);
			else if (rc != 0)
				_exit(2);
		}
		bool noted = sfs_note_get(r, note, sizeof(note)) && strcmp(note, "{}") == 0;
		_exit(next == RECORDS + 1 && noted ? 0 : 1);
	}
	close(go[0]);
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	sfs_note_set(w, "{}");
	ck_assert_int_eq(write(go[1], "", 1), 1);
	for (uint64_t n = 1; n <= RECORDS; n++)
		append(w, a, n, 8000);
	wait_for(child);
	close(go[1]);
	sfs_close(&w);
}
END_TEST

/* The reader falls behind the frontier: it is told so once, and goes on with what there is. */
START_TEST(test_reader_is_overtaken)
{
	struct sfs *w = create_open(4 << 20);
	int a = sfs_stream_open(w, "a", 0, 0, &err);
	struct sfs *r = open_volume(false);
	for (uint64_t n = 1; n <= 20; n++)
		append(w, a, n, 30000);
	struct sfs_cursor *c = sfs_cursor_open(r, a, NULL, &err);
	struct sfs_record rec;
	ck_assert_int_eq(sfs_cursor_next(c, &rec, &err), 1);
	for (uint64_t n = 21; n <= 1000; n++)
		append(w, a, n, 30000);
	int rc, expired = 0;
	uint64_t last = 1;
	while ((rc = sfs_cursor_next(c, &rec, &err)) != 0) {
		if (rc == SFS_EXPIRED) {
			expired++;
			continue;
		}
		ck_assert_int_eq(rc, 1);
		ck_assert_uint_gt(rec.sequence, last);
		last = rec.sequence;
		expect(&rec, a, last, 30000);
	}
	ck_assert_int_eq(expired, 1);
	ck_assert_uint_eq(last, 1000);
	sfs_cursor_close(&c);
	sfs_close(&r);
	sfs_close(&w);
}
END_TEST

/* Appends and flushes for ever; tells what is durable, and is killed. */
static void
writer_child(int out)
{
	struct sfs *w = open_volume(true);
	int a = sfs_stream_open(w, "a", 0, 0, &err),
	    b = sfs_stream_open(w, "b", 1 << 19, 0, &err);
	uint64_t told[2], n[2] = {sfs_appended(w, a), sfs_appended(w, b)};
	for (;;) {
		for (int i = 0; i < 7; i++)
			append(w, a, ++n[0], 20000);
		append(w, b, ++n[1], 3000);
		if (n[1] % 5 == 0 && sfs_flush(w, &err) != SFS_OK)
			_exit(1);
		told[0] = sfs_durable(w, a);
		told[1] = sfs_durable(w, b);
		if (write(out, told, sizeof(told)) != sizeof(told))
			_exit(1);
	}
}

START_TEST(test_killed_writer)
{
	uint64_t told[2], last;
	create(8 << 20, 65536);
	struct sfs *r = NULL;
	for (int round = 0; round < 6; round++) {
		int out[2];
		ck_assert_int_eq(pipe(out), 0);
		pid_t child = fork();
		if (child == 0)
			writer_child(out[1]);
		close(out[1]);
		for (int i = 0; i < 20 + round * 17; i++)
			ck_assert_int_eq(read(out[0], told, sizeof(told)), sizeof(told));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		while (read(out[0], told, sizeof(told)) == sizeof(told))
			;
		close(out[0]);
		/* a reader beside the dead writer's shared memory, then the same one later */
		if (!r)
			r = open_volume(false);
		/* the kernel keeps the lock until the writes under way are through */
		struct sfs_volume_info info = {.writer_alive = true};
		for (time_t end = time(NULL) + 20; info.writer_alive && time(NULL) < end;)
			ck_assert_int_eq(sfs_info(r, &info, &err), SFS_OK);
		ck_assert_int_eq(sfs_refresh(r, &err), SFS_OK);
		ck_assert(!info.writer_alive);
		walk(r, 0, 20000, &last);
		ck_assert_uint_ge(last, told[0]);
		walk(r, 1, 3000, &last);
		ck_assert_uint_ge(last, told[1]);
		ck_assert_int_eq(sfs_check(r, NULL, NULL, NULL, &err), 0);
	}
	sfs_close(&r);
	r = open_volume(true); /* takes away what the killed one left in /dev/shm */
	sfs_close(&r);
}
END_TEST

START_TEST(test_one_writer)
{
	struct sfs_open_options o = {.writer = true};
	struct sfs_create_options again = {.size = 4 << 20, .force = true};
	struct sfs *w = create_open(4 << 20);
	ck_assert_ptr_null(sfs_open(paths, 1, &o, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "one writer"));
	ck_assert_int_lt(sfs_create(paths, 1, &again, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "stop it first"));
	sfs_close(&w);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, make_file, remove_file);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_reader_follows);
	tcase_add_test(t, test_reader_is_overtaken);
	tcase_add_test(t, test_killed_writer);
	tcase_add_test(t, test_one_writer);
}

int
main(void)
{
	return unit_run("streamfs processes", fill);
}
