/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* what most files here use */
#include <errno.h>
#include <inttypes.h>

#include "logger/streamfs/disk.h"
#include "logger/streamfs/shm.h"
#include "proto/base/array.h"

/* One block being filled, per stream. */
struct sfs_tail {
	uint32_t block, slot; /* SFS_NONE */
	uint32_t fill, submitted; /* bytes used; bytes given to the device, whole sectors */
	uint32_t waiting; /* records not yet submitted to their end */
	uint32_t partial; /* of these: they end in a sector that is not full yet */
	/* Sixteenth of the block in which the last record begins; SFS_NONE: none. */
	uint32_t part;
	bool reserved; /* a reservation or an append uses it: do not move it */
	uint32_t header; /* bytes of the header of the record being made */
	size_t reserve_room;
	uint64_t aged; /* sequence of the last record at the last timed flush */
	uint64_t target; /* sequence that is durable when the present flush ends */
	uint64_t lost_until; /* sequence of the last record lost with a device */
	int64_t span; /* ns, of the times in a block; 0: any */
	uint32_t memory; /* slots that no other stream may take */
	uint32_t slots; /* slots with blocks of the stream, as counted last */
};

struct sfs_slot {
	uint32_t block, stream;
	bool open; /* of the stream's open block */
	uint32_t in_flight; /* writes under way */
	uint64_t used; /* clock of last use; 0: it is free */
};

enum sfs_flush_state {
	SFS_IDLE,
	SFS_WRITING,
	SFS_SYNCING,
	SFS_ROOT_WRITING,
	SFS_ROOT_SYNCING
};

struct sfs_writer {
	struct sfs_frontier frontier;
	struct sfs_queue queue;
	struct sfs_tail tail[SFS_STREAMS_MAX];
	struct sfs_slot *slot;
	uint64_t clock;
	struct sfs_request *pool, *idle; /* all requests; list of those not under way */
	uint32_t idle_count;
	struct sfs_request *failed; /* to be tried again */
	uint8_t *map_buf;
	bool map_in_flight;
	/* blocks sealed after their interval's map was written */
	uint32_t *sealed_after_map;
	uint32_t sealed_after_map_count, sealed_after_map_room;

	enum sfs_flush_state state;
	bool checkpoint_wanted, checkpoint; /* asked for; part of the present flush */
	bool dirty;
	bool put_off; /* a due flush was put off; it will be SFS_FLUSH_ALL */
	uint64_t since_flush; /* bytes given to the devices since the last timed flush */
	/* writes by parity of the flush; syncs and roots under way */
	uint32_t flush_parity, in_flight[2], control;
	bool control_failed;
	uint64_t flush_position; /* of the frontier when the flush began */
	uint32_t root_pending;
	/*
	 * The next root_full roots are written over their whole copy, not only to the end
	 * of their content: an older root there, or its redo sectors, may contain what is
	 * deleted by now.
	 */
	uint32_t root_full;
	uint8_t *root_buf;
	struct sfs_stream root_streams[SFS_STREAMS_MAX];
	struct sfs_map_entry root_notes[SFS_REPAIRS_MAX]; /* repairs and holes */
	int64_t flush_interval, last_tick, last_flush, last_retry;
	struct pr_error error; /* of the last failed write */
	bool suspended;
	bool drop_pending; /* blocks of lost disks are still in the table */
	bool loss_unsaved; /* no root has the last loss yet: nothing new is durable */
	bool root_has_loss; /* the root that is being written has it */
	uint64_t bytes_in_flight; /* bytes of writes; readers see it as the backlog */
};

