/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"

/*
 * The console is a separate program, so that other commands do not load curses. Returns
 * only if it cannot be started.
 */
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
		"show or save the packets that a filter and a time range select"},
	{"export", cmd_query, "save them to a trace file"},
	{"rate", cmd_rate,
		"show how busy the links were, or when they were busier than a rate"},
	{"top", cmd_top, "show which hosts, ports, flows ... had most of the traffic"},
	{"status", cmd_status, "show what the rack is doing, and what it lost"},
	{"console", cmd_console, "show the rack live on a terminal, and operate it"},
	{"import", cmd_import, "store trace files in a volume"},
	{"volume", cmd_volume, "create, show, check volumes"},
	{"data", cmd_data, "list, export, move, delete packets of a node"},
	{"queries", cmd_queries, "list the queries that are running, and cancel one"},
	{"node", cmd_node,
		"list nodes, and make one identify itself, leave, rejoin, reset"},
	{"capture", cmd_capture,
		"start and stop the dispatcher's capture, change its distribution mode"},
	{"keys", cmd_keys, "make keys, and set who may do what"},
	{"setup", cmd_setup,
		"find what makes this machine lose packets, and what to change"},
	{"sizing", cmd_sizing,
		"compute how long disks keep packets, or how many disks it takes"},
	{"compare", cmd_compare, "compare two trace files, or hash one"},
	{"replay", cmd_replay,
		"send packets onto an interface, at the recorded or another pace"},
	{"extcap", cmd_extcap, "serve as an interface of Wireshark"},
};

int
main(int argc, char **argv)
{
	/* Wireshark calls us by the name of the link in its extcap folder */
	if (!strcmp(program_invocation_short_name, "packrack-extcap"))
		return cmd_extcap(argc, argv);
	return cli_dispatch("packrack",
		"Queries the packets that a rack recorded, and manages the rack.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}
