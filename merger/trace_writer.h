/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_TRACE_WRITER_H
#define PRM_MERGER_TRACE_WRITER_H

#include "merger/output.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/wire/source.h"

/*
 * One number for all packets of a trace in their order, so that two exports can be compared without
 * having both: XXH3 (128 bits) over, for each packet, its time (64 bits, ns since 1970), captured
 * length, length (32 bits each), link type (32 bits), 0 (32 bits), all little-endian, and its bytes.
 * Names of links and numbers of packets are not in it. It shows what differs by accident; it is no proof
 * against who forges one. This is version 1, and stands in files as "xxh3-128/1:" and 32 hex digits.
 */
#define PRM_TRACE_HASH_TEXT 48

struct prm_trace_hash;

struct prm_trace_hash *prm_trace_hash_create(struct pr_error *err);
void prm_trace_hash_destroy(struct prm_trace_hash **hash);
void prm_trace_hash_add(struct prm_trace_hash *hash, const struct pr_packet *p);
char *prm_trace_hash_text(const struct prm_trace_hash *hash, char out[PRM_TRACE_HASH_TEXT]);

/*
 * An answer as a trace file: pcapng (ns), pcap (us) or pcap (ns). Our own codec, no libpcap.
 * Streaming: nothing is sought back to, so a pipe does. No allocation per packet.
 *
 * pcapng: one interface per link name and link type, also for links of which statistics are given and
 * that have no packet in the answer (but of no other link type than those that have: libpcap would
 * refuse the file). Packets from before 1970 stand on an interface of their own, with if_tsoffset, so
 * every time that we have can be told. A speed is told where all epochs of the link agree on it.
 * pcap: one link type; seconds are 32 bits (readers take them as signed or as unsigned): times
 * outside 1901..2106 are clamped and counted.
 */
enum prm_trace_format { PRM_TRACE_PCAPNG, PRM_TRACE_PCAP, PRM_TRACE_PCAP_NS };

/*
 * libpcap takes no file whose interfaces differ in it, and cuts packets to it; so all carry this, or
 * the largest that a link was captured with if that is more.
 */
#define PRM_TRACE_SNAPLEN 262144

struct prm_trace_options {
	enum prm_trace_format format;
	const char *comment; /* of the section: what was asked; or NULL */
	const char *filter; /* as written; NULL or "": none */
};

struct prm_trace_writer;

/* out must outlive the writer. */
struct prm_trace_writer *prm_trace_create(struct prm_output *out,
	const struct prm_trace_options *options, struct pr_error *err);
void prm_trace_destroy(struct prm_trace_writer **w); /* does not finish the file */

/* Links known beforehand get their name, or "link N" for ""; those of packets that come unannounced are made up. */
int prm_trace_link(
	struct prm_trace_writer *w, const Packrack__LinkInfo *link, struct pr_error *err);
/*
 * The file's header, so that a reader at the other end of a pipe knows where it stands before there is
 * a packet; else it is written with the first. A pcap's link type is settled by it.
 */
int prm_trace_begin(struct prm_trace_writer *w, struct pr_error *err);
int prm_trace_packet(
	struct prm_trace_writer *w, const struct pr_packet *p, struct pr_error *err);
/*
 * Closes the trace: interface statistics (by link name; several of one, as of several epochs, add up) and comments (pcapng only; of at most
 * 65,535 bytes each, what is longer is cut), then all to the file.
 */
int prm_trace_finish(struct prm_trace_writer *w, Packrack__Ledger *const *ledgers,
	size_t ledger_count, const char *const *comments, size_t comment_count,
	struct pr_error *err);

/* Of the packets given so far, see trace_hash.h. */
char *prm_trace_hash_of(const struct prm_trace_writer *w, char out[PRM_TRACE_HASH_TEXT]);
uint64_t prm_trace_clamped(
	const struct prm_trace_writer *w); /* times that the format cannot hold */

#endif
