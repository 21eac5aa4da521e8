/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A volume with bytes changed. Covers logger/streamfs/format.c logger/streamfs/format_root.c
 * logger/streamfs/recover.c logger/streamfs/recover_load.c logger/streamfs/cursor.c
 * logger/streamfs/reader.c logger/streamfs/check.c logger/streamfs/check_block.c
 * logger/streamfs/check_chain.c logger/streamfs/repair.c logger/streamfs/repairs.c
 * logger/streamfs/root.c logger/streamfs/map.c logger/streamfs/holes.c logger/streamfs/delete.c
 * logger/streamfs/deleted.c logger/streamfs/erase.c
 * Options -max_len=256
 *
 * The input is a first byte (bit 0: open it as its writer, who recovers it and appends, before it is
 * read; bit 1: repair it first; bit 2: with bit 0, delete from its midst) and patches of a small valid volume, from
 * which something was deleted: kind, target, offset u16, length (up to 16), bytes.
 *   kind 0  a root copy (target % 3: A, B, both) at the offset, its checksum made right
 *        1  a block's header, its hash made right     2  a record, its hashes made right
 *        3  anywhere: target * 64 KiB + offset, nothing made right
 *        4  the entries of a block map, both its hashes made right
 *        5  the file is cut there
 * Whatever is done to it, each record that is given back is one that was written, but for those
 * that were sealed anew with other bytes.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "logger/streamfs/format.h"
#include "logger/streamfs/streamfs.h"
#include "proto/wire/cursor.h"
#include "tests/fuzz/fuzz.h"

enum { SIZE = 1280 << 10, BLOCK = SFS_BLOCK_MIN, RECORDS = 64, STEPS_MAX = 100000 };
enum { PATCH_ROOT, PATCH_BLOCK, PATCH_RECORD, PATCH_ANY, PATCH_MAP, PATCH_CUT, PATCHES };

static uint8_t pristine[SIZE], image[SIZE];
static int file = -1;
static char path[32];
static const char *const paths[] = {path};
static struct sfs_key key;
static struct sfs_root root;

static struct original {
	struct sfs_handle handle;
	uint8_t *body;
	bool sealed_anew;
} originals[RECORDS];
static size_t original_count;
static bool any_sealed_anew;

/* ---- the volume that all inputs begin with ---- */

static void
write_records(struct sfs *sfs)
{
	static const char *const names[] = {"packets.0", "ledger", "segments"};
	static uint8_t body[40000];
	int streams[3];

	for (int i = 0; i < 3; i++)
		streams[i] = sfs_stream_open(sfs, names[i], i == 1 ? BLOCK : 0, 0, NULL);
	for (int i = 0; i < RECORDS; i++) {
		size_t len = (size_t)(i % 7 == 0 ? 30000 : i * 11);

		memset(body, i + 1, len);
		MUST(sfs_append(sfs, streams[i % 3], i * 10, i * 10 + 5, body, len, NULL,
			     NULL) == SFS_OK);
		if (i % 10 == 9)
			MUST(sfs_flush(sfs, NULL) == SFS_OK);
	}
}

static int
delete_midst(struct sfs *sfs, int stream, int64_t since, int64_t until)
{
	const struct sfs_delete_range range = {since, until, UINT64_MAX};
	struct sfs_trimmed out = {.more = true};
	int rc = SFS_OK;

	for (int i = 0; rc == SFS_OK && out.more && i < RECORDS; i++)
		rc = sfs_delete(sfs, stream, &range, 0, &out, NULL);
	return rc;
}

static void
restore(const uint8_t *bytes, size_t size)
{
	MUST(ftruncate(file, SIZE) == 0);
	MUST(pwrite(file, bytes, SIZE, 0) == SIZE);
	MUST(ftruncate(file, (off_t)size) == 0);
}

static struct sfs *
open_volume(bool writer, struct pr_error *err)
{
	struct sfs_open_options options = {
		.writer = writer, .shm_bytes = 8 * BLOCK, .no_direct = true};

	return sfs_open(paths, 1, &options, err);
}

