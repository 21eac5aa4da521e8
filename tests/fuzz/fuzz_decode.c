/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of captured packets. Covers proto/wire/decode.c
 * Options -max_len=512
 *
 * The first byte chooses the link type.
 */
#include <string.h>

#include "proto/wire/decode.h"
#include "tests/fuzz/fuzz.h"

static void
check_headers(const struct pr_headers *h, size_t caplen)
{
	MUST(h->ip_offset <= caplen && h->l4_offset <= caplen &&
		h->payload_offset <= caplen);
	MUST(h->vlan_count <= 4 && h->mpls_count <= 4);
	MUST(!(h->flags & PR_DECODE_IP4 && h->flags & PR_DECODE_IP6));
	if (h->flags & PR_DECODE_FRAGMENT_LATER)
		MUST(h->flags & PR_DECODE_FRAGMENT && !(h->flags & PR_DECODE_PORTS));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Ethernet, NULL, raw, LOOP, SLL, IPv4, IPv6, SLL2, and one that we do not know */
	static const uint16_t linktypes[] = {1, 0, 101, 108, 113, 228, 229, 276, 147};
	struct pr_decoded d;
	uint16_t linktype;

	if (size < 1)
		return -1;
	linktype = linktypes[data[0] % (sizeof linktypes / sizeof *linktypes)];
	data++;
	size--;
	memset(&d, 0xff, sizeof d);
	pr_decode(linktype, data, size, &d);
	check_headers(&d.outer, size);
	if (d.outer.flags & PR_DECODE_TUNNEL)
		check_headers(&d.inner, size);
	MUST(d.tunnels <= 4);
	MUST(pr_flow_hash(&d, data, size, 1) == pr_flow_hash(&d, data, size, 1));
	return 0;
}
