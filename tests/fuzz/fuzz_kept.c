/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of batches of kept flows. Covers merger/cli/flows/flow_kept.c
 * Options -max_len=512
 *
 * The input is a first byte (bits 0 and 1: what is asked; bit 2: the batch is of flows that are open; bit 3: of a range;
 * bit 4: it is version 1; bit 5: the bytes that follow are a head; else bits 6 and 7 choose one of a small volume), and patches of
 * that head: offset u16 (behind its end: it ends there), length (up to 16), bytes. The columns that it names lie in the volume.
 * Whatever the head says: each record is one that can be, and each batch is read, or counted as damaged, lost or gone.
 */
#include "merger/cli/flows/flow_kept.c"

#include "merger/cli/flows/flow_record.h"
#include "tests/fuzz/fuzz.h"

enum { SIZE = 4 << 20, HEADS = 4, HEAD_MAX = 4096 };

static char path[32];
static char *volume_paths[] = {path};
static const struct pr_string_list volumes = {volume_paths, 1};
static struct pr_error err;
static struct flow_kept *base; /* the volume as it is */
static struct flow_reader
	*reader; /* of all inputs: its batch takes more time than most of them */
static struct {
	uint8_t bytes[HEAD_MAX];
	size_t len;
} heads[HEADS];
static const struct query_args all = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
static const struct query_args midst = {.since = 100, .until = 150};

/* ---- the volume ---- */

static struct pri_flow
flow_make(unsigned i, unsigned window)
{
	struct pri_flow_key key = {.address_len = window % 2 && i % 3 ? 16 : 4,
		.protocol = i % 5 ? 6 : 17,
		.link = (uint16_t)(i % 2),
		.vlan = i % 4 ? PRI_FLOW_UNTAGGED : 7};
	struct pri_flow f;

	key.address[0][0] = 10;
	key.address[0][3] = (uint8_t)(i % 50);
	key.address[1][0] = 11;
	key.address[1][3] = (uint8_t)(i % 31);
	key.port[1] = (uint16_t)(i * 2551);
	pri_flow_begin(&f, &key);
	f.side[i % 2] = (struct pri_flow_side){.packets = 1 + i % 9,
		.bytes = i * i,
		.first = i,
		.last = i + 5 + i % 100,
		.syn = PRI_FLOW_NEVER,
		.syn_ack = PRI_FLOW_NEVER,
		.fin = PRI_FLOW_NEVER,
		.rst = PRI_FLOW_NEVER};
	return f;
}

static int
on_flow(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *e)
{
	(void)missing;
	(void)row;
	(void)e;
	MUST(pri_flow_first(flow) <= pri_flow_last(flow));
	MUST(pri_flow_state(flow) < PRI_FLOW_STATES);
	++*(uint64_t *)arg;
	return 0;
}

static int
ignore_flow(void *arg, const struct pri_flow *flow, struct pr_error *e)
{
	(void)arg;
	(void)flow;
	(void)e;
	return 0;
}

static void
on_window(void *arg, const struct flow_window *w, bool head)
{
	(void)arg;
	(void)head;
	MUST(w->number);
}

