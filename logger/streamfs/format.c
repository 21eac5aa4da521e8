/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <xxhash.h>

#include "logger/streamfs/format.h"
#include "proto/base/field_table.h"

#define BLOCK_MAGIC 0x42534653u /* "SFSB" */
enum { BLOCK_HASH_AT = 8, BLOCK_FIELDS_AT = 24 };
static const char magic[8] = "SFSroot\n";
enum { CHECKSUM_AT = 16, FIELDS_AT = 32, DEVICES_AT = 1024, SETS_AT = 2048 };

/* An array of structures on a device: what each field is, and how many bytes each takes. */
struct form {
	struct pr_field_table fields;
	size_t bytes, size; /* on the device; in memory */
};
#define FORM(type, fields, bytes)                                                          \
	{                                                                                  \
		PR_FIELD_TABLE(fields), (bytes), sizeof(type)                              \
	}

/* In the order of format.h. */
static const struct pr_field block_fields[] = {
	PR_INTS(sfs_block_header, kind, stream, permission, header_bytes, block, generation,
		block_number, first_sequence),
	PR_INTS(sfs_block_header, durable_sequence, prev.block, prev.generation,
		prev.min_time, prev.max_time, prev.records, prev.end, name),
	PR_INTS(sfs_block_header, entries, late, body_hash)};
static const struct form block_form =
	FORM(struct sfs_block_header, block_fields, SFS_BLOCK_HEADER - BLOCK_FIELDS_AT);

static const struct pr_field map_entry_fields[] = {
	PR_INTS(sfs_map_entry, stream, flags, block, generation, first_sequence,
		block_number, records, end),
	PR_INTS(sfs_map_entry, min_time, max_time)};
static const struct form map_entry_form =
	FORM(struct sfs_map_entry, map_entry_fields, SFS_MAP_ENTRY);

static const struct pr_field stream_fields[] = {
	PR_INTS(sfs_stream, name, id, flags, permission), PR_ZEROS(4),
	PR_INTS(sfs_stream, guarantee, created, oldest_generation, first_sequence,
		evicted_until, durable_sequence, next_block_number, head.block),
	PR_INTS(sfs_stream, head.generation, head.end, head.records, head.min_time,
		head.max_time)};
static const struct form stream_form =
	FORM(struct sfs_stream, stream_fields, SFS_STREAM_BYTES);

static const struct pr_field root_fields[] = {
	PR_INTS(sfs_root, length, hash_kind, generation, uuid, secret, created),
	PR_ZEROS(8),
	PR_INTS(sfs_root, block_size, map_interval, data_start, blocks, device_count,
		device_index, stripe, zone_mode),
	PR_INTS(sfs_root, zone_region), PR_ZEROS(16),
	PR_INTS(sfs_root, frontier, window, high_water, generation_limit, reset_generation,
		flags, stream_count, stream_bytes),
	PR_INTS(sfs_root, utilization, repair_count, set_count, listed_count, redo_count)};
static const struct form root_form =
	FORM(struct sfs_root, root_fields, DEVICES_AT - FIELDS_AT);

static const struct pr_field device_fields[] = {PR_INTS(sfs_device, uuid, blocks, flags),
	PR_ZEROS(4), PR_INTS(sfs_device, lost_records)};
static const struct form device_form = FORM(struct sfs_device, device_fields, 64);

static const struct pr_field set_fields[] = {PR_INTS(sfs_set, blocks, devices, tier)};
static const struct form set_form = FORM(struct sfs_set, set_fields, 32);

static const struct pr_field redo_fields[] = {PR_INTS(sfs_redo, block, offset)};
static const struct form redo_form = FORM(struct sfs_redo, redo_fields, SFS_REDO_BYTES);

/* Writes count structures from p on; p must be zeroed. Returns their end. */
static uint8_t *
store(uint8_t *p, const void *from, uint32_t count, const struct form *form)
{
	for (const uint8_t *at = from; count > 0; count--, at += form->size) {
		struct pr_writer w = pr_writer_make(p, form->bytes);
		if (!pr_field_table_store(&w, at, &form->fields, PR_LITTLE_ENDIAN))
			abort(); /* a form that is larger than its bytes */
		p += form->bytes;
	}
	return p;
}

static const uint8_t *
load(const uint8_t *p, void *to, uint32_t count, const struct form *form)
{
	for (uint8_t *at = to; count > 0; count--, at += form->size) {
		struct pr_cursor c = pr_cursor_make(p, form->bytes);
		if (!pr_field_table_load(&c, at, &form->fields, PR_LITTLE_ENDIAN))
			abort();
		p += form->bytes;
	}
	return p;
}

/* ---- block header and map entry ---- */

