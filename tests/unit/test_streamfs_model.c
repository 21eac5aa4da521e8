/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamFS against a model. A seed gives a volume of one to three disks, and a sequence of appends,
 * reservations, flushes, new streams, guarantees, resets, trims, deletions, readings, kills and power cuts, also in the
 * midst of any of them and of recovery, on simulated disks that drop, reorder and tear; after each opening
 * all that is found is compared with what was appended. At the end the disks' bytes are damaged, and nothing
 * wrong may be read.
 * SFS_SEED=n runs one case, SFS_CASES=n that many (from SFS_SEED or 1 on), SFS_JOBS=n in n processes.
 */
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/unit/streamfs_model.h"
#include "tests/unit/streamfs_model_delete.h"

#define CASES 10000
/* Seeds by which longer runs found faults: tried first. What a seed does changes with the model. */
static const uint64_t found[] = {7724, 42967, 1240885, 3029238, 10452763};
#define CASE_SECONDS 60 /* a case takes milliseconds: it hangs */

/* Whether a call did its work; it may fail only when the power has gone. */
static bool
works(struct model *m, bool done, const char *what)
{
	MUST(m, done || m->power.off, "%s", what);
	return done;
}

static bool
reopen(struct model *m)
{
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = (4 + sim_below(&m->rng, 6)) * BLOCK};
	m->sfs = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	return works(m, m->sfs != NULL, "open");
}

static size_t
pick_length(struct model *m, const struct m_stream *s)
{
	size_t most = sfs_record_max(m->sfs);
	if (sim_below(&m->rng, 60) == 0)
		return most - sim_below(&m->rng, 40);
	return sim_below(&m->rng, s->usual < most ? s->usual : most);
}

/* Much is reserved and little used, so that blocks are soon over: laps cost little. */
static int
append_reserved(struct model *m, int id, struct m_record *r, size_t len)
{
	size_t most = sfs_record_max(m->sfs), room = len + sim_below(&m->rng, 100);
	if (sim_below(&m->rng, 2))
		room = most / 2 + sim_below(&m->rng, most / 2);
	room = room < len ? len : room > most ? most : room;
	uint8_t *p = sfs_reserve(m->sfs, id, room, &m->err);
	if (!works(m, p != NULL, "reserve"))
		return SFS_ERROR;
	if (sim_below(&m->rng, 8) == 0)
		works(m, sfs_flush(m->sfs, &m->err) == SFS_OK,
			"flush beside a reservation");
	make_body(m, p, r->nonce, len);
	return sfs_commit(m->sfs, id, r->min_time, r->max_time, len, &r->handle, &m->err);
}

static void
append(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams), rc;
	struct m_stream *s = &m->stream[id];
	if (s->appended + 1 >= RECORDS)
		return;
	size_t len = pick_length(m, s);
	struct m_record *r = &s->record[s->appended + 1];
	int64_t t = ++m->now;
	*r = (struct m_record){.nonce = ++m->nonce,
		.length = (uint32_t)len,
		.min_time = t - (int64_t)sim_below(&m->rng, 3),
		.max_time = t};
	m->begun++;
	if (sim_below(&m->rng, 3) == 0) {
		rc = append_reserved(m, id, r, len);
	} else {
		make_body(m, m->body, r->nonce, len);
		rc = sfs_append(m->sfs, id, r->min_time, r->max_time, m->body, len,
			&r->handle, &m->err);
	}
	if (works(m, rc == SFS_OK, "append"))
		s->appended++;
	MUST(m, sfs_appended(m->sfs, id) == s->appended, "sequence");
}

/* Up to what may be promised: each stream's newest block comes on top, and the frontier's room. */
static uint64_t
pick_guarantee(struct model *m, int id)
{
	const struct sfs_root *root = &m->sfs->root;
	uint64_t data = root->blocks - root->blocks / root->map_interval, sum = 1;
	uint64_t most = data * root->utilization / 1000;
	most = most > data - 4 ? data - 4 : most;
	for (int i = 0; i < STREAMS; i++)
		if (i != id)
			sum += (m->stream[i].guarantee + BLOCK - 1) / BLOCK + 1;
	if (sum >= most || sim_below(&m->rng, 3) == 0)
		return 0;
	return sim_below(&m->rng, (most - sum) * BLOCK + 1);
}

