/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A datagram of sFlow version 5, for the test and for the fuzz corpus. */
static const uint8_t sflow[] = {0, 0, 0, 5, 0, 0, 0,
	2, /* version; the agent's address is of IPv6 */
	0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, /* 2001:db8::9 */
	0, 0, 0, 3, 0, 0, 0, 77, 0, 1, 0, 0, 0, 0, 0,
	4, /* sub-agent, number, uptime, samples */
	/* a flow sample: the bytes of a packet, and what the agent found */
	0, 0, 0, 1, 0, 0, 0, 148, 0, 0, 0, 9, 0, 0, 0,
	5, /* format, length; number, source */
	0, 0, 0, 100, 0, 0, 9, 0, 0, 0, 0, 2, /* rate, pool, drops */
	0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 2, /* interfaces, records */
	0, 0, 0, 3, 0, 0, 0, 32, 0, 0, 5, 0xdc, 0, 0, 0,
	17, /* IPv4: 1500 bytes of UDP, not so */
	9, 9, 9, 9, 8, 8, 8, 8, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, /* */
	0, 0, 0, 1, 0, 0, 0, 68, 0, 0, 0, 1, 0, 0, 0, 64, 0, 0, 0, 4, 0, 0, 0,
	50, /* of 64 bytes */
	2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, /* Ethernet */
	0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0,
	2, /* IPv4, 40 bytes, TCP */
	0xc0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0,
	0, /* SYN; 2 bytes to a word */
	/* another of that source, expanded: IPv6, as the agent found it; two were lost */
	0, 0, 0, 3, 0, 0, 0, 108, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 5, /* */
	0, 0, 0, 200, 0, 0, 9, 9, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
	6, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 56, 0, 0, 1, 0, 0, 0, 0, 6, /* 256 bytes, TCP */
	0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, /* */
	0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, /* */
	0, 0, 1, 0xbb, 0, 0, 0xc3, 0x50, 0, 0, 0, 0x12, 0, 0, 0,
	0, /* 443 to 50000, SYN+ACK */
	/* counters, and what nobody knows */
	0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, /* */
	0, 0, 0xff, 1, 0, 0, 0, 4, 1, 2, 3, 4};
