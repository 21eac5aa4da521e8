/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_PORT_KEYS_H
#define TESTS_UNIT_PORT_KEYS_H

#include "indexer/index/index_key.h"

/* What level 1 has of a packet's ports, which pri_keys_of_fields does not make: index_key.h, side by side. */

#define PORT_KEYS_MAX 6

static inline size_t
socket_keys(
	const struct pri_packet_fields *f, uint16_t port, bool source, struct pri_key *out)
{
	size_t n = 0;

	if (pri_port_is_service(port))
		return 0;
	if (source && f->have & PRI_FIELD_SRC)
		out[n++] = pri_key_socket(PRI_SOCKET_SRC, f->src, f->address_len, port);
	if (!source && f->have & PRI_FIELD_DST)
		out[n++] = pri_key_socket(PRI_SOCKET_DST, f->dst, f->address_len, port);
	if (source && f->have & PRI_FIELD_DST && port >= 1024)
		out[n++] = pri_key_socket(PRI_SOCKET_PEER, f->dst, f->address_len, port);
	if (!source && f->have & PRI_FIELD_SRC && port >= 1024)
		out[n++] = pri_key_socket(PRI_SOCKET_PEER, f->src, f->address_len, port);
	return n;
}

static inline size_t
port_keys(const struct pri_packet_fields *f, struct pri_key out[PORT_KEYS_MAX])
{
	size_t n = 0;

	if (f->have & PRI_FIELD_SPORT) {
		n += socket_keys(f, f->sport, true, out + n);
		out[n++] = pri_key_port_of(PRI_KEY_SPORT, f->sport, f->protos[0]);
	}
	if (f->have & PRI_FIELD_DPORT) {
		n += socket_keys(f, f->dport, false, out + n);
		out[n++] = pri_key_port_of(PRI_KEY_DPORT, f->dport, f->protos[0]);
	}
	return n;
}

#endif
