/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <inttypes.h>
#include <pwd.h>
#include <unistd.h>

#include "indexer/query/hello.h"
#include "merger/cli/volume/volume.h"

int
data_check(const struct data_args *a, struct pr_error *err)
{
	return CLI_CHECK(err, {a->since > a->until, "--since is later than --until"},
		{a->volumes.count && (a->merger.endpoint || a->nodes.count),
			"--volume does not go together with --node or --merger"},
		{a->json && a->keyvalue, "--json and --keyvalue do not go together"});
}

struct query_args
data_question(const struct data_args *a, const char *const *name, bool volume,
	int64_t since, int64_t until)
{
	struct query_args q = {
		.merger = a->merger, .since = since, .until = until, .filter = ""};

	*(volume ? &q.volumes : &q.nodes) = (struct pr_string_list){(char **)name, 1};
	return q;
}

/* ---- what nodes and volumes hold ---- */

/* A volume reports what its indexer would report. */
struct data_volume {
	struct pri_volume *volume;
	struct pri_hello *hello;
};

static int
from_volumes(struct data_inventory *inv, const struct pr_string_list *paths,
	struct pr_error *err)
{
	inv->volumes = calloc(paths->count, sizeof(*inv->volumes));
	inv->nodes = calloc(paths->count, sizeof(*inv->nodes));
	if (!inv->volumes || !inv->nodes)
		return pr_error_set(err, "no memory for %zu volumes", paths->count);
	for (size_t i = 0; i < paths->count; i++) {
		struct data_volume *v = &inv->volumes[inv->volume_count++];

		v->volume = ask_volume_open(paths->items[i], PRI_VOLUME_CACHED, err);
		if (!v->volume || pri_volume_refresh(v->volume, true, INT64_MAX, err) < 0)
			return -1;
		v->hello = pri_hello_create(v->volume, paths->items[i], 0, 0, err);
		if (!v->hello)
			return -1;
		inv->nodes[inv->count++] = &v->hello->status;
	}
	const Packrack__Hello *hello = &inv->volumes[0].hello->message;
	inv->links = hello->links;
	inv->link_count = hello->n_links;
	return 0;
}

