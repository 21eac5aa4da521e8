/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "logger/streamfs/format.h"
#include "logger/streamfs/internal.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/cursor.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_disk.h"

/* The small volume of fuzz_volume.c, and patches of it. */

enum { SIZE = 448 << 10, BLOCK = SFS_BLOCK_MIN, RECORDS = 40, STEPS_MAX = 100000 };
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

static inline void
write_records(struct sfs *sfs)
{
	static const char *const names[] = {"packets.0", "ledger", "segments"};
	static uint8_t body[15000];
	int streams[3];

	for (int i = 0; i < 3; i++)
		streams[i] = sfs_stream_open(sfs, names[i], i == 1 ? BLOCK : 0, 0, NULL);
	for (int i = 0; i < RECORDS; i++) {
		size_t len = (size_t)(i % 7 == 0 ? 15000 : i * 5);

		memset(body, i + 1, len);
		MUST(sfs_append(sfs, streams[i % 3], i * 10, i * 10 + 5, body, len, NULL,
			     NULL) == SFS_OK);
		if (i % 10 == 9)
			MUST(sfs_flush(sfs, NULL) == SFS_OK);
	}
}

static inline int
delete_midst(struct sfs *sfs, int stream, int64_t since, int64_t until)
{
	const struct sfs_delete_range range = {since, until, UINT64_MAX};
	struct sfs_trimmed out = {.more = true};
	int rc = SFS_OK;

	for (int i = 0; rc == SFS_OK && out.more && i < RECORDS; i++)
		rc = sfs_delete(sfs, stream, &range, 0, &out, NULL);
	return rc;
}

static inline struct sfs *
open_volume(bool writer, struct pr_error *err)
{
	struct sfs_open_options options = {
		.writer = writer, .shm_bytes = 8 * BLOCK, .no_direct = true};

	const struct sfs_disk memory = disk_make();

	return sfs_open_disks(&memory, 1, &options, err);
}

static inline void
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
	static struct sfs_stream streams[SFS_STREAMS_MAX];
	struct sfs *sfs;

	(void)argc;
	(void)argv;
	file = memfd_create("volume", 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	MUST(ftruncate(file, SIZE) == 0);
	MUST(sfs_create(paths, 1, &options, NULL) == 0);
	MUST(pread(file, image, SIZE, 0) == SIZE);
	disk.bytes = image;
	disk.size = SIZE;
	sfs = open_volume(true, NULL);
	MUST(sfs);
	write_records(sfs);
	MUST(delete_midst(sfs, 0, 150, 260) == SFS_OK);
	sfs_close(&sfs);
	memcpy(pristine, image, SIZE);
	MUST(sfs_root_decode(pristine, &root, streams, NULL) == 0 ||
		sfs_root_decode(pristine + SFS_ROOT_BYTES, &root, streams, NULL) == 0);
	sfs_key_derive(&key, root.secret);
	remember_records();
	return 0;
}

/* ---- patches ---- */

static inline void
change(size_t at, const uint8_t *bytes, size_t len)
{
	disk_touch(at, len);
	for (size_t i = 0; i < len && at + i < SIZE; i++)
		image[at + i] = bytes[i];
}

static inline void
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
		disk_touch(copy * SFS_ROOT_BYTES, 32);
	}
}

static inline size_t
block_at(uint64_t block)
{
	return root.data_start + block % root.blocks * BLOCK;
}

static inline void
patch_block(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	size_t at = block_at(target);

	change(at + offset % SFS_BLOCK_HEADER, bytes, len);
	sfs_hash(&key, image + at + 24, SFS_BLOCK_HEADER - 24, image + at + 8);
	disk_touch(at, SFS_BLOCK_HEADER);
}

/* The fuzzed build has a map at every fourth block (fuzz.mk). */
static inline void
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
	disk_touch(at, SFS_BLOCK_HEADER);
}

static inline void
patch_record(uint8_t target, uint16_t offset, const uint8_t *bytes, size_t len)
{
	struct original *o = &originals[target % original_count];
	size_t at = block_at(o->handle.block) + o->handle.offset;
	struct sfs_block_header block;
	MUST(sfs_block_decode(
		&key, pristine + block_at(o->handle.block), o->handle.block, &block));
	const struct sfs_record_location place = {.block = o->handle.block,
		.generation = o->handle.generation,
		.first_sequence = block.first_sequence,
		.stream = o->handle.stream,
		.offset = o->handle.offset};

	change(at + offset % (SFS_RECORD_WIDE + 64), bytes, len);
	if ((pr_get_le32(image + at + 4) & 0xffffff) <= SIZE - at - SFS_RECORD_WIDE)
		sfs_record_seal(&key, &place, image + at);
	disk_touch(at, SFS_RECORD_WIDE);
	o->sealed_anew = any_sealed_anew = true;
}

/* Applies all patches; returns the file's size. */
static inline size_t
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
