/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/completeness_text.h"

#include <signal.h>

/* For people on standard error; as data on standard output, unless the trace goes there. */
static int
print_report(const struct query_args *a, const struct sink *sink,
	const struct ask_answer *answer)
{
	const Packrack__End *end = answer->end;
	FILE *to = sink->to_stdout && sink->trace ? stderr : stdout;
	struct render *r;

	if (query_form(a) == RENDER_TEXT && a->count)
		printf("%llu\n", (unsigned long long)end->matched);
	if (fflush(stdout) != 0)
		return -1;
	if ((to == stdout || query_form(a) == RENDER_TEXT) &&
		!(a->quiet && report_status(end) == CLI_OK))
		report_text(stderr, end, sink);
	if (a->explain && query_form(a) == RENDER_TEXT) {
		explain_range(stderr, a->since, a->until);
		explain_text(stderr, &answer->plans, end);
	}
	if (query_form(a) == RENDER_TEXT)
		return 0;
	r = render_begin(to, query_form(a));
	if (!r)
		return -1;
	report_render(r, end, sink);
	if (a->explain) {
		render_time(r, "since", a->since);
		render_time(r, "until", a->until);
		explain_render(r, &answer->plans);
	}
	return render_end(&r);
}

/* After the answer: close the file, say what it is worth. */
static int
conclude(const struct query_args *a, struct sink *sink, enum ask_result result,
	const struct ask_answer *answer, struct pr_error *err)
{
	const Packrack__End *end = answer->end;
	struct pr_error later;

	if (result == ASK_CLOSED)
		return CLI_OK; /* like tcpdump | head: who reads has had enough */
	if (result == ASK_USAGE)
		return cli_fail(a->program, CLI_USAGE, err);
	if (result == ASK_FAILED) {
		sink_finish(sink, NULL, &later); /* what came is worth keeping */
		return cli_fail(a->program, CLI_FAILED, err);
	}
	if (sink_finish(sink, end, err) < 0)
		return sink_closed(sink) ? CLI_OK : cli_fail(a->program, CLI_FAILED, err);
	if (print_report(a, sink, answer) < 0) {
		pr_error_set(err, "cannot write the report");
		return cli_fail(a->program, CLI_FAILED, err);
	}
	return report_status(end);
}

/* The first of two questions: what matches? -1 err, and *result says how it ended. */
static int
note_matches(const struct query_args *a, struct pr_relations *relations, bool *partial,
	enum ask_result *result, struct pr_error *err)
{
	struct query_args first = *a;
	struct ask_answer answer = {.end = NULL};
	struct sink sink;

	first.note = relations;
	first.write = NULL;
	first.explain = false;
	sink_init(&sink, &first);
	*result = ask_query(&first, &sink, &answer, err);
	if (*result == ASK_DONE && answer.end->cancelled) {
		pr_error_set(err, "interrupted");
		*result = ASK_FAILED;
	}
	*partial = *result == ASK_DONE && report_status(answer.end) != CLI_OK;
	pr_relations_finish(relations);
	sink_close(&sink);
	ask_answer_free(&answer);
	return *result == ASK_DONE ? 0 : -1;
}

static int run(const struct query_args *a);

/* Related packets of what was not all found are not all found either. */
static int
run_related(const struct query_args *a)
{
	struct query_args second = *a;
	struct pr_relations relations = {.keys = NULL};
	enum ask_result result;
	struct pr_error err = {""};
	bool partial;
	int status;

	if (note_matches(a, &relations, &partial, &result, &err) < 0) {
		status = cli_fail(
			a->program, result == ASK_USAGE ? CLI_USAGE : CLI_FAILED, &err);
	} else {
		second.related = false;
		second.noted = &relations;
		status = run(&second);
		if (status == CLI_OK && partial) {
			fputs("partial: packets related to missing packets are not known\n",
				stderr);
			status = CLI_PARTIAL;
		}
	}
	pr_relations_free(&relations);
	return status;
}

/* Asks once more, for the number alone. 0: it is what was written; -1: err. */
static int
verify(const struct query_args *a, const struct sink *written, struct pr_error *err)
{
	struct query_args again = *a;
	struct ask_answer answer = {.end = NULL};
	struct sink sink;
	int rc = -1;

	again.write = NULL;
	again.count = true;
	again.explain = false;
	sink_init(&sink, &again);
	if (ask_query(&again, &sink, &answer, err) != ASK_DONE)
		pr_error_prefix(err, "the written packets cannot be verified");
	else if (answer.end->matched != written->packets)
		pr_error_set(err,
			"verification failed: %llu packets were written, but the node "
			"counts %llu",
			(unsigned long long)written->packets,
			(unsigned long long)answer.end->matched);
	else
		rc = 0;
	sink_close(&sink);
	ask_answer_free(&answer);
	return rc;
}

static int
run(const struct query_args *a)
{
	struct sink sink;
	struct ask_answer answer = {.end = NULL};
	enum ask_result result;
	struct pr_error err = {""};
	int status;

	if (a->related)
		return run_related(a);
	sink_init(&sink, a);
	result = ask_query(a, &sink, &answer, &err);
	status = conclude(a, &sink, result, &answer, &err);
	if (a->verify && result == ASK_DONE && status != CLI_FAILED &&
		!answer.end->cancelled && verify(a, &sink, &err) < 0)
		status = cli_fail(a->program, CLI_FAILED, &err);
	sink_close(&sink);
	ask_answer_free(&answer);
	return status;
}

static int
query(enum query_command command, int argc, char **argv)
{
	struct query_args a;
	int status = query_args_parse(&a, command, argc, argv);

	signal(SIGPIPE, SIG_IGN);
	if (status < 0)
		status = run(&a);
	query_args_free(&a);
	return status;
}

int
cmd_query(int argc, char **argv)
{
	return query(QUERY_COMMAND, argc, argv);
}

int
cmd_export(int argc, char **argv)
{
	return query(EXPORT_COMMAND, argc, argv);
}

int
cmd_data_export(int argc, char **argv)
{
	return query(DATA_EXPORT_COMMAND, argc, argv);
}