/* Makes stream id, or gives it another guarantee. */
static void
open_stream(struct model *m, int id)
{
	struct m_stream *s = &m->stream[id];
	if (id == m->streams) {
		snprintf(s->name, sizeof(s->name), "stream.%d", id);
		s->usual = (size_t)8 << sim_below(&m->rng, sim_below(&m->rng, 3) ? 10 : 14);
	}
	s->earlier = s->guarantee;
	s->guarantee = pick_guarantee(m, id);
	s->reached = 0;
	int rc = sfs_stream_open(m->sfs, s->name, s->guarantee, 0, &m->err);
	if (!works(m, rc == id, "open a stream"))
		return;
	s->earlier = s->guarantee;
	m->streams += id == m->streams;
}

/* The stream that was being made when the power went is there, or not at all. */
static void
adopt_stream(struct model *m)
{
	struct m_stream *s = &m->stream[m->streams];
	if (m->streams == STREAMS)
		return;
	int id = s->name[0] ? sfs_stream_find(m->sfs, s->name) : -1;
	MUST(m, id < 0 || id == m->streams, "a stream came as %d", id);
	s->guarantee = id < 0 ? 0 : stream_info(m, m->sfs, id).guarantee;
	s->earlier = s->guarantee;
	m->streams += id >= 0;
}

static void
note_evicted(struct model *m)
{
	for (int i = 0; i < m->streams; i++) {
		struct m_stream *s = &m->stream[i];
		s->evicted = s->appended;
		if (m->sfs && !m->resetting)
			s->evicted = stream_info(m, m->sfs, i).recycled_records;
	}
}

static void
cut_power(struct model *m)
{
	for (size_t i = 0; i < m->disks; i++) {
		struct sim_cut cut = sim_any_cut(&m->rng, m->sector);
		sim_cut_power(&m->disk[i], &cut);
	}
}

/* The program is gone, and in two of three cases the power; opening may meet the same again. */
static void
crash(struct model *m)
{
	bool peeked = false;
	note_evicted(m);
	for (int tries = 0;; tries++) {
		m->power.off = true;
		sfs_close(&m->reader);
		sfs_abandon(&m->sfs);
		if (sim_below(&m->rng, 3))
			cut_power(m);
		m->power = (struct sim_power){.left = 0};
		m->again = tries > 0;
		peeked = sim_below(&m->rng, 4) > 0;
		if (peeked)
			peek(m);
		if (tries < 3 && sim_below(&m->rng, 3) == 0)
			m->power.left = 1 + sim_below(&m->rng, 10);
		if (reopen(m))
			break;
		/* it may have evicted some before it failed */
		for (int i = 0; i < m->streams; i++)
			m->stream[i].evicted = m->stream[i].appended;
	}
	if (sim_below(&m->rng, 2))
		sfs_close(&m->reader);
	settle_delete(m);
	check_after_crash(m, peeked);
	for (int i = 0; i < m->streams; i++)
		check_erased(m, i);
	adopt_stream(m);
}

/* A clean end: all that was appended is there, whatever becomes of the power. */
static void
close_cleanly(struct model *m)
{
	sfs_close(&m->reader);
	sfs_close(&m->sfs);
	if (m->power.off)
		return;
	for (int i = 0; i < m->streams; i++)
		m->stream[i].durable = m->stream[i].appended;
	if (sim_below(&m->rng, 2))
		cut_power(m);
}

static void
close_and_open(struct model *m)
{
	close_cleanly(m);
	if (m->power.off || !reopen(m))
		return;
	for (int i = 0; i < m->streams; i++)
		check_stream(m, i);
}

static void
reset(struct model *m)
{
	for (int i = 0; i < m->streams; i++)
		m->stream[i].reached = 0;
	m->reset_generation = m->sfs->root.reset_generation;
	m->resetting = true;
	if (!works(m, sfs_reset(m->sfs, &m->err) == SFS_OK, "reset"))
		return;
	m->resetting = false;
	for (int i = 0; i < m->streams; i++)
		m->stream[i].reset = m->stream[i].durable = m->stream[i].appended;
}

static void
flush(struct model *m)
{
	if (!works(m, sfs_flush(m->sfs, &m->err) == SFS_OK, "flush"))
		return;
	note_durable(m);
	for (int i = 0; i < m->streams; i++)
		MUST(m, m->stream[i].durable == m->stream[i].appended, "flushed");
}

/* What must go: whole blocks, of which no record is later. Times rise with the sequence. */
static uint64_t
trim_to(const struct m_stream *s, uint64_t first, int64_t until, uint64_t most, bool loose)
{
	uint64_t to = first - 1, blocks = 0;
	for (uint64_t n = first;
		n <= s->appended &&
		(s->record[n].max_time <= until || (loose && s->record[n].deleted));
		n++) {
		if (n < s->appended && s->record[n + 1].handle.generation ==
					       s->record[n].handle.generation)
			continue;
		if (blocks++ == most)
			break;
		to = n;
	}
	return to;
}

