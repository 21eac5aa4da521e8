/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "logger/streamfs/internal.h"

void
sfs_record_out(const struct sfs *sfs, const struct sfs_record_header *h,
	const uint8_t *body, struct sfs_record *out)
{
	*out = (struct sfs_record){
		.stream = h->stream,
		.permission = h->permission,
		.min_time = h->min_time,
		.max_time = h->max_time,
		.sequence = h->sequence,
		.length = h->length,
		.body = body,
	};
	sfs_handle_make(&sfs->key, h, &out->handle);
}

bool
sfs_permitted(const struct sfs *sfs, uint32_t permission)
{
	return sfs->permission_mask == 0 || (permission & ~sfs->permission_mask) == 0;
}

uint32_t
sfs_handle_span(const struct sfs_handle *h)
{
	return (uint32_t)sfs_record_span(h->header, h->length);
}

struct sfs_place
sfs_handle_place(const struct sfs_handle *h, uint64_t first_sequence)
{
	return (struct sfs_place){.block = h->block,
		.generation = h->generation,
		.first_sequence = first_sequence,
		.stream = h->stream,
		.offset = h->offset};
}

static int
lost(struct pr_error *err)
{
	return pr_error_set(err,
		       "the record was recycled, or a crash lost it before it was durable"),
	       SFS_EXPIRED;
}

/* Where what a block ends with was deleted, nobody knows where it ends: what a crash took may lie behind. */
static bool
counted(const struct sfs_entry *e, const struct sfs_record_header *h)
{
	return h->sequence < e->first_sequence + e->records;
}

/* The block as the table has it: does it still hold what the handle speaks of? */
int
sfs_find_block(struct sfs *sfs, const struct sfs_handle *h, struct sfs_entry *e,
	struct pr_error *err)
{
	uint64_t span = sfs_handle_span(h);
	if (!sfs_handle_genuine(&sfs->key, h) || h->block >= sfs->root.blocks ||
		(h->header != SFS_RECORD_HEADER && h->header != SFS_RECORD_WIDE) ||
		h->offset < SFS_BLOCK_HEADER || h->offset % 8 != 0 ||
		h->offset + span > sfs->root.block_size)
		return pr_error_set(err, "the handle is not of this volume"), SFS_FORGED;
	if (sfs_view_entry(sfs, h->block, e) && e->generation == h->generation &&
		e->stream == h->stream && h->offset + span <= e->end)
		return SFS_OK;
	if (!sfs_block_there(sfs, h->block))
		return pr_error_set(err,
			       "block %llu lies on a device of the volume that is missing",
			       (unsigned long long)h->block),
		       SFS_ERROR;
	return lost(err);
}

/* Has the block been taken for something else since it was looked at? */
bool
sfs_block_gone(struct sfs *sfs, uint64_t block, uint64_t generation)
{
	struct sfs_entry e;
	struct sfs_block_header h;
	if (!sfs_view_entry(sfs, block, &e) || e.generation != generation)
		return true;
	if (sfs->live || sfs->writer)
		return false;
	/* a table of one's own says nothing of a writer that has come since */
	return sfs_read_header(sfs, block, &h) && h.generation != generation;
}

/* at: the sectors that hold the record */
static int
prove(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e,
	const uint8_t *at, struct sfs_record_header *record, struct pr_error *err)
{
	struct sfs_handle found;
	const struct sfs_place place = sfs_handle_place(h, e->first_sequence);
	enum sfs_record_state state = sfs_record_decode(
		&sfs->key, &place, at + h->offset % SFS_SECTOR, sfs_handle_span(h), record);
	if (state == SFS_RECORD_GOOD) {
		sfs_handle_make(&sfs->key, record, &found);
		if (memcmp(&found, h, sizeof(found)) == 0)
			return SFS_OK;
	}
	return pr_error_set(err, "block %llu is damaged at byte %u: the record is lost",
		       (unsigned long long)h->block, h->offset),
	       SFS_CORRUPT;
}

/*
 * Was the record dropped along with what came behind it, and the repair could not tell which block that
 * was in? A handle does not have its record's number: it is behind those of the good ones before it.
 */
