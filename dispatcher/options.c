/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/link.h"
#include "dispatcher/nodes.h"
#include "dispatcher/spread.h"
#include "proto/base/clock.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/option_rows.h"
#include "proto/rpc/rpc.h"

#define OFFSET(member) offsetof(struct prd_options, member)
#define NONE 0, 0, NULL, 0
#define RANGE(min, max) min, max, NULL, 0

static const char *const paces[] = {"max", "recorded", NULL};

static const struct pr_option options[] = {
	{"in", 'i', PR_OPT_LIST, OFFSET(in), "IFACE[,IFACE]",
		"record this interface; each is a link", NONE},
	{"read", 'r', PR_OPT_LIST, OFFSET(read), "FILE",
		"take this pcap or pcapng file as a link (may be repeated)", NONE},
	{"pace", 0, PR_OPT_ENUM, OFFSET(pace), "PACE",
		"of --read: max, or recorded, as the stamps say", 0, 0, paces, 0},
	{"out", 'o', PR_OPT_STRING, OFFSET(out), "IFACE",
		"the interface to the rack's switch", NONE},
	{"spread", 0, PR_OPT_ENUM, OFFSET(spread), "MODE", "round-robin, weighted or flow",
		0, 0, prd_spread_names, 0},
	{"copies", 0, PR_OPT_UINT, OFFSET(copies), "N",
		"send each packet to so many nodes, 1 or 2", RANGE(1, 2)},
	{"snaplen", 's', PR_OPT_UINT, OFFSET(snaplen), "BYTES",
		"keep at most so many bytes of a packet", RANGE(1, 262144)},
	{"filter", 'f', PR_OPT_STRING, OFFSET(filter), "FILTER",
		"record only packets that match, in pcap-filter syntax", NONE},
	{"ring-size", 0, PR_OPT_SIZE, OFFSET(ring_size), "SIZE",
		"the kernel's ring, for each --in", RANGE(1 << 20, 1 << 30)},
	{"buffer-size", 0, PR_OPT_SIZE, OFFSET(buffer_size), "SIZE",
		"the cyclic buffer, for each --in, a power of two",
		RANGE(2 << 20, UINT64_C(16) << 30)},
	{"log-memory", 0, PR_OPT_SIZE, OFFSET(log_memory), "SIZE",
		"for timestamp logs that nodes may ask for again",
		RANGE(1 << 20, UINT64_C(4) << 30)},
	{"log-age", 0, PR_OPT_DURATION, OFFSET(log_age), "TIME",
		"send a timestamp log when so old",
		RANGE(PR_NS_PER_MS, 1000 * PR_NS_PER_MS)},
	{"hold-time", 0, PR_OPT_DURATION, OFFSET(hold_time), "TIME",
		"how long nodes wait for a lost log",
		RANGE(100 * PR_NS_PER_MS, 60 * PR_NS_PER_S)},
	{"wait-nodes", 'n', PR_OPT_UINT, OFFSET(wait_nodes), "N",
		"begin when so many nodes have announced themselves",
		RANGE(0, PRD_NODES_MAX)},
	{"wait-time", 0, PR_OPT_DURATION, OFFSET(wait_time), "TIME",
		"give up waiting for nodes after so long (0: never)",
		RANGE(0, UINT64_C(86400) * PR_NS_PER_S)},
	{"allow-cut", 0, PR_OPT_FLAG, OFFSET(allow_cut), NULL,
		"start though --out carries shorter frames than --in: long ones are cut",
		NONE},
	{"exit-after-read", 0, PR_OPT_FLAG, OFFSET(exit_after_read), NULL,
		"with --read: end when the nodes have stored everything", NONE},
	{"manage", 0, PR_OPT_STRING, OFFSET(manage), "ENDPOINT",
		"socket for status and commands", NONE},
	PR_OPTION_METRICS(OFFSET(metrics)),
	{"name", 0, PR_OPT_STRING, OFFSET(name), "NAME", "of this dispatcher, in status",
		NONE},
	PR_OPTION_KEY(OFFSET(key_flag)),
	{"rack-id", 0, PR_OPT_UINT, OFFSET(rack_id), "N", "tells racks on one switch apart",
		RANGE(0, UINT32_MAX)},
	{"ethertype", 0, PR_OPT_UINT, OFFSET(ethertype), "N",
		"of the rack's control frames (0x88B5)", RANGE(0x600, 0xffff)},
	PR_OPTION_LOG_FORMAT(OFFSET(log_format)),
	PR_OPTION_VERBOSE(OFFSET(verbose)),
};

static const struct pr_cmdline program = {
	.name = "packrack-dispatcher",
	.section = "dispatcher",
	.summary = "captures links and spreads their packets over the nodes of a rack",
	.usage = "--in IFACE[,IFACE] | --read FILE... --out IFACE [options]",
	.options = options,
	.option_count = sizeof options / sizeof options[0],
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

static int
defaults(struct prd_options *o, struct pr_error *err)
{
	memset(o, 0, sizeof *o);
	o->copies = 1;
	o->snaplen = 262144;
	o->ring_size = o->buffer_size = o->log_memory = 32 << 20;
	o->wait_nodes = 1;
	o->ethertype = PR_ETHERTYPE_DEFAULT;
	o->hold_time = 2 * PR_NS_PER_S;
	o->log_age = 50 * PR_NS_PER_MS;
	o->manage = strdup(PR_RPC_ENDPOINT_DISPATCHER);
	o->name = strdup("dispatcher");
	return o->manage && o->name ? 0 : pr_error_set(err, "no memory");
}

int
prd_options_parse(struct prd_options *o, int argc, char **argv, struct pr_error *err)
{
	int operand = argc, rc;

	if (defaults(o, err) < 0)
		return -1;
	rc = pr_options_parse(&program, o, argc, argv, &operand, err);
	if (rc != 0)
		return rc;
	if (operand < argc)
		return pr_error_set(err,
			"'%s' is too much: the dispatcher takes options only",
			argv[operand]);
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
