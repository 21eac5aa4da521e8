/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

/*
 * StreamFS: a store of streams in a file or block device, without a file system (Hyperion, section
 * 4). It knows bytes and times, never packets. One process writes a volume; any number read
 * it meanwhile. streamfs.3 has the promises, format.h what lies on the devices. Times are
 * ns since 1970 UTC, as the caller means them.
 * Fork before you open a volume for writing: a child inherits the writer's lock, so readers
 * would believe that the writer is alive until the child has ended. A struct sfs is used by
 * one thread at a time.
 */
struct sfs;
struct sfs_cursor;

#define SFS_BLOCK_DEFAULT (1024 * 1024)
#define SFS_BLOCK_MAX (16 * 1024 * 1024)
#define SFS_SHM_DEFAULT (32 * 1024 * 1024)
#ifndef SFS_STREAMS_MAX /* the fuzzed build has small volumes */
#define SFS_STREAMS_MAX 1024
#define SFS_BLOCK_MIN (64 * 1024)
#endif
#define SFS_NAME_MAX 47
#define SFS_HANDLE_BYTES 40

enum sfs_result {
	SFS_OK = 0,
	SFS_ERROR = -1, /* see err: I/O and the like */
	SFS_EXPIRED = -2, /* recycled since, or lost in a crash before it was durable */
	/* handle does not fit the record: stale, forged or of another volume */
	SFS_FORGED = -3,
	SFS_CORRUPT = -4, /* the device gives other bytes than were written */
	SFS_DENIED = -5, /* permission of the record */
	SFS_TOO_BIG = -6, /* longer than a block takes, or than the caller's buffer */
	SFS_FULL = -7, /* nothing may be recycled: all is guaranteed */
	SFS_DELETED = -8, /* deleted by sfs_delete */
};
const char *sfs_result_text(int result);

/* Location and length of a record, and part of its hash: readers find the record by it. */
struct sfs_handle {
	uint64_t generation; /* of the block: unique in the volume, rising */
	uint64_t block;
	uint32_t offset, length; /* within the block; body length */
	uint16_t stream;
	uint16_t header; /* bytes of the record's header, before its body */
	/* keyed hash of the other fields: a forged handle is refused at once */
	uint32_t check;
	uint64_t proof; /* part of the record's keyed hash */
};
/* Little-endian, SFS_HANDLE_BYTES; for storing handles in other records. */
void sfs_handle_encode(const struct sfs_handle *handle, uint8_t out[SFS_HANDLE_BYTES]);
void sfs_handle_decode(const uint8_t in[SFS_HANDLE_BYTES], struct sfs_handle *out);
/*
 * A handle as 80 hexadecimal digits, for people. sfs_handle_text returns out; sfs_handle_parse:
 * false for other text.
 */
#define SFS_HANDLE_TEXT (2 * SFS_HANDLE_BYTES + 1)
char *sfs_handle_text(const struct sfs_handle *handle, char out[SFS_HANDLE_TEXT]);
bool sfs_handle_parse(const char *text, struct sfs_handle *out);
/*
 * For lists of handles: writes what differs from the handle before it in the list (zeros before the
 * first), about 12 bytes where the two lie close. Returns the number of bytes. Unpacking needs the
 * volume of the handles; it reads at most size bytes and returns how many it read; 0: they are no
 * packed handle.
 */
#define SFS_HANDLE_PACKED_MAX 48
size_t sfs_handle_pack(const struct sfs_handle *handle, const struct sfs_handle *before,
	uint8_t out[SFS_HANDLE_PACKED_MAX]);
size_t sfs_handle_unpack(const struct sfs *sfs, const uint8_t *in, size_t size,
	const struct sfs_handle *before, struct sfs_handle *out);

struct sfs_record {
	struct sfs_handle handle;
	uint32_t stream, permission;
	int64_t min_time, max_time;
	uint64_t sequence; /* of the record in its stream, from 1, without gaps */
	size_t length;
	/* a checked copy of the reader's own; valid until the next call */
	const uint8_t *body;
};