static bool
dropped_with_rest(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(sfs, sfs->scratch, h->block, e);
	uint64_t sequence = e->first_sequence, end = sequence + e->records;
	uint32_t pos = SFS_BLOCK_HEADER;
	struct sfs_record_header r;
	struct pr_error ignored;
	if (sfs->repairs == 0 || sfs_fetch(sfs, h->block, e, pos, h->offset, sfs->scratch,
					 &ignored) != SFS_OK)
		return false;
	while (sequence < end &&
		sfs_scan_next(&scan, pos, h->offset, sequence, &r) == SFS_RECORD_GOOD) {
		pos = r.offset + (uint32_t)sfs_record_span(r.size, r.length);
		sequence++;
	}
	return sequence < end && sfs_repairs_cover(sfs, e->stream, sequence, end - 1);
}

static int
deleted(struct pr_error *err)
{
	return pr_error_set(err, "the record was deleted"), SFS_DELETED;
}

static int
fetch_record(struct sfs *sfs, const struct sfs_handle *h, uint8_t *at,
	struct sfs_record_header *record, struct pr_error *err)
{
	struct sfs_map_entry hole;
	struct sfs_entry e;
	int rc = SFS_CORRUPT;
	/* the second time round, what was being overwritten is gone, and what was cached is read anew */
	for (int tries = 0; tries < 2 && rc == SFS_CORRUPT; tries++) {
		rc = sfs_find_block(sfs, h, &e, err);
		if (rc != SFS_OK)
			return rc;
		rc = sfs_fetch_at(sfs, h->block, &e, h->offset,
			h->offset + sfs_handle_span(h), at, err);
		if (rc == SFS_OK)
			rc = prove(sfs, h, &e, at, record, err);
	}
	/* while it is being erased, it may still be there */
	if (rc == SFS_OK && sfs_deleted_record(sfs, &e, record->sequence))
		return deleted(err);
	if (rc == SFS_OK && !counted(&e, record))
		return lost(err);
	if (rc == SFS_CORRUPT && sfs_deleted_handle(sfs, h, &e, &hole))
		return deleted(err);
	if (rc == SFS_CORRUPT && sfs_block_gone(sfs, h->block, h->generation))
		return pr_error_set(err, "the record was recycled"), SFS_EXPIRED;
	if (rc == SFS_CORRUPT && (sfs_repairs_cover_at(sfs, h->block, h->generation,
					  h->offset, h->offset + sfs_handle_span(h)) ||
					 dropped_with_rest(sfs, h, &e)))
		return pr_error_set(err, "the record was damaged, and dropped by a repair"),
		       SFS_EXPIRED;
	return rc;
}

/* Its header alone, which the volume's key proves. */
static int
fetch_header(struct sfs *sfs, const struct sfs_handle *h, struct sfs_record_header *record,
	struct pr_error *err)
{
	_Alignas(4096) uint8_t buf[2 * SFS_SECTOR];
	struct sfs_handle found;
	struct sfs_entry e;
	int rc = sfs_find_block(sfs, h, &e, err);
	if (rc == SFS_OK)
		rc = sfs_fetch_at(
			sfs, h->block, &e, h->offset, h->offset + h->header, buf, err);
	if (rc != SFS_OK)
		return rc;
	const struct sfs_place place = sfs_handle_place(h, e.first_sequence);
	if (sfs_record_peek(
		    &sfs->key, &place, buf + h->offset % SFS_SECTOR, h->header, record)) {
		sfs_handle_make(&sfs->key, record, &found);
		if (memcmp(&found, h, sizeof(found)) == 0 && counted(&e, record) &&
			!sfs_deleted_record(sfs, &e, record->sequence))
			return SFS_OK;
	}
	return SFS_CORRUPT;
}

int
sfs_look(struct sfs *sfs, const struct sfs_handle *handle, struct sfs_record *out,
	struct pr_error *err)
{
	struct sfs_record_header h;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present"), SFS_ERROR;
	int rc = fetch_header(sfs, handle, &h, err);
	/* damaged, or just gone, or known to who reads all of it */
	if (rc != SFS_OK || !sfs_permitted(sfs, h.permission))
		return sfs_read(sfs, handle, NULL, 0, NULL, out, err);
	sfs_record_out(sfs, &h, NULL, out);
	return SFS_OK;
}

size_t
sfs_read_room(const struct sfs_handle *handle)
{
	return (size_t)sfs_sector_up(handle->offset % SFS_SECTOR +
				     sfs_record_span(handle->header, handle->length));
}