void
sfs_block_encode(const struct sfs_key *key, const struct sfs_block_header *header,
	uint8_t buf[SFS_BLOCK_HEADER])
{
	struct sfs_block_header h = *header;
	h.header_bytes = SFS_BLOCK_HEADER;
	memset(buf, 0, SFS_BLOCK_HEADER);
	pr_put_le32(buf, BLOCK_MAGIC);
	pr_put_le16(buf + 4, SFS_VERSION);
	store(buf + BLOCK_FIELDS_AT, &h, 1, &block_form);
	sfs_hash(key, buf + BLOCK_FIELDS_AT, SFS_BLOCK_HEADER - BLOCK_FIELDS_AT,
		buf + BLOCK_HASH_AT);
}

bool
sfs_block_decode(const struct sfs_key *key, const uint8_t buf[SFS_BLOCK_HEADER],
	uint64_t block, struct sfs_block_header *out)
{
	uint8_t hash[16];
	if (pr_get_le32(buf) != BLOCK_MAGIC || pr_get_le16(buf + 4) != SFS_VERSION)
		return false;
	sfs_hash(key, buf + BLOCK_FIELDS_AT, SFS_BLOCK_HEADER - BLOCK_FIELDS_AT, hash);
	if (memcmp(hash, buf + BLOCK_HASH_AT, 16) != 0)
		return false;
	load(buf + BLOCK_FIELDS_AT, out, 1, &block_form);
	out->name[SFS_NAME_MAX] = 0;
	return out->block == block && out->generation != 0 &&
	       (out->kind == SFS_KIND_DATA || out->kind == SFS_KIND_MAP);
}

void
sfs_map_entry_encode(const struct sfs_map_entry *e, uint8_t buf[SFS_MAP_ENTRY])
{
	store(buf, e, 1, &map_entry_form);
}

void
sfs_map_entry_decode(const uint8_t buf[SFS_MAP_ENTRY], struct sfs_map_entry *out)
{
	load(buf, out, 1, &map_entry_form);
}

/* ---- root ---- */

static void
checksum(const uint8_t *buf, size_t length, uint8_t out[16])
{
	XXH128_canonical_t text;
	XXH128_canonicalFromHash(&text, XXH3_128bits(buf + FIELDS_AT, length - FIELDS_AT));
	memcpy(out, text.digest, 16);
}

uint32_t
sfs_root_length(const struct sfs_root *root)
{
	return SFS_ROOT_HEADER + root->stream_count * SFS_STREAM_BYTES +
	       (root->repair_count + root->listed_count) * SFS_MAP_ENTRY +
	       root->redo_count * SFS_REDO_BYTES;
}

size_t
sfs_root_encode(const struct sfs_root *root, const struct sfs_stream *streams, uint8_t *buf)
{
	struct sfs_root r = *root;
	r.length = sfs_root_length(root);
	r.hash_kind = SFS_HASH_KIND;
	r.stripe = 1;
	r.zone_mode = root->zone_region != 0;
	r.stream_bytes = SFS_STREAM_BYTES;
	size_t whole = sfs_sector_up(r.length);
	memset(buf, 0, whole);
	memcpy(buf, magic, sizeof(magic));
	pr_put_le32(buf + 8, SFS_VERSION);
	pr_put_le32(buf + 12, SFS_ROOT_HEADER);
	store(buf + FIELDS_AT, &r, 1, &root_form);
	store(buf + DEVICES_AT, r.device, r.device_count, &device_form);
	store(buf + SETS_AT, r.set, r.set_count, &set_form);
	uint8_t *p = store(buf + SFS_ROOT_HEADER, streams, r.stream_count, &stream_form);
	p = store(p, r.repairs, r.repair_count, &map_entry_form);
	p = store(p, r.listed, r.listed_count, &map_entry_form);
	store(p, r.redos, r.redo_count, &redo_form);
	for (uint32_t i = 0; i < r.redo_count; i++, p += SFS_REDO_BYTES)
		memcpy(p + SFS_REDO_HEADER, r.redos[i].sector, SFS_SECTOR);
	checksum(buf, r.length, buf + CHECKSUM_AT);
	return whole;
}

/*
 * True if each device is in a set, each set has whole rows, and the sets make up the
 * volume.
 */
static bool
sets_fit(const struct sfs_root *r)
{
	uint32_t all = (1u << r->device_count) - 1, seen = 0;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < r->set_count; i++) {
		const struct sfs_set *s = &r->set[i];
		uint32_t n = __builtin_popcount(s->devices);
		if (n == 0 || (s->devices & ~all) != 0 || s->blocks == 0 ||
			s->blocks > r->blocks || s->blocks % n != 0 ||
			s->tier >= SFS_SETS_MAX)
			return false;
		seen |= s->devices;
		sum += s->blocks;
	}
	return sum == r->blocks && seen == all;
}

