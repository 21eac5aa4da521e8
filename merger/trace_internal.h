/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_TRACE_INTERNAL_H
#define PRM_MERGER_TRACE_INTERNAL_H

#include "merger/trace_hash.h"
#include "merger/trace_writer.h"

/* An interface of the file: a name and a link type; several epochs' links may share it. */
struct trace_interface {
	char *name;
	uint16_t linktype;
	uint64_t packets;
	int64_t first, last; /* times of its packets */
	uint32_t number; /* in the file; UINT32_MAX: not written yet */
	uint32_t ancient; /* the one for times before 1970 */
	uint64_t speed; /* 0 unknown */
	bool speeds_differ, told; /* told: the next three are known */
	uint64_t received, dropped_kernel, dropped_interface;
};

struct trace_link {
	uint64_t epoch;
	uint16_t link, linktype;
	size_t interface;
};

#define TRACE_CACHE 64

struct prm_trace_writer {
	struct prm_output *out;
	enum prm_trace_format format;
	char *comment, *filter;
	struct trace_interface *interfaces;
	size_t interface_count;
	struct trace_link *links;
	size_t link_count;
	size_t cache[TRACE_CACHE]; /* link index + 1, by a hash of (epoch, link) */
	uint32_t snaplen, written_interfaces;
	uint16_t linktype; /* pcap: the one of the file */
	bool begun; /* the file's header is written */
	uint64_t packets, clamped;
	struct prm_trace_hash *hash;
};

/* The interface of this name and link type, made if there is none; -1: no memory. */
int prm_trace_interface(struct prm_trace_writer *w, const char *name, uint16_t link,
	uint16_t linktype, size_t *out, struct pr_error *err);

int prm_pcap_begin(struct prm_trace_writer *w, struct pr_error *err);
int prm_pcap_packet(struct prm_trace_writer *w, const struct pr_packet *p,
	const struct trace_interface *interface, struct pr_error *err);

int prm_pcapng_begin(struct prm_trace_writer *w, struct pr_error *err);
int prm_pcapng_packet(struct prm_trace_writer *w, const struct pr_packet *p,
	struct trace_interface *interface, struct pr_error *err);
int prm_pcapng_finish(struct prm_trace_writer *w,
	const struct prm_trace_statistics *statistics, size_t statistic_count,
	const char *const *comments, size_t comment_count, struct pr_error *err);

#endif
