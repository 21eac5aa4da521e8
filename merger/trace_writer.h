/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/output.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/source.h"

/*
 * A hash over all packets of a trace in their order, to compare two exports without having
 * both files. XXH3 (128 bits) over, for each packet: its time (64 bits, ns since 1970),
 * captured length, length, link type and 0 (32 bits each, all little-endian), and its
 * bytes. Names of links and sequence numbers are not included. The hash detects accidental
 * differences; it is no protection against forgery. This is version 1, written in files as
 * "xxh3-128/1:" and 32 hex digits.
 */
#define PRM_TRACE_HASH_TEXT 48
/* What the hash has of a packet before its bytes; the chain of a manifest (manifest.h) has the same. */
#define PRM_TRACE_HEAD 24
void prm_trace_head(const struct pr_packet *p, uint8_t head[PRM_TRACE_HEAD]);

struct prm_trace_hash *prm_trace_hash_create(struct pr_error *err);
void prm_trace_hash_destroy(struct prm_trace_hash **hash);
void prm_trace_hash_add(struct prm_trace_hash *hash, const struct pr_packet *p);
char *prm_trace_hash_text(const struct prm_trace_hash *hash, char out[PRM_TRACE_HASH_TEXT]);

/*
 * Writes an answer as a trace file: pcapng (ns), pcap (us) or pcap (ns). Own codec, without
 * libpcap. It never seeks, so it can write to a pipe. No allocation per packet.
 *
 * pcapng: one interface for each link name and link type. A link that has statistics but no
 * packet in the answer also gets one, if its link type occurs among the packets (libpcap
 * would refuse the file otherwise). Packets before 1970 go to an interface of their own,
 * with if_tsoffset, so that every time can be written. A speed is written if all epochs of
 * the link agree on it.
 *
 * pcap: one link type. Seconds have 32 bits (readers take them as signed or as unsigned):
 * times outside 1901..2106 are clamped and counted.
 */
enum prm_trace_format { PRM_TRACE_PCAPNG, PRM_TRACE_PCAP, PRM_TRACE_PCAP_NS };

/*
 * All interfaces get this snap length, or the largest of a captured link if that is larger:
 * libpcap refuses a file whose interfaces have different ones, and truncates packets to it.
 */
#define PRM_TRACE_SNAPLEN 262144

struct prm_trace_options {
	enum prm_trace_format format;
	const char *comment; /* comment of the section: the query; or NULL */
	const char *filter; /* as written; NULL or "": none */
};

/* out must outlive the writer. */
struct prm_trace_writer *prm_trace_create(struct prm_output *out,
	const struct prm_trace_options *options, struct pr_error *err);
void prm_trace_destroy(struct prm_trace_writer **w); /* does not finish the file */

/*
 * Call for the links known beforehand. They get their name, or "link N" if it is "". A
 * packet of another link gets an interface with a made-up name.
 */
int prm_trace_link(
	struct prm_trace_writer *w, const Packrack__LinkInfo *link, struct pr_error *err);
/*
 * Writes the file's header now, so that the reader of a pipe gets it before the first
 * packet; otherwise it is written with the first packet. It fixes the link type of a pcap
 * file.
 */
int prm_trace_begin(struct prm_trace_writer *w, struct pr_error *err);
int prm_trace_packet(
	struct prm_trace_writer *w, const struct pr_packet *p, struct pr_error *err);
/* After finish: begins another trace with the same links. */
void prm_trace_again(struct prm_trace_writer *w);
/*
 * Ends the trace, then writes all to the file. pcapng only: interface statistics (added up
 * if several ledgers have one link name, as those of several epochs) and comments (at most
 * 65,535 bytes each; the rest is cut).
 */
int prm_trace_finish(struct prm_trace_writer *w, Packrack__Ledger *const *ledgers,
	size_t ledger_count, const char *const *comments, size_t comment_count,
	struct pr_error *err);

/* The hash (prm_trace_hash) of the packets written so far. */
char *prm_trace_hash_of(const struct prm_trace_writer *w, char out[PRM_TRACE_HASH_TEXT]);
/* Number of times that were clamped. */
uint64_t prm_trace_clamped(const struct prm_trace_writer *w);