struct sfs {
	bool writer, live; /* live: reader that follows a writer's shared memory */
	uint64_t writers; /* that it has followed */
	struct sfs_disk *disk;
	uint16_t disks;
	uint16_t missing, lost; /* of these: not there now; given up for good */
	bool degraded; /* writer: goes on without devices that are missing or fail */
	void (*progress)(void *arg, uint64_t blocks); /* or NULL */
	void *progress_arg;
	struct sfs_root root;
	/* Which of each disk's two copies is newer. */
	uint8_t root_copy[SFS_DEVICES_MAX];
	struct sfs_layout layout; /* of the root */
	struct sfs_key key;
	struct sfs_table table; /* of the writer, or of a reader without a writer */
	bool table_valid;
	struct sfs_shm shm;
	struct sfs_writer *w;
	struct sfs_queue reads; /* for read-ahead; no ops: not opened yet */
	uint32_t permission_mask;
	uint8_t *scratch; /* block_size, aligned */
	int64_t last_probe;
	/*
	 * Tables of the root: notes of repairs, holes (holes.c), list of a clean close,
	 * redo sectors.
	 */
	struct sfs_map_entry repair[SFS_REPAIRS_MAX], hole[SFS_REPAIRS_MAX];
	struct sfs_map_entry listed[SFS_LISTED_MAX];
	struct sfs_redo redo[SFS_REDO_MAX];
	uint32_t repairs, wipes; /* wipes: of the entries, SFS_REPAIR_WIPE */
	uint32_t holes, erasing; /* erasing: of the holes, SFS_REPAIR_WIPE */
	uint64_t holes_seen; /* reader: their count in shared memory */
	uint32_t redos, listed_count;
	uint64_t recovered_records, lost_tail_bytes;
	/*
	 * Positions before root.frontier: recovery found that they were written since the
	 * root.
	 */
	uint64_t passed;
};

/* ---- open.c ---- */

/*
 * Opens a volume on disks that are open. The sfs owns the disks from now on, also on
 * failure.
 */
struct sfs *sfs_open_disks(const struct sfs_disk *disks, size_t count,
	const struct sfs_open_options *options, struct pr_error *err);
/* Takes the volume's lock for its one writer; kept until the sfs is closed. */
int sfs_lock(struct sfs *sfs, struct pr_error *err);
/* Frees everything without a flush. unlink_shm: also removes a writer's shared memory. */
void sfs_dispose(struct sfs **sfs, bool unlink_shm);

/* ---- create.c: create, grow ---- */

/*
 * Memory aligned for O_DIRECT; release it with free(). sfs_buffer fills it with zeros,
 * sfs_read_buffer does not touch it.
 */
uint8_t *sfs_buffer(size_t size);
uint8_t *sfs_read_buffer(size_t size);
/* Parameters of a new volume, apart from its disks. */
struct sfs_create_shape {
	uint32_t block_size, interval;
	uint32_t utilization; /* in 1/1000 */
	bool zones;
};
int sfs_create_shaped(struct sfs_disk *disks, size_t count,
	const struct sfs_create_shape *shape, struct pr_error *err);
/*
 * Grows a volume that is open for writing. The sfs owns the disks in `added` if sfs->disks
 * has grown.
 */
int sfs_grow_open(struct sfs *sfs, const struct sfs_disk *added, uint16_t count,
	uint64_t *new_blocks, struct pr_error *err);
/* Read speed of the device's first GiB, divided by that of its last; 1: not known. */
#define SFS_ZONES_DIFFER 1.15
double sfs_zones_measure(struct sfs_disk *disk, int64_t (*now)(void));

/* ---- devices.c: which devices are there, going on without one ---- */

const struct sfs_disk *sfs_first_disk(const struct sfs *sfs); /* not missing */
int sfs_open_queue(const struct sfs *sfs, struct sfs_queue *q, enum sfs_queue_kind kind,
	struct pr_error *err);
bool sfs_block_there(const struct sfs *sfs, uint64_t block); /* its device is not missing */
/*
 * Call when a write or sync of the disk has failed. True: a degraded writer continues
 * without the disk, and the next root will record that. False: the caller has to handle the
 * error.
 */
bool sfs_disk_drop_failed(struct sfs *sfs, struct sfs_disk *disk, int error);
/*
 * Writer: removes the blocks of lost disks from the table, except blocks that are just
 * being filled.
 */
void sfs_drop_lost_blocks(struct sfs *sfs);
/*
 * Writer, when it opens: notes the devices that are given up from now on, and counts their
 * records.
 */
void sfs_note_losses(struct sfs *sfs);
/* True if all records lost with devices have sequences up to the durable one. */
bool sfs_loss_settled(const struct sfs *sfs);

/* ---- root.c: roots, and the notes of repairs in them ---- */

