/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "merger/cli/cli.h"
#include "merger/cli/rack/status.h"

/* packrack node, capture and queries: lists of what runs, and commands to the dispatcher or a merger. */

#define COMMAND_NS (15 * PR_NS_PER_S)
/* Nodes have 5 s to acknowledge a STOP, and a full buffer takes a while to be flushed. */
#define STOP_NS (120 * PR_NS_PER_S)

struct command_args {
	struct cli_connection at;
	uint64_t seconds;
	bool json, keyvalue, yes;
};
#define PR_VALUES struct command_args

#define DISPATCHER_OPTIONS                                                                 \
	CLI_DISPATCHER_OPTION(at.endpoint, "the dispatcher"), CLI_KEY_OPTION(at.key)
#define MERGER_OPTIONS CLI_MERGER_OPTION(at.endpoint, "the merger"), CLI_KEY_OPTION(at.key)

static const struct pr_option dispatcher_options[] = {DISPATCHER_OPTIONS};
static const struct pr_option merger_options[] = {MERGER_OPTIONS};
static const struct pr_option node_list_options[] = {
	DISPATCHER_OPTIONS, CLI_FORM_OPTIONS()};
static const struct pr_option queries_list_options[] = {MERGER_OPTIONS, CLI_FORM_OPTIONS()};
static const struct pr_option identify_options[] = {
	DISPATCHER_OPTIONS, PR_OPT_UINT(seconds, "seconds", 0, "N", 0, 3600,
				    "blink for N seconds", .def = "10")};
static const struct pr_option reset_options[] = {DISPATCHER_OPTIONS,
	PR_OPT_FLAG(yes, "yes", 'y', "delete the node's packets without asking")};

static const struct cli_server *
server_of(const struct cli_command *c)
{
	return c->options == merger_options || c->options == queries_list_options
		       ? &cli_merger
		       : &cli_dispatcher;
}

/* ---- sending ---- */

/*
 * Runs a command that is not a list. Its operand, if any, is a node, a mode, or the number
 * of a query.
 */
static int
run_order(const struct cli_call *call, struct pr_error *err)
{
	const struct command_args *a = call->values;
	const char *word = call->operands[0], *verb = call->command->name;
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Envelope *reply;
	int status = CLI_OK;
	char *end;

	c.verb = (char *)verb;
	c.seconds = a->seconds;
	if (!strcmp(verb, "cancel")) {
		c.number = strtoull(word, &end, 10);
		if (*word < '0' || *word > '9' || *end)
			status = pr_error_set(err,
				"'%s' is not the number of a query: 'packrack queries "
				"list' shows them",
				word);
	} else if (call->count) {
		c.node = call->operands[0];
	}
	if (!strcmp(verb, "reset") && !a->yes &&
		!cli_confirmed(word, "This deletes all packets on node %s.", word))
		status = pr_error_set(err,
			"'reset' deletes all packets on node %s; give --yes to confirm",
			word);
	if (!strcmp(verb, "spread") && strcmp(word, "round-robin") &&
		strcmp(word, "weighted") && strcmp(word, "flow"))
		status = pr_error_set(
			err, "no mode '%s': round-robin, weighted or flow", word);
	if (status < 0)
		return CLI_USAGE;
	status = cli_ask_command(&a->at, server_of(call->command), &c,
		strcmp(verb, "stop") ? COMMAND_NS : STOP_NS, &reply, err);
	if (status != CLI_OK && status != CLI_PARTIAL)
		return status;
	if (reply->command_done->text[0])
		printf("%s%s\n", status == CLI_PARTIAL ? "capture stopped, but " : "",
			reply->command_done->text);
	pr_message_free(&reply);
	return status;
}

/* ---- lists ---- */

static void
print_nodes(const Packrack__Status *s)
{
	printf("%-4s %-16s %-18s %-12s %14s %14s\n", "no.", "node", "MAC", "state",
		"frames sent", "stored");
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *n = s->dispatcher_nodes[i];

		printf("%-4u %-16s %-18s %-12s %14" PRIu64 " %14" PRIu64 "\n", n->number,
			n->name, n->mac, n->state,
			status_value(n->values, n->n_values, "sent_frames"),
			status_value(n->values, n->n_values, "stored_packets"));
	}
}

