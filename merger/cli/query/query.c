/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <signal.h>

#define PR_VALUES struct query_args

static const char *const formats[] = {"pcapng", "pcap", "pcap-ns", NULL};

static const struct pr_option options[] = {QUERY_RANGE_OPTIONS(),
	PR_OPT_STRING(write, "write", 'w', "FILE",
		"write a trace; -: to standard output, tcp-listen:[ADDRESS:]PORT: to the "
		"client that connects (without -w: one line a packet)"),
	PR_OPT_SIZE(rotate_bytes, "rotate-size", 'C', "SIZE", 1, 0,
		"begin a new file after this size, FILE1, FILE2 ...: millions of bytes, or "
		"with a unit (500K, 1G)",
		.unit = 1000000),
	PR_OPT_DURATION(rotate_ns, "rotate-time", 'G', "SECONDS", 0, 0,
		"begin a new file after this time of the packets; FILE has a time, as in "
		"all-%Y%m%d-%H%M%S.pcapng (strftime(3))"),
	PR_OPT_UINT(rotate_count, "rotate-count", 'W', "N", 0, 0,
		"at most N files: with -C the oldest is overwritten, with -G alone it ends "
		"there"),
	PR_OPT_ENUM(format, "format", 0, "FORMAT", formats,
		"pcapng, pcap (microseconds) or pcap-ns"),
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0, "at most N packets (0: all)"),
	PR_OPT_FLAG(numeric, "numeric", 'n',
		"ignored, as in tcpdump -n: names are never resolved"),
	PR_OPT_FLAG(count, "count", 0, "only count the packets"),
	PR_OPT_FLAG(related, "related", 0,
		"also further fragments of matching packets, ICMP errors that quote them, "
		"and copies of them in tunnels and behind tags"),
	PR_OPT_FLAG(
		tagged, "tagged", 0, "also packets that match behind one or two VLAN tags"),
	PR_OPT_FLAG(follow, "follow", 'f',
		"continue with new packets, from --since or from now, until interrupted or "
		"--until"),
	PR_OPT_FLAG(strays, "strays", 0,
		"also packets without a timestamp from the dispatcher"),
	PR_OPT_FLAG(explain, "explain", 0, "print what was searched and what was skipped"),
	PR_OPT_FLAG(estimate, "estimate", 0,
		"print what would be searched, without reading a packet"),
	PR_OPT_FLAG(memory_only, "memory-only", 0,
		"answer from the nodes' memory, or not at all: read no disk"),
	PR_OPT_FLAG(manifest, "manifest", 0,
		"also write FILE.manifest, signed by the merger: who was given which "
		"packets; packrack compare checks it"),
	PR_OPT_FLAG(quiet, "quiet", 'q', "print no report if the answer is complete"),
	PR_OPT_FLAG(json, "json", 0,
		"print the completeness report as JSON (packets only with -w)"),
	PR_OPT_FLAG(keyvalue, "keyvalue", 0, "print it as lines of key=value"),
	CLI_KEY_OPTION(merger.key)};

static const char footer[] =
	"FILTER is a filter as tcpdump takes it (pcap-filter(7)); it may have terms after "
	"TIME and before\nTIME. Packets are in the order of capture. The completeness "
	"report on standard error shows\nwhich packets are missing, and why.\n\n"
	"  packrack query --since \"10m ago\" host 192.0.2.7 and tcp port 443\n"
	"  packrack query after 3h ago and before 2h ago and icmp\n"
	"  packrack query -w - udp port 53 | wireshark -k -i -\n"
	"  packrack query --follow -w tcp-listen:57012 port 53, and wireshark -k -i "
	"TCP@127.0.0.1:57012\n"
	"  packrack export -w all.pcapng --volume trace.vol\n"
	"  packrack query -r trace.pcap.gz icmp";

/*
 * Prints the report: for people on standard error; as data on standard output, unless the
 * trace goes there.
 */
static int
print_report(const struct sink *sink)
{
	const struct query_args *a = sink->args;
	bool text = !a->json && !a->keyvalue;
	FILE *to = sink->to_stdout && sink->trace ? stderr : stdout;

	if (text && a->count && !a->estimate)
		printf("%llu\n", (unsigned long long)sink->end->matched);
	if (fflush(stdout) != 0)
		return -1;
	if ((to == stdout || text) &&
		!((a->quiet || a->estimate) && report_status(sink) == CLI_OK))
		report_text(stderr, sink);
	if (a->explain && text)
		explain_text(stderr, sink);
	if (text)
		return 0;
	struct render *r = render_begin(to, cli_form(a->json, a->keyvalue));
	if (a->estimate) {
		render_bool(r, "estimate", true);
		RENDER_UINTS(r, {"scanned_packets", sink->end->scanned_packets},
			{"scanned_bytes", sink->end->scanned_bytes},
			{"scanned_segments", sink->end->scanned_segments},
			{"skipped_segments", sink->end->skipped_segments});
	} else {
		report_render(r, sink);
	}
	if (a->explain)
		explain_render(r, sink);
	return render_end(&r);
}

