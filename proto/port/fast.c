/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/fast.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/port/fast.skel.h"
#include "proto/port/netdev.h"

enum { PROBE_LEN = 60, PROBE_TRIES = 50 };

struct pr_fast {
	struct pr_fast_bpf *bpf;
	struct pr_fast_state *state; /* the program's variables */
	int links[PR_FAST_LINKS]; /* of the kernel: descriptors */
	bool counts_redirects[PR_FAST_LINKS]; /* as drops of the interface */
	int tracepoints[2];
	unsigned count;
	bool generic;
	int promiscuous; /* a packet socket that receives nothing */

	/* the ring buffer, as linux/bpf.h describes it */
	size_t size, page;
	_Atomic uint64_t *consumer; /* a page of its own */
	_Atomic uint64_t *producer; /* a page, then the records, twice */
	const uint8_t *records;
	uint64_t at,
		safe; /* how far it is read; up to where no record waits for its turn */
	bool empty;
	uint64_t read; /* as pr_fast_state.given, of records that were read */
	int64_t tai_ahead; /* ns, of UTC */

	/*
	 * Records that came before their turn, by seq: two CPUs may take room in one order and numbers in the other.
	 * All numbers between the next one and theirs have records in the ring buffer, so this table is large enough.
	 */
	uint32_t *early[PR_FAST_LINKS]; /* 1 + position in the ring buffer / 8; 0: none */
	uint32_t early_mask;
	uint64_t next[PR_FAST_LINKS];
	unsigned waiting, last_link;
};

/* ---- opening ---- */

static int
attach(struct pr_fast *f, const char *ifname, unsigned link, uint32_t mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = mode);
	uint32_t index = if_nametoindex(ifname);

	f->state->ifindex[link] = index;
	f->links[link] = bpf_link_create(
		bpf_program__fd(f->bpf->progs.fast_capture), (int)index, BPF_XDP, &o);
	f->counts_redirects[link] = mode == XDP_FLAGS_DRV_MODE && pr_netdev_is_veth(ifname);
	return f->links[link] < 0 ? -1 : 0;
}

/* As long as this process has the socket, the cards give frames to all addresses. */
static int
listen_to_all(struct pr_fast *f, const char *const *ifnames, struct pr_error *err)
{
	f->promiscuous = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	for (unsigned i = 0; i < f->count; i++) {
		const struct packet_mreq all = {
			.mr_ifindex = (int)if_nametoindex(ifnames[i]),
			.mr_type = PACKET_MR_PROMISC};

		if (setsockopt(f->promiscuous, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all,
			    sizeof all) < 0)
			return pr_error_errno(
				err, "%s: cannot be made promiscuous", ifnames[i]);
	}
	return 0;
}

