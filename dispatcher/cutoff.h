/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dispatcher/rules.h"
#include "proto/base/array.h"
#include "proto/base/error.h"
#include "proto/base/text.h"
#include "proto/port/shunt.h"
#include "proto/wire/beyond.h"
#include "proto/wire/frame.h"

/*
 * The cutoff of connections (Maier et al., "Enriching Network Security Analysis with Time Travel", SIGCOMM 2008, section
 * 4): the first bytes of each connection are kept, the rest is counted. A pure core: no I/O, time is an argument. Send thread only.
 *
 * A connection is both directions of a 5-tuple, of one link and VLAN (of a protocol without ports: of an address pair). It begins
 * with the first packet after it was idle for its time-out, or with a SYN after a FIN or RST. Later fragments belong to
 * the connection of their first one, ICMP errors to the one that they quote, if the table has it; else to their address pair. A
 * connection's class is that of its first packet: of the classes whose filter matches, the one of highest precedence
 * (of equal ones, the first); none: no cutoff.
 *
 * A packet is kept if the packets of the connection before it have fewer bytes (on the link, Ethernet header included) than the
 * class's cutoff. SYN, FIN and RST are always kept, and so is what is not IP. The table has a fixed size: when it is full,
 * the connection that was idle longest is forgotten, and begins anew with its next packet.
 */
#define PRD_CLASSES_MAX PR_CLASS_MAX
#define PRD_CUTOFF_NONE UINT64_MAX
#define PRD_CUTOFF_IDLE_TCP (60 * PR_NS_PER_S)
#define PRD_CUTOFF_IDLE (30 * PR_NS_PER_S)

struct prd_cutoff;

struct prd_cutoff_options {
	/*
	 * Each: the class's name, then lines (or parts that ';' ends) `key = value`: filter, precedence, cutoff (a size, or
	 * none), snaplen, and how nodes keep it: guarantee, memory (percent), keep (a duration). Connections without class are kept whole.
	 */
	const struct pr_string_list *classes;
	uint64_t memory; /* bytes of the table of connections, at least 1 MiB */
	unsigned links;
	/* or NULL: drops packets beyond cutoffs before they come here, and counts them. It is the caller's */
	struct pr_shunts *shunts;
};

struct prd_cutoff_figures {
	uint64_t connections; /* in the table */
	uint64_t connections_begun, connections_cut;
	uint64_t
		evicted; /* of the connections, forgotten before their time-out, as the table was full */
	uint64_t shunted; /* of the connections: the XDP program drops their packets */
	uint64_t suspended; /* packets beyond a cutoff that were kept by a rule */
	uint64_t fragments_unknown; /* later fragments whose first one was not seen */
	uint64_t
		uncounted; /* packets beyond a cutoff that were kept, as their sums could not be stored */
};

/* NULL: err names the class, the key, and what is wrong. Two classes of one name are an error. */
struct prd_cutoff *prd_cutoff_create(
	const struct prd_cutoff_options *options, struct pr_error *err);
void prd_cutoff_destroy(struct prd_cutoff **cutoff);

/*
 * True: the packet is kept. False: it is beyond its connection's cutoff, and counted. link: its index. The time of a link never steps
 * back: an earlier one counts as the latest.
 */
bool prd_cutoff_keeps(struct prd_cutoff *c, unsigned link, int64_t time,
	const uint8_t *data, uint32_t caplen, uint32_t len);

/*
 * Prepares the caches for a packet that comes later. Optional. At most PRD_CUTOFF_AHEAD packets of a link may be looked at ahead
 * (prd_cutoff_looks). Those that were looked at are then passed to prd_cutoff_keeps in the same order, with the same memory and
 * bytes, before any other packet of the link. With a million connections in an order by chance a packet takes 110 ns, without
 * this 460 (`make bench-cutoff`, million-kept); 6 packets ahead do as well as 24.
 */
#define PRD_CUTOFF_AHEAD 12
void prd_cutoff_look(
	struct prd_cutoff *c, unsigned link, const uint8_t *data, uint32_t caplen);
/* May another packet of the link be looked at? */
bool prd_cutoff_looks(const struct prd_cutoff *c, unsigned link);

/*
 * Of the packet that prd_cutoff_keeps kept last: how many bytes of it are kept, and the number of its class, if nodes keep that
 * in a way of its own; else 0.
 */
void prd_cutoff_kept(const struct prd_cutoff *c, uint32_t *caplen, uint8_t *class);
/* The class of this index that nodes keep in a way of its own; NULL: there are no more. */
const struct pr_class *prd_cutoff_class(const struct prd_cutoff *c, unsigned index);

/*
 * The classes at one time. A change makes a new set, in any thread, which then takes the place of the one that it was made from: then the
 * old one is freed. A connection keeps the class of its first packet, also when that is removed; what a class says may change.
 */
struct prd_classes;
const struct prd_classes *prd_cutoff_classes(const struct prd_cutoff *c);
/*
 * Without the class of this name (NULL: of none), and with that of the text (NULL: none), in the place of one of its name. NULL: err says
 * what is wrong.
 */
struct prd_classes *prd_classes_change(const struct prd_classes *classes,
	const char *removed, const char *text, struct pr_error *err);
/* -1: their guarantees are more together than a volume can give, and more than those of `before` (may be NULL). */
int prd_classes_check(const struct prd_classes *classes, const struct prd_classes *before,
	struct pr_error *err);
/* The name that a class's text begins with. -1: it is not one. */
int prd_class_name(const char *text, char name[PR_NAME_MAX + 1], struct pr_error *err);
bool prd_classes_have(const struct prd_classes *classes, const char *name);
/* Frees a set, but what `next` (may be NULL) has of it. */
void prd_classes_free(struct prd_classes *classes, const struct prd_classes *next);
void prd_cutoff_set_classes(struct prd_cutoff *c, struct prd_classes *classes);
/* A rule comes (in the place of an earlier one of the same connection or address), or goes. -1: there are too many, or no memory. */
int prd_cutoff_rule(struct prd_cutoff *c, const struct prd_rule *rule, bool comes,
	struct pr_error *err);

/*
 * The last ns of the oldest second of which a link has sums that were not taken, or, with shunts, may have; PR_TIME_MAX: there
 * are none.
 */
int64_t prd_cutoff_oldest(const struct prd_cutoff *c, unsigned link);
/*
 * Takes the next sum of a second that is over at `until` (or of the present one, when three quarters of the memory for sums are
 * in use): the frame, and its time, which is prd_cutoff_oldest. Returns the frame's length; 0: there is none.
 */
size_t prd_cutoff_take(struct prd_cutoff *c, unsigned link, int64_t until,
	uint8_t frame[PR_BEYOND_MAX], int64_t *time);
/* Packets and bytes of the link that were shunted, and came into sums since the last call. */
void prd_cutoff_shunted(
	struct prd_cutoff *c, unsigned link, uint64_t *packets, uint64_t *bytes);
const struct prd_cutoff_figures *prd_cutoff_figures(struct prd_cutoff *c);
