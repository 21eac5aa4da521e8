/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_RELATION_KEYS_H
#define PR_WIRE_RELATION_KEYS_H

#include "proto/wire/decode.h"

/* What related packets have in common (relation.h), as a hash. */

enum pr_relation_protocol {
	PR_RELATION_ICMP = 1,
	PR_RELATION_ICMP6 = 58,
};

/* The frame that the headers' offsets are of. */
struct pr_relation_bytes {
	const uint8_t *data;
	size_t len;
};

static inline bool
pr_relation_ip(const struct pr_headers *h)
{
	return h->flags & (PR_DECODE_IP4 | PR_DECODE_IP6);
}

/* false: it is no fragment. */
bool pr_relation_fragment(const struct pr_headers *h, uint64_t *key);
/* false: a later fragment, no IP, or too little of it is captured. */
bool pr_relation_packet(
	const struct pr_headers *h, const struct pr_relation_bytes *b, uint64_t *key);

#endif
