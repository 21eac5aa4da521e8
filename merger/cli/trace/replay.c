/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/pace.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "merger/cli/cli.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/query/completeness_text.h"
#include "merger/cli/query/query_build.h"
#include "proto/base/clock.h"
#include "proto/base/thread.h"
#include "proto/base/units.h"
#include "proto/port/netdev.h"
#include "proto/port/transmit.h"
#include "proto/wire/frame.h"
#include "proto/wire/source.h"

static int
parse_rate(const char *text, struct pace *out)
{
	struct pr_rate rate;

	if (pr_parse_rate(text, &rate) < 0)
		return -1;
	out->kind = rate.packets ? PACE_PPS : PACE_BPS;
	out->rate = rate.per_second;
	return out->rate >= 0.001 ? 0 : -1;
}

static int
parse_scale(const char *text, struct pace *out)
{
	char *end;

	out->kind = PACE_RECORDED;
	out->scale = strtod(text, &end);
	return end != text && !*end && isfinite(out->scale) && out->scale >= 1e-6 &&
			       out->scale <= 1e9
		       ? 0
		       : -1;
}

int
pace_parse(const char *text, struct pace *out, struct pr_error *err)
{
	*out = (struct pace){.kind = PACE_RECORDED, .scale = 1};
	if (!strcmp(text, "recorded"))
		return 0;
	if (!strcmp(text, "max")) {
		out->kind = PACE_MAX;
		return 0;
	}
	if ((text[0] == 'x' ? parse_scale(text + 1, out) : parse_rate(text, out)) == 0)
		return 0;
	return pr_error_set(err,
		"'%.60s' is not a pace: give recorded, x2, x0.5, 5kpps, 100Mbit or max",
		text);
}

static int64_t
rounded(double ns)
{
	return ns < 9e18 ? (int64_t)ns : INT64_MAX;
}

static int64_t
recorded(struct pace *p, int64_t time)
{
	int64_t since;

	if (!p->packets)
		p->first = p->latest = time;
	if (time > p->latest)
		p->latest = time;
	if (__builtin_sub_overflow(p->latest, p->first, &since))
		since = INT64_MAX;
	return p->scale == 1 ? since : rounded((double)since / p->scale);
}

int64_t
pace_due(struct pace *p, int64_t time, uint32_t bytes)
{
	int64_t due = 0;

	if (p->kind == PACE_RECORDED)
		due = recorded(p, time);
	else if (p->kind == PACE_PPS)
		due = rounded((double)p->packets * 1e9 / p->rate);
	else if (p->kind == PACE_BPS)
		due = rounded((double)p->bytes * 8e9 / p->rate);
	p->packets++;
	p->bytes += bytes;
	return due;
}

/*
 * Packets that are ready to be sent, between the thread that gets the answer and the one that sends.
 * They lie one behind the other in chunks; a lock is taken once a chunk. At most
 * REPLAY_CHUNKS x REPLAY_CHUNK bytes wait; whoever is ahead blocks.
 */
#define REPLAY_CHUNK ((size_t)1024 * 1024)
#define REPLAY_CHUNKS 64

/* In a chunk, 8 bytes aligned; the frame follows. */
struct replay_frame {
	int64_t time;
	uint32_t len, room; /* room: of the frame, with padding */
};

struct replay_chunk {
	size_t used;
	uint8_t *bytes;
};
struct replay_queue;

/*
 * Sends frames onto one interface, each when it is due: it sleeps until shortly before and then looks at
 * the clock until it is time. What is due at once goes out with one call. A thread of its own.
 */
#define REPLAY_ERRORS 20000 /* buckets of 50 ns: up to a millisecond */
struct replay_counts {
	uint64_t frames, bytes; /* sent */
	uint64_t too_long, too_short; /* the interface takes no such frame */
	uint64_t failed; /* its queue stayed full for a second */
	uint64_t queue_full; /* times that its queue was full */
	int64_t begun, ended; /* monotonic; of sending */
	/* how late frames were handed to the kernel, of those that had a time to be kept */
	uint64_t paced, late[REPLAY_ERRORS + 1];
	int64_t latest;
};

