/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/check.h"

const char *
sfs_fault_text(enum sfs_fault_kind kind)
{
	static const char *const text[] = {
		"root", "map", "header", "record", "padding", "missing", "device"};
	return (unsigned)kind < sizeof(text) / sizeof(text[0]) ? text[kind] : "unknown";
}

bool
sfs_check_zero(const uint8_t *bytes, uint32_t from, uint32_t to)
{
	/* the least that a disk writes whole: what lies behind may be of a torn write */
	uint32_t whole = (from + 511) & ~511u;
	for (uint32_t i = from; i < to && i < whole; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static bool
noted(const struct sfs *sfs, const struct sfs_finding *f)
{
	const struct sfs_map_entry *kept;
	switch (f->fault.kind) {
	case SFS_FAULT_RECORD:
	case SFS_FAULT_MISSING:
		return sfs_repairs_cover(sfs, f->stream, f->fault.first, f->fault.last);
	case SFS_FAULT_PADDING:
		return sfs_repairs_cover_at(
			sfs, f->fault.block, f->generation, f->fault.offset, f->to);
	case SFS_FAULT_HEADER:
		kept = sfs_repairs_kept(sfs, f->fault.block);
		return kept && kept->generation == f->kept.generation;
	default:
		return false;
	}
}

void
sfs_check_found(struct sfs_check *c, struct sfs_finding *f)
{
	if (noted(c->sfs, f))
		return;
	c->faults++;
	if (c->call)
		c->call(c->arg, f);
}

struct sfs_finding
sfs_check_at(struct sfs_check *c, enum sfs_fault_kind kind, uint64_t block, uint32_t offset,
	const char *why)
{
	struct sfs_finding f = {.fault = {.kind = kind, .block = block, .offset = offset}};
	struct sfs_disk *disk;
	f.fault.why = why;
	if (block == SFS_NO_BLOCK)
		return f;
	sfs_locate(c->sfs, block, &disk, &f.fault.position);
	f.fault.position += offset;
	f.fault.device = disk->path[0] ? disk->path : NULL;
	return f;
}

/* NULL: as it should be. */
static const char *
root_fault(struct sfs_check *c, const uint8_t *buf, uint16_t disk, struct pr_error *why)
{
	struct sfs *sfs = c->sfs;
	struct sfs_stream_entry *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
	struct sfs_root root;
	uint32_t length;
	if (!streams)
		return "cannot be checked: no memory";
	int rc = sfs_root_decode(buf, &root, streams, why);
	if (rc == 0 && root.generation == sfs->root.generation)
		memcpy(c->streams, streams, SFS_STREAMS_MAX * sizeof(*streams));
	free(streams);
	if (rc < 0)
		return why->text;
	length = sfs_root_length(&root);
	if (memcmp(root.uuid, sfs->root.uuid, 16) != 0) {
		c->uuid_faults++;
		return "it is of another volume";
	}
	if (root.device_index != disk || root.device_count != sfs->root.device_count)
		return "it is of another device";
	if (buf[12] != 0 || buf[13] != SFS_ROOT_HEADER >> 8 || buf[14] || buf[15])
		return "the root is damaged (header length)";
	if (!sfs_check_zero(buf, length, SFS_ROOT_BYTES))
		return "the bytes behind it are not zero";
	return NULL;
}

bool
sfs_check_there(struct sfs_check *c, uint64_t block)
{
	struct sfs_disk *disk;
	uint64_t offset;
	sfs_locate(c->sfs, block, &disk, &offset);
	return !disk->missing && !disk->lost;
}

/* One that is missing is one fault; one that was left out of the volume is none. */
static void
check_devices(struct sfs_check *c)
{
	for (uint16_t i = 0; i < c->sfs->disks; i++) {
		const struct sfs_disk *disk = &c->sfs->disk[i];
		char text[400];
		if (!disk->missing || disk->lost)
			continue;
		snprintf(text, sizeof(text), "device %u of the volume is missing: %.300s",
			i, disk->why);
		struct sfs_finding f =
			sfs_check_at(c, SFS_FAULT_DEVICE, SFS_NO_BLOCK, 0, text);
		f.fault.device = disk->path[0] ? disk->path : NULL;
		sfs_check_found(c, &f);
	}
}

static void
check_roots(struct sfs_check *c)
{
	struct sfs *sfs = c->sfs;
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	/* a writer replaces the older copy all the time */
	for (uint32_t i = 0; buf && i < sfs->disks * 2u && !sfs_writer_alive(sfs); i++) {
		struct sfs_disk *disk = &sfs->disk[i / 2];
		uint64_t at = i % 2 ? SFS_ROOT_BYTES : 0;
		struct pr_error why = {""};
		char text[640];
		const char *what = "it cannot be read";
		if (disk->missing || disk->lost)
			continue;
		if (sfs_disk_read(disk, buf, SFS_ROOT_BYTES, at) == 0)
			what = root_fault(c, buf, (uint16_t)(i / 2), &why);
		if (!what || sfs_writer_alive(sfs))
			continue;
		snprintf(text, sizeof(text), "root copy %c: %s", i % 2 ? 'B' : 'A', what);
		struct sfs_finding f =
			sfs_check_at(c, SFS_FAULT_ROOT, SFS_NO_BLOCK, 0, text);
		f.fault.device = disk->path;
		f.fault.position = at;
		sfs_check_found(c, &f);
	}
	free(buf);
}

bool
sfs_check_mapped(const struct sfs *sfs, uint64_t block)
{
	uint64_t interval = sfs->root.map_interval;
	uint64_t map = block - block % interval + interval - 1;
	return sfs_map_knows_all(sfs, &sfs->root, map);
}

/* The newest block of the interval that the map knows nothing of; 0: it knows all. */
static uint64_t
newer_than(struct sfs_check *c, uint64_t pos, uint64_t generation)
{
	uint64_t first = pos - (c->sfs->root.map_interval - 1), newest = generation;
	for (uint64_t b = first; b < pos; b++) {
		struct sfs_block_header h;
		if (sfs_read_header(c->sfs, b, &h) && h.generation > newest)
			newest = h.generation;
	}
	return newest > generation ? newest : 0;
}

static void
check_map(struct sfs_check *c, uint64_t pos)
{
	struct sfs_block_header h;
	struct sfs_finding f;
	char why[160], text[160];
	uint64_t newer;
	if (!sfs_map_read(c->sfs, pos, c->buf, &h)) {
		snprintf(text, sizeof(text), "the block map is damaged: %s",
			sfs_check_header_text(c->sfs, c->buf, pos, why, sizeof(why)));
		f = sfs_check_at(c, SFS_FAULT_MAP, pos, 0, text);
		sfs_check_found(c, &f);
		return;
	}
	uint32_t end = SFS_BLOCK_HEADER + (h.entries + h.late) * SFS_MAP_ENTRY;
	if (c->buf[6] || c->buf[7] ||
		!sfs_check_zero(c->buf, end, c->sfs->root.block_size)) {
		f = sfs_check_at(c, SFS_FAULT_MAP, pos, c->buf[6] || c->buf[7] ? 6 : end,
			"the block map: bytes that must be zero are not");
		sfs_check_found(c, &f);
	}
	newer = newer_than(c, pos, h.generation);
	if (newer == 0)
		return;
	snprintf(text, sizeof(text),
		"the block map is of generation %llu, a block it should list is of "
		"generation %llu",
		(unsigned long long)h.generation, (unsigned long long)newer);
	f = sfs_check_at(c, SFS_FAULT_MAP, pos, 0, text);
	f.stale = true;
	sfs_check_found(c, &f);
}

static void
check_maps(struct sfs_check *c)
{
	const struct sfs_root *r = &c->sfs->root;
	if (c->sfs->live || c->sfs->writer)
		return;
	for (uint64_t pos = r->map_interval - 1; pos < r->blocks; pos += r->map_interval)
		if (sfs_check_mapped(c->sfs, pos) && sfs_check_there(c, pos))
			check_map(c, pos);
}

int64_t
sfs_check_all(struct sfs *sfs, sfs_finding_call call, void *arg, uint64_t *records,
	uint64_t *uuid_faults, struct pr_error *err)
{
	struct sfs_check c = {.sfs = sfs, .call = call, .arg = arg};
	struct sfs_stream s;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present");
	c.buf = sfs_buffer(sfs->root.block_size);
	c.streams = calloc(SFS_STREAMS_MAX, sizeof(*c.streams));
	if (c.buf && c.streams) {
		check_devices(&c);
		check_roots(&c);
		check_maps(&c);
		for (uint32_t b = 0; b < sfs->root.blocks; b++)
			sfs_check_block(&c, b);
		for (uint32_t i = 0; i < sfs_view_streams(sfs); i++)
			if (sfs_view_stream(sfs, i, &s))
				sfs_check_stream(&c, &s);
	} else {
		c.faults = pr_error_set(err, "no memory for a block");
	}
	free(c.buf);
	free(c.streams);
	if (records)
		*records = c.records;
	if (uuid_faults)
		*uuid_faults = c.uuid_faults;
	return c.faults;
}

struct caller {
	sfs_fault_call call;
	void *arg;
};

static void
tell(void *arg, const struct sfs_finding *f)
{
	const struct caller *caller = arg;
	if (caller->call)
		caller->call(caller->arg, &f->fault);
}

int64_t
sfs_check(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	struct pr_error *err)
{
	struct caller caller = {call, arg};
	return sfs_check_all(sfs, tell, &caller, records, NULL, err);
}