/*
 * Creates a volume. size: of all paths together; 0: the whole device, or the file as it is.
 * A file's blocks are reserved (fallocate) where its file system can do that, else the file
 * is sparse. An existing volume is overwritten only with force, and never while it is being
 * written. More than there is room for is refused; what a failed call has made, it removes.
 * Several paths make one volume, striped by block; each opening names all of them, in any
 * order. If some are missing, the volume can be read without them. A path that is larger
 * than the others is used in full.
 */
enum sfs_zones {
	SFS_ZONES_AUTO, /* measured: on when a device's first and last GiB differ by more than 15 % */
	SFS_ZONES_ON,
	SFS_ZONES_OFF
};
struct sfs_create_options {
	uint64_t size;
	uint32_t block_size; /* 0: default; a power of two */
	uint32_t utilization; /* percent that may be guaranteed, 10 to 95; 0: 90 */
	bool force;
	enum sfs_zones zones; /* balance over the zones of spinning disks */
};
int sfs_create(const char *const *paths, size_t path_count,
	const struct sfs_create_options *options, struct pr_error *err);

/*
 * Growing, while nobody writes the volume. The volume takes new room of its devices (a block device
 * that has grown is noticed) and new devices, and stripes over them and the old ones. Its records
 * stay where they are.
 */
struct sfs_grow_options {
	uint64_t size; /* of all files together, as in sfs_create; 0: as they are */
	const char *const *add; /* files (made if need be) or block devices */
	size_t add_count;
	bool force; /* even if an added device holds a volume */
};
int sfs_grow(const char *const *paths, size_t count, const struct sfs_grow_options *options,
	uint64_t *new_blocks, struct pr_error *err);

struct sfs_open_options {
	bool writer; /* takes the volume's lock; recovers */
	size_t shm_bytes; /* writer: shared memory for blocks; 0: default */
	bool no_direct; /* do not try O_DIRECT and io_uring */
	/*
	 * writer: only the thread that opens the volume uses it. The end of a write then
	 * wakes no other thread.
	 */
	bool one_thread;
	/* a record is given only if all bits of its permission are here; 0: any */
	uint32_t permission_mask;
	/*
	 * writer: goes on without devices that are missing, and without one that fails a write, as
	 * long as one is left. Records on them are lost for good, even when they come back
	 * (sfs_losses).
	 */
	bool degraded;
	/*
	 * writer: overwrites nothing. When no block is free, appending gives SFS_FULL. Otherwise a
	 * writer makes room ahead: on a full volume, opening it alone overwrites the oldest blocks.
	 */
	bool keep;
	int64_t flush_interval; /* ns; 0: 200 ms. sfs_tick flushes what is older */
};
struct sfs *sfs_open(const char *const *paths, size_t path_count,
	const struct sfs_open_options *options, struct pr_error *err);
/* Writer: flushes first. */
void sfs_close(struct sfs **sfs);

/* ---- writing ---- */

/*
 * Finds or creates a stream. guarantee: bytes of the stream's newest whole blocks, rounded
 * up, that are never overwritten; 0: none. Such a stream's other blocks, too, are overwritten only after older
 * ones of streams without a guarantee, unless it takes too much. It replaces the guarantee of an existing stream
 * unless that was set by sfs_guarantee_set. The volume's utilization bounds the sum of all
 * guarantees. Returns the stream's id, or < 0.
 */
int sfs_stream_open(struct sfs *sfs, const char *name, uint64_t guarantee,
	uint32_t permission, struct pr_error *err);
/*
 * Sets the permission bits of the stream's next records for good: sfs_stream_open does not change
 * them any more. The volume must be open for writing. 0 or -1.
 */
int sfs_permission_set(
	struct sfs *sfs, const char *stream, uint32_t permission, struct pr_error *err);
/*
 * Changes an existing stream's guarantee for good. With a volume open for writing: at once. With
 * one open for reading: asks the writer through shared memory, who answers in its next sfs_tick.
 * The caller must then be allowed to write to the shared memory (the writer's user, or root).
 * 0; -1: no such stream, too much, no writer lives, or it does not answer within 10 s.
 */
int sfs_guarantee_set(
	struct sfs *sfs, const char *stream, uint64_t guarantee, struct pr_error *err);
/*
 * Bounds how far apart (ns) the times of records in one block may lie, from now on: a block ends before the record that
 * would pass the bound. As sfs_trim removes whole blocks, a record stays at most that much too long. 0, and after
 * opening: no bound, a block ends when it is full.
 */
