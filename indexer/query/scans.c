/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/scans.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "proto/base/array.h"
#include "proto/base/thread.h"

enum state { IDLE, QUEUED, RUNNING, DONE };

struct pri_scan {
	struct pri_scan *next, *prev; /* in the queue */
	/* under the pool's lock; the state shows which thread owns the other fields */
	enum state state;
	struct sfs_plan plan;
	const struct pr_bpf_set *programs;
	size_t room;
	struct pri_read_buffer buffer;
	const uint8_t *body;
	struct pri_matches matches;
	bool good;
	atomic_bool stop; /* the segment is no longer wanted */
};

#define OWN_STEPS 1000000 /* of filters, in the query's own thread */
#define OWN_PACKETS 2000 /* filters that let fewer be tested in these steps are long */
#define WAIT_NS PR_NS_PER_MS
#define PAUSE_NS (20 * PR_NS_PER_MS)

struct pri_scans {
	const struct pr_bpf_set *programs;
	struct pri_scan items[PRI_SCANS_AHEAD];
	unsigned begun;
};

/* The process's threads. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct pri_scan *queue;
	atomic_uint count; /* threads */
	int nice;
	atomic_llong paused; /* until this time long filters rest */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER};

void
pri_scans_setup(int nice)
{
	pool.nice = nice;
}

void
pri_scans_pause(int64_t now)
{
	if (now - pool.paused >= PAUSE_NS)
		pool.paused = now + PAUSE_NS;
}

static bool
is_long(const struct pr_bpf_set *programs)
{
	return pr_bpf_set_packets(programs, OWN_STEPS) < OWN_PACKETS;
}

static void
pause_thread(void)
{
	int64_t rest = atomic_load(&pool.paused) - pr_now_mono();
	struct timespec t = {0, rest};

	if (rest > 0 && rest <= PAUSE_NS)
		nanosleep(&t, NULL);
}

/* ---- a segment ---- */

void
pri_matches_free(struct pri_matches *m)
{
	PR_FREE(m, bits, places);
	*m = (struct pri_matches){0};
}

/*
 * Filters the segment up to the first packet that cannot be read, `most` packets, or until
 * it is not wanted: the query handles the rest itself.
 */
static void
judge(struct pri_scan *s, size_t length, uint32_t most)
{
	struct pr_segment_reader reader;
	const struct pr_segment_header *h = &reader.header;
	struct pri_matches *m = &s->matches;
	struct pr_packet p = {0};
	bool rests = most == UINT32_MAX && is_long(s->programs);
	int rc;

	m->judged = m->count = 0;
	if (pr_segment_open(&reader, s->body, length, NULL) < 0 ||
		pr_bpf_set_all(s->programs, h->linktype))
		return;
	size_t bytes = h->count / 8 + 1;
	if (!m->places)
		m->places = malloc(PRI_PLACES_MAX * sizeof *m->places);
	if (!m->places || PR_ARRAY_RESERVE(m->bits, m->room, bytes) < 0)
		return;
	memset(m->bits, 0, bytes);
	m->sound = true;
	for (int64_t last = h->first_otime;; last = p.otime, m->judged++) {
		struct pr_segment_reader before = reader;
		rc = pr_segment_next(&reader, &p, NULL);
		if (rc != 1)
			break;
		if (m->judged == most ||
			atomic_load_explicit(&s->stop, memory_order_relaxed))
			break;
		/*
		 * in order and within the header's times; the reader has checked that seqs
		 * grow
		 */
		m->sound = m->sound && p.otime >= last && p.otime <= h->last_otime &&
			   p.time >= h->min_time && p.time <= h->max_time;
		if (rests)
			pause_thread();
		if (pr_bpf_set_match(s->programs, &p)) {
			m->bits[m->judged / 8] |= 1u << m->judged % 8;
			if (m->count < PRI_PLACES_MAX)
				m->places[m->count] = before;
			m->count++;
		}
		/*
		 * if most packets match, stop: the query walks the segment anyway, and
		 * filters as it goes
		 */
		if (m->count > PRI_PLACES_MAX && m->count > m->judged / 2)
			break;
	}
	m->sound = m->sound && rc == 0 && m->count <= PRI_PLACES_MAX;
	m->last_seq = p.seq;
}

static void
work(struct pri_scan *s, uint32_t most)
{
	struct sfs_record record;

	s->matches.judged = 0;
	s->matches.sound = false;
	s->good = pri_read_buffer_grow(&s->buffer, s->room) == 0 &&
		  sfs_read_planned(
			  &s->plan, s->buffer.bytes, s->buffer.capacity, &record) == SFS_OK;
	if (!s->good)
		return;
	s->body = record.body;
	judge(s, record.length, most);
}

/* ---- the threads ---- */

