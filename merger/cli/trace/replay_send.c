/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/replay_send.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "proto/base/clock.h"
#include "proto/port/netdev.h"
#include "proto/wire/frame.h"

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

int
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

void
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

/* In naps, so that it can be told to stop. */
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

/* What is due goes out before anybody waits. */
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

/* This thread only; what is refused for want of privilege is done without. */
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

void *
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

int64_t
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
