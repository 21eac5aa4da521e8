/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_PACKET_RING_H
#define PRL_LOGGER_PACKET_RING_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/wire/source.h"

/*
 * A packet socket on an Ethernet device whose frames are read where the kernel puts them (TPACKET_V3), block by
 * block. It gives what libpcap would: VLAN tags are put back, frames are cut to the snap length, and a device
 * that is down is waited for. One thread.
 */
struct prl_packet_ring;

struct prl_packet_ring_options {
	const char *ifname;
	uint64_t size; /* bytes; less where the kernel has not so much */
	uint32_t snaplen;
	unsigned block_ms; /* so long the kernel may keep a block that is not full */
	bool promiscuous;
	bool both; /* what the machine sends as well */
	const struct sock_filter
		*filter; /* what it accepts is cut to what it returns; NULL: all is taken */
	uint16_t filter_len;
};

/* NULL: there is no such socket to be had here, err says why. */
struct prl_packet_ring *prl_packet_ring_open(
	const struct prl_packet_ring_options *options, struct pr_error *err);
void prl_packet_ring_close(struct prl_packet_ring **ring);

/* Time, data and lengths are set, nothing else. data, and what it points to, may be changed during the call. */
typedef void (*prl_packet_ring_call)(void *arg, struct pr_packet *packets, size_t count);
/*
 * Gives what is there, up to so many frames, some at a time, without waiting. Returns of how many it has let go,
 * with those that are not wanted; -1: the device is no more.
 */
int prl_packet_ring_take(struct prl_packet_ring *ring, int most, prl_packet_ring_call call,
	void *arg, struct pr_error *err);

/* Since it was opened: for want of room in the ring, and those that the device itself had none for. */
void prl_packet_ring_drops(
	struct prl_packet_ring *ring, uint64_t *kernel, uint64_t *interface);

#endif
