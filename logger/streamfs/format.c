/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "logger/streamfs/bytes.h"
#include "logger/streamfs/format.h"

/* ---- block header and map entry ---- */

#define BLOCK_MAGIC 0x42534653u /* "SFSB" */

void
sfs_block_encode(const struct sfs_key *key, const struct sfs_block_header *h,
	uint8_t buf[SFS_BLOCK_HEADER])
{
	memset(buf, 0, SFS_BLOCK_HEADER);
	uint8_t *p = buf;
	sfs_put32(&p, BLOCK_MAGIC);
	sfs_put16(&p, SFS_VERSION);
	p = buf + 24;
	sfs_put32(&p, h->kind);
	sfs_put32(&p, h->stream);
	sfs_put32(&p, h->permission);
	sfs_put32(&p, SFS_BLOCK_HEADER);
	sfs_put64(&p, h->block);
	sfs_put64(&p, h->generation);
	sfs_put64(&p, h->ordinal);
	sfs_put64(&p, h->first_sequence);
	sfs_put64(&p, h->durable_sequence);
	sfs_put64(&p, h->prev_block);
	sfs_put64(&p, h->prev_generation);
	sfs_put64(&p, (uint64_t)h->prev_min);
	sfs_put64(&p, (uint64_t)h->prev_max);
	sfs_put32(&p, h->prev_records);
	sfs_put32(&p, h->prev_end);
	sfs_put_bytes(&p, h->name, sizeof(h->name));
	sfs_put32(&p, h->entries);
	sfs_put32(&p, h->late);
	sfs_put_bytes(&p, h->body_hash, 16);
	sfs_hash(key, buf + 24, SFS_BLOCK_HEADER - 24, buf + 8);
}

static void
block_fields(const uint8_t *p, struct sfs_block_header *out)
{
	out->kind = sfs_get32(&p);
	out->stream = sfs_get32(&p);
	out->permission = sfs_get32(&p);
	p += 4;
	out->block = sfs_get64(&p);
	out->generation = sfs_get64(&p);
	out->ordinal = sfs_get64(&p);
	out->first_sequence = sfs_get64(&p);
	out->durable_sequence = sfs_get64(&p);
	out->prev_block = sfs_get64(&p);
	out->prev_generation = sfs_get64(&p);
	out->prev_min = (int64_t)sfs_get64(&p);
	out->prev_max = (int64_t)sfs_get64(&p);
	out->prev_records = sfs_get32(&p);
	out->prev_end = sfs_get32(&p);
	sfs_get_bytes(&p, out->name, sizeof(out->name));
	out->name[SFS_NAME_MAX] = 0;
	out->entries = sfs_get32(&p);
	out->late = sfs_get32(&p);
	sfs_get_bytes(&p, out->body_hash, 16);
}

bool
sfs_block_decode(const struct sfs_key *key, const uint8_t buf[SFS_BLOCK_HEADER],
	uint64_t block, struct sfs_block_header *out)
{
	uint8_t hash[16];
	const uint8_t *p = buf;
	if (sfs_get32(&p) != BLOCK_MAGIC || sfs_get16(&p) != SFS_VERSION)
		return false;
	sfs_hash(key, buf + 24, SFS_BLOCK_HEADER - 24, hash);
	if (memcmp(hash, buf + 8, 16) != 0)
		return false;
	block_fields(buf + 24, out);
	return out->block == block && out->generation != 0 &&
	       (out->kind == SFS_KIND_DATA || out->kind == SFS_KIND_MAP);
}

void
sfs_map_entry_encode(const struct sfs_map_entry *e, uint8_t buf[SFS_MAP_ENTRY])
{
	uint8_t *p = buf;
	sfs_put32(&p, e->stream);
	sfs_put32(&p, e->flags);
	sfs_put64(&p, e->block);
	sfs_put64(&p, e->generation);
	sfs_put64(&p, e->first_sequence);
	sfs_put64(&p, e->ordinal);
	sfs_put32(&p, e->records);
	sfs_put32(&p, e->end);
	sfs_put64(&p, (uint64_t)e->min_time);
	sfs_put64(&p, (uint64_t)e->max_time);
}

void
sfs_map_entry_decode(const uint8_t buf[SFS_MAP_ENTRY], struct sfs_map_entry *out)
{
	const uint8_t *p = buf;
	out->stream = sfs_get32(&p);
	out->flags = sfs_get32(&p);
	out->block = sfs_get64(&p);
	out->generation = sfs_get64(&p);
	out->first_sequence = sfs_get64(&p);
	out->ordinal = sfs_get64(&p);
	out->records = sfs_get32(&p);
	out->end = sfs_get32(&p);
	out->min_time = (int64_t)sfs_get64(&p);
	out->max_time = (int64_t)sfs_get64(&p);
}

/* ---- root ---- */

