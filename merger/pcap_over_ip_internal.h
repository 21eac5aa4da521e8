/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_PCAP_OVER_IP_INTERNAL_H
#define PRM_MERGER_PCAP_OVER_IP_INTERNAL_H

#include <event2/bufferevent.h>

#include "merger/pcap_over_ip.h"

/* pcap_over_ip.c has the ports, pcap_over_ip_reader.c those who read from them. */

struct pcap_reader;

struct prm_pcap_over_ip {
	struct prm_merger *merger;
	struct pcap_port *ports;
	struct pcap_reader *readers;
	struct prm_pcap_over_ip_figures figures;
};

/*
 * A reader at the other end of io, which is taken over in any case; link: "" all of them. -1:
 * it is refused, see err.
 */
int prm_pcap_reader_create(struct prm_pcap_over_ip *all, struct bufferevent *io,
	const char *link, struct pr_error *err);
/* Lets all go, with their last words as far as these go without waiting. */
void prm_pcap_readers_free(struct prm_pcap_over_ip *all);

#endif
