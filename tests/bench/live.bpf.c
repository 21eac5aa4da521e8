/* SPDX-License-Identifier: Apache-2.0 */
/* Sends each frame that it is run on to the interface in the map: the sender of tests/bench/live.c. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char live_license[] SEC("license") = "Apache-2.0";

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} to SEC(".maps");

SEC("xdp") int live(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to, 0, 0);
}

/* Of `paced`: ns between two frames, in 1/256; when the next is due; how many went, and are to go. */
struct pace {
	__u64 step, next, sent, most;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pace);
} pace SEC(".maps");

/* The same, no faster than that: a frame that is not due yet is dropped, which takes the time until it is. */
SEC("xdp") int paced(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct pace *p = bpf_map_lookup_elem(&pace, &zero);
	__u64 now = bpf_ktime_get_ns() << 8;

	if (!p || now < p->next || p->sent == p->most)
		return XDP_DROP;
	/* the pause between two calls is not made up for */
	p->next = (now - p->next > 1000000 << 8 ? now : p->next) + p->step;
	p->sent++;
	return bpf_redirect_map(&to, 0, 0);
}

/* A switch and a node in one that takes control frames only: what becomes of data frames is not measured. */
SEC("xdp") int control(struct xdp_md *ctx)
{
	const unsigned char *data = (const void *)(long)ctx->data;

	if (data + 14 > (const unsigned char *)(long)ctx->data_end)
		return XDP_DROP;
	return data[12] == 0x88 && data[13] == 0xb5 ? XDP_PASS : XDP_DROP;
}

/* What costs least: the bench subtracts it. */
SEC("xdp") int sink(struct xdp_md *ctx)
{
	return XDP_DROP;
}
