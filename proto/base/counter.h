/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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

/* ---- tables of counters ---- */

enum pr_counter_type { PR_COUNTER, PR_GAUGE };

/* The unit of a number in status messages; metrics have Prometheus' base units. */
enum pr_counter_unit {
	PR_ONE, /* things, bytes, yes or no */
	PR_KIB, /* shown as bytes */
	PR_US, /* shown as seconds */
	PR_NS, /* shown as seconds; a time of 0 or before 1970 is not shown */
	PR_PERCENT, /* shown as a ratio, 0 to 1 */
	PR_PERMILLE, /* the same */
};

/*
 * One number of a program. Its row has everything that status and metrics need, and through
 * these the command line and the console. The number is in a struct of the program: a
 * pr_counter, or a number of 1, 4 or 8 bytes.
 */
struct pr_counter_row {
	size_t offset, size;
	const char *name; /* in status messages: snake_case, the unit at the end */
	enum pr_counter_type type;
	const char *help; /* a sentence, for metrics */
	/* without the program's prefix; NULL: name, and _total of a counter */
	const char *metric;
	enum pr_counter_unit unit;
	const char *labels; /* constant ones, as in place="kernel"; or NULL */
};
#define PR_AT(type, member) offsetof(type, member), sizeof(((type *)0)->member)
/*
 * Rows of a table; PR_COUNTED is defined as the struct before it, and undefined after it.
 *
 *	PR_COUNTER_OF(frames_sent, "sent_frames", "Frames sent."),
 */
#define PR_COUNTER_OF(member, name, help) PR_COUNTER_AS(member, name, NULL, help)
#define PR_GAUGE_OF(member, name, help) PR_GAUGE_AS(member, name, NULL, help)
/* The same with another name in metrics. */
#define PR_COUNTER_AS(member, name, metric, help)                                          \
	PR_METRIC(member, name, PR_COUNTER, metric, PR_ONE, NULL, help)
#define PR_GAUGE_AS(member, name, metric, help)                                            \
	PR_METRIC(member, name, PR_GAUGE, metric, PR_ONE, NULL, help)
#define PR_METRIC(member, name, type, metric, unit, labels, help)                          \
	{                                                                                  \
		PR_AT(PR_COUNTED, member), name, type, help, metric, unit, labels          \
	}
/* For pr_metrics_states: a row of no member. */
#define PR_STATES_OF(name, help)                                                           \
	{                                                                                  \
		0, 0, name, PR_GAUGE, help, NULL, PR_ONE, NULL                             \
	}

/* The rows of one struct, and that struct. */
struct pr_counter_table {
	const struct pr_counter_row *rows;
	size_t count;
	const void *base;
};
#define PR_COUNTER_TABLE(rows, base)                                                       \
	(struct pr_counter_table)                                                          \
	{                                                                                  \
		rows, sizeof(rows) / sizeof((rows)[0]), base                               \
	}

static inline uint64_t
pr_counter_read(const struct pr_counter_row *row, const void *base)
{
	const char *at = (const char *)base + row->offset;

	if (row->size == sizeof(uint64_t))
		return __atomic_load_n(
			(const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
	if (row->size == sizeof(uint32_t))
		return __atomic_load_n(
			(const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
	return *(const uint8_t *)at;
}