struct replay_send {
	struct replay_queue *queue;
	struct pace pace;
	int64_t at; /* real time of the first frame; 0: as soon as there is a stock */
	atomic_bool stop; /* ends it before the next frame */
	struct replay_counts counts;
	struct pr_error err; /* when it gave up */
	bool gave_up;
	/* its own */
	struct pr_transmit *transmit;
	uint32_t mtu;
	bool realtime;
	int64_t slept; /* when it last did */
};

static void replay_queue_destroy(struct replay_queue **q);

#define STOCK (REPLAY_CHUNKS / 2) /* chunks, before sending begins */

struct replay_queue {
	struct pr_queue queue;
	struct replay_chunk chunks[REPLAY_CHUNKS];
	struct replay_chunk *filling; /* NULL: the sender has given up */
};

static void
fill_next(struct replay_queue *q)
{
	int slot = pr_queue_reserve(&q->queue);

	q->filling = slot < 0 ? NULL : &q->chunks[slot];
	if (q->filling)
		q->filling->used = 0;
}

static struct replay_queue *
replay_queue_create(struct pr_error *err)
{
	struct replay_queue *q = calloc(1, sizeof(*q));
	bool memory = q;

	if (q) {
		pr_queue_init(&q->queue, REPLAY_CHUNKS);
		for (int i = 0; i < REPLAY_CHUNKS; i++)
			memory = (q->chunks[i].bytes = malloc(REPLAY_CHUNK)) && memory;
		fill_next(q);
	}
	if (!memory) {
		replay_queue_destroy(&q);
		pr_error_set(err, "no memory for packets to be sent");
	}
	return q;
}

static void
replay_queue_destroy(struct replay_queue **qp)
{
	struct replay_queue *q = *qp;

	*qp = NULL;
	if (!q)
		return;
	for (int i = 0; i < REPLAY_CHUNKS; i++)
		free(q->chunks[i].bytes);
	pr_queue_destroy(&q->queue);
	free(q);
}

/* What has gathered may be taken, though no chunk is full. */
static void
replay_queue_flush(struct replay_queue *q)
{
	if (q->filling && q->filling->used) {
		pr_queue_put(&q->queue);
		fill_next(q);
	}
}

/* The one that gets: -1: the frame fits no chunk, or the sender has given up. */
static int
replay_queue_put(struct replay_queue *q, const struct pr_packet *p)
{
	struct replay_frame frame = {
		.time = p->time, .len = p->caplen, .room = (p->caplen + 7) & ~UINT32_C(7)};
	struct replay_chunk *c = q->filling;

	if (p->caplen > REPLAY_CHUNK - sizeof(frame) - 8)
		return -1;
	if (c && c->used + sizeof(frame) + frame.room > REPLAY_CHUNK) {
		replay_queue_flush(q);
		c = q->filling;
	}
	if (!c || pr_queue_stopped(&q->queue))
		return -1;
	memcpy(c->bytes + c->used, &frame, sizeof(frame));
	memcpy(c->bytes + c->used + sizeof(frame), p->data, p->caplen);
	c->used += sizeof(frame) + frame.room;
	return 0;
}

static void
replay_queue_end(struct replay_queue *q)
{
	replay_queue_flush(q);
	pr_queue_end(&q->queue);
}

/* The sender: returns when a good stock is there, or all. */
static void
replay_queue_wait_stock(struct replay_queue *q)
{
	pr_queue_wait_filled(&q->queue, STOCK);
}

/* The next chunk, with those before it given back; NULL: the end. */
static const struct replay_chunk *
replay_queue_take(struct replay_queue *q)
{
	int slot = pr_queue_take(&q->queue);

	return slot < 0 ? NULL : &q->chunks[slot];
}

/* Any thread: nothing more is taken, nobody waits. */
static void
replay_queue_give_up(struct replay_queue *q)
{
	pr_queue_stop(&q->queue);
}

#define SPIN_NS (100 * INT64_C(1000)) /* a wake-up may take so long: awake so long before */
/*
 * With real-time priority a wake-up is short, but a thread that never sleeps is stopped by the kernel for
 * 50 ms in each second (sched_rt_runtime_us), and others starve: so after AWAKE_NS there is a REST_NS.
 */
