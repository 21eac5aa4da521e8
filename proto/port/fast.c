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

	const struct pr_fast_slot *ring;
	const uint8_t *whole;
	size_t ring_size,
		whole_size; /* bytes; those of whole as numbered, more are mapped */
	uint64_t next, noted; /* numbers */
	uint64_t read,
		whole_read; /* as pr_fast_state.given and whole_given, of what was read */
	int64_t tai_ahead; /* ns, of UTC */
};

/* Behind the end of the ring of whole frames, in which the longest frame that begins before it may lie. */
enum {
	BEHIND = 4096,
	SLOTS_MAX = 1 << (PR_FAST_NUMBER_BITS - 2),
	WHOLE_MAX = 1 << 29, /* farther places the kernel's verifier refuses */
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

static const void *
map_array(const struct bpf_map *map, size_t size)
{
	const void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Half of the bytes for each, and room for all CPUs that pass the test for room at once. */
static int
size_rings(struct pr_fast *f, size_t size)
{
	int found = libbpf_num_possible_cpus();
	size_t cpus = found > 0 ? (size_t)found : 1;

	f->whole_size = 1 << 15;
	while (f->whole_size < WHOLE_MAX &&
		f->whole_size < PR_MAX(size / 2, 4 * cpus * PR_FAST_FRAME_MAX))
		f->whole_size *= 2;
	f->ring_size = PR_MIN(f->whole_size, SLOTS_MAX * sizeof *f->ring);
	size_t slots = f->ring_size / sizeof *f->ring;
	f->bpf->rodata->slot_mask = (uint32_t)slots - 1;
	f->bpf->rodata->whole_mask = (uint32_t)f->whole_size - 1;
	f->bpf->bss->state.slot_bits = (uint32_t)__builtin_ctzl(slots);
	f->bpf->bss->state.slots_most = (uint32_t)(slots - cpus);
	f->bpf->bss->state.whole_most =
		(uint32_t)(f->whole_size - 2 * cpus * PR_FAST_FRAME_MAX);
	return bpf_map__set_max_entries(f->bpf->maps.ring, (uint32_t)slots) < 0 ||
			       bpf_map__set_value_size(f->bpf->maps.whole,
				       (uint32_t)f->whole_size + BEHIND) < 0
		       ? -1
		       : 0;
}

static int
trace(struct pr_fast *f, unsigned i, const struct bpf_program *p, const char *name)
{
	f->tracepoints[i] = bpf_raw_tracepoint_open(name, bpf_program__fd(p));
	return f->tracepoints[i];
}

/*
 * Sends a frame of no protocol to an address of no card, as the program would send: does a driver that
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
attach_all(struct pr_fast *f, const char *const *ifnames, const char *out, unsigned copies,
	struct pr_error *err)
{
	bool native = probe(f);

	if (!native && copies > 1)
		return pr_error_set(
			err, "%s takes no frames of XDP, which two copies need", out);

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
load(struct pr_fast *f, const char *out, size_t size, unsigned copies, struct pr_error *err)
{
	struct bpf_devmap_val to = {.ifindex = if_nametoindex(out)};

	libbpf_set_print(no_words);
	f->bpf = pr_fast_bpf__open();
	if (f->bpf)
		f->bpf->rodata->copies = copies;
	if (!f->bpf || size_rings(f, size) < 0 || pr_fast_bpf__load(f->bpf) < 0)
		return pr_error_errno(err,
			"the XDP program cannot be loaded (needs root, and Linux 6.1)");
	f->state = &f->bpf->bss->state;
	f->ring = map_array(f->bpf->maps.ring, f->ring_size);
	f->whole = map_array(f->bpf->maps.whole, f->whole_size + BEHIND);
	if (!f->ring || !f->whole)
		return pr_error_errno(err, "the rings of the XDP program cannot be mapped");
	if (copies > 1)
		to.bpf_prog.fd = bpf_program__fd(f->bpf->progs.fast_copy);
	for (uint32_t i = 0; i < copies; i++)
		if (bpf_map_update_elem(bpf_map__fd(f->bpf->maps.out), &i, &to, BPF_ANY) <
			0)
			return pr_error_errno(err, "%s: XDP cannot send on it", out);
	if (trace(f, 0, f->bpf->progs.fast_redirect_failed, "xdp_redirect_err") < 0 ||
		trace(f, 1, f->bpf->progs.fast_transmitted, "xdp_devmap_xmit") < 0)
		return pr_error_errno(
			err, "what XDP loses cannot be counted: no tracepoints");
	return 0;
}

struct pr_fast *
pr_fast_open(const char *const *ifnames, unsigned count, const char *out, size_t ring_size,
	unsigned copies, struct pr_error *err)
{
	struct pr_fast *f = calloc(1, sizeof *f);

	if (!f || count > PR_FAST_LINKS) {
		free(f);
		return pr_error_null(err, "no memory for the XDP path");
	}
	memset(f->links, 0xff, sizeof f->links);
	memset(f->tracepoints, 0xff, sizeof f->tracepoints);
	f->promiscuous = -1;
	f->count = count;
	if (load(f, out, ring_size, copies, err) < 0 ||
		listen_to_all(f, ifnames, err) < 0 ||
		attach_all(f, ifnames, out, copies, err) < 0) {
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
	for (unsigned i = 0; i < PR_FAST_LINKS; i++)
		pr_close(f->links[i]);
	pr_close(f->promiscuous);
	pr_close(f->tracepoints[0]);
	pr_close(f->tracepoints[1]);
	if (f->ring)
		munmap((void *)(uintptr_t)f->ring, f->ring_size);
	if (f->whole)
		munmap((void *)(uintptr_t)f->whole, f->whole_size + BEHIND);
	pr_fast_bpf__destroy(f->bpf);
	free(f);
}

/* ---- settings ---- */

void
pr_fast_configure(struct pr_fast *f, uint64_t epoch, const uint8_t mac[6],
	uint16_t ethertype, uint32_t snaplen, bool all_whole)
{
	f->state->all_whole = all_whole;
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
	return f->counts_redirects[link] ? get(&f->state->links[link].redirect_errors) : 0;
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

/* The upper part of `given` when it had what is read by now: each lap of the lower part adds one. */
static uint64_t
given_read(const struct pr_fast *f)
{
	return f->read + (f->next >> PR_FAST_NUMBER_BITS);
}

#define GIVEN_MASK (UINT64_MAX >> PR_FAST_NUMBER_BITS)

void
pr_fast_room(struct pr_fast *f, uint64_t bytes)
{
	__atomic_store_n(&f->state->most, given_read(f) + PR_MIN(bytes, GIVEN_MASK / 4),
		__ATOMIC_RELAXED);
}

uint64_t
pr_fast_backlog(const struct pr_fast *f)
{
	return f->state->schedules[f->state->active].count
		       ? 0
		       : ((get(&f->state->given) >> PR_FAST_NUMBER_BITS) - given_read(f)) &
				 GIVEN_MASK;
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

bool
pr_fast_next(struct pr_fast *f, struct pr_fast_record *out, const uint8_t **data)
{
	const struct pr_fast_slot *slot =
		&f->ring[f->next & (f->ring_size / sizeof *slot - 1)];
	uint64_t turn = ((f->next & PR_FAST_NUMBER) >> f->state->slot_bits) + 1;
	uint32_t tag = __atomic_load_n(&slot->tag, __ATOMIC_ACQUIRE);

	if (tag >> 24 != (uint8_t)turn) {
		uint64_t given = get(&f->state->given);

		/* what a swap of schedules in the midst of a packet may have counted otherwise is right again */
		if (((given ^ f->next) & PR_FAST_NUMBER) == 0)
			f->read = (given >> PR_FAST_NUMBER_BITS) -
				  (f->next >> PR_FAST_NUMBER_BITS);
		return false;
	}
	PR_COPY(out, slot, fingerprint, len, caplen);
	out->time = slot->time - f->tai_ahead;
	out->link = tag & (PR_FAST_LINKS - 1);
	out->node = tag & PR_FAST_HAS_NODE ? (uint8_t)(tag >> 8) : PR_FAST_NO_NODE;
	out->second = (uint8_t)(tag >> 16);
	if (!(tag & PR_FAST_HAS_NODE) || out->second == out->node)
		out->second = PR_FAST_NO_NODE;
	memcpy(out->macs, slot->macs, sizeof out->macs);
	out->sent = !(tag & PR_FAST_WHOLE);
	if (!out->sent) {
		*data = f->whole + slot->fingerprint;
		f->whole_read += (out->caplen + PR_FAST_WHOLE_UNIT - 1) &
				 ~(uint64_t)(PR_FAST_WHOLE_UNIT - 1);
	}
	f->read +=
		(out->caplen + PR_FAST_COST) * (out->second == PR_FAST_NO_NODE ? 1U : 2U);
	f->next++;
	return true;
}

void
pr_fast_release(struct pr_fast *f)
{
	__atomic_store_n(&f->state->whole_released, f->whole_read, __ATOMIC_RELEASE);
	__atomic_store_n(&f->state->released, f->next, __ATOMIC_RELEASE);
}

static uint64_t
unread(const struct pr_fast *f, uint64_t from)
{
	return (get(&f->state->given) - from) & PR_FAST_NUMBER;
}

bool
pr_fast_empty(const struct pr_fast *f)
{
	return unread(f, f->next) == 0;
}

bool
pr_fast_passed(struct pr_fast *f)
{
	if (f->next < f->noted)
		return false;
	f->noted = f->next + unread(f, f->next);
	return true;
}

size_t
pr_fast_used(const struct pr_fast *f, uint64_t *size)
{
	uint64_t released = get(&f->state->released),
		 whole = get(&f->state->whole_released); /* first: it only grows */
	double record =
		(double)unread(f, released) * sizeof *f->ring / (double)f->ring_size;
	double bytes =
		(double)(get(&f->state->whole_given) - whole) / (double)f->whole_size;

	*size = f->ring_size + f->whole_size;
	return (size_t)(PR_MAX(record, bytes) * (double)*size);
}
