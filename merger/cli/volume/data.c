/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/hello.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"

/* A volume says of itself what its indexer would say. */
struct volume {
	struct pri_volume *view;
	struct pri_hello_message *hello;
};

struct data_stock {
	Packrack__Envelope *reply; /* of a merger */
	struct volume *volumes; /* or these */
	size_t volume_count;
	const Packrack__NodeStatus **nodes;
	size_t count;
};

static int
open_volume(struct volume *v, const char *path, struct pr_error *err)
{
	struct pri_hello_input facts = {.name = path};
	struct volume_paths paths;

	if (volume_paths_parse(path, &paths, err) == 0)
		v->view = pri_volume_open(paths.path, paths.count, PRI_VOLUME_CACHED, err);
	volume_paths_free(&paths);
	if (!v->view || pri_volume_refresh(v->view, true, INT64_MAX, err) < 0)
		return -1;
	v->hello = pri_hello_create(v->view, &facts, err);
	return v->hello ? 0 : -1;
}

static int
from_volumes(struct data_stock *s, const struct pr_string_list *paths, struct pr_error *err)
{
	s->volumes = calloc(paths->count, sizeof(*s->volumes));
	s->nodes = calloc(paths->count, sizeof(*s->nodes));
	if (!s->volumes || !s->nodes)
		return pr_error_set(err, "no memory for so many volumes");
	for (size_t i = 0; i < paths->count; i++) {
		s->volume_count++;
		if (open_volume(&s->volumes[i], paths->items[i], err) < 0)
			return -1;
		s->nodes[s->count++] = pri_hello_status(s->volumes[i].hello);
	}
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
from_merger(struct data_stock *s, const struct data_args *a, struct pr_error *err)
{
	const char *endpoint = data_merger(a, err);
	const Packrack__Status *status;
	struct pr_rpc_keys room;
	size_t count;

	if (!endpoint || cli_ask_status(endpoint, cli_keys(&a->merger, &room),
				 "packrack-merger", &s->reply, err) < 0)
		return -1;
	status = s->reply->status;
	count = a->nodes.count ? a->nodes.count : status->n_nodes;
	s->nodes = calloc(count + 1, sizeof(*s->nodes));
	if (!s->nodes)
		return pr_error_set(err, "no memory for so many nodes");
	for (size_t i = 0; i < count; i++) {
		s->nodes[i] =
			a->nodes.count ? find(status, a->nodes.items[i]) : status->nodes[i];
		if (!s->nodes[i])
			return pr_error_set(err,
				"the merger knows no node %s: packrack data list names "
				"them",
				a->nodes.items[i]);
		s->count++;
	}
	return 0;
}

struct data_stock *
data_stock_get(const struct data_args *a, struct pr_error *err)
{
	struct data_stock *s = calloc(1, sizeof(*s));

	if (!s)
		pr_error_set(err, "no memory");
	else if ((a->volumes.count ? from_volumes(s, &a->volumes, err)
				   : from_merger(s, a, err)) < 0)
		data_stock_free(&s);
	return s;
}

void
data_stock_free(struct data_stock **stock)
{
	struct data_stock *s = *stock;

	*stock = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->volume_count; i++) {
		pri_hello_destroy(&s->volumes[i].hello);
		if (s->volumes[i].view)
			pri_volume_close(&s->volumes[i].view);
	}
	if (s->reply)
		pr_message_free(&s->reply);
	free(s->volumes);
	free(s->nodes);
	free(s);
}

size_t
data_stock_count(const struct data_stock *s)
{
	return s->count;
}

const Packrack__NodeStatus *
data_stock_node(const struct data_stock *s, size_t index)
{
	return s->nodes[index];
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

Packrack__LinkInfo *const *
data_stock_links(const struct data_stock *s, size_t *count)
{
	const Packrack__Hello *hello =
		s->volume_count ? pri_hello_message(s->volumes[0].hello) : NULL;

	*count = hello ? hello->n_links : s->reply ? s->reply->status->n_links : 0;
	return hello ? hello->links : s->reply ? s->reply->status->links : NULL;
}

int
data_parse(const struct pr_cmdline *program, struct data_args *a, int argc, char **argv)
{
	struct pr_error err = {""};
	int operand, status;

	*a = (struct data_args){.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	status = cli_parse(program, a, argc, argv, &operand);
	if (status >= 0)
		return status;
	if (operand < argc)
		pr_error_set(&err, "unexpected '%s': there are only options, see --help",
			argv[operand]);
	else if (a->since > a->until)
		pr_error_set(&err, "--since is later than --until");
	else if (a->volumes.count && (a->merger.endpoint || a->nodes.count))
		pr_error_set(&err, "--volume does not go together with --node or --merger");
	else if (a->json && a->keyvalue)
		pr_error_set(&err, "--json and --keyvalue do not go together");
	return err.text[0] ? cli_fail(program->name, CLI_USAGE, &err) : -1;
}

const char *
data_merger(const struct data_args *a, struct pr_error *err)
{
	return cli_endpoint(
		a->merger.endpoint, "PACKRACK_MERGER", PR_RPC_ENDPOINT_MERGER, err);
}

int
cmd_data(int argc, char **argv)
{
	static const struct cli_command commands[] = {
		{"list", data_list, "what each node holds, from when to when"},
		{"export", cmd_data_export, "save a node's packets from where they lie"},
		{"move", data_move,
			"copy a node's oldest packets, check, then delete them"},
		{"delete", data_delete, "delete a node's oldest packets for good"},
	};

	return cli_dispatch("packrack data",
		"Looks after packets where they lie, by node and time.", commands,
		sizeof(commands) / sizeof(commands[0]), argc, argv);
}