static int
read_at(struct sfs *sfs, const struct sfs_handle *handle, uint8_t *at,
	struct sfs_record_header *h, struct pr_error *err)
{
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present"), SFS_ERROR;
	int rc = fetch_record(sfs, handle, at, h, err);
	if (rc == SFS_EXPIRED && !sfs->writer && !sfs->live && sfs_writer_alive(sfs)) {
		/* a writer has come: it knows more */
		if (sfs_refresh(sfs, err) == SFS_OK)
			rc = fetch_record(sfs, handle, at, h, err);
	}
	if (rc == SFS_OK && !sfs_permitted(sfs, h->permission))
		return pr_error_set(err, "the record's permission is %#x", h->permission),
		       SFS_DENIED;
	return rc;
}

int
sfs_read_in(struct sfs *sfs, const struct sfs_handle *handle, void *room, size_t size,
	struct sfs_record *out, struct pr_error *err)
{
	struct sfs_record_header h;
	uint8_t *at = room;

	if (handle->length > sfs->root.block_size || sfs_read_room(handle) > size)
		return pr_error_set(err, "the record has %u bytes, the buffer %zu",
			       handle->length, size),
		       SFS_TOO_BIG;
	int rc = read_at(sfs, handle, at, &h, err);
	if (rc == SFS_OK)
		sfs_record_out(sfs, &h, at + h.offset % SFS_SECTOR + h.size, out);
	return rc;
}

int
sfs_read(struct sfs *sfs, const struct sfs_handle *handle, void *buf, size_t size,
	size_t *length, struct sfs_record *out, struct pr_error *err)
{
	struct sfs_record_header h;
	int rc = read_at(sfs, handle, sfs->scratch, &h, err);

	if (rc != SFS_OK)
		return rc;
	if (length)
		*length = h.length;
	const uint8_t *body = sfs->scratch + h.offset % SFS_SECTOR + h.size;
	if (buf) {
		if (h.length > size)
			return pr_error_set(err, "the record has %u bytes, the buffer %zu",
				       h.length, size),
			       SFS_TOO_BIG;
		memcpy(buf, body, h.length);
		body = buf;
	}
	if (out)
		sfs_record_out(sfs, &h, body, out);
	return SFS_OK;
}

static int
fetch_part(struct sfs *sfs, const struct sfs_handle *h, uint32_t from, uint32_t to,
	uint8_t *room, struct pr_error *err)
{
	struct sfs_stream stream;
	struct sfs_entry e;
	int rc = sfs_find_block(sfs, h, &e, err);

	if (rc != SFS_OK)
		return rc;
	if (!sfs_view_stream(sfs, h->stream, &stream) ||
		!sfs_permitted(sfs, stream.permission))
		return pr_error_set(err, "the stream's records are not for everybody"),
		       SFS_DENIED;
	return sfs_fetch_at(sfs, h->block, &e, from, to, room, err);
}

int
sfs_read_part(struct sfs *sfs, const struct sfs_handle *handle, size_t offset,
	size_t length, void *room, size_t size, const uint8_t **at, struct pr_error *err)
{
	size_t from = (size_t)handle->offset + handle->header + offset;

	if (handle->length > sfs->root.block_size || offset > handle->length ||
		length > handle->length - offset || length + 2 * SFS_SECTOR > size)
		return pr_error_set(err, "bytes %zu to %zu of a record of %u", offset,
			       offset + length, handle->length),
		       SFS_TOO_BIG;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present"), SFS_ERROR;
	/* its permission is in the header, and proven with the whole only */
	if (sfs->permission_mask) {
		struct sfs_record_header h;
		int rc = read_at(sfs, handle, sfs->scratch, &h, err);
		if (rc != SFS_OK)
			return rc;
	}
	*at = (const uint8_t *)room + from % SFS_SECTOR;
	int rc = fetch_part(
		sfs, handle, (uint32_t)from, (uint32_t)(from + length), room, err);
	/* a block is marked before anything in it is erased: zeros are not taken for what was written */
	struct sfs_record whole;
	struct sfs_entry e;
	if (rc == SFS_OK && sfs_view_entry(sfs, handle->block, &e) &&
		(e.flags & SFS_ENTRY_CUT))
		rc = sfs_look(sfs, handle, &whole, err);
	return rc;
}