static const char magic[8] = "SFSroot\n";
#define DEVICES_AT 1024
#define SETS_AT 2048

static void
checksum(const uint8_t *buf, size_t length, uint8_t out[16])
{
	XXH128_canonical_t text;
	XXH128_canonicalFromHash(&text, XXH3_128bits(buf + 32, length - 32));
	memcpy(out, text.digest, 16);
}

static void
stream_encode(const struct sfs_stream_entry *s, uint8_t *p)
{
	sfs_put_bytes(&p, s->name, sizeof(s->name));
	sfs_put32(&p, s->id);
	sfs_put32(&p, s->flags);
	sfs_put32(&p, s->permission);
	sfs_put32(&p, 0);
	sfs_put64(&p, s->guarantee);
	sfs_put64(&p, (uint64_t)s->created);
	sfs_put64(&p, s->oldest_generation);
	sfs_put64(&p, s->first_sequence);
	sfs_put64(&p, (uint64_t)s->evicted_until);
	sfs_put64(&p, s->durable_sequence);
	sfs_put64(&p, s->next_ordinal);
	sfs_put64(&p, s->head_block);
	sfs_put64(&p, s->head_generation);
	sfs_put32(&p, s->head_end);
	sfs_put32(&p, s->head_records);
	sfs_put64(&p, (uint64_t)s->head_min);
	sfs_put64(&p, (uint64_t)s->head_max);
	memset(p, 0, 32);
}

static void
stream_decode(const uint8_t *p, struct sfs_stream_entry *out)
{
	sfs_get_bytes(&p, out->name, sizeof(out->name));
	out->name[SFS_NAME_MAX] = 0;
	out->id = sfs_get32(&p);
	out->flags = sfs_get32(&p);
	out->permission = sfs_get32(&p);
	p += 4;
	out->guarantee = sfs_get64(&p);
	out->created = (int64_t)sfs_get64(&p);
	out->oldest_generation = sfs_get64(&p);
	out->first_sequence = sfs_get64(&p);
	out->evicted_until = (int64_t)sfs_get64(&p);
	out->durable_sequence = sfs_get64(&p);
	out->next_ordinal = sfs_get64(&p);
	out->head_block = sfs_get64(&p);
	out->head_generation = sfs_get64(&p);
	out->head_end = sfs_get32(&p);
	out->head_records = sfs_get32(&p);
	out->head_min = (int64_t)sfs_get64(&p);
	out->head_max = (int64_t)sfs_get64(&p);
}

static void
header_encode(const struct sfs_root *root, uint32_t length, uint8_t *p)
{
	sfs_put32(&p, length);
	sfs_put32(&p, SFS_HASH_KIND);
	sfs_put64(&p, root->generation);
	sfs_put_bytes(&p, root->uuid, 16);
	sfs_put_bytes(&p, root->secret, 32);
	sfs_put64(&p, (uint64_t)root->created);
	sfs_put64(&p, 0);
	sfs_put32(&p, root->block_size);
	sfs_put32(&p, root->map_interval);
	sfs_put64(&p, root->data_start);
	sfs_put64(&p, root->blocks);
	sfs_put16(&p, root->device_count);
	sfs_put16(&p, root->device_index);
	sfs_put32(&p, 1);
	sfs_put32(&p, root->zone_region != 0);
	sfs_put32(&p, root->zone_region);
	p += 16;
	sfs_put64(&p, root->frontier);
	sfs_put64(&p, root->window);
	sfs_put64(&p, root->high_water);
	sfs_put64(&p, root->generation_limit);
	sfs_put64(&p, root->reset_generation);
	sfs_put32(&p, root->flags);
	sfs_put32(&p, root->stream_count);
	sfs_put32(&p, SFS_STREAM_BYTES);
	sfs_put32(&p, root->utilization);
	sfs_put32(&p, root->repair_count);
	sfs_put32(&p, root->set_count);
	sfs_put32(&p, root->listed_count);
	sfs_put32(&p, root->redo_count);
}

static void
devices_encode(const struct sfs_root *root, uint8_t *buf)
{
	uint8_t *p = buf + DEVICES_AT;
	for (uint16_t i = 0; i < root->device_count; i++) {
		sfs_put_bytes(&p, root->device[i].uuid, 16);
		sfs_put64(&p, root->device[i].blocks);
		sfs_put32(&p, root->device[i].flags);
		sfs_put32(&p, 0);
		sfs_put64(&p, root->device[i].lost_records);
		p += 24;
	}
	p = buf + SETS_AT;
	for (uint32_t i = 0; i < root->set_count; i++) {
		sfs_put64(&p, root->set[i].blocks);
		sfs_put16(&p, root->set[i].devices);
		sfs_put16(&p, root->set[i].tier);
		p += 20;
	}
}

