/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/* ---- slots of shared memory ---- */

/*
 * Slots of shared memory hold blocks while they are filled and, until the slot is needed
 * again, after. A slot may be taken from a block when all its bytes have been written. The
 * block may be sealed, or the open block of an idle stream, which continues later in
 * another slot, from its next sector on.
 */
static bool
tail_clean(const struct sfs_tail *tail)
{
	return !tail->reserved && tail->waiting == 0 && tail->submitted == tail->fill;
}

static bool
slot_clean(const struct sfs *sfs, uint32_t slot)
{
	const struct sfs_slot *s = &sfs->w->slot[slot];
	return s->in_flight == 0 && (!s->open || tail_clean(&sfs->w->tail[s->stream]));
}

void
sfs_slot_release(struct sfs *sfs, uint32_t slot)
{
	struct sfs_slot *s = &sfs->w->slot[slot];
	struct sfs_entry *e = &sfs->table.entry[s->block];
	if (s->open)
		sfs->w->tail[s->stream].slot = SFS_NONE;
	sfs_shm_slot_set(&sfs->shm, slot, 0, 0, 0);
	if (e->slot == slot) {
		e->slot = SFS_NONE;
		sfs_table_notify(&sfs->table, s->block);
	}
	s->open = false;
	s->used = 0;
}

/*
 * Writes out the open blocks that were not appended to for longest, a quarter of the slots.
 * Does nothing if as many sealed blocks are being written: their slots become free without
 * padding.
 */
static bool
write_idle_tails(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	uint32_t written = 0, leaving = 0, quarter = sfs->shm.slots / 4;
	for (uint32_t i = 0; i < sfs->shm.slots; i++)
		leaving += !w->slot[i].open && w->slot[i].in_flight > 0;
	if (leaving > 0 && leaving >= quarter)
		return false;
	for (; written <= quarter; written++) {
		uint32_t best = SFS_NONE;
		for (uint32_t i = 0; i < sfs->shm.slots; i++)
			if (w->slot[i].open && !w->tail[w->slot[i].stream].reserved &&
				w->tail[w->slot[i].stream].waiting > 0 &&
				(best == SFS_NONE || w->slot[i].used < w->slot[best].used))
				best = i;
		if (best == SFS_NONE ||
			!sfs_tail_submit(sfs, w->slot[best].stream, SFS_SECTOR))
			break;
	}
	return written > 0;
}

/*
 * The slot that can be had at once and was not used for longest; of streams with a share of memory only if they have more, or
 * there is no other.
 */
static uint32_t
oldest_slot(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	uint32_t best = SFS_NONE, shared = SFS_NONE;
	for (uint32_t i = 0; i < sfs->shm.slots; i++)
		w->tail[w->slot[i].stream].slots = 0;
	for (uint32_t i = 0; i < sfs->shm.slots; i++)
		w->tail[w->slot[i].stream].slots += w->slot[i].used > 0;
	for (uint32_t i = 0; i < sfs->shm.slots; i++) {
		const struct sfs_tail *tail = &w->tail[w->slot[i].stream];
		uint32_t *to =
			w->slot[i].used && tail->slots <= tail->memory ? &shared : &best;
		if (slot_clean(sfs, i) &&
			(*to == SFS_NONE || w->slot[i].used < w->slot[*to].used))
			*to = i;
	}
	return best != SFS_NONE ? best : shared;
}

/* Appending waits here, and only here, when the device is slower than the packets. */
static uint32_t
get_slot(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	for (;;) {
		uint32_t best = oldest_slot(sfs);
		if (best != SFS_NONE) {
			sfs_slot_release(sfs, best);
			return best;
		}
		if (sfs_pump(sfs, false))
			continue;
		bool more = write_idle_tails(sfs);
		if (!sfs_pump(sfs, true) && !more && w->queue.in_flight == 0)
			break;
	}
	return pr_error_as(SFS_NONE, err, "no buffer is free: %s",
		w->suspended ? w->error.text : "all are reserved");
}