static int
write_manifest(const struct sink *sink, struct pr_error *err)
{
	char path[PATH_MAX + 16];

	if (!sink->end->manifest[0])
		return pr_error_set(
			err, "the merger gave no manifest: it is of an older version");
	PR_PRINT(path, "%s.manifest", sink->path);
	FILE *f = fopen(path, "we");
	if (f && fputs(sink->end->manifest, f) != EOF && fclose(f) == 0)
		return 0;
	return pr_error_errno(err, "cannot write %s", path);
}

/* After the answer: closes the file, and prints the completeness report. */
static int
conclude(struct sink *sink, int result, struct pr_error *err)
{
	struct pr_error later;

	if (result == ASK_CLOSED)
		return CLI_OK; /* as with tcpdump | head: the reader has closed the pipe */
	if (result == CLI_FAILED)
		sink_finish(sink, &later); /* what came is worth keeping */
	if (result != CLI_OK)
		return result;
	if (sink_finish(sink, err) < 0)
		return sink_failure(sink) == ASK_CLOSED ? CLI_OK : CLI_FAILED;
	if (sink->args->manifest && write_manifest(sink, err) < 0)
		return CLI_FAILED;
	return print_report(sink) < 0 ? pr_error_set(err, "cannot write the report")
				      : report_status(sink);
}

static int answer_query(const struct query_args *a, struct pr_error *err);

/*
 * Runs two queries: first for matching packets, then for packets related to them. If the
 * first is incomplete, so is the second.
 */
static int
run_related(const struct query_args *a, struct pr_error *err)
{
	struct query_args first = *a, second = *a;
	struct pr_relations relations = {.keys = NULL};
	struct sink sink;

	first.note = &relations;
	first.write = NULL;
	first.explain = false;
	sink_init(&sink, &first);
	int status = ask_query(&sink, err);
	if (status == CLI_OK && sink.end->cancelled)
		status = pr_error_set(err, "interrupted");
	bool partial = status == CLI_OK && report_status(&sink) != CLI_OK;
	pr_relations_finish(&relations);
	sink_close(&sink);
	if (status == CLI_OK) {
		second.related = false;
		second.noted = &relations;
		status = answer_query(&second, err);
	}
	if (status == CLI_OK && partial) {
		fputs("partial: packets related to missing packets are not known\n",
			stderr);
		status = CLI_PARTIAL;
	}
	pr_relations_free(&relations);
	return status;
}

/* Counts the packets once more with a query. 0: as many as were written; -1: err. */
static int
verify(const struct sink *written, struct pr_error *err)
{
	struct query_args again = *written->args;
	struct sink sink;
	int rc = 0;

	again.write = NULL;
	again.count = true;
	again.explain = false;
	sink_init(&sink, &again);
	if (ask_query(&sink, err) != CLI_OK)
		rc = pr_error_prefix(err, "the written packets cannot be verified");
	else if (sink.end->matched != written->packets)
		rc = pr_error_set(err,
			"verification failed: %llu packets were written, but the node "
			"counts %llu",
			(unsigned long long)written->packets,
			(unsigned long long)sink.end->matched);
	sink_close(&sink);
	return rc;
}

/* An exit status, or -1 for CLI_FAILED. */
static int
answer_query(const struct query_args *a, struct pr_error *err)
{
	struct sink sink;

	if (a->related)
		return run_related(a, err);
	sink_init(&sink, a);
	int result = ask_query(&sink, err);
	int status = conclude(&sink, result, err);
	if (a->verify && result == CLI_OK && (status == CLI_OK || status == CLI_PARTIAL) &&
		!sink.end->cancelled && verify(&sink, err) < 0)
		status = CLI_FAILED;
	sink_close(&sink);
	return status;
}

