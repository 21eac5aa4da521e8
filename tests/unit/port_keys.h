/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/index/index_key.h"

/* What level 1 has of a packet's ports, which pri_keys_of_fields does not make: each with its protocol. */

#define PORT_KEYS_MAX 2

static inline size_t
port_keys(const struct pri_packet_fields *f, struct pri_key out[PORT_KEYS_MAX])
{
	size_t n = 0;

	if (f->have & PRI_FIELD_SPORT)
		out[n++] = pri_key_port_of(PRI_KEY_SPORT, f->sport, f->protos[0]);
	if (f->have & PRI_FIELD_DPORT)
		out[n++] = pri_key_port_of(PRI_KEY_DPORT, f->dport, f->protos[0]);
	return n;
}
