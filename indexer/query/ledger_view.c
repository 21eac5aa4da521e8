/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/ledger_view.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

static int
compare(const struct pri_series_ledger *facts, uint64_t epoch, uint16_t link)
{
	if (facts->epoch != epoch)
		return facts->epoch < epoch ? -1 : 1;
	return facts->link < link ? -1 : facts->link > link;
}

/* Where (epoch, link) is, or would be. */
static size_t
position(const struct pri_ledger_view *book, uint64_t epoch, uint16_t link)
{
	size_t low = 0, high = book->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (compare(book->facts[mid], epoch, link) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct pri_series_ledger *
pri_ledger_view_find(const struct pri_ledger_view *book, uint64_t epoch, uint16_t link)
{
	size_t at = position(book, epoch, link);

	if (at < book->count && compare(book->facts[at], epoch, link) == 0)
		return book->facts[at];
	return NULL;
}

static int
make_room(struct pri_ledger_view *book)
{
	size_t room = book->room ? book->room * 2 : 16;
	struct pri_series_ledger **facts;

	if (book->count < book->room)
		return 0;
	facts = realloc(book->facts, room * sizeof(*facts));
	if (!facts)
		return -1;
	book->facts = facts;
	book->room = room;
	return 0;
}

static struct pri_series_ledger *
find_or_make(struct pri_ledger_view *book, uint64_t epoch, uint16_t link)
{
	size_t at = position(book, epoch, link);
	struct pri_series_ledger *facts;

	if (at < book->count && compare(book->facts[at], epoch, link) == 0)
		return book->facts[at];
	if (make_room(book) < 0)
		return NULL;
	facts = calloc(1, sizeof(*facts));
	if (!facts)
		return NULL;
	facts->epoch = epoch;
	facts->link = link;
	memmove(book->facts + at + 1, book->facts + at,
		(book->count - at) * sizeof(*book->facts));
	book->facts[at] = facts;
	book->count++;
	return facts;
}

/* ---- losses ---- */

static void
join(struct pr_loss *into, const struct pr_loss *next)
{
	if (next->first_seq < into->first_seq)
		into->first_seq = next->first_seq;
	if (next->last_seq > into->last_seq)
		into->last_seq = next->last_seq;
	if (next->first_time < into->first_time)
		into->first_time = next->first_time;
	if (next->last_time > into->last_time)
		into->last_time = next->last_time;
	into->count += next->count;
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

static bool
adjoins(const struct pr_loss *last, const struct pr_loss *next)
{
	return last->last_seq != UINT64_MAX && next->first_seq == last->last_seq + 1 &&
	       next->reason == last->reason && next->second == last->second &&
	       last->count == last->last_seq - last->first_seq + 1 &&
	       next->count == next->last_seq - next->first_seq + 1;
}

static int
loss_room(struct pri_series_ledger *facts)
{
	size_t room = facts->loss_room ? facts->loss_room + facts->loss_room / 2 : 16;
	struct pr_loss *losses;

	if (facts->loss_count < facts->loss_room)
		return 0;
	losses = realloc(facts->losses, room * sizeof(*losses));
	if (!losses)
		return -1;
	facts->losses = losses;
	facts->loss_room = room;
	return 0;
}

static int
take_loss(struct pri_ledger_view *book, struct pri_series_ledger *facts,
	const struct pr_loss *loss)
{
	struct pr_loss *last =
		facts->loss_count ? &facts->losses[facts->loss_count - 1] : NULL;

	book->missing += loss->count;
	if (last && (adjoins(last, loss) || book->losses >= PRI_LEDGER_LOSSES_MAX)) {
		join(last, loss);
		return 0;
	}
	if (loss_room(facts) < 0)
		return -1;
	facts->losses[facts->loss_count++] = *loss;
	book->losses++;
	return 0;
}

/* Names go into messages and onto terminals: no control bytes. */
static void
clean(char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			*name = '?';
}

/* ---- deletions ---- */

static struct pri_ledger_deletion *
find_deleted(struct pri_ledger_view *book, const struct pr_ledger_deleted *d)
{
	for (size_t i = 0; i < book->deleted_count; i++) {
		struct pr_ledger_deleted *word = &book->deleted[i].word;

		if (word->link == d->link && word->at == d->at && !strcmp(word->by, d->by))
			return &book->deleted[i];
	}
	return NULL;
}

static void
forget_deleted(struct pri_ledger_view *book, size_t at)
{
	book->deleted_count--;
	memmove(book->deleted + at, book->deleted + at + 1,
		(book->deleted_count - at) * sizeof(*book->deleted));
}

static struct pri_ledger_deletion *
add_deleted(struct pri_ledger_view *book, const struct pr_ledger_deleted *d)
{
	struct pri_ledger_deletion *grown, *item;

	if (book->deleted_count == PRI_LEDGER_DELETED_MAX)
		forget_deleted(book, 0);
	grown = realloc(book->deleted, (book->deleted_count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	book->deleted = grown;
	item = &grown[book->deleted_count++];
	*item = (struct pri_ledger_deletion){.word = *d, .reached = PR_TIME_MIN};
	item->word.records = item->word.bytes = 0;
	clean(item->word.moved_to);
	return item;
}

static int
take_deleted(struct pri_ledger_view *book, const struct pr_ledger_deleted *entry)
{
	struct pr_ledger_deleted d = *entry;
	struct pri_ledger_deletion *item;

	clean(d.by);
	item = find_deleted(book, &d);
	if (!item && d.phase == PR_DELETION_OVER)
		return 0;
	if (!item && !(item = add_deleted(book, &d)))
		return -1;
	item->word.records += d.records;
	item->word.bytes += d.bytes;
	if (d.phase == PR_DELETION_STEP && d.until > item->reached)
		item->reached = d.until;
	if (item->reached > item->word.until || d.phase == PR_DELETION_OVER)
		item->word.until = item->reached;
	if (d.phase == PR_DELETION_OVER && item->word.records == 0)
		forget_deleted(book, (size_t)(item - book->deleted));
	return 0;
}

const struct pr_ledger_deleted *
pri_ledger_view_deletion(const struct pri_ledger_view *book, uint16_t link, bool oldest,
	int64_t since, int64_t until)
{
	for (size_t i = book->deleted_count; i-- > 0;) {
		const struct pr_ledger_deleted *word = &book->deleted[i].word;

		if (word->link == link && (!oldest || word->since == PR_TIME_MIN) &&
			word->since <= until && word->until >= since)
			return word;
	}
	return NULL;
}

int
pri_ledger_view_take(struct pri_ledger_view *book, const struct pr_ledger_entry *entry,
	struct pr_error *err)
{
	struct pri_series_ledger *facts = NULL;
	int rc = 0;

	switch (entry->type) {
	case PR_LEDGER_MARK:
		facts = find_or_make(book, entry->u.mark.epoch, entry->u.mark.link.link);
		if (!facts)
			break;
		facts->mark = entry->u.mark;
		clean(facts->mark.link.name);
		facts->have_mark = true;
		return 0;
	case PR_LEDGER_LINK:
		facts = find_or_make(book, entry->u.link.epoch, entry->u.link.link);
		if (!facts)
			break;
		facts->info = entry->u.link;
		clean(facts->info.name);
		facts->have_link = true;
		return 0;
	case PR_LEDGER_PORT:
		facts = find_or_make(book, entry->u.port.epoch, entry->u.port.link);
		if (facts)
			facts->speed = entry->u.port.speed;
		break;
	case PR_LEDGER_LOSS:
		facts = find_or_make(book, entry->u.loss.epoch, entry->u.loss.link);
		if (facts)
			rc = take_loss(book, facts, &entry->u.loss);
		break;
	case PR_LEDGER_DELETED:
		if (take_deleted(book, &entry->u.deleted) == 0)
			return 0;
		break;
	default:
		return 0;
	}
	return facts && rc == 0 ? 0 : pr_error_set(err, "no memory for the ledger");
}

const char *
pri_series_ledger_name(const struct pri_series_ledger *facts)
{
	if (facts->have_link && *facts->info.name)
		return facts->info.name;
	return facts->have_mark ? facts->mark.link.name : "";
}

int64_t
pri_ledger_view_stored_until(const struct pri_ledger_view *book, int64_t now)
{
	int64_t settled = PR_TIME_MAX;

	for (size_t i = 0; i < book->count; i++) {
		const struct pri_series_ledger *f = book->facts[i];

		if (!f->have_mark || f->mark.link.ended || f->mark.stopping ||
			f->mark.said_until < now - PRI_LEDGER_ALIVE_NS)
			continue;
		if (f->mark.said_until < settled)
			settled = f->mark.said_until;
	}
	return settled;
}

void
pri_ledger_view_free(struct pri_ledger_view *book)
{
	for (size_t i = 0; i < book->count; i++) {
		free(book->facts[i]->losses);
		free(book->facts[i]);
	}
	free(book->facts);
	free(book->deleted);
	*book = (struct pri_ledger_view){0};
}
