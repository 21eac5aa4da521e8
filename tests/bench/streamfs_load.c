/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of Hyperion's experiments (section 7): streams of differing rates, arrivals of random size
 * with a mean of 64 KB, as fast as they are taken; beside it random reads of 4 KB from another
 * process, a fixed number of them for each arrival. Onto a StreamFS volume, each arrival a record, or onto
 * a file system, as rotated log files of 64 MB. A read of a volume is of a whole record, proof and
 * all, one that was an arrival of 3 to 5 KB (a thirtieth of all are), as a volume knows no other reads; a read
 * of a file is of a 4 KB block, anywhere in any of them, which opens the file.
 *
 *   streamfs_load volume PATH[,PATH...] | files DIR[,DIR...]   streams=N shm=BYTES room=BYTES
 *
 * room: of all log files (files), which go to the directories in turn.
 * Commands come on standard input, an answer in JSON goes out for each:
 *   fill BYTES          writes so much, as fast as possible
 *   sync                what is in memory goes to the devices
 *   run SECONDS READS   one-second intervals, READS random reads per arrival
 * An interval says how long it was, and what was appended and read in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "tests/bench/log_files.h"

#define STREAMS_MAX LOG_STREAMS_MAX
#define MEAN 65536
#define LARGEST (512 * 1024)
#define READ_LEAST 3072 /* records that are read */
#define READ_MOST 5120
#define READ_ROOM 16384 /* the sectors of one */
#define ARRIVALS 65536
#define PLACES (1u << 20)
#define SECONDS_MAX 600
#define WARM 1 /* seconds before the first interval that counts */

struct place { /* where something to be read lies */
	struct sfs_handle handle;
};
struct shared { /* with the reading process */
	_Atomic uint64_t places,
		oldest; /* numbers ever given; from oldest on they are there */
	_Atomic uint64_t wanted, done, expired;
	_Atomic bool stop, active; /* active: reads are wanted in this run */
	struct place place[PLACES];
};
struct arrival {
	uint32_t stream, length;
};
struct load {
	struct shared *shared;
	struct arrival *arrival;
	uint64_t next, streams, shm;
	uint8_t *body;
	struct sfs *sfs; /* NULL: files */
	int id[STREAMS_MAX];
	int64_t ticked;
	struct log_files files; /* its paths are the volume's as well */
};
struct interval {
	int64_t until; /* ns */
	uint64_t bytes, reads; /* so far */
};

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "streamfs_load: %s: %s\n", what, why);
	exit(1);
}

static uint64_t
rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/* Stream i gets i + 1 shares of the arrivals; their sizes are spread exponentially. */
static void
make_arrivals(struct load *l)
{
	uint64_t s = 20070617, shares = l->streams * (l->streams + 1) / 2;
	l->arrival = calloc(ARRIVALS, sizeof(*l->arrival));
	for (uint32_t i = 0; l->arrival && i < ARRIVALS; i++) {
		uint64_t share = rnd(&s) % shares;
		uint32_t stream = 0;
		while (share >= stream + 1)
			share -= ++stream;
		double u = ((double)(rnd(&s) >> 11) + 1) / 9007199254740993.0;
		double length = -MEAN * log(u);
		l->arrival[i] = (struct arrival){stream, length > LARGEST ? LARGEST
							 : length < 512   ? 512
									: (uint32_t)length};
	}
}

static void
note_place(struct load *l, const struct sfs_handle *handle)
{
	uint64_t n = atomic_load(&l->shared->places);
	if (n - atomic_load(&l->shared->oldest) >= PLACES)
		atomic_fetch_add(&l->shared->oldest, 1);
	l->shared->place[n % PLACES].handle = *handle;
	atomic_store(&l->shared->places, n + 1);
}

/* ---- a volume ---- */

static void
volume_open(struct load *l)
{
	struct pr_error err = {0};
	struct sfs_open_options o = {.writer = true, .shm_bytes = l->shm};
	char name[32];
	l->sfs = sfs_open(l->files.paths, l->files.path_count, &o, &err);
	if (!l->sfs)
		die("open", err.text);
	for (uint32_t i = 0; i < l->streams; i++) {
		snprintf(name, sizeof(name), "stream.%u", i);
		l->id[i] = sfs_stream_open(l->sfs, name, 0, 0, &err);
		if (l->id[i] < 0)
			die(name, err.text);
	}
}

