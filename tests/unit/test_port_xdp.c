/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AF_XDP sender against a kernel of the test's own, which is slow to complete, full, or drops a
 * frame when it likes, and says of its ring what Linux says: every frame leaves once, in order.
 */
#include <errno.h>
#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "proto/port/xdp.h"
#include "tests/unit/unit.h"

enum { FD = 1000000, RING = 2048, BUDGET = 32, FRAMES = 40000, BATCH = 64 };
enum { AT_PRODUCER = 0, AT_CONSUMER = 64, AT_DESC = 128 };

static struct {
	uint8_t tx[AT_DESC + RING * sizeof(struct xdp_desc)];
	uint8_t done[AT_DESC + RING * sizeof(uint64_t)];
	const uint8_t *mem;
	uint32_t seen, head; /* of tx: the kernel's own, told and looked at late */
	uint64_t flying[RING]; /* places sent from and not yet completed */
	unsigned flying_count;
	unsigned trouble; /* of 1000 frames, so many meet it */
	int down; /* errno of every call, 0 none */
	uint32_t got[FRAMES];
	unsigned got_count;
} kernel;
static struct pr_error err;

int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_setsockopt(int fd, int level, int what, const void *value, socklen_t len);
int __wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *len);
int __wrap_close(int fd);
int __wrap_munmap(void *mem, size_t len);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags,
	const struct sockaddr *to, socklen_t to_len);
int __real_close(int fd);
int __real_munmap(void *mem, size_t len);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);

int
__wrap_socket(int domain, int type, int protocol)
{
	(void)type, (void)protocol;
	return domain == AF_XDP ? FD : -1;
}

int
__wrap_bind(int fd, const struct sockaddr *to, socklen_t len)
{
	(void)to, (void)len;
	return fd == FD ? 0 : -1;
}

int
__wrap_setsockopt(int fd, int level, int what, const void *value, socklen_t len)
{
	(void)fd, (void)len;
	if (level == SOL_XDP && what == XDP_UMEM_REG)
		kernel.mem =
			(const uint8_t *)(uintptr_t)((const struct xdp_umem_reg *)value)
				->addr;
	return 0;
}

int
__wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *len)
{
	const struct xdp_ring_offset at = {
		.producer = AT_PRODUCER, .consumer = AT_CONSUMER, .desc = AT_DESC};

	(void)fd, (void)level, (void)what, (void)len;
	*(struct xdp_mmap_offsets *)value = (struct xdp_mmap_offsets){.tx = at, .cr = at};
	return 0;
}

int
__wrap_close(int fd)
{
	return fd == FD ? 0 : __real_close(fd);
}

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (fd != FD)
		return __real_mmap(at, len, prot, flags, fd, offset);
	return offset == XDP_PGOFF_TX_RING ? kernel.tx : kernel.done;
}

int
__wrap_munmap(void *mem, size_t len)
{
	if (mem == kernel.tx || mem == kernel.done)
		return 0;
	return __real_munmap(mem, len);
}

static uint32_t *
position(uint8_t *ring, int which)
{
	return (uint32_t *)(void *)(ring + which);
}

static void
complete_some(void)
{
	uint32_t *producer = position(kernel.done, AT_PRODUCER);
	uint64_t *addr = (uint64_t *)(void *)(kernel.done + AT_DESC);

	while (kernel.flying_count > 0 && rand() % 50 != 0) {
		unsigned i = (unsigned)rand() % kernel.flying_count;

		addr[(*producer)++ % RING] = kernel.flying[i];
		kernel.flying[i] = kernel.flying[--kernel.flying_count];
	}
}

/* 0: sent; else what the call ends with. A frame that meets EBUSY is consumed, and gone. */
static int
transmit(const struct xdp_desc *d)
{
	bool trouble = (unsigned)rand() % 1000 < kernel.trouble;
	int error = !trouble ? 0 : rand() % 3 == 0 ? EAGAIN : rand() % 2 ? EBUSY : ENOBUFS;

	if (error == EAGAIN || error == ENOBUFS)
		return error;
	kernel.seen++;
	ck_assert_uint_lt(kernel.flying_count, RING);
	kernel.flying[kernel.flying_count++] = d->addr;
	if (error == 0)
		memcpy(&kernel.got[kernel.got_count++], kernel.mem + d->addr,
			sizeof(uint32_t));
	return error;
}

/* The next frame; one that makes no sense ends the call, and is passed by; Linux 6.18.44
 * completes it too, others do not. */
