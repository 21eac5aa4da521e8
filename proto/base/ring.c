/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Positions count bytes for ever and are taken modulo size. A record is a header (its length)
 * and its bytes, padded to 8. A record that does not fit before the end of the memory leaves a
 * WRAP header there and starts at 0; as everything is a multiple of 8, there is always room for one.
 * Each side keeps its own position, and the other side's as it was last read, on cache
 * lines of its own. Lines that both sides touch move between CPUs only when a side reaches
 * that old position, or once a batch.
 */
enum { HEADER = sizeof(uint64_t), LINE = 64, SIZE_MIN_RING = 64 << 10 };
/*
 * If the ring is empty and the producer is at least this far from the start, the producer
 * skips the rest and goes on at the start. While the consumer keeps up, the memory that
 * both touch then stays in the caches. This happens again only after the consumer has
 * passed the gap, so one gap is remembered.
 */
#define REWIND ((uint64_t)512 << 10)
#define WRAP UINT64_MAX

struct pr_ring {
	uint8_t *mem;
	size_t size, mask;
	int fd; /* eventfd, non-blocking */

	/* the producer's */
	alignas(LINE) uint64_t head; /* end of the committed */
	uint64_t reserved; /* where the reserved record's header goes */
	uint64_t tail_seen;
	uint64_t head_told; /* what `published` holds */
	uint64_t wake_at; /* unread bytes at which to wake the consumer, which sets this */
	bool rewound; /* the reserved record's header goes to the start */

	/* the consumer's */
	alignas(LINE) uint64_t read;
	uint64_t peeked;
	uint64_t head_seen, gap_from_seen, gap_to_seen;
	bool armed;

	alignas(LINE) _Atomic uint64_t published;
	_Atomic uint64_t gap_from, gap_to; /* what was left out last */
	alignas(LINE) _Atomic uint64_t tail;
	alignas(LINE) _Atomic bool sleeping;
	_Atomic uint64_t slept_at; /* what the consumer had read */
};

static size_t
record_size(size_t len)
{
	return HEADER + ((len + 7) & ~7);
}

static uint64_t *
header_at(const struct pr_ring *ring, uint64_t pos)
{
	return (uint64_t *)(void *)(ring->mem + (pos & ring->mask));
}

struct pr_ring *
pr_ring_create(size_t size, struct pr_error *err)
{
	size_t rounded = SIZE_MIN_RING;

	if (size > SIZE_MAX / 4)
		return pr_error_null(err, "a ring of %zu bytes is too large", size);
	while (rounded < size)
		rounded *= 2;
	struct pr_ring *ring = aligned_alloc(alignof(struct pr_ring), sizeof *ring);
	if (!ring)
		return pr_error_null(err, "no memory for a ring");
	memset(ring, 0, sizeof *ring);
	ring->size = rounded;
	ring->mask = rounded - 1;
	ring->fd = -1;
	void *mem = mmap(NULL, rounded, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED) {
		pr_error_errno(err, "cannot map a ring of %zu bytes", rounded);
		pr_ring_destroy(&ring);
		return NULL;
	}
	ring->mem = mem;
	/* a cyclic buffer walks through all its pages; fewer TLB misses where the kernel can */
	madvise(mem, rounded, MADV_HUGEPAGE);
	ring->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ring->fd < 0) {
		pr_error_errno(err, "cannot make an eventfd for a ring");
		pr_ring_destroy(&ring);
	}
	return ring;
}

void
pr_ring_destroy(struct pr_ring **ring)
{
	struct pr_ring *r = PR_TAKE(ring);

	if (!r)
		return;
	if (r->mem)
		munmap(r->mem, r->size);
	pr_close(r->fd);
	free(r);
}

/* Bytes of records from a position that was read or given back, up to another. */
static uint64_t
bytes_between(const struct pr_ring *ring, uint64_t from, uint64_t to)
{
	uint64_t left = atomic_load_explicit(&ring->gap_from, memory_order_relaxed);
	uint64_t right = atomic_load_explicit(&ring->gap_to, memory_order_relaxed);

	/* the tail may have moved past a head that was read before it */
	if (to <= from)
		return 0;
	return from <= left && right <= to ? to - from - (right - left) : to - from;
}

/* The lowest position to keep: what lies before it was given back or skipped. */
static uint64_t
oldest_held(struct pr_ring *ring)
{
	uint64_t to = atomic_load_explicit(&ring->gap_to, memory_order_relaxed);

	return PR_MAX(ring->tail_seen, to);
}

void *
pr_ring_reserve(struct pr_ring *ring, size_t len)
{
	uint64_t pos = ring->head, to_end = ring->size - (pos & ring->mask);
	size_t need = record_size(len);

	if (len > ring->size / 4)
		return NULL;
	ring->rewound = false;
	/* Rewinds only at the first record after a publish: the tail's line is the consumer's. */
	if ((pos & ring->mask) >= REWIND && pos == ring->head_told) {
		ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
		ring->rewound = ring->tail_seen == pos;
	}
	if (need > to_end || ring->rewound)
		pos += to_end;
	if (!ring->rewound && pos + need - oldest_held(ring) > ring->size) {
		ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
		if (pos + need - oldest_held(ring) > ring->size)
			return NULL;
	}
	if (pos != ring->head && !ring->rewound)
		*header_at(ring, ring->head) = WRAP;
	ring->reserved = pos;
	return header_at(ring, pos) + 1;
}

