/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"

/*
 * The on-disk format, version 2 (Hyperion, section 4.4: record, block, block map, root). All fields
 * are little-endian; reserved ones are zero. Offsets are in bytes.
 *
 * DEVICE   0 root copy A   SFS_ROOT_BYTES root copy B   data_start (2 x SFS_ROOT_BYTES rounded up to
 * the block size) the blocks. Every device carries both copies, equal but for device_index. Blocks
 * are numbered through the stripe sets. A set has the same number of rows on each of its n
 * devices, behind the rows of the sets before it: block i of the set is row i / n of its
 * device i % n.
 *
 * ROOT COPY: 4096 bytes of header, then stream_count entries of SFS_STREAM_BYTES, then the repair
 * entries, then the listed ones. A root is written over the older copy, so that a torn one leaves the
 * other. The valid one of the highest generation counts.
 *     0 magic "SFSroot\n"          8 version u32           12 header bytes u32 = 4096
 *    16 checksum 16 bytes: XXH3-128 of bytes 32 .. length
 *    32 length u32                36 hash kind u32 = 1 (keyed XXH3-128, see below)
 *    40 root generation u64       48 volume uuid 16       64 volume secret 32
 *    96 created i64 (ns)         104 reserved u64
 *   112 block size u32           116 map interval u32 (256)
 *   120 data start u64           128 blocks of the volume u64
 *   136 device count u16         138 device index u16     140 stripe u32 (blocks, 1)
 *   144 zone mode u32 (0 off, 1 on)  148 zone region u32 (rows)  152, 160 reserved u64
 *   168 frontier u64   a position at which every block before it was on the device
 *   176 window u64     positions from the frontier that may have been written since
 *   184 high water u64 positions from here on were never written
 *   192 generation limit u64   no block of a higher generation was written under this root
 *   200 reset generation u64   blocks up to it are gone (RESET)
 *   208 flags u32 (1: closed cleanly, 2: with listed entries)  212 stream count u32
 *   216 stream entry bytes u32 (192)   220 utilization u32 (most of the volume that may be
 *                                          guaranteed, in 1/1000)
 *   224 repair entries u32   228 stripe sets u32 (0: one of all blocks and devices)
 *   232 listed entries u32   236 redo sectors u32   240 reserved
 *  1024 device table: 16 x { uuid 16, blocks u64, flags u32 (1: lost), reserved u32,
 *                            records lost with it u64, reserved 24 }
 *  2048 stripe sets: 64 x { blocks u64, devices u16 (bit d: device d), tier u16, reserved 20 }
 * The frontier takes the blocks in the order that the sets and zones give (table.h);
 * frontier, window and high water are positions in that order. A lost device's blocks no
 * longer exist, whatever the device holds.
 *
 * STREAM ENTRY (192)
 *     0 name 48, zero-padded      48 id u32  52 flags u32 (1: guarantee kept)  56 permission u32  60 reserved
 *    64 guarantee u64 (bytes)     72 created i64            80 oldest generation u64: older blocks
 *                                                              of the stream are gone
 *    88 first sequence u64 (held) 96 evicted until i64 (INT64_MIN: nothing evicted)
 *   104 durable sequence u64: records up to it are on the device
 *   112 next ordinal u64         120 head block u64       128 head generation u64
 *   136 head end u32             140 head records u32     144 head min time i64 152 max time i64
 *   160 reserved 32              (head: the stream's newest block as it was)
 *
 * REPAIR ENTRY (64): what a repair has found out, laid out as an entry of a block map with its flags:
 *     2 kept: the block's header is damaged; this is what it said
 *     4 gone: the records [first sequence, + records) of the stream are lost. They lay in the bytes
 *       [ordinal, end) of the block; generation 0: it is not known where. No records: bytes of no
 *       use that are not as they were written.
 *     8 wipe: the block of that generation was deleted, and zeros are to be written over it
 *    16 hole: the records [first sequence, + records) of the stream were deleted, and their blocks are
 *       still there; ordinal has their bytes, min and max their times. With wipe, zeros are still to be
 *       written over them.
 * The writer drops an entry when the stream's first held sequence is behind the entry's
 * records, or when the block is wiped.
 *
 * REDO SECTOR (4128), behind the listed entries: new contents of a sector that a deletion
 * overwrites in part. They are stored here before they are written in place, so a torn
 * write loses none of the other bytes.
 *     0 block u64                  8 offset in the block u32     12 reserved 20   32 the sector
 *
 * LISTED ENTRY (64), laid out as one of a block map. A root that was closed cleanly has
 * them for what no map has: the live blocks of each interval whose map is older than one of
 * them, and blocks that their map calls open. Without these entries each block's header has
 * to be read.
 *
 * BLOCK HEADER (192), at the block's start; written once, with the block's first flush
 *     0 magic u32 "SFSB"           4 version u16            6 reserved u16
 *     8 hash 16: keyed, of bytes 24 .. 192
 *    24 kind u32 (1 data, 2 map)  28 stream u32            32 permission u32  36 header bytes u32
 *    40 block u64                 48 generation u64        56 ordinal u64 (in its stream, from 0)
 *    64 first sequence u64        72 durable sequence u64 of the stream, when written
 *    80 previous block u64        88 its generation u64    96 min i64  104 max i64
 *   112 its records u32          116 its end u32  (the previous block's; 0: none)
 *   120 stream name 48
 *   168 entries u32              172 late entries u32     176 hash of the entries 16  (maps only)
 *
 * BLOCK MAP: a block header of kind 2 in every block b with b % interval == interval - 1, written
 * when the frontier has passed all blocks of the interval before it. It has entries (64
 * bytes each) of the live ones, then late entries: blocks that an earlier map called open
 * and that were sealed after the map before this one was written.
 *     0 stream u32   4 flags u32 (1: open, more may follow)   8 block u64   16 generation u64
 *    24 first sequence u64  32 ordinal u64  40 records u32  44 end u32  48 min i64  56 max i64
 *
 * RECORD HEADER (32, or a wide one: 64), at a multiple of 8, or where a flush ended at the next multiple
 * of 4096; the body comes right behind. These facts follow from its location, and are
 * hashed with it but not written: block, generation, stream, the block's first sequence,
 * and the offset.
 *     0 check u32: keyed, of the place and bytes 4 .. 32 or 64
 *     4 body length u24            7 mark u8: 'R', or 'W': wide
 *     8 hash 8: keyed, of the place, bytes 4 .. 8 and 16 .. 32 or 64, and the keyed hash of the body
 *    16 index u32: sequence - the block's first   20 span u32: max time - min time; 0 in a wide one
 *    24 min time i64
 * A wide one goes on, so that the record is known even if the block's header is damaged:
 *    32 generation u64   40 the block's first sequence u64   48 max time i64
 *    56 stream u32       60 permission u32 (0 in the others)
 * A header is wide if it is the first that begins in its sixteenth of the block, if the
 * record was reserved, or if its values do not fit a narrow one.
 *
 * Generations number the blocks of a volume in the order in which they are begun; none is used
 * twice, not even those of blocks that a crash has lost (generation limit). A block is
 * overwritten only after a root that declares it gone is on the device: a crash at any
 * moment leaves each live block whole.
 *
 * The keyed hash is XXH3-128 with a 192-byte secret made of the volume's secret: it runs at memory
 * speed, so the whole body can be covered. It guards against torn and stale writes, media errors,
 * and handles made up by someone who cannot read the volume; it is no MAC against a person who can
 * choose bodies and see hashes. Another hash kind could be one.
 */
