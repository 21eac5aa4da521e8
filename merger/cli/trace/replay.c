/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/pace.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "merger/cli/query/ask.h"
#include "proto/base/thread.h"
#include "proto/base/units.h"
#include "proto/port/netdev.h"
#include "proto/port/transmit.h"

int
pace_parse(const char *text, struct pace *out, struct pr_error *err)
{
	struct pr_rate rate = {0};
	bool good = true;
	char *end;

	*out = (struct pace){.kind = PACE_RECORDED, .scale = 1};
	if (!strcmp(text, "max")) {
		out->kind = PACE_MAX;
	} else if (text[0] == 'x') {
		out->scale = strtod(text + 1, &end);
		good = end != text + 1 && !*end && out->scale >= 1e-6 && out->scale <= 1e9;
	} else if (strcmp(text, "recorded") != 0) {
		good = pr_parse_rate(text, &rate) == 0 && rate.per_second >= 0.001;
		out->kind = rate.packets ? PACE_PPS : PACE_BPS;
		out->rate = rate.per_second;
	}
	return good ? 0
		    : pr_error_set(err,
			      "'%.60s' is not a pace: give recorded, x2, x0.5, 5kpps, "
			      "100Mbit or max",
			      text);
}

static int64_t
rounded(double ns)
{
	return ns < 9e18 ? (int64_t)ns : INT64_MAX;
}

int64_t
pace_due(struct pace *p, int64_t time, uint32_t bytes)
{
	int64_t due = 0;

	if (p->kind == PACE_RECORDED) {
		if (!p->packets)
			p->first = p->latest = time;
		if (time > p->latest)
			p->latest = time;
		if (__builtin_sub_overflow(p->latest, p->first, &due))
			due = INT64_MAX;
		if (p->scale != 1)
			due = rounded(due / p->scale);
	} else if (p->kind == PACE_PPS) {
		due = rounded(p->packets * 1e9 / p->rate);
	} else if (p->kind == PACE_BPS) {
		due = rounded(p->bytes * 8e9 / p->rate);
	}
	p->packets++;
	p->bytes += bytes;
	return due;
}

/*
 * Packets that are ready to be sent lie one behind the other in chunks, between the thread that gets the
 * answer and the one that sends; a lock is taken once a chunk. At most REPLAY_CHUNKS x REPLAY_CHUNK bytes
 * wait; whoever is ahead blocks.
 */
#define REPLAY_CHUNK ((size_t)1024 * 1024)
#define REPLAY_CHUNKS 64
#define STOCK (REPLAY_CHUNKS / 2) /* chunks, before sending begins */

/* In a chunk, 8 bytes aligned; the frame follows. */
struct replay_frame {
	int64_t time;
	uint32_t len, room; /* room: of the frame, with padding */
};

struct replay_chunk {
	size_t used;
	uint8_t *bytes;
};

#define REPLAY_ERRORS 20000 /* buckets of 50 ns: up to a millisecond */
struct replay_counts {
	uint64_t frames, bytes; /* sent */
	uint64_t too_long, too_short; /* the interface takes no such frame */
	uint64_t failed; /* its queue stayed full for a second */
	uint64_t queue_full; /* times that its queue was full */
	int64_t begun, ended; /* monotonic; of sending */
	/* how late frames that had a due time were handed to the kernel */
	uint64_t paced, late[REPLAY_ERRORS + 1];
	int64_t latest;
};

struct replay {
	const struct replay_args *args;
	struct sink sink;
	uint64_t cut, other_type; /* truncated packets; packets of other link types */
	atomic_bool interrupted;
	sigset_t signals; /* that interrupt */
	/* to the thread that sends */
	struct pr_queue queue;
	struct replay_chunk chunks[REPLAY_CHUNKS];
	struct replay_chunk *filling; /* NULL: the sender has given up */
	struct pace pace;
	int64_t at; /* real time of the first frame; 0: when STOCK chunks are ready */
	atomic_bool stop; /* ends it before the next frame */
	/* what came of it */
	struct replay_counts counts;
	struct pr_error err; /* when it gave up */
	bool gave_up;
	/* used by the sending thread only */
	struct pr_transmit *transmit;
	uint32_t mtu;
	bool realtime;
	int64_t slept; /* monotonic ns, end of the last sleep */
};

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