static void
remember_records(void)
{
	struct sfs *sfs = open_volume(false, NULL);
	struct sfs_record record;

	MUST(sfs);
	for (int stream = 0; stream < 3; stream++) {
		struct sfs_cursor *cursor = sfs_cursor_open(sfs, stream, NULL, NULL);

		int rc;

		while ((rc = sfs_cursor_next(cursor, &record, NULL)) != 0) {
			struct original *o = &originals[original_count];

			MUST(rc == 1 || rc == SFS_DELETED);
			if (rc != 1)
				continue;
			original_count++;
			o->handle = record.handle;
			o->body = malloc(record.length + 1);
			memcpy(o->body, record.body, record.length);
		}
		sfs_cursor_close(&cursor);
	}
	MUST(original_count > 10);
	sfs_close(&sfs);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sfs_create_options options = {.size = SIZE, .block_size = BLOCK};
	static struct sfs_stream_entry streams[SFS_STREAMS_MAX];
	struct sfs *sfs;

	(void)argc;
	(void)argv;
	file = memfd_create("volume", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	MUST(ftruncate(file, SIZE) == 0);
	MUST(sfs_create(paths, 1, &options, NULL) == 0);
	sfs = open_volume(true, NULL);
	MUST(sfs);
	write_records(sfs);
	MUST(delete_midst(sfs, 0, 150, 260) == SFS_OK);
	sfs_close(&sfs);
	MUST(pread(file, pristine, SIZE, 0) == SIZE);
	MUST(sfs_root_decode(pristine, &root, streams, NULL) == 0 ||
		sfs_root_decode(pristine + SFS_ROOT_BYTES, &root, streams, NULL) == 0);
	sfs_key_derive(&key, root.secret);
	remember_records();
	return 0;
}

/* ---- patches ---- */

static void
change(size_t at, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len && at + i < SIZE; i++)
		image[at + i] = bytes[i];
}

static void
patch_root(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	for (unsigned copy = 0; copy < 2; copy++) {
		uint8_t *p = image + copy * SFS_ROOT_BYTES;
		XXH128_canonical_t sum;
		uint32_t length;

		if (target % 3 != 2 && target % 3 != copy)
			continue;
		change(copy * SFS_ROOT_BYTES +
				offset % (SFS_ROOT_HEADER + 4 * SFS_STREAM_BYTES),
			bytes, len);
		length = pr_get_le32(p + 32);
		if (length < SFS_ROOT_HEADER || length > SFS_ROOT_BYTES)
			continue;
		XXH128_canonicalFromHash(&sum, XXH3_128bits(p + 32, length - 32));
		memcpy(p + 16, sum.digest, 16);
	}
}

static size_t
block_at(uint64_t block)
{
	return root.data_start + block % root.blocks * BLOCK;
}

static void
patch_block(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	size_t at = block_at(target);

	change(at + offset % SFS_BLOCK_HEADER, bytes, len);
	sfs_hash(&key, image + at + 24, SFS_BLOCK_HEADER - 24, image + at + 8);
}

/* The fuzzed build has a map at every fourth block (fuzz.mk). */
static void
patch_map(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	uint64_t block =
		target * (uint64_t)SFS_MAP_INTERVAL % root.blocks + SFS_MAP_INTERVAL - 1;
	size_t at = block_at(block), entries;

	if (block >= root.blocks)
		return;
	change(at + SFS_BLOCK_HEADER + offset % (8 * SFS_MAP_ENTRY), bytes, len);
	entries = (size_t)pr_get_le32(image + at + 168) + pr_get_le32(image + at + 172);
	if (entries > (BLOCK - SFS_BLOCK_HEADER) / SFS_MAP_ENTRY)
		return;
	sfs_hash(&key, image + at + SFS_BLOCK_HEADER, entries * SFS_MAP_ENTRY,
		image + at + 176);
	sfs_hash(&key, image + at + 24, SFS_BLOCK_HEADER - 24, image + at + 8);
}

static void
patch_record(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	struct original *o = &originals[target % original_count];
	size_t at = block_at(o->handle.block) + o->handle.offset;
	struct sfs_block_header block;
	MUST(sfs_block_decode(
		&key, pristine + block_at(o->handle.block), o->handle.block, &block));
	const struct sfs_place place = {.block = o->handle.block,
		.generation = o->handle.generation,
		.first_sequence = block.first_sequence,
		.stream = o->handle.stream,
		.offset = o->handle.offset};

	change(at + offset % (SFS_RECORD_WIDE + 64), bytes, len);
	if ((pr_get_le32(image + at + 4) & 0xffffff) <= SIZE - at - SFS_RECORD_WIDE)
		sfs_record_seal(&key, &place, image + at);
	o->sealed_anew = any_sealed_anew = true;
}

/* Applies all patches; returns the file's size. */
static size_t
patch(const uint8_t *data, size_t size)
{
	struct pr_cursor c = pr_cursor_make(data, size);
	size_t file_size = SIZE;
	uint8_t kind, target, len;
	const uint8_t *bytes;
	uint16_t offset;

	while (pr_load_u8(&c, &kind) && pr_load_u8(&c, &target) &&
		pr_load_le16(&c, &offset) && pr_load_u8(&c, &len) &&
		pr_load_bytes(&c, &bytes, len % 17)) {
		size_t at = ((size_t)target * 65536 + offset) % SIZE;

		switch (kind % PATCHES) {
		case PATCH_ROOT:
			patch_root(target, offset, bytes, len % 17);
			any_sealed_anew = true; /* it may bring back what was recycled */
			break;
		case PATCH_BLOCK:
			patch_block(target, offset, bytes, len % 17);
			break;
		case PATCH_RECORD:
			patch_record(target, offset, bytes, len % 17);
			break;
		case PATCH_ANY:
			change(at, bytes, len % 17);
			break;
		case PATCH_MAP:
			patch_map(target, offset, bytes, len % 17);
			break;
		case PATCH_CUT:
			file_size = at;
		}
	}
	return file_size;
}

