/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers in processes of their own, while one writes round the volume again and again: each gets right records,
 * in order, or is told that they have expired; the writer waits for none of them, nor for one that was killed
 * amid a read. And writing where io_uring is not to be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"
#include "tests/unit/streamfs_file.h"
#include "tests/unit/unit.h"

enum {
	READERS = 6,
	KILLED = 2,
	RECORDS = 12000,
	MOST = 12000,
	ENOUGH = 200,
	STRETCH = 300,
	HALT = 25
};

static void
setup(void)
{
	make_volume(&(struct sfs_create_options){.size = 8 << 20, .block_size = 65536});
	struct sfs *w = open_volume(true);
	ck_assert_int_eq(sfs_stream_open(w, "a", 0, 0, &err), 0);
	sfs_close(&w);
}

static size_t
make_body(uint8_t *to, uint64_t n)
{
	size_t len = 8 + n * 2654435761u % (MOST - 8);
	memset(to, (int)(n % 251), len);
	memcpy(to, &n, 8);
	return len;
}

static void
append(struct sfs *w, uint64_t n)
{
	uint8_t body[MOST];
	size_t len = make_body(body, n);
	ck_assert_msg(
		sfs_append(w, 0, (int64_t)n, (int64_t)n, body, len, NULL, &err) == SFS_OK,
		"record %lu: %s", (unsigned long)n, err.text);
}

/* ---- a reader; its exit status says what it has met ---- */

enum { READ_ALL, READ_WRONG, READ_LATE, READ_FEW, READ_REFUSED, READ_ORDER, READ_HANDLE };

static bool
is_right(const struct sfs_record *r)
{
	uint8_t body[MOST];
	size_t len = make_body(body, r->sequence);
	return r->length == len && memcmp(r->body, body, len) == 0 &&
	       r->min_time == (int64_t)r->sequence;
}

/* By its handle, some records later: it is there, or recycled. */
static bool
read_again(struct sfs *sfs, const struct sfs_handle *h, uint64_t n)
{
	struct sfs_record r;
	int rc = sfs_read(sfs, h, NULL, 0, NULL, &r, &err);
	return rc == SFS_EXPIRED || (rc == SFS_OK && r.sequence == n && is_right(&r));
}

static bool
still_written(struct sfs *sfs)
{
	struct sfs_stream_info info;
	return sfs_stream_info(sfs, 0, &info, &err) == SFS_OK &&
	       info.last_sequence < RECORDS;
}

/* The next record: by a copy, or where it lies in shared memory, which counts only if it was whole all the while. */
static int
read_next(struct sfs_cursor *c, struct sfs_record *r, bool there)
{
	if (there && sfs_cursor_peek_shared(c, r) == 1) {
		bool right = is_right(r);
		if (sfs_cursor_confirm(c, r))
			return right ? 1 : SFS_CORRUPT;
	}
	int rc = sfs_cursor_next(c, r, &err);
	return rc == 1 && !is_right(r) ? SFS_CORRUPT : rc;
}

/* behind: again and again from the oldest on, which the writer is about to write over; else along with the writer. */
static int
read_on(int reached, bool behind)
{
	struct sfs *sfs = open_volume(false);
	struct sfs_cursor *c = sfs_cursor_open(sfs, 0, NULL, &err);
	struct sfs_handle kept = {0};
	struct sfs_record r;
	uint64_t last = 0, count = 0, kept_n = 0;
	int64_t end = pr_now_mono() + 50 * PR_NS_PER_S;
	while (last < RECORDS) {
		int rc = read_next(c, &r, !behind);
		if (pr_now_mono() > end)
			return READ_LATE;
		if (rc == 0)
			poll(NULL, 0, 1);
		if (rc == 0 || rc == SFS_EXPIRED)
			continue;
		if (rc != 1)
			return rc == SFS_CORRUPT ? READ_WRONG : READ_REFUSED;
		if (r.sequence <= last)
			return READ_ORDER;
		last = r.sequence;
		if (behind && count % STRETCH == STRETCH - 1 && still_written(sfs)) {
			sfs_cursor_close(&c);
			c = sfs_cursor_open(sfs, 0, NULL, &err);
			last = 0;
		}
		if (!c)
			return READ_REFUSED;
		if (++count == ENOUGH && write(reached, "", 1) != 1)
			return READ_WRONG;
		if (count % 32 == 31 && kept_n && !read_again(sfs, &kept, kept_n))
			return READ_HANDLE;
		if (count % 32 == 0) {
			kept = r.handle;
			kept_n = last;
		}
	}
	return count >= ENOUGH ? READ_ALL : READ_FEW;
}

static pid_t
start_reader(int go, int go_other, int reached, bool behind)
{
	pid_t child = fork();
	char c;
	ck_assert_int_ge(child, 0);
	if (child > 0)
		return child;
	close(go_other);
	/* its end: the writer is there */
	while (read(go, &c, 1) < 0 && errno == EINTR)
		;
	_exit(read_on(reached, behind));
}

/* Meanwhile one reader after the other is halted, wherever it is, and goes on when what it saw is something else. */
static void
append_beside(struct sfs *w, uint64_t *n, uint64_t to, const pid_t *child, int from)
{
	int halted = -1;
	while (*n < to) {
		append(w, ++*n);
		if (*n % HALT)
			continue;
		if (halted >= 0)
			kill(child[halted], SIGCONT);
		halted = from + (int)(*n / HALT % (uint64_t)(READERS - from));
		kill(child[halted], SIGSTOP);
	}
	if (halted >= 0)
		kill(child[halted], SIGCONT);
}