uint32_t
sfs_root_length(const struct sfs_root *root)
{
	return SFS_ROOT_HEADER + root->stream_count * SFS_STREAM_BYTES +
	       (root->repair_count + root->listed_count) * SFS_MAP_ENTRY +
	       root->redo_count * SFS_REDO_BYTES;
}

static void
redos_encode(const struct sfs_root *root, uint8_t *p)
{
	for (uint32_t i = 0; i < root->redo_count; i++) {
		sfs_put64(&p, root->redos[i].block);
		sfs_put32(&p, root->redos[i].offset);
		p += 20;
		sfs_put_bytes(&p, root->redos[i].sector, SFS_SECTOR);
	}
}

size_t
sfs_root_encode(
	const struct sfs_root *root, const struct sfs_stream_entry *streams, uint8_t *buf)
{
	uint32_t length = sfs_root_length(root);
	size_t whole = sfs_sector_up(length);
	memset(buf, 0, whole);
	memcpy(buf, magic, sizeof(magic));
	uint8_t *p = buf + 8;
	sfs_put32(&p, SFS_VERSION);
	sfs_put32(&p, SFS_ROOT_HEADER);
	header_encode(root, length, buf + 32);
	devices_encode(root, buf);
	for (uint32_t i = 0; i < root->stream_count; i++)
		stream_encode(
			&streams[i], buf + SFS_ROOT_HEADER + (size_t)i * SFS_STREAM_BYTES);
	p = buf + SFS_ROOT_HEADER + (size_t)root->stream_count * SFS_STREAM_BYTES;
	for (uint32_t i = 0; i < root->repair_count; i++, p += SFS_MAP_ENTRY)
		sfs_map_entry_encode(&root->repairs[i], p);
	for (uint32_t i = 0; i < root->listed_count; i++, p += SFS_MAP_ENTRY)
		sfs_map_entry_encode(&root->listed[i], p);
	redos_encode(root, p);
	checksum(buf, length, buf + 16);
	return whole;
}

static void
header_decode(const uint8_t *p, struct sfs_root *out)
{
	p += 8;
	out->generation = sfs_get64(&p);
	sfs_get_bytes(&p, out->uuid, 16);
	sfs_get_bytes(&p, out->secret, 32);
	out->created = (int64_t)sfs_get64(&p);
	p += 8;
	out->block_size = sfs_get32(&p);
	out->map_interval = sfs_get32(&p);
	out->data_start = sfs_get64(&p);
	out->blocks = sfs_get64(&p);
	out->device_count = sfs_get16(&p);
	out->device_index = sfs_get16(&p);
	p += 8;
	out->zone_region = sfs_get32(&p);
	p += 16;
	out->frontier = sfs_get64(&p);
	out->window = sfs_get64(&p);
	out->high_water = sfs_get64(&p);
	out->generation_limit = sfs_get64(&p);
	out->reset_generation = sfs_get64(&p);
	out->flags = sfs_get32(&p);
	out->stream_count = sfs_get32(&p);
	p += 4;
	out->utilization = sfs_get32(&p);
	out->repair_count = sfs_get32(&p);
	out->repairs = out->listed = NULL;
	out->redos = NULL;
	out->set_count = sfs_get32(&p);
	out->listed_count = sfs_get32(&p);
	out->redo_count = sfs_get32(&p);
}

static void
devices_decode(const uint8_t *buf, struct sfs_root *out)
{
	const uint8_t *p = buf + DEVICES_AT;
	for (uint16_t i = 0; i < SFS_DEVICES_MAX; i++) {
		sfs_get_bytes(&p, out->device[i].uuid, 16);
		out->device[i].blocks = sfs_get64(&p);
		out->device[i].flags = sfs_get32(&p);
		p += 4;
		out->device[i].lost_records = sfs_get64(&p);
		p += 24;
	}
	p = buf + SETS_AT;
	for (uint32_t i = 0; i < SFS_SETS_MAX; i++) {
		out->set[i].blocks = sfs_get64(&p);
		out->set[i].devices = sfs_get16(&p);
		out->set[i].tier = sfs_get16(&p);
		p += 20;
	}
	if (out->set_count == 0) {
		out->set_count = 1;
		out->set[0] = (struct sfs_set){.blocks = out->blocks,
			.devices = (uint16_t)((1u << out->device_count) - 1)};
	}
}

/* Every device has a part, every set has whole rows, and together they are the volume. */
static bool
sets_fit(const struct sfs_root *r)
{
	uint32_t all = (1u << r->device_count) - 1, seen = 0;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < r->set_count; i++) {
		const struct sfs_set *s = &r->set[i];
		uint32_t n = (uint32_t)__builtin_popcount(s->devices);
		if (n == 0 || (s->devices & ~all) != 0 || s->blocks == 0 ||
			s->blocks > r->blocks || s->blocks % n != 0 ||
			s->tier >= SFS_SETS_MAX)
			return false;
		seen |= s->devices;
		sum += s->blocks;
	}
	return sum == r->blocks && seen == all;
}