static int
map_ring(struct pr_fast *f)
{
	int fd = bpf_map__fd(f->bpf->maps.ring);

	f->page = (size_t)sysconf(_SC_PAGESIZE);
	void *map = mmap(NULL, f->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	f->consumer = map;
	map = mmap(NULL, f->page + 2 * f->size, PROT_READ, MAP_SHARED, fd, (off_t)f->page);
	if (map == MAP_FAILED)
		return -1;
	f->producer = map;
	f->records = (const uint8_t *)map + f->page;
	f->early_mask = (uint32_t)(f->size / 32) - 1 /* no record is as small */;
	for (unsigned i = 0; i < f->count; i++) {
		f->next[i] = 1;
		f->early[i] = calloc(f->early_mask + 1, sizeof **f->early);
		if (!f->early[i])
			return -1;
	}
	return 0;
}

static int
trace(struct pr_fast *f, unsigned i, const struct bpf_program *p, const char *name)
{
	f->tracepoints[i] = bpf_raw_tracepoint_open(name, bpf_program__fd(p));
	return f->tracepoints[i];
}

/*
 * Sends a frame of no protocol to the rack interface's own address, as the program would send: does a driver that
 * cannot take it, or a veth whose peer has neither NAPI nor a program, show?
 */
static bool
probe(struct pr_fast *f)
{
	uint8_t frame[PROBE_LEN] = {
		2, 'p', 'r', 'o', 'b', 'e', 2, 'p', 'r', 'o', 'b', 'e', 0x90, 0x00};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = sizeof frame,
		.repeat = 1, .flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	const volatile struct pr_fast_state *s = f->state;
	const struct timespec nap = {.tv_nsec = 1000000};

	if (bpf_prog_test_run_opts(bpf_program__fd(f->bpf->progs.fast_probe), &o) < 0)
		return false;
	for (int i = 0; i < PROBE_TRIES && !s->redirected && !s->transmit_dropped &&
			!s->links[0].not_redirected;
		i++)
		nanosleep(&nap, NULL);
	bool taken = s->redirected > 0;
	f->state->redirected = f->state->transmit_dropped = 0;
	f->state->links[0].not_redirected = 0;
	return taken;
}

/* All interfaces in one mode, as the tracepoints tell of native frames only. */
static int
attach_all(struct pr_fast *f, const char *const *ifnames, struct pr_error *err)
{
	bool native = probe(f);

	for (int generic = native ? 0 : 1; generic < 2; generic++) {
		unsigned i = 0;

		while (i < f->count &&
			attach(f, ifnames[i], i,
				generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE) >= 0)
			i++;
		f->generic = generic;
		if (i == f->count && generic) { /* it tells nothing of ours then */
			pr_close(f->tracepoints[1]);
			f->tracepoints[1] = -1;
		}
		if (i == f->count)
			return 0;
		pr_error_errno(err, "%s: XDP cannot be attached", ifnames[i]);
		for (unsigned k = 0; k < f->count; k++) {
			pr_close(f->links[k]);
			f->links[k] = -1;
		}
	}
	return -1;
}

static int
no_words(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static int
load(struct pr_fast *f, const char *out, struct pr_error *err)
{
	uint32_t zero = 0, index = if_nametoindex(out);

	libbpf_set_print(no_words);
	f->bpf = pr_fast_bpf__open();
	if (!f->bpf || bpf_map__set_max_entries(f->bpf->maps.ring, (uint32_t)f->size) < 0 ||
		pr_fast_bpf__load(f->bpf) < 0)
		return pr_error_errno(err,
			"the XDP program cannot be loaded (needs root, and Linux 6.1)");
	f->state = &f->bpf->bss->state;
	if (bpf_map_update_elem(bpf_map__fd(f->bpf->maps.out), &zero, &index, BPF_ANY) < 0)
		return pr_error_errno(err, "%s: XDP cannot send on it", out);
	if (trace(f, 0, f->bpf->progs.fast_redirect_failed, "xdp_redirect_err") < 0 ||
		trace(f, 1, f->bpf->progs.fast_transmitted, "xdp_devmap_xmit") < 0)
		return pr_error_errno(
			err, "what XDP loses cannot be counted: no tracepoints");
	return 0;
}

struct pr_fast *
pr_fast_open(const char *const *ifnames, unsigned count, const char *out, size_t ring_size,
	struct pr_error *err)
{
	struct pr_fast *f = calloc(1, sizeof *f);

	if (!f || count > PR_FAST_LINKS || ring_size > UINT32_MAX / 2) {
		free(f);
		return pr_error_null(err, "no memory for the XDP path");
	}
	memset(f->links, 0xff, sizeof f->links);
	memset(f->tracepoints, 0xff, sizeof f->tracepoints);
	f->promiscuous = -1;
	f->count = count;
	for (f->size = 1 << 16; f->size < ring_size;)
		f->size *= 2;
	if (load(f, out, err) < 0 || listen_to_all(f, ifnames, err) < 0 ||
		attach_all(f, ifnames, err) < 0) {
		pr_fast_close(&f);
		return NULL;
	}
	if (map_ring(f) < 0) {
		pr_error_errno(err, "the BPF ring buffer cannot be mapped");
		pr_fast_close(&f);
		return NULL;
	}
	f->tai_ahead = pr_tai_ahead();
	return f;
}

void
pr_fast_close(struct pr_fast **fast)
{
	struct pr_fast *f = PR_TAKE(fast);

	if (!f)
		return;
	for (unsigned i = 0; i < PR_FAST_LINKS; i++) {
		pr_close(f->links[i]);
		free(f->early[i]);
	}
	pr_close(f->promiscuous);
	pr_close(f->tracepoints[0]);
	pr_close(f->tracepoints[1]);
	if (f->consumer)
		munmap((void *)f->consumer, f->page);
	if (f->producer)
		munmap((void *)f->producer, f->page + 2 * f->size);
	pr_fast_bpf__destroy(f->bpf);
	free(f);
}

/* ---- settings ---- */

void
pr_fast_configure(struct pr_fast *f, uint64_t epoch, const uint8_t mac[6],
	uint16_t ethertype, uint32_t snaplen)
{
	f->state->snaplen = snaplen;
	f->state->epoch = epoch;
	f->state->ethertype = ethertype;
	memcpy(f->state->src, mac, sizeof f->state->src);
}

const char *
pr_fast_mode(const struct pr_fast *f)
{
	return f->generic ? "generic" : "native";
}

void
pr_fast_set_running(struct pr_fast *f, unsigned link, bool running)
{
	__atomic_store_n(&f->state->links[link].running, running, __ATOMIC_RELEASE);
}

static uint64_t
get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void
pr_fast_refused(const struct pr_fast *f, unsigned link, uint64_t *ring, uint64_t *longer)
{
	*ring = get(&f->state->links[link].refused_ring);
	*longer = get(&f->state->links[link].refused_long);
}

uint64_t
pr_fast_counted_twice(const struct pr_fast *f, unsigned link)
{
	return f->counts_redirects[link] ? get(&f->state->links[link].not_redirected) : 0;
}

void
pr_fast_sent(const struct pr_fast *f, uint64_t *sent, uint64_t *redirect_failed,
	uint64_t *transmit_dropped)
{
	*sent = get(&f->state->redirected);
	*redirect_failed = 0;
	for (unsigned i = 0; i < f->count; i++)
		*redirect_failed += get(&f->state->links[i].not_redirected);
	*transmit_dropped = get(&f->state->transmit_dropped);
}

void
pr_fast_node(struct pr_fast *f, uint16_t node, const uint8_t mac[6])
{
	memcpy(f->state->macs[node], mac, 6);
}

void
pr_fast_room(struct pr_fast *f, uint64_t bytes)
{
	__atomic_store_n(&f->state->most, f->read + bytes, __ATOMIC_RELAXED);
}

uint64_t
pr_fast_backlog(const struct pr_fast *f)
{
	return f->state->schedules[f->state->active].count
		       ? 0
		       : __atomic_load_n(&f->state->given, __ATOMIC_RELAXED) - f->read;
}

struct pr_fast_schedule *
pr_fast_schedule(struct pr_fast *f)
{
	return &f->state->schedules[!f->state->active];
}

void
pr_fast_swap(struct pr_fast *f)
{
	__atomic_store_n(&f->state->active, !f->state->active, __ATOMIC_RELEASE);
	f->tai_ahead = pr_tai_ahead();
}

/* ---- reading ---- */

/* Of a record: behind a header of its length (top bit: it is being written; next: given up) and a word of the kernel's. */
enum { HEADER = 8 };

static const struct pr_fast_record *
record_at(const struct pr_fast *f, uint64_t pos)
{
	return (const struct pr_fast_record *)(const void *)(f->records +
							     (pos & (f->size - 1)) +
							     HEADER);
}

/* The record at the head of a link's early ones, if it is its turn. */
static const struct pr_fast_record *
take_early(struct pr_fast *f, unsigned link)
{
	uint32_t *place = &f->early[link][f->next[link] & f->early_mask];

	if (*place == 0)
		return NULL;
	const struct pr_fast_record *rec = record_at(f, (uint64_t)(*place - 1) * 8);
	*place = 0;
	f->waiting--;
	return rec;
}

/* The next record of the ring buffer that is complete, in the order of room taken. */
static const struct pr_fast_record *
take_ring(struct pr_fast *f, uint64_t *pos)
{
	for (;;) {
		uint64_t end = atomic_load_explicit(f->producer, memory_order_acquire);

		f->empty = f->at == end;
		if (f->empty)
			return NULL;
		const uint32_t *header =
			(const uint32_t *)(const void *)(f->records +
							 (f->at & (f->size - 1)));
		uint32_t len = __atomic_load_n(header, __ATOMIC_ACQUIRE);
		if (len & BPF_RINGBUF_BUSY_BIT)
			return NULL;
		*pos = f->at;
		f->at += ((len & ~BPF_RINGBUF_DISCARD_BIT) + HEADER + 7) & ~(uint64_t)7;
		if (!(len & BPF_RINGBUF_DISCARD_BIT))
			return record_at(f, *pos);
	}
}

bool
pr_fast_next(struct pr_fast *f, struct pr_fast_record *out, const uint8_t **data)
{
	const struct pr_fast_record *rec = f->waiting ? take_early(f, f->last_link) : NULL;
	uint64_t pos;

	while (!rec) {
		rec = take_ring(f, &pos);
		if (!rec)
			return false;
		if (rec->seq == f->next[rec->link])
			break;
		f->early[rec->link][rec->seq & f->early_mask] =
			(uint32_t)((pos & (f->size - 1)) / 8) + 1;
		f->waiting++;
		rec = NULL;
	}
	*out = *rec;
	*data = (const uint8_t *)(rec + 1);
	out->time -= f->tai_ahead;
	f->read += rec->caplen + PR_FAST_COST;
	f->last_link = rec->link;
	f->next[rec->link]++;
	if (f->waiting == 0)
		f->safe = f->at;
	return true;
}

void
pr_fast_release(struct pr_fast *f)
{
	atomic_store_explicit(f->consumer, f->safe, memory_order_release);
}

bool
pr_fast_empty(const struct pr_fast *f)
{
	return f->empty && f->waiting == 0;
}

size_t
pr_fast_used(const struct pr_fast *f, uint64_t *size)
{
	*size = f->size;
	return (size_t)(atomic_load_explicit(f->producer, memory_order_relaxed) -
			atomic_load_explicit(f->consumer, memory_order_relaxed));
}