/* ---- the answer's packets ---- */

/* What has gathered, if anything, may be taken, and the next chunk is to be filled. */
static void
fill_next(struct replay *r)
{
	if (r->filling && !r->filling->used)
		return;
	if (r->filling)
		pr_queue_put(&r->queue);
	int slot = pr_queue_reserve(&r->queue);
	r->filling = slot < 0 ? NULL : &r->chunks[slot];
	if (r->filling)
		r->filling->used = 0;
}

static int
take_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct replay *r = arg;
	struct replay_frame frame = {
		.time = p->time, .len = p->caplen, .room = (p->caplen + 7) & ~UINT32_C(7)};

	if (p->linktype != PR_LINKTYPE_ETHERNET) {
		r->other_type++;
		return 0;
	}
	r->cut += p->caplen < p->len;
	if (r->filling && r->filling->used + sizeof(frame) + frame.room > REPLAY_CHUNK)
		fill_next(r);
	struct replay_chunk *c = r->filling;
	if (p->caplen > REPLAY_CHUNK - sizeof(frame) - 8 || !c ||
		pr_queue_stopped(&r->queue))
		return r->gave_up ? pr_error_set(err, "%s: %s", r->args->out, r->err.text)
				  : pr_error_set(err, "interrupted");
	memcpy(c->bytes + c->used, &frame, sizeof(frame));
	memcpy(c->bytes + c->used + sizeof(frame), p->data, p->caplen);
	c->used += sizeof(frame) + frame.room;
	return 0;
}

/* ---- sending: a thread of its own ---- */

/*
 * Sends frames onto one interface, each when it is due: it sleeps until shortly before and then looks at
 * the clock until it is time. What is due at once goes out with one call.
 */
/* A wake-up may take this long, so the thread wakes this long before a frame is due. */
#define SPIN_NS (100 * INT64_C(1000))
/*
 * With real-time priority a wake-up is short. But the kernel stops a thread that never
 * sleeps for 50 ms in each second (sched_rt_runtime_us), and others starve: so the thread
 * rests for REST_NS after AWAKE_NS.
 */
#define SPIN_REALTIME_NS (40 * INT64_C(1000))
#define AWAKE_NS PR_NS_PER_MS
#define REST_NS (70 * INT64_C(1000))
#define PATIENCE_NS PR_NS_PER_S /* with a queue that is full */
#define NAP_NS (50 * PR_NS_PER_MS) /* between looks at stop */
enum { BUCKET_NS = 50, VLAN_TAG = 4 };

/* What has been added to the transmit socket and not been sent yet. */
struct batch {
	uint32_t len[PR_TRANSMIT_BATCH];
	int64_t due[PR_TRANSMIT_BATCH]; /* monotonic; INT64_MIN: at once */
	unsigned count;
};

static void
sleep_until(clockid_t clock, int64_t when)
{
	struct timespec t = {when / PR_NS_PER_S, when % PR_NS_PER_S};

	clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL);
}

/* -1: the interface is gone or down; see r->err. Frames that wait for a full queue count as late. */
static int
send_batch(struct replay *r, struct batch *b)
{
	const struct pr_transmit_counters *sent = pr_transmit_counters(r->transmit);
	struct replay_counts *c = &r->counts;
	bool failed[PR_TRANSMIT_BATCH];
	int64_t now = pr_now_mono();

	pr_transmit_send(r->transmit, failed);
	if (pr_counter_get(&sent->queue_full) != c->queue_full)
		now = r->slept = pr_now_mono();
	c->queue_full = pr_counter_get(&sent->queue_full);
	for (unsigned i = 0; i < b->count; i++) {
		uint32_t len = b->len[i];
		int64_t late = now - b->due[i], bucket = late < 0 ? 0 : late / BUCKET_NS;

		/* the kernel refuses an untagged frame that is as long as only a tagged one may be */
		if (failed[i] && len > r->mtu + PR_ETHER_LEN)
			c->too_long++;
		else if (failed[i] && len <= PR_ETHER_LEN)
			c->too_short++;
		else if (failed[i])
			c->failed++;
		if (failed[i])
			continue;
		c->frames++;
		c->bytes += len;
		if (b->due[i] == INT64_MIN)
			continue;
		c->paced++;
		c->late[bucket < REPLAY_ERRORS ? bucket : REPLAY_ERRORS]++;
		c->latest = late > c->latest ? late : c->latest;
	}
	b->count = 0;
	return pr_transmit_trouble(r->transmit, &r->err) ? -1 : 0;
}

