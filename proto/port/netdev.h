/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <net/if.h>

#include "proto/wire/frame.h"

/*
 * Network interfaces: reads their properties, prepares them for capture, restores them at
 * exit. Frames for a node carry its own MAC, so its kernel would accept them as its own:
 * everything is dropped at clsact ingress, which lies behind the packet sockets.
 */
#define PR_NETDEV_OFFLOADS 4
struct pr_netdev {
	char name[IFNAMSIZ];
	unsigned index;
	uint8_t mac[6];
	uint32_t mtu;
	uint64_t speed; /* bits/s; 0 unknown */
	bool ethernet; /* false for loopback, ppp, tun ... */
	bool up;

	/* what prepare has changed */
	bool added_clsact, added_filter, changed_ipv6;
	bool changed_offload[PR_NETDEV_OFFLOADS];
};

/*
 * Reads the properties of the interface; changes nothing. -1: there is no such interface.
 */
int pr_netdev_open(struct pr_netdev *dev, const char *name, struct pr_error *err);

bool pr_netdev_is_veth(const char *name);
/* True if the card takes VLAN tags off frames it receives, so that an XDP program cannot see them. */
bool pr_netdev_strips_tags(const char *name);

/* -1 unless it is an Ethernet interface that is up; the text says what to do. */
int pr_netdev_check(const struct pr_netdev *dev, struct pr_error *err);

/*
 * Prepares the interface: the kernel's own stack gets nothing, the kernel sends nothing by itself
 * (IPv6 off), and no offload merges frames. Logs what was changed, and what could not be. Runs
 * tc(8): call it before threads are started.
 */
void pr_netdev_prepare(struct pr_netdev *dev);

/* Undoes what prepare has changed. An interface that has gone meanwhile is no error. */
void pr_netdev_restore(struct pr_netdev *dev);

/*
 * Blinks the LED of the port for `seconds` (0: 10 s), from a thread of its own. -1: the
 * card has none, or it blinks already.
 */
int pr_netdev_blink(const char *name, uint32_t seconds, struct pr_error *err);

/*
 * Watches whether the interface observes its link: it is up and has a carrier. What a ledger confirms must not pass
 * `checked`: then it never has to be taken back.
 */
struct pr_carrier {
	int64_t checked; /* ns UTC of the last look */
	uint64_t changes; /* how often the carrier came or went, as the kernel counts */
	bool observing, begun; /* at the last look; ever */
};
/* The interface as it is: changes and observing. */
struct pr_carrier pr_carrier_read(const char *name);
/*
 * Takes what was read at time now; open: the capture is open. Notes in `o` that the observation begins, ends, or begins again; it
 * ends at the look before. Returns whether `o` has changed.
 */
bool pr_carrier_look(struct pr_carrier *w, struct pr_carrier is, bool open, int64_t now,
	struct pr_observation *o, const char *by);

/* Packets that the kernel dropped on receive before any socket saw them (backlog, card). */
uint64_t pr_netdev_receive_drops(const char *name);