int sfs_span_set(struct sfs *sfs, int stream, int64_t span, struct pr_error *err);
/*
 * Gives the stream this share (1/1000) of the shared memory, from now on: while its newest blocks take no more, others do not
 * take their place, as long as there is other place. 0, and after opening: none, the block goes that was used least recently.
 */
int sfs_memory_set(struct sfs *sfs, int stream, unsigned permille, struct pr_error *err);
/*
 * Appends one record; the body is copied. Visible to readers on return (from shared memory),
 * durable after a flush. handle may be NULL. Returns SFS_OK, SFS_TOO_BIG, SFS_FULL, SFS_ERROR.
 * Only copies and hashes while shared memory has a free slot; else waits until the oldest
 * write has ended.
 * A record lies in one block, whose header takes 192 bytes. Its own header takes 32 bytes;
 * or 64 for the first record in each sixteenth of a block, for reserved ones, and for those
 * with a permission or a time span over 2^32 ns. Header and body are rounded up to 8. The
 * longest body has block size - 256 bytes; bodies of (block size - 192) / n - 72 bytes fit
 * n to a block, padding at flushes aside.
 */
int sfs_append(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time,
	const void *body, size_t length, struct sfs_handle *handle, struct pr_error *err);
/*
 * Appends without a copy: reserve room for up to length bytes, fill it, commit the bytes used. A
 * stream has one reservation at a time; other streams may be appended to meanwhile. The record
 * starts at a multiple of 4096, so that records before it can be flushed while it is open. Use it
 * for large records.
 */
void *sfs_reserve(struct sfs *sfs, int stream, size_t length, struct pr_error *err);
int sfs_commit(struct sfs *sfs, int stream, int64_t min_time, int64_t max_time,
	size_t length, struct sfs_handle *handle, struct pr_error *err);
size_t sfs_record_max(const struct sfs *sfs); /* longest body */

/*
 * SFS_OK: all appended records are on the devices and synced (fdatasync); open reservations are
 * not. SFS_ERROR: a device failed and recording is suspended. Appended records stay in memory, and
 * are written when the device works again (sfs_tick tries ten times a second).
 */
int sfs_flush(struct sfs *sfs, struct pr_error *err);
/*
 * Call at least every half flush interval, from the writer's loop: starts and reaps I/O;
 * flushes old data.
 * Every half interval the full sectors of 4 KiB are written. A last sector that is not full
 * is padded and written when a whole interval is over. So a busy stream is not padded, and
 * a slow one is durable just as soon. If so much data comes that padding is less than a
 * hundredth of it, everything is written every three quarters of an interval instead.
 */
int sfs_tick(struct sfs *sfs, int64_t now_mono, struct pr_error *err);
/* Records appended to / known durable in a stream (sequence numbers). */
uint64_t sfs_appended(const struct sfs *sfs, int stream);
uint64_t sfs_durable(const struct sfs *sfs, int stream);
/* Forgets all data of the streams (RESET): blocks become free; handles expire. */
int sfs_reset(struct sfs *sfs, struct pr_error *err);
/*
 * Deletes the oldest blocks of a stream, guaranteed or not, while all records of a block
 * end by `until` (included). The first block with a later record stays whole, with its
 * earlier records. One call deletes at most `most` blocks (0: 64); more is set if the next
 * call can delete others. After SFS_OK the records are gone for good: handles to them have
 * expired, evicted_until has moved on, and the devices hold zeros in their place. Flushes
 * first, and waits for the devices.
 */
struct sfs_trimmed {
	uint64_t blocks; /* whose room is free now */
	uint64_t records, bytes;
	int64_t min_time, max_time; /* of the records; INT64_MAX, INT64_MIN: none */
	bool more;
};
#define SFS_TRIMMED_NONE                                                                   \
	{                                                                                  \
		.min_time = INT64_MAX, .max_time = INT64_MIN                               \
	}
int sfs_trim(struct sfs *sfs, int stream, int64_t until, uint32_t most,
	struct sfs_trimmed *out, struct pr_error *err);
