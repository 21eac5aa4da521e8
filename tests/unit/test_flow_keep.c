/* SPDX-License-Identifier: Apache-2.0 */
/* Kept flows whose volume has other bytes than a keeper writes: readers give a line or fewer records, and go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/streamfs/streamfs.h"
#include "merger/cli/cli.h"
#include "merger/cli/flows/flow_keep.h"
#include "proto/base/cursor.h"
#include "tests/unit/unit.h"

#define FLOWS 300
#define HEAD 28 /* bytes before the columns */

static struct pr_error err;
static char path[64];
static uint8_t head[8192];
static size_t head_len;
static uint64_t state = 7;

static uint32_t
next_random(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(state >> 33) % below;
}

static void
make_volume(void)
{
	struct sfs_create_options o = {
		.size = 32 << 20, .block_size = 65536, .force = true};
	const char *const paths[] = {path};
	struct flow_window w = {.since = 0, .until = 100, .complete = true};
	struct flow_keeper *k;

	snprintf(path, sizeof(path), "/tmp/test_flow_keep.%d", (int)getpid());
	unit_must(sfs_create(paths, 1, &o, &err) == SFS_OK);
	k = flow_keeper_open(path, false, &err);
	unit_must(k != NULL);
	for (int i = 0; i < FLOWS; i++) {
		struct pri_flow_key key = {
			.address_len = 4, .protocol = 6, .vlan = PRI_FLOW_UNTAGGED};
		struct pri_flow f;

		pr_put_be32(key.address[0], 0x0a000000u + next_random(50));
		pr_put_be32(key.address[1], 0x0b000000u + next_random(50));
		key.port[1] = (uint16_t)next_random(65536);
		pri_flow_begin(&f, &key);
		f.side[0] = (struct pri_flow_side){.packets = 1,
			.bytes = next_random(100000),
			.first = i,
			.last = i + 5,
			.syn = PRI_FLOW_NEVER,
			.syn_ack = PRI_FLOW_NEVER,
			.fin = PRI_FLOW_NEVER,
			.rst = PRI_FLOW_NEVER};
		unit_must(flow_keeper_put(k, &f, 0, i + 5, &err) == 0);
	}
	unit_must(flow_keeper_commit(k, &w, NULL, &err) == 0);
	flow_keeper_close(&k);
}

static struct sfs *
open_volume(bool writer)
{
	const struct sfs_open_options o = {.writer = writer};
	const char *const paths[] = {path};
	struct sfs *sfs = sfs_open(paths, 1, &o, &err);

	unit_must(sfs != NULL);
	return sfs;
}

static void
take_head(void)
{
	struct sfs *sfs = open_volume(false);
	struct sfs_cursor *c =
		sfs_cursor_open(sfs, sfs_stream_find(sfs, "flow.batches"), NULL, &err);
	struct sfs_record r;

	unit_must(c && sfs_cursor_next(c, &r, &err) == 1 && r.length < sizeof(head));
	memcpy(head, r.body, head_len = r.length);
	sfs_cursor_close(&c);
	sfs_close(&sfs);
}

static int
count_flow(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *e)
{
	(void)missing;
	(void)row;
	(void)e;
	unit_must(pri_flow_first(flow) <= pri_flow_last(flow) &&
		  pri_flow_state(flow) < PRI_FLOW_STATES);
	++*(uint64_t *)arg;
	return 0;
}

static struct flow_kept *
open_kept(const struct query_args *range)
{
	char *one = path;

	return flow_kept_open_all(&(const struct pr_string_list){&one, 1}, range, &err);
}

/* How many flows it gives; *status as flow_kept_lacks. */
static uint64_t
read_all(int *status)
{
	struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct flow_kept *kept = open_kept(&all);
	struct flow_kept_figures figures;
	uint64_t count = 0;
	const struct flow_taker taker = {
		.take = count_flow, .arg = &count, .columns = PRI_COLUMNS_ALL};

	*status = CLI_FAILED;
	if (kept && flow_kept_read(kept, NULL, &taker, 1, &err) == 0)
		*status = flow_kept_lacks(kept, &figures);
	flow_kept_close(&kept);
	return count;
}