int
query_args_check(struct query_args *a, const struct cli_call *call, struct pr_error *err)
{
	int (*task)(void *values, struct pr_error *err) = call->command->task;
	bool rotates = a->rotate_bytes || a->rotate_ns;
	bool file = a->write && strcmp(a->write, "-") != 0 &&
		    strncmp(a->write, "tcp-listen:", 11) != 0;

	if (query_args_take(a, call->count, call->operands, err) < 0 ||
		CLI_CHECK(err,
			{a->estimate && (task || a->write || a->limit || a->related ||
						a->files.count),
				"--estimate is of a rack's or a volume's packets, and does "
				"not go together with -w, -c and --related"},
			{a->related && !a->filter[0], "--related needs a FILTER"},
			{a->tagged && !a->filter[0], "--tagged needs a FILTER"},
			{a->related && a->limit,
				"--related and --limit do not go together"},
			{rotates && !file, "-C and -G need -w FILE"},
			{a->manifest && (rotates || a->follow || a->volumes.count ||
						a->files.count ||
						a->format == PRM_TRACE_PCAP || !file),
				"--manifest needs -w FILE, one file, pcapng or pcap-ns, "
				"and a merger to ask; it does not go together with "
				"--volume, -r, -f, -C and -G"},
			{a->rotate_count && !rotates, "-W needs -C or -G"},
			{a->rotate_ns && a->write && !strchr(a->write, '%'),
				"-G needs a time in the name that -w gives, as in -w "
				"all-%Y%m%d-%H%M%S.pcapng: each file would overwrite the "
				"one before"},
			{a->write && a->count, "--count and --write do not go together"}) <
			0)
		return -1;
	a->count |= a->estimate;
	a->explain |= a->estimate;
	return task ? task(a, err) : 0;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct query_args *a = call->values;

	signal(SIGPIPE, SIG_IGN);
	int status = query_args_check(a, call, err) == 0 ? answer_query(a, err) : CLI_USAGE;
	free(a->filter);
	return status;
}

static int
check_export(void *values, struct pr_error *err)
{
	const struct query_args *a = values;

	return CLI_CHECK(err,
		{!a->write, "no file given: use -w FILE, or -w - for standard output"});
}

static int
check_data_export(void *values, struct pr_error *err)
{
	struct query_args *a = values;

	/* packets captured in the meantime are not counted */
	a->verify = !a->follow && !a->limit && !a->strays && !a->related;
	if (a->verify && a->until == PR_TIME_MAX && !a->volumes.count)
		a->until = pr_now_real();
	if (CLI_CHECK(err, {!a->nodes.count && !a->volumes.count,
				   "no node given: use --node NAME or --volume VOLUME"}) <
		0)
		return -1;
	return check_export(a, err);
}

/* Writes a Command with the filter and its Query, which packrack-node gives all nodes. */
static int
run_question(const struct cli_call *call, struct pr_error *err)
{
	struct query_args *a = call->values;
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	Packrack__Hold hold = PACKRACK__HOLD__INIT;
	Packrack__Envelope *reply,
		env = pr_message_of(1, PACKRACK__ENVELOPE__BODY_COMMAND, &command);
	struct question q = {.text = ""};
	uint16_t *types = NULL;
	uint8_t *packed = NULL;
	size_t size;
	bool bad = query_args_take(a, call->count, call->operands, err) < 0 ||
		   question_check(a, err) < 0;
	int status = bad ? CLI_USAGE : cli_ask_status(&a->merger, &cli_merger, &reply, err);
	if (status != CLI_OK)
		return status;
	int n = ask_linktypes(reply->status->links, reply->status->n_links, &types, err);
	if (n < 0 || question_make(&q, a, types, (size_t)n, err) < 0)
		status = CLI_USAGE;
	command.hold = &hold;
	hold.text = a->filter;
	hold.query = &q.query;
	if (status == CLI_OK && (pr_message_pack(&env, &packed, &size, err) < 0 ||
					fwrite(packed, size, 1, stdout) != 1))
		status = CLI_FAILED;
	free(packed);
	free(types);
	question_free(&q);
	pr_message_free(&reply);
	return status;
}

const struct cli_command hold_command = {"add", NULL, NULL, NULL, NULL,
	CLI_OPTIONS(options), -1, run_question, .values = &(struct query_args)QUERY_ARGS};

const struct cli_command query_command = {"query",
	"show or save the packets that a filter and a time range select",
	"Shows or saves the packets that a filter and a time range select.",
	"[options] [FILTER...]", footer, CLI_OPTIONS(options), -1, run,
	.values = &(struct query_args)QUERY_ARGS};

const struct cli_command export_command = {"export", "save them to a trace file",
	"Saves the packets that a filter and a time range select, by default all.",
	"-w FILE [options] [FILTER...]", footer, CLI_OPTIONS(options), -1, run,
	.task = check_export, .values = &(struct query_args)QUERY_ARGS};

const struct cli_command data_export_command = {"export",
	"save packets of a node or volume to a file",
	"Saves the packets of one node or volume, and then counts them there once more.",
	"--node NAME -w FILE [options] [FILTER...]", footer, CLI_OPTIONS(options), -1, run,
	.task = check_data_export, .values = &(struct query_args)QUERY_ARGS};
