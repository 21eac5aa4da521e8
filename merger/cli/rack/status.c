/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <poll.h>

#include "merger/cli/cli.h"
#include "proto/rpc/status.h"

struct status_args {
	struct cli_connection merger;
	char *dispatcher;
	bool json, keyvalue, watch;
	int64_t interval;
};

#define PR_VALUES struct status_args

/* packrack-status has their help, and the others. */
static const struct pr_option options[] = {
	PR_OPT_STRING(merger.endpoint, "merger", 'm', "ENDPOINT", ""),
	PR_OPT_STRING(dispatcher, "dispatcher", 'd', "ENDPOINT", ""),
	PR_OPT_STRING(merger.key, "key-dir", 0, "DIR", ""),
	CLI_FORM_OPTIONS(),
	PR_OPT_FLAG(watch, "watch", 'w', ""),
	PR_OPT_DURATION(interval, "interval", 'n', "SECONDS", 100 * PR_NS_PER_MS,
		86400 * (uint64_t)PR_NS_PER_S, "", .def = "1s"),
};

static const struct pr_cmdline program = {.name = "packrack status", PR_OPTIONS(options)};

/* ---- what there is ---- */

static bool
has_dropped(const Packrack__DispatcherLink *l)
{
	for (size_t i = 0; i < l->n_values; i++)
		if (!strncmp(l->values[i]->name, "dropped_", 8) && l->values[i]->number)
			return true;
	return false;
}

/* By its logger's own report (JSON). */
static bool
has_lost(const Packrack__NodeStatus *n)
{
	json_t *json = json_loads(n->logger, 0, NULL), *value;
	json_int_t number = 0;
	const char *key;

	json_object_foreach(json, key,
		value) if (!strcmp(pr_status_new_name(key), "dropped_kernel")) number =
		json_integer_value(value);
	json_decref(json);
	return number > 0 || n->missing;
}

/* True if a node is unreachable or stores nothing, or a packet was lost anywhere. */
static bool
is_degraded(const Packrack__Status *m, const Packrack__Status *d)
{
	for (size_t i = 0; m && i < m->n_nodes; i++)
		if (!m->nodes[i]->connected || has_lost(m->nodes[i]))
			return true;
	/* nodes that quit or are disconnected left by the operator's command */
	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++)
		if (!strcmp(d->dispatcher_nodes[i]->state, "gone") ||
			!strcmp(d->dispatcher_nodes[i]->state, "suspended"))
			return true;
	for (size_t i = 0; d && i < d->n_dispatcher_links; i++)
		if (has_dropped(d->dispatcher_links[i]))
			return true;
	return false;
}

static int
show(const struct status_args *a, const Packrack__Status *m, const Packrack__Status *d)
{
	struct render *r = cli_render(a->json, a->keyvalue, NULL);

	if (a->watch)
		render_on_one_line(r);
	if (m) {
		render_object(r, "merger");
		render_fields(r, &m->base);
		render_messages(r, "links", m->links, m->n_links);
		render_messages(r, "running_queries", m->queries, m->n_queries);
		render_close(r);
		render_messages(r, "nodes", m->nodes, m->n_nodes);
	}
	if (d) {
		render_object(r, "dispatcher");
		render_fields(r, &d->base);
		render_messages(r, "nodes", d->dispatcher_nodes, d->n_dispatcher_nodes);
		render_messages(r, "links", d->dispatcher_links, d->n_dispatcher_links);
		render_close(r);
	}
	return render_end(&r);
}

/* ---- asking ---- */

static int
ask_and_show(const struct status_args *a)
{
	struct pr_error no_merger, no_dispatcher;
	const struct cli_connection other = {a->dispatcher, a->merger.key};
	Packrack__Envelope *m = cli_find_status(&a->merger, &cli_merger, &no_merger);
	Packrack__Envelope *d = cli_find_status(&other, &cli_dispatcher, &no_dispatcher);
	bool silent = no_merger.text[0] || no_dispatcher.text[0];
	const Packrack__Status *merger = m ? m->status : NULL;
	const Packrack__Status *dispatcher = d ? d->status : NULL;
	int status = CLI_FAILED;

	if (no_merger.text[0])
		cli_fail(program.name, 0, &no_merger);
	if (no_dispatcher.text[0])
		cli_fail(program.name, 0, &no_dispatcher);
	if (!m && !d && !silent)
		fprintf(stderr,
			"%s: no merger and no dispatcher on this machine: use -m and "
			"--dispatcher\n",
			program.name);
	if ((m || d) && show(a, merger, dispatcher) == 0)
		status = silent || is_degraded(merger, dispatcher) ? CLI_PARTIAL : CLI_OK;
	pr_message_free(&m);
	pr_message_free(&d);
	return status;
}

static int
run(const struct cli_call *call, PR_UNUSED struct pr_error *err)
{
	const struct status_args *a = call->values;
	int status;

	while ((status = ask_and_show(a)), a->watch && !ferror(stdout)) {
		if (!a->json)
			putchar('\n');
		fflush(stdout);
		poll(NULL, 0, a->interval / PR_NS_PER_MS);
	}
	return status;
}

/* The option that the word is, in full; NULL: it is another, or has a value that a flag seldom has. */
static const struct pr_option *
option_of(const char *word)
{
	for (size_t i = 0; i < PR_COUNT(options); i++) {
		const struct pr_option *o = &options[i];
		size_t len = strlen(o->name);

		if (word[0] == '-' && o->letter && word[1] == o->letter && !word[2])
			return o;
		if (!strncmp(word, "--", 2) && !strncmp(word + 2, o->name, len) &&
			(!word[2 + len] || (o->arg && word[2 + len] == '=')))
			return o;
	}
	return NULL;
}

/* For programs and scripts, quickly: figures, and no word that needs packrack-status to say what it is. */
static bool
is_for_figures(int argc, char **argv)
{
	bool figures = false;

	for (int i = 1; i < argc; i++) {
		const struct pr_option *o = option_of(argv[i]);

		if (!o)
			return false;
		figures |= !strcmp(o->name, "json") || !strcmp(o->name, "keyvalue");
		i += o->arg && (argv[i][1] != '-' || !strchr(argv[i], '='));
	}
	return figures;
}

int
cmd_status(int argc, char **argv)
{
	struct status_args a = {0};

	if (!is_for_figures(argc, argv))
		return cli_become("packrack-status", argv);
	return cli_run(&program, &a, 0, argc, argv, run);
}
