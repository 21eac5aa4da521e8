/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/address_map.h"
#include "proto/wire/source.h"

/*
 * Takes what tells of people out of packets, so that they can be handed out: addresses are mapped (address_map.h), payload is
 * cut. What is not understood is blanked, never passed: link types, Ethertypes, protocols, options, and what lies behind the end
 * of an IP packet. Lengths stay what they were; only caplen may become less. Pure; one thread.
 *
 * The policy is a text of `key = value` lines:
 *
 *	payload = cut | zero | hash | keep   of TCP, UDP, ICMP echo; default cut. hash: its own keyed hash, again and again
 *	macs, arp, icmp-quotes, nd, dns, dhcp, tunnels = map | blank   default map. dns, dhcp: only where payload is not cut;
 *	                           names become others of the same length
 *	ports = keep | map         default keep
 *	checksums = fix | zero     default fix: right ones stay right, wrong ones wrong; where not all of a packet is there, zero
 *	shift = SECONDS            added to each time; default 0
 */
enum pr_anonymize_payload {
	PR_PAYLOAD_CUT,
	PR_PAYLOAD_ZERO,
	PR_PAYLOAD_HASH,
	PR_PAYLOAD_KEEP
};

struct pr_anonymize_policy {
	int payload; /* enum pr_anonymize_payload */
	int macs, arp, quotes, nd, dns, dhcp, tunnels; /* 1: blank */
	int ports; /* 1: map */
	int checksums; /* 1: zero */
	int64_t shift; /* ns */
	char *shift_text;
};

/* What was done, in all. */
struct pr_anonymize_figures {
	uint64_t packets, addresses, macs,
		payload_bytes; /* payload: cut, zeroed or hashed */
	uint64_t blanked_packets,
		blanked_bytes; /* not understood, or as the policy wants it */
};

/* Free its strings with pr_anonymize_policy_free in any case. what: for errors, the file's name. */
int pr_anonymize_policy_parse(struct pr_anonymize_policy *policy, const char *text,
	const char *what, struct pr_error *err);
void pr_anonymize_policy_free(struct pr_anonymize_policy *policy);
/* 64 hex digits in a file that only its owner may read. */
int pr_anonymize_key_read(
	const char *path, uint8_t key[PR_ADDRESS_KEY], struct pr_error *err);

struct pr_anonymizer;
struct pr_anonymizer *pr_anonymizer_create(const struct pr_anonymize_policy *policy,
	const uint8_t key[PR_ADDRESS_KEY], struct pr_error *err);
void pr_anonymizer_destroy(struct pr_anonymizer **a);
/* data: of p, which may be written. Changes p's data, caplen, time and otime; seq and link stay. */
void pr_anonymize(struct pr_anonymizer *a, struct pr_packet *p, uint8_t *data);
const struct pr_anonymize_figures *pr_anonymizer_figures(const struct pr_anonymizer *a);
