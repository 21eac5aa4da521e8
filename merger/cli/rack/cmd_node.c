/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "merger/cli/rack/status_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define COMMAND_NS (15 * PR_NS_PER_S)
/* Nodes have 5 s to acknowledge a STOP, and a full buffer takes a while to be flushed. */
#define STOP_NS (120 * PR_NS_PER_S)

struct command_args {
	struct cli_connection dispatcher;
	char *merger;
	uint64_t seconds;
	bool json, keyvalue, yes;
};

#define PR_VALUES struct command_args

static const struct pr_option options[] = {
	CLI_DISPATCHER_OPTION(dispatcher.endpoint, "the dispatcher"),
	PR_OPT_UINT(seconds, "seconds", 0, "N", 0, 3600, "identify: blink for so long",
		.def = "10"),
	PR_OPT_FLAG(yes, "yes", 0, "reset: yes, delete the node's packets"),
	CLI_MERGER_OPTION(merger, "forget: the merger"),
	PR_OPT_FLAG(json, "json", 0, "list: print JSON"),
	PR_OPT_FLAG(keyvalue, "keyvalue", 0, "list: print lines of key=value"),
	CLI_KEY_OPTION(dispatcher.key),
};

static struct pr_cmdline
program_of(const char *name, const char *summary, const char *usage)
{
	return (struct pr_cmdline){
		.name = name, .summary = summary, .usage = usage, PR_OPTIONS(options)};
}

static const char *
dispatcher_of(const struct command_args *a, struct pr_error *err)
{
	return cli_endpoint(a->dispatcher.endpoint, "PACKRACK_DISPATCHER",
		PR_RPC_ENDPOINT_DISPATCHER, err);
}

/* Sends a command and says what came of it. */
static int
command(const char *name, const struct command_args *a, const char *endpoint,
	const char *verb, const char *node, int64_t timeout, struct pr_error *err)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;
	struct pr_rpc_keys room;
	int rc;

	if (!endpoint)
		return cli_fail(name, CLI_USAGE, err);
	c.verb = (char *)verb;
	c.node = (char *)node;
	c.seconds = (uint32_t)a->seconds;
	rc = cli_ask_command(
		endpoint, cli_keys(&a->dispatcher, &room), &c, timeout, &reply, err);
	if (rc < 0)
		return cli_fail(name, CLI_FAILED, err);
	if (reply->command_done->text[0])
		printf("%s%s\n", rc ? "stopped, but " : "", reply->command_done->text);
	pr_message_free(&reply);
	return rc ? CLI_PARTIAL : CLI_OK;
}

/* "packrack node VERB NAME"; argv[0] is the verb. */
static int
node_command(int argc, char **argv)
{
	struct command_args a = {0};
	struct pr_error err = {""};
	char name[64];
	struct pr_cmdline p = program_of(name, "Tells a node something.", "NAME [options]");
	const char *verb = argv[0];
	bool forget = !strcmp(verb, "forget");
	int operand, status;

	snprintf(name, sizeof(name), "packrack node %s", verb);
	status = cli_parse(&p, &a, argc, argv, &operand);
	if (status < 0 && operand + 1 != argc)
		pr_error_set(&err, "name one node: %s NAME", name);
	else if (status < 0 && !strcmp(verb, "reset") && !a.yes)
		pr_error_set(
			&err, "this deletes the packets on %s: say --yes", argv[operand]);
	if (err.text[0])
		status = cli_fail(name, CLI_USAGE, &err);
	if (status < 0)
		status = command(name, &a,
			forget ? cli_endpoint(a.merger, "PACKRACK_MERGER",
					 PR_RPC_ENDPOINT_MERGER, &err)
			       : dispatcher_of(&a, &err),
			verb, argv[operand], COMMAND_NS, &err);
	pr_options_free(&p, &a);
	return status;
}

