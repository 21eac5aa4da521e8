/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filled volume of two devices is damaged by seed, in hundreds of ways. The check must find each
 * change of a byte that says something, and name the record, block or device; whatever it does not find must be in
 * bytes that nobody reads. After
 * a repair the check is clean, each record that was not hit is there, and nothing else is given.
 * STREAMFS_CARE_SEEDS=N does so N times.
 */
#include "tests/unit/streamfs_damaged.h"
#include "tests/unit/unit.h"

#define SEEDS 300

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

/* What was said of each fault, while there is room. */
struct told {
	enum sfs_fault_kind kind;
	uint64_t block, first, last;
	int device, stream; /* -1: none */
};
static struct told told[RECORDS_MAX];
static int faults_told;
static void
on_fault(void *arg, const struct sfs_fault *f)
{
	(void)arg;
	int device = DEVICES - 1;
	while (device >= 0 && (!f->device || strcmp(f->device, path[device]) != 0))
		device--;
	if (faults_told < RECORDS_MAX)
		told[faults_told] = (struct told){.kind = f->kind,
			.device = device,
			.block = f->block,
			.first = f->first,
			.last = f->last,
			.stream = f->stream ? atoi(f->stream + 1) : -1};
	ck_assert(f->why && f->why[0]);
	ck_assert(f->kind == SFS_FAULT_MISSING || f->kind == SFS_FAULT_DEVICE || f->device);
	ck_assert(f->kind != SFS_FAULT_RECORD ||
		  (f->stream && f->first && f->last >= f->first));
	faults_told++;
}

static bool
named_block(uint64_t block)
{
	for (int i = 0; i < faults_told; i++)
		if (told[i].block == block)
			return true;
	return false;
}

static bool
named_record(const struct original *o, bool single)
{
	for (int i = 0; i < faults_told; i++)
		if (told[i].stream == o->handle.stream && told[i].first <= o->sequence &&
			o->sequence <= told[i].last &&
			(!single || told[i].kind != SFS_FAULT_RECORD ||
				told[i].block == o->handle.block))
			return true;
	return false;
}

static bool
named_root(int device)
{
	for (int i = 0; i < faults_told; i++)
		if (told[i].kind == SFS_FAULT_ROOT && told[i].device == device)
			return true;
	return false;
}

/* Each record that was hit is named, each root by its device; of a single damage with the block, and headers as well. */
static void
all_named(uint64_t seed, bool single)
{
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(!originals[i].hit || named_record(&originals[i], single),
			"seed %lu: record %lu of stream %d is not named",
			(unsigned long)seed, (unsigned long)originals[i].sequence,
			originals[i].handle.stream);
	for (uint64_t b = 0; b < BLOCKS && single; b++)
		ck_assert_msg(!holds_records(b) || named_block(b) ||
				      memcmp(block_at(image, b), block_at(pristine, b),
					      SFS_BLOCK_HEADER) == 0,
			"seed %lu: the header of block %lu is not named",
			(unsigned long)seed, (unsigned long)b);
	for (int d = 0; d < DEVICES; d++)
		ck_assert_msg(!root_changed(d) || named_root(d),
			"seed %lu: a root of device %d is not named", (unsigned long)seed,
			d);
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
repair_and_look(uint64_t seed, bool known)
{
	struct sfs_repair_result out;
	faults_told = 0;
	int rc = sfs_repair(paths, DEVICES, NULL, on_fault, NULL, &out, &err);
	ck_assert_msg(rc == 0, "seed %lu: %s", (unsigned long)seed, err.text);
	ck_assert_msg(out.left == 0, "seed %lu: %lu faults are left", (unsigned long)seed,
		(unsigned long)out.left);
	/* of several damages one may hide what another has taken until it is mended */
	if (known)
		all_named(seed, false);
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
	ck_assert_int_lt(sfs_repair(paths, DEVICES, NULL, on_fault, NULL, &out, &err), 0);
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
		bool missing = sfs->missing > 0;
		bool known = sfs->root.generation == root.generation;
		if (!known)
			not_known_durable();
		else if (damages == 1 && !missing)
			all_named(seed, true);
		sfs_close(&sfs);
		found += faults > 0;
		harmless += !counts;
		/* a device without any root is as good as not there: nothing is dropped */
		if (missing)
			repair_is_refused();
		else if (faults > 0)
			repair_and_look(seed, known);
	}
	ck_assert_uint_gt(found, SEEDS / 2);
	ck_assert_uint_gt(harmless, 3);
	teardown();
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 0);
	tcase_add_test(t, test_all_damage_is_found_and_dropped);
}

int
main(void)
{
	return unit_run("streamfs care", fill);
}
