/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_RESTORE_H
#define PRL_LOGGER_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/source.h"
#include "proto/wire/tslog.h"

/*
 * Makes of a data frame and its entry the packet as it was captured: both MACs, an escaped Ethertype,
 * lengths, runts. Changes data in place; out->data points into data, or into e for a runt. len is the
 * length that the frame was sent with. Epoch, link and link type are the caller's to set.
 * false: the entry says what the frame cannot hold (more captured bytes than were sent).
 */
bool prl_restore(
	const struct pr_entry *e, uint8_t *data, uint32_t len, struct pr_packet *out);

#endif
