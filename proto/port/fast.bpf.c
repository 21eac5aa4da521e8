/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program of a capture interface (proto/port/fast.h). It numbers each frame, writes a record into the ring
 * buffer and sends the frame to its node. Frames that need more than a change of MACs go whole into the ring buffer.
 * Built for the UAPI alone: no type of the running kernel is needed.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "proto/port/fast_record.h"
#include "proto/port/ip.bpf.h"
#include "proto/wire/fingerprint.h"

char fast_license[] SEC("license") = "Apache-2.0";

struct pr_fast_state state SEC(".bss");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21); /* the loader sets it */
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} out SEC(".maps");

/* frames that were given to the kernel on this CPU, and that no tracepoint has told of yet; the link of the last */
struct given {
	__u64 frames;
	__u32 link;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct given);
} under_way SEC(".maps");

enum { MACS = 12, ETHER = 14, TAG = 4, FRAME_MIN = 60, SMALL = 128, MIDDLE = 640 };

static inline __attribute__((always_inline)) int
is_vlan(__u16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8) ||
	       type == bpf_htons(0x9100);
}

/* 0: the verifier's way out; a fingerprint may be 0 as well. */
static inline __attribute__((always_inline)) __u32
fingerprint(const void *data, const void *end, __u32 len)
{
	struct pr_print print = pr_print_begin(state.epoch);
	const void *p = data + PR_PRINT_FROM;

	for (int i = 0; i < (PR_FAST_FRAME_MAX - PR_PRINT_FROM) / PR_PRINT_BLOCK; i++) {
		if (p + PR_PRINT_BLOCK > end)
			break;
		pr_print_block(&print, p);
		p += PR_PRINT_BLOCK;
	}
	if (len < PR_PRINT_MIN || len > PR_FAST_FRAME_MAX)
		return 0;
	p = data + (len - PR_PRINT_BLOCK);
	if (p + PR_PRINT_BLOCK > end)
		return 0;
	pr_print_block(&print, p);
	return pr_print_end(&print, len);
}

static inline __attribute__((always_inline)) __u64
ends(__u64 a, __u64 b, __u64 kind)
{
	__u64 h = (pr_print_step(PR_PRINT_OTHER, a) + pr_print_step(PR_PRINT_OTHER, b)) ^
		  kind;

	return pr_print_step(PR_PRINT_PRIME, h);
}

/*
 * The same for both directions of a connection. Fragments, and IPv6 with extension headers, by addresses alone; what
 * is not IP by its MACs.
 */
static inline __attribute__((always_inline)) __u32
flow_hash(const void *data, const void *end, __u32 at, __u16 type)
{
	const struct ip4 *ip4 = data + at;
	const struct ip6 *ip6 = data + at;
	const __be16 *ports = NULL;
	__u64 src, dst, kind;

	if (type == bpf_htons(0x0800) && (const void *)(ip4 + 1) <= end) {
		src = ip4->src;
		dst = ip4->dst;
		kind = ip4->protocol;
		if (ip4->fragment & bpf_htons(0x3fff))
			kind = 0xffff;
		else
			ports = data + at + (ip4->version & 15) * 4;
	} else if (type == bpf_htons(0x86dd) && (const void *)(ip6 + 1) <= end) {
		src = pr_print_step(ip6->src[0], ip6->src[1]);
		dst = pr_print_step(ip6->dst[0], ip6->dst[1]);
		kind = 0xffff;
		if (ip6->next == 6 || ip6->next == 17) {
			kind = ip6->next;
			ports = (const void *)(ip6 + 1);
		}
	} else {
		src = pr_print_word(data) << 16;
		dst = pr_print_word(data + 6) << 16;
		return ends(src, dst, type);
	}
	if (ports && (kind == 6 || kind == 17 || kind == 132) &&
		(const void *)(ports + 2) <= end) {
		src ^= (__u64)ports[0] << 40;
		dst ^= (__u64)ports[1] << 40;
	}
	return ends(src, dst, kind);
}

/* Of 6 or 12 bytes; frames lie at even addresses. */
static inline __attribute__((always_inline)) void
copy_macs(void *to, const void *from, int bytes)
{
	for (int i = 0; i < bytes / 2; i++)
		((__u16 *)to)[i] = ((const __u16 *)from)[i];
}

static inline __attribute__((always_inline)) void
fill(struct pr_fast_record *rec, const void *data, __u32 len, __u32 caplen, __u32 link,
	__u32 flow)
{
	const struct pr_fast_schedule *s = &state.schedules[state.active & 1];
	__u32 count = s->count, slot;

	rec->time = bpf_ktime_get_tai_ns();
	__sync_fetch_and_add(&state.given, caplen + PR_FAST_COST);
	rec->seq =
		__sync_fetch_and_add(&state.links[link & (PR_FAST_LINKS - 1)].seq, 1) + 1;
	rec->len = len;
	rec->caplen = caplen;
	rec->link = link;
	rec->node = PR_FAST_NO_NODE;
	rec->sent = 0;
	rec->fingerprint = 0;
	if (count) {
		slot = (s->by_flow ? flow : (__u32)rec->seq) % count;
		rec->node = s->slot[slot & (PR_FAST_SLOTS - 1)];
	}
	copy_macs(rec->macs, data, MACS);
}

static inline __attribute__((always_inline)) int
refuse(uint64_t *counter)
{
	__sync_fetch_and_add(counter, 1);
	return XDP_DROP;
}

