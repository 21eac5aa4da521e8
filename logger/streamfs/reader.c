/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"

/* ---- the table and blocks, from the own table or the writer's ---- */

struct sfs_spot
sfs_locate(const struct sfs *sfs, uint64_t block)
{
	uint16_t device;
	uint64_t row;
	sfs_layout_place(&sfs->layout, block, &device, &row);
	return (struct sfs_spot){
		&sfs->disk[device], sfs->root.data_start + row * sfs->root.block_size};
}

int
sfs_read_block(struct sfs *sfs, uint64_t block, uint32_t from, uint32_t to, uint8_t *buf)
{
	struct sfs_spot at = sfs_locate(sfs, block);
	if (sfs_disk_read(at.disk, buf, to - from, at.offset + from) < 0)
		return -1;
	sfs_redo_over(sfs, block, from, to, buf);
	return 0;
}

int
sfs_write_block(struct sfs *sfs, uint64_t block, uint32_t from, const uint8_t *bytes,
	size_t len, struct pr_error *err)
{
	struct sfs_spot at = sfs_locate(sfs, block);
	if (!at.disk->missing &&
		sfs_disk_write(at.disk, bytes, len, at.offset + from) < 0 &&
		!sfs_disk_drop_failed(sfs, at.disk, errno))
		return pr_error_errno(
			err, "%s: cannot write block %" PRIu64, at.disk->path, block);
	return 0;
}

bool
sfs_read_header(struct sfs *sfs, uint64_t block, struct sfs_block_header *out)
{
	_Alignas(4096) uint8_t buf[SFS_SECTOR];
	return sfs_read_block(sfs, block, 0, SFS_SECTOR, buf) == 0 &&
	       sfs_block_decode(&sfs->key, buf, block, out);
}

/*
 * The first record's header lies in the same 512 bytes as the block's header, so no torn
 * write separates the two. A good record behind a bad block header therefore means damage,
 * and the record gives the block's fields.
 */
bool
sfs_read_identity(struct sfs *sfs, uint64_t block, struct sfs_block_header *out)
{
	_Alignas(4096) uint8_t buf[SFS_SECTOR] = {0};
	const struct sfs_map_entry *kept;
	bool readable = sfs_read_block(sfs, block, 0, SFS_SECTOR, buf) == 0;
	struct sfs_record_header r;
	if (readable && sfs_block_decode(&sfs->key, buf, block, out))
		return out->kind == SFS_KIND_DATA;
	*out = (struct sfs_block_header){.kind = SFS_KIND_DATA, .block = block};
	if (readable &&
		sfs_record_identify(&sfs->key, block, SFS_BLOCK_HEADER,
			buf + SFS_BLOCK_HEADER, SFS_SECTOR - SFS_BLOCK_HEADER, &r) &&
		r.index == 0) {
		PR_COPY(out, &r, stream, generation);
		out->first_sequence = r.sequence;
	} else if ((kept = sfs_repair_of(sfs, block, SFS_REPAIR_KEPT)) != NULL) {
		PR_COPY(out, kept, stream, generation, block_number, first_sequence);
	} else {
		return false;
	}
	return true;
}

bool
sfs_view_entry(struct sfs *sfs, uint64_t block, struct sfs_entry *out)
{
	const uint64_t blocks = sfs->root.blocks;
	if (block >= blocks ||
		(sfs->w && sfs->w->drop_pending && !sfs_block_there(sfs, block)))
		return false;
	if (!sfs->live) {
		*out = sfs->table.entry[block];
		return sfs_entry_holds(out);
	}
	/* checks the range of values from another process here, once */
	return sfs_seq_read(sfs->shm.entry[block].word, out, SFS_ENTRY_WORDS) &&
	       sfs_entry_holds(out) && out->end <= sfs->root.block_size &&
	       out->stream < SFS_STREAMS_MAX &&
	       (out->next == SFS_NONE || out->next < blocks) &&
	       (out->prev == SFS_NONE || out->prev < blocks) && out->first_sequence != 0;
}

