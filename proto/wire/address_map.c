/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/address_map.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"

#define BLOCK 16
#define CACHE4 (1u << 16)
#define CACHE6 (1u << 14)

struct cached {
	uint8_t from[16], to[16];
	uint8_t used;
};

struct pr_address_map {
	EVP_CIPHER_CTX *aes;
	uint8_t pad[BLOCK];
	uint8_t hash_key[crypto_shorthash_KEYBYTES];
	uint64_t cache4
		[CACHE4]; /* from << 32 | to; 0: none (0.0.0.0 is computed each time) */
	struct cached cache6[CACHE6];
};

static int
encrypt(struct pr_address_map *m, uint8_t *out, const uint8_t *in, size_t len)
{
	int n;

	return EVP_EncryptUpdate(m->aes, out, &n, in, (int)len) == 1 && n == (int)len ? 0
										      : -1;
}

struct pr_address_map *
pr_address_map_create(const uint8_t key[PR_ADDRESS_KEY], struct pr_error *err)
{
	struct pr_address_map *m = calloc(1, sizeof(*m));
	uint8_t block[BLOCK] = "packrack hashes";

	if (m && (m->aes = EVP_CIPHER_CTX_new()) &&
		EVP_EncryptInit_ex(m->aes, EVP_aes_128_ecb(), NULL, key, NULL) == 1 &&
		EVP_CIPHER_CTX_set_padding(m->aes, 0) == 1 &&
		encrypt(m, m->pad, key + BLOCK, BLOCK) == 0 &&
		encrypt(m, m->hash_key, block, BLOCK) == 0)
		return m;
	pr_address_map_destroy(&m);
	return pr_error_null(err, "no memory, or no AES, for addresses");
}

void
pr_address_map_destroy(struct pr_address_map **at)
{
	struct pr_address_map *m = PR_TAKE(at);

	if (!m)
		return;
	EVP_CIPHER_CTX_free(m->aes);
	sodium_memzero(m, sizeof(*m));
	free(m);
}

/* Bit i of the result is that of the address, turned over by the first bit of AES(its first i bits, the rest the pad's). */
static void
compute(struct pr_address_map *m, uint8_t *address, size_t len)
{
	uint8_t in[8 * BLOCK * BLOCK], out[sizeof(in)];
	size_t bits = 8 * len;

	for (size_t i = 0; i < bits; i++) {
		uint8_t *block = in + BLOCK * i, mask = (uint8_t)(0xff00 >> (i % 8));

		memcpy(block, address, i / 8);
		memcpy(block + i / 8, m->pad + i / 8, BLOCK - i / 8);
		block[i / 8] = (uint8_t)((address[i / 8] & mask) | (m->pad[i / 8] & ~mask));
	}
	if (encrypt(m, out, in, BLOCK * bits) < 0)
		abort(); /* it cannot fail; and the address must not pass */
	for (size_t i = 0; i < bits; i++)
		address[i / 8] ^= (uint8_t)((out[BLOCK * i] >> 7) << (7 - i % 8));
}

void
pr_address_map(struct pr_address_map *m, uint8_t *address, size_t len)
{
	if (len == 4) {
		uint32_t from = pr_get_be32(address);
		uint64_t *c = &m->cache4[from * 0x9e3779b1u >> 16];

		if (*c >> 32 != from || !from) {
			compute(m, address, 4);
			*c = (uint64_t)from << 32 | pr_get_be32(address);
		}
		pr_put_be32(address, (uint32_t)*c);
		return;
	}
	uint64_t hash =
		pr_get_be64(address) * 0x9e3779b97f4a7c15 ^ pr_get_be64(address + 8);
	struct cached *c = &m->cache6[hash * 0x9e3779b97f4a7c15 >> 50];
	if (!c->used || memcmp(c->from, address, 16) != 0) {
		memcpy(c->from, address, 16);
		compute(m, address, 16);
		memcpy(c->to, address, 16);
		c->used = 1;
	}
	memcpy(address, c->to, 16);
}

uint64_t
pr_address_map_hash(
	const struct pr_address_map *m, uint8_t which, const void *data, size_t len)
{
	uint8_t key[crypto_shorthash_KEYBYTES], out[crypto_shorthash_BYTES];

	memcpy(key, m->hash_key, sizeof(key));
	key[0] ^= which;
	crypto_shorthash(out, data, len, key);
	return pr_get_be64(out);
}

void
pr_address_map_mac(struct pr_address_map *m, uint8_t mac[6])
{
	static const uint8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
	uint8_t group = mac[0] & 1;

	if (!memcmp(mac, broadcast, 6))
		return;
	uint64_t hash = pr_address_map_hash(m, 'm', mac, 6);
	memcpy(mac, &hash, 6);
	mac[0] = (uint8_t)((mac[0] & 0xfc) | 2 | group);
}
