/* SPDX-License-Identifier: Apache-2.0 */
#include <pcap/pcap.h>

#include "merger/cli/late/late.h"

/*
 * libpcap brings nine others along, D-Bus and systemd among them. Only filters and trace files need it; a
 * query of volumes loads it in the thread that checks the filter, while it opens them.
 */
static struct late library = {
	.names = {"libpcap.so.0.8", "libpcap.so.1"}, /* Debian's, and the rest's */
	.lock = PTHREAD_MUTEX_INITIALIZER};

LATE(pcap_t *, pcap_fopen_offline, (FILE * f, char *why), (f, why))
LATE(pcap_t *, pcap_fopen_offline_with_tstamp_precision,
	(FILE * f, u_int precision, char *why), (f, precision, why))
LATE(pcap_t *, pcap_open_offline_with_tstamp_precision,
	(const char *path, u_int precision, char *why), (path, precision, why))
LATE(void, pcap_close, (pcap_t * p), (p))
LATE(char *, pcap_geterr, (pcap_t * p), (p))
LATE(int, pcap_next_ex, (pcap_t * p, struct pcap_pkthdr **header, const u_char **data),
	(p, header, data))
LATE(int, pcap_compile,
	(pcap_t * p, struct bpf_program *code, const char *text, int optimize,
		bpf_u_int32 netmask),
	(p, code, text, optimize, netmask))
LATE(void, pcap_freecode, (struct bpf_program * code), (code))
LATE(int, pcap_datalink, (pcap_t * p), (p))
LATE(const char *, pcap_datalink_val_to_name, (int linktype), (linktype))
LATE(int, pcap_snapshot, (pcap_t * p), (p))
LATE(int, pcap_is_swapped, (pcap_t * p), (p))
