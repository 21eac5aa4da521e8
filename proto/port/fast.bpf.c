/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program of a capture interface (proto/port/fast.h). It numbers each frame, writes a record into the ring
 * and sends the frame to its node. Frames that need more than a change of MACs go whole into a ring of their own.
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

/* The loader sets the sizes of both rings. A whole frame may reach beyond the end of its ring: so much more is there. */
const volatile __u32 slot_mask, whole_mask;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pr_fast_slot);
} ring SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 1 << 16);
} whole SEC(".maps");

/* The rack interface. Twice, with the program that gives each copy its MAC, where packets may have two copies. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} out SEC(".maps");
const volatile __u32 copies = 1;

/* The first bytes of a frame between the program of the capture interface and that of a copy. */
struct copy {
	__u8 node, second;
	__u16 number, more;
};
/* of the frame of which the first copy went on this CPU: 1 + number; 0: none */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} first_copy SEC(".maps");

/* frames that were given to the kernel on this CPU, and that no tracepoint has told of yet; the link of the last */
struct given {
	__u64 frames;
	__u32 link, last; /* frames of the last packet */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct given);
} under_way SEC(".maps");

enum { MACS = 12, ETHER = 14, TAG = 4, FRAME_MIN = 60, UNDER_WAY_MOST = 18 };

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

/* Of 6 bytes */
static inline __attribute__((always_inline)) void
copy_mac(void *to, const void *from)
{
	*(__u32 *)to = *(const __u32 *)from;
	((__u16 *)to)[2] = ((const __u16 *)from)[2];
}

static inline __attribute__((always_inline)) int
refuse(uint64_t *counter)
{
	__sync_fetch_and_add(counter, 1);
	return XDP_DROP;
}

/* What is known of a packet before it has a number; data: ETHER bytes at least */
struct packet {
	const void *data;
	const struct pr_fast_schedule *schedule;
	__u32 count; /* of the schedule, read once: it may be filled anew meanwhile */
	__u32 len, caplen, link, flow, cost;
};

/* Room for one more frame: in the ring, and at the nodes. */
static inline __attribute__((always_inline)) int
has_room(__u32 cost)
{
	/* in this order: what is released meanwhile only makes it cautious */
	__u64 released = *(volatile __u64 *)&state.released;
	__u64 given = *(volatile __u64 *)&state.given;
	__u64 left = state.most - (given >> PR_FAST_NUMBER_BITS) - cost;

	return (__s64)(left << PR_FAST_NUMBER_BITS) >= 0 &&
	       ((given - released) & PR_FAST_NUMBER) < state.slots_most;
}

/*
 * The next number, with all that its place says but for the tag, which is returned. After it nothing may fail: each
 * number that is given has a record. The time comes behind the number: what has no number yet was not stamped.
 */
static inline __attribute__((always_inline)) struct pr_fast_slot *
take(const struct packet *p, __u32 *number, __u32 *tag)
{
	__u32 pick, at;
	__u64 given = __sync_fetch_and_add(
		&state.given, (__u64)p->cost << PR_FAST_NUMBER_BITS | 1);
	struct pr_fast_slot *slot;

	*number = given & PR_FAST_NUMBER;
	at = *number & slot_mask;
	slot = bpf_map_lookup_elem(&ring, &at);
	if (!slot) /* for the verifier */
		return NULL;
	slot->time = bpf_ktime_get_tai_ns();
	slot->len = p->len;
	slot->caplen = p->caplen;
	*tag = ((*number >> (state.slot_bits & 31)) + 1) << 24 | p->link;
	if (p->count) {
		pick = (p->schedule->by_flow ? p->flow : *number) % p->count &
		       (PR_FAST_SLOTS - 1);
		*tag |= PR_FAST_HAS_NODE | p->schedule->slot[pick][0] << 8 |
			p->schedule->slot[pick][1] << 16;
	}
	copy_mac(slot->macs, p->data);
	copy_mac(slot->macs + 6, p->data + 6);
	return slot;
}

/* All that was written before is seen before it. */
static inline __attribute__((always_inline)) void
give(struct pr_fast_slot *slot, __u32 tag)
{
#ifdef ORDERED_STORES
	barrier();
	*(volatile __u32 *)&slot->tag = tag;
#else
	__sync_lock_test_and_set(&slot->tag, tag);
#endif
}

