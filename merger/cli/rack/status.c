/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <unistd.h>

#include "merger/cli/cli.h"
#include "proto/rpc/status.h"

uint64_t
status_value(Packrack__Value *const *values, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(values[i]->name, name))
			return values[i]->number;
	return 0;
}

/* A number from the logger's own report (JSON). */
static uint64_t
logger_value(const Packrack__NodeStatus *n, const char *name)
{
	json_t *json = json_loads(n->logger, 0, NULL), *value;
	json_int_t number = 0;
	const char *key;

	json_object_foreach(json, key, value) if (!strcmp(pr_status_new_name(key), name))
		number = json_integer_value(value);
	json_decref(json);
	return number > 0 ? (uint64_t)number : 0;
}

static void
sum_link(struct status_sums *s, const Packrack__DispatcherLink *l)
{
	uint64_t late = 0,
		 beyond = status_value(l->values, l->n_values, "beyond_cutoff_packets");

	s->beyond += beyond;
	s->captured += l->last_seq + beyond;
	for (size_t i = 0; i < l->n_values; i++) {
		const char *name = l->values[i]->name;
		uint64_t number = l->values[i]->number;

		if (strncmp(name, "dropped_", 8))
			continue;
		if (!strcmp(name, "dropped_kernel") || !strcmp(name, "dropped_interface"))
			s->kernel += number;
		else
			s->dispatcher += number;
		/* packets dropped late have a seq already */
		if (!strcmp(name, "dropped_no_node") || !strcmp(name, "dropped_send"))
			late += number;
		else
			s->captured += number;
	}
	s->delivered += l->last_seq - (late < l->last_seq ? late : l->last_seq);
}

struct status_sums
status_sum(const Packrack__Status *m, const Packrack__Status *d)
{
	struct status_sums s = {0};

	for (size_t i = 0; d && i < d->n_dispatcher_links; i++)
		sum_link(&s, d->dispatcher_links[i]);
	for (size_t i = 0; m && i < m->n_nodes; i++) {
		s.node += logger_value(m->nodes[i], "dropped_kernel");
		s.missing += m->nodes[i]->missing;
	}
	return s;
}

/* Nodes that quit or are disconnected left by the operator's command. */
bool
status_takes_nothing(const char *state)
{
	return !strcmp(state, "gone") || !strcmp(state, "suspended");
}

bool
status_is_degraded(const Packrack__Status *m, const Packrack__Status *d)
{
	struct status_sums s = status_sum(m, d);

	for (size_t i = 0; m && i < m->n_nodes; i++)
		if (!m->nodes[i]->connected)
			return true;
	for (size_t i = 0; d && i < d->n_dispatcher_nodes; i++)
		if (status_takes_nothing(d->dispatcher_nodes[i]->state))
			return true;
	return s.kernel || s.dispatcher || s.node || s.missing;
}

static void
print_nodes(FILE *to, const Packrack__Status *m)
{
	fprintf(to, "%-16s %-11s %12s %14s %9s %9s  %s\n", "node", "state", "packets",
		"bytes", "missing", "full", "last seen");
	for (size_t i = 0; i < m->n_nodes; i++) {
		const Packrack__NodeStatus *n = m->nodes[i];
		double full = n->volume_bytes ? 100.0 * (double)n->volume_used /
							(double)n->volume_bytes
					      : 0;

		fprintf(to,
			"%-16s %-11s %12" PRIu64 " %14" PRIu64 " %9" PRIu64
			" %8.1f%%  %.1f s ago\n",
			n->name,
			!n->connected     ? "unreachable"
			: n->writer_alive ? "recording"
					  : "no-logger",
			n->packets, n->bytes, n->missing, full,
			(double)(m->time - n->last_seen) / PR_NS_PER_S);
	}
}

static void
print_links(FILE *to, const Packrack__Status *d)
{
	fprintf(to, "%-16s %6s %14s %12s %12s  %s\n", "link", "number", "captured",
		"dropped", "cut", "state");
	for (size_t i = 0; i < d->n_dispatcher_links; i++) {
		const Packrack__DispatcherLink *l = d->dispatcher_links[i];
		struct status_sums s = {0};

		sum_link(&s, l);
		fprintf(to, "%-16s %6u %14" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s\n",
			l->name, l->link, l->last_seq + s.beyond, s.kernel + s.dispatcher,
			status_value(l->values, l->n_values, "cut_packets"),
			l->ended ? "ended" : "open");
	}
}

