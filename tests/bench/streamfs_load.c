/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of Hyperion's experiments (section 7): streams of differing rates, arrivals of random size
 * with a mean of 64 KB, as fast as they are taken; beside it random reads of 4 KB from another
 * process, a fixed number of them for each arrival. Onto a StreamFS volume, or onto a file system as
 * rotated log files of 64 MB.
 *
 *   streamfs_load volume PATH[,PATH...] | files DIR[,DIR...]   streams=N shm=BYTES record=BYTES room=BYTES
 *
 * record: arrivals are cut into records of so much (volume; 0: whole). room: of all log files (files),
 * which go to the directories in turn.
 * Commands come on standard input, an answer in JSON goes out for each:
 *   fill BYTES          writes so much, as fast as possible
 *   run SECONDS READS   one-second intervals, READS random reads per arrival
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

#define STREAMS_MAX 32
#define MEAN 65536
#define LARGEST (512 * 1024)
#define READ_BYTES 4096
#define FILE_BYTES (64u << 20)
#define FILES_MAX 8192
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
	uint64_t next, streams, shm, record, room;
	uint8_t *body;
	const char *paths[8];
	size_t path_count;
	struct sfs *sfs; /* NULL: files */
	int id[STREAMS_MAX], fd[STREAMS_MAX];
	uint64_t file[STREAMS_MAX], size[STREAMS_MAX];
	uint64_t files, held; /* begun so far, and of them not deleted */
	uint64_t live[FILES_MAX]; /* numbers of those; finished ones in that order */
	int64_t ticked;
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
	l->sfs = sfs_open(l->paths, l->path_count, &o, &err);
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
	for (uint64_t at = 0, part; at < length; at += part) {
		part = l->record && length - at > l->record ? l->record : length - at;
		if (sfs_append(l->sfs, l->id[stream], now, now, l->body, part, &handle,
			    &err) != SFS_OK)
			die("append", err.text);
		note_place(l, &handle);
	}
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
		sfs, &l->shared->place[n % PLACES].handle, buf, LARGEST * 2, &record, &err);
	if (rc != SFS_OK && rc != SFS_EXPIRED && rc != SFS_FORGED)
		die("read", err.text);
	return rc == SFS_OK;
}

/* ---- log files ---- */

static void
file_name(const struct load *l, uint64_t n, char *to, size_t size)
{
	snprintf(to, size, "%s/log.%08lu", l->paths[n % l->path_count], (unsigned long)n);
}

static bool
being_written(const struct load *l, uint64_t file)
{
	for (uint32_t i = 0; i < l->streams; i++)
		if (l->fd[i] >= 0 && l->file[i] == file)
			return true;
	return false;
}

/*
 * The one that was finished first. Not the one begun first: that would be a slow stream's that has just been
 * finished, and a file system never writes what is deleted from its cache.
 */
static void
delete_oldest(struct load *l)
{
	char name[300];
	uint64_t i = 0;
	while (i < l->held && being_written(l, l->live[i]))
		i++;
	if (i == l->held)
		die("no room", "every log file is being written");
	file_name(l, l->live[i], name, sizeof(name));
	if (unlink(name) < 0)
		die(name, strerror(errno));
	l->held--;
	memmove(&l->live[i], &l->live[i + 1], (l->held - i) * sizeof(l->live[0]));
	uint64_t oldest = l->files;
	for (i = 0; i < l->held; i++)
		oldest = l->live[i] < oldest ? l->live[i] : oldest;
	atomic_store(&l->shared->oldest, oldest);
}

/* Behind all that were finished before. */
static void
finish_file(struct load *l, uint32_t stream)
{
	uint64_t i = 0;
	close(l->fd[stream]);
	l->fd[stream] = -1;
	while (l->live[i] != l->file[stream])
		i++;
	memmove(&l->live[i], &l->live[i + 1], (l->held - i - 1) * sizeof(l->live[0]));
	l->live[l->held - 1] = l->file[stream];
}

/* The next log file of a stream; the oldest of all goes when there is no room for it. */
static void
file_begin(struct load *l, uint32_t stream)
{
	char name[300];
	uint64_t most = l->room / FILE_BYTES;
	if (l->fd[stream] >= 0)
		finish_file(l, stream);
	while (l->held >= (most < FILES_MAX ? most : FILES_MAX))
		delete_oldest(l);
	l->file[stream] = l->live[l->held++] = l->files;
	l->size[stream] = 0;
	file_name(l, l->files++, name, sizeof(name));
	l->fd[stream] =
		open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (l->fd[stream] < 0)
		die(name, strerror(errno));
	atomic_store(&l->shared->places, l->files);
}

static void
files_write(struct load *l, uint32_t stream, uint32_t length)
{
	if (l->fd[stream] < 0 || l->size[stream] + length > FILE_BYTES)
		file_begin(l, stream);
	for (uint32_t at = 0; at < length;) {
		ssize_t n = write(l->fd[stream], l->body + at, length - at);
		if (n < 0)
			die("write", strerror(errno));
		at += (uint32_t)n;
	}
	l->size[stream] += length;
}

