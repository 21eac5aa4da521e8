/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * Prefix-preserving addresses: two addresses that begin with the same n bits are mapped to two that do. Crypto-PAn (Xu, Fan,
 * Ammar, Moon: "Prefix-Preserving IP Address Anonymization", 2002) with AES-128 by OpenSSL; what another implementation gives
 * for the same key. The same key always gives the same mapping. What was mapped is remembered, as packets name the same few
 * addresses again and again. One thread.
 */
#define PR_ADDRESS_KEY 32 /* bytes: 16 of AES, 16 for the pad */

struct pr_address_map;
struct pr_address_map *pr_address_map_create(
	const uint8_t key[PR_ADDRESS_KEY], struct pr_error *err);
void pr_address_map_destroy(struct pr_address_map **map);
/* len: 4 or 16. In place. */
void pr_address_map(struct pr_address_map *map, uint8_t *address, size_t len);
/*
 * MAC addresses have no prefix to preserve: 46 bits of a keyed hash. It stays a group's, or not; it is locally administered
 * then. Broadcast stays.
 */
void pr_address_map_mac(struct pr_address_map *map, uint8_t mac[6]);
/* 8 bytes for any other secret: which tells what it is for. Not to be turned back without the key. */
uint64_t pr_address_map_hash(
	const struct pr_address_map *map, uint8_t which, const void *data, size_t len);