/* ---- what is done with it ---- */

static void
check_record(const struct sfs_record *r)
{
	static const uint8_t mine[] = "appended by the fuzzer";

	for (size_t i = 0; i < original_count; i++) {
		const struct original *o = &originals[i];

		if (o->handle.block != r->handle.block ||
			o->handle.offset != r->handle.offset ||
			o->handle.generation != r->handle.generation)
			continue;
		MUST(o->sealed_anew || (o->handle.length == r->length &&
					       memcmp(o->body, r->body, r->length) == 0));
		return;
	}
	MUST(any_sealed_anew ||
		(r->length == sizeof mine && memcmp(r->body, mine, sizeof mine) == 0));
}

static void
walk_stream(struct sfs *sfs, int stream)
{
	static uint8_t buf[BLOCK];
	struct sfs_cursor *cursor = sfs_cursor_open(sfs, stream, NULL, NULL);
	struct sfs_record record, again;
	int result, steps = 0;
	size_t length;

	while (cursor && (result = sfs_cursor_next(cursor, &record, NULL)) != 0) {
		MUST(++steps < STEPS_MAX);
		if (result == SFS_ERROR)
			break;
		if (result != 1)
			continue;
		check_record(&record);
		if (sfs_read(sfs, &record.handle, buf, sizeof buf, &length, &again, NULL) ==
			SFS_OK) {
			MUST(length == again.length);
			check_record(&again);
		}
	}
	sfs_cursor_close(&cursor);
}

static void
on_fault(void *arg, const struct sfs_fault *fault)
{
	MUST(fault->why &&
		(fault->block != SFS_NO_BLOCK || fault->kind != SFS_FAULT_RECORD));
	++*(int64_t *)arg;
}

static void
read_all(void)
{
	static uint8_t buf[BLOCK];
	struct sfs_volume_info volume;
	struct sfs_stream_info info;
	struct sfs_record record;
	int64_t faults = 0, found;
	struct pr_error err = {""};
	struct sfs *sfs = open_volume(false, &err);
	uint64_t records;
	size_t length;

	if (!sfs) {
		MUST(err.text[0]);
		return;
	}
	MUST(sfs_info(sfs, &volume, &err) == 0);
	for (size_t i = 0; i < volume.stream_count && i < 8; i++) {
		sfs_stream_info(sfs, i, &info, NULL);
		walk_stream(sfs, (int)i);
	}
	for (size_t i = 0; i < original_count; i++)
		if (sfs_read(sfs, &originals[i].handle, buf, sizeof buf, &length, &record,
			    NULL) == SFS_OK)
			check_record(&record);
	found = sfs_check(sfs, on_fault, &faults, &records, &err);
	MUST(found < 0 || found == faults);
	sfs_refresh(sfs, NULL);
	sfs_close(&sfs);
}

static void
recover_and_append(bool delete_some)
{
	static const char mine[] = "appended by the fuzzer";
	struct sfs_volume_info info;
	struct pr_error err = {""};
	struct sfs *sfs = open_volume(true, &err);
	int stream;

	if (!sfs) {
		MUST(err.text[0]);
		return;
	}
	if (sfs_info(sfs, &info, NULL) == 0)
		fuzz_unname_shm(info.uuid);
	stream = sfs_stream_open(sfs, "packets.0", 0, 0, NULL);
	for (int i = 0; i < 3 && stream >= 0; i++)
		sfs_append(sfs, stream, 1000, 1000, mine, sizeof mine, NULL, NULL);
	sfs_flush(sfs, NULL);
	for (int i = 0; i < 3 && delete_some; i++)
		delete_midst(sfs, i, 300, 460);
	sfs_close(&sfs);
}

/* Whatever it finds, and whether it can do anything about it: it ends, and loses no good record. */
static void
repair(void)
{
	struct sfs_repair_result out;
	struct pr_error err = {""};
	int64_t faults = 0;

	if (sfs_repair(paths, 1, on_fault, &faults, &out, &err) < 0)
		MUST(err.text[0]);
	else
		MUST(out.faults == (uint64_t)faults);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t file_size;

	if (size < 1)
		return -1;
	memcpy(image, pristine, SIZE);
	any_sealed_anew = false;
	for (size_t i = 0; i < original_count; i++)
		originals[i].sealed_anew = false;
	file_size = patch(data + 1, size - 1);
	restore(image, file_size);
	if (data[0] & 2)
		repair();
	if (data[0] & 1)
		recover_and_append(data[0] & 4);
	read_all();
	return 0;
}
