/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_keep.h"

#include <inttypes.h>

#include "indexer/flows/flow_frame.h"
#include "indexer/query/volume.h"
#include "logger/direct_link.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/volume/volume.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define LINK_NAME "flows"
static const char windows_stream[] = "flow.windows", open_stream[] = "flow.open";
/* Of weeks of windows; an entry takes some 150 bytes. */
#define WINDOWS_GUARANTEE (1024 * 1024)
#define TICK_NS (10 * PR_NS_PER_MS)
#define BATCH 256 /* records between two looks at the clock */

/* ---- entries of windows ---- */

/* "PFW" version u8; u32 flags; then all numbers of struct flow_window as u64. */
enum { WINDOW_BYTES = 8 + 9 * 8, COMPLETE = 1, GOES_ON = 2, COLLECTED = 4 };
static const uint8_t window_magic[4] = {'P', 'F', 'W', 1};

static void
window_write(const struct flow_window *w, uint8_t out[WINDOW_BYTES])
{
	const uint64_t numbers[] = {w->number, (uint64_t)w->since, (uint64_t)w->until,
		w->packets, w->not_ip, w->missing, w->records, (uint64_t)w->reach, w->open};

	memcpy(out, window_magic, 4);
	pr_put_le32(out + 4, (w->complete ? COMPLETE : 0) | (w->goes_on ? GOES_ON : 0) |
				     (w->collected ? COLLECTED : 0));
	for (size_t i = 0; i < PR_COUNT(numbers); i++)
		pr_put_le64(out + 8 + i * 8, numbers[i]);
}

static bool
window_read(const uint8_t *p, size_t len, struct flow_window *w)
{
	uint64_t n[9];

	if (len != WINDOW_BYTES || memcmp(p, window_magic, 4) != 0)
		return false;
	for (size_t i = 0; i < PR_COUNT(n); i++)
		n[i] = pr_get_le64(p + 8 + i * 8);
	*w = (struct flow_window){n[0], (int64_t)n[1], (int64_t)n[2], n[3], n[4], n[5],
		n[6], (int64_t)n[7], n[8], .complete = pr_get_le32(p + 4) & COMPLETE,
		.goes_on = (pr_get_le32(p + 4) & GOES_ON) != 0,
		.collected = (pr_get_le32(p + 4) & COLLECTED) != 0};
	return w->since <= w->until && w->reach >= 0;
}

/* Each record of a stream. take: -1 ends. -1: err; damaged ones are counted. */
static int
each_record(struct sfs *sfs, const char *stream,
	int (*take)(void *arg, const struct sfs_record *r, struct pr_error *err), void *arg,
	uint64_t *damaged, struct pr_error *err)
{
	int id = sfs_stream_find(sfs, stream), rc = 0, got;
	struct sfs_cursor *c;
	struct sfs_record r;

	if (id < 0)
		return 0;
	c = sfs_cursor_open(sfs, id, NULL, err);
	if (!c)
		return -1;
	while (rc == 0 && (got = sfs_cursor_next(c, &r, err)) != 0) {
		if (got == 1)
			rc = take(arg, &r, err);
		else if (got == SFS_CORRUPT)
			++*damaged;
		else if (got != SFS_EXPIRED && got != SFS_DELETED)
			rc = -1;
	}
	sfs_cursor_close(&c);
	return rc;
}

static int
take_window(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct flow_windows *w = arg;

	if (PR_ARRAY_GROW(w->all, w->count) < 0)
		return pr_error_set(err, "no memory for windows");
	if (window_read(r->body, r->length, &w->all[w->count]))
		w->count++;
	else
		w->damaged++;
	return 0;
}

int
flow_windows_read(struct flow_windows *w, const char *volume, struct pr_error *err)
{
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	int rc = -1;

	*w = (struct flow_windows){0};
	if (view)
		rc = each_record(
			view->sfs, windows_stream, take_window, w, &w->damaged, err);
	if (rc == 0 && !w->count && !w->damaged)
		rc = pr_error_set(err,
			"%s keeps no flows: packrack flows --keep %s stores them there",
			volume, volume);
	pri_volume_close(&view);
	return rc;
}

