/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filled volume of two devices is damaged by seed, in hundreds of ways. The check must find each
 * change of a byte that says something; whatever it does not find must be in bytes that nobody reads. After
 * a repair the check is clean, each record that was not hit is there, and nothing else is given.
 * STREAMFS_CARE_SEEDS=N does so N times. The test knows itself where records, headers, maps and roots lie: from handles and the layout.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logger/streamfs/internal.h"
#include "tests/unit/unit.h"

enum {
	BLOCK = SFS_BLOCK_MIN,
	INTERVAL = 8,
	BLOCKS = 48,
	DEVICES = 2,
	DEVICE_BYTES = 2 * SFS_ROOT_BYTES + BLOCKS / DEVICES * BLOCK,
	STREAMS = 4,
	RECORDS_MAX = 4000,
	SEEDS = 300,
};

static struct pr_error err;
static uint8_t *image[DEVICES], *pristine[DEVICES], *alien[DEVICES];
static char path[DEVICES][64];
static const char *const paths[DEVICES] = {path[0], path[1]};
static int file[DEVICES];
static struct sfs_root root;
static struct sfs_key key;

struct original {
	struct sfs_handle handle;
	uint64_t sequence;
	uint8_t *body;
	bool hit;
};
static struct original originals[RECORDS_MAX];
static size_t count;
static uint64_t random_state;

static uint64_t
draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state * 0x2545f4914f6cdd1du >> 16) % below;
}

static size_t
length_of(uint64_t n)
{
	return n % 11 == 0 ? 20000 + n % 3000 : n * 37 % 1500;
}

static void
fill(struct sfs *w)
{
	static uint8_t body[30000];
	int stream[STREAMS];
	char name[16];
	for (int i = 0; i < STREAMS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		stream[i] = sfs_stream_open(w, name, i == 1 ? 3 * BLOCK : 0, 1u << i, &err);
		ck_assert_int_eq(stream[i], i);
	}
	for (uint64_t n = 1; n <= 1800; n++) {
		int s = n % 40 == 0 ? 1 : n % 7 == 0 ? 2 : n % 400 == 1 ? 3 : 0;
		memset(body, (int)(n % 251), length_of(n));
		ck_assert_int_eq(sfs_append(w, stream[s], (int64_t)n, (int64_t)n + 1, body,
					 length_of(n), NULL, &err),
			SFS_OK);
		if (n % 29 == 0)
			ck_assert_int_eq(sfs_flush(w, &err), SFS_OK);
	}
}

static struct sfs *
open_reader(void)
{
	struct sfs_open_options o = {.no_direct = true};
	return sfs_open(paths, DEVICES, &o, &err);
}

static void
remember(void)
{
	struct sfs *sfs = open_reader();
	struct sfs_record r;
	ck_assert_msg(sfs != NULL, "%s", err.text);
	count = 0;
	for (int s = 0; s < STREAMS; s++) {
		struct sfs_cursor *c = sfs_cursor_open(sfs, s, NULL, &err);
		while (sfs_cursor_next(c, &r, &err) == 1) {
			struct original *o = &originals[count++];
			ck_assert_uint_lt(count, RECORDS_MAX);
			*o = (struct original){.handle = r.handle, .sequence = r.sequence};
			o->body = malloc(r.length + 1);
			memcpy(o->body, r.body, r.length);
		}
		sfs_cursor_close(&c);
	}
	root = sfs->root;
	key = sfs->key;
	ck_assert_int_eq(sfs_check(sfs, NULL, NULL, NULL, &err), 0);
	sfs_close(&sfs);
}

static void
make_volume(bool keep)
{
	struct sfs_disk disks[DEVICES] = {0};
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = 16 * BLOCK, .no_direct = true};
	for (int i = 0; i < DEVICES; i++) {
		ck_assert_int_eq(ftruncate(file[i], 0), 0);
		ck_assert_int_eq(ftruncate(file[i], DEVICE_BYTES), 0);
		ck_assert_int_eq(sfs_disk_open(&disks[i], path[i], true, false, &err), 0);
	}
	ck_assert_msg(sfs_create_disks(disks, DEVICES, BLOCK, INTERVAL, true, &err) == 0,
		"%s", err.text);
	for (int i = 0; i < DEVICES; i++)
		sfs_disk_close(&disks[i]);
	struct sfs *w = sfs_open(paths, DEVICES, &o, &err);
	ck_assert_msg(w != NULL, "%s", err.text);
	fill(w);
	sfs_close(&w);
	for (int i = 0; i < DEVICES; i++) {
		uint8_t **to = keep ? &pristine[i] : &alien[i];
		*to = malloc(DEVICE_BYTES);
		ck_assert_int_eq(pread(file[i], *to, DEVICE_BYTES, 0), DEVICE_BYTES);
	}
	if (keep)
		remember();
}