#define SPIN_REALTIME_NS (40 * INT64_C(1000))
#define AWAKE_NS PR_NS_PER_MS
#define REST_NS (70 * INT64_C(1000))
#define PATIENCE_NS PR_NS_PER_S /* with a queue that is full */
#define NAP_NS (50 * PR_NS_PER_MS) /* between looks at stop */
#define BUCKET_NS 50
#define VLAN_TAG 4

/* What has been added to the transmit socket and not been sent yet. */
struct batch {
	uint32_t len[PR_TRANSMIT_BATCH];
	int64_t due[PR_TRANSMIT_BATCH]; /* monotonic; INT64_MIN: at once */
	unsigned count;
};

/* The interface must be there and up. */
static int
replay_send_open(struct replay_send *s, const char *ifname, struct pr_error *err)
{
	struct pr_transmit_config config = {
		.ifname = ifname, .patience = PATIENCE_NS, .spin = SPIN_NS};
	struct pr_netdev dev;

	if (pr_netdev_open(&dev, ifname, err) < 0)
		return -1;
	if (!dev.up)
		return pr_error_set(
			err, "interface %s is down: ip link set %s up", ifname, ifname);
	config.ifindex = (int)dev.index;
	config.mtu = s->mtu = dev.mtu;
	s->transmit = pr_transmit_open(&config, err);
	return s->transmit ? 0 : -1;
}

static void
replay_send_close(struct replay_send *s)
{
	pr_transmit_close(&s->transmit);
}

static void
note_late(struct replay_counts *c, int64_t late)
{
	int64_t bucket = late < 0 ? 0 : late / BUCKET_NS;

	c->paced++;
	c->late[bucket < REPLAY_ERRORS ? bucket : REPLAY_ERRORS]++;
	if (late > c->latest)
		c->latest = late;
}

static void
sleep_until(clockid_t clock, int64_t when)
{
	struct timespec t = {when / PR_NS_PER_S, when % PR_NS_PER_S};

	clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL);
}

/* The kernel refuses an untagged frame that is as long as only a tagged one may be. */
static void
count_frame(struct replay_send *s, uint32_t len, int64_t due, bool failed, int64_t now)
{
	if (failed && len > s->mtu + PR_ETHER_LEN) {
		s->counts.too_long++;
	} else if (failed && len <= PR_ETHER_LEN) {
		s->counts.too_short++;
	} else if (failed) {
		s->counts.failed++;
	} else {
		s->counts.frames++;
		s->counts.bytes += len;
		if (due != INT64_MIN)
			note_late(&s->counts, now - due);
	}
}

/* -1: the interface is gone or down; see s->err. Frames that wait for a full queue count as late. */
static int
send_batch(struct replay_send *s, struct batch *b)
{
	const struct pr_transmit_counters *c = pr_transmit_counters(s->transmit);
	bool failed[PR_TRANSMIT_BATCH];
	int64_t now = pr_now_mono();

	pr_transmit_send(s->transmit, failed);
	if (pr_counter_get(&c->queue_full) != s->counts.queue_full)
		now = s->slept = pr_now_mono();
	s->counts.queue_full = pr_counter_get(&c->queue_full);
	for (unsigned i = 0; i < b->count; i++)
		count_frame(s, b->len[i], b->due[i], failed[i], now);
	b->count = 0;
	return pr_transmit_trouble(s->transmit, &s->err) ? -1 : 0;
}

/* Sleeps in short steps, so that stop is noticed. */
static void
wait_until(struct replay_send *s, int64_t due)
{
	int64_t now = pr_now_mono(), spin = s->realtime ? SPIN_REALTIME_NS : SPIN_NS;

	while (due - now > spin && !s->stop) {
		int64_t wake = due - spin;

		sleep_until(CLOCK_MONOTONIC, wake - now > NAP_NS ? now + NAP_NS : wake);
		s->slept = now = pr_now_mono();
	}
	while (due > now && !s->stop)
		now = pr_now_mono();
}

static void
rest(struct replay_send *s)
{
	int64_t now = pr_now_mono();

	if (!s->realtime || now - s->slept < AWAKE_NS)
		return;
	sleep_until(CLOCK_MONOTONIC, now + REST_NS);
	s->slept = pr_now_mono();
}

