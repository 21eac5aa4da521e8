/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/xdp.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/*
 * A frame keeps its place until the completion ring gives the place back, because some
 * drivers send from there without copying. CHUNKS is more than an interface's queue holds.
 * The place used last is reused first: it is in the cache.
 */
enum { CHUNKS = 1024, RING = 2048, CHUNK = PR_XDP_FRAME_MAX, BIND_TRIES = 20 };

/*
 * A socket option of Linux 6.18, not in Debian 12's headers: most frames sent in one call.
 * Without the option 32 are sent.
 */
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif
enum { BUDGET = 256 };

struct ring {
	void *map;
	size_t size;
	uint32_t *producer, *consumer;
	void *desc;
};

struct pr_xdp {
	int fd;
	uint8_t *mem;
	struct ring tx, done;
	uint32_t head; /* between calls, how far the kernel is in tx */
	uint32_t told; /* producer of tx, which never goes back */
	uint32_t reaped; /* consumer of done */
	uint64_t free[CHUNKS];
	unsigned free_count;
};

static int
ring_map(struct pr_xdp *x, struct ring *r, const struct xdp_ring_offset *at, size_t each,
	off_t where)
{
	r->size = at->desc + RING * each;
	r->map = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		x->fd, where);
	if (r->map == MAP_FAILED) {
		r->map = NULL;
		return -1;
	}
	r->producer = (uint32_t *)(void *)((uint8_t *)r->map + at->producer);
	r->consumer = (uint32_t *)(void *)((uint8_t *)r->map + at->consumer);
	r->desc = (uint8_t *)r->map + at->desc;
	return 0;
}

/* The memory that frames lie in, and the rings. */
static int
memory_open(struct pr_xdp *x)
{
	struct xdp_umem_reg reg = {.len = (uint64_t)CHUNKS * CHUNK, .chunk_size = CHUNK};
	void *mem = mmap(NULL, reg.len, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct xdp_mmap_offsets at;
	socklen_t len = sizeof at;
	int size = RING, budget = BUDGET;

	if (mem == MAP_FAILED)
		return -1;
	x->mem = mem;
	reg.addr = (uintptr_t)mem;
	for (unsigned i = 1; i < CHUNKS; i++)
		x->free[x->free_count++] = (uint64_t)i * CHUNK;
	if (setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg) < 0 ||
		setsockopt(x->fd, SOL_XDP, XDP_UMEM_FILL_RING, &size, sizeof size) < 0 ||
		setsockopt(x->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &size, sizeof size) <
			0 ||
		setsockopt(x->fd, SOL_XDP, XDP_TX_RING, &size, sizeof size) < 0 ||
		getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len) < 0)
		return -1;
	setsockopt(x->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget);
	if (ring_map(x, &x->tx, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING) < 0)
		return -1;
	return ring_map(
		x, &x->done, &at.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
}

static int
bind_to(const struct pr_xdp *x, int ifindex)
{
	struct sockaddr_xdp to = {
		.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY, .sxdp_ifindex = ifindex};
	const struct timespec nap = {.tv_nsec = 50000000};

	for (unsigned tries = 0;; tries++) {
		if (bind(x->fd, (struct sockaddr *)(void *)&to, sizeof to) == 0)
			return 0;
		if (errno != EBUSY || tries == BIND_TRIES)
			return -1;
		nanosleep(&nap, NULL);
	}
}

