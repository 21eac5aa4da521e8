/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/fingerprint.h"

/*
 * What the shunting program (shunt.bpf.c) and the dispatcher share: one array that both map. Included by both. A
 * connection lies in one of the places of the set that its hash names; if all are taken it is not shunted.
 */
enum {
	PR_SHUNT_LINKS = 64,
	PR_SHUNT_PLACES = 4, /* of a set */
	PR_SHUNT_SETS = 1 << 14,
	PR_SHUNT_FREE = 0,
	PR_SHUNT_ON = 1,
	PR_SHUNT_ENDED = 2
};

/* As struct pr_connection (proto/wire/beyond.h) of IP without options, TCP or UDP, at most one tag of 0x8100; and its link. */
struct pr_shunt_key {
	uint8_t address[2][16];
	uint16_t port[2]; /* the machine's order */
	uint16_t vlan;
	uint8_t protocol, address_len;
	uint32_t link, zero;
} __attribute__((aligned(8))); /* read by words */

/* Packets of one direction in one second of UTC. The program adds while packets is 0 or the second is the same. */
struct pr_shunt_sum {
	uint64_t second, packets, bytes;
	int64_t first, last; /* ns UTC */
};

struct pr_shunt {
	struct pr_shunt_key key;
	int64_t last; /* time of its last packet */
	uint32_t
		state; /* PR_SHUNT_FREE, ON, ENDED: the program sets ENDED, which is never taken back */
	uint32_t reserved;
	struct pr_shunt_sum
		sums[2][2]; /* by parity of the second, and by the end that sends */
};

struct pr_shunt_set {
	uint64_t tag[PR_SHUNT_PLACES]; /* hash of the key, 0: free */
	struct pr_shunt place[PR_SHUNT_PLACES];
};

struct pr_shunt_state {
	uint32_t ifindex[PR_SHUNT_LINKS];
	uint32_t running;
	int64_t tai_ahead; /* ns, of UTC */
	uint64_t seed;
};

/* Never 0. */
static inline __attribute__((always_inline)) uint64_t
pr_shunt_hash(const struct pr_shunt_key *key, uint64_t seed)
{
	const uint64_t *w = (const uint64_t *)(const void *)key;
	uint64_t a = seed, b = ~seed;

	for (int i = 0; i < 6; i += 2) {
		a = pr_print_step(a, w[i]);
		b = pr_print_step(b, w[i + 1]);
	}
	return pr_print_step(a, b) | 1;
}
