/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/keys.h"
#include "proto/wire/source.h"

/*
 * A manifest says who was given which packets, when, and how complete they are. The merger signs it (Ed25519, with a key that is made
 * of its own secret key), so that an export can serve as evidence. Two lines: an object of JSON, and
 * "ed25519 PUBLIC-KEY SIGNATURE" in hex, the signature of the first line without its end.
 *
 * "chain" names all packets in their order: c(0) = 32 bytes of 0; c(n) = BLAKE2b-256(c(n - 1), time (64 bits, ns since 1970), captured
 * length, length, link type, 0 (32 bits each, all little-endian), bytes of packet n).
 */
struct prm_chain {
	uint8_t value[32];
	uint64_t packets, bytes;
};
void prm_chain_add(struct prm_chain *c, const struct pr_packet *p);

struct prm_signer {
	uint8_t secret[64], public[32];
};
void prm_signer_make(struct prm_signer *s, const struct pr_key_pair *pair);

struct prm_given {
	const struct pr_rpc_peer *user;
	const char *filter, *link;
	int64_t since, until;
	uint64_t missing;
	bool complete;
};
/* From malloc; NULL: no memory. */
char *prm_manifest_make(const struct prm_signer *s, const struct prm_chain *c,
	const struct prm_given *given);
/* 0: the text is signed by the key that key_hex then has, and is of these packets. -1: err says what is wrong. */
#define PRM_MANIFEST_KEY 65
int prm_manifest_check(const char *text, const struct prm_chain *c,
	char key_hex[PRM_MANIFEST_KEY], struct pr_error *err);