static void
setup(void)
{
	for (int i = 0; i < DEVICES; i++) {
		file[i] = memfd_create("care", 0);
		image[i] = malloc(DEVICE_BYTES);
		snprintf(path[i], sizeof(path[i]), "/proc/self/fd/%d", file[i]);
	}
	make_volume(false);
	make_volume(true);
}

static void
teardown(void)
{
	for (int i = 0; i < DEVICES; i++) {
		close(file[i]);
		free(image[i]);
		free(pristine[i]);
		free(alien[i]);
	}
	for (size_t i = 0; i < count; i++)
		free(originals[i].body);
}

/* ---- where things lie ---- */

static uint8_t *
block_at(uint8_t **devices, uint64_t block)
{
	return devices[block % DEVICES] + 2 * SFS_ROOT_BYTES + block / DEVICES * BLOCK;
}

static bool
holds_records(uint64_t block)
{
	for (size_t i = 0; i < count; i++)
		if (originals[i].handle.block == block)
			return true;
	return false;
}

/* Notes which records were changed, and says whether anything that counts was. */
static bool
changed(void)
{
	bool any = false;
	for (int d = 0; d < DEVICES; d++)
		for (int copy = 0; copy < 2; copy++) {
			size_t at = (size_t)copy * SFS_ROOT_BYTES;
			uint32_t length = SFS_ROOT_HEADER + STREAMS * SFS_STREAM_BYTES;
			any = any || memcmp(image[d] + at, pristine[d] + at, length) != 0;
		}
	for (uint64_t b = 0; b < BLOCKS; b++) {
		bool map = b % INTERVAL == INTERVAL - 1;
		uint8_t *now = block_at(image, b), *was = block_at(pristine, b);
		/* of a map, its entries: their number lies in the header */
		size_t used = SFS_BLOCK_HEADER +
			      (map ? (was[168] + was[172]) * SFS_MAP_ENTRY : 0);
		bool current = (b + BLOCKS - root.frontier) % BLOCKS >= root.window;
		for (uint64_t m = b - b % INTERVAL; map && m <= b; m++)
			current = current &&
				  (m + BLOCKS - root.frontier) % BLOCKS >= root.window;
		if (map ? current : holds_records(b))
			any = any || memcmp(now, was, used) != 0;
	}
	for (size_t i = 0; i < count; i++) {
		struct original *o = &originals[i];
		size_t span = sfs_record_span(o->handle.header, o->handle.length);
		o->hit = memcmp(block_at(image, o->handle.block) + o->handle.offset,
				 block_at(pristine, o->handle.block) + o->handle.offset,
				 span) != 0;
		/* the bytes that round it up say nothing */
		any = any || o->hit;
	}
	return any;
}

/* ---- the damage ---- */

static void
flip(uint8_t *at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		at[i] ^= (uint8_t)(1 + draw(255));
}

static void
swap_blocks(uint64_t a, uint64_t b)
{
	static uint8_t tmp[BLOCK];
	memcpy(tmp, block_at(image, a), BLOCK);
	memcpy(block_at(image, a), block_at(image, b), BLOCK);
	memcpy(block_at(image, b), tmp, BLOCK);
}

