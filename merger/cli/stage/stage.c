/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/stage/stage.h"
#include "merger/cli/stage/live.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

#include "indexer/stages/stage_run.h"

/* Stages over an answer: the packets of a query go through them, and come out as a trace, as lines, or as a report. */

struct stage_args {
	struct query_args query;
	struct pr_string_list set;
	uint64_t shards, sample, behind;
	char *live;
	bool pipeline, list, json; /* not query's: it would ask for no packets */
};

#define PR_VALUES struct stage_args

static const char *const formats[] = {"pcapng", "pcap", "pcap-ns", NULL};

#define STAGE_OPTIONS                                                                      \
	QUERY_RANGE_OPTIONS(query.),                                                       \
		PR_OPT_UINT(shards, "shards", 'j', "N", 1, PRI_STAGE_SHARDS,               \
			"work in so many threads", .def = "1"),                            \
		PR_OPT_STRING(query.write, "write", 'w', "FILE",                           \
			"write the packets that come out to a trace; -: to standard "      \
			"output"),                                                         \
		PR_OPT_ENUM(query.format, "format", 0, "FORMAT", formats,                  \
			"pcapng, pcap (microseconds) or pcap-ns"),                         \
		PR_OPT_UINT(query.limit, "limit", 'c', "N", 0, 0,                          \
			"take at most N packets (0: all)"),                                \
		PR_OPT_FLAG(query.follow, "follow", 'f',                                   \
			"continue with new packets, from --since or from now, until "      \
			"interrupted or --until"),                                         \
		PR_OPT_FLAG(query.memory_only, "memory-only", 0,                           \
			"from the nodes' memory, or not at all: read no disk"),            \
		PR_OPT_FLAG(json, "json", 0, "print the reports as JSON"),                 \
		PR_OPT_FLAG(query.quiet, "quiet", 'q',                                     \
			"print no report if the answer is complete"),                      \
		CLI_KEY_OPTION(query.merger.key)

static const struct pr_option options[] = {
	PR_OPT_FLAG(list, "list", 0, "show the stages and their options"),
	PR_OPT_LIST(set, "option", 'o', "KEY=VALUE",
		"an option of a stage; STAGE.KEY=VALUE if several have it"),
	PR_OPT_STRING(live, "live", 0, "VOLUME",
		"packets as a logger on this machine stores them in VOLUME, from now until "
		"interrupted, in place of an answer"),
	PR_OPT_UINT(behind, "behind", 0, "N", 1, 0,
		"with --live: segments of a stream that may wait before they are passed "
		"over",
		.def = "128"),
	PR_OPT_FLAG(pipeline, "pipeline", 0,
		"a thread for each stage, instead of all stages in each thread"),
	PR_OPT_UINT(sample, "sample", 0, "N", 1, 1000000,
		"take one in N packets; of stages that keep connections, one in N "
		"connections"),
	STAGE_OPTIONS};

static const char footer[] =
	"STAGE is one of --list, or several with commas between, or the path of a shared "
	"object of your\n"
	"own. FILTER and times choose the packets; `-` in place of FILTER reads a trace "
	"from standard\n"
	"input.\n\n"
	"  packrack stage count --since \"10m ago\"\n"
	"  packrack stage anonymize -o key=lab.key --since \"1h ago\" -w out.pcapng tcp "
	"port 443\n"
	"  packrack query -w - udp | packrack stage flows -j 2 -\n"
	"  packrack stage detect -o rules=local.rules --follow > alerts.json\n"
	"  packrack stage http,count -r trace.pcap";

/* ---- the report as text ---- */

static bool
is_leaf(json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) if (json_is_object(value)) return false;
	return true;
}

static void
print_value(FILE *to, json_t *value)
{
	if (json_is_string(value))
		fprintf(to, "%s", json_string_value(value));
	else if (json_is_real(value))
		fprintf(to, "%.1f", json_real_value(value));
	else
		fprintf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
}

static void
print_report(FILE *to, json_t *object, int depth)
{
	const char *key, *name, *comma = "";
	json_t *value, *field;

	json_object_foreach(object, key, value)
	{
		fprintf(to, "%*s%-*s ", 2 * depth, "", 24 - 2 * depth, key);
		if (!json_is_object(value)) {
			print_value(to, value);
		} else if (depth && is_leaf(value)) {
			comma = "";
			json_object_foreach(value, name, field)
			{
				fprintf(to, "%s%s ", comma, name);
				print_value(to, field);
				comma = ", ";
			}
		}
		fputc('\n', to);
		if (json_is_object(value) && !(depth && is_leaf(value)))
			print_report(to, value, depth + 1);
	}
}

