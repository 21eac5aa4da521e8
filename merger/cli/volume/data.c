/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/hello.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"

int
data_check(const struct data_args *a, struct pr_error *err)
{
	if (a->since > a->until)
		return pr_error_set(err, "--since is later than --until");
	if (a->volumes.count && (a->merger.endpoint || a->nodes.count))
		return pr_error_set(
			err, "--volume does not go together with --node or --merger");
	if (a->json && a->keyvalue)
		return pr_error_set(err, "--json and --keyvalue do not go together");
	return 0;
}

/* ---- what nodes and volumes hold ---- */

/* A volume reports what its indexer would report. */
struct data_volume {
	struct pri_volume *volume;
	struct pri_hello *hello;
};

static int
open_volume(struct data_volume *v, const char *path, struct pr_error *err)
{
	struct pri_hello_input input = {.name = path};
	struct volume_paths paths;

	if (volume_paths_parse(path, &paths, err) == 0)
		v->volume =
			pri_volume_open(paths.path, paths.count, PRI_VOLUME_CACHED, err);
	volume_paths_free(&paths);
	if (!v->volume || pri_volume_refresh(v->volume, true, INT64_MAX, err) < 0)
		return -1;
	v->hello = pri_hello_create(v->volume, &input, err);
	return v->hello ? 0 : -1;
}

static int
from_volumes(struct data_inventory *inv, const struct pr_string_list *paths,
	struct pr_error *err)
{
	const Packrack__Hello *hello;

	inv->volumes = calloc(paths->count, sizeof(*inv->volumes));
	inv->nodes = calloc(paths->count, sizeof(*inv->nodes));
	if (!inv->volumes || !inv->nodes)
		return pr_error_set(err, "no memory for %zu volumes", paths->count);
	for (size_t i = 0; i < paths->count; i++) {
		inv->volume_count++;
		if (open_volume(&inv->volumes[i], paths->items[i], err) < 0)
			return -1;
		inv->nodes[inv->count++] = &inv->volumes[i].hello->status;
	}
	hello = &inv->volumes[0].hello->message;
	inv->links = hello->links;
	inv->link_count = hello->n_links;
	return 0;
}

static const Packrack__NodeStatus *
find(const Packrack__Status *status, const char *name)
{
	for (size_t i = 0; i < status->n_nodes; i++)
		if (!strcmp(status->nodes[i]->name, name))
			return status->nodes[i];
	return NULL;
}

static int
from_merger(struct data_inventory *inv, const struct data_args *a, struct pr_error *err)
{
	const Packrack__Status *status;
	size_t count;

	if (cli_ask_status(&a->merger, &cli_merger, &inv->reply, err) != CLI_OK)
		return -1;
	status = inv->reply->status;
	inv->links = status->links;
	inv->link_count = status->n_links;
	count = a->nodes.count ? a->nodes.count : status->n_nodes;
	inv->nodes = calloc(count + 1, sizeof(*inv->nodes));
	if (!inv->nodes)
		return pr_error_set(err, "no memory for %zu nodes", count);
	for (size_t i = 0; i < count; i++) {
		inv->nodes[i] =
			a->nodes.count ? find(status, a->nodes.items[i]) : status->nodes[i];
		if (!inv->nodes[i])
			return pr_error_set(err,
				"the merger knows no node %s: 'packrack data list' shows "
				"the nodes",
				a->nodes.items[i]);
		inv->count++;
	}
	return 0;
}

int
data_inventory_get(
	struct data_inventory *inv, const struct data_args *a, struct pr_error *err)
{
	*inv = (struct data_inventory){0};
	return a->volumes.count ? from_volumes(inv, &a->volumes, err)
				: from_merger(inv, a, err);
}

void
data_inventory_free(struct data_inventory *inv)
{
	for (size_t i = 0; i < inv->volume_count; i++) {
		pri_hello_destroy(&inv->volumes[i].hello);
		pri_volume_close(&inv->volumes[i].volume);
	}
	if (inv->reply)
		pr_message_free(&inv->reply);
	free(inv->volumes);
	free(inv->nodes);
	*inv = (struct data_inventory){0};
}

bool
data_times(const Packrack__NodeStatus *node, int64_t *oldest, int64_t *newest)
{
	bool any = false;

	for (size_t i = 0; i < node->n_streams; i++) {
		const Packrack__StreamHeld *s = node->streams[i];

		if (!s->packet_stream || !s->packets)
			continue;
		if (!any || s->first_time < *oldest)
			*oldest = s->first_time;
		if (!any || s->last_time > *newest)
			*newest = s->last_time;
		any = true;
	}
	return any;
}

/* ---- list ---- */