void
pr_ring_commit(struct pr_ring *ring, size_t len)
{
	if (ring->rewound) {
		atomic_store_explicit(&ring->gap_from, ring->head, memory_order_relaxed);
		atomic_store_explicit(&ring->gap_to, ring->reserved, memory_order_relaxed);
	}
	*header_at(ring, ring->reserved) = len;
	ring->head = ring->reserved + record_size(len);
}

/*
 * Either this side sees `sleeping`, or the consumer, which sets it and then looks at
 * `published`, sees the records: that takes sequential consistency on both.
 */
void
pr_ring_publish(struct pr_ring *ring)
{
	const uint64_t one = 1;

	if (ring->head_told == ring->head)
		return;
	ring->head_told = ring->head;
	atomic_store(&ring->published, ring->head);
	if (!atomic_load(&ring->sleeping))
		return;
	if (ring->wake_at && bytes_between(ring, atomic_load(&ring->slept_at), ring->head) <
				     ring->wake_at)
		return;
	if (!atomic_exchange(&ring->sleeping, false))
		return;
	/* EAGAIN: the counter is full, so it is readable */
	while (write(ring->fd, &one, sizeof one) < 0 && errno == EINTR)
		;
}

/*
 * The eventfd is emptied only here, after a sleep, and then records are looked for. So
 * rings that share an eventfd cannot lose each other's wake-ups.
 */
static void
ring_disarm(struct pr_ring *ring)
{
	uint64_t count;

	ring->armed = false;
	if (atomic_exchange(&ring->sleeping, false))
		return; /* nobody has woken us */
	while (read(ring->fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

static bool
ring_has_more(struct pr_ring *ring)
{
	if (ring->read != ring->head_seen)
		return true;
	ring->head_seen = atomic_load(&ring->published);
	ring->gap_from_seen = atomic_load_explicit(&ring->gap_from, memory_order_relaxed);
	ring->gap_to_seen = atomic_load_explicit(&ring->gap_to, memory_order_relaxed);
	return ring->read != ring->head_seen;
}

/* The header at a position, which moves behind its record. */
static uint64_t *
take(const struct pr_ring *ring, uint64_t *at)
{
	/* when a gap begins here, all records that are to be seen lie behind it */
	if (*at == ring->gap_from_seen)
		*at = ring->gap_to_seen;
	uint64_t *header = header_at(ring, *at);
	if (*header == WRAP) {
		*at += ring->size - (*at & ring->mask);
		header = header_at(ring, *at);
	}
	*at += record_size(*header);
	return header;
}

void *
pr_ring_next(struct pr_ring *ring, size_t *len)
{
	if (ring->armed)
		ring_disarm(ring);
	if (!ring_has_more(ring))
		return NULL;
	uint64_t *header = take(ring, &ring->read);
	*len = *header;
	return header + 1;
}

void *
pr_ring_peek(struct pr_ring *ring)
{
	ring->peeked = PR_MAX(ring->peeked, ring->read);
	/* what the producer writes is not looked at for each packet */
	if (ring->peeked == ring->head_seen &&
		(ring->peeked != ring->read || !ring_has_more(ring)))
		return NULL;
	return take(ring, &ring->peeked) + 1;
}

void
pr_ring_release(struct pr_ring *ring)
{
	atomic_store_explicit(&ring->tail, ring->read, memory_order_release);
}

void
pr_ring_release_before(struct pr_ring *ring, const void *rec)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t offset = (uint64_t)((const uint8_t *)rec - ring->mem) - HEADER;

	/* a gap begins at the tail only */
	if (tail < ring->gap_to_seen && ring->read > ring->gap_to_seen)
		tail = ring->gap_to_seen;
	tail += (offset - tail) & ring->mask;
	atomic_store_explicit(&ring->tail, tail, memory_order_release);
}

bool
pr_ring_arm(struct pr_ring *ring)
{
	atomic_store(&ring->slept_at, ring->read);
	atomic_store(&ring->sleeping, true);
	if (!ring_has_more(ring)) {
		ring->armed = true;
		return false;
	}
	/* the producer may have seen the flag and written: then the eventfd must be emptied */
	if (!atomic_exchange(&ring->sleeping, false))
		ring->armed = true;
	return true;
}

void
pr_ring_wake_above(struct pr_ring *ring, size_t bytes)
{
	ring->wake_at = bytes;
}

int
pr_ring_fd(const struct pr_ring *ring)
{
	return ring->fd;
}

void
pr_ring_share_fd(struct pr_ring *ring, const struct pr_ring *with)
{
	dup3(with->fd, ring->fd, O_CLOEXEC);
}

size_t
pr_ring_size(const struct pr_ring *ring)
{
	return ring->size;
}

size_t
pr_ring_used(const struct pr_ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring->published, memory_order_relaxed);

	return bytes_between(ring, tail, head);
}