/* Rests, if it must, and sleeps in short steps, so that stop is noticed. */
static void
wait_until(struct replay *r, int64_t due)
{
	int64_t now = pr_now_mono(), spin = r->realtime ? SPIN_REALTIME_NS : SPIN_NS;

	if (r->realtime && now - r->slept >= AWAKE_NS) {
		sleep_until(CLOCK_MONOTONIC, now + REST_NS);
		r->slept = now = pr_now_mono();
	}
	while (due - now > spin && !r->stop) {
		int64_t wake = due - spin;

		sleep_until(CLOCK_MONOTONIC, wake - now > NAP_NS ? now + NAP_NS : wake);
		r->slept = now = pr_now_mono();
	}
	while (due > now && !r->stop)
		now = pr_now_mono();
}

/* Adds a frame to the batch. Sends the batch before it waits for the frame's time. */
static int
send_frame(struct replay *r, struct batch *b, const struct replay_frame *frame,
	const uint8_t *bytes)
{
	int64_t due = INT64_MIN, after;

	if (r->pace.kind != PACE_MAX) {
		after = pace_due(&r->pace, frame->time, frame->len);
		if (__builtin_add_overflow(r->counts.begun, after, &due))
			due = INT64_MAX;
		if (due > pr_now_mono()) {
			if (send_batch(r, b) < 0)
				return -1;
			wait_until(r, due);
		}
	}
	if (frame->len < PR_ETHER_LEN) {
		r->counts.too_short++;
	} else if (frame->len > r->mtu + PR_ETHER_LEN + VLAN_TAG) {
		r->counts.too_long++;
	} else {
		pr_transmit_add(r->transmit, bytes, frame->len, NULL);
		b->len[b->count] = frame->len;
		b->due[b->count++] = due;
	}
	return b->count == PR_TRANSMIT_BATCH ? send_batch(r, b) : 0;
}

/* When there is a stock of chunks, or all of them, and it is time. */
static void
begin(struct replay *r)
{
	const struct sched_param lowest = {.sched_priority = 1};
	int64_t now;

	pr_queue_wait_filled(&r->queue, STOCK);
	while (!r->stop && (now = pr_now_real()) < r->at)
		sleep_until(CLOCK_REALTIME, r->at - now > NAP_NS ? now + NAP_NS : r->at);
	/* for this thread only; without the privilege for a setting it continues without */
	prctl(PR_SET_TIMERSLACK, 1UL);
	setpriority(PRIO_PROCESS, 0, -20);
	r->realtime =
		r->pace.kind != PACE_MAX && sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
	r->counts.begun = r->counts.ended = r->slept = pr_now_mono();
}

/* The thread: until the queue's end. */
static void *
send_all(void *arg)
{
	struct replay *r = arg;
	struct batch b = {.count = 0};
	int slot;

	begin(r);
	while (!r->stop && !r->gave_up && (slot = pr_queue_take(&r->queue)) >= 0) {
		const struct replay_chunk *chunk = &r->chunks[slot];

		for (size_t at = 0; at < chunk->used && !r->stop && !r->gave_up;) {
			struct replay_frame frame;

			memcpy(&frame, chunk->bytes + at, sizeof(frame));
			at += sizeof(frame);
			r->gave_up = send_frame(r, &b, &frame, chunk->bytes + at) < 0;
			at += frame.room;
		}
		r->gave_up = r->gave_up || send_batch(r, &b) < 0;
	}
	r->counts.ended = pr_now_mono();
	pr_queue_stop(&r->queue);
	return NULL;
}

