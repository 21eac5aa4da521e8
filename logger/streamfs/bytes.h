/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_BYTES_H
#define SFS_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Little-endian fields one after the other. For structures of fixed size only, whose whole size the
 * caller has checked: every encoder and decoder of format.c walks a buffer of a constant length.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SFS_LITTLE(bits, v) (v)
#else
#define SFS_LITTLE(bits, v) __builtin_bswap##bits(v)
#endif

/* A single move each, at any alignment. */
#define SFS_DEFINE_FIELD(bits)                                                             \
	static inline void sfs_put##bits(uint8_t **p, uint##bits##_t v)                    \
	{                                                                                  \
		v = SFS_LITTLE(bits, v);                                                   \
		memcpy(*p, &v, sizeof(v));                                                 \
		*p += sizeof(v);                                                           \
	}                                                                                  \
	static inline uint##bits##_t sfs_get##bits(const uint8_t **p)                      \
	{                                                                                  \
		uint##bits##_t v;                                                          \
		memcpy(&v, *p, sizeof(v));                                                 \
		*p += sizeof(v);                                                           \
		return SFS_LITTLE(bits, v);                                                \
	}

SFS_DEFINE_FIELD(16)
SFS_DEFINE_FIELD(32)
SFS_DEFINE_FIELD(64)

static inline void
sfs_put_bytes(uint8_t **p, const void *from, size_t len)
{
	memcpy(*p, from, len);
	*p += len;
}

static inline void
sfs_get_bytes(const uint8_t **p, void *to, size_t len)
{
	memcpy(to, *p, len);
	*p += len;
}

#endif
