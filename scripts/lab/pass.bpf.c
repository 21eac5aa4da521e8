/* SPDX-License-Identifier: Apache-2.0 */
/* Passes all frames on. On one end of a veth pair it lets the other end take frames that XDP redirects. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char pass_license[] SEC("license") = "Apache-2.0";

SEC("xdp") int pass(struct xdp_md *ctx)
{
	return ctx->data <= ctx->data_end ? XDP_PASS : XDP_DROP;
}