/* Gives the stream's open block a slot for the bytes that are not on the device yet. */
int
sfs_slot_attach(struct sfs *sfs, uint32_t stream, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_tail *tail = &w->tail[stream];
	const struct sfs_stream *s = &sfs->table.stream[stream];
	uint32_t slot = get_slot(sfs, err), block = tail->block;
	if (slot == SFS_NONE)
		return SFS_ERROR;
	struct sfs_entry *e = &sfs->table.entry[block];
	w->slot[slot] = (struct sfs_slot){
		.block = block, .stream = stream, .open = true, .used = ++w->clock};
	sfs_shm_slot_set(&sfs->shm, slot, block, e->generation, tail->submitted);
	if (tail->submitted == 0) {
		struct sfs_block_header h = {.kind = SFS_KIND_DATA,
			.stream = stream,
			.block = block,
			.prev = sfs_table_head(&sfs->table, e->prev)};
		PR_COPY(&h, e, generation, block_number, first_sequence);
		PR_COPY(&h, s, permission, durable_sequence);
		memcpy(h.name, s->name, sizeof(h.name));
		sfs_block_encode(&sfs->key, &h, sfs_shm_data(&sfs->shm, slot));
	}
	tail->slot = e->slot = slot;
	sfs_table_notify(&sfs->table, block);
	return SFS_OK;
}

bool
sfs_block_release(void *arg, uint32_t block)
{
	struct sfs *sfs = arg;
	struct sfs_writer *w = sfs->w;
	struct sfs_entry *e = &sfs->table.entry[block];
	if ((sfs->wipes > 0 && sfs_repair_of(sfs, block, SFS_REPAIR_WIPE)) ||
		sfs_erasing_in(sfs, e))
		return false;
	if (e->slot != SFS_NONE && !slot_clean(sfs, e->slot))
		return false;
	if (e->state == SFS_OPEN) {
		struct sfs_tail *tail = &w->tail[e->stream];
		if (!tail_clean(tail))
			return false;
		tail->block = SFS_NONE;
	}
	if (e->slot != SFS_NONE)
		sfs_slot_release(sfs, e->slot);
	return true;
}

/* ---- block maps ---- */

struct sfs_map_entry
sfs_map_entry_make(const struct sfs_entry *e, uint32_t block, uint32_t flags)
{
	struct sfs_map_entry m = {.flags = flags, .block = block};
	PR_COPY(&m, e, stream, generation, first_sequence, block_number, records, end,
		min_time, max_time);
	return m;
}

static void
put_entry(const struct sfs *sfs, uint32_t block, uint8_t *to)
{
	const struct sfs_entry *e = &sfs->table.entry[block];
	struct sfs_map_entry m =
		sfs_map_entry_make(e, block, e->state == SFS_OPEN ? SFS_MAP_OPEN : 0);
	sfs_map_entry_encode(&m, to);
}

/* A repair has no writer, and so no late entries. */
size_t
sfs_map_build(struct sfs *sfs, uint32_t block, uint64_t generation, uint8_t *buf)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_block_header h = {
		.kind = SFS_KIND_MAP, .block = block, .generation = generation};
	uint8_t *p = buf + SFS_BLOCK_HEADER;
	for (uint32_t b = block - (sfs->table.interval - 1); b < block; b++) {
		struct sfs_entry *e = &sfs->table.entry[b];
		if (!sfs_entry_holds(e))
			continue;
		put_entry(sfs, b, p + h.entries++ * SFS_MAP_ENTRY);
		if (e->state == SFS_OPEN)
			e->flags |= SFS_ENTRY_MAPPED_OPEN;
	}
	for (uint32_t i = 0; w && i < w->sealed_after_map_count; i++)
		if (sfs->table.entry[w->sealed_after_map[i]].state == SFS_SEALED)
			put_entry(sfs, w->sealed_after_map[i],
				p + (h.entries + h.late++) * SFS_MAP_ENTRY);
	if (w)
		w->sealed_after_map_count = 0;
	size_t body = (h.entries + h.late) * SFS_MAP_ENTRY;
	size_t whole = sfs_sector_up(SFS_BLOCK_HEADER + body);
	sfs_hash(&sfs->key, p, body, h.body_hash);
	memset(p + body, 0, whole - SFS_BLOCK_HEADER - body);
	sfs_block_encode(&sfs->key, &h, buf);
	return whole;
}

