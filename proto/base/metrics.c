/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/utf8.h"

#define LABELS_MAX 1024 /* bytes of one set of labels */

struct sample {
	enum pr_metric_scope scope;
	const char *name; /* NULL: a state, which is in text */
	const char *text;
	uint64_t number;
	uint32_t labels; /* of page->labels, plus 1; 0: none */
};

struct pr_metrics_page {
	struct sample *samples;
	size_t count, room;
	char **labels;
	size_t label_count;
	bool failed;
};

struct pr_metrics_page *
pr_metrics_page_create(void)
{
	return calloc(1, sizeof(struct pr_metrics_page));
}

void
pr_metrics_page_destroy(struct pr_metrics_page **page)
{
	struct pr_metrics_page *p = *page;

	*page = NULL;
	if (!p)
		return;
	for (size_t i = 0; i < p->label_count; i++)
		free(p->labels[i]);
	free(p->labels);
	free(p->samples);
	free(p);
}

/* ---- putting in ---- */

struct text {
	char *at;
	size_t len, room;
};

static void
put(struct text *t, const char *from, size_t len)
{
	if (len > t->room - t->len)
		len = t->room - t->len;
	memcpy(t->at + t->len, from, len);
	t->len += len;
}

/* Names come from other machines: what is no UTF-8 or would end the text is replaced. */
static void
put_escaped(struct text *t, const char *s)
{
	while (*s) {
		size_t n = pr_utf8_length(s);

		if (t->len + 4 > t->room)
			return; /* never half a character */
		if (*s == '\\' || *s == '"')
			put(t, "\\", 1);
		if (n == 0 || (unsigned char)*s < ' ' || *s == 0x7f)
			put(t, "?", 1);
		else
			put(t, s, n);
		s += n ? n : 1;
	}
}

static void
put_label(struct text *t, const char *name, const char *value)
{
	if (t->len)
		put(t, ",", 1);
	put(t, name, strlen(name));
	put(t, "=\"", 2);
	t->room -= 1; /* for the quote that ends it */
	put_escaped(t, value);
	t->room += 1;
	put(t, "\"", 1);
}

void
pr_metrics_labels(
	struct pr_metrics_page *page, size_t count, const struct pr_metric_label labels[])
{
	char **grown = reallocarray(page->labels, page->label_count + 1, sizeof *grown);
	char room[LABELS_MAX];
	struct text text = {room, 0, sizeof room};

	if (!grown) {
		page->failed = true;
		return;
	}
	page->labels = grown;
	for (size_t i = 0; i < count; i++)
		put_label(&text, labels[i].name, labels[i].text);
	grown[page->label_count] = strndup(room, text.len);
	if (grown[page->label_count])
		page->label_count++;
	else
		page->failed = true;
}

static struct sample *
add(struct pr_metrics_page *p, enum pr_metric_scope scope)
{
	size_t room = p->room ? 2 * p->room : 128;
	struct sample *grown;

	if (p->count == p->room) {
		grown = reallocarray(p->samples, room, sizeof *grown);
		if (!grown) {
			p->failed = true;
			return NULL;
		}
		p->samples = grown;
		p->room = room;
	}
	p->samples[p->count] =
		(struct sample){.scope = scope, .labels = (uint32_t)p->label_count};
	return &p->samples[p->count++];
}

void
pr_metrics_value(struct pr_metrics_page *page, enum pr_metric_scope scope, const char *name,
	uint64_t number)
{
	struct sample *s = add(page, scope);

	if (!s)
		return;
	s->name = name;
	s->number = number;
}

void
pr_metrics_state(
	struct pr_metrics_page *page, enum pr_metric_scope scope, const char *state)
{
	struct sample *s = add(page, scope);

	if (s)
		s->text = state;
}

/* ---- writing out ---- */

static bool
is_state(const struct pr_metric *row)
{
	return strncmp(row->value, "state=", 6) == 0;
}

/* Is this row told by this sample? */
static bool
tells(const struct sample *s, const struct pr_metric *row)
{
	if (s->scope != row->scope)
		return false;
	return s->name ? strcmp(s->name, row->value) == 0 : is_state(row);
}

static void
put_number(FILE *to, const struct pr_metric *row, uint64_t n)
{
	switch (row->unit) {
	case PR_METRIC_ONE:
		fprintf(to, "%" PRIu64, n);
		break;
	case PR_METRIC_KIB:
		fprintf(to, "%" PRIu64, n * 1024);
		break;
	case PR_METRIC_US:
		fprintf(to, "%" PRIu64 ".%06" PRIu64, n / 1000000, n % 1000000);
		break;
	case PR_METRIC_NS:
		fprintf(to, "%" PRIu64 ".%09" PRIu64, n / 1000000000, n % 1000000000);
		break;
	case PR_METRIC_PERCENT:
		fprintf(to, "%" PRIu64 ".%02" PRIu64, n / 100, n % 100);
		break;
	case PR_METRIC_PERMILLE:
		fprintf(to, "%" PRIu64 ".%03" PRIu64, n / 1000, n % 1000);
		break;
	}
}

static void
put_sample(FILE *to, const struct pr_metrics_page *p, const struct pr_metric *row,
	const struct sample *s)
{
	const char *labels = s->labels ? p->labels[s->labels - 1] : "";

	fputs(row->name, to);
	if (*labels || *row->labels)
		fprintf(to, "{%s%s%s}", labels, *labels && *row->labels ? "," : "",
			row->labels);
	fputc(' ', to);
	if (s->name)
		put_number(to, row, s->number);
	else
		fputs(strcmp(s->text, row->value + 6) == 0 ? "1" : "0", to);
	fputc('\n', to);
}

/* A metric's lines are one group: its head, then every sample of its rows. */
static void
put_rows(FILE *to, const struct pr_metrics_page *p, const struct pr_metric *row)
{
	const struct pr_metric *end = pr_metric_table + pr_metric_count;
	const char *name = row->name;
	bool head = false;

	for (; row < end && strcmp(row->name, name) == 0; row++)
		for (size_t i = 0; i < p->count; i++) {
			if (!tells(&p->samples[i], row))
				continue;
			if (!head)
				fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, row->help,
					name,
					row->type == PR_METRIC_COUNTER ? "counter"
								       : "gauge");
			head = true;
			put_sample(to, p, row, &p->samples[i]);
		}
}

char *
pr_metrics_page_text(struct pr_metrics_page *page, size_t *len)
{
	char *text = NULL;
	FILE *to = page->failed ? NULL : open_memstream(&text, len);

	if (!to)
		return NULL;
	for (size_t i = 0; i < pr_metric_count; i++)
		if (i == 0 ||
			strcmp(pr_metric_table[i].name, pr_metric_table[i - 1].name) != 0)
			put_rows(to, page, &pr_metric_table[i]);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}