static int
take(struct replay_args *a, struct replay *r, int count, char **words, struct pr_error *err)
{
	int64_t now = pr_now_real();

	if (query_args_take(&a->query, count, words, err) < 0)
		return -1;
	if (!a->out)
		return pr_error_set(err, "no interface given: use --out IFACE");
	if (pace_parse(a->pace ? a->pace : "recorded", &r->pace, err) < 0)
		return pr_error_prefix(err, "--pace");
	if (a->at) {
		if (pr_time_parse(a->at, now, &r->at, err) < 0)
			return pr_error_prefix(err, "--at");
		/* 09:30 means tomorrow's if today's is over */
		if (r->at < now && strchr(a->at, ':') &&
			strlen(a->at) <= strlen("09:30:00"))
			r->at += 86400 * PR_NS_PER_S;
		if (r->at < now)
			return pr_error_set(err, "--at %s is in the past", a->at);
	}
	if (question_check(&a->query, err) < 0)
		return -1;
	a->query.checked = true; /* checked before the socket is opened, once */
	return 0;
}

/* ---- what came of it ---- */

/* Lateness in ns that this part of the frames stayed below; part 0.5: the median. */
static int64_t
late(const struct replay_counts *c, double part)
{
	uint64_t seen = 0, wanted = c->paced * part;

	for (int i = 0; i < REPLAY_ERRORS && c->paced; i++) {
		seen += c->late[i];
		if (seen > wanted)
			return (i + 1) * BUCKET_NS;
	}
	return c->latest;
}

static uint64_t
not_sent(const struct replay *r)
{
	const struct replay_counts *c = &r->counts;

	return c->too_long + c->too_short + c->failed + r->other_type;
}

static void
print_text(const struct replay *r)
{
	const struct replay_counts *c = &r->counts;
	double seconds = (c->ended - c->begun) / 1e9;

	printf("%" PRIu64 " packets, %" PRIu64
	       " bytes sent on %s in %.3f s (%.0f pps, %.1f Mbit/s)\n",
		c->frames, c->bytes, r->args->out, seconds,
		seconds > 0 ? c->frames / seconds : 0,
		seconds > 0 ? c->bytes * 8e-6 / seconds : 0);
	if (c->paced)
		printf("pacing: handed over late by %.1f us at the median, %.1f us at 99 "
		       "%%, %.1f us at most\n",
			late(c, 0.5) / 1e3, late(c, 0.99) / 1e3, c->latest / 1e3);
	if (r->cut)
		printf("truncated: %" PRIu64 " packets were sent as captured, truncated\n",
			r->cut);
	if (not_sent(r))
		printf("not sent: %" PRIu64 " longer than the MTU (%u), %" PRIu64
		       " shorter than an Ethernet header, %" PRIu64
		       " because the send queue stayed full, %" PRIu64 " not Ethernet\n",
			c->too_long, r->mtu, c->too_short, c->failed, r->other_type);
}

static int
report(const struct replay *r, struct pr_error *err)
{
	const struct replay_counts *c = &r->counts;
	const struct query_args *q = &r->args->query;
	struct render *out = cli_render(q->json, q->keyvalue, NULL);

	report_text(stderr, &r->sink);
	if (!out) {
		print_text(r);
	} else {
		render_string(out, "out", r->args->out);
		RENDER_UINTS(out, {"sent_packets", c->frames}, {"sent_bytes", c->bytes},
			{"duration_ns", c->ended - c->begun}, {"late_p50_ns", late(c, 0.5)},
			{"late_p99_ns", late(c, 0.99)}, {"late_max_ns", c->latest},
			{"too_long", c->too_long}, {"too_short", c->too_short},
			{"failed", c->failed}, {"other_linktype", r->other_type},
			{"cut", r->cut}, {"queue_full", c->queue_full});
	}
	if (render_end(&out) < 0)
		return pr_error_set(err, "cannot write the report");
	return not_sent(r) ? CLI_PARTIAL : report_status(&r->sink);
}

/* ---- doing it ---- */

/* An interrupt ends the sending at once, also while the answer waits for room. */
static void *
watch_signals(void *arg)
{
	struct replay *r = arg;
	int number;

	sigwait(&r->signals, &number);
	r->interrupted = true;
	r->stop = true;
	pr_queue_stop(&r->queue);
	return NULL;
}