uint32_t
sfs_view_streams(struct sfs *sfs)
{
	if (!sfs->live)
		return sfs->table.streams;
	uint32_t n = atomic_load_explicit(&sfs->shm.header->streams, memory_order_acquire);
	return n > SFS_STREAMS_MAX ? SFS_STREAMS_MAX : n;
}

bool
sfs_view_stream(struct sfs *sfs, uint32_t id, struct sfs_stream *out)
{
	if (id >= sfs_view_streams(sfs))
		return false;
	if (!sfs->live) {
		*out = sfs->table.stream[id];
		return true;
	}
	if (!sfs_seq_read(sfs->shm.stream[id].word, out, SFS_STREAM_WORDS))
		return false;
	out->name[SFS_NAME_MAX] = 0;
	return out->id == id &&
	       (out->oldest == SFS_NONE || out->oldest < sfs->root.blocks) &&
	       (out->newest == SFS_NONE || out->newest < sfs->root.blocks);
}

/*
 * Copies bytes [from, to) of a block to `at` + from % SFS_SECTOR. Takes what the slot has
 * from the slot, and the rest from the device in whole sectors, for which `at` must have
 * room. A block leaves its slot only when it has been written, and gets a slot again only
 * from the next sector on, so slot and device together have all bytes.
 */
static int
fetch_at(struct sfs *sfs, uint64_t block, const struct sfs_entry *e, uint32_t from,
	uint32_t to, uint8_t *at, struct pr_error *err)
{
	uint32_t low = from & ~(SFS_SECTOR - 1), split = to;

	if (sfs->shm.header && e->slot != SFS_NONE) {
		split = sfs_shm_valid_from(&sfs->shm, e->slot);
		split = PR_MIN(PR_MAX(split, from), to);
		if (split < to && !sfs_shm_copy(&sfs->shm, e->slot, block, e->generation,
					  split, to, at + (split - low)))
			split = to;
	}
	if (split == from)
		return SFS_OK;
	uint32_t high = sfs_sector_up(split);
	/* only a hostile writer splits within a sector */
	if (high > split && split < to)
		return pr_error_set(
			err, "block %" PRIu64 " is not whole in shared memory", block);
	sfs_give_way(sfs);
	if (sfs_read_block(sfs, block, low, high, at) < 0)
		return pr_error_errno(
			err, "cannot read block %" PRIu64 " of the volume", block);
	return SFS_OK;
}

int
sfs_fetch(struct sfs *sfs, uint64_t block, const struct sfs_entry *e, uint32_t from,
	uint32_t to, uint8_t *buf, struct pr_error *err)
{
	return fetch_at(sfs, block, e, from, to, buf + (from & ~(SFS_SECTOR - 1)), err);
}

/*
 * The writer holds an open-file-description lock on the first device for as long as it lives,
 * however it dies; asking works across processes, and within one.
 */
bool
sfs_writer_alive(struct sfs *sfs)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	if (sfs->writer)
		return true;
	int fd = sfs_first_disk(sfs)->fd;
	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) >= 0 && lock.l_type == F_WRLCK;
}

/* ---- records in a block's bytes ---- */

struct sfs_scan
sfs_scan_of(const struct sfs *sfs, const uint8_t *bytes, uint64_t block,
	const struct sfs_entry *e)
{
	return (struct sfs_scan){.key = &sfs->key,
		.bytes = bytes,
		.place = {.block = block,
			.generation = e->generation,
			.first_sequence = e->first_sequence,
			.stream = e->stream},
		.pos = SFS_BLOCK_HEADER,
		.end = e->end,
		.sequence = e->first_sequence};
}

/*
 * Decodes the record at pos. It counts only at its own place, in the block's present
 * generation.
 */
static enum sfs_record_state
record_at(const struct sfs_scan *scan, uint32_t pos, struct sfs_record_header *out)
{
	struct sfs_record_location place = scan->place;
	place.offset = pos;
	if (pos >= scan->end)
		return SFS_RECORD_NONE;
	return sfs_record_decode(
		scan->key, &place, scan->bytes + pos, scan->end - pos, out);
}

