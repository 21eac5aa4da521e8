/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command commands[] = {
	{"query", cmd_query,
		"show or save the packets that a filter and a time range choose"},
	{"export", cmd_export, "the same, into a trace file"},
	{"rate", cmd_rate, "how busy the links were, or when they were busier than a rate"},
	{"top", cmd_top, "which hosts, ports, flows ... had most of the traffic"},
	{"status", cmd_status, "what the rack is doing, and what it lost"},
	{"console", cmd_console, "the same on a terminal, as it goes on, and steer it"},
	{"import", cmd_import, "take trace files into a volume"},
	{"volume", cmd_volume, "create, show, check volumes"},
	{"data", cmd_data, "list, export, move, delete what a node holds"},
	{"queries", cmd_queries, "list the queries that are running, and cancel one"},
	{"node", cmd_node,
		"list nodes, and tell one to identify itself, leave, rejoin, reset"},
	{"capture", cmd_capture,
		"start and stop the dispatcher's capture, and change its spread"},
	{"keys", cmd_keys, "make keys, and say who may do what"},
	{"setup", cmd_setup, "what makes this machine lose packets, and what to change"},
	{"sizing", cmd_sizing, "how many days so many disks keep, and how many it takes"},
	{"compare", cmd_compare, "hold two trace files against each other, or hash one"},
	{"replay", cmd_replay, "send packets onto an interface, as they came or otherwise"},
	{"extcap", cmd_extcap, "be an interface of Wireshark"},
};

int
cli_fail(const char *name, int status, const struct pr_error *err)
{
	fprintf(stderr, "%s: %s\n", name, err->text);
	return status;
}

int
cli_parse(
	const struct pr_cmdline *program, void *values, int argc, char **argv, int *operand)
{
	struct pr_error err = {""};
	int parsed = pr_options_parse(program, values, argc, argv, operand, &err);

	if (parsed == 0)
		return -1;
	return parsed > 0 ? CLI_OK : cli_fail(program->name, CLI_USAGE, &err);
}

static char *
command_list(const struct cli_command *list, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "Commands:\n");
	for (size_t i = 0; i < count; i++)
		fprintf(f, "  %-12s %s\n", list[i].name, list[i].help);
	fprintf(f, "Each takes --help. Exit status: 0 done and complete, 1 failed, 2 bad "
		   "usage, "
		   "3 done in part.");
	fclose(f);
	return text;
}

static const struct cli_command *
find(const struct cli_command *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

int
cli_dispatch(const char *name, const char *summary, const struct cli_command *list,
	size_t count, int argc, char **argv)
{
	char *footer = command_list(list, count);
	struct pr_cmdline program = {.name = name,
		.summary = summary,
		.usage = "COMMAND ...",
		.stop_at_operand = true,
		.footer = footer};
	const struct cli_command *command;
	struct pr_error err;
	int operand, status = cli_parse(&program, NULL, argc, argv, &operand);

	if (status < 0 && operand >= argc) {
		pr_error_set(&err, "which command? '%s --help' lists them", name);
		status = cli_fail(name, CLI_USAGE, &err);
	} else if (status < 0) {
		command = find(list, count, argv[operand]);
		pr_error_set(&err, "there is no command '%s'; '%s --help' lists them",
			argv[operand], name);
		status = command ? command->run(argc - operand, argv + operand)
				 : cli_fail(name, CLI_USAGE, &err);
	}
	free(footer);
	return status;
}

/* Called by Wireshark: it takes every program in its folder for one interface, by the name of the file. */
static bool
is_extcap(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return path && !strcmp(slash ? slash + 1 : path, "packrack-extcap");
}

int
pr_cli_main(int argc, char **argv)
{
	if (is_extcap(argv[0]))
		return cmd_extcap(argc, argv);
	return cli_dispatch("packrack", "Ask the rack for packets, and look after it.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}

const char *
cli_endpoint(
	const char *flag, const char *variable, const char *fallback, struct pr_error *err)
{
	const char *from = getenv(variable);
	const char *endpoint = flag ? flag : from && from[0] ? from : fallback;

	if (pr_rpc_check_endpoint(endpoint, err) == 0)
		return endpoint;
	if (!flag && from && from[0])
		pr_error_prefix(err, "$%s", variable);
	return NULL;
}
