/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace/replay_send.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"

#define BATCH 64
#define SPIN_NS (100 * INT64_C(1000)) /* awake so long before: what a wake-up may take */
/*
 * With real-time priority a wake-up is short, but who never sleeps is stopped by the kernel for 50 ms in
 * each second (sched_rt_runtime_us), and others starve: so after AWAKE_NS there is a REST_NS.
 */
#define SPIN_REALTIME_NS (40 * INT64_C(1000))
#define AWAKE_NS PR_NS_PER_MS
#define REST_NS (70 * INT64_C(1000))
#define PATIENCE_NS PR_NS_PER_S /* with a queue that is full */
#define NAP_NS (50 * PR_NS_PER_MS) /* between looks at stop */
#define BUCKET_NS 50
#define ETHER_HEADER 14
#define VLAN_TAG 4

struct batch {
	struct mmsghdr messages[BATCH];
	struct iovec parts[BATCH];
	int64_t due[BATCH]; /* monotonic; INT64_MIN: at once */
	unsigned count;
};

/* ---- the interface ---- */

static int
look_at(struct replay_send *s, const char *ifname, struct pr_error *err)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", ifname);
	if (strlen(ifname) >= IFNAMSIZ || ioctl(s->fd, SIOCGIFINDEX, &request) < 0)
		return pr_error_set(err, "no interface '%.60s' here", ifname);
	s->ifindex = request.ifr_ifindex;
	if (ioctl(s->fd, SIOCGIFFLAGS, &request) < 0 || !(request.ifr_flags & IFF_UP))
		return pr_error_set(
			err, "interface %s is down: ip link set %s up", ifname, ifname);
	if (ioctl(s->fd, SIOCGIFMTU, &request) < 0)
		return pr_error_errno(err, "MTU of %s", ifname);
	s->mtu = (uint32_t)request.ifr_mtu;
	return 0;
}

static int
set_up(struct replay_send *s, const char *ifname, struct pr_error *err)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET};
	const int on = 1, room = 4 * 1024 * 1024;

	if (look_at(s, ifname, err) < 0)
		return -1;
	address.sll_ifindex = s->ifindex;
	if (bind(s->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return pr_error_errno(err, "cannot send on %s", ifname);
	/* past the queueing discipline, which would add its own delay; where it cannot be had, with it */
	setsockopt(s->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	return 0;
}

int
replay_send_open(struct replay_send *s, const char *ifname, struct pr_error *err)
{
	s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* 0: nothing is received */
	if (s->fd < 0)
		return errno == EPERM
			       ? pr_error_set(err, "sending frames wants root, or the "
						   "capability CAP_NET_RAW")
			       : pr_error_errno(err, "cannot open a packet socket");
	if (set_up(s, ifname, err) == 0)
		return 0;
	replay_send_close(s);
	return -1;
}

void
replay_send_close(struct replay_send *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* ---- sending ---- */

static void
note_late(struct replay_counts *c, int64_t late)
{
	int64_t bucket = late < 0 ? 0 : late / BUCKET_NS;

	c->paced++;
	c->late[bucket < REPLAY_ERRORS ? bucket : REPLAY_ERRORS]++;
	if (late > c->latest)
		c->latest = late;
}

/* Is it one frame's fault? Then it is counted, and the others go on. */
static bool
refused(struct replay_send *s, const struct iovec *frame)
{
	if (errno == EMSGSIZE || (errno == EINVAL && frame->iov_len > s->mtu))
		s->counts.too_long++;
	else if (errno == EINVAL && frame->iov_len <= ETHER_HEADER)
		s->counts.too_short++;
	else
		return false;
	return true;
}

static bool
queue_is_full(void)
{
	return errno == ENOBUFS || errno == EAGAIN || errno == ENOMEM || errno == EINTR;
}

static void
count_sent(struct replay_send *s, const struct batch *b, unsigned from, unsigned count,
	int64_t now)
{
	for (unsigned i = from; i < from + count; i++) {
		s->counts.frames++;
		s->counts.bytes += b->parts[i].iov_len;
		if (b->due[i] != INT64_MIN)
			note_late(&s->counts, now - b->due[i]);
	}
}

static void
sleep_until(clockid_t clock, int64_t when)
{
	struct timespec t = {when / PR_NS_PER_S, when % PR_NS_PER_S};

	clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL);
}

/*
 * The queue is full. First it is tried again at once, as a card makes room within microseconds; then in
 * naps, so that a kernel thread with receive work of a veth or a loopback has its CPU. false: for too long.
 */
static bool
wait_for_room(struct replay_send *s, int64_t now, int64_t *since)
{
	if (!*since) {
		*since = now;
		s->counts.queue_full++;
	} else if (now - *since > SPIN_NS) {
		sleep_until(CLOCK_MONOTONIC, now + REST_NS);
		s->slept = pr_now_mono();
	}
	return now - *since <= PATIENCE_NS;
}

/* -1: the interface is gone or down; see err. */
static int
send_batch(struct replay_send *s, struct batch *b)
{
	int64_t full = 0; /* since when the queue is */
	unsigned done = 0;

	while (done < b->count && !s->stop) {
		int64_t now = pr_now_mono();
		int sent = sendmmsg(s->fd, b->messages + done, b->count - done, 0);

		s->counts.calls++;
		if (sent > 0) {
			count_sent(s, b, done, (unsigned)sent, now);
			done += (unsigned)sent;
			full = 0;
		} else if (refused(s, &b->parts[done])) {
			done++;
		} else if (!queue_is_full()) {
			return pr_error_errno(&s->err, "sending");
		} else if (!wait_for_room(s, now, &full)) {
			s->counts.failed++;
			done++;
			full = 0;
		}
	}
	b->count = 0;
	return 0;
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
add(struct batch *b, const uint8_t *frame, uint32_t len, int64_t due)
{
	unsigned i = b->count++;

	b->parts[i] = (struct iovec){(void *)frame, len};
	b->messages[i] =
		(struct mmsghdr){.msg_hdr = {.msg_iov = &b->parts[i], .msg_iovlen = 1}};
	b->due[i] = due;
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
	if (frame->len < ETHER_HEADER)
		s->counts.too_short++;
	else if (frame->len > s->mtu + ETHER_HEADER + VLAN_TAG)
		s->counts.too_long++;
	else
		add(b, bytes, frame->len, due);
	return b->count == BATCH ? send_batch(s, b) : 0;
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
	if (s->stop)
		b->count = 0;
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