static const struct pr_option list_options[] = {DATA_WHERE_OPTIONS};

static const struct pr_cmdline list_program = {.name = "packrack data list",
	.summary = "Lists what each node holds, stream by stream, and what was deleted.",
	.usage = "[options]",
	PR_OPTIONS(list_options),
	.footer = "With --since and --until: only streams that have packets of that time."};

/* True if the stream has packets in the time range, or no range was given. */
static bool
wanted(const struct data_args *a, const Packrack__StreamHeld *s)
{
	if (a->since == PR_TIME_MIN && a->until == PR_TIME_MAX)
		return true;
	return s->packet_stream && s->packets && s->last_time >= a->since &&
	       s->first_time <= a->until;
}

static int
render_all(const struct data_args *a, const struct data_inventory *inv)
{
	struct render *r = render_begin(stdout, cli_form(a->json, a->keyvalue));

	render_list(r, "nodes");
	for (size_t i = 0; i < inv->count; i++) {
		const Packrack__NodeStatus *n = inv->nodes[i];

		render_object(r, NULL);
		render_string(r, "node", n->name);
		if (!a->volumes.count) {
			render_bool(r, "connected", n->connected);
			render_time(r, "last_seen", n->last_seen);
		}
		render_list(r, "streams");
		for (size_t j = 0; j < n->n_streams; j++)
			if (wanted(a, n->streams[j]))
				render_message(r, NULL, &n->streams[j]->base);
		render_close(r);
		render_close(r);
	}
	render_close(r);
	return render_end(&r);
}

static void
print_deleted(const Packrack__Deleted *d)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	if (d->since)
		printf("    %s to", pr_time_format(d->since, from, sizeof(from)));
	else
		printf("    up to");
	printf(" %s %s%s by %s at %s: %" PRIu64 " segments, %" PRIu64 " bytes\n",
		pr_time_format(d->until, to, sizeof(to)),
		d->moved_to[0] ? "moved to " : "deleted", d->moved_to, d->by,
		pr_time_format(d->at, from, sizeof(from)), d->segments, d->bytes);
}

static void
print_stream(const Packrack__StreamHeld *s)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	printf("  %-12s %-12s %12" PRIu64 " %9" PRIu64 " %14" PRIu64 " %8" PRIu64
	       " %14" PRIu64 "  ",
		s->name, s->link_name, s->packets, s->segments, s->bytes, s->blocks,
		s->guarantee);
	if (s->packet_stream && s->packets)
		printf("%s to %s", pr_time_format(s->first_time, from, sizeof(from)),
			pr_time_format(s->last_time, to, sizeof(to)));
	else
		printf("%s", s->packet_stream ? "nothing" : "-");
	putchar('\n');
	if (s->packet_stream && s->evicted_segments)
		printf("    overwritten up to %s\n",
			pr_time_format(s->evicted_until, to, sizeof(to)));
	for (size_t i = 0; i < s->n_deleted; i++)
		print_deleted(s->deleted[i]);
}

static void
print_all(const struct data_args *a, const struct data_inventory *inv)
{
	for (size_t i = 0; i < inv->count; i++) {
		const Packrack__NodeStatus *n = inv->nodes[i];

		printf("%s%s\n", n->name,
			a->volumes.count || n->connected ? ""
							 : " (unreachable: last values)");
		printf("  %-12s %-12s %12s %9s %14s %8s %14s  %s\n", "stream", "link",
			"packets", "segments", "bytes", "blocks", "guarantee", "times");
		for (size_t j = 0; j < n->n_streams; j++)
			if (wanted(a, n->streams[j]))
				print_stream(n->streams[j]);
	}
}

static int
run_list(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct data_inventory inv;
	int status = CLI_OK;

	if (data_check(a, err) < 0)
		return CLI_USAGE;
	if (data_inventory_get(&inv, a, err) < 0)
		status = CLI_FAILED;
	else if (a->json || a->keyvalue)
		status = render_all(a, &inv) < 0 ? CLI_FAILED : CLI_OK;
	else
		print_all(a, &inv);
	data_inventory_free(&inv);
	return status;
}

static int
data_list(int argc, char **argv)
{
	struct data_args a = DATA_ARGS;

	return cli_run(&list_program, &a, 0, argc, argv, run_list);
}

int
cmd_data(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"list", data_list, "what each node holds, from when to when"},
		{"export", cmd_data_export, "save packets of a node or volume to a file"},
		{"move", data_move,
			"move packets of a node (all, or a time range) to another place, "
			"verifying the copy first"},
		{"delete", data_delete,
			"permanently delete packets of a node (all, or a time range)"},
	};

	return cli_dispatch("packrack data", "Looks after packets where they are stored.",
		commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
}
