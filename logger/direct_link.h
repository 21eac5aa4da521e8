/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/volume_writer.h"

/*
 * A link that the logger records by itself, a tap or a trace file: gives packets their seqs
 * and order times, and writes the ledger, as a dispatcher would. One thread.
 */
struct prl_direct_link {
	struct prl_volume_writer *append;
	/* last_seq and so on; the caller sets the drops. */
	struct pr_ledger_mark mark;
	uint64_t packets, refused;
	struct pr_observation observation, told; /* told: as the ledger has it */
	int64_t last_time, earliest; /* of the packets */
};

/* name: of the link, cut to PR_NAME_MAX bytes. linktype: as in pcap files. */
void prl_direct_link_begin(struct prl_direct_link *m, struct prl_volume_writer *append,
	uint64_t epoch, uint16_t link, const char *name, int linktype, uint32_t snaplen);
/* Gives the packet its seq and order time, and stores it. */
void prl_direct_link_packet(struct prl_direct_link *m, int64_t time, const uint8_t *data,
	uint32_t caplen, uint32_t len);
/*
 * Writes a MARK to the ledger: all packets captured before said_until are accounted for; and before it what is new in
 * the observation. ended: no more will come.
 */
void prl_direct_link_say(struct prl_direct_link *m, int64_t said_until, bool ended);

/* Passes on all entries of the volume's ledger that can be read, in order. -1: err. */
int prl_ledger_each(struct sfs *sfs,
	void (*take)(void *arg, const struct pr_ledger_entry *e), void *arg,
	struct pr_error *err);

/*
 * Number of the link of this name: as in the volume's ledger, else the next one, `from` at least, that
 * no link in the ledger and no stored packet has. -1: the ledger cannot be read, or all are taken.
 */
int prl_direct_link_link_number(
	struct sfs *sfs, const char *name, int from, struct pr_error *err);