static void
go_behind(struct sfs_scan *scan, const struct sfs_record_header *h)
{
	scan->pos = sfs_record_end(h);
	scan->sequence = h->sequence + 1;
}

/* The next record begins right behind the one before, or in the next sector. */
enum sfs_record_state
sfs_scan_next(struct sfs_scan *scan, struct sfs_record_header *out)
{
	enum sfs_record_state state = record_at(scan, scan->pos, out);
	uint32_t sector = sfs_sector_up(scan->pos);
	if (state == SFS_RECORD_NONE && sector != scan->pos)
		state = record_at(scan, sector, out);
	if (state != SFS_RECORD_NONE && out->sequence != scan->sequence)
		return SFS_RECORD_NONE;
	if (state == SFS_RECORD_GOOD)
		go_behind(scan, out);
	return state;
}

/*
 * A body that does not match its valid header costs a hash: a block made on purpose with
 * many of them is given up after BAD_MAX.
 */
#define BAD_MAX 64

bool
sfs_scan_resync(struct sfs_scan *scan, uint64_t limit, struct sfs_record_header *out)
{
	int bad = 0;
	if (scan->sequence >= limit)
		return false;
	for (uint32_t pos = (scan->pos + 7) & ~7u;
		pos + SFS_RECORD_HEADER <= scan->end && bad < BAD_MAX; pos += 8) {
		if (!sfs_record_begins(scan->bytes + pos))
			continue;
		enum sfs_record_state state = record_at(scan, pos, out);
		if (state == SFS_RECORD_GOOD && out->sequence >= scan->sequence) {
			if (out->sequence >= limit)
				return false;
			go_behind(scan, out);
			return true;
		}
		bad += state == SFS_RECORD_BAD;
	}
	return false;
}

/* ---- records by handle ---- */

void
sfs_record_out(const struct sfs_key *key, const struct sfs_record_header *h,
	const uint8_t *body, struct sfs_record *out)
{
	*out = (struct sfs_record){.body = body};
	PR_COPY(out, h, stream, permission, min_time, max_time, sequence, length);
	sfs_handle_make(key, h, &out->handle);
}

bool
sfs_permitted(const struct sfs *sfs, uint32_t permission)
{
	return sfs->permission_mask == 0 || (permission & ~sfs->permission_mask) == 0;
}

uint64_t
sfs_handle_size(const struct sfs_handle *h)
{
	return sfs_record_size(h->header, h->length);
}

static struct sfs_record_location
handle_place(const struct sfs_handle *h, uint64_t first_sequence)
{
	struct sfs_record_location place = {.first_sequence = first_sequence};
	PR_COPY(&place, h, block, generation, stream, offset);
	return place;
}

static int
lost(struct pr_error *err)
{
	return pr_error_as(SFS_EXPIRED, err,
		"the record was overwritten, or a crash lost it before it was durable");
}

/*
 * True if the record is among those of the entry. If the last records of a block were
 * deleted, its end is not known: records that a crash took may follow.
 */
static bool
counted(const struct sfs_entry *e, const struct sfs_record_header *h)
{
	return h->sequence < sfs_entry_end(e);
}

/* Finds the handle's block in the table, and checks that it still holds the record. */
static int
find_block(struct sfs *sfs, const struct sfs_handle *h, struct sfs_entry *e,
	struct pr_error *err)
{
	uint64_t span = sfs_handle_size(h);
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present");
	if (h->check != sfs_handle_check(&sfs->key, h) || h->block >= sfs->root.blocks ||
		(h->header != SFS_RECORD_HEADER && h->header != SFS_RECORD_WIDE) ||
		h->offset < SFS_BLOCK_HEADER || h->offset % 8 != 0 ||
		h->offset + span > sfs->root.block_size)
		return pr_error_as(SFS_FORGED, err, "the handle is not of this volume");
	if (sfs_view_entry(sfs, h->block, e) && e->generation == h->generation &&
		e->stream == h->stream && h->offset + span <= e->end)
		return SFS_OK;
	if (!sfs_block_there(sfs, h->block))
		return pr_error_set(err,
			"block %" PRIu64 " lies on a device of the volume that is missing",
			h->block);
	return lost(err);
}

