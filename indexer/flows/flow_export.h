/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/*
 * Flow records that others export: NetFlow version 5, version 9 (RFC 3954) and IPFIX (RFC 7011, with both directions
 * of RFC 5103); and packets that others sampled (sFlow version 5). Templates, sampling and sequence numbers are each
 * exporter's own; an exporter is an address and the observation domain (source id) that it names, of sFlow the agent, its
 * sub-agent and the data source (a port of a switch). No I/O, one thread. Any bytes may come; what is kept of them is
 * bounded:
 */
#define PRI_EXPORTERS_MAX 1024
#define PRI_EXPORT_TEMPLATES_MAX 65536 /* of all exporters */
#define PRI_EXPORT_OWN_TEMPLATES_MAX 256 /* of one */
#define PRI_EXPORT_SAMPLERS_MAX 16 /* of one */
#define PRI_EXPORT_GAPS_MAX 16 /* in its numbers: what is late is looked for in these */
#define PRI_EXPORT_FIELDS_MAX 128 /* of a template */
#define PRI_EXPORT_SAMPLES_MAX 256 /* of a datagram of sFlow */
#define PRI_EXPORT_STREAMS_MAX 8 /* connections of one at once */

#define PRI_EXPORT_SFLOW (128 + 5)

struct pri_exporter_id {
	uint8_t address[16], address_len; /* 4 or 16 */
	uint8_t version; /* 5, 9, 10, PRI_EXPORT_SFLOW */
	uint8_t source_class;
	uint8_t stream; /* 0: of datagrams; connections at once: 1, 2, ... */
	uint32_t domain, source; /* source, and its class: of sFlow */
};
_Static_assert(sizeof(struct pri_exporter_id) == 28, "no padding: it is hashed as bytes");

struct pri_exporter {
	struct pri_exporter_id id;
	/* of its flows: 0, 1, ... in the order in which exporters were heard */
	uint16_t link;
	uint16_t port; /* that it sends from; another one has numbers of its own */
	bool sequence_known, behind_known;
	uint32_t next_sequence;
	/* the number that follows a message that was neither next nor late */
	uint32_t behind;
	struct {
		uint32_t from, to;
	} gaps[PRI_EXPORT_GAPS_MAX]; /* from == to: none */
	uint32_t sampling; /* one packet of so many was looked at; 0: it did not say */
	struct {
		uint32_t id, rate;
	} samplers[PRI_EXPORT_SAMPLERS_MAX]; /* rate 0: none */
	int64_t heard; /* ns since 1970 */
	int64_t init; /* at which its uptime was 0, as options said; 0: they did not */
	/* of sFlow: samples, and those whose packet is of a flow */
	uint64_t messages, flows;
	/* By its sequence numbers: messages of version 9, records or samples of the others. late: came after others, or twice. */
	uint64_t lost, late, restarts;
	uint64_t no_template; /* sets */
	uint64_t bad; /* messages that break their format, and records without addresses */
	/* of sFlow: samples of counters, and of packets that are not IP */
	uint64_t skipped;
	uint64_t dropped; /* of sFlow: samples that it had no time for, as it says */
	uint32_t drops; /* its own count of them */
	bool drops_known;
};

/* The length of the message of IPFIX that begins with these 4 bytes; 0: none does. */
#define PRI_IPFIX_HEADER 16
size_t pri_ipfix_length(const uint8_t *head);

struct pri_exporters;
/* samples: takes parts of flows, one of each sampled packet, at the time at which it came (pri_flow_table_part). */
struct pri_exporters *pri_exporters_create(
	pri_flow_sink sink, pri_flow_sink samples, void *arg, struct pr_error *err);
void pri_exporters_destroy(struct pri_exporters **exporters);
/* Where a message comes from. */
struct pri_export_from {
	uint8_t address[16], address_len;
	uint16_t port;
	uint64_t connection; /* its number, never used twice; 0: a datagram */
};
/*
 * A message that came at `now` (ns since 1970). Counts of sampled packets are multiplied, and the flow says so
 * (pri_flow.sampling). 0: also if it was bad, which is counted; -1: as the sink, or no memory.
 */
int pri_exporters_take(struct pri_exporters *e, const struct pri_export_from *from,
	const uint8_t *data, size_t len, int64_t now, struct pr_error *err);
/* Its templates and numbers end with a connection (RFC 7011, 10.4.2.2). */
void pri_exporters_end(struct pri_exporters *e, uint64_t connection);
/* i: 0, 1, ...; NULL: no more. Valid until the next call that takes. */
const struct pri_exporter *pri_exporters_get(const struct pri_exporters *e, size_t i);
/* One that was known before: goes on with its numbers. -1: err */
int pri_exporters_restore(
	struct pri_exporters *e, const struct pri_exporter *exporter, struct pr_error *err);
/*
 * Messages of no version that is known, or of more exporters than there is room for. Those that have sent no flow, or
 * nothing for an hour, make room for others.
 */
uint64_t pri_exporters_refused(const struct pri_exporters *e);
