/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A volume with bytes changed. Covers logger/streamfs/format.c logger/streamfs/recover.c
 * logger/streamfs/cursor.c logger/streamfs/reader.c logger/streamfs/check.c logger/streamfs/repair.c
 * logger/streamfs/root.c logger/streamfs/holes.c logger/streamfs/delete.c
 * Options -max_len=256
 *
 * The input is a first byte (bit 0: open it as its writer, who recovers it and appends, before it is
 * read; bit 1 without 3 to 5: repair it first, which takes a file and long; bit 2: with bit 0, delete from its midst) and patches of a small valid volume, from
 * which something was deleted: kind, target, offset u16, length (up to 16), bytes.
 *   kind 0  a root copy (target % 3: A, B, both) at the offset, its checksum made right
 *        1  a block's header, its hash made right     2  a record, its hashes made right
 *        3  anywhere: target * 64 KiB + offset, nothing made right
 *        4  the entries of a block map, both its hashes made right
 *        5  the file is cut there
 * Whatever is done to it, each record that is given back is one that was written, but for those
 * that were sealed anew with other bytes.
 */
#include "tests/fuzz/volume_patches.h"

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
		if (steps % 4 == 0 && sfs_read(sfs, &record.handle, buf, sizeof buf,
					      &length, &again, NULL) == SFS_OK) {
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
	static const struct sfs_repair_options force = {.force = true};
	struct sfs_repair_result out;
	struct pr_error err = {""};
	int64_t faults = 0;

	MUST(ftruncate(file, (off_t)disk.size) == 0);
	MUST(pwrite(file, image, disk.size, 0) == (ssize_t)disk.size);
	if (sfs_repair(paths, 1, &force, on_fault, &faults, &out, &err) < 0)
		MUST(err.text[0]);
	else
		MUST(out.faults == (uint64_t)faults);
	MUST(pread(file, image, disk.size, 0) == (ssize_t)disk.size);
	disk_touch(0, SIZE);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t file_size;

	if (size < 1)
		return -1;
	disk_restore(pristine, SIZE);
	any_sealed_anew = false;
	for (size_t i = 0; i < original_count; i++)
		originals[i].sealed_anew = false;
	file_size = patch(data + 1, size - 1);
	disk.size = file_size;
	if ((data[0] & 0x3a) == 2)
		repair();
	if (data[0] & 1)
		recover_and_append(data[0] & 4);
	read_all();
	return 0;
}