static int
write_map(struct sfs *sfs, uint32_t block, uint64_t generation, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	while (w->map_in_flight && (sfs_pump(sfs, true) || w->queue.in_flight > 0))
		;
	if (w->map_in_flight || !sfs_map_submit(sfs, block,
					sfs_map_build(sfs, block, generation, w->map_buf)))
		return pr_error_set(err,
			"cannot write the block map: %s (retried when the device works "
			"again)",
			w->error.text);
	sfs->table.entry[block] =
		(struct sfs_entry){.generation = generation, .state = SFS_MAP, SFS_ALONE};
	sfs_table_notify(&sfs->table, block);
	return 0;
}

bool
sfs_map_read(struct sfs *sfs, uint64_t pos, uint8_t *buf, struct sfs_block_header *h)
{
	uint32_t size = sfs->root.block_size, have = SFS_MAP_FIRST;
	uint8_t hash[16];
	if (sfs_read_block(sfs, pos, 0, have, buf) < 0 ||
		!sfs_block_decode(&sfs->key, buf, pos, h) || h->kind != SFS_KIND_MAP ||
		h->generation > sfs->root.generation_limit ||
		h->entries >= sfs->root.map_interval ||
		h->late > (size - SFS_BLOCK_HEADER) / SFS_MAP_ENTRY - SFS_MAP_INTERVAL)
		return false;
	uint32_t body = (h->entries + h->late) * SFS_MAP_ENTRY;
	uint32_t need = sfs_sector_up(SFS_BLOCK_HEADER + body);
	if (need > have && sfs_read_block(sfs, pos, have, need, buf + have) < 0)
		return false;
	sfs_hash(&sfs->key, buf + SFS_BLOCK_HEADER, body, hash);
	return memcmp(hash, h->body_hash, 16) == 0;
}

/* ---- start, stop, blocks ---- */

static int
make_memory(struct sfs *sfs, const struct sfs_open_options *options, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	const uint32_t size = sfs->root.block_size;
	size_t bytes = options->shm_bytes ? options->shm_bytes : SFS_SHM_DEFAULT;
	if (sfs_shm_create(
		    &sfs->shm, &sfs->root, bytes, sfs_first_disk(sfs)->fd >= 0, err) < 0)
		return -1;
	/* several writes of a slot may be under way; plus roots, syncs and maps */
	uint32_t requests =
		sfs->shm.slots * (6 + size / SFS_BLOCK_DEFAULT) + 4 * SFS_DEVICES_MAX;
	w->sealed_after_map_room =
		(size - SFS_BLOCK_HEADER) / SFS_MAP_ENTRY - SFS_MAP_INTERVAL;
	w->slot = calloc(sfs->shm.slots, sizeof(*w->slot));
	w->sealed_after_map =
		calloc(w->sealed_after_map_room, sizeof(*w->sealed_after_map));
	w->map_buf = sfs_buffer(size);
	w->root_buf = sfs_buffer(sfs->disks * SFS_ROOT_BYTES);
	w->pool = calloc(requests, sizeof(*w->pool));
	if (!w->slot || !w->sealed_after_map || !w->map_buf || !w->root_buf || !w->pool)
		return pr_error_set(err, "no memory to write the volume");
	for (uint32_t i = 0; i < requests; i++) {
		w->pool[i].next = w->idle;
		w->idle = &w->pool[i];
	}
	w->idle_count = requests;
	for (uint32_t i = 0; i < SFS_STREAMS_MAX; i++)
		w->tail[i].block = w->tail[i].slot = SFS_NONE;
	return 0;
}

static void
note_late(struct sfs *sfs, uint32_t block)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_entry *e = &sfs->table.entry[block];
	/* without room, recovery reads the header of the stream's next block instead */
	if ((e->flags & SFS_ENTRY_MAPPED_OPEN) &&
		w->sealed_after_map_count < w->sealed_after_map_room)
		w->sealed_after_map[w->sealed_after_map_count++] = block;
}