void
flow_windows_free(struct flow_windows *w)
{
	free(w->all);
}

/* ---- reading records ---- */

struct reading {
	const struct query_args *range;
	int (*take)(void *arg, const struct pri_flow *flow, uint64_t missing,
		struct pr_error *err);
	void *arg;
	uint64_t others; /* packets that are no records */
};

static int
on_frame(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct reading *r = arg;
	struct pri_flow flow;
	uint64_t missing;

	if (!pri_flow_frame_read(p->data, p->caplen, &flow, &missing)) {
		r->others++;
		return 0;
	}
	if (r->range && (pri_flow_first(&flow) > r->range->until ||
				pri_flow_last(&flow) < r->range->since))
		return 0;
	return r->take(r->arg, &flow, missing, err);
}

/* What of the records is no more. */
static int
say_lacks(const struct sink *sink)
{
	const Packrack__Completeness *c = sink->end->completeness;
	uint64_t lost = sink->end->corrupt_records + (c ? c->missing_packets : 0);
	char time[PR_TIME_TEXT];

	for (size_t i = 0; c && i < c->n_evicted; i++)
		fprintf(stderr, "  overwritten or deleted: flows that ended by %s\n",
			pr_time_format(c->evicted[i]->until, time, sizeof(time)));
	if (lost)
		fprintf(stderr, "  lost: %" PRIu64 " records of flows\n", lost);
	return lost || (c && c->n_evicted) ? CLI_PARTIAL : CLI_OK;
}

/* The frames stored at since..until. */
static int
read_frames(const char *volume, const struct query_args *args, const char *filter,
	int64_t since, int64_t until, struct reading *r, struct pr_error *err)
{
	char *path = (char *)volume;
	struct query_args a = {.volumes = {.items = &path, .count = 1},
		.since = since,
		.until = until,
		.filter = (char *)filter,
		.quiet = args->quiet,
		.no_wait = true, /* what is kept is told by the windows */
		.program = args->program,
		.tally = PACKRACK__TALLY_SPEC__INIT};
	struct sink sink;
	int status;

	sink_init(&sink, &a);
	sink.take = on_frame;
	sink.take_arg = r;
	status = ask_query(&sink, err);
	progress_end(&sink.progress);
	if (status == CLI_OK && (sink.end->cancelled || r->others)) {
		pr_error_set(err,
			r->others ? "%s: holds packets that are no flow records"
				  : "%s: interrupted",
			volume);
		status = CLI_FAILED;
	}
	if (status == CLI_OK && r->range)
		status = say_lacks(&sink);
	sink_close(&sink);
	return status;
}

int
flow_kept_alone(const struct query_args *q, struct pr_error *err)
{
	if (!q->volumes.count && !q->files.count && !q->nodes.count && !q->link &&
		!q->follow && !q->merger.endpoint)
		return 0;
	return pr_error_set(err,
		"--kept: flows of that volume alone, without --volume, -r, --node, "
		"--link, --follow and --merger");
}

int
flow_kept_read(const char *volume, const struct query_args *args, const char *relaxed,
	int (*take)(void *arg, const struct pri_flow *flow, uint64_t missing,
		struct pr_error *err),
	void *arg, struct pr_error *err)
{
	struct reading r = {.range = args, .take = take, .arg = arg};
	struct flow_windows w;
	int64_t reach = 0, back = 0;
	int status = CLI_FAILED;

	if (flow_windows_read(&w, volume, err) == 0) {
		for (size_t i = 0; i < w.count; i++) {
			if (w.all[i].reach > reach)
				reach = w.all[i].reach;
			if (w.all[i].collected && w.all[i].reach > back)
				back = w.all[i].reach; /* exporters' clocks may be ahead */
		}
		status =
			read_frames(volume, args, relaxed, pr_time_minus(args->since, back),
				pr_time_minus(args->until, -reach), &r, err);
		if (status == CLI_OK && w.damaged)
			status = CLI_PARTIAL;
	}
	flow_windows_free(&w);
	return status;
}