/* The frame goes whole into the ring buffer. room is a constant: the verifier wants the size of a record to be one. */
#define WHOLE(room)                                                                        \
	do {                                                                               \
		rec = bpf_ringbuf_reserve(&ring, sizeof *rec + (room), 0);                 \
		if (!rec)                                                                  \
			return refuse(&mine->refused_ring);                                \
		fill(rec, data, len, caplen, link, flow);                                  \
		n = caplen & 0xfff;                                                        \
		barrier_var(n);                                                            \
		if (n > 0 && n <= (room))                                                  \
			bpf_xdp_load_bytes(ctx, 0, rec + 1, n);                            \
		bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);                                 \
	} while (0)

/* The frame then goes where all frames of a capture interface go: to the filter that discards them. */
static inline __attribute__((always_inline)) int
give_whole(struct xdp_md *ctx, struct pr_fast_link *mine, __u32 len, __u32 link, __u32 flow)
{
	const void *data = (const void *)(long)ctx->data,
		   *end = (const void *)(long)ctx->data_end;
	__u32 caplen = end - data;
	struct pr_fast_record *rec;
	__u64 n;

	if (data + ETHER > end || caplen > PR_FAST_FRAME_MAX)
		return refuse(&mine->refused_long);
	if (caplen <= SMALL)
		WHOLE(SMALL);
	else if (caplen <= MIDDLE)
		WHOLE(MIDDLE);
	else
		WHOLE(PR_FAST_FRAME_MAX);
	return XDP_PASS;
}

/* Global, so that the verifier looks at it alone, and not at all behind it for each link. */
__attribute__((noinline)) __u32
link_of(__u32 index)
{
	__u32 link = 0;

	while (link < PR_FAST_LINKS - 1 && state.ifindex[link] != index)
		link++;
	return link;
}

SEC("xdp") int fast_capture(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 len = end - data, caplen = len, zero = 0, at = ETHER, link;
	struct pr_fast_record *rec;
	__u32 flow = 0, print, limit;

	link = link_of(ctx->ingress_ifindex) & (PR_FAST_LINKS - 1);
	struct pr_fast_link *mine = &state.links[link];
	if (!mine->running || data + ETHER > end)
		return XDP_PASS;
	const struct pr_fast_schedule *s = &state.schedules[state.active & 1];
	if (len > state.snaplen) {
		if (bpf_xdp_adjust_tail(ctx, (int)(state.snaplen - len)) < 0)
			return refuse(&mine->refused_long);
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		caplen = end - data;
		if (data + ETHER > end)
			return refuse(&mine->refused_long);
	}
	limit = s->frame_max;
	__u16 type = *(__u16 *)(data + MACS);
	if (is_vlan(type) && data + ETHER + TAG <= end) {
		limit += type == bpf_htons(0x8100) ? TAG : 0;
		type = *(__u16 *)(data + MACS + TAG);
		at += TAG;
	}
	if (state.given + caplen + PR_FAST_COST > state.most)
		return refuse(&mine->refused_ring);
	if (s->by_flow)
		flow = flow_hash(data, end, at, type);
	if (s->count == 0 || caplen < FRAME_MIN || caplen > limit || is_vlan(type) ||
		type == bpf_htons(state.ethertype))
		return give_whole(ctx, mine, len, link, flow);
	print = fingerprint(data, end, caplen);
	rec = bpf_ringbuf_reserve(&ring, sizeof *rec, 0);
	if (!rec)
		return refuse(&mine->refused_ring);
	fill(rec, data, len, caplen, link, flow);
	rec->fingerprint = print;
	rec->sent = 1;
	copy_macs(data, state.macs[rec->node & (PR_FAST_NODES - 1)], 6);
	copy_macs(data + 6, state.src, 6);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	struct given *given = bpf_map_lookup_elem(&under_way, &zero);
	if (given) {
		given->frames++;
		given->link = link;
	}
	return bpf_redirect_map(&out, 0, 0);
}

/* What the loader sends to see whether the rack interface takes frames of XDP. */
SEC("xdp") int fast_probe(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct given *given = bpf_map_lookup_elem(&under_way, &zero);

	if (given)
		given->frames++;
	return bpf_redirect_map(&out, 0, 0);
}

/*
 * These two hear of every program on the machine, and of the device only by pointers that the UAPI has no names for.
 * Those of this CPU that come while frames of ours are under way are ours: a CPU sends the frames of one program before
 * it runs another.
 */
static inline __attribute__((always_inline)) __u64
arrive(__u64 count, __u32 *link)
{
	__u32 zero = 0;
	struct given *given = bpf_map_lookup_elem(&under_way, &zero);

	if (!given)
		return 0;
	if (count > given->frames)
		count = given->frames;
	given->frames -= count;
	*link = given->link & (PR_FAST_LINKS - 1);
	return count;
}

SEC("raw_tp/xdp_redirect_err") int fast_redirect_failed(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 link = 0; /* it fails before the program sees another frame */
	__u64 count = arrive(1, &link);

	__sync_fetch_and_add(&state.links[link].not_redirected, count);
	return 0;
}

SEC("raw_tp/xdp_devmap_xmit") int fast_transmitted(struct bpf_raw_tracepoint_args *ctx)
{
	int sent = (int)ctx->args[2], drops = (int)ctx->args[3];
	__u32 link;

	if (sent > 0)
		__sync_fetch_and_add(&state.redirected, arrive(sent, &link));
	if (drops > 0)
		__sync_fetch_and_add(&state.transmit_dropped, arrive(drops, &link));
	return 0;
}
