/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/marks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define MARKS_MAX 256

struct line {
	struct pr_ledger_mark mark;
	int64_t written; /* monotonic */
	bool pending;
};

struct prl_marks {
	struct line *lines;
	size_t count, next;
};

struct prl_marks *
prl_marks_create(struct pr_error *err)
{
	struct prl_marks *m = calloc(1, sizeof(*m));

	if (!m)
		pr_error_set(err, "no memory for the ledger");
	return m;
}

void
prl_marks_destroy(struct prl_marks **marks)
{
	if (*marks)
		free((*marks)->lines);
	free(*marks);
	*marks = NULL;
}

static struct line *
line_of(struct prl_marks *m, const struct pr_ledger_mark *mark)
{
	struct line *lines;

	for (size_t i = 0; i < m->count; i++) {
		if (m->lines[i].mark.epoch == mark->epoch &&
			m->lines[i].mark.link.link == mark->link.link)
			return &m->lines[i];
	}
	if (m->count == MARKS_MAX) { /* the oldest is of an epoch long gone */
		struct line *line = &m->lines[m->next++ % MARKS_MAX];

		*line = (struct line){.written = PR_TIME_MIN};
		return line;
	}
	lines = realloc(m->lines, (m->count + 1) * sizeof(*lines));
	if (!lines)
		return NULL;
	m->lines = lines;
	lines[m->count] = (struct line){.written = PR_TIME_MIN};
	return &lines[m->count++];
}

static bool
same(const struct pr_ledger_mark *a, const struct pr_ledger_mark *b)
{
	const struct pr_mark_link *x = &a->link, *y = &b->link;

	return a->stopping == b->stopping && x->last_seq == y->last_seq &&
	       x->last_log == y->last_log && x->ended == y->ended &&
	       x->assigned == y->assigned && x->dropped_kernel == y->dropped_kernel &&
	       x->dropped_interface == y->dropped_interface &&
	       x->dropped_ring == y->dropped_ring &&
	       x->dropped_no_node == y->dropped_no_node &&
	       x->dropped_send == y->dropped_send && x->cut == y->cut &&
	       x->undelivered_first == y->undelivered_first &&
	       x->undelivered_last == y->undelivered_last && !strcmp(x->name, y->name);
}

void
prl_marks_note(struct prl_marks *m, const struct pr_ledger_mark *mark, int64_t now,
	prl_marks_call write, void *arg)
{
	struct line *line = line_of(m, mark);

	if (!line) {
		write(arg, mark);
		return;
	}
	line->pending = line->written == PR_TIME_MIN || !same(&line->mark, mark) ||
			now - line->written >= PR_NS_PER_S;
	line->mark = *mark;
	if (line->pending) {
		write(arg, mark);
		line->written = now;
		line->pending = false;
	} else {
		line->pending = true; /* only its time is new */
	}
}

void
prl_marks_write(struct prl_marks *m, prl_marks_call write, void *arg)
{
	for (size_t i = 0; i < m->count; i++) {
		if (m->lines[i].pending)
			write(arg, &m->lines[i].mark);
		m->lines[i].pending = false;
	}
}
