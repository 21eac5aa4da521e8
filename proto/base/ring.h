/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/error.h"

/*
 * The cyclic buffer: one producer thread, one consumer thread, records of any length, kept
 * contiguous and 8-byte aligned. C11 atomics; no locks. The consumer may read many records
 * ahead and change them in place before it gives them back.
 * (CLog, section 3.1: "immediately writes the packet to the tail ...; a separate thread removes".)
 */

/* size: bytes, rounded up to a power of two of at least 64 KiB. Memory is touched on use only. */
struct pr_ring *pr_ring_create(size_t size, struct pr_error *err);
void pr_ring_destroy(struct pr_ring **ring);

/* Producer. reserve returns NULL when there is no room (count the drop); at most size/4 bytes. */
void *pr_ring_reserve(struct pr_ring *ring, size_t len);
/* len <= reserved; not yet visible */
void pr_ring_commit(struct pr_ring *ring, size_t len);
void pr_ring_publish(struct pr_ring *ring); /* makes all commits visible, wakes a waiter */

/* Consumer. next returns the following record, not yet released, or NULL when there is none. */
void *pr_ring_next(struct pr_ring *ring, size_t *len);
/*
 * Looks ahead: the first record that neither peek nor next has returned. next still returns it. NULL: none is known; what the
 * producer has published since is looked for only when next has returned all that was known.
 */
void *pr_ring_peek(struct pr_ring *ring);
void pr_ring_release(struct pr_ring *ring); /* gives back everything next has returned */
/* Frees only the records before rec (a pointer that next returned), for consumers that hold some. */
void pr_ring_release_before(struct pr_ring *ring, const void *rec);

/*
 * Consumer: to sleep on one or several rings, polls pr_ring_fd (readable when published) after pr_ring_arm
 * returned false (true: there are records already, do not sleep). pr_ring_next disarms, also when it returns
 * NULL, as emptying a shared descriptor for one ring may take another's wake with it: whoever has called it,
 * at whatever occasion (a timer's, too), arms all of its rings again before it sleeps, or sleeps over them.
 */
bool pr_ring_arm(struct pr_ring *ring);
int pr_ring_fd(const struct pr_ring *ring);
/*
 * For consumers that also look by themselves: wakes only for this many bytes (0, the
 * default: for any), because a wake-up costs as much as many records. Call before threads
 * start.
 */
void pr_ring_wake_above(struct pr_ring *ring, size_t bytes);
/* Let all rings of one consumer share an eventfd: call before threads start. */
void pr_ring_share_fd(struct pr_ring *ring, const struct pr_ring *with);

size_t pr_ring_size(const struct pr_ring *ring);
size_t pr_ring_used(const struct pr_ring *ring); /* bytes; any thread; approximate */
