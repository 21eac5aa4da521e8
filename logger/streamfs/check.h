/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SFS_CHECK_H
#define SFS_CHECK_H

#include "logger/streamfs/internal.h"

/*
 * A check at work: check.c drives it and looks at roots and maps, check_block.c at blocks and their
 * records, check_chain.c at what is missing between them. A repair wants to know more than a caller.
 */
struct sfs_finding {
	struct sfs_fault fault;
	uint32_t stream;
	uint64_t generation; /* of the block; 0: not known */
	uint32_t to; /* the bytes [fault.offset, to) of the block */
	bool stale; /* a map: whole, but older than what it speaks of */
	struct sfs_map_entry kept; /* a header: what it said */
};
typedef void (*sfs_finding_call)(void *arg, const struct sfs_finding *finding);

struct sfs_check {
	struct sfs *sfs;
	sfs_finding_call call;
	void *arg;
	uint8_t *buf; /* of a block */
	struct sfs_stream_entry *streams; /* of the root that counts */
	uint64_t uuid_faults; /* root copies of another volume */
	int64_t faults;
	uint64_t records;
	unsigned searches; /* through all blocks for what is missing */
};
/* Reports, unless a repair has noted it. */
void sfs_check_found(struct sfs_check *c, struct sfs_finding *f);
/* Fills in the place; the block may be SFS_NO_BLOCK. */
struct sfs_finding sfs_check_at(struct sfs_check *c, enum sfs_fault_kind kind,
	uint64_t block, uint32_t offset, const char *why);
/* Does no block of the interval lie in the window that may have been written since the root? */
bool sfs_check_mapped(const struct sfs *sfs, uint64_t block);
/* Are [from, to), but no further than to the end of from's 512 bytes, zero? */
bool sfs_check_zero(const uint8_t *bytes, uint32_t from, uint32_t to);
/* Why a header does not decode. buf: at least a sector. */
const char *sfs_check_header_text(
	const struct sfs *sfs, const uint8_t *buf, uint64_t block, char *text, size_t size);

/* Is the block another one by now? A check beside no writer trusts its table. */
bool sfs_check_gone(struct sfs_check *c, uint32_t block, uint64_t generation);
/* Is the block's device there? */
bool sfs_check_there(struct sfs_check *c, uint64_t block);
void sfs_check_block(struct sfs_check *c, uint32_t block);
/*
 * Block e of the stream does not have the last records that it should: were they in one behind it
 * that is lost? Then reports that, uses c->buf, and returns true.
 */
bool sfs_check_tail(struct sfs_check *c, const struct sfs_stream *s,
	const struct sfs_entry *e, uint64_t first, uint64_t last);
void sfs_check_stream(struct sfs_check *c, const struct sfs_stream *s);
int64_t sfs_check_all(struct sfs *sfs, sfs_finding_call call, void *arg, uint64_t *records,
	uint64_t *uuid_faults, struct pr_error *err);

#endif