/* True if the block has been overwritten since it had this generation. */
bool
sfs_block_gone(struct sfs *sfs, uint64_t block, uint64_t generation)
{
	struct sfs_entry e;
	struct sfs_block_header h;
	if (!sfs_view_entry(sfs, block, &e) || e.generation != generation)
		return true;
	if (sfs->live || sfs->writer)
		return false;
	/* a reader's own table does not follow a writer that has started since */
	return sfs_read_header(sfs, block, &h) && h.generation != generation;
}

static bool
is_that(const struct sfs_key *key, const struct sfs_record_header *record,
	const struct sfs_handle *h)
{
	struct sfs_handle found;
	sfs_handle_make(key, record, &found);
	return memcmp(&found, h, sizeof(found)) == 0;
}

/* True if `at`, the sectors of the handle's record, contain that record undamaged. */
static bool
prove(const struct sfs_key *key, const struct sfs_handle *h, uint64_t first_sequence,
	const uint8_t *at, struct sfs_record_header *record)
{
	const struct sfs_record_location place = handle_place(h, first_sequence);
	return sfs_record_decode(key, &place, at + h->offset % SFS_SECTOR,
		       sfs_handle_size(h), record) == SFS_RECORD_GOOD &&
	       is_that(key, record, h);
}

/*
 * True if a repair dropped the record together with all that follow in its block, without
 * noting the block. A handle does not have its record's sequence: it follows those of the
 * good records before.
 */
static bool
dropped_with_rest(struct sfs *sfs, const struct sfs_handle *h, const struct sfs_entry *e)
{
	struct sfs_scan scan = sfs_scan_of(sfs, sfs->scratch, h->block, e);
	uint64_t end = sfs_entry_end(e);
	struct sfs_record_header r;
	if (sfs->repairs == 0 || sfs_fetch(sfs, h->block, e, scan.pos, h->offset,
					 sfs->scratch, NULL) != SFS_OK)
		return false;
	scan.end = h->offset;
	while (scan.sequence < end && sfs_scan_next(&scan, &r) == SFS_RECORD_GOOD)
		;
	return scan.sequence < end &&
	       sfs_repairs_cover(sfs, e->stream, scan.sequence, end - 1);
}

static int
fetch_record(struct sfs *sfs, const struct sfs_handle *h, uint8_t *at,
	struct sfs_record_header *record, struct pr_error *err)
{
	const uint32_t end = h->offset + sfs_handle_size(h);
	struct sfs_map_entry hole;
	struct sfs_entry e;
	bool good = false;
	/* the second try sees an overwritten block as gone, and reads cached bytes again */
	for (int tries = 0; tries < 2 && !good; tries++) {
		int rc = find_block(sfs, h, &e, err);
		if (rc == SFS_OK)
			rc = fetch_at(sfs, h->block, &e, h->offset, end, at, err);
		if (rc != SFS_OK)
			return rc;
		good = prove(&sfs->key, h, e.first_sequence, at, record);
	}
	/* a deleted record may still be there while it is being erased */
	if (good ? sfs_deleted_record(sfs, &e, record->sequence)
		 : sfs_deleted_handle(sfs, h, &e, &hole))
		return pr_error_as(SFS_DELETED, err, "the record was deleted");
	if (good)
		return counted(&e, record) ? SFS_OK : lost(err);
	if (sfs_block_gone(sfs, h->block, h->generation))
		return pr_error_as(SFS_EXPIRED, err, "the record was overwritten");
	if (sfs_repairs_cover_at(sfs, h->block, h->generation, h->offset, end) ||
		dropped_with_rest(sfs, h, &e))
		return pr_error_as(SFS_EXPIRED, err,
			"the record was damaged, and dropped by a repair");
	return pr_error_as(SFS_CORRUPT, err,
		"block %" PRIu64 " is damaged at byte %u: the record is lost", h->block,
		h->offset);
}