static int
compare_windows(const void *a, const void *b)
{
	const struct flow_window *x = a, *y = b;

	return (x->since > y->since) - (x->since < y->since);
}

/* Says that nothing was kept from .. until; the ends of a range that is open are no gap. */
static int
say_gap(int64_t from, int64_t until)
{
	char since[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (from == PR_TIME_MIN || until == PR_TIME_MAX || from >= until)
		return CLI_OK;
	fprintf(stderr, "  not kept: %s to %s\n",
		pr_time_format(from, since, sizeof(since)),
		pr_time_format(until, to, sizeof(to)));
	return CLI_PARTIAL;
}

int
flow_kept_report(const char *volume, const struct query_args *args, struct pr_error *err)
{
	int64_t at = args->since, last = PR_TIME_MIN, first = PR_TIME_MAX;
	uint64_t packets = 0, not_ip = 0, missing = 0, partial = 0, lost = 0;
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];
	struct flow_windows w;
	int status = CLI_OK;

	if (flow_windows_read(&w, volume, err) < 0) {
		flow_windows_free(&w);
		return CLI_FAILED;
	}
	if (w.count)
		qsort(w.all, w.count, sizeof(*w.all), compare_windows);
	for (size_t i = 0; i < w.count; i++) {
		const struct flow_window *of = &w.all[i];

		if (of->until <= args->since || of->since > args->until)
			continue;
		first = of->since < first ? of->since : first;
		if (say_gap(at, of->since) != CLI_OK)
			status = CLI_PARTIAL;
		at = of->until > at ? of->until : at;
		last = at;
		packets += of->packets;
		not_ip += of->not_ip;
		*(of->collected ? &lost : &missing) += of->missing;
		partial += !of->complete && !of->collected;
	}
	if (last == PR_TIME_MIN) {
		fputs("nothing was kept of this time\n", stderr);
		status = CLI_PARTIAL;
	} else {
		if (say_gap(at, args->until < PR_TIME_MAX ? args->until : PR_TIME_MAX) !=
			CLI_OK)
			status = CLI_PARTIAL;
		fprintf(stderr,
			"kept of %s to %s: %" PRIu64 " packet%s, %" PRIu64 " of them not "
			"IP; %" PRIu64 " missing\n",
			pr_time_format(first, since, sizeof(since)),
			pr_time_format(last, until, sizeof(until)), packets,
			pr_plural(packets), not_ip, missing);
	}
	if (lost)
		fprintf(stderr,
			"  lost on the way from exporters: %" PRIu64
			" records (version 9: messages)\n",
			lost);
	if (partial)
		fprintf(stderr,
			"  %" PRIu64 " window%s made of answers that were partial\n",
			partial, pr_plural(partial));
	if (w.damaged)
		fprintf(stderr, "  %" PRIu64 " damaged entries of windows\n", w.damaged);
	status = partial || missing || lost || w.damaged ? CLI_PARTIAL : status;
	flow_windows_free(&w);
	return status;
}

/* ---- keeping ---- */

/* A record of a window that was not finished. */
struct stored {
	struct {
		struct pri_flow_key key;
		uint32_t unused;
		int64_t first;
	} id;
	UT_hash_handle hh;
};

struct flow_keeper {
	char *volume;
	struct volume_writer writer;
	struct prl_direct_link link;
	struct inline_index index;
	struct flow_windows windows;
	struct flow_window last; /* that goes on; number 0: none */
	struct stored *stored;
	int windows_id, open_id;
	uint64_t records; /* of this window */
	uint8_t *room; /* for a record of flow.open */
	size_t room_size, room_used;
	uint64_t open;
};

