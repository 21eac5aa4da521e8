/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_PACKET_LINE_H
#define PR_CLI_PACKET_LINE_H

#include <stddef.h>

#include "proto/wire/source.h"

/*
 * One packet in one line, the essentials of `tcpdump -n`: time (UTC), what it is, from where to where,
 * lengths. Returns the length; buf of at least PACKET_LINE bytes. Ends in a newline.
 */
#define PACKET_LINE 400
size_t packet_line(const struct pr_packet *p, char *buf, size_t size);

#endif