/*
 * Writes again the maps of the blocks that the frontier had passed since the last root. After a
 * crash some of them may not be on the device, and once the next root is durable nobody reads these
 * intervals' headers any more. Blocks that a map calls open are sealed by now: the next map says
 * how they ended. A map gets the generation that follows the newest one before it: the lost map had
 * that or a later one, and every block behind it has a later one. It must not be beyond the root's
 * generation limit: after another crash a block would get the same generation again, and recovery
 * would go on from the wrong block.
 */
static int
mend_maps(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	const struct sfs_root *r = &sfs->root;
	uint64_t newest = 0; /* newest generation outside the range that was passed */
	for (uint32_t b = 0; b < r->blocks; b++) {
		const struct sfs_entry *e = &sfs->table.entry[b];
		uint64_t behind = (r->frontier + r->blocks -
					  sfs_order_position(&sfs->table.order, b)) %
				  r->blocks;
		bool passed =
			behind == 0 ? sfs->passed == r->blocks : behind <= sfs->passed;
		if (!passed && e->generation > newest)
			newest = e->generation;
		if (e->state == SFS_SEALED)
			note_late(sfs, b);
	}
	for (uint64_t n = sfs->passed; n > 0; n--) {
		uint64_t pos = (r->frontier + r->blocks - n) % r->blocks;
		uint32_t block = sfs_order_block(&sfs->table.order, pos);
		if (!sfs_table_is_map(&sfs->table, block)) {
			newest = PR_MAX(newest, sfs->table.entry[block].generation);
			continue;
		}
		newest++;
		if (!sfs_block_there(sfs, block))
			continue;
		size_t len = sfs_map_build(sfs, block, newest, w->map_buf);
		if (sfs_write_block(sfs, block, 0, w->map_buf, len, err) < 0)
			return -1;
	}
	return 0;
}

/*
 * After recovery: the frontier continues behind the newest block. What recovery found is
 * made durable, then a root after which the first batch of blocks may be written.
 */
static int
start_frontier(struct sfs *sfs, bool keep, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	const struct sfs_root *r = &sfs->root;
	bool erasing = sfs->erasing > 0;
	w->root_full = 2;
	if (mend_maps(sfs, err) < 0 || sfs_sync_disks(sfs, err) < 0 ||
		sfs_wipe(sfs, err) < 0)
		return -1;
	if (sfs_frontier_init(&w->frontier, r->blocks, sfs->shm.slots, r->frontier,
		    r->generation_limit + 1, r->high_water, err) < 0)
		return -1;
	w->frontier.keep = keep;
	sfs_frontier_clear(&w->frontier, &sfs->table, sfs_block_release, sfs);
	if (sfs_root_store(sfs, 0, err) < 0)
		return -1;
	return erasing ? sfs_root_clean(sfs, err) : 0;
}

int
sfs_writer_start(
	struct sfs *sfs, const struct sfs_open_options *options, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w = calloc(1, sizeof(*w));
	struct sfs_table *t = &sfs->table;
	enum sfs_queue_kind kind =
		options->one_thread ? SFS_QUEUE_ONE_THREAD : SFS_QUEUE_ANY;
	if (!w)
		return pr_error_set(err, "no memory to write the volume");
	w->flush_interval = options->flush_interval ? options->flush_interval : 200000000;
	if (make_memory(sfs, options, err) < 0 ||
		sfs_open_queue(sfs, &w->queue,
			options->no_direct ? SFS_QUEUE_NO_URING : kind, err) < 0 ||
		start_frontier(sfs, options->keep, err) < 0)
		return -1;
	struct sfs_shm_header *h = sfs->shm.header;
	sfs_queue_pin(
		&w->queue, sfs->shm.data, (size_t)sfs->shm.slots * sfs->shm.block_size);
	t->shm = &sfs->shm;
	for (uint32_t i = 0; i < t->blocks; i++)
		if (t->entry[i].state != SFS_FREE)
			sfs_table_notify(t, i);
	for (uint32_t i = 0; i < t->streams; i++)
		sfs_table_notify_stream(t, i);
	sfs_holes_publish(sfs);
	atomic_store_explicit(
		&h->next_generation, sfs->root.generation_limit + 1, memory_order_relaxed);
	atomic_store_explicit(&h->streams, t->streams, memory_order_release);
	sfs_shm_publish(&sfs->shm);
	return 0;
}

