/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_PREPARE_H
#define PR_DISPATCHER_PREPARE_H

#include <stddef.h>
#include <stdint.h>

#include "dispatcher/inputs.h"
#include "proto/wire/tslog.h"

enum { PRD_VLAN_TAG = 4 };

/* What all frames of one run have in common. */
struct prd_prepare {
	uint8_t src[PR_MAC_LEN]; /* the o-port's */
	uint16_t ethertype; /* the rack's, which tapped frames may not carry */
	uint64_t epoch;
};

/*
 * The longest frame that an o-port of this MTU takes. AF_PACKET allows four bytes more for one
 * 802.1Q tag, and counts all further tags.
 */
size_t prd_frame_limit(const uint8_t *frame, size_t len, uint32_t mtu);

/*
 * Turns a captured packet, in place, into the frame for a node: MACs rewritten, our Ethertype
 * escaped, cut to mtu, padded; a runt becomes a frame of zeros. Fills e with all that this hides
 * and with time and fingerprint; seq, otime, ordinal and PR_ENTRY_SECOND are left to the caller.
 * Returns the frame's length.
 */
size_t prd_prepare(const struct prd_prepare *p, struct prd_record *rec,
	const uint8_t dst[PR_MAC_LEN], uint32_t mtu, struct pr_entry *e);

#endif
