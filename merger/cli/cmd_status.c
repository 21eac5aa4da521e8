/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/cli.h"
#include "merger/cli/client.h"
#include "merger/cli/render.h"
#include "merger/cli/status_text.h"

#include <stdio.h>
#include <string.h>

struct status_args {
	struct cli_connection merger;
	char *dispatcher;
	bool json, keyvalue;
};

#define AT(field) offsetof(struct status_args, field)

static const struct pr_option options[] = {
	{.name = "merger",
		.letter = 'm',
		.kind = PR_OPT_STRING,
		.offset = AT(merger.endpoint),
		.arg = "ENDPOINT",
		.help = "ask this merger ($PACKRACK_MERGER, or the local one)"},
	{.name = "dispatcher",
		.letter = 'd',
		.kind = PR_OPT_STRING,
		.offset = AT(dispatcher),
		.arg = "ENDPOINT",
		.help = "and this dispatcher ($PACKRACK_DISPATCHER, or the local one)"},
	{.name = "json", .kind = PR_OPT_FLAG, .offset = AT(json), .help = "print JSON"},
	{.name = "keyvalue",
		.kind = PR_OPT_FLAG,
		.offset = AT(keyvalue),
		.help = "print lines of key=value"},
	CLI_KEY_OPTIONS(struct status_args, merger),
};

static const struct pr_program program = {.name = "packrack status",
	.summary = "Shows what the rack is doing, and what it lost.",
	.usage = "[options]",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.footer = "Exit status: 0 all is well, 3 something is missing or was lost, 1 "
		  "nobody answers."};

/* ---- as data ---- */

static void
render_values(struct render *r, Packrack__Value *const *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		render_uint(r, values[i]->name, values[i]->number);
}

static void
render_link(struct render *r, const Packrack__LinkInfo *l)
{
	render_object(r, NULL);
	render_epoch(r, "epoch", l->epoch);
	render_uint(r, "link", l->link);
	render_string(r, "name", l->name);
	render_uint(r, "linktype", l->linktype);
	render_uint(r, "snaplen", l->snaplen);
	render_close(r);
}

static void
render_node(struct render *r, const Packrack__NodeStatus *n)
{
	render_object(r, NULL);
	render_string(r, "name", n->name);
	render_bool(r, "connected", n->connected);
	render_time(r, "last_seen", n->last_seen);
	render_bool(r, "writer_alive", n->writer_alive);
	render_uint(r, "packets", n->packets);
	render_uint(r, "bytes", n->bytes);
	render_uint(r, "segments", n->segments);
	if (n->packets) {
		render_time(r, "first_time", n->first_time);
		render_time(r, "last_time", n->last_time);
	}
	render_uint(r, "missing", n->missing);
	render_uint(r, "volume_bytes", n->volume_bytes);
	render_uint(r, "volume_used", n->volume_used);
	render_uint(r, "queries", n->queries);
	render_uint(r, "queries_running", n->queries_running);
	render_uint(r, "indexed_lag_bytes", n->indexed_lag_bytes);
	if (n->logger[0])
		render_json(r, "logger", n->logger);
	render_close(r);
}

static void
render_merger(struct render *r, const Packrack__Status *s)
{
	render_object(r, "merger");
	render_string(r, "version", s->version);
	render_time(r, "time", s->time);
	render_values(r, s->values, s->n_values);
	render_list(r, "links");
	for (size_t i = 0; i < s->n_links; i++)
		render_link(r, s->links[i]);
	render_close(r);
	render_list(r, "queries_now");
	for (size_t i = 0; i < s->n_queries; i++)
		render_query(r, s->queries[i]);
	render_close(r);
	render_close(r);
	render_list(r, "nodes");
	for (size_t i = 0; i < s->n_nodes; i++)
		render_node(r, s->nodes[i]);
	render_close(r);
}

static void
render_dispatcher_node(struct render *r, const Packrack__DispatcherNode *n)
{
	render_object(r, NULL);
	render_uint(r, "number", n->number);
	render_string(r, "name", n->name);
	render_string(r, "mac", n->mac);
	render_string(r, "state", n->state);
	render_time(r, "last_seen", n->last_seen);
	render_values(r, n->values, n->n_values);
	render_close(r);
}