#define SFS_VERSION 2
/* Unit of writing, except at a block's end. Durable and later bytes never share one. */
#define SFS_SECTOR 4096u
#ifndef SFS_ROOT_BYTES /* the fuzzed build has small volumes */
#define SFS_ROOT_BYTES (256u * 1024)
#define SFS_MAP_INTERVAL 256u
#endif
#define SFS_ROOT_HEADER 4096u
#define SFS_STREAM_BYTES 192u
#define SFS_BLOCK_HEADER 192u
#define SFS_RECORD_HEADER 32u
#define SFS_RECORD_WIDE 64u
#define SFS_WIDE_PARTS 16u /* of a block: each has a wide header */
#define SFS_MAP_INTERVAL_MIN 4u /* a volume's own is from this to SFS_MAP_INTERVAL */
#define SFS_MAP_ENTRY 64u
/* what the root has room for beside all streams: 960 */
#define SFS_REPAIRS_MAX                                                                    \
	((SFS_ROOT_BYTES - SFS_ROOT_HEADER - SFS_STREAMS_MAX * SFS_STREAM_BYTES) /         \
		SFS_MAP_ENTRY)
#define SFS_LISTED_MAX ((SFS_ROOT_BYTES - SFS_ROOT_HEADER) / SFS_MAP_ENTRY)
#define SFS_REDO_HEADER 32
#define SFS_REDO_BYTES (SFS_REDO_HEADER + SFS_SECTOR)
#define SFS_REDO_MAX 16u
#define SFS_DEVICES_MAX 16
#define SFS_SETS_MAX 64u
#define SFS_BLOCKS_MIN 8
#define SFS_BLOCKS_MAX 0xfffffff0u
#define SFS_HASH_KIND 1
#define SFS_UTILIZATION 900 /* of 1000: what may be guaranteed */
enum { SFS_UTILIZATION_MIN = 100, SFS_UTILIZATION_MAX = 950 };
#define SFS_STREAM_KEPT                                                                    \
	1u /* its guarantee was set by sfs_guarantee_set: sfs_stream_open keeps it */
