/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lab's switch at the dispatcher's port: a frame for a node goes to that node's port at once, others pass on to the bridge. On
 * the other end of a veth pair a program lets this end take frames that XDP redirects: there it passes all on.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char pass_license[] SEC("license") = "Apache-2.0";

SEC("xdp") int pass(struct xdp_md *ctx)
{
	return ctx->data <= ctx->data_end ? XDP_PASS : XDP_DROP;
}

SEC("xdp.switch") int forward(struct xdp_md *ctx)
{
	const __u8 *mac = (const void *)(long)ctx->data;

	if (mac + 14 > (const __u8 *)(long)ctx->data_end)
		return XDP_DROP;
	/* lab_mac 5 of both, as scripts/lab/net.sh makes them */
	if (mac[0] != 2 || mac[4] != 5 || !mac[5] || mac[6] != 2 || mac[10] != 5)
		return XDP_PASS;
	return bpf_redirect(1000 + mac[5], 0);
}