static void
render_dispatcher_link(struct render *r, const Packrack__DispatcherLink *l)
{
	render_object(r, NULL);
	render_uint(r, "link", l->link);
	render_string(r, "name", l->name);
	render_uint(r, "last_seq", l->last_seq);
	render_bool(r, "ended", l->ended);
	render_values(r, l->values, l->n_values);
	render_close(r);
}

static void
render_dispatcher(struct render *r, const Packrack__Status *s)
{
	render_object(r, "dispatcher");
	render_string(r, "version", s->version);
	render_time(r, "time", s->time);
	render_epoch(r, "epoch", s->epoch);
	render_string(r, "state", s->state);
	render_values(r, s->values, s->n_values);
	render_list(r, "nodes");
	for (size_t i = 0; i < s->n_dispatcher_nodes; i++)
		render_dispatcher_node(r, s->dispatcher_nodes[i]);
	render_close(r);
	render_list(r, "links");
	for (size_t i = 0; i < s->n_dispatcher_links; i++)
		render_dispatcher_link(r, s->dispatcher_links[i]);
	render_close(r);
	render_close(r);
}

static int
show(const struct status_args *a, const Packrack__Status *merger,
	const Packrack__Status *dispatcher)
{
	struct render *r;

	if (!a->json && !a->keyvalue) {
		status_text(stdout, merger, dispatcher);
		return fflush(stdout) ? -1 : 0;
	}
	r = render_begin(stdout, a->json ? RENDER_JSON : RENDER_KEYVALUE);
	if (!r)
		return -1;
	if (merger)
		render_merger(r, merger);
	if (dispatcher)
		render_dispatcher(r, dispatcher);
	return render_end(&r);
}

/* ---- asking ---- */

/* One of the two: NULL when it is not there; *silent when it should be. */
static Packrack__Envelope *
ask(const struct status_args *a, const char *flag, const char *variable,
	const char *fallback, const char *name, bool *silent)
{
	struct pr_error err = {""};
	struct pr_rpc_keys room;
	Packrack__Envelope *reply = NULL;
	bool given;
	const char *endpoint = client_endpoint(flag, variable, fallback, &given, &err);

	if (endpoint && client_status(endpoint, cli_keys(&a->merger, &room), name, &reply,
				&err) < 0)
		reply = NULL;
	if (!reply && (endpoint || given)) {
		*silent = true;
		cli_fail(program.name, 0, &err);
	}
	return reply;
}

static int
run(const struct status_args *a)
{
	bool silent = false;
	Packrack__Envelope *m = ask(a, a->merger.endpoint, "PACKRACK_MERGER",
		PR_RPC_ENDPOINT_MERGER, "packrack-merger", &silent);
	Packrack__Envelope *d = ask(a, a->dispatcher, "PACKRACK_DISPATCHER",
		PR_RPC_ENDPOINT_DISPATCHER, "packrack-dispatcher", &silent);
	const Packrack__Status *merger = m ? m->status : NULL;
	const Packrack__Status *dispatcher = d ? d->status : NULL;
	int status = CLI_FAILED;

	if (!m && !d && !silent)
		fprintf(stderr,
			"%s: no merger and no dispatcher here: name them with -m and "
			"--dispatcher\n",
			program.name);
	if ((m || d) && show(a, merger, dispatcher) == 0)
		status = silent || status_is_degraded(merger, dispatcher) ? CLI_PARTIAL
									  : CLI_OK;
	if (m)
		pr_message_free(&m);
	if (d)
		pr_message_free(&d);
	return status;
}

int
cmd_status(int argc, char **argv)
{
	struct status_args a = {0};
	struct pr_error err;
	int operand, status = cli_parse(&program, &a, argc, argv, &operand);

	if (status < 0 && operand < argc) {
		pr_error_set(&err, "unexpected '%s': there are only options, see --help",
			argv[operand]);
		status = cli_fail(program.name, CLI_USAGE, &err);
	}
	if (status < 0)
		status = run(&a);
	pr_options_free(&program, &a);
	return status;
}
