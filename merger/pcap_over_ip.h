/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/server.h"

/*
 * pcap-over-IP: a client that connects to a TCP port gets a live trace of all packets
 * stored from then on, as pcapng (`wireshark -k -i TCP@host:port`). The client sends
 * nothing and is not authenticated: access to the port is the permission.
 *
 * Each reader has a query of its own with Query.follow. Flow control: about
 * PRM_PCAP_OVER_IP_BUFFER bytes wait here for a slow reader. The rest stays on the nodes'
 * disks until it is sent or overwritten (the trace reports this at its end). A reader that
 * takes nothing for PRM_PCAP_OVER_IP_STUCK_NS is disconnected, to free its place. Call from
 * the loop's thread only.
 */
#define PRM_PCAP_OVER_IP_BUFFER ((size_t)1024 * 1024)
#define PRM_PCAP_OVER_IP_STUCK_NS INT64_C(120000000000)
#define PRM_PCAP_OVER_IP_READERS_MAX 16 /* beside --max-queries */

struct prm_pcap_over_ip_figures {
	uint64_t readers; /* now */
	uint64_t accepted, refused; /* refused: no query could be started */
	uint64_t packets, bytes; /* handed to readers */
	uint64_t stalls; /* times that a reader was slower than the rack */
	uint64_t dropped; /* readers that took nothing for too long */
};

/*
 * place: as in proto/base/tcp.h; with /LINK after it, only the link of this name or number.
 * *loopback: true if only this machine can connect.
 */
int prm_pcap_over_ip_check(const char *place, bool *loopback, struct pr_error *err);

/* All ports of a merger, which owns them. *all NULL: none was added. */
struct prm_pcap_over_ip;
int prm_pcap_over_ip_add(struct prm_pcap_over_ip **all, struct pr_loop *loop,
	struct prm_merger *merger, const struct prm_registry *registry, const char *place,
	struct pr_error *err);
void prm_pcap_over_ip_tick(struct prm_pcap_over_ip *all, int64_t mono);
struct prm_pcap_over_ip_figures prm_pcap_over_ip_figures(
	const struct prm_pcap_over_ip *all);
void prm_pcap_over_ip_free(struct prm_pcap_over_ip **all);
