/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/flows/flow_keep.h"

#include <inttypes.h>

#include <sodium.h>

#include "indexer/flows/flow_filter.h"
#include "indexer/flows/flow_frame.h"
#include "indexer/query/volume.h"
#include "logger/direct_link.h"
#include "merger/cli/flows/flow_record.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/volume/volume.h"

#define LINK_NAME "flows"
static const char windows_stream[] = "flow.windows", open_stream[] = "flow.open",
		  packets_stream[] = "packets.0";
#define BATCH 256 /* records between two looks at the clock */
#define INDEX_NS (60 * PR_NS_PER_S) /* what is younger has no index */

/* ---- entries of windows ---- */

/* "PFW" version u8; u32 flags; then all numbers of struct flow_window as u64. Version 1 has no last one. */
enum { NUMBERS = 13, WINDOW_BYTES = 8 + NUMBERS * 8 };
enum { COMPLETE = 1, GOES_ON = 2, COLLECTED = 4, FILTERED = 8 };
enum { SHARE = 8, SHARES = 18, SHARE_MASK = 0x3ff }; /* above the flags */
static const uint8_t window_magic[4] = {'P', 'F', 'W', 2};

static void
window_write(const struct flow_window *w, uint8_t out[WINDOW_BYTES])
{
	const uint64_t numbers[NUMBERS] = {w->number, (uint64_t)w->since,
		(uint64_t)w->until, w->packets, w->not_ip, w->missing, w->records,
		(uint64_t)w->reach, w->open, w->epoch, w->seq, w->tag, w->file};

	memcpy(out, window_magic, 4);
	pr_put_le32(out + 4, (w->complete ? COMPLETE : 0) | (w->goes_on ? GOES_ON : 0) |
				     (w->collected ? COLLECTED : 0) |
				     (w->filtered ? FILTERED : 0) | w->share << SHARE |
				     w->shares << SHARES);
	for (size_t i = 0; i < NUMBERS; i++)
		pr_put_le64(out + 8 + i * 8, numbers[i]);
}

static bool
window_read(const uint8_t *p, size_t len, struct flow_window *w)
{
	uint64_t n[NUMBERS] = {0};
	uint32_t flags;

	if (len < WINDOW_BYTES - 8 || memcmp(p, window_magic, 3) != 0 || p[3] < 1 ||
		p[3] > 2 || len != WINDOW_BYTES - (p[3] == 1) * 8u)
		return false;
	flags = pr_get_le32(p + 4);
	for (size_t i = 0; i < len / 8 - 1; i++)
		n[i] = pr_get_le64(p + 8 + i * 8);
	*w = (struct flow_window){n[0], (int64_t)n[1], (int64_t)n[2], n[3], n[4], n[5],
		n[6], (int64_t)n[7], n[8], n[9], n[10], n[11], n[12],
		.complete = (flags & COMPLETE) != 0, .goes_on = (flags & GOES_ON) != 0,
		.collected = (flags & COLLECTED) != 0, .filtered = (flags & FILTERED) != 0,
		.share = flags >> SHARE & SHARE_MASK,
		.shares = flags >> SHARES & SHARE_MASK};
	return w->since <= w->until && w->reach >= 0;
}

/* The windows of a volume, in order of number. */
struct windows {
	struct flow_window *all;
	size_t count;
	struct epoch_end {
		uint64_t epoch, seq; /* the last record that counts */
	} * epochs;
	size_t epoch_count;
	uint64_t damaged; /* entries */
	int64_t evicted_until; /* of records; PR_TIME_MIN: none */
};

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
	struct windows *w = arg;

	if (PR_ARRAY_GROW(w->all, w->count) < 0)
		return pr_error_set(err, "no memory for windows");
	if (!window_read(r->body, r->length, &w->all[w->count])) {
		w->damaged++;
		return 0;
	}
	if (!w->epoch_count ||
		w->epochs[w->epoch_count - 1].epoch != w->all[w->count].epoch) {
		if (PR_ARRAY_GROW(w->epochs, w->epoch_count) < 0)
			return pr_error_set(err, "no memory for windows");
		w->epochs[w->epoch_count++].epoch = w->all[w->count].epoch;
	}
	w->epochs[w->epoch_count - 1].seq = w->all[w->count++].seq;
	return 0;
}