static void
print_nodes(const Packrack__Status *s)
{
	printf("%-4s %-16s %-18s %-12s %14s %14s\n", "no.", "node", "MAC", "state",
		"frames sent", "stored");
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *n = s->dispatcher_nodes[i];

		printf("%-4u %-16s %-18s %-12s %14" PRIu64 " %14" PRIu64 "\n", n->number,
			n->name, n->mac, n->state,
			status_value(n->values, n->n_values, "frames_sent"),
			status_value(n->values, n->n_values, "packets_stored"));
	}
}

static int
list(const struct command_args *a, struct pr_error *err)
{
	const char *endpoint = dispatcher_of(a, err);
	struct pr_rpc_keys room;
	Packrack__Envelope *reply;
	struct render *r;

	if (!endpoint)
		return cli_fail("packrack node list", CLI_USAGE, err);
	if (cli_ask_status(endpoint, cli_keys(&a->dispatcher, &room), "packrack-dispatcher",
		    &reply, err) < 0)
		return cli_fail("packrack node list", CLI_FAILED, err);
	if (!a->json && !a->keyvalue) {
		print_nodes(reply->status);
	} else {
		r = render_begin(stdout, a->json ? RENDER_JSON : RENDER_KEYVALUE);
		if (r) {
			render_messages(r, "nodes", reply->status->dispatcher_nodes,
				reply->status->n_dispatcher_nodes);
			render_end(&r);
		}
	}
	pr_message_free(&reply);
	return CLI_OK;
}

static int
node_list(int argc, char **argv)
{
	struct command_args a = {0};
	struct pr_cmdline p = program_of("packrack node list",
		"Lists the nodes that the dispatcher knows.", "[options]");
	struct pr_error err;
	int operand, status = cli_parse(&p, &a, argc, argv, &operand);

	if (status < 0)
		status = list(&a, &err);
	pr_options_free(&p, &a);
	return status;
}

int
cmd_node(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"list", node_list, "the nodes that the dispatcher knows"},
		{"identify", node_command, "blink the LED of its port"},
		{"disconnect", node_command, "leave the rack"},
		{"reconnect", node_command, "join the rack again"},
		{"reset", node_command, "delete its packets"},
		{"forget", node_command,
			"it is gone for good: answers need not name it any more"},
	};

	return cli_dispatch("packrack node", "Looks after the rack's nodes.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}

static bool
is_spread(const char *mode)
{
	return !strcmp(mode, "round-robin") || !strcmp(mode, "weighted") ||
	       !strcmp(mode, "flow");
}

/* "packrack capture start|stop|spread MODE"; argv[0] is the verb. */
static int
capture_command(int argc, char **argv)
{
	struct command_args a = {0};
	struct pr_error err;
	char name[64];
	bool stop = !strcmp(argv[0], "stop"), spread = !strcmp(argv[0], "spread");
	struct pr_cmdline p = program_of(name,
		spread ? "Changes how packets are spread over the nodes."
		       : "Starts or stops the capture.",
		spread ? "round-robin|weighted|flow [options]" : "[options]");
	int operand, status;

	snprintf(name, sizeof(name), "packrack capture %s", argv[0]);
	status = cli_parse(&p, &a, argc, argv, &operand);
	if (status < 0 &&
		(operand + spread != argc || (spread && !is_spread(argv[operand])))) {
		pr_error_set(&err,
			spread ? "name the mode: round-robin, weighted or flow"
			       : "unexpected '%s': there are only options, see --help",
			argv[operand]);
		status = cli_fail(name, CLI_USAGE, &err);
	}
	if (status < 0)
		status = command(name, &a, dispatcher_of(&a, &err), argv[0],
			spread ? argv[operand] : "", stop ? STOP_NS : COMMAND_NS, &err);
	pr_options_free(&p, &a);
	return status;
}

int
cmd_capture(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"start", capture_command, "capture, and send to the nodes"},
		{"stop", capture_command,
			"stop, and wait until all nodes have stored what they have"},
		{"spread", capture_command, "to which node a packet goes, from now on"},
	};

	return cli_dispatch("packrack capture",
		"Starts and stops the dispatcher's capture, and changes its spread.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}