/* Checks each field, in spite of the checksum: who made the volume may be hostile. */
static const char *
implausible(const struct sfs_root *r)
{
	if (r->block_size < SFS_BLOCK_MIN || r->block_size > SFS_BLOCK_MAX ||
		(r->block_size & (r->block_size - 1)) != 0)
		return "block size";
	if (r->map_interval < SFS_MAP_INTERVAL_MIN || r->map_interval > SFS_MAP_INTERVAL)
		return "map interval";
	if (r->data_start < 2 * SFS_ROOT_BYTES || r->data_start % SFS_SECTOR != 0 ||
		r->data_start > UINT64_C(1) << 40)
		return "data start";
	if (r->blocks < SFS_BLOCKS_MIN || r->blocks > SFS_BLOCKS_MAX)
		return "number of blocks";
	if (r->device_count < 1 || r->device_count > SFS_DEVICES_MAX ||
		r->device_index >= r->device_count)
		return "device table";
	if (r->set_count > SFS_SETS_MAX)
		return "number of stripe sets";
	if (r->frontier >= r->blocks || r->window > r->blocks || r->high_water > r->blocks)
		return "frontier";
	if (r->utilization < SFS_UTILIZATION_MIN || r->utilization > SFS_UTILIZATION_MAX)
		return "utilization";
	if (r->generation_limit > UINT64_MAX / 2 ||
		r->reset_generation > r->generation_limit)
		return "generation";
	return NULL;
}

static int
load_streams(const uint8_t *buf, const struct sfs_root *root, struct sfs_stream *streams,
	struct pr_error *err)
{
	load(buf + SFS_ROOT_HEADER, streams, root->stream_count, &stream_form);
	for (uint32_t i = 0; i < root->stream_count; i++) {
		struct sfs_stream *s = &streams[i];
		s->name[SFS_NAME_MAX] = 0;
		if (s->id != i || s->name[0] == 0 || s->first_sequence == 0 ||
			s->durable_sequence > UINT64_MAX / 2 ||
			s->first_sequence > UINT64_MAX / 2 ||
			s->next_block_number > UINT64_MAX / 2)
			return pr_error_set(err, "the root's stream %u is implausible", i);
	}
	return 0;
}

int
sfs_root_decode(const uint8_t *buf, struct sfs_root *root, struct sfs_stream *streams,
	struct pr_error *err)
{
	uint8_t sum[16];
	if (memcmp(buf, magic, sizeof(magic)) != 0)
		return pr_error_set(err, "not a StreamFS volume");
	uint32_t version = pr_get_le32(buf + 8);
	if (version != SFS_VERSION)
		return pr_error_set(err,
			"the volume has format version %u, this program reads version %u: "
			"use the release that wrote it, or create the volume anew",
			version, SFS_VERSION);
	*root = sfs_root_peek(buf);
	uint32_t length = root->length;
	if (length < SFS_ROOT_HEADER || length > SFS_ROOT_BYTES)
		return pr_error_set(err, "the root is damaged (length)");
	checksum(buf, length, sum);
	if (memcmp(sum, buf + CHECKSUM_AT, 16) != 0)
		return pr_error_set(err, "the root is damaged (checksum)");
	if (root->hash_kind != SFS_HASH_KIND)
		return pr_error_set(err, "the volume uses record hash %u, not known here",
			root->hash_kind);
	const char *what = implausible(root);
	load(buf + DEVICES_AT, root->device, SFS_DEVICES_MAX, &device_form);
	load(buf + SETS_AT, root->set, SFS_SETS_MAX, &set_form);
	if (!what && root->set_count == 0) {
		root->set_count = 1;
		root->set[0] = (struct sfs_set){
			.blocks = root->blocks, .devices = (1u << root->device_count) - 1};
	}
	if (!what && !sets_fit(root))
		what = "stripe sets";
	if (what)
		return pr_error_set(err, "the root's %s is implausible", what);
	if (root->stream_count > SFS_STREAMS_MAX || root->repair_count > SFS_REPAIRS_MAX ||
		root->listed_count > SFS_LISTED_MAX || root->redo_count > SFS_REDO_MAX ||
		length != sfs_root_length(root))
		return pr_error_set(err, "the root's stream count is implausible");
	return load_streams(buf, root, streams, err);
}

struct sfs_root
sfs_root_peek(const uint8_t *buf)
{
	struct sfs_root root = {0};
	if (memcmp(buf, magic, sizeof(magic)) == 0)
		load(buf + FIELDS_AT, &root, 1, &root_form);
	return root;
}

void
sfs_root_notes(const uint8_t *buf, const struct sfs_root *root,
	struct sfs_map_entry *repairs, struct sfs_map_entry *listed, struct sfs_redo *redos)
{
	const uint8_t *p = buf + SFS_ROOT_HEADER + root->stream_count * SFS_STREAM_BYTES;
	p = load(p, repairs, root->repair_count, &map_entry_form);
	p = load(p, listed, root->listed_count, &map_entry_form);
	load(p, redos, root->redo_count, &redo_form);
	for (uint32_t i = 0; i < root->redo_count; i++, p += SFS_REDO_BYTES)
		memcpy(redos[i].sector, p + SFS_REDO_HEADER, SFS_SECTOR);
}