static int
from_merger(struct data_inventory *inv, const struct data_args *a, struct pr_error *err)
{
	size_t count, at;

	if (cli_ask_status(&a->merger, &cli_merger, &inv->reply, err) != CLI_OK)
		return -1;
	const Packrack__Status *status = inv->reply->status;
	inv->links = status->links;
	inv->link_count = status->n_links;
	count = a->nodes.count ? a->nodes.count : status->n_nodes;
	inv->nodes = calloc(count + 1, sizeof(*inv->nodes));
	if (!inv->nodes)
		return pr_error_set(err, "no memory for %zu nodes", count);
	for (size_t i = 0; i < count; i++) {
		for (at = a->nodes.count ? 0 : i; at < status->n_nodes; at++)
			if (!a->nodes.count ||
				!strcmp(status->nodes[at]->name, a->nodes.items[i]))
				break;
		if (at == status->n_nodes)
			return pr_error_set(err,
				"the merger knows no node %s: 'packrack data list' shows "
				"the nodes",
				a->nodes.items[i]);
		inv->nodes[inv->count++] = status->nodes[at];
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

/* ---- list ---- */

static const struct pr_option list_options[] = {DATA_WHERE_OPTIONS};

static void
print_stream(const Packrack__StreamHeld *s)
{
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT];

	char link[2 * PR_NAME_MAX + 8];

	PR_PRINT(link, "%s%s%s", s->link_name, s->class_[0] ? " " : "", s->class_);
	printf("  %-12s %-12s %12" PRIu64 " %9" PRIu64 " %14" PRIu64 " %8" PRIu64
	       " %14" PRIu64 "  ",
		s->name, link, s->packets, s->segments, s->bytes, s->blocks, s->guarantee);
	if (s->packet_stream && s->packets)
		printf("%s to %s\n", pr_time_local(s->first_time, from, sizeof(from)),
			pr_time_local(s->last_time, to, sizeof(to)));
	else
		puts(s->packet_stream ? "nothing" : "-");
	if (s->packets && s->memory_time && s->memory_time <= s->last_time)
		printf("    in memory from %s on\n",
			pr_time_local(s->memory_time, from, sizeof(from)));
	if (s->packet_stream && s->evicted_segments)
		printf("    overwritten up to %s\n",
			pr_time_local(s->evicted_until, to, sizeof(to)));
	for (size_t i = 0; i < s->n_deleted; i++) {
		const Packrack__Deleted *d = s->deleted[i];

		if (d->since)
			printf("    %s to", pr_time_local(d->since, from, sizeof(from)));
		else
			printf("    up to");
		printf(" %s %s%s by %s at %s: %" PRIu64 " segments, %" PRIu64 " bytes\n",
			pr_time_local(d->until, to, sizeof(to)),
			d->moved_to[0] ? "moved to " : "deleted", d->moved_to, d->by,
			pr_time_local(d->at, from, sizeof(from)), d->segments, d->bytes);
	}
}

static void
show_node(struct render *r, const struct data_args *a, const Packrack__NodeStatus *n)
{
	bool volume = a->volumes.count,
	     all = a->since == PR_TIME_MIN && a->until == PR_TIME_MAX;

	if (r) {
		render_object(r, NULL);
		render_string(r, "node", n->name);
		if (!volume) {
			render_bool(r, "connected", n->connected);
			render_time(r, "last_seen", n->last_seen);
		}
		render_list(r, "streams");
	} else {
		printf("%s%s\n", n->name,
			volume || n->connected ? "" : " (unreachable: last values)");
		printf("  %-12s %-12s %12s %9s %14s %8s %14s  %s\n", "stream", "link",
			"packets", "segments", "bytes", "blocks", "guarantee", "times");
	}
	for (size_t i = 0; i < n->n_streams; i++) {
		const Packrack__StreamHeld *s = n->streams[i];

		if (!all && (!s->packet_stream || !s->packets || s->last_time < a->since ||
				    s->first_time > a->until))
			continue;
		if (r)
			render_message(r, NULL, &s->base);
		else
			print_stream(s);
	}
	if (r) {
		render_close(r);
		render_close(r);
	}
}

static int
run_list(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct data_inventory inv;

	if (data_check(a, err) < 0)
		return CLI_USAGE;
	int rc = data_inventory_get(&inv, a, err);
	if (rc == 0) {
		struct render *r = cli_render(a->json, a->keyvalue, "nodes");
		for (size_t i = 0; i < inv.count; i++)
			show_node(r, a, inv.nodes[i]);
		rc = render_end(&r);
	}
	data_inventory_free(&inv);
	return rc;
}

/* ---- delete ---- */

#define FENCES 320
/* longer than the merger's own limit, so that its error arrives */
#define STEP_NS (70 * PR_NS_PER_S)

static const struct pr_option delete_options[] = {
	DATA_WHERE_OPTIONS,
	PR_OPT_FLAG(yes, "yes", 'y', "delete without asking"),
};

int
data_confirm(
	const struct data_args *a, const struct data_inventory *inv, struct pr_error *err)
{
	bool move = a->to || a->to_volume || a->to_file;
	char from[PR_TIME_TEXT], to[PR_TIME_TEXT], line[300];

	if (a->yes)
		return 0;
	if (!isatty(STDIN_FILENO))
		return pr_error_set(err,
			move ? "a move deletes the packets here once they are copied: give "
			       "--yes to confirm, or copy them with packrack data export"
			     : "this permanently deletes packets: give --yes to confirm");
	for (size_t i = 0; i < inv->count; i++) {
		const Packrack__NodeStatus *n = inv->nodes[i];

		for (size_t j = 0; j < n->n_streams; j++) {
			const Packrack__StreamHeld *s = n->streams[j];
			bool begin = a->since <= s->first_time;
			bool end = a->until >= s->last_time;

			if (!s->packet_stream || !s->packets || s->first_time > a->until ||
				s->last_time < a->since)
				continue;
			pr_time_local(s->first_time, from, sizeof(from));
			pr_time_local(s->last_time, to, sizeof(to));
			fprintf(stderr,
				"%s, stream %s, holds %" PRIu64 " packets from %s to %s. ",
				n->name, s->name, s->packets, from, to);
			if (!begin)
				pr_time_local(a->since, from, sizeof(from));
			if (!end)
				pr_time_local(a->until, to, sizeof(to));
			if (begin && end)
				fputs("All of them will be deleted.\n", stderr);
			else
				fprintf(stderr, "Packets from %s to %s will be deleted.\n",
					from, to);
		}
		fprintf(stderr, "%s Type %s to confirm: ",
			move ? "They are copied first." : "This cannot be undone.",
			n->name);
		if (!fgets(line, sizeof(line), stdin) ||
			strlen(n->name) != strcspn(line, "\n") ||
			strncmp(line, n->name, strlen(n->name)) != 0)
			return pr_error_set(err, move ? "not moved" : "not deleted");
	}
	return 0;
}

static int
node_step(const struct data_deletion *d, struct prl_deleted *step, struct pr_error *err)
{
	const struct prl_delete_order *o = &d->order;
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Fence fences[FENCES], *pointers[FENCES];
	Packrack__Envelope *reply;

	*step = (struct prl_deleted){0};
	c.verb = "delete";
	c.node = (char *)d->name;
	c.since = o->since == PR_TIME_MIN ? 0 : o->since;
	PR_COPY(&c, o, until, at);
	c.user = (char *)o->by;
	c.number = o->step;
	if (o->moved_to)
		c.moved_to = (char *)o->moved_to;
	for (size_t i = 0; i < o->fence_count && i < FENCES; i++) {
		packrack__fence__init(&fences[i]);
		fences[i].stream = (char *)o->fences[i].stream;
		fences[i].last_segment = o->fences[i].last;
		pointers[c.n_fences++] = &fences[i];
	}
	c.fences = pointers;
	if (cli_ask_command(&d->args->merger, &cli_merger, &c, STEP_NS, &reply, err) !=
		CLI_OK)
		return pr_error_prefix(err, "%s", d->name);
	PR_COPY(step, reply->command_done, segments, bytes, more);
	pr_message_free(&reply);
	return 0;
}

int
data_delete_run(struct data_deletion *d, struct pr_error *err)
{
	const struct passwd *pw = getpwuid(geteuid());
	bool volume = d->args->volumes.count;
	struct prl_deleted step = {.more = true};
	struct volume_writer w = {0};

	d->order.since = d->args->since;
	d->order.at = pr_now_real();
	d->order.by = pw ? pw->pw_name : "unknown"; /* if no key gives a name */
	progress_begin(&d->progress);
	int rc = volume ? volume_writer_open(&w, d->name, false, true, err) : 0;
	while (rc == 0 && step.more) {
		rc = volume ? prl_delete_step(w.sfs, w.append, &d->order, &step, err)
			    : node_step(d, &step, err);
		d->order.step++;
		PR_ADD(&d->sum, &step, segments, bytes);
		if (progress_due(&d->progress))
			progress_show(&d->progress,
				&(struct progress_state){d->name, "segments deleted",
					.count = d->sum.segments});
	}
	volume_writer_close(&w);
	progress_end(&d->progress);
	return rc;
}

static int
delete_all(const struct data_args *a, const struct data_inventory *inv, struct render *r,
	struct pr_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < inv->count; i++) {
		struct data_deletion d = {.args = a,
			.name = inv->nodes[i]->name,
			.order = {.until = a->until}};
		uint64_t left = 0;

		rc = data_delete_run(&d, err);
		/*
		 * Packets of the time range remain where their segments reach beyond it. Without a
		 * range they are not counted, as new packets may have come.
		 */
		int64_t until = a->until < d.order.at ? a->until : d.order.at;
		if (rc == 0 && (a->since != PR_TIME_MIN || a->until != PR_TIME_MAX))
			rc = data_ask_count(data_question(a, &d.name, a->volumes.count,
						    a->since, until),
				&left, err);
		if (r) {
			render_object(r, NULL);
			render_string(r, "name", d.name);
			RENDER_UINTS(r, {"segments", d.sum.segments},
				{"bytes", d.sum.bytes}, {"packets_left", left});
			render_close(r);
			continue;
		}
		printf("%s: %" PRIu64 " segments, %" PRIu64 " bytes deleted\n", d.name,
			d.sum.segments, d.sum.bytes);
		if (left)
			printf("  %" PRIu64 " packets of the time range remain: they share "
			       "a segment with packets outside the range, or a case "
			       "holds them (packrack hold list)\n",
				left);
	}
	return rc;
}

