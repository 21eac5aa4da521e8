/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/catalog.h"

#include "indexer/index/level2.h"
#include "proto/base/array.h"
#include "proto/base/text.h"

_Static_assert(sizeof(struct pri_segment_entry) <= 104, "the catalog's share of memory");

/* Adds a zeroed item to a list of pointers. NULL: no memory. */
static void *
list_add(void *list, size_t *count, size_t size)
{
	void **items, *item;

	if (pr_array_grow(list, *count, sizeof item) < 0)
		return NULL;
	item = calloc(1, size);
	memcpy(&items, list, sizeof items);
	if (item)
		items[(*count)++] = item;
	return item;
}

/* ---- sorted runs ---- */

/* The run that the entry follows in the total order, or a new one. */
static struct pri_sorted_run *
series_run_for(struct pri_epoch_series *series, const struct pri_segment_entry *entry)
{
	for (size_t i = 0; i < series->run_count; i++) {
		struct pri_sorted_run *run = series->runs[i];
		const struct pri_segment_entry *last =
			pri_sorted_run_at(run, pri_sorted_run_end(run) - 1);

		if (!last || entry->first_otime > last->last_otime ||
			(entry->first_otime == last->last_otime &&
				entry->first_seq > pri_entry_last_seq(last)))
			return run;
	}
	return list_add(&series->runs, &series->run_count, sizeof(struct pri_sorted_run));
}

uint64_t
pri_sorted_run_search(const struct pri_sorted_run *run, int64_t otime)
{
	const struct pri_segment_entry *items = run->items + run->head;

	return run->base + PR_ARRAY_SEARCH(run->count, items[mid].last_otime < otime);
}

/* Index of the first entry of this sequence or a later one; run->count: none. */
static size_t
run_find(const struct pri_sorted_run *run, uint64_t sequence)
{
	const struct pri_segment_entry *items = run->items + run->head;

	return PR_ARRAY_SEARCH(run->count, items[mid].sequence < sequence);
}

/* ---- the catalog ---- */

/* Adds the entry to the sums (sign 1), or subtracts it (sign -1, modulo 2^64). */
static void
add_to_sums(struct pri_catalog *catalog, struct pri_epoch_series *series,
	const struct pri_segment_entry *entry, uint64_t sign)
{
	uint64_t packets = sign * entry->count;

	series->packets += packets;
	if (pr_link_is_internal(series->link))
		return;
	catalog->packets += packets;
	catalog->segments += sign;
	catalog->bytes += sign * entry->handle.length;
}

int
pri_catalog_add(struct pri_catalog *catalog, struct pri_epoch_series *series,
	const struct pri_segment_entry *entry, struct pr_error *err)
{
	struct pri_sorted_run *run = series_run_for(series, entry);

	/* expired entries leave room at the front: it is used before the run grows */
	if (run && run->head + run->count == run->capacity &&
		run->head > run->capacity / 4) {
		memmove(run->items, run->items + run->head,
			run->count * sizeof *run->items);
		run->head = 0;
	}
	if (!run ||
		PR_ARRAY_RESERVE(run->items, run->capacity, run->head + run->count + 1) < 0)
		return pr_error_set(err, "no memory for the list of %llu segments",
			(unsigned long long)catalog->segments);
	run->items[run->head + run->count++] = *entry;
	run->most_back =
		PR_MAX(run->most_back, pr_time_minus(entry->first_otime, entry->min_time));
	if (run->count == 1 || entry->max_time > run->max_time)
		run->max_time = entry->max_time;
	add_to_sums(catalog, series, entry, 1);
	return 0;
}

static void
run_drop(struct pri_catalog *catalog, struct pri_epoch_series *series,
	struct pri_sorted_run *run, bool first)
{
	const struct pri_segment_entry *entry =
		&run->items[run->head + (first ? 0 : run->count - 1)];

	if (!entry->deleted)
		add_to_sums(catalog, series, entry, -1);
	run->head += first;
	run->base += first;
	if (--run->count == 0)
		run->head = 0;
}

static void
epoch_series_free(struct pri_epoch_series *series)
{
	for (size_t i = 0; i < series->run_count; i++) {
		free(series->runs[i]->items);
		free(series->runs[i]);
	}
	free(series->runs);
	free(series);
}

/* The last one of a stream stays: packets may still come. */
static bool
is_over(const struct pri_catalog *catalog, size_t i)
{
	uint32_t stream = catalog->series[i]->stream;

	while (++i < catalog->series_count && catalog->series[i]->stream != stream)
		;
	return i < catalog->series_count;
}