static void
append(struct sfs *sfs, const void *body, size_t len)
{
	unit_must(sfs_append(sfs, sfs_stream_find(sfs, "flow.batches"), 0, 100, body, len,
			  NULL, &err) == SFS_OK);
}

START_TEST(hostile_heads)
{
	uint8_t bad[sizeof(head)];
	struct sfs *sfs;
	uint64_t count;
	int status;

	make_volume();
	ck_assert_uint_eq(read_all(&status), FLOWS);
	ck_assert_int_eq(status, CLI_OK);
	take_head();
	sfs = open_volume(true);
	for (int i = 0; i < 1500; i++) {
		size_t len = next_random(4) ? head_len
					    : 24 + next_random((uint32_t)head_len - 24);

		memcpy(bad, head, head_len);
		for (uint32_t j = next_random(4); j < 4; j++) {
			size_t at = 4 + next_random((uint32_t)len - 4);

			if (at < 8 || at >= 16) /* the tag stays */
				bad[at] =
					(uint8_t)(next_random(2)
							  ? next_random(256)
							  : bad[at] ^ 1u << next_random(8));
		}
		append(sfs, bad, len);
	}
	sfs_close(&sfs);
	count = read_all(&status);
	ck_assert_int_eq(status, CLI_PARTIAL);
	ck_assert_uint_ge(count, FLOWS);
	unlink(path);
}
END_TEST

/* A record of any bytes; its handle goes to a head. */
static void
append_any(struct sfs *sfs, size_t len, struct pr_writer *to, struct sfs_handle *last)
{
	struct sfs_handle at;
	uint8_t bytes[PRI_BLOOM_PAGE];

	for (size_t j = 0; j < len; j++)
		bytes[j] = (uint8_t)next_random(256);
	memcpy(bytes, "\x28\xb5\x2f\xfd\x20", 5); /* as zstd begins */
	unit_must(sfs_append(sfs, sfs_stream_find(sfs, "flow.columns"), 0, 100, bytes, len,
			  &at, &err) == SFS_OK);
	to->at += sfs_handle_pack(&at, last, to->at);
	*last = at;
}

/* Heads that are right, of both versions, and columns of any bytes. */
START_TEST(hostile_columns)
{
	struct sfs *sfs;
	uint64_t count;
	int status;

	make_volume();
	take_head();
	sfs = open_volume(true);
	for (int i = 0; i < 1000; i++) {
		struct sfs_handle last = {0};
		uint8_t made[sizeof(head)], behind[sizeof(head)];
		struct pr_writer w = pr_writer_make(made, sizeof(made));
		struct pr_writer handles = pr_writer_make(behind, sizeof(behind));
		bool first = i % 2;

		memcpy(made, head, HEAD);
		made[3] = first ? 1 : 2; /* handles among the numbers, or behind them */
		pr_put_le32(made + 4, 1 + next_random(4));
		pr_put_le32(made + 16, 1 + next_random(2));
		w.at += HEAD;
		if (!first)
			append_any(sfs, PRI_BLOOM_PAGE, &handles, &last);
		for (unsigned c = 0; c < PRI_COLUMNS; c++) {
			bool packed = next_random(8) == 0;

			unit_must(pr_store_varint(&w, next_random(3) ? 0 : state) &&
				  pr_store_varint(&w, packed ? 1 + next_random(300) : 0));
			if (packed)
				append_any(sfs, 5 + next_random(200), first ? &w : &handles,
					&last);
		}
		memcpy(w.at, behind, pr_writer_len(&handles));
		w.at += pr_writer_len(&handles);
		append(sfs, made, pr_writer_len(&w));
	}
	sfs_close(&sfs);
	count = read_all(&status);
	ck_assert_int_eq(status, CLI_PARTIAL);
	ck_assert_uint_ge(count, FLOWS);
	unlink(path);
}
END_TEST

