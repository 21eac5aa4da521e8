/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "proto/base/clock.h"

#define CANCEL_NS (15 * PR_NS_PER_S)

struct queries_args {
	struct cli_connection merger;
	bool json, keyvalue;
};

#define PR_VALUES struct queries_args

static const struct pr_option options[] = {
	CLI_MERGER_OPTION(merger.endpoint, "the merger"),
	CLI_KEY_OPTION(merger.key),
	CLI_FORM_OPTIONS(),
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static const char *
merger_of(const struct queries_args *a, struct pr_error *err)
{
	return cli_endpoint(
		a->merger.endpoint, "PACKRACK_MERGER", PR_RPC_ENDPOINT_MERGER, err);
}

static void
print_text(const Packrack__Status *s)
{
	printf("%7s %-12s %9s %7s %12s %14s  %s\n", "number", "user", "seconds", "nodes",
		"matched", "bytes", "filter");
	for (size_t i = 0; i < s->n_queries; i++) {
		const Packrack__RunningQuery *q = s->queries[i];

		printf("%7" PRIu64 " %-12s %9.1f %3u/%-3u %12" PRIu64 " %14" PRIu64
		       "  %s\n",
			q->number, q->user[0] ? q->user : "-",
			(double)(s->time - q->started) / PR_NS_PER_S,
			q->nodes - q->nodes_left, q->nodes, q->matched, q->bytes,
			q->text[0] ? q->text : "(all packets)");
	}
}

static int
print_values(const Packrack__Status *s, enum render_form form)
{
	struct render *r = render_begin(stdout, form);

	if (!r)
		return -1;
	render_messages(r, "queries", s->queries, s->n_queries);
	return render_end(&r);
}

static int
queries_list(int argc, char **argv)
{
	struct pr_cmdline p = {.name = "packrack queries list",
		.summary = "Lists the queries that a merger is at, and what they cost.",
		.usage = "[options]",
		.options = options,
		.option_count = OPTIONS};
	struct queries_args a = {0};
	struct pr_rpc_keys room;
	struct pr_error err;
	Packrack__Envelope *reply;
	const char *endpoint;
	int operand, status = cli_parse(&p, &a, argc, argv, &operand);

	if (status < 0 && !(endpoint = merger_of(&a, &err)))
		status = cli_fail(p.name, CLI_USAGE, &err);
	if (status < 0 && cli_ask_status(endpoint, cli_keys(&a.merger, &room),
				  "packrack-merger", &reply, &err) < 0)
		status = cli_fail(p.name, CLI_FAILED, &err);
	if (status < 0) {
		status = CLI_OK;
		if (!a.json && !a.keyvalue)
			print_text(reply->status);
		else if (print_values(
				 reply->status, a.json ? RENDER_JSON : RENDER_KEYVALUE) < 0)
			status = CLI_FAILED;
		pr_message_free(&reply);
	}
	pr_options_free(&p, &a);
	return status;
}

static int
cancel(const struct queries_args *a, const char *name, const char *text)
{
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;
	struct pr_rpc_keys room;
	struct pr_error err;
	const char *endpoint = merger_of(a, &err);
	char *end;

	if (!endpoint)
		return cli_fail(name, CLI_USAGE, &err);
	command.verb = (char *)"cancel";
	command.number = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end) {
		pr_error_set(&err,
			"'%s' is no number of a query: see packrack queries list", text);
		return cli_fail(name, CLI_USAGE, &err);
	}
	if (cli_ask_command(endpoint, cli_keys(&a->merger, &room), &command, CANCEL_NS,
		    &reply, &err) < 0)
		return cli_fail(name, CLI_FAILED, &err);
	printf("%s\n", reply->command_done->text);
	pr_message_free(&reply);
	return CLI_OK;
}

static int
queries_cancel(int argc, char **argv)
{
	struct pr_cmdline p = {.name = "packrack queries cancel",
		.summary = "Ends a query; its client is told so.",
		.usage = "NUMBER [options]",
		.options = options,
		.option_count = OPTIONS - 2};
	struct queries_args a = {0};
	struct pr_error err;
	int operand, status = cli_parse(&p, &a, argc, argv, &operand);

	if (status < 0 && operand + 1 != argc) {
		pr_error_set(&err, "which one? packrack queries list gives their numbers");
		status = cli_fail(p.name, CLI_USAGE, &err);
	}
	if (status < 0)
		status = cancel(&a, p.name, argv[operand]);
	pr_options_free(&p, &a);
	return status;
}

int
cmd_queries(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"list", queries_list, "those that are running, and what they cost"},
		{"cancel", queries_cancel, "end the one of this number"},
	};

	return cli_dispatch("packrack queries", "Looks after the queries of a merger.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}
