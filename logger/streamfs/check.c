/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logger/streamfs/internal.h"

/* Reads all there is and names each fault; while a writer lives, what is recycled meanwhile is passed. */
struct check {
	struct sfs *sfs;
	sfs_fault_call call;
	void *arg;
	uint8_t *buf;
	int64_t faults;
	uint64_t records;
};

static void
fault(struct check *c, const char *stream, uint64_t block, uint32_t offset, const char *why)
{
	c->faults++;
	if (c->call)
		c->call(c->arg, stream, block, offset, why);
}

static void
check_roots(struct check *c)
{
	struct sfs *sfs = c->sfs;
	struct sfs_stream_entry *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	for (uint16_t d = 0; buf && streams && d < sfs->disks; d++) {
		for (uint32_t copy = 0; copy < 2; copy++) {
			struct sfs_root root;
			struct pr_error why = {0};
			char text[640];
			int rc = sfs_disk_read(
				&sfs->disk[d], buf, SFS_ROOT_BYTES, copy * SFS_ROOT_BYTES);
			if (rc == 0)
				rc = sfs_root_decode(buf, &root, streams, &why);
			/* a writer replaces the older copy all the time */
			if (rc == 0 || sfs_writer_alive(sfs))
				continue;
			snprintf(text, sizeof(text), "root copy %u of device %u: %s", copy,
				d, why.text[0] ? why.text : "cannot be read");
			fault(c, "-", 0, copy * SFS_ROOT_BYTES, text);
		}
	}
	free(buf);
	free(streams);
}

/* 0: as it should be; -1: the block is another one by now. */
static int
check_header(struct check *c, const struct sfs_stream *s, uint32_t block,
	const struct sfs_entry *e)
{
	struct sfs_block_header h;
	if (e->state == SFS_OPEN)
		return 0; /* may not have been written yet */
	if (sfs_read_header(c->sfs, block, &h) && h.generation == e->generation &&
		h.stream == s->id && h.first_sequence == e->first_sequence)
		return 0;
	if (sfs_block_gone(c->sfs, block, e->generation))
		return -1;
	struct sfs_entry again;
	if (sfs_view_entry(c->sfs, block, &again) && again.slot != SFS_NONE)
		return 0; /* still on its way to the device */
	fault(c, s->name, block, 0, "the block header is damaged");
	return 0;
}

static void
check_records(struct check *c, const struct sfs_stream *s, uint32_t block,
	const struct sfs_entry *e)
{
	struct sfs_scan scan = {&c->sfs->key, c->buf, block, e->generation, s->id};
	uint64_t sequence = e->first_sequence, end = sequence + e->records;
	uint32_t pos = SFS_BLOCK_HEADER;
	struct sfs_record_header h;
	while (sequence < end) {
		enum sfs_record_state state =
			sfs_scan_next(&scan, pos, e->end, sequence, &h);
		if (state == SFS_RECORD_GOOD) {
			c->records++;
			sequence++;
			pos = h.offset + (uint32_t)sfs_record_span(h.length);
			continue;
		}
		if (sfs_block_gone(c->sfs, block, e->generation))
			return;
		fault(c, s->name, block, pos,
			state == SFS_RECORD_BAD ? "the record's body is damaged"
						: "the record's header is damaged");
		if (!sfs_scan_resync(&scan, pos, e->end, sequence + 1, &h) ||
			h.sequence >= end)
			return;
		sequence = h.sequence;
		pos = h.offset;
	}
}

static void
check_block(struct check *c, const struct sfs_stream *s, uint32_t block,
	const struct sfs_entry *e)
{
	struct pr_error err;
	if (check_header(c, s, block, e) < 0)
		return;
	if (e->end <= SFS_BLOCK_HEADER)
		return;
	if (sfs_fetch(c->sfs, block, e, SFS_BLOCK_HEADER, e->end, c->buf, &err) != SFS_OK) {
		if (!sfs_block_gone(c->sfs, block, e->generation))
			fault(c, s->name, block, 0, err.text);
		return;
	}
	check_records(c, s, block, e);
}

static void
check_stream(struct check *c, const struct sfs_stream *s)
{
	uint64_t generation = 0;
	/* while a writer lives, the first block may be another by now */
	uint64_t expected = c->sfs->live ? 0 : s->first_sequence;
	struct sfs_entry e;
	for (uint32_t b = s->oldest; b != SFS_NONE; b = e.next) {
		if (!sfs_view_entry(c->sfs, b, &e) || e.stream != s->id ||
			e.generation <= generation)
			return;
		if (expected && e.first_sequence != expected)
			fault(c, s->name, b, 0, "records before this block are missing");
		check_block(c, s, b, &e);
		generation = e.generation;
		expected = e.first_sequence + e.records;
	}
	if (expected && !c->sfs->live && !c->sfs->writer &&
		expected != s->last_sequence + 1)
		fault(c, s->name, s->newest, 0, "the stream's last records are missing");
}

static void
check_maps(struct check *c)
{
	struct sfs *sfs = c->sfs;
	if (sfs->live || sfs->writer)
		return;
	for (uint64_t pos = sfs->root.map_interval - 1; pos < sfs->root.high_water;
		pos += sfs->root.map_interval) {
		struct sfs_block_header h;
		uint64_t ahead =
			(pos + sfs->root.blocks - sfs->root.frontier) % sfs->root.blocks;
		if (ahead < sfs->root.window)
			continue; /* not written yet, perhaps */
		if (!sfs_map_read(sfs, pos, c->buf, &h))
			fault(c, "-", pos, 0, "the block map is damaged");
	}
}

int64_t
sfs_check(struct sfs *sfs, sfs_fault_call call, void *arg, uint64_t *records,
	struct pr_error *err)
{
	struct check c = {.sfs = sfs, .call = call, .arg = arg};
	struct sfs_stream s;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present");
	c.buf = sfs_buffer(sfs->root.block_size);
	if (!c.buf)
		return pr_error_set(err, "no memory for a block");
	check_roots(&c);
	check_maps(&c);
	for (uint32_t i = 0; i < sfs_view_streams(sfs); i++)
		if (sfs_view_stream(sfs, i, &s))
			check_stream(&c, &s);
	free(c.buf);
	if (records)
		*records = c.records;
	return c.faults;
}
