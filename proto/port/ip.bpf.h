/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* IP headers for the XDP programs, as they are on the wire. */
struct ip4 {
	__u8 version, tos;
	__be16 len, id, fragment;
	__u8 ttl, protocol;
	__be16 sum;
	__be32 src, dst;
};

struct ip6 {
	__be32 version;
	__be16 len;
	__u8 next, hops;
	__be64 src[2], dst[2];
};
