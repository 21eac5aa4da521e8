/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/cli/flows/flow_record.h"

/*
 * Flow records as IPFIX messages (RFC 7011), one behind the other as in an IPFIX file (RFC 5655). A record has both
 * directions (RFC 5103): elements of the way back have the enterprise number 29305. Two templates, of IPv4 and of IPv6,
 * are in the first message and again in every hundredth, so that messages can be sent by UDP, too.
 */
#define FLOW_IPFIX_MESSAGE 1400 /* bytes, at most */
struct flow_ipfix {
	uint8_t bytes[FLOW_IPFIX_MESSAGE];
	size_t len, set; /* bytes in use; where the set that is open begins, or 0 */
	uint16_t set_id;
	uint32_t records, messages; /* written before this message */
	uint32_t here; /* records in it */
	FILE *to;
};

void flow_ipfix_add(struct flow_ipfix *x, const struct flow_record *r);
/* Writes what is left; of no record: the templates. */
void flow_ipfix_finish(struct flow_ipfix *x);