/* Sends what is due before it waits. */
static int
send_frame(struct replay_send *s, struct batch *b, const struct replay_frame *frame,
	const uint8_t *bytes)
{
	int64_t due = INT64_MIN, after;

	if (s->pace.kind != PACE_MAX) {
		after = pace_due(&s->pace, frame->time, frame->len);
		if (__builtin_add_overflow(s->counts.begun, after, &due))
			due = INT64_MAX;
		if (due > pr_now_mono()) {
			if (send_batch(s, b) < 0)
				return -1;
			rest(s);
			wait_until(s, due);
		}
	}
	if (frame->len < PR_ETHER_LEN) {
		s->counts.too_short++;
	} else if (frame->len > s->mtu + PR_ETHER_LEN + VLAN_TAG) {
		s->counts.too_long++;
	} else {
		pr_transmit_add(s->transmit, bytes, frame->len, NULL);
		b->len[b->count] = frame->len;
		b->due[b->count++] = due;
	}
	return b->count == PR_TRANSMIT_BATCH ? send_batch(s, b) : 0;
}

static int
send_chunk(struct replay_send *s, struct batch *b, const struct replay_chunk *chunk)
{
	for (size_t at = 0; at < chunk->used && !s->stop;) {
		struct replay_frame frame;

		memcpy(&frame, chunk->bytes + at, sizeof(frame));
		at += sizeof(frame);
		if (send_frame(s, b, &frame, chunk->bytes + at) < 0)
			return -1;
		at += frame.room;
	}
	return send_batch(s, b);
}

/* For this thread only. Without the privilege for a setting it continues without. */
static void
take_precedence(struct replay_send *s)
{
	const struct sched_param lowest = {.sched_priority = 1};

	prctl(PR_SET_TIMERSLACK, 1UL);
	setpriority(PRIO_PROCESS, 0, -20);
	s->realtime =
		s->pace.kind != PACE_MAX && sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

static void
begin(struct replay_send *s)
{
	replay_queue_wait_stock(s->queue);
	while (s->at && !s->stop && pr_now_real() < s->at) {
		int64_t now = pr_now_real();

		sleep_until(CLOCK_REALTIME, s->at - now > NAP_NS ? now + NAP_NS : s->at);
	}
	take_precedence(s);
	s->counts.begun = s->counts.ended = s->slept = pr_now_mono();
}

/* The thread: until the queue's end. */
static void *
replay_send_run(void *arg)
{
	struct replay_send *s = arg;
	const struct replay_chunk *chunk;
	struct batch b = {.count = 0};

	begin(s);
	while (!s->stop && (chunk = replay_queue_take(s->queue))) {
		s->gave_up = send_chunk(s, &b, chunk) < 0;
		if (s->gave_up)
			break;
	}
	s->counts.ended = pr_now_mono();
	replay_queue_give_up(s->queue);
	return NULL;
}

/* Of lateness: ns that the part (0.5: half) of the frames stayed below. */
static int64_t
replay_late(const struct replay_counts *c, double part)
{
	uint64_t seen = 0, wanted = (uint64_t)((double)c->paced * part);

	for (int i = 0; i < REPLAY_ERRORS; i++) {
		seen += c->late[i];
		if (seen > wanted)
			return (int64_t)(i + 1) * BUCKET_NS;
	}
	return c->latest;
}

#define ETHERNET 1

struct replay_args {
	struct query_args query;
	char *out, *pace, *at;
};

#define PR_VALUES struct replay_args

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(query.),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "send on this interface, and on no other"),
	PR_OPT_STRING(pace, "pace", 'p', "PACE",
		"recorded, x2, x0.5, 5kpps, 100Mbit or max", .def_note = "recorded"),
	PR_OPT_STRING(at, "at", 0, "TIME",
		"send the first packet at this time: 09:30, 09:30:00, or a time as for "
		"--since"),
	PR_OPT_UINT(query.limit, "limit", 'c', "N", 0, 0, "at most N packets (0: all)"),
	PR_OPT_FLAG(query.strays, "strays", 0,
		"also packets without a timestamp from the dispatcher"),
	CLI_FORM_OPTIONS(query.),
	CLI_KEY_OPTION(query.merger.key),
};

