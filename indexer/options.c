/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/query/serve.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/option_rows.h"

#define AT(field) offsetof(struct pri_indexer_options, field)
#define NAME_MAX_BYTES 64

static const struct pr_option options[] = {
	{.name = "volume",
		.kind = PR_OPT_LIST,
		.offset = AT(volume),
		.arg = "PATH[,PATH]",
		.help = "the volume to answer from (needed)"},
	{.name = "merger",
		.letter = 'm',
		.kind = PR_OPT_LIST,
		.offset = AT(merger),
		.arg = "ENDPOINT",
		.help = "where to answer queries, repeatable (" PR_RPC_ENDPOINT_MERGER ")"},
	{.name = "name",
		.kind = PR_OPT_STRING,
		.offset = AT(name),
		.arg = "NAME",
		.help = "this node's name (the machine's)"},
	{.name = "cluster",
		.kind = PR_OPT_STRING,
		.offset = AT(cluster),
		.arg = "NAME",
		.help = "of nodes, that mergers look at as one first (none)"},
	{.name = "manage",
		.kind = PR_OPT_STRING,
		.offset = AT(manage),
		.arg = "ENDPOINT",
		.help = "listen here for direct questions (none)"},
	PR_OPTION_METRICS(AT(metrics)),
	{.name = "queries",
		.kind = PR_OPT_UINT,
		.offset = AT(queries),
		.arg = "N",
		.help = "answered at the same time, others wait",
		.min = 1,
		.max = PRI_SERVE_RUNNING_MAX},
	{.name = "composite",
		.kind = PR_OPT_LIST,
		.offset = AT(composite),
		.arg = "KEYS",
		.help = "also index what a packet has together, as src+dport; repeatable "
			"(none)"},
	PR_OPTION_KEY(AT(key_flag)),
	PR_OPTION_LOG_FORMAT(AT(log_format)),
	PR_OPTION_VERBOSE(AT(verbose)),
};

static const struct pr_cmdline program = {
	.name = "packrack-indexer",
	.section = "indexer",
	.summary = "Answers queries from one volume.",
	.usage = "--volume PATH[,PATH] [options]",
	.options = options,
	.option_count = sizeof(options) / sizeof(options[0]),
	.footer = "It only reads the volume, waits for it if it is not there yet, and "
		  "gives way "
		  "to capture.",
};

static int
split_volume(struct pri_indexer_options *o, struct pr_error *err)
{
	if (pr_string_list_split(&o->paths, &o->volume, err) < 0)
		return -1;
	if (o->paths.count == 0)
		return pr_error_set(err, "no volume: give --volume PATH");
	return 0;
}

static int
default_name(struct pri_indexer_options *o, struct pr_error *err)
{
	char host[NAME_MAX_BYTES + 1] = "";

	if (o->name)
		return 0;
	if (gethostname(host, sizeof(host) - 1) < 0)
		return pr_error_errno(err, "the machine's name");
	o->name = strdup(host);
	return o->name ? 0 : pr_error_set(err, "no memory");
}

static int
check_name(const char *option, const char *name, struct pr_error *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_MAX_BYTES)
		return pr_error_set(err, "--%s: 1 to %d bytes", option, NAME_MAX_BYTES);
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 0x7f)
			return pr_error_set(
				err, "--%s: no blanks or control characters", option);
	return 0;
}

static int
check(struct pri_indexer_options *o, struct pr_error *err)
{
	if (split_volume(o, err) < 0 || default_name(o, err) < 0 ||
		check_name("name", o->name, err) < 0 ||
		(o->cluster && check_name("cluster", o->cluster, err) < 0))
		return -1;
	if (o->merger.count == 0 && !o->manage &&
		pr_string_list_add(&o->merger, PR_RPC_ENDPOINT_MERGER,
			strlen(PR_RPC_ENDPOINT_MERGER), err) < 0)
		return -1;
	for (size_t i = 0; i < o->merger.count; i++)
		if (pr_rpc_check_endpoint(o->merger.items[i], err) < 0)
			return -1;
	if (o->manage && pr_rpc_check_endpoint(o->manage, err) < 0)
		return -1;
	if (o->metrics && pr_metrics_check_address(o->metrics, err) < 0)
		return -1;
	if (pri_composites_parse(&o->composite, &o->composites, err) < 0)
		return pr_error_prefix(err, "--composite");
	o->keys = pr_keys_dir(o->key_flag);
	return 0;
}

int
pri_indexer_options_parse(
	struct pri_indexer_options *o, int argc, char **argv, struct pr_error *err)
{
	int operand, rc;

	*o = (struct pri_indexer_options){.queries = PRI_SERVE_RUNNING_DEFAULT};
	rc = pr_options_parse(&program, o, argc, argv, &operand, err);
	if (rc != 0)
		return rc;
	if (operand < argc)
		return pr_error_set(err,
			"unexpected '%s': there are only options, see --help",
			argv[operand]);
	return check(o, err);
}

void
pri_indexer_options_free(struct pri_indexer_options *o)
{
	pr_options_free(&program, o);
	pr_string_list_clear(&o->paths);
}