static void
volume_write(struct load *l, uint32_t stream, uint32_t length, int64_t now)
{
	struct sfs_handle handle;
	struct pr_error err = {0};
	if (sfs_append(l->sfs, l->id[stream], now, now, l->body, length, &handle, &err) !=
		SFS_OK)
		die("append", err.text);
	if (length >= READ_LEAST && length < READ_MOST)
		note_place(l, &handle);
	if (now - l->ticked < PR_NS_PER_MS)
		return;
	l->ticked = now;
	if (sfs_tick(l->sfs, now, &err) != SFS_OK)
		die("tick", err.text);
}

static int
volume_read(struct sfs *sfs, const struct load *l, uint64_t n, uint8_t *buf)
{
	struct pr_error err = {0};
	struct sfs_record record;
	int rc = sfs_read_in(
		sfs, &l->shared->place[n % PLACES].handle, buf, READ_ROOM, &record, &err);
	if (rc != SFS_OK && rc != SFS_EXPIRED && rc != SFS_FORGED)
		die("read", err.text);
	return rc == SFS_OK;
}

/* ---- both ---- */

static void
one_read(struct load *l, struct sfs *sfs, uint64_t *seed, uint8_t *buf)
{
	uint64_t from = atomic_load(&l->shared->oldest),
		 to = atomic_load(&l->shared->places);
	if (to == from)
		return;
	uint64_t n = from + rnd(seed) % (to - from);
	int good = sfs ? volume_read(sfs, l, n, buf)
		       : files_read(&l->files, n, rnd(seed), buf);
	atomic_fetch_add(good ? &l->shared->done : &l->shared->expired, 1);
}

/* The reading process: keeps up with what is wanted, one read at a time. */
static void
reader(struct load *l, bool volume)
{
	struct pr_error err = {0};
	struct sfs_open_options o = {0};
	struct sfs *sfs =
		volume ? sfs_open(l->files.paths, l->files.path_count, &o, &err) : NULL;
	uint8_t *buf = aligned_alloc(4096, READ_ROOM);
	uint64_t seed = 4711;
	if (!buf || (volume && !sfs))
		die("reader", err.text);
	while (!atomic_load(&l->shared->stop)) {
		if (atomic_load(&l->shared->done) < atomic_load(&l->shared->wanted))
			one_read(l, sfs, &seed, buf);
		else
			usleep(atomic_load(&l->shared->active) ? 200 : 50000);
	}
	sfs_close(&sfs);
	exit(0);
}

static uint32_t
one_write(struct load *l, int64_t now)
{
	const struct arrival *a = &l->arrival[l->next++ % ARRIVALS];
	if (l->sfs)
		volume_write(l, a->stream, a->length, now);
	else
		files_write(&l->files, a->stream, l->body, a->length);
	if (!l->sfs) {
		atomic_store(&l->shared->places, l->files.files);
		atomic_store(&l->shared->oldest, l->files.oldest);
	}
	return a->length;
}