/* Reads the newest valid root of all disks, and puts the disks into their order. */
int sfs_root_load(struct sfs *sfs, struct sfs_stream *streams, struct pr_error *err);
/* True: each disk's newest root is the loaded one. False: perhaps not; load it again. */
bool sfs_root_unchanged(struct sfs *sfs);
/*
 * Encodes the state as it is now, a copy per disk at w->root_buf + i * SFS_ROOT_BYTES, and returns
 * its length. The caller writes each over its disk's older copy (sfs_root_offset), and calls
 * sfs_root_done when all are durable.
 */
size_t sfs_root_prepare(struct sfs *sfs, uint32_t flags);
uint64_t sfs_root_offset(const struct sfs *sfs, uint16_t disk);
void sfs_root_done(struct sfs *sfs);
/* Prepares, writes and syncs a root. No flush may be under way. */
int sfs_root_store(struct sfs *sfs, uint32_t flags, struct pr_error *err);
int sfs_sync_disks(struct sfs *sfs, struct pr_error *err);
/* True: a note of a repair says that all records [first, last] of the stream are gone. */
bool sfs_repairs_cover(
	const struct sfs *sfs, uint32_t stream, uint64_t first, uint64_t last);
/* True: a note of a repair says that the bytes [from, to) of the block are gone. */
bool sfs_repairs_cover_at(const struct sfs *sfs, uint64_t block, uint64_t generation,
	uint32_t from, uint32_t to);
/*
 * The root's note of the block with this flag, or NULL. SFS_REPAIR_KEPT: content of its
 * damaged header. SFS_REPAIR_WIPE: the block was deleted, and zeros are still to be
 * written.
 */
const struct sfs_map_entry *sfs_repair_of(
	const struct sfs *sfs, uint64_t block, uint32_t flag);

/* ---- recover.c ---- */

/* Fills the table from the devices. streams: of the root that was just loaded. */
int sfs_recover(struct sfs *sfs, struct sfs_stream *streams, struct pr_error *err);
/*
 * True: the map of the block's interval is newer than all blocks of the interval, so no
 * block header need be read. Call after the table's order is made.
 */
bool sfs_map_knows_all(const struct sfs *sfs, const struct sfs_root *root, uint64_t block);

/* ---- reader.c: blocks, records in their bytes, records by handle ---- */

/* An entry or stream, from sfs's own table or from the writer's table in shared memory. */
bool sfs_view_entry(struct sfs *sfs, uint64_t block, struct sfs_entry *out);
bool sfs_view_stream(struct sfs *sfs, uint32_t id, struct sfs_stream *out);
uint32_t sfs_view_streams(struct sfs *sfs);
bool sfs_writer_alive(struct sfs *sfs);
/* Where a block lies. */
struct sfs_spot {
	struct sfs_disk *disk;
	uint64_t offset;
};
struct sfs_spot sfs_locate(const struct sfs *sfs, uint64_t block);
/*
 * Copies bytes [from, to) of a block to buf + from, from memory or device. buf has room for
 * a whole block.
 */
int sfs_fetch(struct sfs *sfs, uint64_t block, const struct sfs_entry *e, uint32_t from,
	uint32_t to, uint8_t *buf, struct pr_error *err);
/* Reads bytes [from, to) of a block from the device to buf. -1: errno. */
int sfs_read_block(
	struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf);
/*
 * Writes to a block at once, without a queue. Does nothing if its device is missing. A
 * degraded writer continues without a device that fails.
 */
int sfs_write_block(struct sfs *sfs, uint64_t block, uint32_t from, const uint8_t *bytes,
	size_t len, struct pr_error *err);
bool sfs_read_header(struct sfs *sfs, uint64_t block, struct sfs_block_header *out);
/*
 * Reads the header of a block with records. Where it is damaged, the block's first record or a
 * repair's note say what the block is; header fields that they do not know are 0. False: it is a
 * map, or nobody knows.
 */
bool sfs_read_identity(struct sfs *sfs, uint64_t block, struct sfs_block_header *out);
/* A walk over the records in a block's bytes. */
struct sfs_scan {
	const struct sfs_key *key;
	const uint8_t *bytes; /* of the block, from its start */
	struct sfs_record_location place; /* of the block; offset: not used */
	uint32_t pos, end; /* search position for the next record; end of the bytes */
	uint64_t sequence; /* of the next record */
};
/* From the block's first record to its last, by its entry. */
struct sfs_scan sfs_scan_of(const struct sfs *sfs, const uint8_t *bytes, uint64_t block,
	const struct sfs_entry *e);