void
pri_catalog_expire(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last)
{
	size_t kept = 0;

	for (size_t i = 0; i < catalog->series_count; i++) {
		struct pri_epoch_series *series = catalog->series[i];
		bool stays =
			series->stream != stream || series->queries || !is_over(catalog, i);

		for (size_t j = 0; series->stream == stream && j < series->run_count; j++) {
			struct pri_sorted_run *run = series->runs[j];

			while (run->count && run->items[run->head].sequence < first)
				run_drop(catalog, series, run, true);
			while (run->count &&
				run->items[run->head + run->count - 1].sequence > last)
				run_drop(catalog, series, run, false);
			stays |= run->count > 0;
		}
		if (stays)
			catalog->series[kept++] = series;
		else
			epoch_series_free(series);
	}
	catalog->series_count = kept;
}

static void
run_delete(struct pri_catalog *catalog, struct pri_epoch_series *series,
	struct pri_sorted_run *run, uint64_t first, uint64_t last)
{
	struct pri_segment_entry *items = run->items + run->head;
	bool any = false;

	for (size_t at = run_find(run, first);
		at < run->count && items[at].sequence <= last; at++) {
		if (items[at].deleted)
			continue;
		add_to_sums(catalog, series, &items[at], -1);
		items[at].deleted = any = true;
	}
	if (!any)
		return;
	run->max_time = INT64_MIN;
	for (size_t at = 0; at < run->count; at++)
		if (!items[at].deleted && items[at].max_time > run->max_time)
			run->max_time = items[at].max_time;
}

void
pri_catalog_delete(
	struct pri_catalog *catalog, uint32_t stream, uint64_t first, uint64_t last)
{
	for (size_t i = 0; i < catalog->series_count; i++) {
		struct pri_epoch_series *series = catalog->series[i];

		for (size_t j = 0; series->stream == stream && j < series->run_count; j++)
			run_delete(catalog, series, series->runs[j], first, last);
	}
}

static void
span_add(struct pr_summary_span *span, const struct pri_segment_entry *e)
{
	struct pr_summary_span one = {.first_sequence = e->sequence,
		.segments = 1,
		.last_seq = pri_entry_last_seq(e),
		.packets = e->count};

	PR_COPY(&one, span, link, epoch);
	PR_COPY(&one, e, first_seq, first_otime, last_otime, min_time, max_time);
	pr_summary_span_unite(span, &one);
}

size_t
pri_catalog_spans(const struct pri_catalog *catalog, uint32_t stream, uint64_t from,
	uint64_t to, struct pr_summary_span *out, size_t max, uint64_t *found)
{
	size_t count = 0;

	*found = 0;
	for (size_t i = 0; i < catalog->series_count && count < max; i++) {
		const struct pri_epoch_series *series = catalog->series[i];
		struct pr_summary_span span = {
			.link = series->link, .epoch = series->epoch};

		for (size_t j = 0; series->stream == stream && j < series->run_count; j++) {
			const struct pri_sorted_run *run = series->runs[j];
			const struct pri_segment_entry *items = run->items + run->head;

			for (size_t at = run_find(run, from);
				at < run->count && items[at].sequence <= to; at++)
				span_add(&span, &items[at]);
		}
		*found += span.segments;
		if (span.segments)
			out[count++] = span;
	}
	return count;
}

const struct sfs_handle *
pri_catalog_handle(const struct pri_catalog *catalog, uint32_t stream, uint64_t sequence)
{
	for (size_t i = catalog->series_count; i-- > 0;) {
		const struct pri_epoch_series *series = catalog->series[i];

		for (size_t j = 0; series->stream == stream && j < series->run_count; j++) {
			const struct pri_sorted_run *run = series->runs[j];
			size_t at = run_find(run, sequence);

			if (at < run->count &&
				run->items[run->head + at].sequence == sequence)
				return &run->items[run->head + at].handle;
		}
	}
	return NULL;
}

/* Searches from the newest series back: the series being written is asked for most. */
struct pri_epoch_series *
pri_catalog_series(struct pri_catalog *catalog, uint32_t stream, bool strays,
	uint64_t epoch, uint16_t link)
{
	struct pri_epoch_series *series;

	for (size_t i = catalog->series_count; i-- > 0;) {
		series = catalog->series[i];
		if (series->epoch == epoch && series->link == link &&
			series->stream == stream)
			return series;
	}
	series = list_add(&catalog->series, &catalog->series_count, sizeof *series);
	if (series)
		*series = (struct pri_epoch_series){
			.epoch = epoch, .link = link, .strays = strays, .stream = stream};
	return series;
}

/*
 * Only the oldest few entries are checked: millions every two seconds would take too long.
 */