void
status_text(FILE *to, const Packrack__Status *m, const Packrack__Status *d)
{
	struct status_sums s = status_sum(m, d);

	if (d) {
		fprintf(to, "dispatcher %s: %s, epoch %016" PRIx64 ", %zu node%s\n",
			d->version, d->state, d->epoch, d->n_dispatcher_nodes,
			pr_plural(d->n_dispatcher_nodes));
		print_links(to, d);
		fputc('\n', to);
	}
	if (m) {
		uint64_t queries =
			status_value(m->values, m->n_values, "running_query_count");

		fprintf(to, "merger %s: %zu node%s, %" PRIu64 " quer%s running\n",
			m->version, m->n_nodes, pr_plural(m->n_nodes), queries,
			queries == 1 ? "y" : "ies");
		print_nodes(to, m);
		fputc('\n', to);
	}
	if (d)
		fprintf(to,
			"captured              %14" PRIu64
			"\ndelivered             %14" PRIu64
			"\ndropped by kernel     %14" PRIu64
			"\ndropped by dispatcher %14" PRIu64 "\n",
			s.captured, s.delivered, s.kernel, s.dispatcher);
	if (s.beyond)
		fprintf(to, "beyond cutoff         %14" PRIu64 "\n", s.beyond);
	if (m)
		fprintf(to,
			"dropped by node       %14" PRIu64
			"\nmissing at nodes      %14" PRIu64 "\n",
			s.node, s.missing);
}

struct status_args {
	struct cli_connection merger;
	char *dispatcher;
	bool json, keyvalue, check, watch;
	int64_t interval;
	bool checked; /* the exit status is that of a check */
	char *loss, *silent, *full, *kept, *last;
	struct check_limits limits;
};

#define PR_VALUES struct status_args

static const struct pr_option options[] = {
	CLI_MERGER_OPTION(merger.endpoint, "ask this merger"),
	CLI_DISPATCHER_OPTION(dispatcher, "and this dispatcher"),
	CLI_FORM_OPTIONS(),
	PR_OPT_FLAG(watch, "watch", 'w',
		"show it again and again, until interrupted; with --json a line each time"),
	PR_OPT_DURATION(interval, "interval", 'n', "SECONDS", 100 * PR_NS_PER_MS,
		86400 * (uint64_t)PR_NS_PER_S, "with --watch: how often", .def = "1s"),
	PR_OPT_FLAG(check, "check", 0,
		"print one line and exit as Nagios' plugins do: 0 OK, 1 warning, 2 "
		"critical, 3 unknown"),
	PR_OPT_STRING(loss, "loss", 0, "PERCENT[,PERCENT]",
		"with --check: limits for loss: warning, critical", .def_note = "0,1"),
	PR_OPT_STRING(silent, "max-unreachable", 0, "N[,N]",
		"with --check: limits for nodes that are unreachable or cannot write",
		.def_note = "0,1", .aliases = {"silent"}),
	PR_OPT_STRING(full, "full-within", 0, "DURATION[,DURATION]",
		"with --check: warn if a volume will be full within this time"),
	PR_OPT_STRING(kept, "retention", 0, "DURATION[,DURATION]",
		"with --check: warn if packets younger than this are overwritten",
		.aliases = {"kept"}),
	PR_OPT_STRING(last, "state-file", 0, "FILE",
		"with --check: count loss since the previous check, stored in FILE",
		.aliases = {"last"}),
	CLI_KEY_OPTION(merger.key),
};

static const struct pr_cmdline program = {.name = "packrack status",
	.summary = "Shows what the rack is doing, and what it lost.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "Exit status: 0 all is well, 3 something is missing or was lost, 1 no "
		  "answer, 2 bad usage; with --check as given there."};

