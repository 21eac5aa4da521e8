/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/query_args.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/query/time_terms.h"
#include "proto/base/clock.h"
#include "proto/base/tcp.h"

#define PR_VALUES struct query_args

static const char *const formats[] = {"pcapng", "pcap", "pcap-ns", NULL};

static const struct pr_option options[] = {
	QUERY_RANGE_OPTIONS(),
	PR_OPT_STRING(write, "write", 'w', "FILE",
		"write a trace; -: to standard output, tcp-listen:[ADDRESS:]PORT: to the "
		"client that connects (without -w: one line a packet)"),
	PR_OPT_ENUM(format, "format", 0, "FORMAT", formats,
		"pcapng, pcap (microseconds) or pcap-ns"),
	PR_OPT_UINT(limit, "limit", 'c', "N", 0, 0, "at most N packets (0: all)"),
	PR_OPT_FLAG(numeric, "numeric", 'n',
		"ignored, as in tcpdump -n: names are never resolved"),
	PR_OPT_FLAG(count, "count", 0, "only count the packets"),
	PR_OPT_FLAG(related, "related", 0,
		"also further fragments of matching packets, ICMP errors that quote them, "
		"and copies of them in tunnels and behind tags"),
	PR_OPT_FLAG(follow, "follow", 'f',
		"continue with new packets, from --since or from now, until interrupted or "
		"--until"),
	PR_OPT_FLAG(strays, "strays", 0,
		"also packets without a timestamp from the dispatcher"),
	PR_OPT_FLAG(explain, "explain", 0, "print what was searched and what was skipped"),
	PR_OPT_FLAG(quiet, "quiet", 'q', "print no report if the answer is complete"),
	PR_OPT_FLAG(json, "json", 0,
		"print the completeness report as JSON (packets only with -w)"),
	PR_OPT_FLAG(keyvalue, "keyvalue", 0, "print it as lines of key=value"),
	CLI_KEY_OPTION(merger.key),
};

static const char footer[] =
	"FILTER is a filter as tcpdump takes it (pcap-filter(7)); it may have terms after "
	"TIME "
	"and before\nTIME. Packets are in the order of capture. The completeness report on "
	"standard error shows\nwhich packets are missing, and why.\n\n"
	"  packrack query --since \"10m ago\" host 192.0.2.7 and tcp port 443\n"
	"  packrack query after 3h ago and before 2h ago and icmp\n"
	"  packrack query -w - udp port 53 | wireshark -k -i -\n"
	"  packrack query --follow -w tcp-listen:57012 port 53, and wireshark -k -i "
	"TCP@127.0.0.1:57012\n"
	"  packrack export -w all.pcapng --volume trace.vol";

static const struct pr_cmdline query_program = {.name = "packrack query",
	.summary = "Shows or saves the packets that a filter and a time range choose.",
	.usage = "[options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

static const struct pr_cmdline export_program = {.name = "packrack export",
	.summary =
		"Saves the packets that a filter and a time range choose, by default all.",
	.usage = "-w FILE [options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

static const struct pr_cmdline data_export_program = {.name = "packrack data export",
	.summary =
		"Saves the packets of one node or volume, and then counts them there once "
		"more.",
	.usage = "--node NAME -w FILE [options] [FILTER...]",
	PR_OPTIONS(options),
	.footer = footer};

static const struct pr_cmdline *const programs[] = {[QUERY_COMMAND] = &query_program,
	[EXPORT_COMMAND] = &export_program,
	[DATA_EXPORT_COMMAND] = &data_export_program};

static char *
join(int count, char **words)
{
	size_t len = 1;
	char *text;

	for (int i = 0; i < count; i++)
		len += strlen(words[i]) + 1;
	text = calloc(1, len);
	for (int i = 0; text && i < count; i++) {
		if (i)
			strcat(text, " ");
		strcat(text, words[i]);
	}
	return text;
}

int
query_args_take(struct query_args *a, int count, char **words, struct pr_error *err)
{
	char *said = join(count, words);
	bool loopback;

	if (!said)
		return pr_error_set(err, "no memory for the filter");
	a->filter = time_terms_take(said, pr_now_real(), &a->since, &a->until, err);
	free(said);
	if (!a->filter)
		return -1;
	if (a->write && !strncmp(a->write, "tcp-listen:", 11) &&
		pr_tcp_check(a->write + 11, &loopback, err) < 0)
		return -1;
	if (a->follow && a->since == PR_TIME_MIN)
		a->since = pr_now_real();
	if (a->since > a->until)
		return pr_error_set(err, "--since is later than --until");
	if (a->volumes.count && a->merger.endpoint)
		return pr_error_set(err, "--volume and --merger do not go together");
	if (a->volumes.count && a->follow)
		return pr_error_set(
			err, "--follow needs a merger: use -m in place of --volume");
	if (a->follow && a->related)
		return pr_error_set(err, "--follow and --related do not go together");
	if (a->follow && a->explain)
		return pr_error_set(err, "--follow and --explain do not go together");
	if (a->volumes.count && a->nodes.count)
		return pr_error_set(err, "--volume and --node do not go together");
	if (a->json && a->keyvalue)
		return pr_error_set(err, "--json and --keyvalue do not go together");
	return 0;
}

static int
check(const struct query_args *a, enum query_command command, struct pr_error *err)
{
	if (command == DATA_EXPORT_COMMAND && !a->nodes.count && !a->volumes.count)
		return pr_error_set(
			err, "no node given: use --node NAME or --volume VOLUME");
	if (command != QUERY_COMMAND && !a->write)
		return pr_error_set(
			err, "no file given: use -w FILE, or -w - for standard output");
	if (a->related && !a->filter[0])
		return pr_error_set(err, "--related needs a FILTER");
	if (a->related && a->limit)
		return pr_error_set(err, "--related and --limit do not go together");
	if (a->write && a->count)
		return pr_error_set(err, "--count and --write do not go together");
	return 0;
}

int
query_args_parse(struct query_args *a, enum query_command command, int argc, char **argv)
{
	const struct pr_cmdline *program = programs[command];
	struct pr_error err = {""};
	int operand, status;

	*a = (struct query_args){
		.since = PR_TIME_MIN, .until = PR_TIME_MAX, .program = program->name};
	status = cli_parse(program, a, argc, argv, &operand);
	if (status >= 0)
		return status;
	if (query_args_take(a, argc - operand, argv + operand, &err) < 0 ||
		check(a, command, &err) < 0)
		return cli_fail(program->name, CLI_USAGE, &err);
	/* a count comes after: what is captured meanwhile is not in question */
	a->verify = command == DATA_EXPORT_COMMAND && !a->follow && !a->limit &&
		    !a->strays && !a->related;
	if (a->verify && a->until == PR_TIME_MAX && !a->volumes.count)
		a->until = pr_now_real();
	return -1;
}

void
query_args_free(struct query_args *a)
{
	free(a->filter);
	pr_options_free(&query_program, a);
}

enum render_form
query_form(const struct query_args *a)
{
	return a->json ? RENDER_JSON : a->keyvalue ? RENDER_KEYVALUE : RENDER_TEXT;
}