static const struct pr_cmdline program = {.name = "packrack replay",
	.summary = "Sends the packets that a filter and a time range choose onto an "
		   "interface.",
	.usage = "--out IFACE [options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = "Needs root, or CAP_NET_RAW.\n\n"
		  "  packrack replay --volume v --out eth1\n"
		  "  packrack replay --since \"10m ago\" --out eth1 --pace x2 tcp "
		  "port 80\n"
		  "  packrack replay --out eth1 --pace 100Mbit --at 23:00"};

struct replay {
	const struct replay_args *args;
	struct sink sink;
	struct replay_send send;
	uint64_t cut, other_type; /* packets snapped; of other link types */
	atomic_bool interrupted;
};

/* ---- the answer's packets ---- */

static int
take_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct replay *r = arg;

	if (p->linktype != ETHERNET) {
		r->other_type++;
		return 0;
	}
	r->cut += p->caplen < p->len;
	if (replay_queue_put(r->send.queue, p) == 0)
		return 0;
	return r->send.gave_up ? pr_error_set(err, "%s: %s", r->args->out, r->send.err.text)
			       : pr_error_set(err, "interrupted");
}

/* ---- when ---- */

/* 09:30 means tomorrow's if today's is over. */
static int
parse_at(const char *text, int64_t *out, struct pr_error *err)
{
	bool of_day = strchr(text, ':') && strlen(text) <= strlen("09:30:00");
	int64_t now = pr_now_real();

	if (pr_time_parse(text, now, out, err) < 0)
		return pr_error_prefix(err, "--at");
	if (*out < now && of_day)
		*out += 86400 * PR_NS_PER_S;
	return *out >= now ? 0 : pr_error_set(err, "--at %s is in the past", text);
}

static int
take(struct replay_args *a, struct replay_send *s, int count, char **words,
	struct pr_error *err)
{
	if (query_args_take(&a->query, count, words, err) < 0)
		return -1;
	if (!a->out)
		return pr_error_set(err, "no interface given: use --out IFACE");
	if (pace_parse(a->pace ? a->pace : "recorded", &s->pace, err) < 0)
		return pr_error_prefix(err, "--pace");
	if (a->at && parse_at(a->at, &s->at, err) < 0)
		return -1;
	if (question_check(&a->query, err) < 0)
		return -1;
	a->query.checked = true; /* before a socket is asked for, and not once more */
	return 0;
}

/* ---- what came of it ---- */

static uint64_t
not_sent(const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;

	return c->too_long + c->too_short + c->failed + r->other_type;
}

static void
print_text(const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;
	double seconds = (double)(c->ended - c->begun) / 1e9;

	printf("%" PRIu64 " packets, %" PRIu64
	       " bytes sent on %s in %.3f s (%.0f pps, %.1f Mbit/s)\n",
		c->frames, c->bytes, r->args->out, seconds,
		seconds > 0 ? (double)c->frames / seconds : 0,
		seconds > 0 ? (double)c->bytes * 8e-6 / seconds : 0);
	if (c->paced)
		printf("pacing: handed over late by %.1f us at the median, %.1f us at 99 "
		       "%%, "
		       "%.1f us at most\n",
			(double)replay_late(c, 0.5) / 1e3,
			(double)replay_late(c, 0.99) / 1e3, (double)c->latest / 1e3);
	if (r->cut)
		printf("truncated: %" PRIu64 " packets were sent as captured, truncated\n",
			r->cut);
	if (not_sent(r))
		printf("not sent: %" PRIu64 " longer than the MTU (%u), %" PRIu64
		       " shorter than an Ethernet header, %" PRIu64
		       " because the send queue stayed full, %" PRIu64 " not Ethernet\n",
			c->too_long, r->send.mtu, c->too_short, c->failed, r->other_type);
}

static void
print_data(struct render *out, const struct replay *r)
{
	const struct replay_counts *c = &r->send.counts;

	render_string(out, "out", r->args->out);
	render_uint(out, "sent_packets", c->frames);
	render_uint(out, "sent_bytes", c->bytes);
	render_uint(out, "duration_ns", (uint64_t)(c->ended - c->begun));
	render_uint(out, "late_p50_ns", c->paced ? (uint64_t)replay_late(c, 0.5) : 0);
	render_uint(out, "late_p99_ns", c->paced ? (uint64_t)replay_late(c, 0.99) : 0);
	render_uint(out, "late_max_ns", (uint64_t)c->latest);
	render_uint(out, "too_long", c->too_long);
	render_uint(out, "too_short", c->too_short);
	render_uint(out, "failed", c->failed);
	render_uint(out, "other_linktype", r->other_type);
	render_uint(out, "cut", r->cut);
	render_uint(out, "queue_full", c->queue_full);
}

