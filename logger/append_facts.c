/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is stored beside packets: in the ledger losses, links, boots, marks; in the directory where segments
 * lie; and the index of them.
 */
#include <stdlib.h>

#include "logger/append_state.h"
#include "proto/base/clock.h"

static void
ledger_add(struct prl_append *a, const struct pr_ledger_entry *e, int64_t min, int64_t max)
{
	struct pr_error err = {0};

	if (prl_journal_add(a->ledger, e, min, max, &err)) {
		pr_count(&a->counters.ledger_refused, 1);
		prl_append_suspend(a, &err);
	}
}

void
prl_append_loss(struct prl_append *a, const struct pr_loss *loss)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LOSS, .u.loss = *loss};

	ledger_add(a, &e, loss->first_time, loss->last_time);
}

static uint16_t
link_told(const struct pr_ledger_entry *e)
{
	return e->type == PR_LEDGER_PORT ? e->u.port.link : e->u.link.link;
}

/* Where memory lacks, a reset forgets the entry: until the next epoch the link has a number and no name. */
static void
keep_told(struct prl_append *a, const struct pr_ledger_entry *e)
{
	struct pr_ledger_entry *grown;

	for (size_t i = 0; i < a->told_count; i++) {
		if (a->told[i].type == e->type &&
			(e->type == PR_LEDGER_BOOT ||
				link_told(&a->told[i]) == link_told(e))) {
			a->told[i] = *e;
			return;
		}
	}
	grown = realloc(a->told, (a->told_count + 1) * sizeof(*grown));
	if (!grown)
		return;
	grown[a->told_count++] = *e;
	a->told = grown;
}

static void
tell(struct prl_append *a, const struct pr_ledger_entry *e)
{
	int64_t time = e->type == PR_LEDGER_BOOT ? e->u.boot.time : pr_now_real();

	ledger_add(a, e, time, time);
}

void
prl_append_link(struct prl_append *a, const struct pr_ledger_link *link)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK, .u.link = *link};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_append_port(struct prl_append *a, uint64_t epoch, const struct pr_port *port)
{
	struct pr_ledger_entry e = {
		.type = PR_LEDGER_PORT, .u.port = {epoch, port->link, port->speed}};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_append_moved_link(struct prl_append *a, const struct pr_ledger_link *link)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_LINK, .u.link = *link};

	tell(a, &e);
}

void
prl_append_boot(struct prl_append *a, const struct pr_ledger_boot *boot)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_BOOT, .u.boot = *boot};

	keep_told(a, &e);
	tell(a, &e);
}

void
prl_append_deleted(struct prl_append *a, const struct pr_ledger_deleted *deleted)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_DELETED, .u.deleted = *deleted};

	ledger_add(a, &e, deleted->at, deleted->at);
}

/* Behind the packets that it declares: who reads the ledger first then finds them all. */
static void
mark_write(void *arg, const struct pr_ledger_mark *mark)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK, .u.mark = *mark};
	struct prl_append *a = arg;

	for (size_t i = 0; i < a->out_count; i++) {
		if (a->outs[i]->link == mark->link.link && a->outs[i]->b.buf)
			prl_append_seal(a, a->outs[i]);
	}
	ledger_add(a, &e, mark->said_until, mark->said_until);
}

void
prl_append_mark(struct prl_append *a, const struct pr_ledger_mark *mark)
{
	prl_marks_note(a->marks, mark, pr_now_mono(), mark_write, a);
}

void
prl_append_marks_write(struct prl_append *a)
{
	prl_marks_write(a->marks, mark_write, a);
}

void
prl_append_tell_again(struct prl_append *a)
{
	for (size_t i = 0; i < a->told_count; i++)
		tell(a, &a->told[i]);
}

void
prl_append_directory(
	struct prl_append *a, const struct out *o, const struct sfs_handle *handle)
{
	const struct pr_segment_header *h = &o->b.header;
	struct pr_directory_entry e = {.kind = PR_DIRECTORY_SEGMENT,
		.u.segment = {
			.epoch = h->epoch,
			.first_seq = h->first_seq,
			.last_seq = o->b.last_seq,
			.min_time = h->min_time,
			.max_time = h->max_time,
			.first_otime = h->first_otime,
			.last_otime = h->last_otime,
			.count = h->count,
			.link = h->link,
			.linktype = h->linktype,
		}};
	struct pr_error err = {0};

	/* Without it an indexer reads the segment itself: no harm but work. */
	if (prl_directory_journal_add(
		    a->segments, &e, handle, h->min_time, h->max_time, &err))
		pr_count(&a->counters.ledger_refused, 1);
}

/* An index that is lost is made again: it must not suspend what it is about. */
int
prl_append_index(
	struct prl_append *a, const struct pr_index_record *index, struct pr_error *err)
{
	if (prl_indexes_check(a->indexes, index, err) < 0)
		return -1;
	if (a->suspended)
		return 1;
	if (prl_indexes_append(a->indexes, index, err) < 0)
		return 1;
	pr_count(&a->counters.index_records, 1);
	pr_count(&a->counters.index_bytes, index->len);
	return 0;
}

const char *
prl_append_suspended(const struct prl_append *a)
{
	return a->suspended ? a->why.text : NULL;
}

const struct prl_append_counters *
prl_append_counters(const struct prl_append *a)
{
	return &a->counters;
}