static void
damage_once(void)
{
	const struct original *o = &originals[draw(count)];
	uint8_t *record = block_at(image, o->handle.block) + o->handle.offset;
	uint64_t d = draw(DEVICES), b = draw(BLOCKS);
	switch (draw(12)) {
	case 0: /* a bit anywhere */
		image[d][draw(DEVICE_BYTES)] ^= (uint8_t)(1u << draw(8));
		break;
	case 1: /* a record's header */
		record[draw(o->handle.header)] ^= (uint8_t)(1u << draw(8));
		break;
	case 2:
		record[draw(o->handle.header + o->handle.length)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 3: /* a block's header */
		block_at(image, o->handle.block)[draw(SFS_BLOCK_HEADER)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 4: /* a map */
		b = draw(BLOCKS / INTERVAL) * INTERVAL + INTERVAL - 1;
		block_at(image, b)[draw(SFS_BLOCK_HEADER + 8 * SFS_MAP_ENTRY)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 5: /* one of a device's roots */
		image[d][draw(2) * SFS_ROOT_BYTES +
			 draw(SFS_ROOT_HEADER + STREAMS * SFS_STREAM_BYTES)] ^=
			(uint8_t)(1u << draw(8));
		break;
	case 6: /* a sector is lost */
		memset(block_at(image, b) + draw(BLOCK / SFS_SECTOR) * SFS_SECTOR, 0,
			SFS_SECTOR);
		break;
	case 7: /* the block's first sector is noise */
		flip(block_at(image, o->handle.block), SFS_SECTOR);
		break;
	case 8:
		swap_blocks(o->handle.block, b);
		break;
	case 9: /* another volume's block */
		memcpy(block_at(image, b), block_at(alien, b), BLOCK);
		break;
	case 10: /* a stretch of noise */
		flip(block_at(image, b) + draw(BLOCK / 2), 1 + draw(BLOCK / 2));
		break;
	default: /* a whole block is lost */
		memset(block_at(image, o->handle.block), 0, BLOCK);
	}
}

static void
put_image(void)
{
	for (int i = 0; i < DEVICES; i++)
		ck_assert_int_eq(pwrite(file[i], image[i], DEVICE_BYTES, 0), DEVICE_BYTES);
}

/* ---- what must hold ---- */

/*
 * The newest root is lost on all devices: by the one before, a stream's last records may be those of
 * a crash, which leaves none behind the first that is bad.
 */
static void
not_known_durable(void)
{
	for (size_t i = 1; i < count; i++)
		if (originals[i].handle.stream == originals[i - 1].handle.stream &&
			originals[i - 1].hit)
			originals[i].hit = true;
}

static int faults_told;
static void
on_fault(void *arg, const struct sfs_fault *f)
{
	(void)arg;
	ck_assert(f->why && f->why[0]);
	ck_assert(f->kind == SFS_FAULT_MISSING || f->kind == SFS_FAULT_DEVICE || f->device);
	ck_assert(f->kind != SFS_FAULT_RECORD ||
		  (f->stream && f->first && f->last >= f->first));
	faults_told++;
}

static bool
any_hit(void)
{
	for (size_t i = 0; i < count; i++)
		if (originals[i].hit)
			return true;
	return false;
}

/* From originals[i] on to the one of the stream with this sequence; those on the way were hit. */
static size_t
pass(size_t i, uint64_t seed, uint32_t stream, uint64_t sequence)
{
	for (; i < count; i++) {
		const struct original *o = &originals[i];
		if (o->handle.stream != stream)
			continue;
		if (o->sequence >= sequence)
			break;
		ck_assert_msg(o->hit, "seed %lu: a walk misses record %lu of stream %u",
			(unsigned long)seed, (unsigned long)o->sequence, stream);
	}
	return i;
}

static void
walk(struct sfs *sfs, uint64_t seed, uint32_t stream)
{
	struct sfs_cursor *c = sfs_cursor_open(sfs, (int)stream, NULL, &err);
	struct sfs_record r;
	size_t i = 0;
	int rc;
	while ((rc = sfs_cursor_next(c, &r, &err)) != 0) {
		ck_assert_msg(rc == 1 || rc == SFS_EXPIRED, "seed %lu: %d %s",
			(unsigned long)seed, rc, err.text);
		if (rc != 1)
			continue;
		i = pass(i, seed, stream, r.sequence);
		ck_assert_uint_lt(i, count);
		ck_assert_uint_eq(r.sequence, originals[i].sequence);
		ck_assert(memcmp(r.body, originals[i++].body, r.length) == 0);
	}
	pass(i, seed, stream, UINT64_MAX);
	sfs_cursor_close(&c);
}

/* Each record by its handle and by walking: those that were not hit, and no others. */
static void
all_there(struct sfs *sfs, uint64_t seed, bool repaired, bool all)
{
	struct sfs_record r;
	static uint8_t body[BLOCK];
	for (size_t i = 0; i < count; i++) {
		struct original *o = &originals[i];
		int rc = sfs_read(sfs, &o->handle, body, sizeof(body), NULL, &r, &err);
		if (rc == SFS_OK)
			ck_assert(memcmp(body, o->body, o->handle.length) == 0);
		ck_assert_msg(rc == SFS_OK || (!all && (o->hit || !repaired)),
			"seed %lu: record %lu of stream %u is gone: %s",
			(unsigned long)seed, (unsigned long)o->sequence, o->handle.stream,
			err.text);
		if (repaired && rc != SFS_OK)
			ck_assert_msg(rc == SFS_EXPIRED, "seed %lu: %d %s",
				(unsigned long)seed, rc, err.text);
	}
	for (int s = 0; s < STREAMS && repaired; s++)
		walk(sfs, seed, (uint32_t)s);
}

static void
repair_and_look(uint64_t seed)
{
	struct sfs_repair_result out;
	int rc = sfs_repair(paths, DEVICES, on_fault, NULL, &out, &err);
	ck_assert_msg(rc == 0, "seed %lu: %s", (unsigned long)seed, err.text);
	ck_assert_msg(out.left == 0, "seed %lu: %lu faults are left", (unsigned long)seed,
		(unsigned long)out.left);
	struct sfs *sfs = open_reader();
	ck_assert_int_eq(sfs_check(sfs, on_fault, NULL, NULL, &err), 0);
	all_there(sfs, seed, true, false);
	sfs_close(&sfs);
	if (seed % 8)
		return;
	/* the next writer goes on with it */
	struct sfs_open_options o = {
		.writer = true, .shm_bytes = 8 * BLOCK, .no_direct = true};
	sfs = sfs_open(paths, DEVICES, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	for (int i = 0; i < 300; i++)
		ck_assert_int_eq(
			sfs_append(sfs, 0, 9000, 9000, originals, 3000, NULL, &err),
			SFS_OK);
	sfs_close(&sfs);
	sfs = open_reader();
	ck_assert_msg(sfs_check(sfs, on_fault, NULL, NULL, &err) == 0,
		"seed %lu: faults after the next writer", (unsigned long)seed);
	sfs_close(&sfs);
}

static void
repair_is_refused(void)
{
	struct sfs_repair_result out;
	ck_assert_int_lt(sfs_repair(paths, DEVICES, on_fault, NULL, &out, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, "missing"));
}

START_TEST(test_all_damage_is_found_and_dropped)
{
	const char *more = getenv("STREAMFS_CARE_SEEDS");
	uint64_t seeds = more ? strtoull(more, NULL, 10) : SEEDS;
	unsigned found = 0, harmless = 0;
	setup();
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		random_state = seed * 0x9e3779b97f4a7c15u;
		for (int i = 0; i < DEVICES; i++)
			memcpy(image[i], pristine[i], DEVICE_BYTES);
		uint64_t damages = 1 + (seed % 4 == 0 ? draw(6) : 0);
		for (uint64_t n = damages; n > 0; n--)
			damage_once();
		put_image();
		bool counts = changed();
		faults_told = 0;
		struct sfs *sfs = open_reader();
		/* both roots of a device may be gone: there is no volume then */
		if (!sfs) {
			ck_assert_msg(strstr(err.text, "root"), "%s", err.text);
			continue;
		}
		int64_t faults = sfs_check(sfs, on_fault, NULL, NULL, &err);
		ck_assert_int_eq(faults, faults_told);
		ck_assert_msg(faults > 0 || !counts, "seed %lu: nothing found",
			(unsigned long)seed);
		/* headers, maps and roots have others that speak for them */
		all_there(sfs, seed, false, damages == 1 && !any_hit());
		if (sfs->root.generation < root.generation)
			not_known_durable();
		bool missing = sfs->missing > 0;
		sfs_close(&sfs);
		found += faults > 0;
		harmless += !counts;
		/* a device without any root is as good as not there: nothing is dropped */
		if (missing)
			repair_is_refused();
		else if (faults > 0)
			repair_and_look(seed);
	}
	ck_assert_uint_gt(found, SEEDS / 2);
	ck_assert_uint_gt(harmless, 3);
	teardown();
}
END_TEST

static void
add_tests(TCase *t)
{
	tcase_set_timeout(t, 0);
	tcase_add_test(t, test_all_damage_is_found_and_dropped);
}

int
main(void)
{
	return unit_run("streamfs care", add_tests);
}
