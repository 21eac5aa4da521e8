/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logger/append.h"
#include "logger/match.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "proto/base/metrics_server.h"
#include "proto/rpc/option_rows.h"
#include "proto/wire/frame.h"

#define MIB (UINT64_C(1) << 20)
#define OFFSET(field) offsetof(struct prl_logger_options, field)

static const struct pr_option table[] = {
	{.name = "rack",
		.kind = PR_OPT_STRING,
		.offset = OFFSET(rack),
		.arg = "IFACE",
		.help = "be a node of a rack, on this interface to its switch"},
	{.name = "tap",
		.kind = PR_OPT_STRING,
		.offset = OFFSET(tap),
		.arg = "IFACE",
		.help = "record this interface, without a dispatcher"},
	{.name = "read",
		.letter = 'r',
		.kind = PR_OPT_LIST,
		.offset = OFFSET(read),
		.arg = "FILE",
		.help = "record a trace file (may be repeated)"},
	{.name = "volume",
		.kind = PR_OPT_LIST,
		.offset = OFFSET(volume),
		.arg = "PATH[,PATH]",
		.help = "the volume to write: its file or devices"},
	{.name = "degraded",
		.kind = PR_OPT_FLAG,
		.offset = OFFSET(degraded),
		.help = "go on without devices of the volume that are missing or fail"},
	{.name = "name",
		.kind = PR_OPT_STRING,
		.offset = OFFSET(name),
		.arg = "NAME",
		.help = "of this node (the host's)"},
	{.name = "buffer-size",
		.kind = PR_OPT_SIZE,
		.offset = OFFSET(buffer_size),
		.arg = "SIZE",
		.help = "the kernel's receive ring",
		.min = 1 << 16,
		.max = 1 << 30},
	{.name = "ring-size",
		.kind = PR_OPT_SIZE,
		.offset = OFFSET(ring_size),
		.arg = "SIZE",
		.help = "frames that wait for their logs",
		.min = 1 << 20,
		.max = UINT64_C(1) << 34},
	{.name = "shm-size",
		.kind = PR_OPT_SIZE,
		.offset = OFFSET(shm_size),
		.arg = "SIZE",
		.help = "shared memory for the newest blocks",
		.min = 1 << 18,
		.max = UINT64_C(1) << 40},
	{.name = "hold-time",
		.kind = PR_OPT_DURATION,
		.offset = OFFSET(hold_time),
		.arg = "TIME",
		.help = "how long frames wait for a lost log",
		.min = 1000000,
		.max = UINT64_C(60000000000)},
	{.name = "reorder-window",
		.kind = PR_OPT_UINT,
		.offset = OFFSET(window),
		.arg = "FRAMES",
		.help = "half of it is how far the switch may reorder",
		.min = PRL_MATCH_WINDOW_MIN,
		.max = PRL_MATCH_WINDOW_MAX},
	{.name = "segment-age",
		.kind = PR_OPT_DURATION,
		.offset = OFFSET(segment_age),
		.arg = "TIME",
		.help = "packets can be found after so long at most",
		.min = 1000000,
		.max = UINT64_C(60000000000)},
	{.name = "filter",
		.kind = PR_OPT_STRING,
		.offset = OFFSET(filter),
		.arg = "FILTER",
		.help = "with --tap: record only these (pcap-filter(7))"},
	{.name = "snaplen",
		.kind = PR_OPT_UINT,
		.offset = OFFSET(snaplen),
		.arg = "BYTES",
		.help = "with --tap: bytes kept of a packet",
		.min = 1,
		.max = 262144},
	{.name = "both",
		.kind = PR_OPT_FLAG,
		.offset = OFFSET(both),
		.help = "with --tap: what this machine sends as well"},
	{.name = "link",
		.kind = PR_OPT_UINT,
		.offset = OFFSET(link),
		.arg = "N",
		.help = "with --tap, --read: number of the link (default: by its name)",
		.min = 0,
		.max = PRL_STRAY_LINK - 1,
		.set_offset = OFFSET(link_set)},
	PR_OPTION_KEY(OFFSET(key_flag)),
	{.name = "rack-id",
		.kind = PR_OPT_UINT,
		.offset = OFFSET(rack_id),
		.arg = "N",
		.help = "tells racks on one switch apart",
		.min = 0,
		.max = UINT32_MAX},
	{.name = "ethertype",
		.kind = PR_OPT_UINT,
		.offset = OFFSET(ethertype),
		.arg = "N",
		.help = "of control frames (0x88B5)",
		.min = 0x600,
		.max = 0xffff},
	{.name = "manage",
		.kind = PR_OPT_STRING,
		.offset = OFFSET(manage),
		.arg = "ENDPOINT",
		.help = "answer status requests here"},
	PR_OPTION_METRICS(OFFSET(metrics)),
	PR_OPTION_LOG_FORMAT(OFFSET(log_format)),
	PR_OPTION_VERBOSE(OFFSET(verbose)),
};

