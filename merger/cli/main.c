/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"

/* A program of its own, so that no other command loads curses. Returns only if it cannot be started. */
static int
cmd_console(int argc, char **argv)
{
	struct pr_error err;
	char *path = cli_program_beside("packrack-console");

	(void)argc;
	if (path)
		execv(path, argv);
	pr_error_errno(&err, "cannot start %s", path ? path : "packrack-console");
	free(path);
	return cli_fail("packrack console", CLI_FAILED, &err);
}

static const struct cli_command commands[] = {
	{"query", cmd_query,
		"show or save the packets that a filter and a time range choose"},
	{"export", cmd_export, "the same, into a trace file"},
	{"rate", cmd_rate, "how busy the links were, or when they were busier than a rate"},
	{"top", cmd_top, "which hosts, ports, flows ... had most of the traffic"},
	{"status", cmd_status, "what the rack is doing, and what it lost"},
	{"console", cmd_console, "the same on a terminal, as it goes on, and operate it"},
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

/* Called by Wireshark: it takes every program in its folder for one interface, by the name of the file. */
static bool
is_extcap(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return path && !strcmp(slash ? slash + 1 : path, "packrack-extcap");
}

int
main(int argc, char **argv)
{
	if (is_extcap(argv[0]))
		return cmd_extcap(argc, argv);
	return cli_dispatch("packrack", "Ask the rack for packets, and look after it.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}