static int
delete_from(
	const struct data_args *a, const struct data_inventory *inv, struct pr_error *err)
{
	for (size_t i = 0; i < inv->count; i++)
		if (!a->volumes.count && !inv->nodes[i]->connected)
			return pr_error_as(CLI_USAGE, err,
				"node %s is unreachable: repeat the command when its "
				"indexer runs again",
				inv->nodes[i]->name);
	if (data_confirm(a, inv, err) < 0)
		return CLI_USAGE;
	struct render *r = cli_render(a->json, a->keyvalue, "deleted");
	int rc = delete_all(a, inv, r, err);
	if (render_end(&r) < 0 && rc == 0)
		rc = pr_error_set(err, "cannot write the report");
	return rc;
}

static int
run_delete(const struct cli_call *call, struct pr_error *err)
{
	const struct data_args *a = call->values;
	struct data_inventory inv;

	if (data_check(a, err) < 0 ||
		CLI_CHECK(err,
			{!a->nodes.count && !a->volumes.count,
				"no node given: use --node NAME or --volume VOLUME"}) < 0)
		return CLI_USAGE;
	int status = data_inventory_get(&inv, a, err) == 0 ? delete_from(a, &inv, err)
							   : CLI_FAILED;
	data_inventory_free(&inv);
	return status;
}

int
cmd_data(int argc, char **argv)
{
	const struct cli_command commands[] = {
		{"list", "what each node holds, from when to when",
			"Lists what each node holds, stream by stream, and what was "
			"deleted.",
			"[options]",
			"With --since and --until: only streams that have packets of that "
			"time.",
			CLI_OPTIONS(list_options), 0, .call = run_list},
		data_export_command, data_move_command,
		{"delete", "permanently delete packets of a node (all, or a time range)",
			"Permanently deletes packets of a node: all, or those of a time "
			"range.",
			"--node NAME|--volume VOLUME [--since TIME] [--until TIME] [--yes]",
			"Deleted packets are overwritten with zeros. A segment that "
			"reaches beyond the\n"
			"time range stays whole; the command prints how many packets of "
			"the range\n"
			"remain. After an interruption, repeat the command to "
			"finish.\n" CLI_STATUSES,
			CLI_OPTIONS(delete_options), 0, .call = run_delete}};

	return cli_dispatch("packrack data", "Looks after packets where they are stored.",
		commands, PR_COUNT(commands), &(struct data_args)DATA_ARGS, argc, argv);
}
