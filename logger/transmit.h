/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_TRANSMIT_H
#define PRL_LOGGER_TRANSMIT_H

#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/frame.h"

/* A node's control frames, built with libnet. The logger's only file that knows libnet.h. One thread. */
struct prl_transmit;

/* key is kept, not copied. */
struct prl_transmit *prl_transmit_open(const char *ifname, const uint8_t mac[PR_MAC_LEN],
	uint16_t ethertype, const struct pr_frame_key *key, struct pr_error *err);
void prl_transmit_close(struct prl_transmit **transmit);

/* f with dst, header and body set; src is filled in. -1: not sent. */
int prl_transmit_send(struct prl_transmit *t, struct pr_frame *f, struct pr_error *err);

#endif