static double
cpu_seconds(int who)
{
	struct rusage u;
	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void
fill(struct load *l, uint64_t bytes)
{
	int64_t begin = pr_now_mono();
	for (uint64_t done = 0; done < bytes;)
		done += one_write(l, pr_now_mono());
	double seconds = (double)(pr_now_mono() - begin) / 1e9;
	printf("{\"seconds\": %.3f, \"rate\": %.0f}\n", seconds, (double)bytes / seconds);
}

static void
sync_all(struct load *l)
{
	struct pr_error err = {0};
	if (l->sfs && sfs_flush(l->sfs, &err) != SFS_OK)
		die("flush", err.text);
	for (size_t i = 0; !l->sfs && i < l->files.path_count; i++) {
		int fd = open(l->files.paths[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syncfs(fd) < 0)
			die(l->files.paths[i], strerror(errno));
		close(fd);
	}
	printf("{}\n");
}

static struct interval
look(struct load *l, int64_t begin, uint64_t bytes)
{
	struct interval i = {.bytes = bytes, .reads = atomic_load(&l->shared->done)};
	i.until = pr_now_mono() - begin;
	return i;
}

static void
tell(const struct interval *at, int count, double cpu, uint64_t total)
{
	printf("{\"cpu\": %.3f, \"total\": %lu, \"intervals\": [", cpu,
		(unsigned long)total);
	for (int i = 1; i <= count; i++)
		printf("%s{\"seconds\": %.6f, \"appended\": %lu, \"reads\": %lu}",
			i > 1 ? ", " : "", (double)(at[i].until - at[i - 1].until) / 1e9,
			(unsigned long)(at[i].bytes - at[i - 1].bytes),
			(unsigned long)(at[i].reads - at[i - 1].reads));
	printf("]}\n");
}

/* One-second intervals, the first WARM of them left out. */
static void
run(struct load *l, int seconds, double reads)
{
	static struct interval at[SECONDS_MAX + WARM + 1];
	int64_t begin = pr_now_mono(), now = begin;
	double owed = 0, cpu = 0;
	uint64_t total = 0;
	int end = seconds + WARM;
	atomic_store(&l->shared->wanted, atomic_load(&l->shared->done));
	atomic_store(&l->shared->active, reads > 0);
	at[0] = look(l, begin, 0);
	for (int second = 0; second < end; now = pr_now_mono()) {
		if (now - begin >= (second + 1) * PR_NS_PER_S) {
			at[++second] = look(l, begin, total);
			if (second == WARM)
				cpu = cpu_seconds(RUSAGE_SELF);
			continue;
		}
		total += one_write(l, now);
		owed += reads;
		if (owed >= 1) {
			atomic_fetch_add(&l->shared->wanted, (uint64_t)owed);
			owed -= (double)(uint64_t)owed;
		}
	}
	cpu = cpu_seconds(RUSAGE_SELF) - cpu;
	atomic_store(&l->shared->wanted, 0);
	atomic_store(&l->shared->active, false);
	tell(at + WARM, seconds, cpu, total);
}

static void
commands(struct load *l)
{
	char line[100];
	int seconds;
	double n;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "fill %lf", &n) == 1)
			fill(l, (uint64_t)n);
		else if (strcmp(line, "sync\n") == 0)
			sync_all(l);
		else if (sscanf(line, "run %d %lf", &seconds, &n) == 2 && seconds > 0 &&
			 seconds <= SECONDS_MAX)
			run(l, seconds, n);
		else
			die("no command", line);
		fflush(stdout);
	}
}

static void
parse(struct load *l, int argc, char **argv)
{
	struct log_files *f = &l->files;
	for (char *p = strtok(argv[2], ","); p && f->path_count < 8; p = strtok(NULL, ","))
		f->paths[f->path_count++] = p;
	for (int i = 3; i < argc; i++) {
		char *v = strchr(argv[i], '=');
		uint64_t n = v ? strtoull(v + 1, NULL, 0) : 0;
		if (strncmp(argv[i], "streams=", 8) == 0 && n > 0 && n <= STREAMS_MAX)
			l->streams = n;
		else if (strncmp(argv[i], "shm=", 4) == 0)
			l->shm = n;
		else if (strncmp(argv[i], "room=", 5) == 0)
			f->room = n;
		else
			die("bad argument", argv[i]);
	}
}

int
main(int argc, char **argv)
{
	static struct load l = {.streams = 32, .shm = 64u << 20};
	if (argc < 3 || (strcmp(argv[1], "volume") != 0 && strcmp(argv[1], "files") != 0))
		die("usage", "streamfs_load volume PATH[,PATH] | files DIR[,DIR] "
			     "[key=value...]");
	bool volume = strcmp(argv[1], "volume") == 0;
	l.files.room = UINT64_C(2) << 30;
	parse(&l, argc, argv);
	l.shared = mmap(NULL, sizeof(*l.shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	l.body = calloc(1, LARGEST);
	make_arrivals(&l);
	if (l.shared == MAP_FAILED || !l.body || !l.arrival)
		die("memory", strerror(errno));
	for (int i = 0; i < STREAMS_MAX; i++)
		l.files.fd[i] = -1;
	int gate[2];
	if (pipe(gate) < 0)
		die("pipe", strerror(errno));
	pid_t child = fork();
	if (child == 0) {
		char go;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(0);
		close(gate[1]);
		if (read(gate[0], &go, 1) == 1)
			reader(&l, volume);
		exit(0);
	}
	if (volume)
		volume_open(&l);
	if (write(gate[1], "g", 1) != 1)
		die("pipe", strerror(errno));
	commands(&l);
	atomic_store(&l.shared->stop, true);
	waitpid(child, NULL, 0);
	sfs_close(&l.sfs);
	return 0;
}
