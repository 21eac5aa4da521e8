/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "merger/cli/cli.h"

/* packrack node, capture and queries: lists of what runs, and commands to the dispatcher or a merger. */

#define COMMAND_NS (15 * PR_NS_PER_S)
/* Nodes have 5 s to acknowledge a STOP, and a full buffer takes a while to be flushed. */
#define STOP_NS (120 * PR_NS_PER_S)

struct command_args {
	struct cli_connection at;
	char *merger; /* of class commands: or NULL, then the dispatcher */
	uint64_t seconds;
	int64_t lasts;
	char *reason;
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
#define CLASS_OPTIONS                                                                      \
	DISPATCHER_OPTIONS, PR_OPT_STRING(merger, "merger", 'm', "ENDPOINT",               \
				    "through this merger, not at a dispatcher")
static const struct pr_option class_list_options[] = {CLASS_OPTIONS, CLI_FORM_OPTIONS()};
static const struct pr_option queries_list_options[] = {MERGER_OPTIONS, CLI_FORM_OPTIONS()};
static const struct pr_option identify_options[] = {
	DISPATCHER_OPTIONS, PR_OPT_UINT(seconds, "seconds", 0, "N", 0, 3600,
				    "blink for N seconds", .def = "10")};
static const struct pr_option class_options[] = {CLASS_OPTIONS,
	PR_OPT_STRING(reason, "reason", 0, "TEXT", "why, for the log and `class list`")};
static const struct pr_option steer_options[] = {CLASS_OPTIONS,
	PR_OPT_DURATION(lasts, "for", 0, "DURATION", PR_NS_PER_S,
		366 * UINT64_C(86400) * PR_NS_PER_S, "how long it holds", .def = "10m"),
	PR_OPT_STRING(reason, "reason", 0, "TEXT", "why, for the log and `class list`")};
static const struct pr_option reset_options[] = {DISPATCHER_OPTIONS,
	PR_OPT_FLAG(yes, "yes", 'y', "delete the node's packets without asking")};

/* *at: where it is, as the options say. */
static const struct cli_server *
server_of(const struct cli_command *c, const struct command_args *a,
	struct cli_connection *at)
{
	*at = a->at;
	if (a->merger) {
		at->endpoint = a->merger;
		return &cli_merger;
	}
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
	struct cli_connection at;
	const struct cli_server *server = server_of(call->command, a, &at);
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
	status = cli_ask_command(
		&at, server, &c, strcmp(verb, "stop") ? COMMAND_NS : STOP_NS, &reply, err);
	if (status != CLI_OK && status != CLI_PARTIAL)
		return status;
	if (reply->command_done->text[0])
		printf("%s%s\n", status == CLI_PARTIAL ? "capture stopped, but " : "",
			reply->command_done->text);
	pr_message_free(&reply);
	return status;
}

static int
join(const struct cli_call *call, int first, const char *between, char *text, size_t room,
	struct pr_error *err)
{
	size_t len = 0;