static int
report(const struct replay *r, const Packrack__End *end)
{
	enum render_form form = query_form(&r->args->query);
	struct render *out;
	struct pr_error err;

	report_text(stderr, end, &r->sink);
	if (form == RENDER_TEXT) {
		print_text(r);
	} else {
		out = render_begin(stdout, form);
		print_data(out, r);
		if (render_end(&out) < 0) {
			pr_error_set(&err, "cannot write the report");
			return cli_fail(program.name, CLI_FAILED, &err);
		}
	}
	return not_sent(r) ? CLI_PARTIAL : report_status(end);
}

/* ---- doing it ---- */

static int
ask(struct replay *r, struct ask_answer *answer, struct pr_error *err)
{
	const struct query_args *q = &r->args->query;
	enum ask_result result;

	sink_init(&r->sink, q);
	r->sink.progress.terminal = false; /* it would be of packets that wait to be sent */
	r->sink.take = take_packet;
	r->sink.take_arg = r;
	result = ask_query(q, &r->sink, answer, err);
	r->send.stop |= result != ASK_DONE;
	replay_queue_end(r->send.queue);
	return result == ASK_DONE ? -1 : result == ASK_USAGE ? CLI_USAGE : CLI_FAILED;
}

static void
on_signal(int number)
{
	(void)number;
}

/* An interrupt ends the sending at once, also while the answer waits for room. */
static void *
watch_signals(void *arg)
{
	struct replay *r = arg;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigwait(&set, &number);
	r->interrupted = true;
	r->send.stop = true;
	replay_queue_give_up(r->send.queue);
	return NULL;
}

static int
start(struct replay *r, pthread_t *sender, pthread_t *watcher, struct pr_error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGINT,
		on_signal); /* sigwait does not return for a signal that the shell had set to be ignored */
	if (pthread_create(watcher, NULL, watch_signals, r) != 0)
		return pr_error_set(err, "cannot start watching for signals");
	if (pthread_create(sender, NULL, replay_send_run, &r->send) == 0)
		return 0;
	pthread_cancel(*watcher);
	pthread_join(*watcher, NULL);
	return pr_error_set(err, "cannot start sending");
}

static int
conclude(const struct replay *r, int status, const Packrack__End *end, struct pr_error *err)
{
	if (r->send.gave_up) {
		pr_error_set(err, "%s: %s", r->args->out, r->send.err.text);
		return CLI_FAILED;
	}
	if (r->interrupted) {
		print_text(r);
		pr_error_set(err, "interrupted");
		return cli_fail(program.name, CLI_PARTIAL, err);
	}
	return status < 0 ? report(r, end) : status;
}

static int
send_answer(struct replay *r, struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	pthread_t sender, watcher;
	int status;

	r->send.queue = replay_queue_create(err);
	if (!r->send.queue || replay_send_open(&r->send, r->args->out, err) < 0 ||
		start(r, &sender, &watcher, err) < 0)
		return CLI_FAILED;
	status = ask(r, &answer, err);
	pthread_join(sender, NULL);
	pthread_cancel(watcher);
	pthread_join(watcher, NULL);
	status = conclude(r, status, answer.end, err);
	sink_close(&r->sink);
	ask_answer_free(&answer);
	return status;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct replay_args *a = call->values;
	struct replay *r = calloc(1, sizeof(*r));
	int status = CLI_USAGE;

	if (!r) {
		pr_error_set(err, "no memory");
		return CLI_FAILED;
	}
	r->args = a;
	a->query.write = (char *)"(the interface)"; /* packets, not a report on them */
	if (take(a, &r->send, call->count, call->operands, err) == 0)
		status = send_answer(r, err);
	replay_send_close(&r->send);
	replay_queue_destroy(&r->send.queue);
	free(r);
	free(a->query.filter);
	return status;
}

int
cmd_replay(int argc, char **argv)
{
	struct replay_args a = {.query = QUERY_ARGS(program.name)};

	return cli_run(&program, &a, -1, argc, argv, run);
}