/*
 * Deletes records from anywhere in a stream: those that lie in [since, until] (both
 * included) as a whole, with sequences up to `last`. A record that reaches beyond stays
 * whole.
 * Blocks at the stream's old end are deleted as by sfs_trim and are free at once. Other
 * blocks become free when the stream is overwritten up to them; until then they count for
 * its guarantee. One call handles at most `most` blocks (0: 64); more says that there is
 * more to do.
 * After SFS_OK the records are gone for good. Handles to them, and cursors that reach them,
 * give SFS_DELETED (at the old end SFS_EXPIRED); devices and shared memory hold zeros in
 * their place.
 * SFS_ERROR also when the root is full: it notes each deleted range until the range is
 * overwritten, some 900 of them (adjacent ranges count as one). Flushes first, and waits
 * for the devices.
 */
struct sfs_delete_range {
	int64_t since, until;
	uint64_t last; /* UINT64_MAX: any */
};
int sfs_delete(struct sfs *sfs, int stream, const struct sfs_delete_range *range,
	uint32_t most, struct sfs_trimmed *out, struct pr_error *err);
/*
 * A text of at most SFS_NOTE_BYTES, 0 included (packrack: its status as JSON), that the writer
 * publishes to readers in other processes through shared memory. Read under a sequence lock.
 */
#define SFS_NOTE_BYTES 4096
void sfs_note_set(struct sfs *sfs, const char *text);
/* false: no writer lives, or no text is set. */
bool sfs_note_get(struct sfs *sfs, char *buf, size_t size);

/* ---- reading (any process) ---- */

/* stream by name; -1 when there is none (yet: sfs_refresh looks again). */
int sfs_stream_find(struct sfs *sfs, const char *name);
int sfs_refresh(struct sfs *sfs,
	struct pr_error *err); /* reader: new streams, new blocks, writer come or gone */

/*
 * Reads one record into buf; *length is its length. From shared memory when it is still there, else
 * from the device: copied first, then generation and hash are checked on the copy. buf may be NULL:
 * out->body is then valid until the next sfs_read. length and out may be NULL.
 */
int sfs_read(struct sfs *sfs, const struct sfs_handle *handle, void *buf, size_t size,
	size_t *length, struct sfs_record *out, struct pr_error *err);

/*
 * sfs_read without the last copy: reads the record into room (aligned to 4096, at least
 * sfs_read_room bytes). out->body points to the body in room, aligned to 8.
 */
size_t sfs_read_room(const struct sfs_handle *handle);
int sfs_read_in(struct sfs *sfs, const struct sfs_handle *handle, void *room, size_t size,
	struct sfs_record *out, struct pr_error *err);

/* Reads a record's header only (out->body is NULL). The header is verified, the body is not. */
int sfs_read_header_of(struct sfs *sfs, const struct sfs_handle *handle,
	struct sfs_record *out, struct pr_error *err);

/*
 * Reads part of a record's body without verifying the record's hash, which covers the whole body:
 * the caller must verify the bytes. room: aligned to 4096; size at least length + 8192. *at: where
 * in room the bytes lie. Whole sectors are read. The body of a reserved record lies
 * SFS_RESERVED_HEADER bytes behind a sector's start.
 */
#define SFS_RESERVED_HEADER 64
int sfs_read_part(struct sfs *sfs, const struct sfs_handle *handle, size_t offset,
	size_t length, void *room, size_t size, const uint8_t **at, struct pr_error *err);

/*
 * Two-step form of sfs_read_in. The plan is made by the thread that uses sfs; the reading may be
 * done by any thread while sfs is open. sfs_read_plan: 1 a plan; 0 none (the record is in memory,
 * or gone): call sfs_read_in. out NULL: only asks: 1: reading the record takes a device. sfs_read_planned: SFS_OK; else call sfs_read_in, which says what is
 * wrong.
 */
struct sfs_plan {
	uint64_t room[72]; /* StreamFS's */
};
int sfs_read_plan(struct sfs *sfs, const struct sfs_handle *handle, struct sfs_plan *out);
int sfs_read_planned(
	const struct sfs_plan *plan, void *room, size_t size, struct sfs_record *out);

/*
 * Walks a stream from its oldest record (or after a handle) to the newest, following the
 * writer. After its first block the cursor reads up to 4 MiB ahead. While more than half of
 * the writer's shared memory waits to be written, other processes give way: each read from
 * a device waits for a quarter of a millisecond, and nothing is read ahead.
 */
