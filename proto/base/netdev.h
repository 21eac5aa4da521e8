/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_NETDEV_H
#define PR_BASE_NETDEV_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * Network interfaces that packrack is given: looked at, made quiet, put back at exit. Frames for a
 * node carry its own MAC, so its kernel would take them for its own: everything is dropped at
 * clsact ingress, which lies behind the packet sockets.
 */
enum pr_netdev_want {
	PR_NETDEV_DROP_INGRESS = 1 << 0, /* the kernel's own stack gets nothing */
	PR_NETDEV_NO_IPV6 = 1 << 1, /* the kernel sends nothing by itself */
	PR_NETDEV_NO_MERGE =
		1 << 2, /* gro, lro, gso, tso off: frames stay as on the wire */
};
#define PR_NETDEV_OFFLOADS 4

struct pr_netdev {
	char name[IFNAMSIZ];
	unsigned index;
	uint8_t mac[6];
	uint32_t mtu;
	uint64_t speed; /* bits/s; 0 unknown */
	bool ethernet; /* false for loopback, ppp, tun ... */
	bool up;

	/* what prepare has changed, for restore */
	bool added_clsact, added_filter, changed_ipv6;
	bool changed_offload[PR_NETDEV_OFFLOADS];
};

/* Looks at the interface; -1: not there ("no such interface"). Changes nothing. */
int pr_netdev_open(struct pr_netdev *dev, const char *name, struct pr_error *err);

/* -1 unless it is an Ethernet interface that is up; the text says how to mend it. */
int pr_netdev_check(const struct pr_netdev *dev, struct pr_error *err);

/*
 * Does what is wanted (enum pr_netdev_want). Returns what could not be done, err saying it in one
 * line for the user; 0: all done. Runs tc(8), so call it before threads are started.
 */
unsigned pr_netdev_prepare(struct pr_netdev *dev, unsigned want, struct pr_error *err);

/* What prepare has done, for a log line: "the kernel's own receive off, IPv6 off, gro off". */
const char *pr_netdev_describe(const struct pr_netdev *dev, char *buf, size_t size);

/* Undoes it. An interface that has gone meanwhile is no error. */
void pr_netdev_restore(struct pr_netdev *dev);

/* An ioctl of an interface's name, and one of ethtool's commands (linux/ethtool.h). -1 and errno. */
int pr_netdev_ioctl(const char *name, unsigned long request, struct ifreq *ifr);
int pr_netdev_ethtool(const char *name, void *command);

/* Packets that the kernel dropped on receive before any socket saw them (backlog, card). */
uint64_t pr_netdev_receive_drops(const char *name);

#endif
