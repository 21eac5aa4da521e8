/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_SIZING_H
#define PR_CLI_SIZING_H

#include <stdint.h>

/*
 * How long a rack keeps what it records, and what that takes. A pure core. What StreamFS and the segments
 * add was measured, and a test holds a volume that was filled against it.
 */

/* A packet of n bytes takes so many in a segment: a head, and padding to 8. */
#define SIZING_PACKET_HEAD 24
#define SIZING_PACKET_PADDING 3.5
/*
 * Of a volume, so much is packets when it has been overwritten once: segments leave the ends of blocks
 * free, the frontier runs ahead, every 256th block is a map. Measured with packrack import: 1 GiB holds
 * 94.9 % at 450 bytes a packet and 94.1 % at 1514 bytes; 256 MiB holds 92.5 %. Larger ones hold more.
 */
#define SIZING_USABLE 0.94
/* The index of full packets, of the packets' bytes: the most that it is made to take; often 0.3 %. */
#define SIZING_INDEX_DEFAULT 0.5

struct sizing {
	double link_bytes; /* a second, of all links together, as on the wire without preambles */
	double packet_bytes, snaplen;
	double nodes, disks, disk_bytes; /* disks: of a node; each of so many bytes */
	double copies;
	double index_percent;
};

struct sizing_need {
	double packets_per_s; /* of all links */
	double stored_per_s; /* bytes, on all disks together */
	double node_per_s, disk_per_s; /* what one has to write */
};

void sizing_need(const struct sizing *s, struct sizing_need *out);
/* Seconds from the newest packet back to the oldest, when the disks are full. */
double sizing_kept(const struct sizing *s);
/* Disks in each node for so many seconds, a whole number; s->disks is not looked at. */
double sizing_disks(const struct sizing *s, double seconds);

#endif
