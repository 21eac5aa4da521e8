/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of a writer of real files, at any moment: while it opens and recovers, appends, flushes, recycles.
 * What it had reported durable through a pipe is there, each stream is one unbroken stretch of right
 * records, and the next writer goes on from there. SFS_KILLS=n: so many times, SFS_SEED=n: other moments.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "tests/unit/unit.h"

#define BLOCK SFS_BLOCK_MIN
#define STREAMS 4
#define KILLS 40

struct report {
	uint64_t durable[STREAMS];
};
static const size_t most[STREAMS] = {200, 4000, 30000, 60000}; /* bytes of a record */
static struct pr_error err;

static void
need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "writer: %s: %s\n", what, err.text);
	_exit(1);
}

/* The body that record n of a stream has: its length and bytes follow from both. */
static size_t
make_body(uint8_t *to, int stream, uint64_t n)
{
	uint64_t x = n * 0x9e3779b97f4a7c15u + (uint64_t)stream * 77777 + 1;
	size_t len = (x >> 20) % most[stream];
	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(to + i, &x, len - i < 8 ? len - i : 8);
	}
	return len;
}

static void
append(struct sfs *w, int stream, uint8_t *body)
{
	uint64_t n = sfs_appended(w, stream) + 1;
	int64_t t = (int64_t)n * 10;
	size_t len = make_body(body, stream, n);
	int rc;
	if (n % 3 == 0) {
		uint8_t *p = sfs_reserve(w, stream, len, &err);
		need(p != NULL, "reserve");
		memcpy(p, body, len);
		rc = sfs_commit(w, stream, t, t + 5, len, NULL, &err);
	} else {
		rc = sfs_append(w, stream, t, t + 5, body, len, NULL, &err);
	}
	need(rc == SFS_OK, "append");
}

static void
tell(const struct sfs *w, int out)
{
	struct report r;
	for (int i = 0; i < STREAMS; i++)
		r.durable[i] = sfs_durable(w, i);
	need(write(out, &r, sizeof(r)) == sizeof(r), "tell");
}

/* Until it is killed. odd: by the thread with pwrite, else by io_uring where it is to be had. */
static void
write_on(const char *const *paths, size_t count, bool odd, int out)
{
	struct sfs_open_options o = {.writer = true,
		.shm_bytes = 12 * BLOCK,
		.no_direct = odd,
		.flush_interval = 2000000};
	static uint8_t body[BLOCK];
	struct sfs *w = sfs_open(paths, count, &o, &err);
	need(w != NULL, "open");
	for (int i = 0; i < STREAMS; i++) {
		char name[8];
		snprintf(name, sizeof(name), "s%d", i);
		need(sfs_stream_open(w, name, i == 1 ? 8 * BLOCK : 0, 0, &err) == i,
			"stream");
	}
	for (uint64_t n = 1;; n++) {
		append(w, (int)(n * 7 / 3 % STREAMS), body);
		need(sfs_tick(w, pr_now_mono(), &err) == SFS_OK, "tick");
		if (n % 50 == 0)
			need(sfs_flush(w, &err) == SFS_OK, "flush");
		tell(w, out);
	}
}

/* The last report, when the pipe has run dry: so many ns, or until the writer is gone. */
static bool
listen_for(int in, int64_t ns, struct report *last)
{
	int64_t end = pr_now_mono() + ns, left;
	struct pollfd p = {.fd = in, .events = POLLIN};
	struct report r;
	while ((left = end - pr_now_mono()) > 0) {
		struct timespec t = {left / PR_NS_PER_S, left % PR_NS_PER_S};
		if (ppoll(&p, 1, &t, NULL) <= 0)
			continue;
		if (read(in, &r, sizeof(r)) != sizeof(r))
			return false;
		*last = r;
	}
	return true;
}

static void
walk(struct sfs *sfs, int stream, uint64_t durable)
{
	static uint8_t body[BLOCK];
	struct sfs_cursor *c = sfs_cursor_open(sfs, stream, NULL, &err);
	struct sfs_record r;
	uint64_t last = 0;
	int rc;
	ck_assert_msg(c != NULL, "%s", err.text);
	while ((rc = sfs_cursor_next(c, &r, &err)) == 1) {
		ck_assert(last == 0 || r.sequence == last + 1);
		last = r.sequence;
		ck_assert_uint_eq(r.length, make_body(body, stream, last));
		ck_assert(memcmp(r.body, body, r.length) == 0);
		ck_assert_int_eq(r.min_time, (int64_t)last * 10);
		ck_assert_int_eq(r.max_time, (int64_t)last * 10 + 5);
	}
	ck_assert_msg(rc == 0, "stream %d: %d %s", stream, rc, err.text);
	sfs_cursor_close(&c);
	if (last == 0) {
		struct sfs_stream_info info;
		ck_assert_int_eq(sfs_stream_info(sfs, (size_t)stream, &info, &err), SFS_OK);
		last = info.recycled_records;
	}
	ck_assert_msg(last >= durable, "stream %d: %lu were durable, %lu are there", stream,
		(unsigned long)durable, (unsigned long)last);
}