int
sfs_read_header_of(struct sfs *sfs, const struct sfs_handle *handle, struct sfs_record *out,
	struct pr_error *err)
{
	_Alignas(4096) uint8_t buf[2 * SFS_SECTOR];
	const uint32_t at = handle->offset;
	struct sfs_record_header h;
	struct sfs_entry e;
	/* the header alone, which the volume's key proves */
	if (find_block(sfs, handle, &e, err) == SFS_OK &&
		fetch_at(sfs, handle->block, &e, at, at + handle->header, buf, err) ==
			SFS_OK) {
		const struct sfs_record_location place =
			handle_place(handle, e.first_sequence);
		if (sfs_record_peek(
			    &sfs->key, &place, buf + at % SFS_SECTOR, handle->header, &h) &&
			is_that(&sfs->key, &h, handle) && counted(&e, &h) &&
			!sfs_deleted_record(sfs, &e, h.sequence) &&
			sfs_permitted(sfs, h.permission)) {
			sfs_record_out(&sfs->key, &h, NULL, out);
			return SFS_OK;
		}
	}
	/* damaged, or just gone, or readable only as a whole */
	return sfs_read(sfs, handle, NULL, 0, NULL, out, err);
}

size_t
sfs_read_room(const struct sfs_handle *handle)
{
	return sfs_sector_up(handle->offset % SFS_SECTOR + sfs_handle_size(handle));
}

static int
read_at(struct sfs *sfs, const struct sfs_handle *handle, uint8_t *at,
	struct sfs_record_header *h, struct pr_error *err)
{
	int rc = fetch_record(sfs, handle, at, h, err);
	bool moved = rc == SFS_EXPIRED && !sfs->live && sfs_writer_alive(sfs);
	if (!sfs->writer && (moved || rc == SFS_CORRUPT)) {
		/* a writer may have started since, and deleted the record: take its table */
		if (sfs_refresh(sfs, err) == SFS_OK)
			rc = fetch_record(sfs, handle, at, h, err);
	}
	if (rc == SFS_OK && !sfs_permitted(sfs, h->permission))
		return pr_error_as(
			SFS_DENIED, err, "the record's permission is %#x", h->permission);
	return rc;
}

int
sfs_read_in(struct sfs *sfs, const struct sfs_handle *handle, void *room, size_t size,
	struct sfs_record *out, struct pr_error *err)
{
	struct sfs_record_header h;
	uint8_t *at = room;

	if (sfs_read_room(handle) > size)
		return pr_error_as(SFS_TOO_BIG, err,
			"the record has %u bytes, the buffer %zu", handle->length, size);
	int rc = read_at(sfs, handle, at, &h, err);
	if (rc == SFS_OK)
		sfs_record_out(&sfs->key, &h, at + h.offset % SFS_SECTOR + h.size, out);
	return rc;
}

int
sfs_read(struct sfs *sfs, const struct sfs_handle *handle, void *buf, size_t size,
	size_t *length, struct sfs_record *out, struct pr_error *err)
{
	struct sfs_record record;
	/* what does not fit a block is refused before it is read */
	int rc = sfs_read_in(sfs, handle, sfs->scratch, SIZE_MAX, &record, err);

	if (rc != SFS_OK)
		return rc;
	if (length)
		*length = record.length;
	if (buf && record.length > size)
		return pr_error_as(SFS_TOO_BIG, err,
			"the record has %u bytes, the buffer %zu", handle->length, size);
	if (buf)
		record.body = memcpy(buf, record.body, record.length);
	if (out)
		*out = record;
	return SFS_OK;
}