/* All of them are at it: some go without a word. */
static void
all_reach(int reached, const pid_t *child)
{
	struct pollfd p = {.fd = reached, .events = POLLIN};
	siginfo_t ended;
	char c;
	for (int n = 0; n < READERS;) {
		if (poll(&p, 1, 100) == 1 && read(reached, &c, 1) == 1) {
			n++;
			continue;
		}
		for (int i = 0; i < READERS; i++) {
			ended.si_pid = 0;
			ck_assert_int_eq(waitid(P_PID, (id_t)child[i], &ended,
						 WEXITED | WNOHANG | WNOWAIT),
				0);
			ck_assert_msg(ended.si_pid == 0, "reader %d ended early: %d", i,
				ended.si_status);
		}
	}
}

START_TEST(test_many_readers)
{
	int go[2], reached[2], status;
	pid_t child[READERS];
	ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(reached, O_CLOEXEC), 0);
	for (int i = 0; i < READERS; i++)
		child[i] = start_reader(go[0], go[1], reached[1], i % 2);
	struct sfs *w = open_volume(true);
	close(go[1]);
	uint64_t n = 0;
	append_beside(w, &n, RECORDS / 2, child, 0);
	all_reach(reached[0], child);
	for (int i = 0; i < KILLED; i++)
		kill(child[i], SIGKILL);
	append_beside(w, &n, RECORDS, child, KILLED);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	for (int i = 0; i < READERS; i++) {
		ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
		if (i < KILLED)
			ck_assert(WIFSIGNALED(status));
		else
			ck_assert_msg(status == READ_ALL, "reader %d: status %#x", i,
				(unsigned)status);
	}
	struct sfs_stream_info info;
	ck_assert_int_eq(sfs_stream_info(w, 0, &info, &err), SFS_OK);
	ck_assert_uint_gt(info.recycled_records, RECORDS / 2);
	sfs_close(&w);
}
END_TEST

enum { WORDS = 3, PAUSE = 5, PATIENCE = 90 /* ms: of a reader, nearly */ };
static _Atomic uint64_t words[1 + WORDS];
static uint64_t seq;

static void *
go_on(void *arg)
{
	poll(NULL, 0, PAUSE);
	sfs_words_put(words + 1, arg, WORDS);
	sfs_seq_end(words, seq);
	return NULL;
}

/* It may give up once it has waited, as a writer may be away for long on a busy machine. */
static bool
read_or_gave_up(uint64_t *got)
{
	int64_t begin = pr_now_mono();
	bool found = sfs_seq_read(words, got, WORDS);

	ck_assert(found || pr_now_mono() - begin >= PATIENCE * PR_NS_PER_MS);
	return found;
}

/* A writer loses its CPU while it writes what readers look at: they wait, and one that is dead they give up. */
START_TEST(test_writer_pauses)
{
	uint64_t said[WORDS] = {7, 8, 9}, got[WORDS] = {0};
	pthread_t thread;
	for (int i = 0; i < 20; i++) {
		said[0]++;
		seq = sfs_seq_begin(words);
		ck_assert_int_eq(pthread_create(&thread, NULL, go_on, said), 0);
		while (!read_or_gave_up(got))
			;
		pthread_join(thread, NULL);
		ck_assert_mem_eq(got, said, sizeof(said));
	}
	sfs_seq_begin(words);
	ck_assert(!read_or_gave_up(got));
}
END_TEST

/* A writer that is still starting has no table yet: a reader must not take the volume for empty. */
START_TEST(test_writer_starts)
{
	struct sfs *r = open_volume(false);
	struct sfs_shm writers, readers;
	ck_assert_int_eq(sfs_shm_create(&writers, &r->root, 1 << 20, true, &err), 0);
	ck_assert_int_eq(sfs_shm_attach(&readers, &r->root, geteuid()), -1);
	sfs_shm_publish(&writers);
	ck_assert_int_eq(sfs_shm_attach(&readers, &r->root, geteuid()), 0);
	sfs_shm_close(&readers, false);
	sfs_shm_close(&writers, true);
	sfs_close(&r);
}
END_TEST

/* As containers do; for the rest of this process. */
static void
deny_uring(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(test_uring_denied)
{
	deny_uring(_i ? ENOSYS : EPERM);
	struct sfs *w = open_volume(true);
	ck_assert_str_eq(w->w->queue.name, "thread");
	for (uint64_t n = 1; n <= 400; n++)
		append(w, n);
	ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	ck_assert_uint_eq(sfs_durable(w, 0), 400);
	sfs_close(&w);
	struct sfs *r = open_volume(false);
	struct sfs_cursor *c = sfs_cursor_open(r, 0, NULL, &err);
	struct sfs_record record;
	uint64_t last = 0;
	while (sfs_cursor_next(c, &record, &err) == 1) {
		ck_assert(record.sequence == last + 1 && is_right(&record));
		last = record.sequence;
	}
	ck_assert_uint_eq(last, 400);
	ck_assert_int_eq(sfs_check(r, NULL, NULL, NULL, &err), 0);
	sfs_cursor_close(&c);
	sfs_close(&r);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, remove_file);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_many_readers);
	tcase_add_test(tc, test_writer_pauses);
	tcase_add_test(tc, test_writer_starts);
	tcase_add_loop_test(tc, test_uring_denied, 0, 2);
}

int
main(void)
{
	return unit_run("streamfs readers", fill);
}