struct sfs_cursor *sfs_cursor_open(
	struct sfs *sfs, int stream, const struct sfs_handle *after, struct pr_error *err);
/*
 * 1: a record; 0: no further record at present, call again later; < 0: enum sfs_result. The
 * cursor goes on after these. SFS_EXPIRED: the frontier overtook the cursor, which
 * continues at the oldest record. SFS_CORRUPT: a bad record was skipped, see err.
 * SFS_DELETED: a deleted range was skipped.
 */
int sfs_cursor_next(
	struct sfs_cursor *cursor, struct sfs_record *out, struct pr_error *err);
/*
 * Shows the record that sfs_cursor_next would give, without a copy. 1: out->body points
 * into the writer's shared memory. 0: the record does not lie there, or there is none. The
 * header is verified, the body is not, and the writer may overwrite it meanwhile: read each
 * byte once, expect any value, and discard all results unless sfs_cursor_confirm returns
 * true.
 */
int sfs_cursor_peek_shared(struct sfs_cursor *cursor, struct sfs_record *out);
/*
 * True: the record was unchanged until now; the cursor goes behind it. False: sfs_cursor_next says
 * what became of it.
 */
bool sfs_cursor_confirm(struct sfs_cursor *cursor, const struct sfs_record *there);
void sfs_cursor_close(struct sfs_cursor **cursor);

struct sfs_stream_info {
	char name[SFS_NAME_MAX + 1];
	uint32_t id, permission;
	uint64_t guarantee; /* bytes */
	uint64_t blocks, bytes; /* held */
	uint64_t first_sequence, last_sequence; /* records held; 0, 0 none */
	/* Deleted among these: their blocks are not overwritten yet. Not in `bytes`. */
	uint64_t deleted_records, deleted_bytes;
	uint64_t recycled_records; /* evicted so far: first_sequence - 1 */
	int64_t min_time, max_time;
	int64_t evicted_until; /* max_time of what was evicted; INT64_MIN none. The root keeps it */
};
struct sfs_volume_info {
	char uuid[40];
	uint32_t version, block_size;
	uint64_t blocks, blocks_used;
	uint64_t blocks_free; /* that can be written without overwriting anything */
	uint64_t bytes; /* of records held */
	uint32_t utilization; /* most that may be guaranteed, in 1/1000 */
	uint64_t guaranteed_blocks, guarantee_most; /* blocks: now, and at most */
	/* writers: followed by this reader, one after the other */
	uint64_t generation, writers;
	bool writer_alive;
	uint32_t devices, devices_missing, devices_lost;
	bool zones; /* balanced over a spinning disk's zones */
	size_t stream_count;
	uint64_t recovered_records, lost_tail_bytes; /* at the last opening by a writer */
	uint64_t repairs; /* entries in the root for what repairs have dropped */
	/* ranges deleted in the middle of streams, and not recycled yet */
	uint64_t deletions;
	/* Deleted blocks and ranges without zeros so far: the next opening writes them. */
	uint64_t wiping;
};
/* SFS_OK always: it tells what is known. */
int sfs_info(struct sfs *sfs, struct sfs_volume_info *out, struct pr_error *err);
/* A device of the volume, by its number from 0. */
enum sfs_device_state {
	SFS_DEVICE_IS_THERE,
	SFS_DEVICE_IS_MISSING, /* not named, or it cannot be read: what lies on it is out of reach */
	SFS_DEVICE_IS_LOST, /* the volume goes on without it, for good */
};
struct sfs_device_info {
	enum sfs_device_state state;
	uint64_t blocks; /* blocks of the volume that lie on it */
	uint64_t lost_records; /* lost with the device */
	char path[200]; /* empty: not named */
	char why[300]; /* why it is missing */
};
int sfs_device_info(
	struct sfs *sfs, size_t index, struct sfs_device_info *out, struct pr_error *err);
/* True if a device is missing. text gets one line: which device, why, and what follows. */
bool sfs_degraded(const struct sfs *sfs, char *text, size_t size);
/*
 * True if devices were given up for good. text gets one line: how many, why the last one,
 * and what was lost.
 */
bool sfs_losses(const struct sfs *sfs, char *text, size_t size);
int sfs_stream_info(
	struct sfs *sfs, size_t index, struct sfs_stream_info *out, struct pr_error *err);

