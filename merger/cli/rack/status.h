/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_RACK_STATUS_H
#define PR_CLI_RACK_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/rpc/packrack.pb-c.h"

/* The rack's status for people; either may be NULL. */
void status_text(
	FILE *to, const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* True for states in which a node stores nothing, except by the operator's command. */
bool status_takes_nothing(const char *state);

/* True if a node is unreachable or stores nothing, or a packet was lost anywhere. */
bool status_is_degraded(const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* Where packets went, over the whole rack; either may be NULL. */
struct status_sums {
	uint64_t captured, delivered, kernel, dispatcher, node, missing;
};
struct status_sums status_sum(
	const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* A value by name; 0 when there is none. */
uint64_t status_value(Packrack__Value *const *values, size_t count, const char *name);

#endif
