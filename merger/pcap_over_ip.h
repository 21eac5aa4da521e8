/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_PCAP_OVER_IP_H
#define PRM_MERGER_PCAP_OVER_IP_H

#include <stdbool.h>

#include "merger/server.h"

/*
 * pcap-over-IP: whoever connects to a TCP port gets a live trace of all that is stored from then on,
 * as pcapng (`wireshark -k -i TCP@host:port`). The reader sends nothing and proves nothing: the port
 * itself is the permission.
 *
 * Each reader is a query of its own that follows. One that reads slowly is asked for no more than it
 * takes: about PRM_PCAP_OVER_IP_BUFFER bytes wait for it here, the rest stays on the nodes' disks until
 * it gets there or it is recycled (which the trace says at its end). One that takes nothing at all for
 * PRM_PCAP_OVER_IP_STUCK_NS is let go, as its place is wanted. From the loop's thread only.
 */
#define PRM_PCAP_OVER_IP_BUFFER ((size_t)1024 * 1024)
#define PRM_PCAP_OVER_IP_STUCK_NS INT64_C(120000000000)

struct prm_pcap_over_ip_figures {
	uint64_t readers; /* now */
	uint64_t accepted, refused; /* refused: no query was to be had for them */
	uint64_t packets, bytes; /* handed to readers */
	uint64_t stalls; /* times that a reader was slower than the rack */
	uint64_t dropped; /* readers that took nothing for too long */
};

/*
 * place: as in proto/base/tcp.h; /LINK behind it means one link only (its name or number). loopback: true if only
 * this machine can connect.
 */
int prm_pcap_over_ip_check(const char *place, bool *loopback, struct pr_error *err);

/* For the merger, which owns it. all NULL: no port was added. */
struct prm_pcap_over_ip;
int prm_pcap_over_ip_add(struct prm_pcap_over_ip **all, struct pr_loop *loop,
	struct prm_merger *merger, const struct prm_registry *registry, const char *place,
	struct pr_error *err);
void prm_pcap_over_ip_tick(struct prm_pcap_over_ip *all, int64_t mono);
struct prm_pcap_over_ip_figures prm_pcap_over_ip_figures(
	const struct prm_pcap_over_ip *all);
void prm_pcap_over_ip_free(struct prm_pcap_over_ip **all);

#endif
