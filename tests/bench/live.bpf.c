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
