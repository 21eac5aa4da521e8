/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_TRACE_HASH_H
#define PRM_MERGER_TRACE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/source.h"

/*
 * One number for all packets of a trace in their order, so that two exports can be compared without
 * having both: XXH3 (128 bits) over, for each packet, its time (64 bits, ns since 1970), captured
 * length, length (32 bits each), link type (32 bits), 0 (32 bits), all little-endian, and its bytes.
 * Names of links and numbers of packets are not in it. It shows what differs by accident; it is no proof
 * against who forges one. This is version 1, and stands in files as "xxh3-128/1:" and 32 hex digits.
 */
#define PRM_TRACE_HASH_TEXT 48

struct prm_trace_hash;

struct prm_trace_hash *prm_trace_hash_create(struct pr_error *err);
void prm_trace_hash_destroy(struct prm_trace_hash **hash);
void prm_trace_hash_add(struct prm_trace_hash *hash, const struct pr_packet *p);
char *prm_trace_hash_text(const struct prm_trace_hash *hash, char out[PRM_TRACE_HASH_TEXT]);

#endif