/* Decodes the next record; moves behind it if it is good. */
enum sfs_record_state sfs_scan_next(struct sfs_scan *scan, struct sfs_record_header *out);
/*
 * Finds the next good record, whatever lies before it, and moves behind it. False: there is
 * none before the sequence `limit`, and the position is unchanged.
 */
bool sfs_scan_resync(struct sfs_scan *scan, uint64_t limit, struct sfs_record_header *out);
void sfs_record_out(const struct sfs_key *key, const struct sfs_record_header *h,
	const uint8_t *body, struct sfs_record *out);
bool sfs_permitted(const struct sfs *sfs, uint32_t permission);
/* True: the block was overwritten since it had this generation. */
bool sfs_block_gone(struct sfs *sfs, uint64_t block, uint64_t generation);
/* Bytes that the handle's record takes in its block. */
uint64_t sfs_handle_size(const struct sfs_handle *h);

/* ---- cursor.c ---- */

#define SFS_AHEAD_BYTES (4 * 1024 * 1024) /* read ahead of a cursor, at most */
#define SFS_AHEAD_BLOCKS 16
/* Call before a read from a device: waits a little while a writer elsewhere is behind. */
void sfs_give_way(const struct sfs *sfs);
/* Waits for all read-ahead. Call before the disks change. */
void sfs_reads_settle(struct sfs *sfs);

/* ---- holes.c: records deleted from the middle of streams ---- */

/*
 * Loads the holes from the root's notes, and checks them: any program may have written the
 * root.
 */
void sfs_holes_load(struct sfs *sfs, const struct sfs_map_entry *entries, uint32_t count);
/* True: the record is deleted; out is the hole that it lay in. */
bool sfs_hole_at(
	struct sfs *sfs, uint32_t stream, uint64_t sequence, struct sfs_map_entry *out);
/* The first hole of the stream that ends behind the sequence. */
bool sfs_hole_next(
	struct sfs *sfs, uint32_t stream, uint64_t sequence, struct sfs_map_entry *out);
/* How many of the records [first, end) are deleted. */
uint64_t sfs_holes_records(struct sfs *sfs, uint32_t stream, uint64_t first, uint64_t end);
/* True: all of the block's records are deleted. */
bool sfs_hole_covers(struct sfs *sfs, const struct sfs_entry *e);
/* True: the record of the block is deleted, even if its bytes are still there. */
bool sfs_deleted_record(struct sfs *sfs, const struct sfs_entry *e, uint64_t sequence);
/*
 * True: the record of a handle into the block is deleted, judged by the records around it.
 * Uses sfs->scratch.
 */
bool sfs_deleted_handle(struct sfs *sfs, const struct sfs_handle *h,
	const struct sfs_entry *e, struct sfs_map_entry *hole);
/* Reader beside a writer: loads the holes anew when the writer has deleted something. */
void sfs_holes_reload(struct sfs *sfs);
/* Writer: publishes the holes to readers. Call before anything is erased. */
void sfs_holes_publish(struct sfs *sfs);
/*
 * Writer: adds a hole whose records are still to be erased. False: the root would then have
 * more than `most` notes.
 */
bool sfs_hole_add(struct sfs *sfs, const struct sfs_map_entry *hole, uint32_t most);
/* Writer: marks all holes as erased, and joins adjacent ones. */
void sfs_holes_erased(struct sfs *sfs);
/* Writer: drops holes whose records are overwritten. */
void sfs_holes_prune(struct sfs *sfs);
/*
 * Recovery, when the streams' chains are made: marks the blocks that contain deleted
 * records.
 */
void sfs_holes_mark(struct sfs *sfs);
/* True: some of the block's records are still to be erased. */
bool sfs_erasing_in(struct sfs *sfs, const struct sfs_entry *e);

/* ---- delete.c ---- */

/*
 * Replaces sectors in bytes [from, to) of a block, at buf, by the redo sectors that the
 * root has for them.
 */
void sfs_redo_over(
	const struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf);
