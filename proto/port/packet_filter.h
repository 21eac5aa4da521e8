/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/* A filter (pcap-filter(7)) for single Ethernet frames in memory. Matching: any thread. */
struct pr_packet_filter;

/* "": every packet matches. NULL: it does not compile. */
struct pr_packet_filter *pr_packet_filter_create(const char *filter, struct pr_error *err);
void pr_packet_filter_destroy(struct pr_packet_filter **filter);
bool pr_packet_filter_match(const struct pr_packet_filter *f, const uint8_t *data,
	uint32_t caplen, uint32_t len);
