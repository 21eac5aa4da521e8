/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/tally_answer.h"

#include <stdio.h>

#include "merger/cli/cli.h"
#include "merger/cli/query/completeness_text.h"

/* -1: all is there; else the status to exit with. */
static int
ask_count(struct tally_answer *c, const struct query_args *a)
{
	struct pr_error err = {""};
	enum ask_result result;

	*c = (struct tally_answer){.answer = {.end = NULL}};
	sink_init(&c->sink, a);
	result = ask_query(a, &c->sink, &c->answer, &err);
	progress_end(&c->sink.progress);
	if (result == ASK_DONE && c->answer.end->cancelled) {
		pr_error_set(
			&err, "interrupted: no result, because the count is incomplete");
		result = ASK_FAILED;
	}
	if (result == ASK_DONE)
		return -1;
	return cli_fail(a->program, result == ASK_USAGE ? CLI_USAGE : CLI_FAILED, &err);
}

int
tally_answer_run(const struct query_args *a,
	void (*print)(void *arg, const struct tally_answer *c, struct render *r), void *arg)
{
	enum render_form form = query_form(a);
	struct render *r = NULL;
	struct tally_answer c;
	struct pr_error err;
	int status = ask_count(&c, a);

	if (status < 0) {
		r = form == RENDER_TEXT ? NULL : render_begin(stdout, form);
		print(arg, &c, r);
		fflush(stdout);
		report_text(stderr, c.answer.end, &c.sink);
		if (r)
			report_render(r, c.answer.end, &c.sink);
		status = report_status(c.answer.end);
		if ((r && render_end(&r) < 0) || fflush(stdout) != 0 || ferror(stdout)) {
			pr_error_set(&err, "cannot write the answer");
			status = cli_fail(a->program, CLI_FAILED, &err);
		}
	}
	sink_close(&c.sink);
	ask_answer_free(&c.answer);
	return status;
}

bool
tally_answer_partial(const struct tally_answer *c, int64_t first, int64_t last)
{
	const Packrack__Completeness *k = c->answer.end->completeness;

	if (!k || k->n_missing < k->missing_ranges)
		return true;
	for (size_t i = 0; i < k->n_nodes; i++)
		if (!k->nodes[i]->answered)
			return true;
	for (size_t i = 0; i < k->n_missing; i++)
		if (k->missing[i]->first_time <= last && k->missing[i]->last_time >= first)
			return true;
	for (size_t i = 0; i < k->n_evicted; i++)
		if (k->evicted[i]->until >= first)
			return true;
	return false;
}

const char *
tally_answer_si(double value, char *buf)
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	for (; value >= 999.5 && unit < sizeof(units) - 2; unit++)
		value /= 1000;
	if (unit == 0)
		snprintf(buf, TALLY_SI_TEXT,
			value < 99.95 && value != (double)(long)value ? "%.1f" : "%.0f",
			value);
	else
		snprintf(buf, TALLY_SI_TEXT, "%.*f%c",
			value < 9.995   ? 2
			: value < 99.95 ? 1
					: 0,
			value, units[unit]);
	return buf;
}