/* True: the root has room for one more stream, all notes, and `redos` more redo sectors. */
bool sfs_root_has_room(const struct sfs *sfs, uint32_t redos);
/* Stores roots until neither copy has redo sectors any more. */
int sfs_root_clean(struct sfs *sfs, struct pr_error *err);
/*
 * Writes zeros over everything that notes mark as deleted, and drops these notes. A root
 * that has them must be durable.
 */
int sfs_wipe(struct sfs *sfs, struct pr_error *err);

/* ---- streams.c ---- */

uint64_t sfs_guarantee_most(const struct sfs *sfs); /* blocks */
/* Writer: answers a process that asks for a guarantee through shared memory. */
void sfs_guarantee_serve(struct sfs *sfs);

/* ---- writer.c: start and stop, blocks, buffer slots, block maps ---- */

int sfs_writer_start(
	struct sfs *sfs, const struct sfs_open_options *options, struct pr_error *err);
void sfs_writer_stop(struct sfs *sfs);
/* Begins the stream's next block; SFS_FULL: no block may be overwritten. */
int sfs_block_begin(struct sfs *sfs, uint32_t stream, struct pr_error *err);
/*
 * Seals the stream's open block and submits its last bytes. -1: the device takes nothing.
 */
int sfs_block_end(struct sfs *sfs, uint32_t stream, struct pr_error *err);
/*
 * Releases a block for reuse and returns true. Returns false, and changes nothing, while a
 * write to it is in flight, while its stream has unwritten records, or while deleted
 * records in it are still to be erased. On success its slot is free; if it was the open
 * block of a stream, that stream has none now.
 */
bool sfs_block_release(void *arg, uint32_t block);
int sfs_slot_attach(struct sfs *sfs, uint32_t stream, struct pr_error *err);
void sfs_slot_release(struct sfs *sfs, uint32_t slot);
#define SFS_MAP_FIRST (5 * SFS_SECTOR) /* first read of a map: as a rule the whole map */
/* Reads the map at pos into buf (room for a block) and verifies it. */
bool sfs_map_read(struct sfs *sfs, uint64_t pos, uint8_t *buf, struct sfs_block_header *h);
struct sfs_map_entry sfs_map_entry_make(
	const struct sfs_entry *e, uint32_t block, uint32_t flags);
/*
 * Makes in buf the map of the interval that ends at block; returns its bytes, whole
 * sectors.
 */
size_t sfs_map_build(struct sfs *sfs, uint32_t block, uint64_t generation, uint8_t *buf);

/* ---- append.c: appending, flushing ---- */

/*
 * How a flush handles a last sector that is not full: padding such sectors is the cost of a
 * flush. A timed flush pads a sector only when it meets it for the second time, so the
 * sectors of a busy stream are not padded at all.
 */
enum sfs_flush_kind {
	SFS_FLUSH_ALL, /* every record */
	SFS_FLUSH_AGED, /* records that were there at the last flush of this kind */
	SFS_FLUSH_FULL, /* none: for a checkpoint, which needs only the block headers */
};
void sfs_flush_start(struct sfs *sfs, enum sfs_flush_kind kind);
/* Waits until the present flush is done. */
int sfs_flush_finish(struct sfs *sfs, struct pr_error *err);
/* Handles completions; wait: at least one, when any is in flight. False: nothing has changed. */
bool sfs_pump(struct sfs *sfs, bool wait);
/*
 * Submits the bytes of a stream's open block: only its full sectors (pad 0), or everything,
 * padded to a multiple of `pad`. False: the device takes nothing, the records stay waiting.
 */
bool sfs_tail_submit(struct sfs *sfs, uint32_t stream, uint32_t pad);
bool sfs_map_submit(struct sfs *sfs, uint64_t block, size_t len);
/* SFS_OK if the volume is open for writing and has this stream. */
int sfs_check_stream(const struct sfs *sfs, int stream, struct pr_error *err);

/* ---- check.c ---- */

/* A fault, with what a repair needs. */
struct sfs_finding {
	struct sfs_fault fault; /* first member: callbacks cast it to the finding */
	uint32_t stream;
	uint64_t generation; /* of the block; 0: not known */
	uint32_t to; /* the bytes [fault.offset, to) of the block */
	bool stale; /* a map: intact, but older than a block of its interval */
	struct sfs_map_entry kept; /* a header: what it said */
};
int64_t sfs_check_all(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	uint64_t *uuid_faults, struct pr_error *err);
