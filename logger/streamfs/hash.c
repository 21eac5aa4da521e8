/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_STATIC_LINKING_ONLY /* a state that is no pointer; its size is the library's own */
#include <xxhash.h>
#ifdef __x86_64__
/* The widest vectors that the CPU has, chosen as the program starts: the library by itself takes SSE2. */
#include <xxh_x86dispatch.h>
#endif

#include "logger/streamfs/bytes.h"
#include "logger/streamfs/format.h"

/* XXH3's own secret generator is not in its stable interface, so the format has its own. */
static void
expand(const uint8_t secret[32], uint8_t label, uint8_t out[192])
{
	uint8_t seed[34];
	memcpy(seed, secret, 32);
	seed[32] = label;
	for (uint8_t i = 0; i < 12; i++) {
		XXH128_canonical_t text;
		seed[33] = i;
		XXH128_canonicalFromHash(&text, XXH3_128bits(seed, sizeof(seed)));
		memcpy(out + (size_t)i * 16, text.digest, 16);
	}
}

void
sfs_key_derive(struct sfs_key *key, const uint8_t secret[32])
{
	expand(secret, 'h', key->secret);
	expand(secret, 'c', key->check_secret);
}

void
sfs_hash(const struct sfs_key *key, const void *data, size_t len, uint8_t out[16])
{
	XXH128_canonical_t text;
	XXH128_canonicalFromHash(&text,
		XXH3_128bits_withSecret(data, len, key->secret, sizeof(key->secret)));
	memcpy(out, text.digest, 16);
}

uint32_t
sfs_hash_check(const struct sfs_key *key, const void *data, size_t len)
{
	return (uint32_t)XXH3_64bits_withSecret(
		data, len, key->check_secret, sizeof(key->check_secret));
}

void
sfs_handle_encode(const struct sfs_handle *handle, uint8_t out[SFS_HANDLE_BYTES])
{
	uint8_t *p = out;
	sfs_put64(&p, handle->generation);
	sfs_put64(&p, handle->block);
	sfs_put32(&p, handle->offset);
	sfs_put32(&p, handle->length);
	sfs_put16(&p, handle->stream);
	sfs_put16(&p, handle->header);
	sfs_put32(&p, handle->check);
	sfs_put64(&p, handle->proof);
}

void
sfs_handle_decode(const uint8_t in[SFS_HANDLE_BYTES], struct sfs_handle *out)
{
	const uint8_t *p = in;
	out->generation = sfs_get64(&p);
	out->block = sfs_get64(&p);
	out->offset = sfs_get32(&p);
	out->length = sfs_get32(&p);
	out->stream = sfs_get16(&p);
	out->header = sfs_get16(&p);
	out->check = sfs_get32(&p);
	out->proof = sfs_get64(&p);
}

char *
sfs_handle_text(const struct sfs_handle *handle, char out[SFS_HANDLE_TEXT])
{
	static const char digit[] = "0123456789abcdef";
	uint8_t bytes[SFS_HANDLE_BYTES];
	sfs_handle_encode(handle, bytes);
	for (int i = 0; i < SFS_HANDLE_BYTES; i++) {
		out[2 * i] = digit[bytes[i] >> 4];
		out[2 * i + 1] = digit[bytes[i] & 15];
	}
	out[2 * SFS_HANDLE_BYTES] = 0;
	return out;
}

static int
digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool
sfs_handle_parse(const char *text, struct sfs_handle *out)
{
	uint8_t bytes[SFS_HANDLE_BYTES];
	if (strlen(text) != 2 * SFS_HANDLE_BYTES)
		return false;
	for (int i = 0; i < SFS_HANDLE_BYTES; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	sfs_handle_decode(bytes, out);
	return true;
}

uint32_t
sfs_handle_check(const struct sfs_key *key, const struct sfs_handle *handle)
{
	uint8_t text[SFS_HANDLE_BYTES];
	struct sfs_handle bare = *handle;
	bare.check = 0;
	sfs_handle_encode(&bare, text);
	return sfs_hash_check(key, text, sizeof(text));
}

void
sfs_handle_make(const struct sfs_key *key, const struct sfs_record_header *record,
	struct sfs_handle *out)
{
	const uint8_t *p = record->hash;
	*out = (struct sfs_handle){
		.generation = record->generation,
		.block = record->block,
		.offset = record->offset,
		.length = record->length,
		.stream = (uint16_t)record->stream,
		.header = (uint16_t)record->size,
		.proof = sfs_get64(&p),
	};
	out->check = sfs_handle_check(key, out);
}

bool
sfs_handle_genuine(const struct sfs_key *key, const struct sfs_handle *handle)
{
	return handle->check == sfs_handle_check(key, handle);
}