/* windows_free in any case */
static int
windows_read(struct windows *w, struct sfs *sfs, struct pr_error *err)
{
	int id = sfs_stream_find(sfs, packets_stream);
	struct sfs_stream_info packets;

	*w = (struct windows){.evicted_until = PR_TIME_MIN};
	if (id >= 0 && sfs_stream_info(sfs, id, &packets, NULL) == SFS_OK)
		w->evicted_until = packets.evicted_until;
	return each_record(sfs, windows_stream, take_window, w, &w->damaged, err);
}

static void
windows_free(struct windows *w)
{
	free(w->all);
	free(w->epochs);
}

/* The last window that goes on, or NULL. */
static const struct flow_window *
last_open(const struct windows *w)
{
	for (size_t i = w->count; i > 0; i--)
		if (w->all[i - 1].goes_on)
			return &w->all[i - 1];
	return NULL;
}

/* ---- records of flow.open ---- */

/* u64 tag of the window; u64 kind; of a state, its items' size << 8, too: those of another version are left out */
enum { OPEN_HEADER = 16 };
enum open_kind { OPEN_FLOWS, OPEN_STATE };
#define OPEN_LEFT_OUT 0x8000 /* in a flow's length: the filter does not match it now */

static bool
is_open_record(const struct sfs_record *r, uint64_t tag, uint64_t kind)
{
	return r->length >= OPEN_HEADER && pr_get_le64(r->body) == tag &&
	       pr_get_le64(r->body + 8) == kind;
}

struct open_flows {
	uint64_t tag, found;
	/* to here, or into the array */
	struct pri_flow_table *table;
	struct open_flow {
		struct pri_flow flow;
		uint64_t missing;
	} * all;
	size_t count;
};

static int
take_open(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct open_flows *to = arg;
	struct pr_cursor c = pr_cursor_make(r->body, r->length);
	const uint8_t *frame;
	struct open_flow of;
	uint16_t len;

	if (!is_open_record(r, to->tag, OPEN_FLOWS) ||
		!pr_load_bytes(&c, &frame, OPEN_HEADER))
		return 0;
	while (pr_load_le16(&c, &len)) {
		bool left_out = (len & OPEN_LEFT_OUT) != 0;

		if (!pr_load_bytes(&c, &frame, len & (OPEN_LEFT_OUT - 1)) ||
			!pri_flow_frame_read(
				frame, len & (OPEN_LEFT_OUT - 1), &of.flow, &of.missing))
			return 0; /* it is not found */
		to->found++;
		if (to->table && pri_flow_table_restore(to->table, &of.flow, err) < 0)
			return -1;
		if (to->table || left_out)
			continue;
		if (PR_ARRAY_GROW(to->all, to->count) < 0)
			return pr_error_set(err, "no memory for open flows");
		to->all[to->count++] = of;
	}
	return 0;
}

/* ---- reading records ---- */

struct reading {
	const struct query_args *range;
	const struct windows *windows;
	const struct flow_window *only; /* or NULL: what was active in the range */
	flow_take *take;
	void *arg;
	uint64_t others; /* packets that are no records */
	uint64_t found;
	size_t last_epoch; /* index in windows.epochs */
};

/* Is it of a window that was finished? Records of one epoch come one behind the other. */
static bool
is_covered(struct reading *r, const struct pr_packet *p)
{
	const struct windows *w = r->windows;

	for (size_t i = 0; i < w->epoch_count; i++) {
		const struct epoch_end *e =
			&w->epochs[(r->last_epoch + i) % w->epoch_count];

		if (e->epoch == p->epoch) {
			r->last_epoch = (size_t)(e - w->epochs);
			return p->seq <= e->seq;
		}
	}
	return false;
}

static int
take_in_range(struct reading *r, const struct pri_flow *flow, uint64_t missing,
	struct pr_error *err)
{
	if (pri_flow_first(flow) > r->range->until || pri_flow_last(flow) < r->range->since)
		return 0;
	return r->take(r->arg, flow, missing, 0, err);
}

/* Its place among the window's records, from 1; 0: it is of another one. */
static uint64_t
row_of(const struct flow_window *w, const struct pr_packet *p)
{
	uint64_t row = p->seq - (w->seq - w->records);

	return p->epoch == w->epoch && p->seq <= w->seq && row <= w->records ? row : 0;
}