	*text = 0;
	for (int i = first; i < call->count && len < room; i++)
		len += (size_t)snprintf(text + len, room - len, "%s%s", len ? between : "",
			call->operands[i]);
	return len < room
		       ? 0
		       : pr_error_set(err, "'%.40s...' is too long", call->operands[first]);
}

/*
 * suspend, resume, move, unmove: the operands are words about a connection or an address. add, set, remove: the name of a class,
 * and its keys.
 */
static int
run_steer(const struct cli_call *call, struct pr_error *err)
{
	const struct command_args *a = call->values;
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	const char *verb = call->command->name;
	bool class = call->command->options == class_options;
	struct cli_connection at;
	const struct cli_server *server = server_of(call->command, a, &at);
	char what[PR_MESSAGE_NAME_MAX + 1], text[4096], class_verb[32];
	Packrack__Envelope *reply;

	if (class && call->count < 1)
		return pr_error_as(CLI_USAGE, err, "a class has a name: NAME KEY=VALUE...");
	if (class ? join(call, 1, "; ", text, sizeof(text), err) < 0
		  : join(call, 0, " ", what, sizeof(what), err) < 0)
		return CLI_USAGE;
	PR_PRINT(class_verb, "class-%s", verb);
	c.verb = class ? class_verb : (char *)verb;
	c.node = class ? call->operands[0] : what;
	c.text = class ? text : c.text;
	c.seconds = (uint32_t)(a->lasts / PR_NS_PER_S);
	c.reason = a->reason ? a->reason : (char *)protobuf_c_empty_string;
	int status = cli_ask_command(&at, server, &c, COMMAND_NS, &reply, err);
	if (status == CLI_OK)
		pr_message_free(&reply);
	return status;
}

/* ---- lists ---- */

static void
print_class(const char *text)
{
	for (; *text; text++)
		fputs(*text == '\n' ? "; " : (char[]){*text, 0}, stdout);
}

static void
to_front(void *items, size_t *count, size_t i)
{
	void **list = items, *item = list[i];

	list[i] = list[*count];
	list[(*count)++] = item;
}

/* Brings what is about a class to the front of both lists, and shortens them. */
static void
only_class(Packrack__Status *s, const char *name)
{
	size_t len = strlen(name), classes = 0, rules = 0;

	for (size_t i = 0; i < s->n_classes; i++)
		if (!strncmp(s->classes[i]->text, name, len) &&
			strchr("; \n", s->classes[i]->text[len]))
			to_front(s->classes, &classes, i);
	for (size_t i = 0; i < s->n_rules; i++)
		if (!strcmp(s->rules[i]->verb, "class") && !strcmp(s->rules[i]->what, name))
			to_front(s->rules, &rules, i);
	s->n_classes = classes;
	s->n_rules = rules;
}

static void
print_classes(const Packrack__Status *s)
{
	char until[PR_TIME_TEXT];

	for (size_t i = 0; i < s->n_classes; i++) {
		print_class(s->classes[i]->text);
		putchar('\n');
	}
	for (size_t i = 0; i < s->n_rules; i++) {
		const Packrack__SteerRule *r = s->rules[i];

		printf("%s ", r->verb);
		/* a merger has no classes of a configuration, but these */
		print_class(r->text[0] && !s->n_classes ? r->text : r->what);
		printf("%s%s, by %s%s%s\n", r->until ? ", until " : "",
			r->until ? pr_time_local(r->until, until, sizeof(until)) : "",
			r->user[0] ? r->user : "a user", r->reason[0] ? ": " : "",
			r->reason);
	}
}

static uint64_t
value_of(const Packrack__DispatcherNode *n, const char *name)
{
	for (size_t i = 0; i < n->n_values; i++)
		if (!strcmp(n->values[i]->name, name))
			return n->values[i]->number;
	return 0;
}

static void
print_nodes(const Packrack__Status *s)
{
	printf("%-4s %-16s %-18s %-12s %14s %14s\n", "no.", "node", "MAC", "state",
		"frames sent", "stored");
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++) {
		const Packrack__DispatcherNode *n = s->dispatcher_nodes[i];

		printf("%-4u %-16s %-18s %-12s %14" PRIu64 " %14" PRIu64 "\n", n->number,
			n->name, n->mac, n->state, value_of(n, "sent_frames"),
			value_of(n, "stored_packets"));
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
	struct cli_connection at;
	const struct cli_server *server = server_of(call->command, a, &at);
	Packrack__Envelope *reply;
	int status = cli_ask_status(&at, server, &reply, err);

	if (status != CLI_OK)
		return status;
	Packrack__Status *s = reply->status;
	size_t classes = s->n_classes, rules = s->n_rules;
	if (call->count) {
		only_class(s, call->operands[0]);
		if (!s->n_classes && !s->n_rules)
			status = pr_error_as(CLI_FAILED, err,
				"there is no class %s: 'class list' shows them",
				call->operands[0]);
	}
	struct render *r = status == CLI_OK ? cli_render(a->json, a->keyvalue, NULL) : NULL;
	if (r && call->command->options == class_list_options) {
		render_messages(r, "classes", s->classes, s->n_classes);
		render_messages(r, "rules", s->rules, s->n_rules);
		status = render_end(&r) < 0 ? CLI_FAILED : CLI_OK;
	} else if (r) {
		if (server == &cli_merger)
			render_messages(r, "queries", s->queries, s->n_queries);
		else
			render_messages(
				r, "nodes", s->dispatcher_nodes, s->n_dispatcher_nodes);
		status = render_end(&r) < 0 ? CLI_FAILED : CLI_OK;
	} else if (call->command->options == class_list_options) {
		print_classes(s);
	} else if (server == &cli_merger) {
		print_queries(s);
	} else {
		print_nodes(s);
	}
	s->n_classes = classes; /* to be freed */
	s->n_rules = rules;
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

static const struct cli_command class_commands[] = {
	{"list", "the classes, and what was changed for a time",
		"Lists the classes of connections, and what was changed for a time.",
		"[options]", NULL, CLI_OPTIONS(class_list_options), 0, .call = run_list},
	{"show", "one class, and what was changed of it",
		"Shows a class, and what was changed of it.", "NAME [options]", NULL,
		CLI_OPTIONS(class_list_options), 1, .call = run_list},
	{"add", "a new class, while the rack records",
		"Adds a class of connections. Its keys are those of --class, each as "
		"KEY=VALUE.",
		"NAME KEY=VALUE... [options]", NULL, CLI_OPTIONS(class_options), -1,
		.call = run_steer},
	{"set", "change keys of a class",
		"Changes keys of a class; the others stay as they are.",
		"NAME KEY=VALUE... [options]", NULL, CLI_OPTIONS(class_options), -1,
		.call = run_steer},
	{"remove", "end a class that was added, or what was set",
		"Removes a class that was added. One of the configuration is as it was "
		"configured.",
		"NAME [options]", NULL, CLI_OPTIONS(class_options), 1, .call = run_steer},
	{"suspend", "keep all of a connection, without its cutoff",
		"Keeps all packets of a connection from now on.",
		"PROTOCOL ADDRESS PORT ADDRESS PORT [options]", NULL,
		CLI_OPTIONS(steer_options), -1, .call = run_steer},
	{"resume", "end a suspension", "Ends the suspension of a connection's cutoff.",
		"PROTOCOL ADDRESS PORT ADDRESS PORT [options]", NULL,
		CLI_OPTIONS(steer_options), -1, .call = run_steer},
	{"move", "put the new connections of an address into another class",
		"Puts new connections from an address, to it, or both into a class.",
		"ADDRESS CLASS [src|dst|both] [options]", NULL, CLI_OPTIONS(steer_options),
		-1, .call = run_steer},
	{"unmove", "end a move", "Ends the move of an address.", "ADDRESS [options]", NULL,
		CLI_OPTIONS(steer_options), -1, .call = run_steer}};

const struct cli_command class_command = {"class",
	"list the classes of connections, and steer the cutoff",
	"Lists the classes of connections, and changes for a time what is kept.",
	CLI_LIST(class_commands), .values = &(struct command_args){.lasts = 0}};

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