#define OLDEST_LOOKED_AT 64

bool
pri_catalog_times(
	const struct pri_catalog *catalog, int64_t stream, int64_t *first, int64_t *last)
{
	int64_t low = INT64_MAX, high = INT64_MIN;

	for (size_t i = 0; i < catalog->series_count; i++) {
		const struct pri_epoch_series *series = catalog->series[i];

		if (stream < 0 ? series->strays || pr_link_is_internal(series->link)
			       : series->stream != stream)
			continue;
		for (size_t j = 0; j < series->run_count; j++) {
			const struct pri_sorted_run *run = series->runs[j];
			size_t looked = 0;

			for (size_t at = run->head;
				at < run->head + run->count && looked < OLDEST_LOOKED_AT;
				at++) {
				looked += !run->items[at].deleted;
				if (!run->items[at].deleted &&
					run->items[at].min_time < low)
					low = run->items[at].min_time;
			}
			if (looked && run->max_time > high)
				high = run->max_time;
		}
	}
	if (low > high)
		return false;
	*first = low;
	*last = high;
	return true;
}

void
pri_catalog_free(struct pri_catalog *catalog)
{
	for (size_t i = 0; i < catalog->series_count; i++)
		epoch_series_free(catalog->series[i]);
	free(catalog->series);
	*catalog = (struct pri_catalog){0};
}

/* ---- the ledger view ---- */

/* Where (epoch, link) is, or would be. */
static size_t
ledger_position(const struct pri_ledger_view *ledger, uint64_t epoch, uint16_t link)
{
	struct pri_series_ledger *const *s = ledger->series;

	return PR_ARRAY_SEARCH(ledger->count,
		s[mid]->epoch < epoch || (s[mid]->epoch == epoch && s[mid]->link < link));
}

struct pri_series_ledger *
pri_ledger_view_find(const struct pri_ledger_view *ledger, uint64_t epoch, uint16_t link)
{
	size_t at = ledger_position(ledger, epoch, link);
	struct pri_series_ledger *s = at < ledger->count ? ledger->series[at] : NULL;

	return s && s->epoch == epoch && s->link == link ? s : NULL;
}

static struct pri_series_ledger *
series_find_or_add(struct pri_ledger_view *ledger, uint64_t epoch, uint16_t link)
{
	struct pri_series_ledger *series = pri_ledger_view_find(ledger, epoch, link);
	size_t at = ledger_position(ledger, epoch, link);

	if (series || !(series = list_add(&ledger->series, &ledger->count, sizeof *series)))
		return series;
	series->epoch = epoch;
	series->link = link;
	series->said_until = (int64_t)(epoch >> 32) * PR_NS_PER_S;
	memmove(ledger->series + at + 1, ledger->series + at,
		(ledger->count - 1 - at) * sizeof series);
	return ledger->series[at] = series;
}

static void
join(struct pr_loss *into, const struct pr_loss *next)
{
	into->first_seq = PR_MIN(into->first_seq, next->first_seq);
	into->last_seq = PR_MAX(into->last_seq, next->last_seq);
	pr_time_widen(
		&into->first_time, &into->last_time, next->first_time, next->last_time);
	into->count += next->count;
	into->bits = 0;
	into->second &= next->second;
}

size_t
pri_losses_coalesce(struct pr_loss *losses, size_t count, size_t max)
{
	if (max == 0)
		max = 1;
	while (count > max) {
		size_t out = 0;
		for (size_t i = 0; i < count; i += 2, out++) {
			losses[out] = losses[i];
			if (i + 1 < count)
				join(&losses[out], &losses[i + 1]);
		}
		count = out;
	}
	return count;
}

/* What the loss adds to the packets that were lost here. */
static uint64_t
missing_of(const struct pr_loss *loss)
{
	return pr_link_is_internal(loss->link) || loss->reason == PR_LOSS_DISPATCHER
		       ? 0
		       : loss->count;
}

static int
take_loss(struct pri_ledger_view *ledger, struct pri_series_ledger *series,
	const struct pr_loss *loss)
{
	struct pr_loss *last =
		series->loss_count ? &series->losses[series->loss_count - 1] : NULL;

	ledger->missing += missing_of(loss);
	if (last && pr_loss_join(last, loss))
		return 0;
	if (last && ledger->losses >= PRI_LEDGER_LOSSES_MAX) {
		join(last, loss);
		return 0;
	}
	if (PR_ARRAY_ADD(series->losses, series->loss_count, *loss) < 0)
		return -1;
	ledger->losses++;
	return 0;
}

