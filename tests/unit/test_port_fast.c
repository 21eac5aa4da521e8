/* SPDX-License-Identifier: Apache-2.0 */
/* The XDP program run on frames by the kernel (BPF_PROG_TEST_RUN), and its records read, on a veth pair of a namespace of its own. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "proto/port/fast.c" /* the program itself is not public */
#include "proto/wire/frame.h"
#include "tests/unit/unit.h"

enum { FRAME_ROOM = 2000, SEED = 5, THREADS = 4, FRAMES = 20000 };
#define EPOCH UINT64_C(0x0123456789abcdef)
static const uint8_t own[6] = {2, 0, 0, 0, 0, 1},
		     node[2][6] = {{2, 0, 0, 0, 0, 8}, {2, 0, 0, 0, 0, 9}};
static struct pr_fast *fast;

static bool
lab(unsigned copies)
{
	static const char *const names[] = {"fi0", "fi2"};
	struct pr_error err;

	if (unshare(CLONE_NEWNET) < 0 ||
		system("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set "
		       "lo up && ip link add fi0 type veth peer name fi1 && "
		       "ip link add fi2 type veth peer name fi3 && ip link add fo0 type "
		       "veth peer name fo1 && "
		       "for i in fi0 fi1 fi2 fi3 fo0 fo1; do ip link set $i up || exit 1; "
		       "done; ethtool -K fo1 gro on") != 0)
		return false;
	fast = pr_fast_open(names, 2, "fo0", 1 << 21, copies, &err);
	if (!fast) {
		fprintf(stderr, "skipped: %s\n", err.text);
		return false;
	}
	pr_fast_configure(fast, EPOCH, own, 0x88b5, 262144, false);
	for (unsigned i = 0; i < 2; i++) {
		pr_fast_node(fast, (uint16_t)(7 + i), node[i]);
		pr_fast_set_running(fast, i, true);
	}
	return true;
}

static void
schedule(bool by_flow)
{
	struct pr_fast_schedule *s = pr_fast_schedule(fast);

	s->count = 2;
	s->by_flow = by_flow;
	s->frame_max = 1514;
	s->slot[0][0] = s->slot[0][1] = 7;
	s->slot[1][0] = s->slot[1][1] = 8;
	pr_fast_room(fast, UINT64_MAX / 2);
	pr_fast_swap(fast);
}

/* Returns what the program says; out gets the frame as it leaves. */
static uint32_t
run(const char *ifname, const uint8_t *frame, uint32_t len, uint8_t *out, int repeat)
{
	struct xdp_md ctx = {.data_end = len, .ingress_ifindex = if_nametoindex(ifname)};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = len,
		.data_out = out, .data_size_out = out ? FRAME_ROOM : 0, .ctx_in = &ctx,
		.ctx_size_in = sizeof ctx, .repeat = repeat);

	ck_assert_int_eq(
		bpf_prog_test_run_opts(bpf_program__fd(fast->bpf->progs.fast_capture), &o),
		0);
	return o.retval;
}

static void
fill_frame(uint8_t *frame, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		frame[i] = (uint8_t)rand();
	frame[12] = 0x12;
}