static void
print_queries(const Packrack__Status *s)
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

/* node list, queries list */
static int
run_list(const struct cli_call *call, struct pr_error *err)
{
	const struct command_args *a = call->values;
	const struct cli_server *server = server_of(call->command);
	Packrack__Envelope *reply;
	int status = cli_ask_status(&a->at, server, &reply, err);

	if (status != CLI_OK)
		return status;
	const Packrack__Status *s = reply->status;
	struct render *r = cli_render(a->json, a->keyvalue, NULL);
	if (r) {
		if (server == &cli_merger)
			render_messages(r, "queries", s->queries, s->n_queries);
		else
			render_messages(
				r, "nodes", s->dispatcher_nodes, s->n_dispatcher_nodes);
		status = render_end(&r) < 0 ? CLI_FAILED : CLI_OK;
	} else if (server == &cli_merger) {
		print_queries(s);
	} else {
		print_nodes(s);
	}
	pr_message_free(&reply);
	return status;
}

/* ---- the commands ---- */

int
cmd_node(int argc, char **argv)
{
	const struct cli_command commands[] = {
		{"list", "the nodes that the dispatcher knows",
			"Lists the nodes that the dispatcher knows.", "[options]", NULL,
			CLI_OPTIONS(node_list_options), 0, .call = run_list},
		{"identify", "blink the LED of its port",
			"Makes the LED of the node's port blink.", "NAME [options]", NULL,
			CLI_OPTIONS(identify_options), 1, .call = run_order},
		{"disconnect", "leave the rack", "Makes the node leave the rack.",
			"NAME [options]", NULL, CLI_OPTIONS(dispatcher_options), 1,
			.call = run_order},
		{"reconnect", "join the rack again", "Makes the node join the rack again.",
			"NAME [options]", NULL, CLI_OPTIONS(dispatcher_options), 1,
			.call = run_order},
		{"reset", "delete all its packets", "Deletes all packets on the node.",
			"NAME [options]", NULL, CLI_OPTIONS(reset_options), 1,
			.call = run_order},
		{"forget", "no longer report it as missing",
			"The node is gone for good: the merger no longer reports it as "
			"missing.",
			"NAME [options]", NULL, CLI_OPTIONS(merger_options), 1,
			.call = run_order},
		node_rebuild_command};

	return cli_dispatch("packrack node",
		"Lists the rack's nodes, and sends them commands.", commands,
		PR_COUNT(commands), &(struct command_args){.seconds = 10}, argc, argv);
}

static const struct cli_command capture_commands[] = {
	{"start", "capture, and send packets to the nodes",
		"Starts the dispatcher's capture.", "[options]", NULL,
		CLI_OPTIONS(dispatcher_options), 0, .call = run_order},
	{"stop", "stop, and wait until the nodes have stored all packets",
		"Stops the capture, and waits until the nodes have stored all packets.",
		"[options]", NULL, CLI_OPTIONS(dispatcher_options), 0, .call = run_order},
	{"spread", "choose how packets are distributed",
		"Changes how packets are distributed to the nodes.",
		"round-robin|weighted|flow [options]", NULL,
		CLI_OPTIONS(dispatcher_options), 1, .call = run_order}};

const struct cli_command capture_command = {"capture",
	"start and stop the dispatcher's capture, change its distribution mode",
	"Starts and stops the dispatcher's capture, and changes its distribution mode.",
	CLI_LIST(capture_commands), .values = &(struct command_args){.seconds = 10}};

static const struct cli_command queries_commands[] = {
	{"list", "list running queries, and their cost",
		"Lists the running queries of a merger, and their cost.", "[options]", NULL,
		CLI_OPTIONS(queries_list_options), 0, .call = run_list},
	{"cancel", "end a query, by its number", "Ends a query; its client gets an error.",
		"NUMBER [options]", NULL, CLI_OPTIONS(merger_options), 1,
		.call = run_order}};

const struct cli_command queries_command = {"queries",
	"list the queries that are running, and cancel one",
	"Lists and ends the running queries of a merger.", CLI_LIST(queries_commands),
	.values = &(struct command_args){.seconds = 10}};
