/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_DEVICE_H
#define PRL_LOGGER_DEVICE_H

#include <stdint.h>

#include "proto/base/error.h"

/*
 * Blinks the LED of an interface's port for so many seconds (0: 10), from a thread of its own. -1: the
 * card cannot, or it blinks already.
 */
int prl_device_identify(const char *ifname, uint32_t seconds, struct pr_error *err);

#endif
