/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/completeness.h"
#include "proto/base/array.h"
#include "proto/rpc/message.h"

#define LOOKED_AT 8 /* entries at the end of the list: some cycles of several nodes */
#define MINUTE (60 * PR_NS_PER_S)

static int
append(Packrack__Loss ***list, size_t *count, const Packrack__Loss *l)
{
	if (PR_ARRAY_GROW(*list, *count) < 0 ||
		!((*list)[*count] = pr_message_copy(&l->base)))
		return -1;
	++*count;
	return 0;
}

static void
take_out(Packrack__Loss **list, size_t *count, size_t at)
{
	packrack__loss__free_unpacked(list[at], NULL);
	memmove(&list[at], &list[at + 1], (--*count - at) * sizeof(*list));
}

static bool
same_cause(const Packrack__Loss *a, const Packrack__Loss *b)
{
	return a->epoch == b->epoch && a->link == b->link &&
	       a->among_first == b->among_first && a->among_last == b->among_last &&
	       !strcmp(a->reason, b->reason) && !strcmp(a->node, b->node);
}

static void
widen(Packrack__Loss *l, const Packrack__Loss *by)
{
	l->first_seq = PR_MIN(l->first_seq, by->first_seq);
	l->last_seq = PR_MAX(l->last_seq, by->last_seq);
	pr_time_widen(&l->first_time, &l->last_time, by->first_time, by->last_time);
	PR_ADD(l, by, count, ranges);
}

/* ---- ranges at equal distances ---- */

/* True if the ranges of both have one length, and those of `next` follow those of `l` at this step. */
static bool
follows(const Packrack__Loss *l, uint64_t step, const Packrack__Loss *next)
{
	uint64_t length = l->count / l->ranges;

	return (l->step == step || l->ranges == 1) &&
	       (next->step == step || next->ranges == 1) &&
	       length * next->ranges == next->count && length < step &&
	       next->first_seq > l->last_seq &&
	       next->first_seq - l->last_seq + length - 1 == step && same_cause(l, next);
}

/* Joins l to an entry of the list, from this one on, that it continues, or to two that it makes one. */
static bool
join(Packrack__Loss **list, size_t *count, size_t from, const Packrack__Loss *l)
{
	for (size_t i = *count; i-- > from;) {
		uint64_t step = list[i]->step ? list[i]->step : l->step;

		if (step && follows(list[i], step, l)) {
			list[i]->step = step;
			widen(list[i], l);
			return true;
		}
		step = l->first_seq - list[i]->first_seq;
		for (size_t j = i; j-- > from && follows(list[i], step, l);) {
			if (list[j]->step || !follows(list[j], step, list[i]))
				continue;
			list[j]->step = step;
			widen(list[j], list[i]);
			widen(list[j], l);
			take_out(list, count, i);
			return true;
		}
	}
	return false;
}

/* ---- classes: what does not fit into the list ---- */

/* By cause and minute; by cause alone when there are too many; and the last one is for all others. */
static int
class_add(Packrack__Completeness *out, const Packrack__Loss *l)
{
	Packrack__Loss class = *l, **all = out->missing_classes, sum;
	size_t n = out->n_missing_classes;
	bool full = n >= PRM_COMPLETENESS_CLASSES_MAX;

	class.step = class.among_first = class.among_last = 0;
	for (size_t i = n; i-- && n - i <= LOOKED_AT;) {
		sum = *all[i];
		widen(&sum, l);
		if (!same_cause(&sum, &class) ||
			(!full && pr_time_minus(sum.last_time, MINUTE) > sum.first_time))
			continue;
		*all[i] = sum;
		return 0;
	}
	if (full) {
		class.epoch = 0;
		class.link = UINT16_MAX;
		class.reason = (char *)PRM_MISSING_ONE_OF;
		class.node = (char *)"several";
	}
	if (!full || !same_cause(all[n - 1], &class))
		return append(&out->missing_classes, &out->n_missing_classes, &class);
	widen(all[n - 1], l);
	return 0;
}

int
prm_losses_add(Packrack__Completeness *out, const Packrack__Loss *l)
{
	size_t n = out->n_missing;
	bool known = l->ranges == 1 || l->step;

	out->missing_packets += l->count;
	out->missing_sums += pr_link_is_beyond(l->link) ? l->count : 0;
	out->missing_ranges += l->ranges;
	if (known &&
		join(out->missing, &out->n_missing, n > LOOKED_AT ? n - LOOKED_AT : 0, l))
		return 0;
	return known && n < PRM_COMPLETENESS_LIST_MAX
		       ? append(&out->missing, &out->n_missing, l)
		       : class_add(out, l);
}

void
prm_losses_shorten(Packrack__Completeness *out, size_t max)
{
	while (out->n_missing > max &&
		class_add(out, out->missing[out->n_missing - 1]) == 0)
		take_out(out->missing, &out->n_missing, out->n_missing - 1);
}

static int
time_compare(const void *pa, const void *pb)
{
	const Packrack__Loss *a = *(Packrack__Loss *const *)pa;
	const Packrack__Loss *b = *(Packrack__Loss *const *)pb;

	if (a->first_time != b->first_time)
		return a->first_time < b->first_time ? -1 : 1;
	return a->first_seq < b->first_seq ? -1 : a->first_seq > b->first_seq;
}

void
prm_losses_sort(Packrack__Completeness *out)
{
	PR_SORT(out->missing, out->n_missing, time_compare);
}

/* ---- gaps ---- */

/* What one entry spans, so that packets deleted between are told from those that are missing. */
#define SPAN (100 * PR_NS_PER_MS)

int
prm_gaps_add(Packrack__Loss ***gaps, size_t *count, const Packrack__Loss *gap, size_t all)
{
	Packrack__Loss **list = *gaps, *last = *count ? list[*count - 1] : NULL;
	bool pair = *count > 1 && !last->step && !list[*count - 2]->step;
	size_t from = *count - pair - (last != NULL);

	while (from < *count && gap->last_time > last->last_time &&
		pr_time_minus(gap->last_time, SPAN) > list[from]->first_time)
		from++;
	if (last && join(list, count, from, gap))
		return 0;
	if (last && gap->first_seq > last->first_seq && all >= PRM_COMPLETENESS_GAPS_MAX &&
		(all >= 2 * PRM_COMPLETENESS_GAPS_MAX ||
			pr_time_minus(gap->last_time, MINUTE) <= last->first_time)) {
		last->step = 0;
		widen(last, gap);
		return 0;
	}
	if (append(gaps, count, gap) < 0)
		return -1;
	/* the gap at the begin of a series is found last */
	last = (*gaps)[*count - 1];
	if ((*gaps)[0]->first_seq > last->first_seq) {
		memmove(*gaps + 1, *gaps, (*count - 1) * sizeof(last));
		(*gaps)[0] = last;
	}
	return 0;
}