/* A read opens its file, as a query does that finds its way by an index. */
static int
files_read(const struct load *l, uint64_t n, uint64_t where, uint8_t *buf)
{
	char name[300];
	file_name(l, n, name, sizeof(name));
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	off_t size = lseek(fd, 0, SEEK_END);
	ssize_t got = -1;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	if (size >= READ_BYTES)
		got = pread(fd, buf, READ_BYTES,
			(off_t)(where % (uint64_t)(size / READ_BYTES) * READ_BYTES));
	close(fd);
	return got == READ_BYTES;
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
	int good = sfs ? volume_read(sfs, l, n, buf) : files_read(l, n, rnd(seed), buf);
	atomic_fetch_add(good ? &l->shared->done : &l->shared->expired, 1);
}

/* The reading process: keeps up with what is wanted, one read at a time. */
static void
reader(struct load *l, bool volume)
{
	struct pr_error err = {0};
	struct sfs_open_options o = {0};
	struct sfs *sfs = volume ? sfs_open(l->paths, l->path_count, &o, &err) : NULL;
	uint8_t *buf = aligned_alloc(4096, LARGEST * 2);
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
		files_write(l, a->stream, a->length);
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

/* One-second intervals, the first WARM of them left out. */
static void
run(struct load *l, int seconds, double reads)
{
	static uint64_t bytes[SECONDS_MAX + WARM + 1], read[SECONDS_MAX + WARM + 1];
	int64_t begin = pr_now_mono(), now = begin;
	double owed = 0, cpu = 0;
	uint64_t total = 0;
	int last = 0, end = seconds + WARM;
	memset(bytes, 0, sizeof(bytes));
	memset(read, 0, sizeof(read));
	atomic_store(&l->shared->wanted, atomic_load(&l->shared->done));
	atomic_store(&l->shared->active, reads > 0);
	for (uint64_t given = 0; last < end; now = pr_now_mono()) {
		int second = (int)((now - begin) / PR_NS_PER_S);
		second = second > end ? end : second;
		for (; last < second; last++) {
			read[last + 1] = atomic_load(&l->shared->done);
			if (last + 1 == WARM)
				cpu = cpu_seconds(RUSAGE_SELF);
		}
		uint32_t length = one_write(l, now);
		bytes[second] += length;
		total += length;
		owed += reads;
		for (; owed >= 1; owed--)
			given++;
		if (given > 0)
			atomic_fetch_add(&l->shared->wanted, given);
		given = 0;
	}
	cpu = cpu_seconds(RUSAGE_SELF) - cpu;
	atomic_store(&l->shared->wanted, 0);
	atomic_store(&l->shared->active, false);
	printf("{\"cpu\": %.3f, \"total\": %lu, \"bytes\": [", cpu, (unsigned long)total);
	for (int i = WARM; i < end; i++)
		printf("%s%lu", i > WARM ? ", " : "", (unsigned long)bytes[i]);
	printf("], \"reads\": [");
	for (int i = WARM; i < end; i++)
		printf("%s%lu", i > WARM ? ", " : "",
			(unsigned long)(read[i + 1] - read[i]));
	printf("]}\n");
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
	for (char *p = strtok(argv[2], ","); p && l->path_count < 8; p = strtok(NULL, ","))
		l->paths[l->path_count++] = p;
	for (int i = 3; i < argc; i++) {
		char *v = strchr(argv[i], '=');
		uint64_t n = v ? strtoull(v + 1, NULL, 0) : 0;
		if (strncmp(argv[i], "streams=", 8) == 0 && n > 0 && n <= STREAMS_MAX)
			l->streams = n;
		else if (strncmp(argv[i], "shm=", 4) == 0)
			l->shm = n;
		else if (strncmp(argv[i], "record=", 7) == 0)
			l->record = n;
		else if (strncmp(argv[i], "room=", 5) == 0)
			l->room = n;
		else
			die("bad argument", argv[i]);
	}
}

int
main(int argc, char **argv)
{
	struct load l = {.streams = 32, .shm = 64u << 20, .room = UINT64_C(2) << 30};
	if (argc < 3 || (strcmp(argv[1], "volume") != 0 && strcmp(argv[1], "files") != 0))
		die("usage", "streamfs_load volume PATH[,PATH] | files DIR[,DIR] "
			     "[key=value...]");
	bool volume = strcmp(argv[1], "volume") == 0;
	parse(&l, argc, argv);
	l.shared = mmap(NULL, sizeof(*l.shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	l.body = calloc(1, LARGEST);
	make_arrivals(&l);
	if (l.shared == MAP_FAILED || !l.body || !l.arrival)
		die("memory", strerror(errno));
	for (int i = 0; i < STREAMS_MAX; i++)
		l.fd[i] = -1;
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
