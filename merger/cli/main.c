/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "merger/cli/cli.h"

/* packrack-NAME: of Python, or what links libraries that other commands need not load */
static int
cmd_program(PR_UNUSED int argc, char **argv)
{
	char name[32];

	PR_PRINT(name, "packrack-%s", strcmp(argv[0], "grep") ? argv[0] : "stage");
	return cli_become(name, argv);
}

/* packrack-node has these commands, but for the rebuilding of a node. */
static int
cmd_node(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[0], "node") && !strcmp(argv[1], "rebuild"))
		return cli_run_command(
			"packrack node", &node_rebuild_command, NULL, argc - 1, argv + 1);
	return cli_become("packrack-node", argv - 1);
}

/* A command that is a program of its own */
#define PROGRAM(name, about)                                                               \
	{                                                                                  \
		name, about, .run = cmd_program                                            \
	}

int
main(int argc, char **argv)
{
	const struct cli_command commands[] = {query_command, export_command, rate_command,
		top_command,
		{"flows", "show the flows of a time range: who talked to whom, how much",
			.run = cmd_flows},
		{"sql", "answer SQL over the flows, packets and losses of a time range",
			.run = cmd_sql},
		collect_command,
		PROGRAM("stage",
			"run monitoring stages over packets: count, anonymize, detect"),
		PROGRAM("grep", "show the packets that have a text or pattern in them"),
		PROGRAM("watch",
			"run analyses all the time: of now, compared with the past"),
		PROGRAM("pivot", "write the packets of the alerts of Suricata or Zeek"),
		PROGRAM("web",
			"serve a page that shows the traffic, to this machine's browser"),
		{"status", "show what the rack is doing, and what it lost",
			.run = cmd_status},
		PROGRAM("console", "show the rack live on a terminal, and operate it"),
		import_command, volume_command,
		{"audit", "show who asked the rack for what", .run = cmd_node},
		{"data", "list, export, move, delete packets of a node", .run = cmd_data},
		{"queries", "list the queries that are running, and cancel one",
			.run = cmd_node},
		{"node", "list nodes, and make one identify itself, leave, rejoin, reset",
			.run = cmd_node},
		{"capture",
			"start and stop the dispatcher's capture, change its distribution "
			"mode",
			.run = cmd_node},
		{"class", "list the classes of connections, and steer the cutoff",
			.run = cmd_node},
		{"hold", "keep the packets of a case on the nodes until it is released",
			.run = cmd_node},
		PROGRAM("keys", "make keys, and set who may do what"),
		PROGRAM("setup",
			"find what makes this machine lose packets, and what to change"),
		PROGRAM("sizing",
			"compute how long disks keep packets, or how many disks it takes"),
		compare_command,
		PROGRAM("replay",
			"send packets onto an interface, at the recorded or another pace"),
		PROGRAM("extcap", "serve as an interface of Wireshark"),
		PROGRAM("pcap-over-ip", "serve live packets to the clients of a TCP port")};

	/* Wireshark calls us by the name of the link in its extcap folder */
	if (!strcmp(program_invocation_short_name, "packrack-extcap")) {
		argv[0] = "extcap";
		return cmd_program(argc, argv);
	}
	if (!strcmp(program_invocation_short_name, "packrack-question"))
		return cli_run_command("packrack hold", &hold_command, NULL, argc, argv);
	return cli_dispatch("packrack",
		"Queries the packets that a rack recorded, and manages the rack.", commands,
		PR_COUNT(commands), NULL, argc, argv);
}