static void
forget_deleted(struct pri_ledger_view *ledger, size_t at)
{
	ledger->deleted_count--;
	memmove(ledger->deleted + at, ledger->deleted + at + 1,
		(ledger->deleted_count - at) * sizeof *ledger->deleted);
}

static struct pri_ledger_deletion *
add_deleted(struct pri_ledger_view *ledger, const struct pr_ledger_deleted *d)
{
	if (ledger->deleted_count == PRI_LEDGER_DELETED_MAX)
		forget_deleted(ledger, 0);
	if (PR_ARRAY_GROW(ledger->deleted, ledger->deleted_count) < 0)
		return NULL;
	struct pri_ledger_deletion *item = &ledger->deleted[ledger->deleted_count++];
	*item = (struct pri_ledger_deletion){.word = *d, .reached = PR_TIME_MIN};
	item->word.records = item->word.bytes = 0;
	pr_text_clean(item->word.moved_to, "");
	return item;
}

static int
take_deleted(struct pri_ledger_view *ledger, const struct pr_ledger_deleted *entry)
{
	struct pr_ledger_deleted d = *entry;
	struct pri_ledger_deletion *item = NULL;

	pr_text_clean(d.by, "");
	for (size_t i = 0; i < ledger->deleted_count && !item; i++) {
		const struct pr_ledger_deleted *word = &ledger->deleted[i].word;

		if (word->link == d.link && word->at == d.at && !strcmp(word->by, d.by))
			item = &ledger->deleted[i];
	}
	if (!item && d.phase == PR_DELETION_OVER)
		return 0;
	if (!item && !(item = add_deleted(ledger, &d)))
		return -1;
	PR_ADD(&item->word, &d, records, bytes);
	if (d.phase == PR_DELETION_STEP && d.until > item->reached)
		item->reached = d.until;
	if (item->reached > item->word.until || d.phase == PR_DELETION_OVER)
		item->word.until = item->reached;
	if (d.phase == PR_DELETION_OVER && item->word.records == 0)
		forget_deleted(ledger, item - ledger->deleted);
	return 0;
}

const struct pr_ledger_deleted *
pri_ledger_view_deletion(const struct pri_ledger_view *ledger, uint16_t link, bool oldest,
	int64_t since, int64_t until)
{
	for (size_t i = ledger->deleted_count; i-- > 0;) {
		const struct pr_ledger_deleted *word = &ledger->deleted[i].word;

		if (word->link == link && (!oldest || word->since == PR_TIME_MIN) &&
			word->since <= until && word->until >= since)
			return word;
	}
	return NULL;
}

/* Older dispatchers count drops a little after they happen. */
#define DROP_SLACK_NS (200 * PR_NS_PER_MS)

static int
take_drops(struct pri_series_ledger *s, const struct pr_ledger_mark *mark)
{
	const struct pr_mark_link *was = &s->mark.link, *is = &mark->link;
	int64_t before =
		s->have_mark ? s->mark.said_until : (int64_t)(s->epoch >> 32) * PR_NS_PER_S;
	struct pri_drop d = {pr_time_minus(before, DROP_SLACK_NS), mark->said_until,
		is->dropped_kernel - was->dropped_kernel,
		is->dropped_interface - was->dropped_interface,
		is->dropped_ring - was->dropped_ring};
	struct pri_drop *last = s->drop_count ? &s->drops[s->drop_count - 1] : NULL;

	/* counters only grow; a MARK that was told before counts nothing again */
	if (is->dropped_kernel < was->dropped_kernel ||
		is->dropped_interface < was->dropped_interface ||
		is->dropped_ring < was->dropped_ring || !(d.kernel + d.interface + d.ring))
		return 0;
	if (last && s->drop_count == PRI_DROPS_MAX) {
		last->until = d.until;
		PR_ADD(last, &d, kernel, interface, ring);
		return 0;
	}
	return PR_ARRAY_ADD(s->drops, s->drop_count, d);
}

struct pri_drop
pri_series_ledger_drops(
	const struct pri_series_ledger *series, int64_t since, int64_t until)
{
	struct pri_drop sum = {since, until, 0, 0, 0};

	for (size_t i = 0; i < series->drop_count; i++) {
		const struct pri_drop *d = &series->drops[i];

		if (d->until >= since && d->since <= until)
			PR_ADD(&sum, d, kernel, interface, ring);
	}
	return sum;
}