/* Windows of few flows, of many, of addresses of two lengths; the last one leaves some open. */
static void
make_volume(void)
{
	struct sfs_create_options o = {.size = SIZE, .block_size = SFS_BLOCK_MIN};
	static const unsigned counts[] = {1, 40, 900};
	const struct pri_flow_limits limits = {.flows = 100};
	const char *const paths[] = {path};
	struct pri_flow_table *table;
	const struct flow_losses none = {0};
	struct flow_keep_open open = {NULL, NULL, &none};
	struct flow_keeper *k;

	MUST(sfs_create(paths, 1, &o, &err) == SFS_OK);
	table = pri_flow_table_create(&limits, ignore_flow, NULL, &err);
	k = flow_keeper_open(path, false, &err);
	MUST(table && k);
	open.table = table;
	for (unsigned w = 0; w < PR_COUNT(counts); w++) {
		struct flow_window window = {.since = w * 2000,
			.until = (w + 1) * 2000,
			.packets = counts[w],
			.complete = true};

		for (unsigned i = 0; i < counts[w]; i++) {
			struct pri_flow f = flow_make(i, w);

			MUST(flow_keeper_put(k, &f, i % 3, w * 2000 + i, &err) == 0);
		}
		for (unsigned i = 0; w == 2 && i < 30; i++) {
			struct pri_flow f = flow_make(i, w);

			MUST(pri_flow_table_restore(table, &f, &err) == 0);
		}
		MUST(flow_keeper_commit(k, &window, w == 2 ? &open : NULL, &err) == 0);
	}
	flow_keeper_close(&k);
	pri_flow_table_destroy(&table);
}

/* The head of the open flows is the first, and those of the windows follow. */
static void
take_originals(void)
{
	MUST(base->count >= HEADS);
	for (size_t i = 0; i < HEADS; i++) {
		const struct stored_head *h = base->heads[i];

		MUST(h->open == (i == 0) && h->len <= HEAD_MAX);
		heads[i].len = h->len;
		memcpy(heads[i].bytes, h->bytes, h->len);
	}
}

/* All of a good volume is there. */
static void
read_good(void)
{
	struct flow_window last = {.tag = base->volumes->windows.all[2].tag, .open = 30};
	const struct pri_flow_limits limits = {.flows = 100};
	struct pri_flow_table *table =
		pri_flow_table_create(&limits, ignore_flow, NULL, &err);
	struct flow_windows windows;
	struct flow_kept_figures figures;
	uint64_t count = 0;
	const struct flow_taker taker = {
		.take = on_flow, .arg = &count, .columns = PRI_COLUMNS_ALL};

	MUST(flow_kept_read(base, NULL, &taker, 1, &err) == 0);
	MUST(flow_kept_lacks(base, &figures) == CLI_OK && count == 941 + 30);
	count = 0;
	MUST(flow_kept_windows(&volumes, &all, 1, 0, on_window, on_flow, &count, &err) ==
		CLI_OK);
	MUST(count == 941 && flow_kept_tell(base) == CLI_OK);
	MUST(flow_kept_restore(base->volumes->sfs, &last, table, &err) == 0);
	MUST(last.complete);
	pri_flow_table_destroy(&table);
	MUST(flow_windows_of(&windows, path, &err) == 0 && windows.count == 3);
	free(windows.all);
}

static int
on_sums(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *e)
{
	(void)missing, (void)row, (void)e;
	MUST(flow->key.address_len == 4 || flow->key.address_len == 16);
	++*(uint64_t *)arg;
	return 0;
}

static size_t
every_other(void *arg, const struct pri_batch *batch, uint32_t *list, size_t count)
{
	(void)arg;
	for (size_t i = 0; i < count; i += 2) {
		MUST(list[i] < batch->rows);
		list[i / 2] = list[i];
	}
	return (count + 1) / 2;
}

/* What is asked: nothing, an address, a pair, or numbers and addresses of which one would do. */
static const struct pri_plan *
plan_of(unsigned which)
{
	static const uint8_t pair[] = {10, 0, 0, 3, 11, 0, 0, 3};
	static struct pri_key keys[2];
	static struct pri_plan_range ranges[] = {{FLOW_NUMBER(PRI_COL_FIRST), 20, 30},
		{FLOW_NUMBER(PRI_COL_DPORT), 2551, 5102}};
	static struct pri_plan_node nodes[][3] = {{{PRI_PLAN_KEY, 0, 0}},
		{{PRI_PLAN_KEY, 1, 0}},
		{{PRI_PLAN_RANGE, 0, 0}, {PRI_PLAN_RANGE, 1, 0}, {PRI_PLAN_OR, 0, 1}}};
	static struct pri_plan plan;

	keys[0] = pri_key_bytes(PRI_KEY_SRC, pair, 4);
	keys[1] = pri_key_bytes(PRI_KEY_PAIR, pair, sizeof(pair));
	if (!which)
		return NULL;
	plan = (struct pri_plan){.nodes = nodes[which - 1],
		.count = which == 3 ? 3 : 1,
		.keys = keys,
		.key_count = which == 3 ? 0 : 2,
		.ranges = ranges,
		.range_count = which == 3 ? 2 : 0};
	return &plan;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct flow_scan largest = {.plan = plan_of(3)};

	(void)argc;
	(void)argv;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd_create("volume", 0));
	make_volume();
	base = flow_kept_open_all(&volumes, &all, &err);
	MUST(base);
	take_originals();
	read_good();
	reader = flow_reader_create(&largest);
	MUST(reader);
	return 0;
}

