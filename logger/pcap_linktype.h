/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_PCAP_LINKTYPE_H
#define PRL_LOGGER_PCAP_LINKTYPE_H

#include <pcap/pcap.h>

/*
 * The number of a link type in trace files, LINKTYPE_, for libpcap's number of it, DLT_, which differs
 * from system to system. BSD's loopback begins with a number in the byte order of the machine that
 * captured, which a file's header tells: where that is big-endian it is 108 (OpenBSD's), which always
 * is, as filters could not tell any more later.
 */
int prl_linktype_of_pcap(pcap_t *pcap);

#endif