struct rows {
	uint64_t windows, heads, count, last;
	uint64_t records[3]; /* of each window */
};

static void
on_window(void *arg, const struct flow_window *w, bool is_head)
{
	struct rows *r = arg;

	*(is_head ? &r->heads : &r->windows) += 1;
	ck_assert_uint_eq(w->number, is_head ? r->heads : r->windows);
	r->last = 0;
}

/* make_windows has it in its time. */
static int
on_row(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *e)
{
	struct rows *r = arg;

	(void)missing;
	(void)e;
	unit_must(row > r->last && (uint64_t)pri_flow_first(flow) == row);
	r->last = row;
	r->records[r->windows - 1]++;
	r->count++;
	return 0;
}

static struct rows
read_windows(int *status)
{
	struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct rows r = {.count = 0};
	char *one = path;

	*status = flow_kept_windows(&(const struct pr_string_list){&one, 1}, &all, 1, 0,
		on_window, on_row, &r, &err);
	ck_assert_uint_eq(r.heads, 2);
	ck_assert_uint_eq(r.windows, 2);
	return r;
}

#define MANY 10000

/* Two windows of several batches; before the second, flows that never got a window. */
static void
make_windows(void)
{
	struct sfs_create_options o = {
		.size = 32 << 20, .block_size = 65536, .force = true};
	const char *const paths[] = {path};
	struct flow_keeper *k;

	snprintf(path, sizeof(path), "/tmp/test_flow_keep.%d", (int)getpid());
	unit_must(sfs_create(paths, 1, &o, &err) == SFS_OK);
	k = flow_keeper_open(path, true, &err);
	unit_must(k != NULL);
	for (uint64_t file = 1; file <= 3; file++) {
		struct flow_window w = {.since = 0, .until = MANY + 1, .complete = true};

		unit_must(flow_keeper_file(k, file, &err) == 0);
		for (int i = 1; i <= MANY; i++) {
			struct pri_flow_key key = {.address_len = 4,
				.protocol = 6,
				.vlan = PRI_FLOW_UNTAGGED,
				.port = {(uint16_t)i, 80}};
			struct pri_flow f;

			pri_flow_begin(&f, &key);
			f.side[0].packets = 1;
			f.side[0].first = f.side[0].last = i;
			unit_must(flow_keeper_put(k, &f, 0, i, &err) == 0);
		}
		if (file != 2)
			unit_must(flow_keeper_commit(k, &w, NULL, &err) == 0);
	}
	unit_must(flow_keeper_file(k, 1, &err) < 0 && strstr(err.text, "already"));
	flow_keeper_close(&k);
}

/* Spoils the nth head of a batch that the volume's file has. */
static void
spoil_head(int n)
{
	FILE *f = fopen(path, "r+");
	static char bytes[32 << 20];
	char *at = bytes;

	unit_must(f && fread(bytes, 1, sizeof(bytes), f) > 0);
	while (at && n-- > 0)
		at = memmem(at + 1, sizeof(bytes) - (size_t)(at + 1 - bytes), "PFB\2", 4);
	unit_must(at && fseek(f, at + 30 - bytes, SEEK_SET) == 0);
	fputc(at[30] ^ 1, f);
	fclose(f);
}

/* A window's rows have the same numbers whenever they are read, also when a batch before them is lost. */
START_TEST(rows_of_windows)
{
	struct rows r;
	int status;

	make_windows();
	r = read_windows(&status);
	ck_assert_int_eq(status, CLI_OK);
	ck_assert_uint_eq(r.records[0], MANY);
	ck_assert_uint_eq(r.records[1], MANY);
	ck_assert_uint_eq(read_all(&status), 2 * MANY);
	ck_assert_int_eq(status, CLI_OK);
	spoil_head(2);
	r = read_windows(&status);
	ck_assert_int_eq(status, CLI_PARTIAL);
	ck_assert_uint_lt(r.records[0], MANY);
	ck_assert_uint_gt(r.records[0], MANY / 2);
	ck_assert_uint_eq(r.records[1], MANY);
	unlink(path);
}
END_TEST

