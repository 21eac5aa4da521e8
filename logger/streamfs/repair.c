/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/*
 * A repair works in rounds: check, note the damage in new roots, open again; until a check
 * finds nothing new. A crash is safe at any time: roots are written one copy after the
 * other, and maps only repeat what the block headers have.
 */
#define ROUNDS 8

struct repair {
	struct sfs *sfs;
	bool force;
	sfs_fault_call call;
	void *arg;
	struct sfs_repair_result *out;
	struct sfs_map_entry *entry; /* those of the root, and new ones */
	uint32_t entries;
	uint64_t *map, *stale; /* maps to write again; maps to clear first */
	uint32_t maps, stales;
	uint32_t stales_before; /* maps cleared by earlier rounds */
	bool failed; /* no memory */
	bool todo; /* this round has found something */
};

static void
put_map(struct repair *r, uint64_t **list, uint32_t *count, uint64_t pos)
{
	r->failed |= PR_ARRAY_ADD(*list, *count, pos) < 0;
}

static void
put_entry(struct repair *r, const struct sfs_map_entry *e)
{
	struct sfs_map_entry *last = r->entries ? &r->entry[r->entries - 1] : NULL;
	if (last && last->flags == SFS_REPAIR_GONE && e->flags == SFS_REPAIR_GONE &&
		last->stream == e->stream && last->block == e->block &&
		last->generation == e->generation && last->records > 0 && e->records > 0 &&
		last->first_sequence + last->records == e->first_sequence &&
		last->records <= UINT32_MAX - e->records && last->end == e->block_number) {
		last->records += e->records;
		last->end = e->end;
		return;
	}
	r->failed |= PR_ARRAY_ADD(r->entry, r->entries, *e) < 0;
}

static void
put_gone(struct repair *r, const struct sfs_finding *f)
{
	uint64_t records = f->fault.first ? f->fault.last - f->fault.first + 1 : 0;
	struct sfs_map_entry e = {.stream = f->stream,
		.flags = SFS_REPAIR_GONE,
		.block = f->fault.block == SFS_NO_BLOCK ? 0 : f->fault.block,
		.generation = f->fault.block == SFS_NO_BLOCK ? 0 : f->generation,
		.first_sequence = f->fault.first,
		.block_number = f->fault.offset,
		.end = f->to};
	r->out->dropped_records += records;
	do {
		e.records = PR_MIN(records, UINT32_MAX);
		put_entry(r, &e);
		e.first_sequence += e.records;
		records -= e.records;
	} while (records > 0 && !r->failed && r->entries <= SFS_REPAIRS_MAX);
}

/* Repairs maps before blocks: a stale map makes existing blocks seem to be missing. */
static void
on_finding(void *arg, const struct sfs_fault *fault)
{
	const struct sfs_finding *f = (const struct sfs_finding *)fault;
	struct repair *r = arg;
	bool told = false;
	r->todo = true;
	if (fault->kind == SFS_FAULT_ROOT) {
		r->out->roots++;
	} else if (fault->kind == SFS_FAULT_MAP) {
		for (uint32_t i = 0; i < r->stales_before; i++)
			told |= r->stale[i] == fault->block;
		if (f->stale)
			put_map(r, &r->stale, &r->stales, fault->block);
		else
			put_map(r, &r->map, &r->maps, fault->block);
	} else if (r->stales > r->stales_before) {
		return;
	} else if (fault->kind == SFS_FAULT_HEADER) {
		put_entry(r, &f->kept);
	} else {
		put_gone(r, f);
	}
	r->out->faults += !told;
	if (!told && r->call)
		r->call(r->arg, fault);
}

/* One copy after the other, so that one is good at any moment. */
static int
write_roots(struct repair *r, struct sfs_root *root, const struct sfs_stream *streams,
	struct pr_error *err)
{
	struct sfs *sfs = r->sfs;
	uint8_t *buf = sfs_buffer(SFS_ROOT_BYTES);
	int rc = buf ? 0 : pr_error_set(err, "no memory for the root");
	root->repairs = r->entry;
	root->repair_count = r->entries;
	root->redos = sfs->redo;
	root->redo_count = sfs->redos;
	/* the list may have what is dropped: without it opening reads the headers */
	root->flags &= ~SFS_ROOT_LISTED;
	root->listed_count = 0;
	for (int copy = 0; rc == 0 && copy < 2; copy++) {
		root->generation++;
		for (uint16_t i = 0; rc == 0 && i < sfs->disks; i++) {
			if (sfs->disk[i].lost)
				continue;
			/* the first write replaces the older copy */
			uint64_t at = sfs_root_offset(sfs, i) ^ (copy ? SFS_ROOT_BYTES : 0);
			root->device_index = i;
			size_t len = sfs_root_encode(root, streams, buf);
			if (sfs_disk_write(&sfs->disk[i], buf, len, at) < 0)
				rc = pr_error_errno(err, "%s: cannot write the root",
					sfs->disk[i].path);
		}
		if (rc == 0)
			rc = sfs_sync_disks(sfs, err);
	}
	free(buf);
	return rc;
}

/* A generation for the lost map: the one that follows its interval's newest block. */
static uint64_t
map_generation(const struct sfs *sfs, uint64_t pos)
{
	uint64_t newest = 0;
	for (uint64_t b = pos - (sfs->root.map_interval - 1); b < pos; b++)
		newest = PR_MAX(newest, sfs->table.entry[b].generation);
	return newest + 1;
}

/*
 * Stores the root as read from the devices, with the new notes: what recovery derives from
 * it must be derived again at each opening.
 */
