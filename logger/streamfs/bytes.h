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
static inline void
sfs_put16(uint8_t **p, uint16_t v)
{
	(*p)[0] = (uint8_t)v;
	(*p)[1] = (uint8_t)(v >> 8);
	*p += 2;
}

static inline void
sfs_put32(uint8_t **p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		(*p)[i] = (uint8_t)(v >> (8 * i));
	*p += 4;
}

static inline void
sfs_put64(uint8_t **p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		(*p)[i] = (uint8_t)(v >> (8 * i));
	*p += 8;
}

static inline void
sfs_put_bytes(uint8_t **p, const void *from, size_t len)
{
	memcpy(*p, from, len);
	*p += len;
}

static inline uint16_t
sfs_get16(const uint8_t **p)
{
	uint16_t v = (uint16_t)((*p)[0] | (*p)[1] << 8);
	*p += 2;
	return v;
}

static inline uint32_t
sfs_get32(const uint8_t **p)
{
	uint32_t v = 0;
	for (int i = 0; i < 4; i++)
		v |= (uint32_t)(*p)[i] << (8 * i);
	*p += 4;
	return v;
}

static inline uint64_t
sfs_get64(const uint8_t **p)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v |= (uint64_t)(*p)[i] << (8 * i);
	*p += 8;
	return v;
}

static inline void
sfs_get_bytes(const uint8_t **p, void *to, size_t len)
{
	memcpy(to, *p, len);
	*p += len;
}

#endif