/* ---- a head ---- */

/* Into a buffer of its own size: what is read behind it is found. */
static uint8_t *
head_make(const uint8_t *data, size_t size, size_t *len)
{
	struct pr_cursor c = pr_cursor_make(data + 1, size - 1);
	static uint8_t made[HEAD_MAX];
	const uint8_t *bytes = data + 1;
	uint8_t n, *out;
	uint16_t at;

	*len = size - 1;
	if (!(data[0] & 32)) {
		bytes = made;
		*len = heads[data[0] >> 6].len;
		memcpy(made, heads[data[0] >> 6].bytes, *len);
		while (pr_load_le16(&c, &at) && pr_load_u8(&c, &n) &&
			pr_load_bytes(&c, &data, n % 17))
			for (unsigned i = 0; i < n % 17 || (size_t)at >= *len; i++) {
				if ((size_t)at + i >= *len) {
					*len = at % (*len + 1);
					break;
				}
				made[at + i] = data[i];
			}
	}
	out = malloc(*len + !*len);
	memcpy(out, bytes, *len);
	return out;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sfs_record record = {.length = 0};
	struct flow_kept k = {.lock = PTHREAD_MUTEX_INITIALIZER,
		.volumes = base->volumes,
		.volume_count = 1};
	struct taking t = {&k, base->volumes, NULL, 1, false};
	uint64_t tag = 0, count = 0, rows;
	const struct flow_taker whole = {
		.take = on_flow, .arg = &count, .columns = PRI_COLUMNS_ALL};
	const struct flow_taker sums = {.take = on_sums,
		.arg = &count,
		.columns = PRI_COLUMNS_KEY | PRI_COLUMNS_SUMS,
		.choose = every_other,
		.first = PRI_COLUMNS_SUMS};
	struct flow_scan *scan;
	uint8_t *head;

	if (size < 1)
		return -1;
	k.range = data[0] & 8 ? &midst : &all;
	t.open = data[0] & 4;
	t.tags = &tag;
	head = head_make(data, size, &record.length);
	if (data[0] & 16 && record.length > 3)
		head[3] = 1;
	if (record.length >= 16)
		tag = pr_get_le64(head + 8);
	record.body = head;
	MUST(take_head(&t, &record, &err) == 0);
	rows = k.count ? pr_get_le32(k.heads[0]->bytes + 4) : 0;
	MUST(k.count <= 1 && rows <= PRI_BATCH_ROWS);
	scan = flow_scan_create(&k, plan_of(data[0] & 3), PRI_COLUMN(PRI_COL_FIRST));
	MUST(scan);
	reader->scan = scan;
	scan->taker = &whole;
	take_all(reader);
	MUST(count == scan->found && count + k.figures.lost + k.figures.gone <= rows);
	scan->next = scan->found = count = k.figures.lost = k.figures.gone = 0;
	scan->taker = &sums;
	take_all(reader);
	MUST(count == scan->found && count + k.figures.lost + k.figures.gone <= rows);
	free(scan);
	heads_free(&k, 0);
	free(k.heads);
	free(head);
	return 0;
}
