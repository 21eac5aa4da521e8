/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "logger/delete.h"
#include "merger/cli/cli.h"
#include "merger/cli/progress.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"

#define FENCES 320
#define STEP_NS (70 * PR_NS_PER_S) /* the merger gives up first, and says so */

static const struct pr_option options[] = {
	DATA_WHERE_OPTIONS,
	PR_OPT_FLAG(yes, "yes", 0, "delete without asking"),
};

static const struct pr_cmdline program = {.name = "packrack data delete",
	.summary = "Deletes a node's packets for good: all, or those of a time.",
	.usage = "--node NAME|--volume PATH [--since TIME] [--until TIME] [--yes]",
	PR_OPTIONS(options),
	.footer = "What is deleted is written over. A batch of packets (segment) that "
		  "reaches beyond "
		  "the\ntimes stays whole; how many packets that are is said. Broken off, "
		  "it goes on when "
		  "given\nagain. Exit status: 0 done, 1 "
		  "failed, 2 bad usage."};

const char *
data_user(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw ? pw->pw_name : "somebody";
}

/* ---- before ---- */

static int
check_all(const struct data_args *a, const struct data_stock *stock, struct pr_error *err)
{
	for (size_t i = 0; i < data_stock_count(stock); i++) {
		const Packrack__NodeStatus *n = data_stock_node(stock, i);

		if (!a->volumes.count && !n->connected)
			return pr_error_set(err,
				"node %s is silent: when its indexer is back, try again",
				n->name);
	}
	return 0;
}

static void
tell(const struct data_args *a, const Packrack__NodeStatus *n)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	for (size_t i = 0; i < n->n_streams; i++) {
		const Packrack__StreamHeld *s = n->streams[i];

		if (!s->packet_stream || !s->packets || s->first_time > a->until ||
			s->last_time < a->since)
			continue;
		fprintf(stderr, "%s %s: %" PRIu64 " packets of %s to %s, and from ",
			n->name, s->name, s->packets,
			pr_time_format(s->first_time, from, sizeof(from)),
			pr_time_format(s->last_time, to, sizeof(to)));
		fprintf(stderr, "%s to %s they go\n",
			a->since <= s->first_time
				? "the first"
				: pr_time_format(a->since, from, sizeof(from)),
			a->until >= s->last_time
				? "the last"
				: pr_time_format(a->until, to, sizeof(to)));
	}
}

/* The name typed again. */
static bool
confirmed(const char *name)
{
	char line[300];

	fprintf(stderr, "This cannot be undone. Type %s to delete: ", name);
	if (!fgets(line, sizeof(line), stdin))
		return false;
	line[strcspn(line, "\n")] = 0;
	return !strcmp(line, name);
}

static int
confirm(const struct data_args *a, const struct data_stock *stock, struct pr_error *err)
{
	if (a->yes)
		return 0;
	if (!isatty(STDIN_FILENO))
		return pr_error_set(err, "this deletes packets for good: say --yes");
	for (size_t i = 0; i < data_stock_count(stock); i++) {
		const Packrack__NodeStatus *n = data_stock_node(stock, i);

		tell(a, n);
		if (!confirmed(n->name))
			return pr_error_set(err, "not deleted");
	}
	return 0;
}

/* ---- doing it ---- */

static void
show_step(struct data_deletion *d, const struct prl_deleted *step)
{
	d->sum.segments += step->segments;
	d->sum.bytes += step->bytes;
	if (progress_due(&d->progress))
		progress_show(&d->progress,
			"%s: %" PRIu64 " segments, %" PRIu64 " bytes deleted", d->name,
			d->sum.segments, d->sum.bytes);
}

static int
delete_volume(struct data_deletion *d, struct pr_error *err)
{
	struct prl_deleted step = {.more = true};
	struct volume_writer w = {0};
	struct volume_paths paths;
	int rc = volume_paths_parse(d->name, &paths, err);

	if (rc == 0)
		rc = volume_writer_open(&w, &paths, false, err);
	volume_paths_free(&paths);
	while (rc == 0 && step.more) {
		rc = prl_delete_step(w.sfs, w.append, &d->order, &step, err);
		d->order.step++;
		show_step(d, &step);
	}
	volume_writer_close(&w);
	return rc;
}

