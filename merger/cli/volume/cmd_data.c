/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include "proto/base/clock.h"

int
data_parse(const struct pr_cmdline *program, struct data_args *a, int argc, char **argv)
{
	struct pr_error err = {""};
	int operand, status;

	*a = (struct data_args){.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	status = cli_parse(program, a, argc, argv, &operand);
	if (status >= 0)
		return status;
	if (operand < argc)
		pr_error_set(&err, "unexpected '%s': there are only options, see --help",
			argv[operand]);
	else if (a->since > a->until)
		pr_error_set(&err, "--since is later than --until");
	else if (a->volumes.count && (a->merger.endpoint || a->nodes.count))
		pr_error_set(&err, "--volume does not go together with --node or --merger");
	else if (a->json && a->keyvalue)
		pr_error_set(&err, "--json and --keyvalue do not go together");
	return err.text[0] ? cli_fail(program->name, CLI_USAGE, &err) : -1;
}

const char *
data_merger(const struct data_args *a, struct pr_error *err)
{
	return cli_endpoint(
		a->merger.endpoint, "PACKRACK_MERGER", PR_RPC_ENDPOINT_MERGER, err);
}

int
cmd_data(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"list", data_list, "what each node holds, from when to when"},
		{"export", cmd_data_export, "save a node's packets from where they lie"},
		{"move", data_move,
			"copy a node's oldest packets, check, then delete them"},
		{"delete", data_delete, "delete a node's oldest packets for good"},
	};

	return cli_dispatch("packrack data",
		"Looks after packets where they lie, by node and time.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}