/* A MARK has the last range of packets that the dispatcher did not send. */
static int
take_undelivered(struct pri_ledger_view *ledger, struct pri_series_ledger *s,
	const struct pr_mark_link *is)
{
	struct pr_loss loss = {.epoch = s->epoch,
		.link = s->link,
		.first_seq = is->undelivered_first,
		.last_seq = is->undelivered_last,
		.first_time = s->have_mark ? s->mark.link.last_otime : PR_TIME_MIN,
		.last_time = is->last_otime,
		.reason = PR_LOSS_DISPATCHER};

	/* the range has grown: what was told is known already */
	if (loss.first_seq <= s->mark.link.undelivered_last)
		loss.first_seq = s->mark.link.undelivered_last + 1;
	/* of the first MARK of a ledger whose begin was overwritten: nobody knows when */
	if (is->undelivered_first == 0 || loss.first_seq > loss.last_seq ||
		(!s->have_mark && ledger->first_record > 1))
		return 0;
	loss.count = loss.last_seq - loss.first_seq + 1;
	return take_loss(ledger, s, &loss);
}

static int
take_point(struct pri_series_ledger *s, const struct pr_mark_link *link)
{
	struct pri_seq_time *p = s->point_count ? &s->points[s->point_count - 1] : NULL;
	size_t kept = 0;

	if (link->last_seq == 0 ||
		(p && (link->last_seq <= p->seq ||
			      link->last_otime - s->point_step < p->otime)))
		return 0;
	if (s->point_count == PRI_POINTS_MAX) {
		for (size_t i = 0; i < s->point_count; i += 2)
			s->points[kept++] = s->points[i];
		s->point_count = kept;
		s->point_step = s->point_step ? 2 * s->point_step : PR_NS_PER_S;
	}
	const struct pri_seq_time point = {link->last_seq, link->last_otime};
	return PR_ARRAY_ADD(s->points, s->point_count, point);
}

void
pri_series_ledger_points(const struct pri_series_ledger *series, int64_t since,
	int64_t until, struct pri_seq_time *below, struct pri_seq_time *above)
{
	const struct pri_seq_time *points = series->points;
	size_t at = PR_ARRAY_SEARCH(series->point_count, points[mid].otime < since);

	*below = *above = (struct pri_seq_time){0, 0};
	if (at > 0)
		*below = points[at - 1];
	at = PR_ARRAY_SEARCH(series->point_count, points[mid].otime <= until);
	if (at < series->point_count)
		*above = points[at];
}

static int
take_unobserved(struct pri_series_ledger *s, const struct pr_unobserved *u)
{
	struct pri_unobserved_list *list = &s->unobserved;
	size_t at = list->count;

	for (size_t i = 0; i < list->count && at == list->count; i++)
		if (list->reason[i] == u->reason && list->since[i] == u->since)
			at = i;
	if (at == PRI_UNOBSERVED_LIST_MAX) { /* the last one covers this, too */
		list->until[at - 1] = u->until;
		return 0;
	}
	if (at == list->count) {
		if (PR_ARRAY_GROW(list->reason, at) < 0 ||
			PR_ARRAY_GROW(list->since, at) < 0 ||
			PR_ARRAY_GROW(list->until, at) < 0 ||
			PR_ARRAY_GROW(list->by, at) < 0 || !(list->by[at] = strdup(u->by)))
			return -1;
		pr_text_clean(list->by[at], "");
		list->count++;
	}
	list->reason[at] = u->reason;
	list->since[at] = u->since;
	list->until[at] = u->until;
	return 0;
}

/*
 * A node that was killed cannot tell what it lost: the packets that it had not made durable, and those that it was sent
 * until the dispatcher took it for gone. Older versions do not say what was durable: a MARK is so up to this much
 * earlier than the packets before it. (Where node or dispatcher had paused, much more of otime passes in that time.)
 */
#define DURABLE_NS PR_NS_PER_S

struct pr_loss
pri_series_ledger_unsaved(const struct pri_series_ledger *s, uint64_t last_seq, bool gone)
{
	struct pr_loss loss = {.epoch = s->epoch,
		.link = s->link,
		.last_seq = last_seq,
		.first_time = pr_time_minus(s->said_until, DURABLE_NS),
		.last_time = pr_time_minus(s->said_until, -PR_LEDGER_ALIVE_NS),
		.reason = s->unsure ? s->unsure : PR_LOSS_UNSAVED};
	struct pri_seq_time below, above;

	pri_series_ledger_points(s, loss.first_time, PR_TIME_MAX, &below, &above);
	if (s->durable) {
		size_t at =
			PR_ARRAY_SEARCH(s->point_count, s->points[mid].seq <= s->durable);
		below.seq = s->durable;
		if (at > 0)
			loss.first_time = s->points[at - 1].otime;
	}
	if ((s->unsure || (gone && !s->mark.link.ended)) && below.seq < last_seq)
		loss.first_seq = below.seq + 1;
	return loss;
}