static void
id_of(struct stored *s, const struct pri_flow *flow)
{
	memset(&s->id, 0, sizeof(s->id));
	s->id.key = flow->key;
	s->id.first = pri_flow_first(flow);
}

static int
note_stored(void *arg, const struct pri_flow *flow, uint64_t missing, struct pr_error *err)
{
	struct flow_keeper *k = arg;
	struct stored *s = calloc(1, sizeof(*s)), *old;

	(void)missing;
	if (!s)
		return pr_error_set(err, "no memory for records");
	id_of(s, flow);
	HASH_FIND(hh, k->stored, &s->id, sizeof(s->id), old);
	if (!old)
		HASH_ADD(hh, k->stored, id, sizeof(s->id), s);
	if (old || !s->hh.tbl)
		free(s);
	return 0;
}

static void
forget_stored(struct flow_keeper *k)
{
	struct stored *s, *next;

	HASH_ITER(hh, k->stored, s, next)
	{
		HASH_DEL(k->stored, s);
		free(s);
	}
}

/* Reads what there is, before the volume is written. */
static int
look(struct flow_keeper *k, struct pr_error *err)
{
	struct query_args args = QUERY_ARGS("packrack flows");
	struct pri_volume *view = ask_volume_open(k->volume, 0, err);
	struct reading r = {.take = note_stored, .arg = k};
	int rc = -1;

	if (view)
		rc = each_record(view->sfs, windows_stream, take_window, &k->windows,
			&k->windows.damaged, err);
	pri_volume_close(&view);
	for (size_t i = 0; i < k->windows.count; i++)
		if (k->windows.all[i].goes_on)
			k->last = k->windows.all[i];
	if (rc < 0 || !k->last.number)
		return rc;
	args.quiet = true;
	return read_frames(k->volume, &args, "", k->last.until, PR_TIME_MAX, &r, err) ==
			       CLI_FAILED
		       ? -1
		       : 0;
}

static int
begin_writing(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs *sfs;
	int link;

	if (volume_writer_open(&k->writer, k->volume, true, false, err) < 0)
		return -1;
	sfs = k->writer.sfs;
	k->windows_id = sfs_stream_open(sfs, windows_stream, WINDOWS_GUARANTEE, 0, err);
	k->open_id = sfs_stream_open(sfs, open_stream, 0, 0, err);
	link = prl_direct_link_link_number(sfs, LINK_NAME, 0, err);
	if (k->windows_id < 0 || k->open_id < 0 || link < 0)
		return -1;
	k->room_size = sfs_record_max(sfs);
	k->room = malloc(k->room_size);
	if (!k->room)
		return pr_error_set(err, "no memory for flows");
	prl_direct_link_begin(&k->link, k->writer.append, pr_epoch_make(pr_now_real()),
		(uint16_t)link, LINK_NAME, PR_LINKTYPE_ETHERNET, PRI_FLOW_FRAME_MAX);
	k->index.path = k->volume;
	return 0;
}

struct flow_keeper *
flow_keeper_open(const char *volume, struct pr_error *err)
{
	struct flow_keeper *k = calloc(1, sizeof(*k));

	if (k)
		k->volume = strdup(volume);
	if (!k || !k->volume)
		pr_error_set(err, "no memory for a keeper of flows");
	else if (look(k, err) == 0 && begin_writing(k, err) == 0)
		return k;
	flow_keeper_close(&k);
	return NULL;
}

void
flow_keeper_close(struct flow_keeper **keeper)
{
	struct flow_keeper *k = *keeper;

	*keeper = NULL;
	if (!k)
		return;
	inline_index_close(&k->index);
	volume_writer_close(&k->writer);
	forget_stored(k);
	flow_windows_free(&k->windows);
	free(k->room);
	free(k->volume);
	free(k);
}