static int
show(const struct status_args *a, const Packrack__Status *m, const Packrack__Status *d)
{
	struct render *r = cli_render(a->json, a->keyvalue, NULL);

	if (!r) {
		status_text(stdout, m, d);
		return render_end(&r);
	}
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

/*
 * Loss since the previous check, if its counts are known. The counts of this check are
 * stored for the next.
 */
static int
check(const struct status_args *a, const Packrack__Status *merger,
	const Packrack__Status *dispatcher, const char *silent)
{
	struct check_counts before, now;
	struct pr_error err;
	int known = a->last ? check_counts_load(a->last, &before, &err) : 1;
	int status = status_check(stdout, &a->limits, merger, dispatcher, silent,
		known == 0 ? &before : NULL);

	if (a->last && dispatcher && known >= 0) {
		check_counts_take(&now, dispatcher);
		known = check_counts_store(a->last, &now, &err);
	}
	if (known < 0)
		cli_fail(program.name, 0, &err);
	return fflush(stdout) || (known < 0 && status == CHECK_OK) ? CHECK_UNKNOWN : status;
}

static int
parse_limits(struct status_args *a, struct pr_error *err)
{
	struct check_limits *l = &a->limits;

	l->loss.critical = l->silent.critical = 1;
	if (CLI_CHECK(err,
		    {!a->check && (a->loss || a->silent || a->full || a->kept || a->last),
			    "--loss, --max-unreachable, --full-within, --retention and "
			    "--state-file need --check"},
		    {a->check && (a->json || a->keyvalue),
			    "--check does not go together with --json or --keyvalue"},
		    {a->check && a->watch, "--check and --watch do not go together"}) < 0 ||
		check_limit_parse(&l->loss, "loss", a->loss, err) < 0 ||
		check_limit_parse(&l->silent, "max-unreachable", a->silent, err) < 0 ||
		check_limit_parse(&l->full, "full-within", a->full, err) < 0 ||
		check_limit_parse(&l->kept, "retention", a->kept, err) < 0)
		return -1;
	return 0;
}

/* On a terminal a screen each time, below the time; else one after the other. */
static void
begin_screen(const struct status_args *a)
{
	bool text = !a->json && !a->keyvalue;
	char time[PR_TIME_TEXT];

	if (text && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	if (text)
		printf("%s\n\n", pr_time_local(pr_now_real(), time, sizeof(time)));
	fflush(stdout);
}

static int
ask_and_show(struct status_args *a)
{
	struct pr_error no_merger, no_dispatcher;
	const struct cli_connection other = {a->dispatcher, a->merger.key};
	Packrack__Envelope *m = cli_find_status(&a->merger, &cli_merger, &no_merger);
	Packrack__Envelope *d = cli_find_status(&other, &cli_dispatcher, &no_dispatcher);
	bool silent = no_merger.text[0] || no_dispatcher.text[0];
	int status = CLI_FAILED;
	const Packrack__Status *merger = m ? m->status : NULL;
	const Packrack__Status *dispatcher = d ? d->status : NULL;

	if (a->watch)
		begin_screen(a);
	if (no_merger.text[0])
		cli_fail(program.name, 0, &no_merger);
	if (no_dispatcher.text[0])
		cli_fail(program.name, 0, &no_dispatcher);
	a->checked = a->check;
	if (a->check)
		status = check(a, merger, dispatcher,
			!silent ? NULL
			: m     ? "the dispatcher"
			: d     ? "the merger"
				: "the rack");
	else if (!m && !d && !silent)
		fprintf(stderr,
			"%s: no merger and no dispatcher on this machine: use -m and "
			"--dispatcher\n",
			program.name);
	if (!a->check && (m || d) && show(a, merger, dispatcher) == 0)
		status = silent || status_is_degraded(merger, dispatcher) ? CLI_PARTIAL
									  : CLI_OK;
	pr_message_free(&m);
	pr_message_free(&d);
	return status;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct status_args *a = call->values;
	int status;

	if (parse_limits(a, err) < 0)
		return CLI_USAGE;
	while ((status = ask_and_show(a)), a->watch && !ferror(stdout)) {
		if (!a->json)
			putchar('\n');
		poll(NULL, 0, a->interval / PR_NS_PER_MS);
	}
	return status;
}

int
cmd_status(int argc, char **argv)
{
	struct status_args a = {0};
	bool is_check = false;

	for (int i = 1; i < argc; i++)
		is_check |= !strcmp(argv[i], "--check");
	int status = cli_run(&program, &a, 0, argc, argv, run);
	/* 2 would be CRITICAL to a monitoring system */
	return is_check && !a.checked && status == CLI_USAGE ? CHECK_UNKNOWN : status;
}