#define SFS_STREAM_PERMISSION 2u /* its permission was set by sfs_permission_set */
#define SFS_DEVICE_LOST 1u
#define SFS_ROOT_CLEAN 1u
#define SFS_ROOT_LISTED 2u
#define SFS_MAP_OPEN 1u
#define SFS_REPAIR_KEPT 2u
#define SFS_REPAIR_GONE 4u
#define SFS_REPAIR_WIPE 8u
#define SFS_REPAIR_HOLE 16u
#define SFS_KIND_DATA 1u
#define SFS_KIND_MAP 2u

struct sfs_key {
	uint8_t secret[192], check_secret[192];
};
void sfs_key_derive(struct sfs_key *key, const uint8_t secret[32]);
void sfs_hash(const struct sfs_key *key, const void *data, size_t len, uint8_t out[16]);

/*
 * Copies without the caches where the CPU can: this saves reading the lines that are
 * overwritten. Other threads see the whole copy before anything that is stored after it.
 */
void sfs_copy_past(void *to, const void *from, size_t len);

struct sfs_device {
	uint8_t uuid[16];
	uint64_t blocks, lost_records;
	uint32_t flags;
};
struct sfs_set {
	uint64_t blocks;
	uint16_t devices, tier;
};
struct sfs_redo {
	uint64_t block;
	uint32_t offset;
	uint8_t sector[SFS_SECTOR];
};
struct sfs_map_entry;
struct sfs_root {
	uint8_t uuid[16], secret[32];
	uint64_t generation;
	int64_t created;
	uint32_t block_size, map_interval;
	uint64_t data_start, blocks;
	uint16_t device_count, device_index;
	uint32_t zone_region; /* 0: no zones */
	uint32_t set_count; /* at least 1 */
	struct sfs_device device[SFS_DEVICES_MAX];
	struct sfs_set set[SFS_SETS_MAX];
	uint64_t frontier, window, high_water, generation_limit, reset_generation;
	uint32_t flags, stream_count, utilization, repair_count, listed_count, redo_count;
	const struct sfs_map_entry *repairs, *listed; /* not owned; decoding leaves NULL */
	const struct sfs_redo *redos; /* the same */
	uint32_t length, hash_kind, stripe, zone_mode, stream_bytes; /* sfs_root_encode's */
};
/* A stream's newest block, as it was when a root or the next block's header was written. */
struct sfs_head {
	uint64_t block, generation; /* generation 0: none */
	uint32_t end, records;
	int64_t min_time, max_time;
};
/*
 * A stream, in the root and in the table. The root does not have oldest, newest, blocks, bytes and
 * last_sequence; readers beside a writer get all but the head.
 */
struct sfs_stream {
	char name[SFS_NAME_MAX + 1];
	uint32_t id, permission;
	uint64_t guarantee;
	int64_t created;
	uint32_t oldest, newest; /* SFS_NONE: holds nothing */
	uint64_t blocks, bytes;
	/* first = last + 1: holds nothing */
	uint64_t first_sequence, last_sequence, durable_sequence;
	uint64_t oldest_generation, next_block_number;
	int64_t evicted_until;
	uint32_t flags; /* SFS_STREAM_KEPT */
	struct sfs_head head; /* in the root: the newest block */
};
/* buf of SFS_ROOT_BYTES; streams of root->stream_count. Returns the bytes to write (whole sectors). */
size_t sfs_root_encode(
	const struct sfs_root *root, const struct sfs_stream *streams, uint8_t *buf);
/*
 * 0; -1 with what is wrong. streams has room for SFS_STREAMS_MAX. A buffer that is no root at all,
 * a damaged one, and one of another version give different texts.
 */
int sfs_root_decode(const uint8_t *buf, struct sfs_root *root, struct sfs_stream *streams,
	struct pr_error *err);
/*
 * Unverified values of a root's header, without devices and sets; zeros if it is not a
 * root's.
 */