bool
flow_keeper_has(const struct flow_keeper *k, int64_t since, int64_t until,
	struct flow_window *other)
{
	for (size_t i = 0; i < k->windows.count; i++) {
		*other = k->windows.all[i];
		if (other->since < until && since < other->until)
			return true;
	}
	return false;
}

int
flow_keeper_put(struct flow_keeper *k, const struct pri_flow *flow, uint64_t missing,
	int64_t now, struct pr_error *err)
{
	uint8_t frame[PRI_FLOW_FRAME_MAX];
	struct stored id, *old = NULL;
	uint32_t len;

	k->records++;
	if (k->stored) {
		id_of(&id, flow);
		HASH_FIND(hh, k->stored, &id.id, sizeof(id.id), old);
	}
	if (old)
		return 0;
	len = (uint32_t)pri_flow_frame_write(flow, missing, frame);
	prl_direct_link_packet(&k->link, now, frame, len, len);
	if (k->link.packets % BATCH == 0)
		prl_writer_tick(k->writer.append, pr_now_mono());
	if (k->link.refused)
		return pr_error_set(err, "%s: %s", k->volume,
			prl_writer_suspend_reason(k->writer.append)
				? prl_writer_suspend_reason(k->writer.append)
				: "does not take a record");
	return 1;
}

/* ---- the open flows ---- */

static int
store_open(struct flow_keeper *k, int64_t time, struct pr_error *err)
{
	if (k->room_used > 8 && sfs_append(k->writer.sfs, k->open_id, time, time, k->room,
					k->room_used, NULL, err) != SFS_OK)
		return -1;
	k->room_used = 8; /* behind the number */
	return 0;
}

/* A record of flow.open: u64 number of the window, then u16 length and frame of each flow. */
static int
add_open(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct flow_keeper *k = arg;
	uint8_t frame[PRI_FLOW_FRAME_MAX];
	size_t len = pri_flow_frame_write(flow, 0, frame);

	if (k->room_used + 2 + len > k->room_size && store_open(k, k->last.until, err) < 0)
		return -1;
	pr_put_le16(k->room + k->room_used, (uint16_t)len);
	memcpy(k->room + k->room_used + 2, frame, len);
	k->room_used += 2 + len;
	k->open++;
	return 0;
}

struct restoring {
	uint64_t number, found;
	struct pri_flow_table *table;
};

static int
take_open(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct restoring *to = arg;
	struct pr_cursor c = pr_cursor_make(r->body, r->length);
	const uint8_t *frame;
	struct pri_flow flow;
	uint64_t number, missing;
	uint16_t len;

	if (!pr_load_le64(&c, &number) || number != to->number)
		return 0;
	while (pr_load_le16(&c, &len)) {
		if (!pr_load_bytes(&c, &frame, len) ||
			!pri_flow_frame_read(frame, len, &flow, &missing))
			return pr_error_set(err, "an open flow is damaged");
		if (pri_flow_table_restore(to->table, &flow, err) < 0)
			return -1;
		to->found++;
	}
	return 0;
}

int
flow_keeper_resume(struct flow_keeper *k, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err)
{
	struct restoring to = {.number = k->last.number, .table = table};
	uint64_t damaged = 0;

	if (!k->last.number)
		return 0;
	*last = k->last;
	if (pri_flow_table_advance(table, k->last.until, err) < 0 ||
		each_record(k->writer.sfs, open_stream, take_open, &to, &damaged, err) < 0)
		return -1;
	if (to.found != k->last.open)
		return pr_error_set(err,
			"%s: %" PRIu64 " of %" PRIu64 " flows that were open are there "
			"(packrack volume check says more)",
			k->volume, to.found, k->last.open);
	return 1;
}

/* ---- what its maker has to know ---- */

/* In the number of a record of flow.open: it has no flows. */
#define STATE_BIT (UINT64_C(1) << 63)

static uint64_t
next_number(const struct flow_keeper *k)
{
	return k->windows.count ? k->windows.all[k->windows.count - 1].number + 1 : 1;
}

