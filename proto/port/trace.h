/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/source.h"

/*
 * A trace file, pcap or pcapng, also compressed by gzip or zstd, read with libpcap: its packets one by one,
 * times in ns since 1970 UTC. A pipe is read as it fills. One thread.
 */

struct pr_trace_info {
	int linktype; /* LINKTYPE_, of all its packets */
	uint32_t snaplen; /* 0: the file names none */
	uint64_t size; /* bytes; 0: not a regular file */
	/* so far */
	uint64_t bytes; /* read from the file, before they are decompressed */
	uint64_t packets; /* read, whether the filter accepted them or not */
	uint64_t secrets; /* pcapng blocks with decryption secrets, which libpcap skips */
};

/* path "-": standard input. path is kept, not copied. */
struct pr_trace *pr_trace_open(const char *path, struct pr_error *err);
void pr_trace_close(struct pr_trace **trace);
const struct pr_trace_info *pr_trace_info(const struct pr_trace *t);

/* Packets that filter (pcap-filter(7)) does not accept are left out. -1: it does not compile. */
int pr_trace_filter(struct pr_trace *t, const char *filter, struct pr_error *err);
/* idle is called every 10 ms while a pipe gives nothing. It returns false to read no further. */
void pr_trace_on_idle(struct pr_trace *t, bool (*idle)(void *arg), void *arg);

/*
 * PR_SOURCE_PACKET: out has time, lengths, link type and data, which is valid until the next call; its
 * other fields are 0. PR_SOURCE_END. PR_SOURCE_ERROR: err names the packet that cannot be read.
 */
int pr_trace_next(struct pr_trace *t, struct pr_packet *out, struct pr_error *err);

/*
 * The LINKTYPE_ number of trace files for libpcap's DLT_ number, which differs from system to system.
 * BSD's loopback header begins with a number in the byte order of the capturing machine. If that is
 * big-endian, the link type is 108 (OpenBSD's), which always is: no filter could tell later.
 */
struct pcap;
int pr_linktype_of_pcap(struct pcap *pcap);

/* ---- filters (pcap-filter(7)) ---- */

struct bpf_program;
int pr_filter_of_pcap(struct pcap *pcap, const char *filter, struct bpf_program *out,
	struct pr_error *err);

/* A filter for single Ethernet frames in memory. Matching: any thread. "": every packet matches. NULL: it does not compile. */
struct pr_packet_filter *pr_packet_filter_create(const char *filter, struct pr_error *err);
void pr_packet_filter_destroy(struct pr_packet_filter **filter);
bool pr_packet_filter_match(const struct pr_packet_filter *f, const uint8_t *data,
	uint32_t caplen, uint32_t len);

/* As libpcap has it: "EN10MB"; "147" where it has none. Returns text. */
#define PR_LINKTYPE_TEXT 64
char *pr_linktype_name(int linktype, char text[PR_LINKTYPE_TEXT]);