START_TEST(same_fingerprint)
{
	uint8_t frame[FRAME_ROOM], out[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;

	if (!lab(1))
		return;
	schedule(false);
	srand(SEED);
	for (uint32_t len = 60, number = 0; len <= 1514; len++, number++) {
		fill_frame(frame, len);
		ck_assert_uint_eq(run("fi0", frame, len, out, 1), XDP_REDIRECT);
		ck_assert(pr_fast_next(fast, &rec, &data));
		ck_assert_uint_eq(rec.link, 0);
		ck_assert_uint_eq(rec.len, len);
		ck_assert_uint_eq(rec.sent, 1);
		ck_assert_uint_eq(rec.node, 7 + number % 2);
		ck_assert_mem_eq(rec.macs, frame, 12);
		ck_assert_mem_eq(out, node[number % 2], 6);
		ck_assert_mem_eq(out + 6, own, 6);
		ck_assert_mem_eq(out + 12, frame + 12, len - 12);
		ck_assert_uint_eq(rec.fingerprint, pr_fingerprint_whole(out, len, EPOCH));
		ck_assert_int_lt(llabs(rec.time - pr_now_real()), PR_NS_PER_S);
		ck_assert(!pr_fast_next(fast, &rec, &data) && pr_fast_empty(fast));
		pr_fast_release(fast);
	}
	pr_fast_close(&fast);
}
END_TEST

/* Of a frame no more is sent than the snap length; below the least length of a frame the dispatcher sends it. */
START_TEST(snap_length)
{
	static const uint32_t snaplens[] = {100, 60, 59, 14};
	uint8_t frame[FRAME_ROOM], out[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;

	if (!lab(1))
		return;
	schedule(false);
	srand(SEED);
	for (unsigned i = 0; i < 4; i++) {
		pr_fast_configure(fast, EPOCH, own, 0x88b5, snaplens[i], false);
		for (uint32_t len = 60; len <= 1600; len += 7) {
			uint32_t caplen = PR_MIN(len, snaplens[i]);
			bool sent = caplen >= 60;

			fill_frame(frame, len);
			ck_assert_uint_eq(run("fi0", frame, len, out, 1),
				sent ? XDP_REDIRECT : XDP_PASS);
			ck_assert(pr_fast_next(fast, &rec, &data));
			ck_assert_uint_eq(rec.len, len);
			ck_assert_uint_eq(rec.caplen, caplen);
			ck_assert_uint_eq(rec.sent, sent);
			ck_assert_mem_eq(rec.macs, frame, 12);
			if (sent) {
				ck_assert_mem_eq(out + 12, frame + 12, caplen - 12);
				ck_assert_uint_eq(rec.fingerprint,
					pr_fingerprint_whole(out, caplen, EPOCH));
			} else {
				ck_assert_mem_eq(data, frame, caplen);
			}
			pr_fast_release(fast);
		}
	}
	pr_fast_close(&fast);
}
END_TEST

/* What was taken while no node was there is known until the program spreads itself. */
START_TEST(backlog)
{
	uint8_t frame[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;

	if (!lab(1))
		return;
	pr_fast_room(fast, UINT64_MAX / 2);
	fill_frame(frame, 100);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(run("fi0", frame, 100, NULL, 1), XDP_PASS);
	ck_assert_uint_eq(pr_fast_backlog(fast), 3 * (100 + PR_FAST_COST));
	ck_assert(pr_fast_passed(fast)); /* and notes that there are three */
	ck_assert(!pr_fast_passed(fast));
	ck_assert(pr_fast_next(fast, &rec, &data));
	ck_assert_uint_eq(pr_fast_backlog(fast), 2 * (100 + PR_FAST_COST));
	schedule(false);
	ck_assert_uint_eq(run("fi0", frame, 100, NULL, 1), XDP_REDIRECT);
	ck_assert_uint_eq(pr_fast_backlog(fast), 0);
	ck_assert(pr_fast_next(fast, &rec, &data) && !pr_fast_passed(fast));
	ck_assert(pr_fast_next(fast, &rec, &data) && pr_fast_passed(fast));
	ck_assert(!pr_fast_passed(fast)); /* the fourth is not read */
	pr_fast_close(&fast);
}
END_TEST

/* What the nodes have no room for is refused, until records are read. */
START_TEST(room)
{
	uint8_t frame[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;
	uint64_t full, longer;

	if (!lab(1))
		return;
	schedule(false);
	fill_frame(frame, 100);
	for (unsigned round = 1; round <= 3; round++) {
		pr_fast_room(fast, 3 * (100 + PR_FAST_COST) + 99);
		for (unsigned i = 0; i < 5; i++)
			ck_assert_uint_eq(run("fi0", frame, 100, NULL, 1),
				i < 3 ? XDP_REDIRECT : XDP_DROP);
		pr_fast_refused(fast, 0, &full, &longer);
		ck_assert_uint_eq(full, 2 * round);
		for (unsigned i = 0; i < 3; i++)
			ck_assert(pr_fast_next(fast, &rec, &data));
		ck_assert(!pr_fast_next(fast, &rec, &data));
		pr_fast_release(fast);
	}
	pr_fast_close(&fast);
}
END_TEST

/* What the program leaves to the dispatcher: whole, with its number, and with a node where there is a schedule. */
START_TEST(left_whole)
{
	static const struct {
		uint32_t len;
		uint8_t type[6];
		bool sent, scheduled;
	} cases[] = {{59, {8, 0}, false, true}, {60, {8, 0}, true, true},
		{14, {8, 0}, false, true}, {1514, {8, 0}, true, true},
		{1515, {8, 0}, false, true}, {1518, {0x81, 0, 0, 1, 8, 0}, true, true},
		{1519, {0x81, 0, 0, 1, 8, 0}, false, true},
		{1518, {0x88, 0xa8, 0, 1, 8, 0}, false, true},
		{100, {0x88, 0xb5}, false, true},
		{100, {0x81, 0, 0, 1, 0x88, 0xb5}, false, true},
		{100, {0x88, 0xa8, 0, 1, 0x81, 0}, false, true},
		{700, {8, 0}, false, false}};
	uint8_t frame[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;

	if (!lab(1))
		return;
	schedule(false);
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fill_frame(frame, cases[i].len);
		memcpy(frame + 12, cases[i].type,
			cases[i].len < 18 ? 2 : sizeof cases[i].type);
		if (!cases[i].scheduled) {
			pr_fast_schedule(fast)->count = 0;
			pr_fast_swap(fast);
		}
		ck_assert_uint_eq(run("fi2", frame, cases[i].len, NULL, 1),
			cases[i].sent ? XDP_REDIRECT : XDP_PASS);
		ck_assert(pr_fast_next(fast, &rec, &data));
		ck_assert_uint_eq(rec.link, 1);
		ck_assert_uint_eq(rec.len, cases[i].len);
		ck_assert_msg(rec.sent == cases[i].sent, "case %u", i);
		ck_assert_uint_eq(
			rec.node, cases[i].scheduled ? 7 + i % 2 : PR_FAST_NO_NODE);
		if (!rec.sent)
			ck_assert_mem_eq(data, frame, rec.len);
		pr_fast_release(fast);
	}
	pr_fast_set_running(fast, 1, false);
	ck_assert_uint_eq(run("fi2", frame, 100, NULL, 1), XDP_PASS);
	ck_assert(!pr_fast_next(fast, &rec, &data));
	pr_fast_close(&fast);
}
END_TEST

/* Both directions of a connection go to one node, and connections to both nodes. */
START_TEST(flows)
{
	uint8_t frame[80] = {[12] = 8, [14] = 0x45, [23] = 6}, back[80];
	struct pr_fast_record rec, other;
	unsigned to[2] = {0, 0};
	const uint8_t *data;

	if (!lab(1))
		return;
	schedule(true);
	srand(SEED);
	for (unsigned i = 0; i < 200; i++) {
		for (unsigned k = 26; k < 38; k++)
			frame[k] = (uint8_t)rand();
		memcpy(back, frame, sizeof frame);
		memcpy(back + 26, frame + 30, 4);
		memcpy(back + 30, frame + 26, 4);
		memcpy(back + 34, frame + 36, 2);
		memcpy(back + 36, frame + 34, 2);
		run("fi0", frame, sizeof frame, NULL, 1);
		run("fi0", back, sizeof back, NULL, 1);
		ck_assert(pr_fast_next(fast, &rec, &data));
		ck_assert(pr_fast_next(fast, &other, &data));
		ck_assert_uint_eq(rec.node, other.node);
		to[rec.node - 7]++;
		pr_fast_release(fast);
	}
	ck_assert(to[0] > 60 && to[1] > 60);
	pr_fast_close(&fast);
}
END_TEST

/* Its bytes behind the header say whose it is; of every other thread it goes whole. */
static void *
feed(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint8_t frame[100] = {[12] = 8, [14] = (uint8_t)i};

	run(i % 2 ? "fi2" : "fi0", frame, i / 2 ? sizeof frame : 59, NULL, FRAMES);
	return NULL;
}

/*
 * Several CPUs at once, two links, more frames than the rings have places: each once, by turns to the nodes, with its
 * bytes; what found no room was counted and has no number.
 */
START_TEST(in_order)
{
	uint64_t number = 0, ring, longer, refused = 0;
	pthread_t threads[THREADS];
	struct pr_fast_record rec;
	const uint8_t *data;
	int64_t deadline = pr_now_mono() + 20 * PR_NS_PER_S;

	if (!lab(1))
		return;
	schedule(false);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, feed, (void *)i), 0);
	do {
		for (int n = 0; n < 64 && pr_fast_next(fast, &rec, &data); n++) {
			ck_assert_uint_eq(rec.node, 7 + number++ % 2);
			ck_assert_uint_eq(rec.caplen, rec.sent ? 100 : 59);
			if (!rec.sent)
				ck_assert_uint_eq(data[14], rec.link);
		}
		pr_fast_release(fast);
		refused = 0;
		for (unsigned i = 0; i < 2; i++) {
			pr_fast_refused(fast, i, &ring, &longer);
			refused += ring;
		}
	} while (number + refused < THREADS * FRAMES && pr_now_mono() < deadline);
	ck_assert_uint_eq(number + refused, THREADS * FRAMES);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	ck_assert(!pr_fast_next(fast, &rec, &data) && pr_fast_empty(fast));
	pr_fast_close(&fast);
}
END_TEST

/* A ring that is full refuses, and goes on where it was; a whole frame that begins before its ring's end reaches beyond. */
START_TEST(full_rings)
{
	uint8_t frame[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;
	uint64_t ring, longer, before = 0, size;

	if (!lab(1))
		return;
	schedule(false);
	srand(SEED);
	for (unsigned round = 0; round < 4; round++) {
		uint32_t len = round % 2 ? 1600 : 100, took = 0;

		fill_frame(frame, len);
		run("fi0", frame, len, NULL, 40000);
		ck_assert_uint_gt(pr_fast_used(fast, &size), size / 3);
		pr_fast_refused(fast, 0, &ring, &longer);
		for (; pr_fast_next(fast, &rec, &data); took++)
			if (!rec.sent)
				ck_assert_mem_eq(data, frame, len);
		ck_assert_uint_gt(took, 600);
		ck_assert_uint_gt(ring, before);
		ck_assert_uint_eq(took + ring - before, 40000);
		before = ring;
		pr_fast_release(fast);
		ck_assert_uint_eq(pr_fast_used(fast, &size), 0);
	}
	pr_fast_close(&fast);
}
END_TEST

/* Numbers have 24 bits in the program, and a byte says which lap of the ring it is: both begin anew, and nothing is lost. */
START_TEST(laps)
{
	enum { PART = 30000 };
	uint8_t frame[60] = {[12] = 8};
	struct pr_fast_record rec;
	const uint8_t *data;
	uint64_t number = (1 << PR_FAST_NUMBER_BITS) - 5 * PART / 2;

	if (!lab(1))
		return;
	fast->next = fast->state->released = fast->state->given = number;
	schedule(false);
	for (unsigned round = 0; round < 20; round++) {
		/* a lap of all numbers takes a byte of the room */
		pr_fast_room(fast, PART * (60 + PR_FAST_COST) + 1);
		run("fi0", frame, sizeof frame, NULL, PART + 10);
		for (unsigned i = 0; i < PART; i++, number++) {
			ck_assert(pr_fast_next(fast, &rec, &data));
			ck_assert_uint_eq(rec.node, 7 + number % 2);
		}
		ck_assert(!pr_fast_next(fast, &rec, &data) && pr_fast_empty(fast));
		pr_fast_release(fast);
	}
	pr_fast_close(&fast);
}
END_TEST

/* Waits for it at most two seconds. */
static bool
receive(int fd, uint8_t *frame)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 2000) == 1 && recv(fd, frame, FRAME_ROOM, 0) >= 60;
}

/* With two copies each frame leaves twice, to its two nodes, and takes room twice; where there is one node, once. */
START_TEST(two_copies)
{
	enum { LIVE = 1000 };
	uint8_t frame[FRAME_ROOM], first[FRAME_ROOM], second[FRAME_ROOM];
	struct pr_fast_record rec;
	const uint8_t *data;

	if (!lab(2))
		return;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	struct sockaddr_ll on = {.sll_family = AF_PACKET,
		.sll_protocol = htons(0x1200),
		.sll_ifindex = (int)if_nametoindex("fo1")};
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&on, sizeof on), 0);
	schedule(false);
	struct pr_fast_schedule *s = pr_fast_schedule(fast);
	*s = fast->state->schedules[fast->state->active];
	s->twice = 1;
	s->slot[0][1] = 8;
	s->slot[1][1] = 7;
	pr_fast_swap(fast);
	pr_fast_room(fast, 2 * LIVE * (200 + PR_FAST_COST));
	fill_frame(frame, 200);
	frame[13] = 0;
	struct xdp_md ctx = {.data_end = 200, .ingress_ifindex = if_nametoindex("fi0")};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = 200,
		.ctx_in = &ctx, .ctx_size_in = sizeof ctx, .repeat = 1,
		.flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	for (unsigned i = 0; i <= LIVE; i++) {
		ck_assert_int_eq(
			bpf_prog_test_run_opts(
				bpf_program__fd(fast->bpf->progs.fast_capture), &o),
			0);
		if (i == LIVE) /* no room */
			break;
		ck_assert(pr_fast_next(fast, &rec, &data));
		ck_assert(rec.sent && rec.node == 7 + i % 2 && rec.second == 8 - i % 2);
		ck_assert(receive(fd, first) && receive(fd, second));
		ck_assert_mem_eq(first, node[i % 2], 6);
		ck_assert_mem_eq(second, node[1 - i % 2], 6);
		ck_assert_mem_eq(first + 6, own, 6);
		ck_assert_mem_eq(first + 6, second + 6, 194);
		ck_assert_mem_eq(first + 12, frame + 12, 188);
	}
	ck_assert(!pr_fast_next(fast, &rec, &data) && pr_fast_empty(fast));
	ck_assert_uint_eq(fast->state->redirected, 2 * LIVE);
	s = pr_fast_schedule(fast); /* as it was before */
	pr_fast_room(fast, 200 + PR_FAST_COST);
	pr_fast_swap(fast);
	ck_assert_int_eq(
		bpf_prog_test_run_opts(bpf_program__fd(fast->bpf->progs.fast_capture), &o),
		0);
	ck_assert(pr_fast_next(fast, &rec, &data) && rec.second == PR_FAST_NO_NODE);
	ck_assert(receive(fd, first));
	ck_assert_mem_eq(first, node[rec.node - 7], 6);
	close(fd);
	pr_fast_close(&fast);
}
END_TEST

static void
add_tests(TCase *tc)
{
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, same_fingerprint);
	tcase_add_test(tc, snap_length);
	tcase_add_test(tc, backlog);
	tcase_add_test(tc, room);
	tcase_add_test(tc, left_whole);
	tcase_add_test(tc, flows);
	tcase_add_test(tc, in_order);
	tcase_add_test(tc, full_rings);
	tcase_add_test(tc, laps);
	tcase_add_test(tc, two_copies);
}

int
main(void)
{
	return unit_run("port_fast", add_tests);
}
