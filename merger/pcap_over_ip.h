/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_PCAP_OVER_IP_H
#define PR_MERGER_PCAP_OVER_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merger/server.h"
#include "proto/base/error.h"

/*
 * pcap-over-IP: whoever connects to a TCP port gets a live trace of all that is stored from then on,
 * as pcapng (`wireshark -k -i TCP@host:port`). The reader sends nothing and proves nothing: the port
 * itself is the permission.
 *
 * Each reader is a query of its own that follows. One that reads slowly is asked for no more than it
 * takes: about PR_PCAP_OVER_IP_BUFFER bytes wait for it here, the rest stays on the nodes' disks until
 * it gets there or it is recycled (which the trace says at its end). One that takes nothing at all for
 * PR_PCAP_OVER_IP_STUCK_NS is let go, as its place is wanted. From the loop's thread only.
 */
#define PR_PCAP_OVER_IP_BUFFER ((size_t)1024 * 1024)
#define PR_PCAP_OVER_IP_STUCK_NS INT64_C(120000000000)

struct pr_pcap_over_ip_figures {
	uint64_t readers; /* now */
	uint64_t accepted, refused; /* refused: no query was to be had for them */
	uint64_t packets, bytes; /* handed to readers */
	uint64_t stalls; /* times that a reader was slower than the rack */
	uint64_t dropped; /* readers that took nothing for too long */
};

/*
 * place: as in proto/base/tcp.h, with /LINK behind it for one link only (its name or number). Several
 * may be added.
 */
int pr_pcap_over_ip_check(const char *place, bool *loopback, struct pr_error *err);
int pr_pcap_over_ip_add(struct pr_merger *m, const char *place, struct pr_error *err);

/* For the merger, whose part it is; NULL: no port was added. */
struct pr_pcap_over_ip;
void pr_pcap_over_ip_tick(struct pr_pcap_over_ip *all, int64_t mono);
struct pr_pcap_over_ip_figures pr_pcap_over_ip_figures(const struct pr_pcap_over_ip *all);
void pr_pcap_over_ip_free(struct pr_pcap_over_ip **all);

#endif
