/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <inttypes.h>

#include "proto/base/clock.h"

static const struct pr_option options[] = {
	DATA_WHERE_OPTIONS,
};

static const struct pr_cmdline program = {.name = "packrack data list",
	.summary = "Lists what each node holds, stream by stream, and what was deleted.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "With --since and --until, streams that have packets of that time."};

/* Does it reach into the time range? Without one all do. */
static bool
wanted(const struct data_args *a, const Packrack__StreamHeld *s)
{
	if (a->since == PR_TIME_MIN && a->until == PR_TIME_MAX)
		return true;
	return s->packet_stream && s->packets && s->last_time >= a->since &&
	       s->first_time <= a->until;
}

static int
render_all(const struct data_args *a, const struct data_stock *stock, enum render_form form)
{
	struct render *r = render_begin(stdout, form);

	if (!r)
		return -1;
	render_list(r, "nodes");
	for (size_t i = 0; i < data_stock_count(stock); i++) {
		const Packrack__NodeStatus *n = data_stock_node(stock, i);

		render_object(r, NULL);
		render_string(r, "name", n->name);
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
		printf("    all up to %s is gone\n",
			pr_time_format(s->evicted_until, to, sizeof(to)));
	for (size_t i = 0; i < s->n_deleted; i++) {
		if (s->deleted[i]->since)
			printf("    %s",
				pr_time_format(s->deleted[i]->since, from, sizeof(from)));
		printf("%sto %s %s%s by %s at %s: %" PRIu64 " segments, %" PRIu64
		       " bytes\n",
			s->deleted[i]->since ? " " : "    up ",
			pr_time_format(s->deleted[i]->until, to, sizeof(to)),
			s->deleted[i]->moved_to[0] ? "moved to " : "deleted",
			s->deleted[i]->moved_to, s->deleted[i]->by,
			pr_time_format(s->deleted[i]->at, from, sizeof(from)),
			s->deleted[i]->segments, s->deleted[i]->bytes);
	}
}

static void
print_all(const struct data_args *a, const struct data_stock *stock)
{
	for (size_t i = 0; i < data_stock_count(stock); i++) {
		const Packrack__NodeStatus *n = data_stock_node(stock, i);

		printf("%s%s\n", n->name,
			a->volumes.count || n->connected ? "" : " (silent: as it was)");
		printf("  %-12s %-12s %12s %9s %14s %8s %14s  %s\n", "stream", "link",
			"packets", "segments", "bytes", "blocks", "guarantee", "times");
		for (size_t j = 0; j < n->n_streams; j++)
			if (wanted(a, n->streams[j]))
				print_stream(n->streams[j]);
	}
}

int
data_list(int argc, char **argv)
{
	struct data_args a;
	struct data_stock *stock = NULL;
	struct pr_error err;
	int status = data_parse(&program, &a, argc, argv);

	if (status < 0) {
		stock = data_stock_get(&a, &err);
		status = stock ? CLI_OK : cli_fail(program.name, CLI_FAILED, &err);
	}
	if (stock && (a.json || a.keyvalue)) {
		if (render_all(&a, stock, a.json ? RENDER_JSON : RENDER_KEYVALUE) < 0)
			status = CLI_FAILED;
	} else if (stock) {
		print_all(&a, stock);
	}
	data_stock_free(&stock);
	pr_options_free(&program, &a);
	return status;
}