static int
store(struct repair *r, struct pr_error *err)
{
	struct sfs *sfs = r->sfs;
	struct sfs_stream *streams = calloc(SFS_STREAMS_MAX, sizeof(*streams));
	uint8_t *buf = sfs_buffer(sfs->root.block_size);
	bool stale = r->stales > r->stales_before;
	int rc = streams && buf ? sfs_root_load(sfs, streams, err)
				: pr_error_set(err, "no memory for the root");
	struct sfs_root root = sfs->root;
	for (uint32_t i = 0; i < r->maps; i++)
		if (map_generation(sfs, r->map[i]) > root.generation_limit)
			root.generation_limit = map_generation(sfs, r->map[i]);
	if (rc == 0)
		rc = write_roots(r, &root, streams, err);
	for (uint32_t i = r->stales_before; rc == 0 && i < r->stales; i++)
		rc = sfs_write_block(sfs, r->stale[i], 0, buf, SFS_SECTOR, err);
	for (uint32_t i = 0; rc == 0 && !stale && i < r->maps; i++) {
		size_t len =
			sfs_map_build(sfs, r->map[i], map_generation(sfs, r->map[i]), buf);
		rc = sfs_write_block(sfs, r->map[i], 0, buf, len, err);
		r->out->maps += rc == 0;
	}
	if (rc == 0)
		rc = sfs_sync_disks(sfs, err);
	free(streams);
	free(buf);
	return rc;
}

/*
 * A block is written only after the root that allows its generation is durable. So a block
 * above this root's limit means that a newer root is lost.
 */
static int
knows_all(struct sfs *sfs, struct pr_error *err)
{
	struct sfs_block_header h;
	uint64_t newer = 0;
	for (uint64_t b = 0; b < sfs->root.blocks; b++)
		newer += sfs_block_there(sfs, b) && sfs_read_header(sfs, b, &h) &&
			 h.generation > sfs->root.generation_limit;
	if (newer == 0)
		return 0;
	return pr_error_set(err,
		"the newest root is damaged; a repair, or any further writing, discards "
		"%" PRIu64 " blocks that only it listed: copy the devices first, then "
		"repeat with --force",
		newer);
}

/* 1: repaired something, check again; 0: nothing to do; -1: error. */
static int
repair_round(struct repair *r, struct pr_error *err)
{
	struct sfs *sfs = r->sfs;
	uint64_t uuid_faults = 0;
	if (sfs->missing > 0)
		return pr_error_set(err, "a device of the volume is missing: nothing is "
					 "repaired until it is back, or given up for good");
	r->maps = r->entries = 0;
	r->stales_before = r->stales;
	r->todo = false;
	for (uint32_t i = 0; i < sfs->repairs; i++)
		put_entry(r, &sfs->repair[i]);
	for (uint32_t i = 0; i < sfs->holes; i++)
		put_entry(r, &sfs->hole[i]);
	if (sfs_check_all(sfs, on_finding, r, &r->out->records, &uuid_faults, err) < 0)
		return -1;
	if (uuid_faults > 0)
		return pr_error_set(err,
			"%s: the two copies of the root are of two volumes: nothing is "
			"repaired until one of them is overwritten",
			sfs->disk[0].path);
	if (r->out->roots > 0 && !r->force && knows_all(sfs, err) < 0)
		return -1;
	if (r->entries > SFS_REPAIRS_MAX)
		return pr_error_set(err,
			"more is damaged than the root can note (%u places, %u at most): "
			"nothing is repaired",
			r->entries, SFS_REPAIRS_MAX);
	if (r->failed)
		return pr_error_set(err, "no memory to repair");
	if (!r->todo)
		return 0;
	if (store(r, err) < 0)
		return -1;
	sfs->table_valid = false; /* read it all again */
	return sfs_refresh(sfs, err) == SFS_OK ? 1 : -1;
}

static struct sfs *
open_locked(const char *const *paths, size_t count, struct pr_error *err)
{
	struct sfs_disk disks[SFS_DEVICES_MAX] = {0};
	const struct sfs_open_options options = {.writer = false};
	struct sfs *sfs = NULL;
	size_t n = 0;
	if (count < 1 || count > SFS_DEVICES_MAX)
		return pr_error_null(err, "a volume has 1 to %d devices", SFS_DEVICES_MAX);
	while (n < count && sfs_disk_open(&disks[n], paths[n], true, true, err) == 0)
		n++;
	if (n == count)
		sfs = sfs_open_disks(disks, count, &options, err);
	else
		while (n > 0)
			sfs_disk_close(&disks[--n]);
	/* what was read before the lock may be of a writer that has gone since */
	if (sfs && (sfs_lock(sfs, err) < 0 || sfs_refresh(sfs, err) != SFS_OK))
		sfs_close(&sfs);
	return sfs;
}

int
sfs_repair(const char *const *paths, size_t count, const struct sfs_repair_options *options,
	sfs_fault_call call, void *arg, struct sfs_repair_result *out, struct pr_error *err)
{
	struct repair r = {
		.force = options && options->force, .call = call, .arg = arg, .out = out};
	int rc = 1;
	*out = (struct sfs_repair_result){0};
	r.sfs = open_locked(paths, count, err);
	if (!r.sfs)
		return -1;
	for (int round = 0; round < ROUNDS && rc > 0; round++)
		rc = repair_round(&r, err);
	int64_t left = rc >= 0 ? sfs_check(r.sfs, NULL, NULL, &out->records, err) : 0;
	out->left = PR_MAX(left, 0);
	sfs_close(&r.sfs);
	PR_FREE(&r, entry, map, stale);
	return rc < 0 || left < 0 ? -1 : 0;
}