/* ---- packets in and out ---- */

struct answer {
	struct sink sink;
	struct pri_stage_run *run;
	FILE *lines; /* of stages; reports are apart from them */
	bool json, prints; /* lines, on standard output: reports are not there */
	bool closed; /* nobody reads standard output any more */
};

static int
on_packet(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct answer *a = arg;

	return pr_link_is_beyond(p->link) ? 0 : pri_stage_packet(a->run, p, err);
}

static int
on_pause(void *arg, struct pr_error *err)
{
	struct answer *a = arg;

	return pri_stage_pause(a->run, err);
}

static int
give(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct answer *a = arg;

	return sink_write(&a->sink, p, err);
}

static int
print(void *arg, const char *line, struct pr_error *err)
{
	struct answer *a = arg;

	if (fputs(line, a->lines) != EOF &&
		(!a->sink.args->follow || fflush(a->lines) == 0))
		return 0;
	a->closed = errno == EPIPE;
	return pr_error_errno(err, "cannot write");
}

/* The trace on standard output has no room for a report. */
static int
print_reports(struct answer *a, struct pr_error *err)
{
	const struct query_args *q = a->sink.args;
	char *text = pri_stage_finish(a->run, err);
	json_t *all = text ? json_loads(text, 0, NULL) : NULL;
	bool shown = !(q->write && a->sink.to_stdout) && !q->quiet;
	int rc = text ? 0 : -1;
	struct render *r;

	if (text && shown && a->json) {
		r = render_begin(stdout, RENDER_JSON);
		render_json(r, "stages", text);
		if (a->sink.end->completeness)
			report_render(r, &a->sink);
		if (render_end(&r) < 0)
			rc = pr_error_set(err, "cannot write the report");
	} else if (all && shown) {
		print_report(a->prints ? stderr : stdout, all, 0);
	}
	json_decref(all);
	free(text);
	return rc;
}

/* Its reports are all there is: nothing is known of what a node does not have. */
static int
run_live(struct answer *a, const struct stage_args *args, struct pr_error *err)
{
	struct live_figures f = {.behind = args->behind};

	if (a->sink.through && sink_open(&a->sink, NULL, 0, err) < 0)
		return CLI_FAILED;
	if (pri_stage_any(a->run, PACKRACK_STAGE_CONNECTIONS))
		fprintf(stderr, "packrack: whole connections are on this node only with "
				"the dispatcher's "
				"--spread flow; a rack's answer has them in any case\n");
	if (live_run(args->live, a->sink.args, a->run, &f, err) < 0)
		return CLI_FAILED;
	a->sink.end = calloc(1, sizeof(*a->sink.end));
	if (!a->sink.end)
		return pr_error_set(err, "no memory for a report");
	packrack__end__init(a->sink.end);
	fprintf(stderr,
		"%" PRIu64 " packets of %" PRIu64 " segments; %" PRIu64
		" skipped, as the stage fell behind\n",
		f.packets, f.segments, f.skipped);
	return CLI_OK;
}

static int
run_stages(const char *names, const struct stage_args *args, bool lines,
	struct pri_stage_options *o, struct pr_error *err)
{
	struct answer a = {.json = args->json, .prints = lines};
	const struct query_args *q = &args->query;
	int status;

	sink_init(&a.sink, q);
	a.sink.take = on_packet;
	a.sink.pause = q->follow ? on_pause : NULL; /* it waits for the shards */
	a.sink.take_arg = &a;
	a.sink.through = q->write || lines;
	a.lines = q->write && !strcmp(q->write, "-") ? stderr : stdout;
	o->give = a.sink.through ? give : NULL;
	o->print = print;
	o->arg = &a; /* cppcheck-suppress autoVariables; the run ends here */
	a.run = pri_stage_start(names, o, err);
	if (!a.run)
		return CLI_USAGE;
	a.sink.bare = pri_stage_any(a.run, PACKRACK_STAGE_BARE);
	a.prints |= pri_stage_any(a.run, PACKRACK_STAGE_PRINTS);
	if (args->live)
		status = run_live(&a, args, err);
	else
		status = ask_query(&a.sink, err);
	if (status == CLI_OK && print_reports(&a, err) < 0)
		status = CLI_FAILED;
	if (status == CLI_OK && sink_finish(&a.sink, err) < 0)
		status = sink_failure(&a.sink);
	if (status == CLI_OK && (fflush(stdout) != 0 || ferror(stdout))) {
		a.closed = errno == EPIPE;
		status = pr_error_set(err, "cannot write");
	}
	if (status == CLI_OK) {
		if (!args->live && !(q->quiet && report_status(&a.sink) == CLI_OK) &&
			!a.json)
			report_text(stderr, &a.sink);
		status = args->live ? CLI_OK : report_status(&a.sink);
	}
	pri_stage_end(&a.run);
	sink_close(&a.sink);
	return status == ASK_CLOSED || (status < 0 && a.closed) ? CLI_OK : status;
}