/* Flows whose source is 10.0.0.N; *read: batches that had some. */
static uint64_t
find_source(uint32_t n, uint64_t *batches)
{
	const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct flow_kept *kept = open_kept(&all);
	struct pri_plan_node node = {PRI_PLAN_KEY, 0, 0};
	struct pri_key key;
	struct pri_plan plan = {.nodes = &node, .count = 1, .keys = &key, .key_count = 1};
	struct flow_kept_figures figures;
	uint8_t address[4];
	uint64_t count = 0;
	const struct flow_taker taker = {
		.take = count_flow, .arg = &count, .columns = PRI_COLUMNS_ALL};

	pr_put_be32(address, 0x0a000000u + n);
	key = pri_key_bytes(PRI_KEY_SRC, address, sizeof(address));
	unit_must(kept && flow_kept_read(kept, &plan, &taker, 1, &err) == 0);
	unit_must(flow_kept_lacks(kept, &figures) == CLI_OK);
	*batches = figures.read;
	flow_kept_close(&kept);
	return count;
}

/* Makes the bits of all pages of the first record of flow.columns, a Bloom filter, zero. */
static void
spoil_bloom(void)
{
	static uint8_t bytes[32 << 20];
	struct sfs *sfs = open_volume(false);
	struct sfs_cursor *c =
		sfs_cursor_open(sfs, sfs_stream_find(sfs, "flow.columns"), NULL, &err);
	FILE *f = fopen(path, "r+");
	struct sfs_record r;
	uint8_t *at;

	unit_must(sfs_cursor_next(c, &r, &err) == 1 && r.length % PRI_BLOOM_PAGE == 0);
	unit_must(f && fread(bytes, 1, sizeof(bytes), f) > 0);
	at = memmem(bytes, sizeof(bytes), r.body, r.length);
	unit_must(at != NULL);
	for (size_t i = 0; i < r.length; i += PRI_BLOOM_PAGE)
		memset(at + i, 0, PRI_BLOOM_BYTES);
	unit_must(fseek(f, at - bytes, SEEK_SET) == 0 &&
		  fwrite(at, 1, r.length, f) == r.length);
	fclose(f);
	sfs_cursor_close(&c);
	sfs_close(&sfs);
}

/* A Bloom filter excludes what is not there, and when its page is damaged nothing. */
START_TEST(needles)
{
	uint64_t found[50], sum = 0, batches;

	make_volume();
	for (uint32_t i = 0; i < 50; i++) {
		found[i] = find_source(i, &batches);
		ck_assert_uint_eq(batches, found[i] > 0);
		sum += found[i];
	}
	ck_assert_uint_eq(sum, FLOWS);
	ck_assert_uint_eq(find_source(50, &batches), 0);
	spoil_bloom();
	for (uint32_t i = 0; i < 50; i++)
		ck_assert_uint_eq(find_source(i, &batches), found[i]);
	unlink(path);
}
END_TEST

/* A volume of an older packrack is refused by name. */
START_TEST(another_version)
{
	static const uint8_t entry[104] = {'P', 'F', 'W', 1};
	struct sfs *sfs;
	int status;

	make_volume();
	sfs = open_volume(true);
	unit_must(sfs_append(sfs, sfs_stream_find(sfs, "flow.windows"), 0, 100, entry,
			  sizeof(entry), NULL, &err) == SFS_OK);
	sfs_close(&sfs);
	ck_assert_uint_eq(read_all(&status), 0);
	ck_assert_int_eq(status, CLI_FAILED);
	ck_assert_msg(strstr(err.text, "another version"), "%s", err.text);
	unlink(path);
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_add_test(tests, hostile_heads);
	tcase_add_test(tests, hostile_columns);
	tcase_add_test(tests, rows_of_windows);
	tcase_add_test(tests, needles);
	tcase_add_test(tests, another_version);
}

int
main(void)
{
	return unit_run("flow_keep", fill);
}