static const struct pr_cmdline program = {
	.name = "packrack-logger",
	.section = "logger",
	.summary = "stores packets in a StreamFS volume: a node of a rack, a tap, or trace "
		   "files",
	.usage = "--rack IFACE | --tap IFACE | --read FILE  --volume PATH[,PATH] [options]",
	.options = table,
	.option_count = sizeof(table) / sizeof(table[0]),
	.footer = "The volume is made by `packrack volume create PATH --size SIZE`.\n"
		  "Exit status: 0, 1 on failure, 2 on bad usage or configuration.\n",
};

/* "a,b" is two devices. */
static int
split_volume(struct pr_string_list *list, struct pr_error *err)
{
	struct pr_string_list split = {0};
	int rc = pr_string_list_split(&split, list, err);

	pr_string_list_clear(list);
	*list = split;
	return rc;
}

static int
check(struct prl_logger_options *o, struct pr_error *err)
{
	int modes = (o->rack != NULL) + (o->tap != NULL) + (o->read.count > 0);

	if (modes != 1)
		return pr_error_set(err,
			"give one of --rack IFACE, --tap IFACE, --read FILE%s",
			modes ? ", not several" : "");
	if (split_volume(&o->volume, err))
		return -1;
	if (o->volume.count == 0)
		return pr_error_set(err,
			"--volume PATH is missing: where to store "
			"(made by `packrack volume create PATH --size SIZE`)");
	if (o->filter && !o->tap)
		return pr_error_set(
			err, "--filter is for --tap; a rack's is the dispatcher's");
	if (o->name && (!*o->name || strlen(o->name) > PR_NAME_MAX))
		return pr_error_set(
			err, "--name \"%s\": 1 to %d bytes", o->name, PR_NAME_MAX);
	if (o->metrics && o->read.count)
		return pr_error_set(
			err, "--metrics is for --rack and --tap: --read ends by itself");
	if (o->metrics && pr_metrics_check_address(o->metrics, err))
		return -1;
	if (o->ethertype == PR_ETHERTYPE_ESCAPE)
		return pr_error_set(err,
			"--ethertype 0x%x is taken (escaped frames carry it)",
			PR_ETHERTYPE_ESCAPE);
	return 0;
}

static int
default_name(struct prl_logger_options *o, struct pr_error *err)
{
	char host[PR_NAME_MAX + 1] = "";

	if (o->name)
		return 0;
	if (gethostname(host, sizeof(host) - 1) || !*host)
		snprintf(host, sizeof(host), "logger");
	o->name = strdup(host);
	return o->name ? 0 : pr_error_set(err, "no memory");
}

int
prl_logger_options_parse(
	struct prl_logger_options *o, int argc, char **argv, struct pr_error *err)
{
	int operand, result;

	*o = (struct prl_logger_options){
		.buffer_size = 32 * MIB,
		.ring_size = 16 * MIB,
		.shm_size = SFS_SHM_DEFAULT,
		.hold_time = 2 * PR_NS_PER_S,
		.segment_age = PRL_SEGMENT_AGE_DEFAULT,
		.window = PRL_MATCH_WINDOW_DEFAULT,
		.snaplen = 262144,
		.ethertype = PR_ETHERTYPE_DEFAULT,
	};
	result = pr_options_parse(&program, o, argc, argv, &operand, err);
	if (result)
		return result;
	if (operand < argc)
		return pr_error_set(err,
			"what is \"%s\"? No operands are taken, see --help", argv[operand]);
	o->keys = pr_keys_dir(o->key_flag);
	return check(o, err) || default_name(o, err) ? -1 : 0;
}

void
prl_logger_options_free(struct prl_logger_options *o)
{
	pr_options_free(&program, o);
}
