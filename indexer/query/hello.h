/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/query/volume.h"
#include "proto/rpc/packrack.pb-c.h"

/*
 * The Hello of an indexer: what it reports of itself and its volume. It contains the node's
 * status with its streams, and what users have deleted from them. As of the volume's last
 * refresh.
 */
struct pri_hello {
	Packrack__Hello message;
	Packrack__NodeStatus status; /* message.status points here */
	/* what both borrow */
	struct sfs_volume_info info;
	char note[SFS_NOTE_BYTES];
	struct sfs_stream_info *stream_infos;
	Packrack__LinkInfo *links;
	Packrack__StreamHeld *streams;
	Packrack__Deleted *deleted, **deleted_pointers;
	size_t deleted_count; /* used, over all streams */
};

/*
 * Limits, so that a merger can take the message: the newest links, and the first streams.
 */
enum { PRI_HELLO_LINKS_MAX = 1024, PRI_HELLO_STREAMS_MAX = 320 };

/*
 * volume NULL: there is none yet. Texts are borrowed from name and volume. behind: segments that are
 * stored and have no index yet. NULL: no memory.
 */
struct pri_hello *pri_hello_create(struct pri_volume *volume, const char *name,
	uint64_t boot, uint64_t behind, struct pr_error *err);
void pri_hello_destroy(struct pri_hello **hello);

/* What is known of a link, and of its ledger (there must be a mark); borrow their texts. */
void pri_hello_link(Packrack__LinkInfo *out, const struct pri_series_ledger *series);
void pri_hello_ledger(Packrack__Ledger *out, const struct pri_series_ledger *series);
void pri_hello_deleted(Packrack__Deleted *out, const struct pr_ledger_deleted *deleted);

/* The list of pointers that protobuf-c wants for `count` messages of `size` bytes each; NULL: no memory, or items is NULL. */
void *pri_message_pointers(void *items, size_t count, size_t size);