static void
trim(struct model *m)
{
	int id = (int)sim_below(&m->rng, (uint64_t)m->streams);
	struct m_stream *s = &m->stream[id];
	flush(m); /* so that the frontier takes none meanwhile */
	if (m->power.off)
		return;
	uint64_t first = stream_info(m, m->sfs, id).recycled_records + 1;
	uint64_t most = 1 + sim_below(&m->rng, 5);
	uint64_t at = first + sim_below(&m->rng, s->appended + 2 - first);
	int64_t until = at > s->appended ? INT64_MAX : s->record[at].max_time;
	struct sfs_trimmed out;
	m->trim_first = first;
	m->trim_last = trim_to(s, first, until, most, false);
	m->trim_most = trim_to(s, first, until, most, true);
	m->trimming = m->trim_most >= first ? id : -1;
	s->reached = 0;
	if (!works(m, sfs_trim(m->sfs, id, until, (uint32_t)most, &out, &m->err) == SFS_OK,
		    "trim"))
		return;
	uint64_t records = 0, gone = stream_info(m, m->sfs, id).recycled_records;
	MUST(m, gone >= m->trim_last && gone <= m->trim_most, "trimmed %lu of %lu to %lu",
		(lu)gone, (lu)m->trim_last, (lu)m->trim_most);
	for (uint64_t n = first; n <= gone; n++)
		records += !s->record[n].deleted;
	MUST(m, out.records == records, "trimmed %lu of %lu", (lu)out.records, (lu)records);
	if (m->trim_last == m->trim_most)
		MUST(m,
			out.more == (trim_to(s, first, until, UINT64_MAX, true) > gone) ||
				out.more == (trim_to(s, first, until, UINT64_MAX, false) >
						    gone),
			"more to trim: %d", out.more);
	m->trim_last = gone;
	if (m->trimming >= 0) {
		check_wiped(m);
		s->reset = m->trim_last;
	}
	m->trimming = -1;
	check_stream(m, id);
}

static void
one_step(struct model *m)
{
	uint64_t what = sim_below(&m->rng, 1000);
	/* the moments that matter most are short */
	if (m->sfs->w->state >= SFS_ROOT_WRITING && what % 16 == 0)
		crash(m);
	else if (what < 830)
		append(m);
	else if (what < 900)
		sfs_tick(m->sfs, m->now * 50000000, &m->err);
	else if (what < 930)
		flush(m);
	else if (what < 945)
		check_stream(m, (int)sim_below(&m->rng, (uint64_t)m->streams));
	else if (what < 955)
		open_stream(m, (int)sim_below(&m->rng,
				       (uint64_t)m->streams + (m->streams < STREAMS)));
	else if (what < 962)
		close_and_open(m);
	else if (what < 974)
		crash(m);
	else if (what < 990)
		m->power.left = 1 + sim_below(&m->rng, 40);
	else if (what < 992)
		reset(m);
	else if (what < 995)
		trim(m);
	else
		delete_some(m);
	if (m->reader && what % 8 == 0)
		try_reader(m);
	if (m->sfs)
		note_durable(m);
	if (m->power.off)
		crash(m);
}

/* Some bytes change, a sector is lost, or lands where another should be. */
static void
damage(struct model *m)
{
	struct sim_disk *d = &m->disk[sim_below(&m->rng, m->disks)];
	uint64_t start = 2 * SFS_ROOT_BYTES, span = d->size - start;
	for (uint64_t n = 1 + sim_below(&m->rng, 40); n > 0; n--) {
		uint64_t block = start / BLOCK + sim_below(&m->rng, span / BLOCK);
		/* most of a block is empty: near its start */
		uint64_t at = block * BLOCK +
			      (sim_below(&m->rng, BLOCK) >> sim_below(&m->rng, 9));
		uint8_t *sector = d->image + at / SIM_SECTOR * SIM_SECTOR;
		uint64_t from = start + sim_below(&m->rng, span / SIM_SECTOR) * SIM_SECTOR;
		switch (sim_below(&m->rng, 8)) {
		case 0:
			memset(sector, 0, SIM_SECTOR);
			break;
		case 1:
			memcpy(sector, d->image + from, SIM_SECTOR);
			break;
		default:
			d->image[at] ^= (uint8_t)(1 + sim_below(&m->rng, 255));
		}
		d->touched[at / SIM_CHUNK] = 1;
	}
}