static int
take_mark(struct pri_ledger_view *ledger, struct pri_series_ledger *s,
	const struct pr_ledger_mark *mark)
{
	struct pr_ledger_mark now = *mark;
	const struct pr_loss unsaved =
		pri_series_ledger_unsaved(s, mark->link.last_seq, false);

	/* it tells no more than that the dispatcher is heard anew: what it has of the undelivered has no time */
	if (now.link.last_otime == PR_TIME_MIN) {
		PR_COPY(&now.link, &s->mark.link, undelivered_first, undelivered_last);
		if (!s->have_mark)
			s->unsure = ledger->was_there && ledger->booted > s->said_until
					    ? PR_LOSS_UNSAVED
					    : 0;
		else if (!s->unsure) /* not killed: its line was cut, and nothing came */
			s->unsure = PR_LOSS_SWITCH;
	} else {
		if (unsaved.first_seq && take_loss(ledger, s, &unsaved) < 0)
			return -1;
		s->unsure = 0;
		s->said_until = PR_MAX(s->said_until, mark->said_until);
	}
	if (take_drops(s, &now) < 0 || take_undelivered(ledger, s, &now.link) < 0 ||
		take_point(s, &now.link) < 0)
		return -1;
	if (!s->first_said) /* the first MARKs of an epoch say nothing */
		s->first_said = now.said_until;
	s->mark = now;
	pr_text_clean(s->mark.link.name, "");
	s->have_mark = true;
	return 0;
}

int
pri_ledger_view_take(struct pri_ledger_view *ledger, const struct pr_ledger_entry *entry,
	struct pr_error *err)
{
	const struct pr_ledger_mark *mark = &entry->u.mark;
	struct pri_series_ledger *s = NULL;
	int rc = 0;

	switch (entry->type) {
	case PR_LEDGER_MARK:
		s = series_find_or_add(ledger, mark->epoch, mark->link.link);
		rc = s ? take_mark(ledger, s, mark) : -1;
		break;
	case PR_LEDGER_UNOBSERVED:
		s = series_find_or_add(
			ledger, entry->u.unobserved.epoch, entry->u.unobserved.link);
		rc = s ? take_unobserved(s, &entry->u.unobserved.time) : -1;
		break;
	case PR_LEDGER_LINK:
		s = series_find_or_add(ledger, entry->u.link.epoch, entry->u.link.link);
		if (s) {
			s->info = entry->u.link;
			pr_text_clean(s->info.name, "");
			s->have_link = true;
		}
		break;
	case PR_LEDGER_CLASS:
		ledger->classes[entry->u.class.number] = entry->u.class;
		pr_text_clean(ledger->classes[entry->u.class.number].name, "");
		return 0;
	case PR_LEDGER_PORT:
		s = series_find_or_add(ledger, entry->u.port.epoch, entry->u.port.link);
		if (s)
			s->port = entry->u.port;
		break;
	case PR_LEDGER_LOSS:
		s = series_find_or_add(ledger, entry->u.loss.epoch, entry->u.loss.link);
		rc = s ? take_loss(ledger, s, &entry->u.loss) : -1;
		if (s && entry->u.loss.first_seq == 0)
			s->unsure = PR_LOSS_UNSAVED;
		break;
	case PR_LEDGER_DURABLE:
		s = series_find_or_add(
			ledger, entry->u.durable.epoch, entry->u.durable.link);
		if (s && entry->u.durable.seq > s->durable)
			s->durable = entry->u.durable.seq;
		break;
	case PR_LEDGER_BOOT:
		if (entry->u.boot.time == ledger->booted) /* said again */
			return 0;
		ledger->was_there = ledger->record > 1;
		ledger->booted = entry->u.boot.time;
		for (size_t i = 0; i < ledger->count; i++)
			if (!ledger->series[i]->mark.link.ended)
				ledger->series[i]->unsure = PR_LOSS_UNSAVED;
		return 0;
	case PR_LEDGER_DELETED:
		if (take_deleted(ledger, &entry->u.deleted) == 0)
			return 0;
		break;
	default:
		return 0;
	}
	if (!s || rc < 0)
		return pr_error_set(err, "no memory for the ledger");
	s->record = ledger->record;
	return 0;
}

const char *
pri_series_ledger_name(const struct pri_series_ledger *series)
{
	if (series->have_link && *series->info.name)
		return series->info.name;
	return series->have_mark ? series->mark.link.name : "";
}

