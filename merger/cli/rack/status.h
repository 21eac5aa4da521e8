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

/* A node's state by the dispatcher: does it store nothing, other than by the operator's wish? */
bool status_takes_nothing(const char *state);

/* Is a node silent, or does one store nothing; was a packet lost anywhere? */
bool status_is_degraded(const Packrack__Status *merger, const Packrack__Status *dispatcher);

/* A value by name; 0 when there is none. */
uint64_t status_value(Packrack__Value *const *values, size_t count, const char *name);

#endif