/*
 * A record may come back that an earlier crash had taken, when what has replaced it is damaged: then
 * it is what was appended once.
 */
static void
compare_damaged(struct model *m, int id, const struct sfs_record *r)
{
	const struct m_record *e = &m->stream[id].record[r->sequence];
	uint32_t nonce = 0;
	if (r->sequence <= m->stream[id].appended &&
		memcmp(&r->handle, &e->handle, sizeof(e->handle)) == 0) {
		compare(m, id, r);
		return;
	}
	memcpy(&nonce, r->body, r->length < 4 ? r->length : 4);
	MUST(m,
		r->length <= 4 ||
			(nonce <= m->nonce && memcmp(r->body + 4, body_piece(m, nonce),
						      r->length - 4) == 0),
		"stream %d record %lu was never appended", id, (lu)r->sequence);
}

/* Gives what it can; what it gives is right, and in order. */
static void
read_damaged(struct model *m, struct sfs *sfs, int id)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, id, NULL, &m->err);
	struct m_stream *s = &m->stream[id];
	struct sfs_record r;
	uint64_t last = 0;
	size_t len;
	int rc, bad = 0;
	while ((rc = sfs_cursor_next(c, &r, &m->err)) != 0) {
		MUST(m, rc == 1 || rc == SFS_CORRUPT || rc == SFS_DELETED, "cursor says %d",
			rc);
		MUST(m, rc == 1 || bad++ < RECORDS, "damage without end");
		if (rc != 1)
			continue;
		MUST(m, r.sequence > last, "order");
		compare_damaged(m, id, &r);
		last = r.sequence;
	}
	sfs_cursor_close(&c);
	for (uint64_t n = 1; n <= s->appended; n++) {
		rc = sfs_read(sfs, &s->record[n].handle, m->body, BLOCK, &len, &r, &m->err);
		MUST(m,
			rc == SFS_OK || rc == SFS_CORRUPT || rc == SFS_EXPIRED ||
				rc == SFS_DELETED,
			"stream %d record %lu: %d", id, (lu)n, rc);
		if (rc == SFS_OK)
			compare(m, id, &r);
	}
}

static void
end_in_damage(struct model *m)
{
	close_cleanly(m);
	if (sim_below(&m->rng, 3))
		return;
	damage(m);
	struct sfs_open_options o = {
		.writer = sim_below(&m->rng, 2), .shm_bytes = 6 * BLOCK};
	m->sfs = sfs_open_disks(m->handle, m->disks, &o, &m->err);
	MUST(m, m->sfs != NULL, "open what is damaged");
	for (int i = 0; i < m->streams; i++)
		read_damaged(m, m->sfs, i);
	sfs_abandon(&m->sfs);
}

static void
make_volume(struct model *m)
{
	static const uint32_t interval[] = {4, 5, 8, 16, SFS_MAP_INTERVAL};
	m->disks = sim_below(&m->rng, 4) == 0 ? 2 + sim_below(&m->rng, 2) : 1;
	m->sector = sim_below(&m->rng, 3) ? 512 : 4096;
	uint64_t blocks = 9 + sim_below(&m->rng, sim_below(&m->rng, 3) ? 20 : 80);
	for (size_t i = 0; i < m->disks; i++) {
		uint64_t more = sim_below(&m->rng, 2) ? sim_below(&m->rng, 20) : 0;
		m->handle[i] = sim_make(&m->disk[i],
			(8 + (blocks + m->disks - 1) / m->disks + more) * (uint64_t)BLOCK,
			&m->rng);
		m->handle[i].sector = (uint32_t)m->sector;
		m->disk[i].power = &m->power;
	}
	struct sfs_create_shape shape = {
		.block_size = BLOCK,
		.interval = interval[sim_below(&m->rng, 5)],
		.utilization = SFS_UTILIZATION,
		.zones = sim_below(&m->rng, 3) == 0,
		.force = true,
	};
	MUST(m, sfs_create_shaped(m->handle, m->disks, &shape, &m->err) == 0, "create");
}

static void
start_case(struct model *m, uint64_t seed)
{
	m->seed = m->rng.s = seed;
	m->power = (struct sim_power){.left = 0};
	m->streams = 0;
	m->resetting = false;
	m->trimming = m->deleting = -1;
	m->nonce = 0;
	m->now = 0;
	m->lost_count = 0;
	m->begun = 0;
	for (int i = 0; i < STREAMS; i++)
		m->stream[i] = (struct m_stream){.record = m->stream[i].record};
	make_volume(m);
	reopen(m);
}