/* ---- the commands ---- */

static int
list_stages(void)
{
	for (size_t i = 0; pri_stages[i]; i++) {
		printf("%-12s %s\n", pri_stages[i]->name, pri_stages[i]->summary);
		for (const char *const *o = pri_stages[i]->options; o && *o; o++)
			printf("    -o %s\n", *o);
	}
	return CLI_OK;
}

/* Words behind the first are a filter; `-`: standard input. */
static int
take_words(struct query_args *q, int count, char **words, struct pr_error *err)
{
	if (count && !strcmp(words[0], "-")) {
		if (pr_string_list_add(&q->files, "-", 1, err) < 0)
			return -1;
		count--;
		words++;
	}
	return query_args_take(q, count, words, err);
}

/* --live has no answer to choose from. */
static int
check_live(const struct stage_args *a, struct pr_error *err)
{
	const struct query_args *q = &a->query;

	return CLI_CHECK(err,
		{a->live && (q->merger.endpoint || q->volumes.count || q->files.count ||
				    q->nodes.count || q->link || q->follow ||
				    q->memory_only || q->since != PR_TIME_MIN ||
				    q->until != PR_TIME_MAX),
			"--live takes all links of one volume, from now on: leave out -m, "
			"--volume, -r, --since, --until, --link, --node, --follow and "
			"--memory-only"});
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct stage_args *a = call->values;
	struct pri_stage_options o = {.set = a->set,
		.shards = (unsigned)a->shards,
		.sample = (uint32_t)a->sample,
		.pipeline = a->pipeline};
	int status = CLI_USAGE;

	signal(SIGPIPE, SIG_IGN);
	if (a->list)
		return list_stages();
	if (!call->count)
		return pr_error_as(CLI_USAGE, err,
			"no stage given: `packrack stage --list` shows them");
	if (take_words(&a->query, call->count - 1, call->operands + 1, err) == 0 &&
		check_live(a, err) == 0)
		status = run_stages(call->operands[0], a, false, &o, err);
	free(a->query.filter);
	return status;
}

const struct cli_command stage_command = {"stage",
	.summary = "Runs monitoring stages over the packets that a filter and a time range "
		   "select.",
	.usage = "STAGE[,STAGE...] [options] [FILTER... | -]", PR_OPTIONS(options),
	.footer = footer, .operands = -1, .call = run,
	.values = &(struct stage_args){.query = QUERY_ARGS}};

static const struct pr_option grep_options[] = {STAGE_OPTIONS};

static int
run_grep(const struct cli_call *call, struct pr_error *err)
{
	struct stage_args *a = call->values;
	struct pri_stage_options o = {.shards = (unsigned)a->shards};
	int status = CLI_USAGE;
	char *option = NULL;

	signal(SIGPIPE, SIG_IGN);
	if (!call->count)
		return pr_error_as(
			CLI_USAGE, err, "no pattern given: see `packrack grep --help`");
	if (asprintf(&option, "pattern=%s", call->operands[0]) < 0)
		return pr_error_set(err, "no memory for the pattern");
	if (pr_string_list_add(&o.set, option, strlen(option), err) == 0 &&
		take_words(&a->query, call->count - 1, call->operands + 1, err) == 0)
		status = run_stages("grep", a, true, &o, err);
	pr_string_list_clear(&o.set);
	free(option);
	free(a->query.filter);
	return status;
}

const struct cli_command grep_command = {"grep",
	.summary = "Shows the packets that have a text, bytes or a regular expression in "
		   "them.",
	.usage = "PATTERN [options] [FILTER... | -]", PR_OPTIONS(grep_options),
	.footer = "PATTERN is a text, bytes in hex as in '|47 45 54 20|', or a regular "
		  "expression as in\n"
		  "'/user-agent: .*curl/i' (i: upper and lower case are alike). It is "
		  "looked for in all bytes of a\n"
		  "packet. FILTER and times narrow what is read.\n\n"
		  "  packrack grep 'Host: example.org' --since \"1h ago\" tcp port 80\n"
		  "  packrack grep '/evil[0-9]+\\.exe/i' -r trace.pcap -w found.pcapng",
	.operands = -1, .call = run_grep,
	.values = &(struct stage_args){.query = QUERY_ARGS}};