/* The kernel holds the dead writer's lock until its writes under way are through. */
static struct sfs *
open_after(const char *const *paths, size_t count)
{
	struct sfs_open_options o = {.writer = false};
	struct sfs *r = sfs_open(paths, count, &o, &err);
	struct sfs_volume_info info = {.writer_alive = true};
	ck_assert_msg(r != NULL, "%s", err.text);
	for (int64_t end = pr_now_mono() + 20 * PR_NS_PER_S;
		info.writer_alive && pr_now_mono() < end;)
		ck_assert_int_eq(sfs_info(r, &info, &err), SFS_OK);
	ck_assert_msg(!info.writer_alive, "the killed writer holds its lock");
	ck_assert_msg(sfs_refresh(r, &err) == SFS_OK, "%s", err.text);
	return r;
}

/* A root that the kill has torn is what the other copy is there for. */
static void
show_fault(void *arg, const struct sfs_fault *f)
{
	if (f->kind == SFS_FAULT_ROOT)
		return;
	++*(int *)arg;
	fprintf(stderr, "stream %s, block %lu, byte %u: %s\n", f->stream,
		(unsigned long)f->block, f->offset, f->why);
}

static void
kill_once(const char *const *paths, size_t count, uint64_t *rng, int round)
{
	struct report last = {0};
	int out[2], status;
	ck_assert_int_eq(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		close(out[0]);
		write_on(paths, count, round % 2, out[1]);
	}
	close(out[1]);
	*rng = *rng * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
	/* one in four while it opens */
	bool alive = true;
	if (round % 4)
		alive = read(out[0], &last, sizeof(last)) == sizeof(last);
	alive = alive && listen_for(out[0], (int64_t)((*rng >> 33) % 30000000), &last);
	kill(child, SIGKILL);
	while (read(out[0], &last, sizeof(last)) == sizeof(last))
		;
	close(out[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(alive && WIFSIGNALED(status), "the writer of round %d failed", round);
	struct sfs *r = open_after(paths, count);
	struct sfs_volume_info info;
	ck_assert_int_eq(sfs_info(r, &info, &err), SFS_OK);
	for (size_t i = 0; i < info.stream_count; i++)
		walk(r, (int)i, last.durable[i]);
	ck_assert(info.stream_count == STREAMS || last.durable[STREAMS - 1] == 0);
	int faults = 0;
	ck_assert_int_ge(sfs_check(r, show_fault, &faults, NULL, &err), 0);
	ck_assert_int_eq(faults, 0);
	sfs_close(&r);
}

static uint64_t
setting(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : usual;
}

/* _i + 1 files. */
START_TEST(test_kill)
{
	char name[2][64];
	const char *paths[2] = {name[0], name[1]};
	size_t count = (size_t)_i + 1;
	struct sfs_create_options o = {.size = count * 48 * BLOCK, .block_size = BLOCK};
	uint64_t rng = setting("SFS_SEED", 1) + (uint64_t)_i;
	for (size_t i = 0; i < count; i++) {
		snprintf(name[i], sizeof(name[i]), "/tmp/sfs-kill.XXXXXX");
		int fd = mkstemp(name[i]);
		ck_assert_int_ge(fd, 0);
		close(fd);
	}
	ck_assert_msg(sfs_create(paths, count, &o, &err) == 0, "%s", err.text);
	for (int round = 0; round < (int)setting("SFS_KILLS", KILLS / 2); round++)
		kill_once(paths, count, &rng, round);
	/* takes away what the last one left in /dev/shm */
	struct sfs_open_options w = {.writer = true};
	struct sfs *sfs = sfs_open(paths, count, &w, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	sfs_close(&sfs);
	for (size_t i = 0; i < count; i++)
		unlink(name[i]);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_set_timeout(tc, 3600);
	tcase_add_loop_test(tc, test_kill, 0, 2);
}

int
main(void)
{
	return unit_run("streamfs kill", fill);
}