static void
run_case(struct model *m, uint64_t seed)
{
	start_case(m, seed);
	for (uint64_t n = 1 + sim_below(&m->rng, 3); n > 0; n--)
		open_stream(m, m->streams);
	uint64_t steps = 20 + sim_below(&m->rng, sim_below(&m->rng, 4) ? 150 : 400);
	for (uint64_t i = 0; i < steps; i++)
		one_step(m);
	do
		crash(m);
	while (m->power.off);
	m->power.left = 0;
	end_in_damage(m);
}

static struct model *
make_model(void)
{
	struct model *m = calloc(1, sizeof(*m));
	struct sim_rng rng = {0};
	m->body = malloc(BLOCK);
	m->pool = malloc(POOL);
	for (size_t i = 0; i < POOL; i += 8) {
		uint64_t x = sim_random(&rng);
		memcpy(m->pool + i, &x, 8);
	}
	for (int i = 0; i < STREAMS; i++)
		m->stream[i].record = calloc(RECORDS, sizeof(struct m_record));
	return m;
}

static void
free_model(struct model *m)
{
	for (int i = 0; i < STREAMS; i++)
		free(m->stream[i].record);
	for (int i = 0; i < 3; i++)
		sim_free(&m->disk[i]);
	free(m->body);
	free(m->pool);
	free(m);
}

struct shared {
	_Atomic uint64_t seed[64], done;
};

/* One of several processes: each job-th seed. Tells every hundredth by a byte. */
static void
work(struct shared *shared, int job, int jobs, uint64_t from, uint64_t count, int out)
{
	struct model *m = make_model();
	/* buffers of hundreds of KiB come and go: from the heap, not the kernel */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	for (uint64_t i = (uint64_t)job; i < count; i += (uint64_t)jobs) {
		shared->seed[job] = from + i;
		alarm(CASE_SECONDS);
		run_case(m, from + i);
		if (++shared->done % 100 == 0 && write(out, "", 1) != 1)
			break;
	}
	free_model(m);
}

static void
show(uint64_t done, uint64_t count, uint64_t *shown)
{
	if (isatty(2))
		fprintf(stderr, "\r%lu of %lu cases", (lu)done, (lu)count);
	else if (done * 10 / count > *shown)
		fprintf(stderr, "%lu of %lu cases\n", (lu)done, (lu)count);
	*shown = done * 10 / count;
}

/* 0: the worker ended well. A failed case has said so itself, unless it died of a signal. */
static int
reap(const struct shared *shared, const pid_t *pid, int jobs)
{
	int status;
	pid_t who = wait(&status);
	for (int i = 0; i < jobs; i++)
		if (pid[i] == who && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM)
			fprintf(stderr, "\nSFS_SEED=%lu: %s\n", (lu)shared->seed[i],
				strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int
run_all(uint64_t from, uint64_t count, int jobs)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t shown = 0;
	pid_t pid[64];
	int out[2], failed = 0;
	char byte;
	if (shared == MAP_FAILED || pipe(out) < 0)
		return 1;
	for (int i = 0; i < jobs; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			close(out[0]);
			work(shared, i, jobs, from, count, out[1]);
			exit(0);
		}
	}
	close(out[1]);
	while (read(out[0], &byte, 1) == 1)
		show(shared->done, count, &shown);
	for (int i = 0; i < jobs; i++)
		failed += reap(shared, pid, jobs) < 0;
	fprintf(stderr, "%sstreamfs model: %lu of %lu cases from seed %lu, %s\n",
		isatty(2) ? "\r" : "", (lu)shared->done, (lu)count, (lu)from,
		failed ? "FAILED" : "ok");
	return failed ? 1 : 0;
}

static uint64_t
setting(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : usual;
}

int
main(void)
{
	uint64_t from = setting("SFS_SEED", 1);
	uint64_t count = setting("SFS_CASES", getenv("SFS_SEED") ? 1 : CASES);
	uint64_t jobs = setting("SFS_JOBS", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	jobs = jobs < 1 ? 1 : jobs > 64 ? 64 : jobs;
	for (size_t i = 0; !getenv("SFS_SEED") && i < sizeof(found) / sizeof(*found); i++)
		if (run_all(found[i], 1, 1) != 0)
			return 1;
	return run_all(from, count, (int)(jobs < count ? jobs : count));
}