/* The interface must be there and up. */
static int
prepare(struct replay *r, struct pr_error *err)
{
	const char *ifname = r->args->out;
	struct pr_transmit_config config = {
		.ifname = ifname, .patience = PATIENCE_NS, .spin = SPIN_NS};
	struct pr_netdev dev;

	for (int i = 0; i < REPLAY_CHUNKS; i++)
		if (!(r->chunks[i].bytes = malloc(REPLAY_CHUNK)))
			return pr_error_set(err, "no memory for packets to be sent");
	fill_next(r);
	if (pr_netdev_open(&dev, ifname, err) < 0)
		return -1;
	if (!dev.up)
		return pr_error_set(
			err, "interface %s is down: ip link set %s up", ifname, ifname);
	config.ifindex = dev.index;
	config.mtu = r->mtu = dev.mtu;
	r->transmit = pr_transmit_open(&config, err);
	return r->transmit ? 0 : -1;
}

static int
start(struct replay *r, pthread_t *sender, pthread_t *watcher, struct pr_error *err)
{
	sigemptyset(&r->signals);
	sigaddset(&r->signals, SIGINT);
	sigaddset(&r->signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &r->signals, NULL);
	/* sigwait does not return for a signal that the shell had set to be ignored */
	signal(SIGINT, SIG_DFL);
	if (pthread_create(watcher, NULL, watch_signals, r) != 0)
		return pr_error_set(err, "cannot start watching for signals");
	if (pthread_create(sender, NULL, send_all, r) == 0)
		return 0;
	pthread_cancel(*watcher);
	pthread_join(*watcher, NULL);
	return pr_error_set(err, "cannot start sending");
}

static int
send_answer(struct replay *r, struct pr_error *err)
{
	pthread_t sender, watcher;

	if (prepare(r, err) < 0 || start(r, &sender, &watcher, err) < 0)
		return CLI_FAILED;
	sink_init(&r->sink, &r->args->query);
	r->sink.progress.terminal = false; /* it would count packets that wait to be sent */
	r->sink.take = take_packet;
	r->sink.take_arg = r;
	int status = ask_query(&r->sink, err);
	r->stop |= status != CLI_OK;
	fill_next(r);
	pr_queue_end(&r->queue);
	pthread_join(sender, NULL);
	pthread_cancel(watcher);
	pthread_join(watcher, NULL);
	if (r->gave_up) {
		status = pr_error_set(err, "%s: %s", r->args->out, r->err.text);
	} else if (r->interrupted) {
		print_text(r);
		pr_error_set(err, "interrupted");
		status = cli_fail("packrack replay", CLI_PARTIAL, err);
	} else if (status == CLI_OK) {
		status = report(r, err);
	}
	sink_close(&r->sink);
	return status;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct replay_args *a = call->values;
	struct replay *r = calloc(1, sizeof(*r));

	if (!r)
		return pr_error_set(err, "no memory");
	r->args = a;
	pr_queue_init(&r->queue, REPLAY_CHUNKS);
	a->query.write = "(the interface)"; /* packets, not a report on them */
	int status = take(a, r, call->count, call->operands, err) == 0 ? send_answer(r, err)
								       : CLI_USAGE;
	pr_transmit_close(&r->transmit);
	pr_queue_destroy(&r->queue);
	for (int i = 0; i < REPLAY_CHUNKS; i++)
		free(r->chunks[i].bytes);
	free(r);
	free(a->query.filter);
	return status;
}

const struct cli_command replay_command = {"replay",
	"send packets onto an interface, at the recorded or another pace",
	.summary = "Sends the packets that a filter and a time range choose onto an "
		   "interface.",
	.usage = "--out IFACE [options] [FILTER...]", PR_OPTIONS(options),
	.footer = "Needs root, or CAP_NET_RAW.\n\n"
		  "  packrack replay --volume v --out eth1\n"
		  "  packrack replay --since \"10m ago\" --out eth1 --pace x2 tcp port 80\n"
		  "  packrack replay --out eth1 --pace 100Mbit --at 23:00",
	.operands = -1, .call = run, .values = &(struct replay_args){.query = QUERY_ARGS}};