/* The checksum is no proof of good will: whoever made the volume may have chosen every field. */
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
streams_decode(const uint8_t *buf, const struct sfs_root *root,
	struct sfs_stream_entry *streams, struct pr_error *err)
{
	for (uint32_t i = 0; i < root->stream_count; i++) {
		struct sfs_stream_entry *s = &streams[i];
		stream_decode(buf + SFS_ROOT_HEADER + (size_t)i * SFS_STREAM_BYTES, s);
		if (s->id != i || s->name[0] == 0 || s->first_sequence == 0 ||
			s->durable_sequence > UINT64_MAX / 2 ||
			s->first_sequence > UINT64_MAX / 2 ||
			s->next_ordinal > UINT64_MAX / 2)
			return pr_error_set(err, "the root's stream %u is implausible", i);
	}
	return 0;
}

int
sfs_root_decode(const uint8_t *buf, struct sfs_root *root, struct sfs_stream_entry *streams,
	struct pr_error *err)
{
	uint8_t sum[16];
	const uint8_t *p = buf + 8;
	if (memcmp(buf, magic, sizeof(magic)) != 0)
		return pr_error_set(err, "not a StreamFS volume");
	uint32_t version = sfs_get32(&p);
	if (version != SFS_VERSION)
		return pr_error_set(err,
			"the volume has format version %u, this program reads version %u: "
			"use the "
			"release that wrote it, or create the volume anew",
			version, SFS_VERSION);
	p = buf + 32;
	uint32_t length = sfs_get32(&p), kind = sfs_get32(&p);
	if (length < SFS_ROOT_HEADER || length > SFS_ROOT_BYTES)
		return pr_error_set(err, "the root is damaged (length)");
	checksum(buf, length, sum);
	if (memcmp(sum, buf + 16, 16) != 0)
		return pr_error_set(err, "the root is damaged (checksum)");
	if (kind != SFS_HASH_KIND)
		return pr_error_set(
			err, "the volume uses record hash %u, not known here", kind);
	header_decode(buf + 32, root);
	const char *what = implausible(root);
	if (!what) {
		devices_decode(buf, root);
		what = sets_fit(root) ? NULL : "stripe sets";
	}
	if (what)
		return pr_error_set(err, "the root's %s is implausible", what);
	if (root->stream_count > SFS_STREAMS_MAX || root->repair_count > SFS_REPAIRS_MAX ||
		root->listed_count > SFS_LISTED_MAX || root->redo_count > SFS_REDO_MAX ||
		length != sfs_root_length(root))
		return pr_error_set(err, "the root's stream count is implausible");
	return streams_decode(buf, root, streams, err);
}

struct sfs_root_peek
sfs_root_peek(const uint8_t *buf)
{
	struct sfs_root_peek peek = {0};
	struct sfs_root root;
	const uint8_t *p = buf + 32;
	if (memcmp(buf, magic, sizeof(magic)) != 0)
		return peek;
	peek.length = sfs_get32(&p);
	header_decode(buf + 32, &root);
	peek.generation = root.generation;
	memcpy(peek.uuid, root.uuid, 16);
	return peek;
}

static void
entries_decode(const uint8_t *p, uint32_t count, struct sfs_map_entry *out)
{
	for (uint32_t i = 0; i < count; i++, p += SFS_MAP_ENTRY)
		sfs_map_entry_decode(p, &out[i]);
}

static const uint8_t *
repairs_at(const uint8_t *buf, const struct sfs_root *root)
{
	return buf + SFS_ROOT_HEADER + (size_t)root->stream_count * SFS_STREAM_BYTES;
}

void
sfs_root_repairs(const uint8_t *buf, const struct sfs_root *root, struct sfs_map_entry *out)
{
	entries_decode(repairs_at(buf, root), root->repair_count, out);
}

void
sfs_root_listed(const uint8_t *buf, const struct sfs_root *root, struct sfs_map_entry *out)
{
	const uint8_t *p = repairs_at(buf, root);
	entries_decode(
		p + (size_t)root->repair_count * SFS_MAP_ENTRY, root->listed_count, out);
}

void
sfs_root_redos(const uint8_t *buf, const struct sfs_root *root, struct sfs_redo *out)
{
	const uint8_t *p =
		repairs_at(buf, root) +
		(size_t)(root->repair_count + root->listed_count) * SFS_MAP_ENTRY;
	for (uint32_t i = 0; i < root->redo_count; i++) {
		out[i].block = sfs_get64(&p);
		out[i].offset = sfs_get32(&p);
		p += 20;
		sfs_get_bytes(&p, out[i].sector, SFS_SECTOR);
	}
}