/* The frame then goes where all frames of a capture interface go: to the filter that discards them. */
static inline __attribute__((always_inline)) int
give_whole(struct xdp_md *ctx, struct pr_fast_link *mine, struct packet *p)
{
	__u32 zero = 0, number, tag;
	__u64 at, n = (p->caplen + PR_FAST_WHOLE_UNIT - 1) & -PR_FAST_WHOLE_UNIT;
	void *bytes = bpf_map_lookup_elem(&whole, &zero);
	struct pr_fast_slot *slot;

	if (p->caplen > PR_FAST_FRAME_MAX || !bytes)
		return refuse(&mine->refused_long);
	__u64 released = *(volatile __u64 *)&state.whole_released;
	if (*(volatile __u64 *)&state.whole_given + n - released > state.whole_most)
		return refuse(&mine->refused_ring);
	p->link |= PR_FAST_WHOLE;
	slot = take(p, &number, &tag);
	if (!slot)
		return XDP_PASS;
	/* behind the number: a place that the reader does not wait for could be passed by a whole lap */
	at = __sync_fetch_and_add(&state.whole_given, n) & whole_mask;
	slot->fingerprint = (__u32)at;
	n = p->caplen & 0xfff;
	barrier_var(n);
	if (n > 0 && n <= PR_FAST_FRAME_MAX)
		bpf_xdp_load_bytes(ctx, 0, bytes + at, n);
	give(slot, tag);
	return XDP_PASS;
}

/* To its node; two copies get their MACs from the program of the copy. */
static inline __attribute__((always_inline)) int
send(void *data, __u32 link, __u32 number, __u32 tag)
{
	__u8 node = tag >> 8, second = tag >> 16;
	__u32 zero = 0, frames = 1;
	struct given *given = bpf_map_lookup_elem(&under_way, &zero);
	struct copy *copy = data;

	copy_mac(data + 6, state.src);
	if (copies == 1) {
		copy_mac(data, state.macs[node]);
	} else {
		*copy = (struct copy){node, second, number, number >> 16};
		frames += node != second;
	}
	if (given) {
		given->frames += frames;
		given->last = frames;
		given->link = link;
		/* a CPU sends each so many at the latest; the two copies of an interface that is down vanish without a word */
		if (copies > 1 && given->frames > UNDER_WAY_MOST) {
			__sync_fetch_and_add(&state.links[link].not_redirected,
				given->frames - UNDER_WAY_MOST);
			given->frames = UNDER_WAY_MOST;
		}
	}
	return bpf_redirect_map(&out, 0, frames > 1 ? BPF_F_BROADCAST : 0);
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
	__u32 len = end - data, caplen = len, at = ETHER, link;
	struct packet p = {.len = len};
	struct pr_fast_slot *slot;
	__u32 print, limit, number, tag;

	link = ctx->ingress_ifindex == state.ifindex[0]
		       ? 0
		       : link_of(ctx->ingress_ifindex) & (PR_FAST_LINKS - 1);
	struct pr_fast_link *mine = &state.links[link];
	if (!mine->running || data + ETHER > end)
		return XDP_PASS;
	if (len > UINT16_MAX)
		return refuse(&mine->refused_long);
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
	p.data = data;
	p.schedule = s;
	p.caplen = caplen;
	p.link = link;
	p.count = *(volatile __u32 *)&s->count;
	p.cost = (caplen + PR_FAST_COST) << s->twice;
	if (!has_room(p.cost))
		return refuse(&mine->refused_ring);
	if (s->by_flow)
		p.flow = flow_hash(data, end, at, type);
	if (p.count == 0 || state.all_whole || caplen < FRAME_MIN || caplen > limit ||
		is_vlan(type) || type == bpf_htons(state.ethertype))
		return give_whole(ctx, mine, &p);
	print = fingerprint(data, end, caplen);
	slot = take(&p, &number, &tag);
	if (!slot)
		return XDP_PASS;
	slot->fingerprint = print;
	give(slot, tag);
	return send(data, link, number, tag);
}

/*
 * Each copy as it leaves. The two of a frame leave one after the other on the same CPU, and a frame's number is not
 * that of the frame before: so the second is known by it.
 */
SEC("xdp/devmap") int fast_copy(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, *first = bpf_map_lookup_elem(&first_copy, &zero);
	const struct copy *copy = data;

	if (data + ETHER > end || !first)
		return XDP_DROP;
	__u32 number = copy->number + 1 + (copy->more << 16);
	__u8 node = copy->node;
	if (copy->second != node && *first == number) {
		node = copy->second;
		*first = 0;
	} else {
		*first = number;
	}
	copy_mac(data, state.macs[node]);
	return XDP_PASS;
}

/* What the loader sends to see whether the rack interface takes frames of XDP. */
SEC("xdp") int fast_probe(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct given *given = bpf_map_lookup_elem(&under_way, &zero);

	if (given)
		given->frames = given->last = 1;
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
	__u32 link = 0, zero = 0; /* it fails before the program sees another frame */
	const struct given *given = bpf_map_lookup_elem(&under_way, &zero);
	__u64 count = given ? arrive(given->last, &link) : 0;

	__sync_fetch_and_add(&state.links[link].not_redirected, count);
	__sync_fetch_and_add(&state.links[link].redirect_errors, count > 0);
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