struct sfs_root sfs_root_peek(const uint8_t *buf);
/* Bytes that sfs_root_encode makes of the root, without the padding. */
uint32_t sfs_root_length(const struct sfs_root *root);
/*
 * Decodes what follows the streams in a buffer that sfs_root_decode has accepted. The
 * arrays have room for as many items as root says.
 */
void sfs_root_notes(const uint8_t *buf, const struct sfs_root *root,
	struct sfs_map_entry *repairs, struct sfs_map_entry *listed,
	struct sfs_redo *redos);

struct sfs_block_header {
	uint32_t kind, stream, permission;
	uint64_t block, generation, block_number, first_sequence, durable_sequence;
	struct sfs_head prev; /* of the stream */
	char name[SFS_NAME_MAX + 1];
	uint32_t entries, late;
	uint32_t header_bytes; /* sfs_block_encode's */
	uint8_t body_hash[16];
};
void sfs_block_encode(const struct sfs_key *key, const struct sfs_block_header *header,
	uint8_t buf[SFS_BLOCK_HEADER]);
/* false: none, damaged, of another volume, or not at its place (block). */
bool sfs_block_decode(const struct sfs_key *key, const uint8_t buf[SFS_BLOCK_HEADER],
	uint64_t block, struct sfs_block_header *out);

struct sfs_map_entry {
	uint32_t stream, flags;
	uint64_t block, generation, first_sequence, block_number;
	uint32_t records, end;
	int64_t min_time, max_time;
};
void sfs_map_entry_encode(const struct sfs_map_entry *entry, uint8_t buf[SFS_MAP_ENTRY]);
void sfs_map_entry_decode(const uint8_t buf[SFS_MAP_ENTRY], struct sfs_map_entry *out);

/* Location of a record, and facts of its block. The record's hash covers all of them. */
struct sfs_record_location {
	uint64_t block, generation, first_sequence;
	uint32_t stream, offset;
};
struct sfs_record_header {
	uint64_t block, generation, sequence;
	int64_t min_time, max_time;
	uint32_t stream, permission, length, offset;
	uint32_t index; /* in its block, from 0 */
	uint32_t size; /* of the header: SFS_RECORD_HEADER, or SFS_RECORD_WIDE */
	uint8_t hash[8];
};
/*
 * Writes the header at p and copies body to p + header->size; body NULL: it lies there
 * already. Fills header->hash.
 */
void sfs_record_put(const struct sfs_key *key, struct sfs_record_header *header,
	const void *body, uint8_t *p);
/* Computes check and hash of the record at p anew. */
void sfs_record_seal(
	const struct sfs_key *key, const struct sfs_record_location *place, uint8_t *p);
enum sfs_record_state {
	SFS_RECORD_GOOD,
	SFS_RECORD_NONE, /* no record header of this place here, or a damaged one */
	SFS_RECORD_BAD, /* a header of this place, but its body is damaged */
};
/*
 * Decodes the header and verifies its check (32 bits); the body is not looked at. room:
 * bytes at p.
 */
bool sfs_record_peek(const struct sfs_key *key, const struct sfs_record_location *place,
	const uint8_t *p, size_t room, struct sfs_record_header *out);
/* sfs_record_peek for a wide header whose generation, stream and sequence are not known. */
bool sfs_record_identify(const struct sfs_key *key, uint64_t block, uint32_t offset,
	const uint8_t *p, size_t room, struct sfs_record_header *out);
enum sfs_record_state sfs_record_decode(const struct sfs_key *key,
	const struct sfs_record_location *place, const uint8_t *p, size_t room,
	struct sfs_record_header *out);
/*
 * True if the 8 bytes at p can begin a record header, by its mark. A torn write never
 * splits them.
 */
bool sfs_record_begins(const uint8_t p[8]);
/* What a record takes in its block. header: its size. */
static inline uint64_t
sfs_record_size(uint32_t header, uint64_t length)
{
	return (header + length + 7) & ~UINT64_C(7);
}
/* Where it ends in its block. */
static inline uint32_t
sfs_record_end(const struct sfs_record_header *h)
{
	return h->offset + sfs_record_size(h->size, h->length);
}
static inline uint64_t
sfs_sector_up(uint64_t n)
{
	return (n + SFS_SECTOR - 1) & ~(uint64_t)(SFS_SECTOR - 1);
}

/*
 * Makes and verifies handles. check covers all fields: a made-up handle is refused before
 * any read.
 */
void sfs_handle_make(const struct sfs_key *key, const struct sfs_record_header *record,
	struct sfs_handle *out);
uint32_t sfs_handle_check(const struct sfs_key *key, const struct sfs_handle *handle);
