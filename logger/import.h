/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <inttypes.h>

#include "logger/streamfs/streamfs.h"
#include "proto/wire/ledger.h"

/*
 * A trace file (pcap, pcapng: whatever libpcap reads; any link type; "-": standard input) into a volume,
 * with an epoch of its own. Used by packrack-logger --read and packrack import. One thread.
 */
struct prl_volume_writer;
struct prl_import_options {
	const char *name; /* of the link; NULL: the file's base name */
	int link; /* its number, or PRL_LINK_BY_NAME */
	int link_from; /* a new number is this one or a higher one */
	bool keep; /* stop before the volume is full; sfs must be a writer that keeps */
	/*
	 * Writes other data (the index) during the import. Called about every 10 ms, and
	 * with `end` when all is read and durable. NULL: none. -1 ends the import.
	 */
	int (*beside)(void *arg, struct prl_volume_writer *append, bool end,
		struct pr_error *err);
	void *beside_arg;
};

/* Message for a file with decryption secrets: file name, number of blocks. */
#define PRL_SECRETS_LEFT_OUT                                                               \
	"%s: decryption secrets (%" PRIu64                                                 \
	" blocks) are left out: a volume holds packets "                                   \
	"only, so keep the file for them"

struct prl_import_stats {
	uint64_t epoch;
	uint16_t link;
	int linktype;
	uint32_t snaplen;
	uint64_t packets, bytes; /* read: captured bytes */
	uint64_t stored;
	uint64_t secrets; /* blocks of decryption secrets (pcapng), which are not stored */
	uint64_t offset, size; /* in the file, for progress; size 0: not known (a pipe) */
	int64_t first_time, last_time;
	/*
	 * An earlier import of the same packets, or of the first of them; packets 0: none is known. Set
	 * before the first packet is stored, for a pipe at its end.
	 */
	struct pr_ledger_import earlier;
};

/* Called about every 10 ms. false: stop here; what was read is stored. */
typedef bool (*prl_import_progress)(void *arg, const struct prl_import_stats *stats);

/*
 * 0: all read and durable. -1: err has the reason and the packet; packets read before are
 * stored and durable anyway, and counted in stats. sfs: a writer's. progress may be NULL.
 */
int prl_import_file(struct sfs *sfs, const char *path,
	const struct prl_import_options *options, prl_import_progress progress, void *arg,
	struct prl_import_stats *stats, struct pr_error *err);