struct pr_xdp *
pr_xdp_open(int ifindex, const char *ifname, int send_buffer, struct pr_error *err)
{
	struct pr_xdp *x = calloc(1, sizeof *x);

	if (!x)
		return pr_error_null(err, "no memory for an AF_XDP socket");
	x->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (x->fd < 0 || memory_open(x) < 0 || bind_to(x, ifindex) < 0) {
		pr_error_errno(err, "%s: AF_XDP", ifname);
		pr_xdp_close(&x);
		return NULL;
	}
	if (setsockopt(x->fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_buffer,
		    sizeof send_buffer) < 0)
		setsockopt(x->fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
	return x;
}

void
pr_xdp_close(struct pr_xdp **xdp)
{
	struct pr_xdp *x = PR_TAKE(xdp);

	if (!x)
		return;
	if (x->tx.map)
		munmap(x->tx.map, x->tx.size);
	if (x->done.map)
		munmap(x->done.map, x->done.size);
	pr_close(x->fd);
	if (x->mem)
		munmap(x->mem, CHUNKS * CHUNK);
	free(x);
}

static struct xdp_desc *
desc_at(const struct pr_xdp *x, uint32_t at)
{
	return (struct xdp_desc *)x->tx.desc + at % RING;
}

/* false: longer than a place, or empty. */
static bool
put_frame(struct pr_xdp *x, struct mmsghdr *m)
{
	uint64_t addr = x->free[x->free_count - 1];
	size_t len = 0;

	for (size_t i = 0; i < m->msg_hdr.msg_iovlen; i++) {
		const struct iovec *io = &m->msg_hdr.msg_iov[i];

		if (len + io->iov_len > CHUNK)
			return false;
		memcpy(x->mem + addr + len, io->iov_base, io->iov_len);
		len += io->iov_len;
	}
	if (len == 0)
		return false;
	*desc_at(x, x->head++) = (struct xdp_desc){.addr = addr, .len = len};
	m->msg_len = len;
	x->free_count--;
	return true;
}

/*
 * Takes back the descriptors that the kernel has not sent. The next call's frames overwrite them; those
 * that are not overwritten become invalid, because the kernel stops at each invalid descriptor and skips
 * one a call.
 */
static void
withdraw(struct pr_xdp *x, uint32_t from)
{
	for (uint32_t at = from; at != x->head; at++) {
		struct xdp_desc *d = desc_at(x, at);

		x->free[x->free_count++] = d->addr;
		*d = (struct xdp_desc){.addr = 0, .len = UINT32_MAX};
	}
	x->head = from;
}

/*
 * Makes the kernel send the frames from first to head; returns how many went out. EBUSY:
 * the interface dropped the last frame that the kernel took; its place comes back as if it
 * had been sent. If it was the first frame of a call, the ring does not show that it was
 * taken.
 */
static uint32_t
kick(struct pr_xdp *x, uint32_t first)
{
	uint32_t before = first, end = x->head;

	for (;;) {
		ssize_t rc = sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);

		uint32_t now = __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE);
		if ((int32_t)(now - before) < 0)
			now = before;
		if (rc < 0 && errno == EBUSY) {
			now += now == before;
			withdraw(x, now);
			errno = ENOBUFS;
			return now - 1 - first;
		}
		if ((int32_t)(now - end) >= 0) {
			x->head = now;
			return end - first;
		}
		if (now == before && (rc >= 0 || errno != EINTR)) {
			if (rc >= 0 || errno == EAGAIN)
				errno = ENOBUFS; /* poll does not wait for this room */
			withdraw(x, now);
			return now - first;
		}
		before = now;
	}
}

int
pr_xdp_send(struct pr_xdp *x, struct mmsghdr *msgs, unsigned count)
{
	uint32_t until = __atomic_load_n(x->done.producer, __ATOMIC_ACQUIRE);
	uint32_t first = x->head;
	const uint64_t *done = x->done.desc;
	unsigned n = 0;

	/*
	 * The places of frames that have left. The first place is never given out: it stands in entries that
	 * are no frames, which some kernels complete as well.
	 */
	for (; x->reaped != until; x->reaped++) {
		uint64_t place = done[x->reaped % RING] / CHUNK;

		if (place > 0 && place < CHUNKS && x->free_count < CHUNKS)
			x->free[x->free_count++] = place * CHUNK;
	}
	__atomic_store_n(x->done.consumer, x->reaped, __ATOMIC_RELEASE);
	while (n < count && n < RING && x->free_count > 0 && put_frame(x, &msgs[n]))
		n++;
	if (n == 0) {
		errno = x->free_count > 0 ? EMSGSIZE : ENOBUFS;
		return -1;
	}
	if ((int32_t)(x->head - x->told) > 0)
		x->told = x->head;
	__atomic_store_n(x->tx.producer, x->told, __ATOMIC_RELEASE);
	uint32_t taken = kick(x, first);
	return taken > 0 ? (int)taken : -1;
}
