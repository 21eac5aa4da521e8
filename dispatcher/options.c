/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/inputs.h"
#include "dispatcher/nodes.h"
#include "dispatcher/spread.h"
#include "proto/base/clock.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/option_rows.h"
#include "proto/rpc/rpc.h"

#define PR_VALUES struct prd_options

static const char *const paces[] = {"max", "recorded", NULL};

static const struct pr_option options[] = {
	PR_OPT_LIST(
		in, "in", 'i', "IFACE[,IFACE]", "record this interface; each is a link"),
	PR_OPT_LIST(read, "read", 'r', "FILE", "take this pcap or pcapng file as a link"),
	PR_OPT_ENUM(pace, "pace", 0, "PACE", paces,
		"of --read: max, or recorded, as the stamps say"),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "the interface to the rack's switch"),
	PR_OPT_ENUM(spread, "spread", 0, "MODE", prd_spread_names,
		"round-robin, weighted or flow"),
	PR_OPT_UINT(copies, "copies", 0, "N", 1, 2,
		"send each packet to so many nodes, 1 or 2", .def = "1"),
	PR_OPT_UINT(snaplen, "snaplen", 's', "BYTES", 1, 262144,
		"keep at most so many bytes of a packet", .def = "262144"),
	PR_OPT_STRING(filter, "filter", 'f', "FILTER",
		"record only packets that match, in pcap-filter syntax"),
	PR_OPT_SIZE(ring_size, "ring-size", 0, "SIZE", 1 << 20, 1 << 30,
		"the kernel's ring, for each --in", .def = "32M"),
	PR_OPT_SIZE(buffer_size, "buffer-size", 0, "SIZE", 2 << 20, UINT64_C(16) << 30,
		"the cyclic buffer, for each --in, a power of two", .def = "32M"),
	PR_OPT_SIZE(log_memory, "log-memory", 0, "SIZE", 1 << 20, UINT64_C(4) << 30,
		"for timestamp logs that nodes may ask for again", .def = "32M"),
	PR_OPT_DURATION(log_age, "log-age", 0, "TIME", PR_NS_PER_MS, 1000 * PR_NS_PER_MS,
		"send a timestamp log when so old", .def = "50ms"),
	PR_OPT_DURATION(hold_time, "hold-time", 0, "TIME", 100 * PR_NS_PER_MS,
		60 * PR_NS_PER_S, "how long nodes wait for a lost log", .def = "2s"),
	PR_OPT_UINT(wait_nodes, "wait-nodes", 'n', "N", 0, PRD_NODES_MAX,
		"begin when so many nodes have announced themselves", .def = "1"),
	PR_OPT_DURATION(wait_time, "wait-time", 0, "TIME", 0, UINT64_C(86400) * PR_NS_PER_S,
		"give up waiting for nodes after so long (0: never)"),
	PR_OPT_FLAG(allow_cut, "allow-cut", 0,
		"start though --out carries shorter frames than --in: long ones are cut"),
	PR_OPT_FLAG(exit_after_read, "exit-after-read", 0,
		"with --read: end when the nodes have stored everything"),
	PR_OPT_STRING(manage, "manage", 0, "ENDPOINT", "socket for status and commands",
		.def = PR_RPC_ENDPOINT_DISPATCHER),
	PR_OPTION_METRICS(metrics),
	PR_OPT_STRING(name, "name", 0, "NAME", "of this dispatcher, in status",
		.def = "dispatcher"),
	PR_OPTION_KEY(key_flag),
	PR_OPT_UINT(rack_id, "rack-id", 0, "N", 0, UINT32_MAX,
		"tells racks on one switch apart"),
	PR_OPT_UINT(ethertype, "ethertype", 0, "N", 0x600, 0xffff,
		"of the rack's control frames", .def = "0x88B5"),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {
	.name = "packrack-dispatcher",
	.section = "dispatcher",
	.summary = "captures links and spreads their packets over the nodes of a rack",
	.usage = "--in IFACE[,IFACE] | --read FILE... --out IFACE [options]",
	PR_OPTIONS(options),
	.footer = "Exit status: 0 done, 1 failed, or a trace file was not read to its end, "
		  "2 bad usage, configuration or filter.",
};

static int
split_interfaces(struct prd_options *o, struct pr_error *err)
{
	struct pr_string_list split = {0};

	for (size_t i = 0; i < o->in.count; i++) {
		for (const char *at = o->in.items[i]; at;) {
			const char *comma = strchr(at, ',');
			size_t len = comma ? (size_t)(comma - at) : strlen(at);

			if (len == 0 || pr_string_list_add(&split, at, len, err) < 0) {
				pr_string_list_clear(&split);
				return pr_error_set(err,
					"--in %s: names no interface between its commas",
					o->in.items[i]);
			}
			at = comma ? comma + 1 : NULL;
		}
	}
	pr_string_list_clear(&o->in);
	o->in = split;
	return 0;
}

static int
check_interfaces(const struct prd_options *o, struct pr_error *err)
{
	for (size_t i = 0; i < o->in.count; i++) {
		if (strcmp(o->in.items[i], o->out) == 0)
			return pr_error_set(err,
				"--in and --out are both %s: the rack needs an interface "
				"of its own",
				o->out);
		for (size_t j = 0; j < i; j++)
			if (strcmp(o->in.items[i], o->in.items[j]) == 0)
				return pr_error_set(
					err, "--in %s is given twice", o->in.items[i]);
	}
	return 0;
}

static int
check(struct prd_options *o, struct pr_error *err)
{
	if (o->in.count == 0 && o->read.count == 0)
		return pr_error_set(
			err, "what shall be recorded? Give --in IFACE or --read FILE");
	if (o->in.count > 0 && o->read.count > 0)
		return pr_error_set(err, "--in and --read exclude each other: start one "
					 "dispatcher for each");
	if (!o->out)
		return pr_error_set(
			err, "--out is missing: the interface to the rack's switch");
	if (o->in.count + o->read.count > PRD_LINKS_MAX)
		return pr_error_set(err, "at most %d links, not %zu", PRD_LINKS_MAX,
			o->in.count + o->read.count);
	if (o->exit_after_read && o->read.count == 0)
		return pr_error_set(err, "--exit-after-read needs --read");
	if (o->ethertype == PR_ETHERTYPE_ESCAPE)
		return pr_error_set(err,
			"--ethertype 0x%04X is the escape of tapped frames: choose another",
			PR_ETHERTYPE_ESCAPE);
	if (strlen(o->name) > PR_NAME_MAX)
		return pr_error_set(err, "--name is longer than %d bytes", PR_NAME_MAX);
	if (pr_rpc_check_endpoint(o->manage, err) < 0)
		return pr_error_prefix(err, "--manage");
	if (o->metrics && pr_metrics_check_address(o->metrics, err) < 0)
		return -1;
	return check_interfaces(o, err);
}

int
prd_options_parse(struct prd_options *o, int argc, char **argv, struct pr_error *err)
{
	int rc;

	*o = (struct prd_options){0};
	rc = pr_options_parse(&program, o, argc, argv, NULL, err);
	if (rc != 0)
		return rc;
	o->keys = pr_keys_dir(o->key_flag);
	if (split_interfaces(o, err) < 0)
		return -1;
	return check(o, err);
}

void
prd_options_free(struct prd_options *o)
{
	pr_options_free(&program, o);
}
