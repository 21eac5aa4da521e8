/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Numbers of a seed, the same on every machine; one a program. */
static uint32_t seed;

static inline unsigned
draw(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (unsigned)((uint64_t)(seed >> 8) * below >> 24);
}

static inline uint64_t
hash_of(unsigned key)
{
	return (key + 1) * UINT64_C(0x9e3779b97f4a7c15);
}