static const struct xdp_desc *
peek(void)
{
	const struct xdp_desc *ring =
		(const struct xdp_desc *)(const void *)(kernel.tx + AT_DESC);

	if (kernel.seen == kernel.head) {
		*position(kernel.tx, AT_CONSUMER) = kernel.seen;
		kernel.head = *position(kernel.tx, AT_PRODUCER);
	}
	if (kernel.seen == kernel.head)
		return NULL;
	if (ring[kernel.seen % RING].len <= PR_XDP_FRAME_MAX)
		return &ring[kernel.seen % RING];
	if (kernel.seen % 2)
		kernel.flying[kernel.flying_count++] = ring[kernel.seen % RING].addr;
	kernel.seen++;
	return NULL;
}

ssize_t
__wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
	socklen_t to_len)
{
	const struct xdp_desc *d;
	unsigned sent = 0;
	int error = kernel.down;

	(void)fd, (void)buf, (void)len, (void)flags, (void)to, (void)to_len;
	complete_some();
	while (error == 0 && (d = peek())) {
		error = sent == BUDGET ? EAGAIN : transmit(d);
		sent += error == 0;
	}
	if (sent > 0)
		*position(kernel.tx, AT_CONSUMER) = kernel.seen;
	errno = error;
	return error ? -1 : 0;
}

static struct pr_xdp *
start(unsigned trouble)
{
	struct pr_xdp *x;

	memset(&kernel, 0, sizeof kernel);
	kernel.trouble = trouble;
	x = pr_xdp_open(1, "out0", 1 << 20, &err);
	ck_assert_msg(x != NULL, "%s", err.text);
	return x;
}

/* One batch of numbered frames, some in two pieces; gives how many went out. */
static unsigned
offer(struct pr_xdp *x, uint32_t number, unsigned count)
{
	static uint8_t frames[BATCH][64];
	struct iovec io[BATCH][2];
	struct mmsghdr m[BATCH] = {0};
	int n;

	for (unsigned i = 0; i < count; i++) {
		uint32_t value = number + i;

		memcpy(frames[i], &value, sizeof value);
		io[i][0] = (struct iovec){frames[i], i % 2 ? 14 : 64};
		io[i][1] = (struct iovec){frames[i] + 14, 50};
		m[i].msg_hdr.msg_iov = io[i];
		m[i].msg_hdr.msg_iovlen = i % 2 ? 2 : 1;
	}
	n = pr_xdp_send(x, m, count);
	if (n < 0)
		unit_must(errno == ENOBUFS);
	for (int i = 0; i < n; i++)
		unit_must(m[i].msg_len == 64);
	return n > 0 ? (unsigned)n : 0;
}

START_TEST(every_frame_once_and_in_order)
{
	static const unsigned troubles[] = {0, 1, 20, 500, 900};
	struct pr_xdp *x = start(troubles[_i]);
	uint32_t done = 0;

	srand(1 + (unsigned)_i);
	while (done < FRAMES) {
		unsigned count = 1 + (unsigned)rand() % BATCH;

		done += offer(x, done, done + count > FRAMES ? FRAMES - done : count);
		ck_assert_uint_eq(kernel.got_count, done);
	}
	for (uint32_t i = 0; i < FRAMES; i++)
		unit_must(kernel.got[i] == i);
	pr_xdp_close(&x);
}
END_TEST

START_TEST(interface_down_and_up)
{
	struct pr_xdp *x = start(0);
	struct iovec io = {.iov_base = (uint8_t[64]){0}, .iov_len = 64};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};

	kernel.down = ENETDOWN;
	for (int i = 0; i < 10000; i++) {
		ck_assert_int_eq(pr_xdp_send(x, &m, 1), -1);
		ck_assert_int_eq(errno, ENETDOWN);
	}
	kernel.down = 0;
	ck_assert_uint_eq(offer(x, 0, BATCH), BATCH);
	pr_xdp_close(&x);
}
END_TEST

START_TEST(a_frame_longer_than_a_place)
{
	static uint8_t big[PR_XDP_FRAME_MAX + 1];
	struct pr_xdp *x = start(0);
	struct iovec io = {.iov_base = big, .iov_len = sizeof big};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};

	ck_assert_int_eq(pr_xdp_send(x, &m, 1), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	io.iov_len--;
	ck_assert_int_eq(pr_xdp_send(x, &m, 1), 1);
	pr_xdp_close(&x);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_loop_test(tc, every_frame_once_and_in_order, 0, 5);
	tcase_add_test(tc, interface_down_and_up);
	tcase_add_test(tc, a_frame_longer_than_a_place);
}

int
main(void)
{
	return unit_run("dispatcher_xdp", fill);
}
