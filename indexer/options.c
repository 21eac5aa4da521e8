/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/query/serve.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/option_rows.h"

#define PR_VALUES struct pri_indexer_options
#define NAME_MAX_BYTES 64

static const struct pr_option options[] = {
	PR_OPT_LIST(volume, "volume", 0, "PATH[,PATH]", "the volume to answer from",
		.required = true),
	PR_OPT_LIST(merger, "merger", 'm', "ENDPOINT",
		"where to answer queries (" PR_RPC_ENDPOINT_MERGER ")"),
	PR_OPT_STRING(
		name, "name", 0, "NAME", "this node's name", .def_note = "the machine's"),
	PR_OPT_STRING(cluster, "cluster", 0, "NAME",
		"of nodes, that mergers look at as one first"),
	PR_OPT_STRING(manage, "manage", 0, "ENDPOINT", "listen here for direct questions"),
	PR_OPTION_METRICS(metrics),
	PR_OPT_UINT(queries, "queries", 0, "N", 1, PRI_SERVE_RUNNING_MAX,
		"answered at the same time, others wait"),
	PR_OPT_LIST(composite, "composite", 0, "KEYS",
		"also index what a packet has together, as src+dport"),
	PR_OPTION_KEY(key_flag),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {
	.name = "packrack-indexer",
	.section = "indexer",
	.summary = "Answers queries from one volume.",
	.usage = "--volume PATH[,PATH] [options]",
	PR_OPTIONS(options),
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
	int rc;

	*o = (struct pri_indexer_options){.queries = PRI_SERVE_RUNNING_DEFAULT};
	rc = pr_options_parse(&program, o, argc, argv, NULL, err);
	if (rc != 0)
		return rc;
	return check(o, err);
}

void
pri_indexer_options_free(struct pri_indexer_options *o)
{
	pr_options_free(&program, o);
	pr_string_list_clear(&o->paths);
}