static void *
run(PR_UNUSED void *arg)
{
	if (pool.nice) /* of this thread alone, on Linux */
		setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + pool.nice);
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		struct pri_scan *s = pool.queue;
		if (!s) {
			pthread_cond_wait(&pool.work, &pool.lock);
			continue;
		}
		DL_DELETE(pool.queue, s);
		s->state = RUNNING;
		pthread_mutex_unlock(&pool.lock);
		work(s, UINT32_MAX);
		pthread_mutex_lock(&pool.lock);
		s->state = DONE;
		pthread_cond_broadcast(&pool.done);
	}
	return NULL;
}

/* If no thread can be started, queries do all the work themselves. */
static void
start_threads(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned want = PR_MIN(PR_MAX(cpus - 1, 2), PRI_SCANS_THREADS_MAX);
	pthread_t thread;

	while (pool.count < want &&
		pr_thread_start(&thread, run, NULL, "a thread of queries", NULL) == 0) {
		pthread_detach(thread);
		pool.count++;
	}
}

/* ---- a query's ---- */

struct pri_scans *
pri_scans_create(const struct pr_bpf_set *programs)
{
	struct pri_scans *scans = calloc(1, sizeof *scans);

	if (scans)
		scans->programs = programs;
	return scans;
}

unsigned
pri_scans_free(const struct pri_scans *scans)
{
	return PRI_SCANS_AHEAD - scans->begun;
}

struct pri_scan *
pri_scans_begin(struct pri_scans *scans, const struct sfs_plan *plan,
	const struct sfs_handle *handle)
{
	static pthread_once_t started = PTHREAD_ONCE_INIT;
	struct pri_scan *s = NULL;

	pthread_mutex_lock(&pool.lock);
	for (unsigned i = 0; i < PRI_SCANS_AHEAD && !s; i++)
		if (scans->items[i].state == IDLE)
			s = &scans->items[i];
	pthread_mutex_unlock(&pool.lock);
	if (!s)
		return NULL;
	pthread_once(&started, start_threads);
	s->plan = *plan;
	s->programs = scans->programs;
	s->room = sfs_read_room(handle);
	s->stop = false;
	scans->begun++;
	pthread_mutex_lock(&pool.lock);
	s->state = QUEUED;
	DL_APPEND(pool.queue, s);
	pthread_cond_signal(&pool.work);
	pthread_mutex_unlock(&pool.lock);
	return s;
}

/*
 * Under the lock. Long filters are the threads' work alone: in the query's own thread, which
 * does not give way as they do, they would delay all other queries.
 */
static bool
waits(const struct pri_scan *s)
{
	return s->state == RUNNING ||
	       (s->state == QUEUED && pool.count > 0 && is_long(s->programs));
}

bool
pri_scan_ready(struct pri_scan *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_NS;
	until.tv_sec += until.tv_nsec / PR_NS_PER_S;
	until.tv_nsec %= PR_NS_PER_S;
	pthread_mutex_lock(&pool.lock);
	if (waits(s))
		pthread_cond_timedwait(&pool.done, &pool.lock, &until);
	bool ready = !waits(s);
	pthread_mutex_unlock(&pool.lock);
	return ready;
}

/* Done, or taken back. true: taken back. */
static bool
settle(struct pri_scan *s)
{
	pthread_mutex_lock(&pool.lock);
	bool back = s->state == QUEUED;
	if (back)
		DL_DELETE(pool.queue, s);
	while (!back && s->state == RUNNING)
		pthread_cond_wait(&pool.done, &pool.lock);
	s->state = IDLE;
	pthread_mutex_unlock(&pool.lock);
	return back;
}

void
pri_scan_drop(struct pri_scans *scans, struct pri_scan *s)
{
	s->stop = true;
	settle(s);
	scans->begun--;
}

bool
pri_scan_take(struct pri_scans *scans, struct pri_scan *s, struct pri_read_buffer *buffer,
	const uint8_t **body, struct pri_matches *matches)
{
	struct pri_read_buffer b = *buffer;
	struct pri_matches m = *matches;

	if (settle(s))
		work(s, pr_bpf_set_packets(s->programs, OWN_STEPS));
	scans->begun--;
	if (!s->good)
		return false;
	*buffer = s->buffer;
	*body = s->body;
	*matches = s->matches;
	s->buffer = b;
	s->matches = m;
	return true;
}

void
pri_scans_destroy(struct pri_scans **scans)
{
	struct pri_scans *s = PR_TAKE(scans);

	if (!s)
		return;
	for (unsigned i = 0; i < PRI_SCANS_AHEAD; i++) {
		s->items[i].stop = true;
		settle(&s->items[i]);
		free(s->items[i].buffer.bytes);
		pri_matches_free(&s->items[i].matches);
	}
	free(s);
}