int64_t
pri_ledger_view_stored_until(
	const struct pri_ledger_view *ledger, int64_t now, int64_t alive_ns)
{
	int64_t until = PR_TIME_MAX;

	for (size_t i = 0; i < ledger->count; i++) {
		const struct pri_series_ledger *s = ledger->series[i];
		int64_t heard = s->mark.said_until;
		bool over = s->mark.link.ended || s->mark.stopping;

		/* a capture that has just begun has confirmed nothing yet; one that was stopped may begin again */
		for (size_t j = 0; j < s->unobserved.count; j++) {
			if (s->unobserved.reason[j] != PR_UNOBSERVED_BEGIN)
				continue;
			over = false;
			if (s->unobserved.until[j] != PR_TIME_MAX &&
				s->unobserved.until[j] > heard)
				heard = s->unobserved.until[j];
		}
		if (s->have_mark && !over && heard >= now - alive_ns)
			until = PR_MIN(until, s->mark.said_until);
	}
	return until;
}

static void
series_ledger_free(struct pri_series_ledger *s)
{
	for (size_t j = 0; j < s->unobserved.count; j++)
		free(s->unobserved.by[j]);
	PR_FREE(s, unobserved.reason, unobserved.since, unobserved.until, unobserved.by,
		losses, points, drops);
	free(s);
}

static void
forget_losses(
	struct pri_ledger_view *ledger, struct pri_series_ledger *series, int64_t until)
{
	size_t kept = 0;

	for (size_t i = 0; i < series->loss_count; i++) {
		if (series->losses[i].last_time > until)
			series->losses[kept++] = series->losses[i];
		else
			ledger->missing -= missing_of(&series->losses[i]);
	}
	ledger->losses -= series->loss_count - kept;
	series->loss_count = kept;
}

void
pri_ledger_view_expire(struct pri_ledger_view *ledger, const struct pri_catalog *catalog,
	uint64_t first_record, int64_t until)
{
	int64_t oldest = until, newest;
	size_t kept = 0;

	if (first_record <= ledger->first_record)
		return;
	ledger->first_record = first_record;
	if (pri_catalog_times(catalog, -1, &oldest, &newest) && oldest < until)
		until = oldest;
	for (size_t i = 0; i < ledger->count; i++) {
		struct pri_series_ledger *s = ledger->series[i];
		bool stays = s->record >= first_record;

		for (size_t j = 0; j < catalog->series_count; j++) /* or it has packets */
			stays |= catalog->series[j]->epoch == s->epoch &&
				 catalog->series[j]->link == s->link;
		forget_losses(ledger, s, stays ? until : PR_TIME_MAX);
		if (stays)
			ledger->series[kept++] = s;
		else
			series_ledger_free(s);
	}
	ledger->count = kept;
}

void
pri_ledger_view_free(struct pri_ledger_view *ledger)
{
	for (size_t i = 0; i < ledger->count; i++)
		series_ledger_free(ledger->series[i]);
	PR_FREE(ledger, series, deleted);
	*ledger = (struct pri_ledger_view){0};
}

/* ---- the index map ---- */

#define PROOFS_MAX (1u << 28) /* of a stream: 64 TB of segments */

void
pri_index_map_free(struct pri_index_map *map)
{
	for (size_t i = 0; i < map->count; i++) {
		for (int level = 0; level < PRI_INDEX_LEVELS; level++)
			free(map->streams[i]->level[level].items);
		free(map->streams[i]->proofs);
		free(map->streams[i]);
	}
	free(map->streams);
	*map = (struct pri_index_map){0};
}

struct pri_index_stream *
pri_index_map_find(const struct pri_index_map *map, uint16_t link)
{
	for (size_t i = 0; i < map->count; i++)
		if (map->streams[i]->link == link)
			return map->streams[i];
	return NULL;
}

static struct pri_index_stream *
stream_find_or_add(struct pri_index_map *map, uint16_t link, struct pr_error *err)
{
	struct pri_index_stream *s = pri_index_map_find(map, link);

	if (s)
		return s;
	s = list_add(&map->streams, &map->count, sizeof *s);
	if (s)
		s->link = link;
	else
		pr_error_set(err, "no memory for the list of indexes");
	return s;
}

int
pri_index_map_proof(struct pri_index_map *map, uint16_t link, uint64_t sequence,
	uint64_t proof, struct pr_error *err)
{
	struct pri_index_stream *s = stream_find_or_add(map, link, err);

	if (!s)
		return -1;
	if (s->proof_count == 0)
		s->base = sequence;
	if (sequence < s->base || sequence - s->base >= PROOFS_MAX)
		return 0; /* such a segment is without index */
	size_t at = sequence - s->base;
	if (PR_ARRAY_RESERVE(s->proofs, s->proof_capacity, at + 1) < 0)
		return pr_error_set(err, "no memory for the list of segments");
	if (at >= s->proof_count) {
		memset(s->proofs + s->proof_count, 0,
			(at - s->proof_count) * sizeof *s->proofs);
		s->proof_count = at + 1;
	}
	s->proofs[at] = proof;
	return 0;
}

