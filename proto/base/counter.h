/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_COUNTER_H
#define PR_BASE_COUNTER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A counter with one writer thread and any number of readers. */
typedef _Atomic uint64_t pr_counter;

static inline void
pr_count(pr_counter *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void
pr_counter_set(pr_counter *c, uint64_t n)
{
	atomic_store_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t
pr_counter_get(const pr_counter *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

/* A table of a struct's counters, for STATUS, status commands and metrics alike. */
struct pr_counter_desc {
	const char
		*name; /* snake_case, with its unit at the end: frames_sent, bytes_stored */
	const char *help;
	size_t offset; /* of the pr_counter in the struct */
};

#endif
