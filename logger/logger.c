/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/logger.h"

#include <unistd.h>

#include "logger/import.h"
#include "logger/record_loop.h"
#include "logger/timestamp_match.h"
#include "logger/streamfs/disk.h"
#include "proto/base/metrics_server.h"
#include "proto/base/privilege.h"
#include "proto/port/parent.h"
#include "proto/rpc/option_rows.h"

/* ---- options ---- */

#define PR_VALUES struct prl_options

static const struct pr_option table[] = {
	PR_OPT_STRING(rack, "rack", 0, "IFACE",
		"be a node of a rack, on this interface to its switch"),
	PR_OPT_STRING(
		tap, "tap", 0, "IFACE", "record this interface, without a dispatcher"),
	PR_OPT_LIST(read, "read", 'r', "FILE", "record a trace file"),
	PR_OPT_LIST(volume, "volume", 0, "PATH[,PATH]",
		"the volume to write: its file or devices"),
	PR_OPT_FLAG(degraded, "degraded", 0,
		"go on without devices of the volume that are missing or fail"),
	PR_OPT_STRING(name, "node-name", 0, "NAME", "name of this node",
		.def_note = "the host's name", .aliases = {"name"}),
	PR_OPT_SIZE(buffer_size, "capture-buffer", 'B', "SIZE", 1 << 16, 1 << 30,
		"size of the kernel's capture buffer", .def = "32M",
		.aliases = {"buffer-size"}),
	PR_OPT_SIZE(ring_size, "match-buffer", 0, "SIZE", 1 << 20, UINT64_C(1) << 34,
		"memory for frames that wait for their timestamp log", .def = "16M",
		.aliases = {"ring-size"}),
	PR_OPT_SIZE(shm_size, "shm-size", 0, "SIZE", 1 << 18, UINT64_C(1) << 40,
		"shared memory for the newest blocks"),
	PR_OPT_DURATION(hold_time, "hold-time", 0, "DURATION", 1000000,
		UINT64_C(60000000000), "how long a frame waits for its timestamp log",
		.def = "2s"),
	PR_OPT_UINT(window, "reorder-window", 0, "FRAMES", PRL_MATCH_WINDOW_MIN,
		PRL_MATCH_WINDOW_MAX, "frames; the switch may reorder by half of it"),
	PR_OPT_DURATION(segment_age, "segment-age", 0, "DURATION", 1000000,
		UINT64_C(60000000000), "longest time until a packet can be found"),
	PR_OPT_STRING(filter, "filter", 0, "FILTER",
		"with --tap: record only matching packets (pcap-filter(7))"),
	PR_OPT_UINT(snaplen, "snaplen", 0, "BYTES", 1, 262144,
		"with --tap: keep at most this many bytes of a packet", .def = "262144"),
	PR_OPT_ENUM(timestamps, "timestamp", 0, "SOURCE", pr_timestamp_names,
		"with --tap: host, adapter, adapter-unsynced, or trailer of a tap "
		"aggregator"),
	PR_OPT_FLAG(both, "both", 0, "with --tap: also record what this machine sends"),
	PR_OPT_UINT(link, "link-number", 0, "N", 0, PR_STREAM_CLASSES - 1,
		"with --tap, --read: number of the link", .def_note = "by its name",
		.aliases = {"link"}),
	PR_OPTION_KEY(key_flag),
	PR_OPTIONS_RACK(rack_id, ethertype),
	PR_OPT_STRING(manage, "listen", 0, "ENDPOINT", "endpoint for status",
		.aliases = {"manage"}),
	PR_OPTION_METRICS(metrics),
	PR_OPTION_USER(user),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {.name = "packrack-logger",
	.section = "logger",
	.summary = "stores packets in a StreamFS volume: a node of a rack, a tap, or trace "
		   "files",
	.usage = "--rack IFACE | --tap IFACE | --read FILE  --volume PATH[,PATH] [options]",
	PR_OPTIONS(table),
	.footer = "The volume is made by `packrack volume create PATH --size SIZE`.\n"
		  "Exit status: 0, 1 on failure, 2 on bad usage or configuration.\n"};

static int
check(struct prl_options *o, struct pr_error *err)
{
	int modes = (o->rack != NULL) + (o->tap != NULL) + (o->read.count > 0);

	if (modes != 1)
		return pr_error_set(err,
			"give one of --rack IFACE, --tap IFACE, --read FILE%s",
			modes ? ", not several" : "");
	if (o->volume.count == 0)
		return pr_error_set(err, "--volume PATH is missing: where to store (made "
					 "by `packrack volume create PATH --size SIZE`)");
	if (o->filter && !o->tap)
		return pr_error_set(
			err, "--filter needs --tap; in a rack the dispatcher has it");
	if (o->name && (!*o->name || strlen(o->name) > PR_NAME_MAX))
		return pr_error_set(
			err, "--node-name \"%s\": 1 to %d bytes", o->name, PR_NAME_MAX);
	if (o->metrics && o->read.count)
		return pr_error_set(
			err, "--metrics is for --rack and --tap: --read ends by itself");
	if (o->metrics && pr_metrics_check_address(o->metrics, err))
		return -1;
	if (o->ethertype == PR_ETHERTYPE_ESCAPE)
		return pr_error_set(err,
			"--ethertype 0x%x is reserved for escaped frames: choose another",
			PR_ETHERTYPE_ESCAPE);
	return 0;
}

/* 0; 1: help or version was printed; -1: bad usage or configuration, exit status 2. */
static int
parse(struct prl_options *o, int argc, char **argv, struct pr_error *err)
{
	struct pr_string_list devices = {0};
	char host[PR_NAME_MAX + 1] = "";

	*o = (struct prl_options){.shm_size = SFS_SHM_DEFAULT,
		.segment_age = PRL_SEGMENT_AGE_DEFAULT,
		.window = PRL_MATCH_WINDOW_DEFAULT,
		.link = PRL_LINK_BY_NAME};
	int result = pr_options_parse(&program, o, argc, argv, NULL, err);
	if (result)
		return result;
	o->keys = pr_keys_dir(o->key_flag);
	/* "a,b" is two devices */
	result = pr_string_list_split(&devices, &o->volume, err);
	pr_string_list_clear(&o->volume);
	o->volume = devices;
	if (result || check(o, err))
		return -1;
	if (o->name)
		return 0;
	if (gethostname(host, sizeof(host) - 1) || !*host)
		PR_PRINT(host, "logger");
	o->name = strdup(host);
	return o->name ? 0 : pr_error_set(err, "no memory");
}

/* ---- running ---- */

static bool
show_progress(void *arg, const struct prl_import_stats *s)
{
	int64_t *shown = arg, now = pr_now_mono();

	if (now - *shown >= PR_NS_PER_S && s->size) {
		*shown = now;
		fprintf(stderr, "\r%" PRIu64 " packets, %" PRIu64 " %% ", s->packets,
			100 * s->offset / s->size);
	}
	return true;
}

static int
prl_logger_read(struct sfs *sfs, const struct prl_options *o, struct pr_error *err)
{
	bool terminal = isatty(STDERR_FILENO);
	int64_t shown = pr_now_mono() + PR_NS_PER_S;

	for (size_t i = 0; i < o->read.count; i++) {
		struct prl_import_options options = {.link = o->link};
		struct prl_import_stats stats;
		int result = prl_import_file(sfs, o->read.items[i], &options,
			terminal ? show_progress : NULL, &shown, &stats, err);

		if (terminal && shown > pr_now_mono())
			fputc('\n', stderr);
		if (result)
			return -1;
		pr_log_info("%s: %" PRIu64 " packets stored as link %u", o->read.items[i],
			stats.stored, stats.link);
		if (stats.secrets)
			pr_log_warning(
				PRL_SECRETS_LEFT_OUT, o->read.items[i], stats.secrets);
	}
	return 0;
}

static int
drop_privileges(const struct prl_options *o, struct pr_error *err)
{
	struct pr_grants g = {.sandbox = {PR_SANDBOX_LOGGER, o->user, {0}}};

	pr_grant(&g, PR_GRANT_INTERFACE, o->rack);
	pr_grant(&g, PR_GRANT_INTERFACE, o->tap);
	pr_grant_all(&g, PR_GRANT_WRITE, &o->volume);
	pr_grant_all(&g, PR_GRANT_READ, &o->read);
	pr_grant(&g, PR_GRANT_KEYS, o->keys);
	pr_grant(&g, PR_GRANT_ENDPOINT, o->manage);
	sfs_open_file = pr_privilege_open;
	return pr_privilege_drop(&g, err);
}

static int
run(const struct prl_options *o, struct pr_error *err)
{
	struct sfs_open_options options = {.writer = true,
		.shm_bytes = o->shm_size,
		.one_thread = true,
		.degraded = o->degraded};
	const char *first = o->volume.items[0];
	int result;

	if (o->volume.count == 1 && access(first, F_OK))
		return pr_error_set(err,
			"volume %s does not exist: make it by `packrack volume create %s "
			"--size SIZE`",
			first, first);
	if (drop_privileges(o, err) < 0)
		return -1;
	struct sfs *sfs = sfs_open(
		(const char *const *)o->volume.items, o->volume.count, &options, err);
	if (!sfs)
		return -1;
	if (pr_sandbox_locked(err) < 0)
		result = -1;
	else if (o->rack)
		result = prl_logger_rack(sfs, o, err);
	else if (o->tap)
		result = prl_logger_tap(sfs, o, err);
	else
		result = prl_logger_read(sfs, o, err);
	sfs_close(&sfs);
	pr_privilege_end();
	return result;
}

int
prl_logger_main(int argc, char **argv)
{
	struct prl_options o;
	struct pr_error err = {0};
	int result = parse(&o, argc, argv, &err), status = 0;

	pr_log_open(
		"packrack-logger", o.verbose ? PR_LOG_DEBUG : PR_LOG_INFO, o.log_format);
	if (result < 0) {
		pr_log_error("%s", err.text);
		status = 2;
	} else if (result == 0 && run(&o, &err)) {
		pr_log_error("%s", err.text);
		status = 1;
	}
	pr_options_free(&program, &o);
	return status;
}