static int
on_frame(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct reading *r = arg;
	uint64_t missing, row = r->only ? row_of(r->only, p) : is_covered(r, p);
	struct pri_flow flow;

	if (!row)
		return 0;
	if (!pri_flow_frame_read(p->data, p->caplen, &flow, &missing)) {
		r->others++;
		return 0;
	}
	r->found++;
	return r->only ? r->take(r->arg, &flow, missing, row, err)
		       : take_in_range(r, &flow, missing, err);
}

/* What of the records is no more. */
static int
say_lacks(const struct sink *sink)
{
	const Packrack__Completeness *c = sink->end->completeness;
	uint64_t lost = sink->end->corrupt_records + (c ? c->missing_packets : 0);
	int64_t until = PR_TIME_MIN;
	char time[PR_TIME_TEXT];

	for (size_t i = 0; c && i < c->n_evicted; i++)
		if (c->evicted[i]->until > until)
			until = c->evicted[i]->until;
	if (until > PR_TIME_MIN)
		fprintf(stderr, "  overwritten or deleted: flows that ended by %s\n",
			pr_time_format(until, time, sizeof(time)));
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
		.link = (char *)LINK_NAME,
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
	if (status == CLI_OK)
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

/* All that there is to know before records are read: windows, and flows that are open at the end of the last. */
static int
begin_reading(const char *volume, struct windows *w, struct open_flows *open,
	struct pr_error *err)
{
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	const struct flow_window *last = NULL;
	uint64_t damaged = 0;
	int rc = view ? 0 : -1;

	*w = (struct windows){0};
	*open = (struct open_flows){0};
	/* a keeper that runs may end a window meanwhile, and what was open before it goes */
	for (int tries = 0; rc == 0 && tries < 3; tries++) {
		windows_free(w);
		free(open->all);
		rc = windows_read(w, view->sfs, err);
		last = last_open(w);
		*open = (struct open_flows){.tag = last ? last->tag : 0};
		if (rc == 0 && last)
			rc = each_record(
				view->sfs, open_stream, take_open, open, &damaged, err);
		if (!last || open->found == last->open)
			break;
		rc = rc == 0 && sfs_refresh(view->sfs, err) != SFS_OK ? -1 : rc;
	}
	if (rc == 0 && !w->count && !w->damaged)
		rc = pr_error_set(err,
			"%s keeps no flows: packrack flows --keep %s stores them there",
			volume, volume);
	pri_volume_close(&view);
	if (rc == 0 && last && open->found < last->open)
		fprintf(stderr, "  lost: %" PRIu64 " flows that were open\n",
			last->open - open->found);
	return rc;
}

int
flow_kept_read(const char *volume, const struct query_args *args, const char *relaxed,
	flow_take *take, void *arg, struct pr_error *err)
{
	struct windows w;
	struct reading r = {.range = args, .windows = &w, .take = take, .arg = arg};
	struct open_flows open;
	int64_t reach = 0, back = 0;
	int status = CLI_FAILED;

	if (begin_reading(volume, &w, &open, err) == 0) {
		for (size_t i = 0; i < w.count; i++) {
			if (w.all[i].reach > reach)
				reach = w.all[i].reach;
			if (w.all[i].collected && w.all[i].reach > back)
				back = w.all[i].reach; /* exporters' clocks may be ahead */
		}
		status =
			read_frames(volume, args, relaxed, pr_time_minus(args->since, back),
				pr_time_minus(args->until, -reach), &r, err);
		for (size_t i = 0; i < open.count && status != CLI_FAILED; i++)
			if (take_in_range(&r, &open.all[i].flow, open.all[i].missing, err) <
				0)
				status = CLI_FAILED;
		if (status == CLI_OK &&
			(w.damaged || (last_open(&w) && open.found < last_open(&w)->open)))
			status = CLI_PARTIAL;
	}
	windows_free(&w);
	free(open.all);
	return status;
}

/* windows_free in any case */
static int
windows_of(struct windows *w, const char *volume, struct pr_error *err)
{
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	int rc;

	*w = (struct windows){0};
	rc = view ? windows_read(w, view->sfs, err) : -1;
	pri_volume_close(&view);
	return rc;
}

/* The records of one window. */
static int
read_window(const char *volume, const struct query_args *args, struct reading *r,
	struct pr_error *err)
{
	const struct flow_window *w = r->only;
	int status = read_frames(volume, args, "", w->since, w->until, r, err);

	if (status == CLI_FAILED || status == CLI_USAGE || r->found == w->records)
		return status;
	fprintf(stderr,
		"window %" PRIu64 ": %" PRIu64 " of its %" PRIu64 " flows are lost\n",
		w->number, w->records - r->found, w->records);
	return CLI_PARTIAL;
}

int
flow_kept_windows(const char *volume, const struct query_args *args, uint64_t first,
	uint64_t count, void (*begin)(void *arg, const struct flow_window *w, bool head),
	flow_take *take, void *arg, struct pr_error *err)
{
	struct windows w;
	int status = windows_of(&w, volume, err) < 0 ? CLI_FAILED : CLI_OK, said;

	for (size_t i = 0; i < 2 * w.count && (status == CLI_OK || status == CLI_PARTIAL);
		i++) {
		const struct flow_window *of = &w.all[i % w.count];
		struct reading r = {.only = of, .take = take, .arg = arg};

		if (of->number < first || (count && of->number - first >= count) ||
			of->until <= args->since || of->since > args->until)
			continue;
		begin(arg, of, i < w.count);
		said = i < w.count ? CLI_OK : read_window(volume, args, &r, err);
		status = said == CLI_OK ? status : said;
	}
	if (status == CLI_OK && w.damaged)
		status = CLI_PARTIAL;
	windows_free(&w);
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

struct sums {
	uint64_t packets, not_ip, missing, partial, lost, filtered;
	int64_t first, last;
	int status;
};

/* Adds windows of the range, and says what lies between them. */
static void
add_windows(struct sums *s, const struct windows *w, const struct query_args *args)
{
	/* without a begin it is that of what was not overwritten yet */
	int64_t at = args->since, reach = 0;
	int64_t from = at > PR_TIME_MIN ? at : w->evicted_until, to;

	/* flows of exporters come some time after, or before, they were; so does what is lost of them */
	for (size_t i = 0; i < w->count; i++)
		if (w->all[i].collected && w->all[i].reach > reach)
			reach = w->all[i].reach;
	from = at > PR_TIME_MIN ? pr_time_minus(from, reach) : from;
	to = pr_time_minus(args->until, -reach);
	for (size_t i = 0; i < w->count; i++) {
		const struct flow_window *of = &w->all[i];

		if (of->until <= from || of->since > to)
			continue;
		s->first = of->since < s->first ? of->since : s->first;
		if (say_gap(at, of->since) != CLI_OK)
			s->status = CLI_PARTIAL;
		at = of->until > at ? of->until : at;
		s->last = at;
		s->packets += of->packets;
		s->not_ip += of->not_ip;
		*(of->collected ? &s->lost : &s->missing) += of->missing;
		s->partial += !of->complete;
		s->filtered += of->filtered;
	}
	if (s->last != PR_TIME_MIN && say_gap(at, args->until) != CLI_OK)
		s->status = CLI_PARTIAL;
}

static void
say_sums(const struct sums *s)
{
	char since[PR_TIME_TEXT], until[PR_TIME_TEXT];

	fprintf(stderr,
		"kept of %s to %s: %" PRIu64 " packet%s, %" PRIu64
		" of them not IP; %" PRIu64 " missing\n",
		pr_time_format(s->first, since, sizeof(since)),
		pr_time_format(s->last, until, sizeof(until)), s->packets,
		pr_plural(s->packets), s->not_ip, s->missing);
	if (s->lost)
		fprintf(stderr,
			"  lost on the way from exporters: %" PRIu64
			" records (version 9: messages)\n",
			s->lost);
	if (s->partial)
		fprintf(stderr, "  %" PRIu64 " window%s not complete when they were kept\n",
			s->partial, pr_plural(s->partial));
	if (s->filtered)
		fputs("  only flows that a filter, a link, a node or a share chose were "
		      "kept\n",
			stderr);
}

int
flow_kept_report(const char *volume, const struct query_args *args, struct pr_error *err)
{
	struct sums s = {.first = PR_TIME_MAX, .last = PR_TIME_MIN, .status = CLI_OK};
	struct windows w;

	if (windows_of(&w, volume, err) < 0) {
		windows_free(&w);
		return CLI_FAILED;
	}
	if (w.count)
		qsort(w.all, w.count, sizeof(*w.all), compare_windows);
	add_windows(&s, &w, args);
	if (s.last == PR_TIME_MIN) {
		fputs("nothing was kept of this time\n", stderr);
		s.status = CLI_PARTIAL;
	} else {
		say_sums(&s);
	}
	if (w.damaged)
		fprintf(stderr, "  %" PRIu64 " damaged entries of windows\n", w.damaged);
	if (s.partial || s.missing || s.lost || w.damaged)
		s.status = CLI_PARTIAL;
	windows_free(&w);
	return s.status;
}

/* ---- keeping ---- */

struct flow_keeper {
	char *volume;
	struct volume_writer writer;
	struct prl_direct_link link;
	struct inline_index index;
	struct windows windows; /* those that follow on each other as one */
	struct flow_window last; /* that goes on; number 0: none */
	int windows_id, open_id;
	uint64_t number; /* of the last window */
	uint64_t epoch, tag, file; /* tag, file: of the next window */
	uint64_t records; /* of this window */
	int64_t reach, indexed; /* indexed: when */
	uint8_t *room; /* for a record of flow.open */
	size_t room_size, room_used;
	uint64_t open;
	bool collected;
	uint64_t *files; /* that windows are of */
	size_t file_count;
};

/* Windows that follow on each other are one. */
static int
note_window(struct flow_keeper *k, const struct flow_window *next, struct pr_error *err)
{
	struct windows *w = &k->windows;
	struct flow_window *last = w->count ? &w->all[w->count - 1] : NULL;

	if (next->file && PR_ARRAY_GROW(k->files, k->file_count) < 0)
		return pr_error_set(err, "no memory for windows");
	if (next->file)
		k->files[k->file_count++] = next->file;
	if (last && last->until == next->since) {
		last->until = next->until;
		return 0;
	}
	if (PR_ARRAY_GROW(w->all, w->count) < 0)
		return pr_error_set(err, "no memory for windows");
	w->all[w->count++] = *next;
	return 0;
}

/* It goes on. When a file's flows were says nothing of when that is. */
static void
note_last(struct flow_keeper *k, const struct flow_window *w)
{
	int64_t until = k->last.until;

	k->last = *w;
	if (w->file)
		k->last.until = until;
}

/* Reads what there is, before the volume is written. */
static int
look(struct flow_keeper *k, struct pr_error *err)
{
	struct windows w;
	int rc = windows_of(&w, k->volume, err);

	for (size_t i = 0; i < w.count && rc == 0; i++) {
		if (w.all[i].collected != k->collected)
			rc = pr_error_set(err,
				"%s has flows %s: give these a volume of their own",
				k->volume,
				k->collected ? "made of packets (packrack flows --keep)"
					     : "of exporters (packrack collect)");
		else if (k->file && w.all[i].file == k->file)
			rc = pr_error_set(
				err, "%s has the file's flows already", k->volume);
		else
			rc = note_window(k, &w.all[i], err);
		if (w.all[i].goes_on)
			note_last(k, &w.all[i]);
		k->number = w.all[i].number;
	}
	windows_free(&w);
	return rc;
}

static void
begin_epoch(struct flow_keeper *k)
{
	k->epoch = pr_epoch_make(pr_now_real());
	prl_direct_link_begin(&k->link, k->writer.append, k->epoch, 0, LINK_NAME,
		PR_LINKTYPE_ETHERNET, PRI_FLOW_FRAME_MAX);
}

static int
begin_writing(struct flow_keeper *k, struct pr_error *err)
{
	struct sfs_volume_info volume;
	uint64_t guarantee;
	struct sfs *sfs;
	int link;

	if (volume_writer_open(&k->writer, k->volume, true, false, err) < 0)
		return -1;
	sfs = k->writer.sfs;
	link = prl_direct_link_link_number(sfs, LINK_NAME, 0, err);
	if (link < 0 || sfs_info(sfs, &volume, err) != SFS_OK)
		return -1;
	if (link > 0)
		return pr_error_set(err,
			"%s holds packets: give flows a volume of their own (packrack "
			"volume create)",
			k->volume);
	guarantee = volume.blocks / 16 * volume.block_size;
	k->windows_id = sfs_stream_open(sfs, windows_stream, guarantee, 0, err);
	k->open_id = sfs_stream_open(sfs, open_stream, guarantee, 0, err);
	if (k->windows_id < 0 || k->open_id < 0)
		return -1;
	k->room_size = sfs_record_max(sfs);
	k->room = malloc(k->room_size);
	if (!k->room)
		return pr_error_set(err, "no memory for flows");
	randombytes_buf(&k->tag, sizeof(k->tag));
	begin_epoch(k);
	k->index.path = k->volume;
	return 0;
}

int
flow_keeper_file(struct flow_keeper *k, uint64_t file, struct pr_error *err)
{
	for (size_t i = 0; i < k->file_count; i++)
		if (k->files[i] == file)
			return pr_error_set(
				err, "%s has the flows of this file already", k->volume);
	k->file = file;
	k->records = 0;
	k->reach = 0;
	begin_epoch(k);
	return 0;
}

struct flow_keeper *
flow_keeper_open(const char *volume, bool collected, struct pr_error *err)
{
	struct flow_keeper *k = calloc(1, sizeof(*k));

	if (k) {
		k->collected = collected;
		k->volume = strdup(volume);
	}
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
	windows_free(&k->windows);
	free(k->files);
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
	uint32_t len = (uint32_t)pri_flow_frame_write(flow, missing, frame);
	int64_t reach = pr_time_minus(now, pri_flow_first(flow));

	k->records++;
	k->reach = reach > k->reach ? reach : k->reach;
	prl_direct_link_packet(&k->link, now, frame, len, len);
	if (k->link.packets % BATCH == 0)
		prl_writer_tick(k->writer.append, pr_now_mono());
	if (k->link.refused)
		return pr_error_set(err, "%s: %s", k->volume,
			prl_writer_suspend_reason(k->writer.append)
				? prl_writer_suspend_reason(k->writer.append)
				: "does not take a record");
	return 0;
}

/* ---- the open flows ---- */

static int
store_open(struct flow_keeper *k, uint64_t kind, int64_t time, struct pr_error *err)
{
	pr_put_le64(k->room, k->tag);
	pr_put_le64(k->room + 8, kind);
	if (k->room_used > OPEN_HEADER &&
		sfs_append(k->writer.sfs, k->open_id, time, time, k->room, k->room_used,
			NULL, err) != SFS_OK)
		return -1;
	k->room_used = OPEN_HEADER;
	return 0;
}

struct storing {
	struct flow_keeper *keeper;
	const struct flow_keep_open *open;
	int64_t time;
};

static int
add_open(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	const struct storing *to = arg;
	struct flow_keeper *k = to->keeper;
	uint8_t frame[PRI_FLOW_FRAME_MAX];
	size_t len = pri_flow_frame_write(flow,
		flow_losses_between(to->open->losses, flow->key.link, pri_flow_first(flow),
			pri_flow_last(flow)),
		frame);

	if (k->room_used + 2 + len > k->room_size &&
		store_open(k, OPEN_FLOWS, to->time, err) < 0)
		return -1;
	pr_put_le16(k->room + k->room_used,
		(uint16_t)(len | (!to->open->filter || pri_flow_filter_match(
							       to->open->filter, flow)
						 ? 0
						 : OPEN_LEFT_OUT)));
	memcpy(k->room + k->room_used + 2, frame, len);
	k->room_used += 2 + len;
	k->open++;
	return 0;
}

int
flow_keeper_resume(struct flow_keeper *k, struct pri_flow_table *table,
	struct flow_window *last, struct pr_error *err)
{
	struct open_flows found = {.tag = k->last.tag};
	uint64_t damaged = 0;
	int rc = 0;

	if (!k->last.number)
		return 0;
	*last = k->last;
	/* all of them, or none */
	if (each_record(k->writer.sfs, open_stream, take_open, &found, &damaged, err) < 0)
		rc = -1;
	last->complete = rc == 0 && found.found == k->last.open;
	free(found.all);
	found = (struct open_flows){.tag = k->last.tag, .table = table};
	if (rc == 0 &&
		(pri_flow_table_advance(table, k->last.until, err) < 0 ||
			(last->complete && each_record(k->writer.sfs, open_stream,
						   take_open, &found, &damaged, err) < 0)))
		rc = -1;
	return rc < 0 ? -1 : 1;
}

/* ---- what its maker has to know ---- */

int
flow_keeper_state(struct flow_keeper *k, int64_t time, const void *items, size_t size,
	size_t count, struct pr_error *err)
{
	for (size_t at = 0; at < count;) {
		size_t n = (k->room_size - OPEN_HEADER) / size;

		n = n < count - at ? n : count - at;
		memcpy(k->room + OPEN_HEADER, (const uint8_t *)items + at * size, n * size);
		k->room_used = OPEN_HEADER + n * size;
		if (store_open(k, OPEN_STATE | (uint64_t)size << 8, time, err) < 0)
			return -1;
		at += n;
	}
	return 0;
}

struct state {
	uint64_t tag;
	size_t size;
	int (*take)(void *arg, const void *item, struct pr_error *err);
	void *arg;
};

static int
take_state(void *arg, const struct sfs_record *r, struct pr_error *err)
{
	struct state *s = arg;

	if (!is_open_record(r, s->tag, OPEN_STATE | (uint64_t)s->size << 8) ||
		(r->length - OPEN_HEADER) % s->size)
		return 0;
	for (size_t at = OPEN_HEADER; at < r->length; at += s->size)
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
	struct windows w = {0};
	struct pri_volume *view = ask_volume_open(volume, 0, err);
	uint64_t damaged = 0;
	int rc = view ? windows_read(&w, view->sfs, err) : -1;

	if (rc == 0 && w.count) {
		s.tag = w.all[w.count - 1].tag;
		rc = each_record(view->sfs, open_stream, take_state, &s, &damaged, err);
	}
	if (rc == 0 && damaged) /* of those that count, or of older ones */
		fprintf(stderr, "%s: %" PRIu64 " damaged entries are left out\n", volume,
			damaged);
	pri_volume_close(&view);
	windows_free(&w);
	return rc;
}

/* ---- the end of a window ---- */

/* All that it is made of. */
static int
store_window(struct flow_keeper *k, struct flow_window *w,
	const struct flow_keep_open *open, struct pr_error *err)
{
	struct prl_direct_link *m = &k->link;
	struct storing to = {k, open, k->file ? pr_now_real() : w->until};

	k->open = 0;
	k->room_used = OPEN_HEADER;
	pr_observation_begin(&m->observation, PR_UNOBSERVED_FILE,
		m->packets ? m->earliest : PR_TIME_MAX, "");
	prl_direct_link_say(m, pr_now_real(), false);
	if (open && (pri_flow_table_open_flows(open->table, add_open, &to, err) < 0 ||
			    store_open(k, OPEN_FLOWS, to.time, err) < 0))
		return -1;
	return prl_writer_flush(k->writer.append, err) != 0 ? -1 : 0;
}

int
flow_keeper_commit(struct flow_keeper *k, struct flow_window *window,
	const struct flow_keep_open *open, struct pr_error *err)
{
	struct sfs *sfs = k->writer.sfs;
	uint8_t entry[WINDOW_BYTES];
	struct sfs_trimmed trimmed;
	bool due = pr_now_mono() - k->indexed >= INDEX_NS || k->file ||
		   !(open || k->collected);

	if (store_window(k, window, open, err) < 0)
		return -1;
	window->number = ++k->number;
	window->records = k->records;
	window->reach = k->reach > window->reach ? k->reach : window->reach;
	window->open = k->open;
	window->epoch = k->epoch;
	window->seq = k->link.mark.link.last_seq;
	window->tag = k->tag;
	window->goes_on = open != NULL;
	window->collected = k->collected;
	window->file = k->file;
	window_write(window, entry);
	if (sfs_append(sfs, k->windows_id, window->since, window->until, entry,
		    sizeof(entry), NULL, err) != SFS_OK ||
		prl_writer_flush(k->writer.append, err) != 0 ||
		note_window(k, window, err) < 0)
		return -1;
	k->records = 0;
	k->reach = 0;
	randombytes_buf(&k->tag, sizeof(k->tag));
	if (due && (inline_index_step(
			    &k->index, k->writer.append, !open && !k->collected, err) < 0 ||
			   prl_writer_flush(k->writer.append, err) != 0))
		return -1;
	k->indexed = due ? pr_now_mono() : k->indexed;
	/* a range leaves what a keeper that goes on has there */
	if ((open || k->collected) && k->last.number &&
		sfs_trim(sfs, k->open_id, k->last.until, 0, &trimmed, err) != SFS_OK)
		return -1;
	if (open || k->collected)
		note_last(k, window);
	return 0;
}