bool
pri_index_check(const struct pri_index_stream *s, uint64_t first, uint32_t segments,
	uint64_t *check)
{
	*check = 0;
	if (first < s->base || first - s->base > s->proof_count ||
		segments > s->proof_count - (first - s->base))
		return false;
	for (uint64_t i = first; i < first + segments; i++) {
		uint64_t proof = s->proofs[i - s->base];

		if (!proof)
			return false;
		*check = pri_segments_digest_add(*check, i, proof);
	}
	return true;
}

static uint64_t
end_of(const struct pri_index_ref *ref)
{
	return ref->first_sequence + ref->segments;
}

/* The index of the first record that ends after the sequence. */
static size_t
list_search(const struct pri_index_list *l, uint64_t sequence)
{
	return PR_ARRAY_SEARCH(l->count, end_of(&l->items[mid]) <= sequence);
}

int
pri_index_map_take(struct pri_index_map *map, const struct pr_directory_index *entry,
	const struct sfs_handle *handle, struct pr_error *err)
{
	struct pri_index_ref ref = {.handle = *handle};
	size_t to;

	PR_COPY(&ref, entry, first_sequence, check, segments);
	if (entry->level < 1 || entry->level > PRI_INDEX_LEVELS)
		return 0;
	struct pri_index_stream *s = stream_find_or_add(map, entry->link, err);
	if (!s)
		return -1;
	struct pri_index_list *l = &s->level[entry->level - 1];
	size_t from = to = list_search(l, ref.first_sequence);
	/* records that it overlaps are older, and about segments that are gone */
	while (to < l->count && l->items[to].first_sequence < end_of(&ref))
		to++;
	if (PR_ARRAY_GROW(l->items, l->count) < 0)
		return pr_error_set(err, "no memory for the list of indexes");
	memmove(l->items + from + 1, l->items + to, (l->count - to) * sizeof *l->items);
	l->items[from] = ref;
	l->count += 1 - (to - from);
	return 0;
}

void
pri_index_map_expire(struct pri_index_map *map, uint16_t link, uint64_t sequence)
{
	struct pri_index_stream *s = pri_index_map_find(map, link);

	if (!s || sequence == 0)
		return;
	for (int level = 0; level < PRI_INDEX_LEVELS; level++) {
		struct pri_index_list *l = &s->level[level];
		size_t first = list_search(l, sequence);

		l->count -= first;
		if (first)
			memmove(l->items, l->items + first, l->count * sizeof *l->items);
	}
	if (sequence <= s->base)
		return;
	uint64_t gone = sequence - s->base;
	if (gone >= s->proof_count) {
		s->proof_count = 0;
	} else if (gone > s->proof_count / 4) { /* not for every entry */
		s->proof_count -= (size_t)gone;
		memmove(s->proofs, s->proofs + gone, s->proof_count * sizeof *s->proofs);
		s->base = sequence;
	}
}

struct pri_index_ref *
pri_index_find(const struct pri_index_stream *s, unsigned level, uint64_t sequence)
{
	const struct pri_index_list *l = &s->level[level - 1];
	size_t at = list_search(l, sequence);

	return at < l->count && l->items[at].first_sequence <= sequence ? &l->items[at]
									: NULL;
}

bool
pri_index_ref_usable(const struct pri_index_stream *s, struct pri_index_ref *ref)
{
	uint64_t check;

	if (!ref->proven)
		ref->proven =
			pri_index_check(s, ref->first_sequence, ref->segments, &check) &&
			check == ref->check;
	return ref->proven || ref->first_sequence < s->base;
}

uint64_t
pri_index_uncovered(const struct pri_index_stream *s, unsigned level, uint64_t sequence)
{
	struct pri_index_ref *ref;

	while ((ref = pri_index_find(s, level, sequence)) && pri_index_ref_usable(s, ref))
		sequence = end_of(ref);
	return sequence;
}

uint64_t
pri_index_ungrouped(const struct pri_index_stream *s, uint64_t end, size_t least)
{
	const struct pri_index_list *l = &s->level[0];
	uint64_t from = end;
	size_t at = list_search(l, end), count = 0;

	for (; at > 0 && end_of(&l->items[at - 1]) == from; at--, count++) {
		if (pri_index_find(s, 2, l->items[at - 1].first_sequence))
			break;
		from = l->items[at - 1].first_sequence;
	}
	return count < least ? end : from;
}
