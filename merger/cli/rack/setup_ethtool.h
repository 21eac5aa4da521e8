/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_SETUP_ETHTOOL_H
#define PR_CLI_SETUP_ETHTOOL_H

#include <stdbool.h>
#include <stdint.h>

/* The few questions of ethtool(8) that `packrack setup` has, asked of the kernel itself. -1: errno. */

int setup_ethtool_get(const char *name, uint32_t command, uint32_t *out);
int setup_ethtool_set(const char *name, uint32_t command, uint32_t value);
int setup_ethtool_ring(const char *name, uint32_t *now, uint32_t *most);
int setup_ethtool_set_ring(const char *name, uint32_t rx);
/* A card has a place on a bus; a virtual interface has none. */
bool setup_ethtool_virtual(const char *name);

/* 0: there is no such interface. */
uint32_t setup_get_mtu(const char *name);
/* Is it set up, and has it a carrier? */
int setup_get_state(const char *name, bool *up, bool *running);
int setup_set_mtu(const char *name, uint32_t mtu);

#endif
