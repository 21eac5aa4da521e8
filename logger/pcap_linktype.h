/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_PCAP_LINKTYPE_H
#define PR_LOGGER_PCAP_LINKTYPE_H

/*
 * The number of a link type in trace files, LINKTYPE_, for libpcap's number of it, DLT_, which differs
 * from system to system. Thread-safe.
 */
int pr_linktype_of_dlt(int dlt);

#endif