int
sfs_read_part(struct sfs *sfs, const struct sfs_handle *handle, size_t offset,
	size_t length, void *room, size_t size, const uint8_t **at, struct pr_error *err)
{
	size_t from = (size_t)handle->offset + handle->header + offset;
	struct sfs_record_header h;
	struct sfs_stream stream;
	struct sfs_record whole;
	struct sfs_entry e;

	if (handle->length > sfs->root.block_size || offset > handle->length ||
		length > handle->length - offset || length + 2 * SFS_SECTOR > size)
		return pr_error_as(SFS_TOO_BIG, err, "bytes %zu to %zu of a record of %u",
			offset, offset + length, handle->length);
	/* the permission is in the header, and only the whole record proves it */
	int rc =
		sfs->permission_mask ? read_at(sfs, handle, sfs->scratch, &h, err) : SFS_OK;
	if (rc == SFS_OK)
		rc = find_block(sfs, handle, &e, err);
	if (rc != SFS_OK)
		return rc;
	if (!sfs_view_stream(sfs, handle->stream, &stream) ||
		!sfs_permitted(sfs, stream.permission))
		return pr_error_as(
			SFS_DENIED, err, "the stream's records are not for everybody");
	*at = (const uint8_t *)room + from % SFS_SECTOR;
	rc = fetch_at(sfs, handle->block, &e, from, from + length, room, err);
	/*
	 * a block is marked before anything in it is erased: if it is marked now, the
	 * record is checked again
	 */
	if (rc == SFS_OK && sfs_view_entry(sfs, handle->block, &e) &&
		(e.flags & SFS_ENTRY_CUT))
		rc = sfs_read_header_of(sfs, handle, &whole, err);
	return rc;
}

/* ---- reading in two steps ---- */

/* One thread finds where the record lies; any thread may then read it. */

/* The content of struct sfs_plan, which is opaque to callers. */
struct plan {
	struct sfs_key key;
	struct sfs_handle handle;
	uint64_t first_sequence; /* of its block */
	uint64_t offset; /* on the device, of the sector where the record begins */
	uint32_t permission_mask;
	int fd;
};
_Static_assert(sizeof(struct plan) <= sizeof(struct sfs_plan), "a plan fits");

int
sfs_read_plan(struct sfs *sfs, const struct sfs_handle *handle, struct sfs_plan *out)
{
	struct plan *p = (struct plan *)out;
	struct sfs_entry e;

	if (find_block(sfs, handle, &e, NULL) != SFS_OK)
		return 0;
	bool in_slot = sfs->shm.header && e.slot != SFS_NONE;
	if (!out) /* a block that got its slot late has its first bytes on the device */
		return !in_slot || sfs_shm_valid_from(&sfs->shm, e.slot) > handle->offset;
	if (in_slot || (e.flags & SFS_ENTRY_CUT))
		return 0;
	struct sfs_spot at = sfs_locate(sfs, handle->block);
	if (at.disk->fd < 0 || at.disk->missing)
		return 0;
	sfs_give_way(sfs);
	*p = (struct plan){.key = sfs->key,
		.handle = *handle,
		.first_sequence = e.first_sequence,
		.offset = at.offset + handle->offset / SFS_SECTOR * SFS_SECTOR,
		.permission_mask = sfs->permission_mask,
		.fd = at.disk->fd};
	return 1;
}

int
sfs_read_planned(
	const struct sfs_plan *plan, void *room, size_t size, struct sfs_record *out)
{
	const struct plan *p = (const struct plan *)plan;
	const size_t len = sfs_read_room(&p->handle);
	struct sfs_record_header r;

	if (len > size)
		return SFS_TOO_BIG;
	for (size_t done = 0; done < len;) {
		ssize_t n =
			pread(p->fd, (uint8_t *)room + done, len - done, p->offset + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return SFS_ERROR;
		done += n;
	}
	if (!prove(&p->key, &p->handle, p->first_sequence, room, &r))
		return SFS_CORRUPT;
	if (p->permission_mask && (r.permission & ~p->permission_mask))
		return SFS_DENIED;
	sfs_record_out(&p->key, &r, (uint8_t *)room + r.offset % SFS_SECTOR + r.size, out);
	return SFS_OK;
}