int
flow_keeper_state(struct flow_keeper *k, int64_t time, const void *items, size_t size,
	size_t count, struct pr_error *err)
{
	for (size_t at = 0; at < count;) {
		size_t n = (k->room_size - 8) / size;

		n = n < count - at ? n : count - at;
		pr_put_le64(k->room, next_number(k) | STATE_BIT);
		memcpy(k->room + 8, (const uint8_t *)items + at * size, n * size);
		if (sfs_append(k->writer.sfs, k->open_id, time, time, k->room, 8 + n * size,
			    NULL, err) != SFS_OK)
			return -1;
		at += n;
	}
	return 0;
}

struct state {
	uint64_t number;
	size_t size;
	int (*take)(void *arg, const void *item, struct pr_error *err);
	void *arg;
};

static int
take_state(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct state *s = arg;

	if (r->length < 8 || (r->length - 8) % s->size ||
		pr_get_le64(r->body) != (s->number | STATE_BIT))
		return 0;
	for (size_t at = 8; at < r->length; at += s->size)
		if (s->take(s->arg, r->body + at, err) < 0)
			return -1;
	return 0;
}

int
flow_state_each(const char *volume, size_t size,
	int (*take)(void *arg, const void *item, struct pr_error *err), void *arg,
	struct pr_error *err)
{
	struct state s = {.size = size, .take = take, .arg = arg};
	struct flow_windows w = {0};
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	uint64_t damaged = 0;
	int rc = -1;

	if (view)
		rc = each_record(view->sfs, windows_stream, take_window, &w, &damaged, err);
	for (size_t i = 0; i < w.count; i++)
		if (w.all[i].collected)
			s.number = w.all[i].number;
	if (rc == 0 && s.number)
		rc = each_record(view->sfs, open_stream, take_state, &s, &damaged, err);
	if (rc == 0 && damaged)
		rc = pr_error_set(err, "%s: %" PRIu64 " damaged entries", volume, damaged);
	pri_volume_close(&view);
	flow_windows_free(&w);
	return rc;
}

/* ---- the end of a window ---- */

int
flow_keeper_commit(struct flow_keeper *k, struct flow_window *window,
	struct pri_flow_table *table, struct pr_error *err)
{
	struct prl_direct_link *m = &k->link;
	struct sfs *sfs = k->writer.sfs;
	uint8_t entry[WINDOW_BYTES];
	struct sfs_trimmed trimmed;
	int64_t before = k->last.until;

	window->number = next_number(k);
	window->records = k->records;
	window->goes_on = table != NULL;
	k->last = *window;
	k->open = 0;
	k->room_used = 8;
	pr_put_le64(k->room, window->number);
	pr_observation_begin(&m->observation, PR_UNOBSERVED_FILE,
		m->packets ? m->earliest : PR_TIME_MAX, "");
	prl_direct_link_say(m, pr_now_real(), false);
	if ((table && (pri_flow_table_open_flows(table, add_open, k, err) < 0 ||
			      store_open(k, window->until, err) < 0)) ||
		prl_writer_flush(k->writer.append, err) != 0)
		return -1;
	window->open = k->last.open = k->open;
	window_write(window, entry);
	if (PR_ARRAY_GROW(k->windows.all, k->windows.count) < 0)
		return pr_error_set(err, "no memory for windows");
	k->windows.all[k->windows.count++] = *window;
	if (sfs_append(sfs, k->windows_id, window->since, window->until, entry,
		    sizeof(entry), NULL, err) != SFS_OK ||
		inline_index_step(&k->index, k->writer.append, !table, err) < 0 ||
		prl_writer_flush(k->writer.append, err) != 0)
		return -1;
	k->records = 0;
	forget_stored(k);
	if (window->number > 1 &&
		sfs_trim(sfs, k->open_id, before, 0, &trimmed, err) != SFS_OK)
		return -1;
	return 0;
}