void
sfs_writer_stop(struct sfs *sfs)
{
	struct sfs_writer *w = sfs->w;
	if (!w)
		return;
	while (w->queue.ops && sfs_queue_reap(&w->queue, true))
		;
	sfs_queue_close(&w->queue);
	sfs_frontier_free(&w->frontier);
	PR_FREE(w, slot, sealed_after_map, map_buf, root_buf, pool);
	free(w);
	sfs->w = NULL;
}

static int
full(const struct sfs *sfs, struct pr_error *err)
{
	return pr_error_as(SFS_FULL, err,
		sfs->w->frontier.keep
			? "the volume is full, and nothing in it may be overwritten"
			: "the volume is full: every block is guaranteed or being filled");
}

/* Waits until the frontier has a block ready, by a checkpoint if none is under way. */
static int
await_block(struct sfs *sfs, struct pr_error *err)
{
	const struct sfs_frontier *f = &sfs->w->frontier;
	int rc = sfs_flush_finish(sfs, err);
	for (int tries = 0; rc == 0 && tries < 3 && f->ready == 0; tries++) {
		sfs_flush_start(sfs, SFS_FLUSH_FULL);
		rc = sfs_flush_finish(sfs, err);
	}
	return rc < 0 || f->ready > 0 ? rc : full(sfs, err);
}

/*
 * Begins the stream's next block, and writes the maps that the frontier reaches on the way.
 */
int
sfs_block_begin(struct sfs *sfs, uint32_t stream, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_tail *tail = &w->tail[stream];
	uint64_t generation, maps = sfs->root.blocks / sfs->root.map_interval;
	uint32_t block;
	for (;;) {
		int rc = w->frontier.ready ? SFS_OK : await_block(sfs, err);
		if (rc != SFS_OK)
			return rc;
		block = sfs_frontier_take(&w->frontier, &sfs->table, &generation);
		atomic_store_explicit(&sfs->shm.header->next_generation, generation + 1,
			memory_order_release);
		if (!sfs_block_there(sfs, block)) {
			sfs_table_lose(&sfs->table, block);
			continue;
		}
		if (!sfs_table_is_map(&sfs->table, block))
			break;
		if (write_map(sfs, block, generation, err) < 0)
			return SFS_ERROR;
		/* a whole lap with nothing but maps: the next append tries again */
		if (maps-- == 0)
			return full(sfs, err);
	}
	sfs_table_begin(&sfs->table, stream, block, generation);
	tail->block = block;
	tail->slot = tail->part = SFS_NONE;
	tail->fill = SFS_BLOCK_HEADER;
	tail->submitted = 0; /* nothing is waiting */
	tail->reserved = true;
	if (w->frontier.ready <= w->frontier.batch && w->frontier.pending == 0)
		w->checkpoint_wanted = true;
	return SFS_OK;
}

/* Seals the stream's open block; its last bytes go to the device. -1: the device takes none. */
int
sfs_block_end(struct sfs *sfs, uint32_t stream, struct pr_error *err)
{
	struct sfs_writer *w = sfs->w;
	struct sfs_tail *tail = &w->tail[stream];
	if (tail->block == SFS_NONE)
		return 0;
	/* no record follows in the block, so padding to the device's sector is enough */
	uint32_t sector = sfs_locate(sfs, tail->block).disk->sector;
	if (!sfs_tail_submit(sfs, stream, sector ? sector : SFS_SECTOR))
		return pr_error_set(err, "%s", w->error.text);
	if (tail->slot != SFS_NONE)
		w->slot[tail->slot].open = false;
	note_late(sfs, tail->block);
	sfs_table_seal(&sfs->table, tail->block);
	tail->block = tail->slot = SFS_NONE;
	tail->reserved = false;
	return 0;
}