/* A range of a stream that sfs_delete has taken from its middle. */
struct sfs_deleted {
	uint64_t first, last; /* sequences */
	uint64_t bytes;
	int64_t min_time, max_time;
};
/*
 * Finds the first deleted range that ends at or after the sequence and is not overwritten
 * yet. False: there is none.
 */
bool sfs_stream_deleted(
	struct sfs *sfs, int stream, uint64_t sequence, struct sfs_deleted *out);

/* Estimates how long the volume keeps new data, if it is written as until now. */
struct sfs_forecast {
	uint64_t capacity; /* bytes of all data blocks */
	/* bytes a second of all streams, over the times of the records held; 0: not known */
	uint64_t rate;
	/* of the last minute before now, while a writer lives; 0: none, or not known */
	uint64_t recent_rate;
	bool wrapped; /* something was recycled */
	/*
	 * ns, at the recent rate if there is one, else at the rate; INT64_MAX: not known.
	 * kept: age at which data without a guarantee is overwritten. until_full: time
	 * until data is overwritten for the first time; 0: wrapped.
	 */
	int64_t kept, until_full;
};
int sfs_forecast(
	struct sfs *sfs, int64_t now, struct sfs_forecast *out, struct pr_error *err);

/* ---- care ---- */

enum sfs_fault_kind {
	SFS_FAULT_ROOT, /* a copy of the root; the other still serves */
	SFS_FAULT_MAP, /* a block map; the block headers still serve */
	SFS_FAULT_HEADER, /* a block's header; its records can still be read */
	SFS_FAULT_RECORD, /* records that are damaged: they are lost */
	SFS_FAULT_PADDING, /* unused bytes that differ from what was written */
	SFS_FAULT_MISSING, /* records that are lost with their block */
	SFS_FAULT_DEVICE, /* a device is missing, and with it all that lies on it */
};
#define SFS_NO_BLOCK UINT64_MAX
struct sfs_fault {
	enum sfs_fault_kind kind;
	const char *device; /* its path; NULL: not known */
	uint64_t position; /* byte of the device */
	uint64_t block; /* SFS_NO_BLOCK: none, or not known */
	uint32_t offset; /* in the block */
	const char *stream; /* its name; NULL: none */
	uint64_t first, last; /* sequences of the records that are lost; 0, 0: none */
	const char *why;
};
const char *sfs_fault_text(enum sfs_fault_kind kind); /* one word */
/* The fault and what it points to are good until the call returns. */
typedef void (*sfs_fault_call)(void *arg, const struct sfs_fault *fault);
/*
 * Reads everything and reports each fault; returns their number, or -1 when the volume cannot be
 * read at all. *records (may be NULL): good records found. What a repair has dropped is not
 * a fault any more.
 * These bytes must be as they were written: roots, maps in use, headers of live blocks,
 * records, and the padding behind them in the same 512 bytes. Nothing else on the devices
 * is ever read as data. While a writer lives, roots and maps are not checked.
 */
int64_t sfs_check(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	struct pr_error *err);
/* From now on sfs_check calls this after each block; blocks: checked so far. */
void sfs_on_progress(
	struct sfs *sfs, void (*progress)(void *arg, uint64_t blocks), void *arg);

struct sfs_repair_result {
	uint64_t faults; /* found, and mended or dropped: each was reported */
	uint64_t dropped_records; /* of them: lost, from now on SFS_EXPIRED */
	uint64_t maps, roots; /* written anew: from the block headers, from the good copy */
	uint64_t records; /* good ones */
	uint64_t left; /* faults that are still there */
};
struct sfs_repair_options {
	/*
	 * Repairs also if the newest root is damaged on all devices. Blocks written since
	 * the root before it are then lost, with their records.
	 */
	bool force;
};
/*
 * Checks, and drops what is bad: no good record is touched, moved or written over. The roots note
 * what is gone, so that it is SFS_EXPIRED to readers and no fault any more. Takes the writer's
 * lock; fails when a program writes the volume. options may be NULL. 0, or -1.
 */
int sfs_repair(const char *const *paths, size_t path_count,
	const struct sfs_repair_options *options, sfs_fault_call call, void *arg,
	struct sfs_repair_result *out, struct pr_error *err);
