/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "logger/delete.h"
#include "merger/cli/cli.h"
#include "merger/cli/render.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"

#define FENCES 320
#define STEP_NS                                                                            \
	(70 * PR_NS_PER_S) /* longer than the merger's own limit, so that its error arrives */

static const struct pr_option options[] = {
	DATA_WHERE_OPTIONS,
	PR_OPT_FLAG(yes, "yes", 'y', "delete without asking"),
};

static const struct pr_cmdline program = {.name = "packrack data delete",
	.summary = "Permanently deletes packets of a node: all, or those of a time range.",
	.usage = "--node NAME|--volume VOLUME [--since TIME] [--until TIME] [--yes]",
	PR_OPTIONS(options),
	.footer =
		"Deleted packets are overwritten with zeros. A segment that reaches beyond "
		"the\n"
		"time range stays whole; the command prints how many packets of the range\n"
		"remain. After an interruption, repeat the command to "
		"finish.\n" CLI_STATUSES};

const char *
data_user(void)
{
	const struct passwd *pw = getpwuid(geteuid());

	return pw ? pw->pw_name : "unknown";
}

/* ---- before ---- */

static int
check_all(const struct data_args *a, const struct data_inventory *inv, struct pr_error *err)
{
	for (size_t i = 0; i < inv->count; i++)
		if (!a->volumes.count && !inv->nodes[i]->connected)
			return pr_error_set(err,
				"node %s is unreachable: repeat the command when its "
				"indexer runs again",
				inv->nodes[i]->name);
	return 0;
}

static void
print_plan(const struct data_args *a, const Packrack__NodeStatus *n)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	for (size_t i = 0; i < n->n_streams; i++) {
		const Packrack__StreamHeld *s = n->streams[i];
		bool all = a->since <= s->first_time && a->until >= s->last_time;

		if (!s->packet_stream || !s->packets || s->first_time > a->until ||
			s->last_time < a->since)
			continue;
		fprintf(stderr, "%s, stream %s, holds %" PRIu64 " packets from %s to %s. ",
			n->name, s->name, s->packets,
			pr_time_format(s->first_time, from, sizeof(from)),
			pr_time_format(s->last_time, to, sizeof(to)));
		if (all)
			fputs("All of them will be deleted.\n", stderr);
		else
			fprintf(stderr, "Packets from %s to %s will be deleted.\n",
				a->since <= s->first_time
					? from
					: pr_time_format(a->since, from, sizeof(from)),
				a->until >= s->last_time
					? to
					: pr_time_format(a->until, to, sizeof(to)));
	}
}

static int
confirm(const struct data_args *a, const struct data_inventory *inv, struct pr_error *err)
{
	if (a->yes)
		return 0;
	if (!isatty(STDIN_FILENO))
		return pr_error_set(
			err, "this permanently deletes packets: give --yes to confirm");
	for (size_t i = 0; i < inv->count; i++) {
		print_plan(a, inv->nodes[i]);
		if (!cli_confirmed(inv->nodes[i]->name, "This cannot be undone."))
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
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Fence fences[FENCES], *pointers[FENCES];
	struct prl_deleted step = {.more = true};
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
	while (step.more) {
		if (cli_ask_command(&d->args->merger, &cli_merger, &c, STEP_NS, &reply,
			    err) != CLI_OK)
			return pr_error_prefix(err, "%s", d->name);
		c.number++;
		step.segments = reply->command_done->segments;
		step.bytes = reply->command_done->bytes;
		step.more = reply->command_done->more;
		show_step(d, &step);
		pr_message_free(&reply);
	}
	return 0;
}

/*
 * Counts the packets of the time range that remain, because their segments reach beyond
 * it. 0 without a range, as new packets may have come.
 */
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
		printf("  %" PRIu64 " packets of the time range remain: they share a "
		       "segment with packets outside the range\n",
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
delete_all(const struct data_args *a, const struct data_inventory *inv, struct render *r,
	struct pr_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < inv->count; i++) {
		struct data_deletion d = {.args = a,
			.name = inv->nodes[i]->name,
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
run_on(const struct data_args *a, const struct data_inventory *inv, struct pr_error *err)
{
	struct render *r = NULL;
	int rc;

	if (check_all(a, inv, err) < 0 || confirm(a, inv, err) < 0)
		return CLI_USAGE;
	if (a->json || a->keyvalue) {
		r = render_begin(stdout, cli_form(a->json, a->keyvalue));
		render_list(r, "deleted");
	}
	rc = delete_all(a, inv, r, err);
	if (r && render_end(&r) < 0 && rc == 0)
		rc = pr_error_set(err, "cannot write the report");
	return rc == 0 ? CLI_OK : CLI_FAILED;
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct data_inventory inv;
	int status = CLI_FAILED;

	if (data_check(a, err) < 0)
		return CLI_USAGE;
	if (!a->nodes.count && !a->volumes.count) {
		pr_error_set(err, "no node given: use --node NAME or --volume VOLUME");
		return CLI_USAGE;
	}
	if (data_inventory_get(&inv, a, err) == 0)
		status = run_on(a, &inv, err);
	data_inventory_free(&inv);
	return status;
}

int
data_delete(int argc, char **argv)
{
	struct data_args a = DATA_ARGS;

	return cli_run(&program, &a, 0, argc, argv, run);
}