static int
delete_node(struct data_deletion *d, struct pr_error *err)
{
	const char *endpoint = data_merger(d->args, err);
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Fence fences[FENCES], *pointers[FENCES];
	struct prl_deleted step = {.more = true};
	struct pr_rpc_keys room;
	Packrack__Envelope *reply;

	c.verb = (char *)"delete";
	c.node = (char *)d->name;
	c.since = d->order.since == PR_TIME_MIN ? 0 : d->order.since;
	c.until = d->order.until;
	c.at = d->order.at;
	c.user = (char *)d->order.by;
	if (d->order.moved_to)
		c.moved_to = (char *)d->order.moved_to;
	for (size_t i = 0; i < d->order.fence_count && i < FENCES; i++) {
		packrack__fence__init(&fences[i]);
		fences[i].stream = (char *)d->order.fences[i].stream;
		fences[i].last_segment = d->order.fences[i].last;
		pointers[i] = &fences[i];
		c.n_fences = i + 1;
	}
	c.fences = pointers;
	while (endpoint && step.more) {
		if (cli_ask_command(endpoint, cli_keys(&d->args->merger, &room), &c,
			    STEP_NS, &reply, err) < 0)
			return pr_error_prefix(err, "%s", d->name);
		c.number++;
		step.segments = reply->command_done->segments;
		step.bytes = reply->command_done->bytes;
		step.more = reply->command_done->more;
		show_step(d, &step);
		pr_message_free(&reply);
	}
	return endpoint ? 0 : -1;
}

/* Of the time, when all is done: segments that reach beyond it. 0 where all goes, which more may follow. */
static int
count_left(struct data_deletion *d, struct pr_error *err)
{
	char *name[] = {(char *)d->name};
	const struct pr_string_list one = {.items = name, .count = 1};
	struct query_args q = {.merger = d->args->merger,
		.since = d->order.since,
		.until = d->order.until < d->order.at ? d->order.until : d->order.at,
		.filter = (char *)"",
		.program = program.name};

	if (d->order.since == PR_TIME_MIN && d->order.until == PR_TIME_MAX)
		return 0;
	*(d->volume ? &q.volumes : &q.nodes) = one;
	return data_ask_count(&q, &d->left, err);
}

static void
print_deletion(const struct data_deletion *d)
{
	printf("%s: %" PRIu64 " segments, %" PRIu64 " bytes deleted\n", d->name,
		d->sum.segments, d->sum.bytes);
	if (d->left)
		printf("  %" PRIu64 " packets of that time stay: they share a segment with "
		       "others, of other times\n",
			d->left);
}

int
data_delete_run(struct data_deletion *d, struct pr_error *err)
{
	int rc;

	progress_begin(&d->progress);
	rc = d->volume ? delete_volume(d, err) : delete_node(d, err);
	progress_end(&d->progress);
	return rc;
}

static void
render_deletion(struct render *r, const struct data_deletion *d)
{
	render_object(r, NULL);
	render_string(r, "name", d->name);
	render_uint(r, "segments", d->sum.segments);
	render_uint(r, "bytes", d->sum.bytes);
	render_uint(r, "packets_left", d->left);
	render_close(r);
}

static int
delete_all(const struct data_args *a, const struct data_stock *stock, struct render *r,
	struct pr_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < data_stock_count(stock); i++) {
		struct data_deletion d = {.args = a,
			.name = data_stock_node(stock, i)->name,
			.volume = a->volumes.count > 0,
			.order = {.since = a->since,
				.until = a->until,
				.at = pr_now_real(),
				.by = data_user()}};

		rc = data_delete_run(&d, err);
		if (rc == 0)
			rc = count_left(&d, err);
		if (r)
			render_deletion(r, &d);
		else
			print_deletion(&d);
	}
	return rc;
}

static int
run(const struct data_args *a, const struct data_stock *stock)
{
	struct render *r = NULL;
	struct pr_error err = {""};
	int rc;

	if (check_all(a, stock, &err) < 0 || confirm(a, stock, &err) < 0)
		return cli_fail(program.name, CLI_USAGE, &err);
	if (a->json || a->keyvalue)
		r = render_begin(stdout, a->json ? RENDER_JSON : RENDER_KEYVALUE);
	if (r)
		render_list(r, "deleted");
	rc = delete_all(a, stock, r, &err);
	if (r && render_end(&r) < 0 && rc == 0)
		rc = pr_error_set(&err, "cannot write the report");
	return rc == 0 ? CLI_OK : cli_fail(program.name, CLI_FAILED, &err);
}

int
data_delete(int argc, char **argv)
{
	struct data_args a;
	struct data_stock *stock = NULL;
	struct pr_error err;
	int status = data_parse(&program, &a, argc, argv);

	if (status < 0 && !a.nodes.count && !a.volumes.count) {
		pr_error_set(&err, "whose? --node NAME, as packrack data list names them, "
				   "or --volume PATH");
		status = cli_fail(program.name, CLI_USAGE, &err);
	}
	if (status < 0) {
		stock = data_stock_get(&a, &err);
		status = stock ? run(&a, stock) : cli_fail(program.name, CLI_FAILED, &err);
	}
	data_stock_free(&stock);
	pr_options_free(&program, &a);
	return status;
}
