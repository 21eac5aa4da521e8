/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/dispatcher.h"

#include <event2/event.h>
#include <sodium.h>

#include "dispatcher/sender.h"
#include "proto/base/metrics_server.h"
#include "proto/port/parent.h"
#include "proto/rpc/option_rows.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/rack_key.h"

/* ---- options ---- */

#define PR_VALUES struct prd_options

static const char *const paths[] = {"packet", "auto", "xdp", NULL};
static const char *const paces[] = {"max", "recorded", NULL};

static const struct pr_option options[] = {
	PR_OPT_LIST(
		in, "in", 'i', "IFACE[,IFACE]", "capture this interface; each is a link"),
	PR_OPT_LIST(read, "read", 'r', "FILE", "read this pcap or pcapng file as a link"),
	PR_OPT_ENUM(pace, "pace", 0, "PACE", paces,
		"pace of --read: max, or recorded (as the timestamps)"),
	PR_OPT_STRING(out, "out", 'o', "IFACE", "the interface to the rack's switch"),
	PR_OPT_ENUM(path, "path", 0, "PATH", paths,
		"how packets of --in reach --out: packet, xdp, or auto (xdp if it is "
		"possible)"),
	PR_OPT_ENUM(spread, "spread", 0, "MODE", prd_spread_names,
		"round-robin, weighted or flow"),
	PR_OPT_UINT(copies, "copies", 0, "N", 1, 2,
		"number of nodes that each packet is sent to, 1 or 2", .def = "1"),
	PR_OPT_UINT(snaplen, "snaplen", 's', "BYTES", 1, 262144,
		"keep at most this many bytes of a packet", .def = "262144"),
	PR_OPT_ENUM(timestamps, "timestamp", 0, "SOURCE", pr_timestamp_names,
		"with --in: host, adapter, adapter-unsynced, or trailer of a tap "
		"aggregator"),
	PR_OPT_STRING(filter, "filter", 0, "FILTER",
		"record only packets that match, in pcap-filter syntax", .aliases = {"f"}),
	PR_OPT_LIST(classes, "class", 0, "CLASS",
		"keep only the first bytes of connections, as in 'bulk; filter=tcp port "
		"80; "
		"cutoff=15K'"),
	PR_OPT_SIZE(class_memory, "class-memory", 0, "SIZE", 1 << 20, UINT64_C(16) << 30,
		"with --class: memory for the table of connections", .def = "128M"),
	PR_OPT_FLAG(shunt, "shunt", 0,
		"with --class: an XDP program of --in drops and counts packets beyond a "
		"cutoff"),
	PR_OPT_SIZE(ring_size, "capture-buffer", 'B', "SIZE", 1 << 20, 1 << 30,
		"kernel's capture buffer, for each --in", .def = "32M",
		.aliases = {"ring-size"}),
	PR_OPT_SIZE(buffer_size, "send-buffer", 0, "SIZE", 2 << 20, UINT64_C(16) << 30,
		"buffer between capture and sending, for each --in, a power of two",
		.def = "32M", .aliases = {"buffer-size"}),
	PR_OPT_SIZE(log_memory, "tslog-memory", 0, "SIZE", 1 << 20, UINT64_C(4) << 30,
		"memory for timestamp logs that nodes may request again", .def = "32M",
		.aliases = {"log-memory"}),
	PR_OPT_DURATION(log_age, "tslog-max-age", 0, "DURATION", PR_NS_PER_MS,
		1000 * PR_NS_PER_MS, "send a timestamp log at this age", .def = "50ms",
		.aliases = {"log-age"}),
	PR_OPT_DURATION(hold_time, "hold-time", 0, "DURATION", 100 * PR_NS_PER_MS,
		60 * PR_NS_PER_S, "keep sent timestamp logs for three times this long",
		.def = "2s"),
	PR_OPT_UINT(wait_nodes, "wait-nodes", 0, "N", 0, PRD_NODES_MAX,
		"start when this number of nodes have announced themselves", .def = "1",
		.aliases = {"n"}),
	PR_OPT_DURATION(wait_time, "wait-time", 0, "DURATION", 0,
		UINT64_C(86400) * PR_NS_PER_S,
		"stop waiting for nodes after this time (0: never)"),
	PR_OPTION_CANARY(no_canary,
		"with --in: each second, a packet on a link `canary` tests the rack"),
	PR_OPT_FLAG(allow_cut, "allow-truncation", 0,
		"start even if the MTU of --out is too small for --in: longer frames are "
		"truncated",
		.aliases = {"allow-cut"}),
	PR_OPT_FLAG(exit_after_read, "exit-after-read", 0,
		"with --read: exit when the nodes have stored everything"),
	PR_OPT_STRING(manage, "listen", 0, "ENDPOINT", "socket for status and commands",
		.def = PR_RPC_ENDPOINT_DISPATCHER, .aliases = {"manage"}),
	PR_OPTION_METRICS(metrics),
	PR_OPT_STRING(name, "name", 0, "NAME", "name of this dispatcher in status",
		.def = "dispatcher"),
	PR_OPTION_KEY(key_flag),
	PR_OPTIONS_RACK(rack_id, ethertype),
	PR_OPTION_USER(user),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {.name = "packrack-dispatcher",
	.section = "dispatcher",
	.summary = "captures links and distributes their packets over the nodes of a rack",
	.usage = "--in IFACE[,IFACE] | --read FILE... --out IFACE [options]",
	PR_OPTIONS(options),
	.footer = "Exit status: 0 done, 1 failed, or a trace file was not read to its end, "
		  "2 bad usage, configuration or filter."};

static int
split_interfaces(struct prd_options *o, struct pr_error *err)
{
	struct pr_string_list split = {0};
	int rc = 0;

	for (size_t i = 0; i < o->in.count && rc == 0; i++) {
		const char *in = o->in.items[i];

		if (!*in || *in == ',' || in[strlen(in) - 1] == ',' || strstr(in, ",,"))
			rc = pr_error_set(err,
				"--in %s: an interface name is missing between the commas",
				in);
	}
	if (rc < 0 || pr_string_list_split(&split, &o->in, err) < 0) {
		pr_string_list_clear(&split);
		return -1;
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

/* What does not go with --shunt; NULL: all does. */
static const char *
beyond_shunt(const struct prd_options *o)
{
	return o->classes.count == 0 ? "it needs a --class"
	       : o->read.count       ? "not with --read"
	       : o->filter           ? "not with --filter"
	       : o->timestamps       ? "not with --timestamp"
	       : o->path             ? "it needs --path packet"
				     : NULL;
}

static int
check(struct prd_options *o, struct pr_error *err)
{
	if (o->in.count == 0 && o->read.count == 0)
		return pr_error_set(
			err, "nothing to record: give --in IFACE or --read FILE");
	if (o->in.count > 0 && o->read.count > 0)
		return pr_error_set(err, "--in and --read cannot be used together: start "
					 "one dispatcher for each");
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
			"--ethertype 0x%04X is reserved for escaped frames: choose another",
			PR_ETHERTYPE_ESCAPE);
	if (strlen(o->name) > PR_NAME_MAX)
		return pr_error_set(err, "--name is longer than %d bytes", PR_NAME_MAX);
	if (pr_rpc_check_endpoint(o->manage, err) < 0)
		return pr_error_prefix(err, "--listen");
	if (o->metrics && pr_metrics_check_address(o->metrics, err) < 0)
		return -1;
	if (o->shunt && beyond_shunt(o))
		return pr_error_set(err, "--shunt: %s", beyond_shunt(o));
	return check_interfaces(o, err);
}

/* What a tag or two add to a frame beyond the MTU; AF_PACKET counts stacked ones. */
enum { TAGS = 8, OUT_MTU_MIN = 576 };

/* ---- the XDP path ---- */

/* What the XDP path cannot do; with auto also what it does no better: the dispatcher looks at each packet then. NULL: nothing. */
static const char *
beyond_xdp(const struct prd_options *o)
{
	bool chooses = o->path == PRD_PATH_AUTO;

	return o->read.count                 ? "--read"
	       : o->timestamps               ? "--timestamp"
	       : o->filter && chooses        ? "--filter"
	       : o->classes.count && chooses ? "--class"
					     : NULL;
}

/*
 * A program of XDP sees no tags that the card takes away before. With a limit, it gets all frames only if they, with two
 * tags, are not longer.
 */
static int
check_cards(const struct prd_options *o, uint32_t limit, struct pr_error *err)
{
	struct pr_netdev dev;

	for (size_t i = 0; i < o->in.count; i++) {
		if (pr_netdev_open(&dev, o->in.items[i], err) < 0)
			return pr_error_prefix(err, "--in");
		if (limit && dev.mtu + PR_ETHER_LEN + TAGS > limit)
			return pr_error_set(err,
				"--in %s: its MTU of %u is too large for XDP", dev.name,
				dev.mtu);
		if (pr_netdev_strips_tags(dev.name))
			return pr_error_set(err,
				"--in %s: the card takes VLAN tags off: 'ethtool -K %s "
				"rxvlan off'",
				dev.name, dev.name);
	}
	return 0;
}

/* Before privileges are dropped. */
static int
open_shunts(struct prd_options *o, struct pr_error *err)
{
	if (!o->shunt)
		return 0;
	if (check_cards(o, 0, err) == 0)
		o->shunts = pr_shunts_open(
			(const char *const *)o->in.items, (unsigned)o->in.count, err);
	if (!o->shunts)
		return pr_error_prefix(err, "--shunt");
	pr_log_info("shunting: %s", pr_shunts_mode(o->shunts));
	return 0;
}

/* Before privileges are dropped. 0: opened, or the packet path is used instead. */
static int
open_fast(struct prd_options *o, struct pr_error *err)
{
	if (o->path == PRD_PATH_PACKET)
		return 0;
	const char *beyond = beyond_xdp(o);
	int no = beyond ? pr_error_set(err, "%s goes by the packet path", beyond)
			: check_cards(o, PR_FAST_FRAME_MAX, err);
	if (no == 0)
		o->fast = pr_fast_open((const char *const *)o->in.items,
			(unsigned)o->in.count, o->out, o->buffer_size, o->copies, err);
	if (o->fast) {
		pr_log_info("path xdp: %s", pr_fast_mode(o->fast));
		return 0;
	}
	if (o->path == PRD_PATH_XDP)
		return pr_error_prefix(err, "--path xdp");
	pr_log_info("--path auto: the packet path is used: %s", err->text);
	return 0;
}

/* ---- the program ---- */

enum { EVENTS_RING = 1 << 20, REPLIES_RING = 1 << 17 };

struct dispatcher {
	struct prd_options options;
	struct pr_frame_key key;
	struct prd_inputs inputs;
	struct pr_netdev in[PRD_LINKS_MAX], out;
	unsigned in_count;
	struct pr_ring *events, *replies;
	struct pr_loop *loop;
	struct event *replies_event;
	struct pr_transmit *transmit;
	struct pr_control *control;
	struct prd_cutoff *cutoff;
	struct prd_sender *sender;
	struct prd_receiver *receiver;
	struct prd_receiver_counters received;
	struct prd_manage *manage;
	uint64_t epoch;
	int status;
	bool ending; /* told to end: when stopped, leave */
	struct pr_error why;
};

static int
check_mtu(const struct dispatcher *d, struct pr_error *err)
{
	if (d->out.mtu < OUT_MTU_MIN)
		return pr_error_set(err,
			"--out %s: its MTU of %u is too small: %d at least", d->out.name,
			d->out.mtu, OUT_MTU_MIN);
	for (unsigned i = 0; i < d->in_count; i++)
		if (d->out.mtu < d->in[i].mtu + TAGS && !d->options.allow_cut)
			return pr_error_set(err,
				"--out %s: its MTU of %u cannot carry all packets of %s "
				"(%u): 'ip link set %s mtu %u', here and on the nodes, or "
				"--allow-truncation",
				d->out.name, d->out.mtu, d->in[i].name, d->in[i].mtu,
				d->out.name, d->in[i].mtu + TAGS);
	return 0;
}

static int
look_at(struct pr_netdev *dev, const char *option, const char *name, struct pr_error *err)
{
	if (pr_netdev_open(dev, name, err) < 0 || pr_netdev_check(dev, err) < 0)
		return pr_error_prefix(err, "%s", option);
	return 0;
}

static void
on_stop(void *arg)
{
	struct dispatcher *d = arg;
	struct prd_event *event = pr_ring_reserve(d->events, sizeof *event);

	pr_log_info("stopping: nodes are told to flush (a second signal ends at once)");
	d->ending = true;
	if (!event) {
		pr_loop_break(d->loop);
		return;
	}
	memset(event, 0, sizeof *event);
	event->kind = PRD_EVENT_STOP;
	pr_ring_commit(d->events, sizeof *event);
	pr_ring_publish(d->events);
}

static void
on_reply(struct dispatcher *d, const struct prd_reply *reply)
{
	bool read = prd_inputs_at_end(&d->inputs);

	if (reply->kind == PRD_REPLY_DONE) {
		prd_manage_reply(d->manage, reply);
		return;
	}
	if (reply->kind == PRD_REPLY_FAILED || (read && !reply->ok)) {
		d->status = 1;
		pr_error_set(&d->why, "%s", reply->text);
	}
	if (reply->kind == PRD_REPLY_STOPPED && prd_inputs_broken(&d->inputs, &d->why)) {
		d->status = 1;
		pr_log_error("%s", d->why.text);
	}
	if (reply->kind == PRD_REPLY_FAILED || d->ending ||
		(read && d->options.exit_after_read))
		pr_loop_break(d->loop);
}

static void
on_replies(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct dispatcher *d = arg;
	struct prd_reply *reply;
	size_t len;

	do {
		while ((reply = pr_ring_next(d->replies, &len))) {
			on_reply(d, reply);
			pr_ring_release(d->replies);
		}
	} while (pr_ring_arm(d->replies));
}

static int
open_rings(struct dispatcher *d, struct pr_error *err)
{
	struct pr_loop_calls calls = {.stop = on_stop, .arg = d};

	d->events = pr_ring_create(EVENTS_RING, err);
	d->replies = d->events ? pr_ring_create(REPLIES_RING, err) : NULL;
	d->loop = d->replies ? pr_loop_create(&calls, err) : NULL;
	if (!d->loop)
		return -1;
	d->replies_event = event_new(pr_loop_base(d->loop), pr_ring_fd(d->replies),
		EV_READ | EV_PERSIST, on_replies, d);
	if (!d->replies_event || event_add(d->replies_event, NULL) < 0)
		return pr_error_set(err, "cannot watch for replies");
	pr_ring_arm(d->replies);
	return 0;
}

static int
open_out(struct dispatcher *d, struct pr_error *err)
{
	struct pr_transmit_config tx = {.ifname = d->out.name,
		.mtu = d->out.mtu,
		.ifindex = d->out.index,
		.xdp = true,
		.patience = d->options.read.count ? 10 * PR_NS_PER_S : 100 * PR_NS_PER_MS};

	d->transmit = pr_transmit_open(&tx, err);
	if (d->transmit)
		d->control = pr_control_open(
			d->transmit, &d->out, d->options.ethertype, &d->key, err);
	if (!d->control)
		return pr_error_prefix(err, "--out");
	d->receiver = prd_receiver_open(
		d->loop, &d->options, tx.ifindex, &d->key, d->events, &d->received, err);
	return d->receiver ? 0 : -1;
}

static int
open_sender(struct dispatcher *d, struct pr_error *err)
{
	struct prd_sender_config config = {.options = &d->options,
		.inputs = &d->inputs,
		.mtu = d->out.mtu,
		.nonce = pr_nonce_make()};

	PR_COPY(&config, d, transmit, control, cutoff, epoch, events, replies);
	memcpy(config.mac, d->out.mac, PR_MAC_LEN);
	d->sender = prd_sender_create(&config, err);
	if (d->sender)
		d->manage = prd_manage_open(d->loop, d->sender, &d->received, err);
	return d->manage ? 0 : -1;
}

static int
drop_privileges(const struct prd_options *o, struct pr_error *err)
{
	struct pr_grants g = {.sandbox = {PR_SANDBOX_DISPATCHER, o->user, {0}}};

	pr_grant_all(&g, PR_GRANT_INTERFACE, &o->in);
	pr_grant(&g, PR_GRANT_INTERFACE, o->out);
	pr_grant_all(&g, PR_GRANT_READ, &o->read);
	pr_grant(&g, PR_GRANT_KEYS, o->keys);
	pr_grant(&g, PR_GRANT_ENDPOINT, o->manage);
	return pr_privilege_drop(&g, err);
}

/* Everything that can be refused is opened before any thread runs or any interface changes. */
static int
set_up(struct dispatcher *d, struct pr_error *err)
{
	if (sodium_init() < 0)
		return pr_error_as(PRD_EXIT_FAILED, err, "libsodium does not start");
	if (pr_rack_key_read(d->options.keys, &d->key, err) < 0)
		return PRD_EXIT_USAGE;
	d->epoch = pr_epoch_make(pr_now_real());
	for (size_t i = 0; i < d->options.in.count; i++)
		if (look_at(&d->in[i], "--in", d->options.in.items[i], err) < 0)
			return PRD_EXIT_FAILED;
	if (look_at(&d->out, "--out", d->options.out, err) < 0)
		return PRD_EXIT_FAILED;
	if (d->options.fast)
		pr_fast_configure(d->options.fast, d->epoch, d->out.mac,
			d->options.ethertype, (uint32_t)d->options.snaplen,
			d->options.filter || d->options.classes.count);
	d->in_count = d->options.in.count;
	if (check_mtu(d, err) < 0)
		return PRD_EXIT_FAILED;
	struct prd_cutoff_options cutoff = {.classes = &d->options.classes,
		.memory = d->options.class_memory,
		.shunts = d->options.shunts,
		.links = (unsigned)(d->options.in.count + d->options.read.count)};
	if (cutoff.classes->count && !(d->cutoff = prd_cutoff_create(&cutoff, err)))
		return PRD_EXIT_USAGE;
	d->options.cuts = d->cutoff != NULL;
	int status = prd_inputs_open(&d->inputs, &d->options, err);
	if (status != 0)
		return status;
	if (open_rings(d, err) < 0 || open_out(d, err) < 0 || pr_sandbox_locked(err) < 0 ||
		open_sender(d, err) < 0)
		return PRD_EXIT_FAILED;
	return 0;
}

static int
run(struct dispatcher *d, struct pr_error *err)
{
	if (!d->key.set)
		pr_log_warning(
			"no keys in use: any machine on the switch can act as a node, and "
			"any client of %s can control the capture: see packrack-keys(7)",
			d->options.manage);
	/* Changes are made when all else has been found in order; until then nothing needs undoing. */
	pr_netdev_prepare(&d->out);
	for (unsigned i = 0; i < d->in_count; i++)
		pr_netdev_prepare(&d->in[i]);
	if (prd_sender_start_thread(d->sender, err) < 0 ||
		prd_inputs_start_threads(&d->inputs, err) < 0)
		return PRD_EXIT_FAILED;
	pr_log_info("epoch %016llx, %u links, rack interface %s; waiting for %llu nodes",
		(unsigned long long)d->epoch, d->inputs.link_count, d->out.name,
		(unsigned long long)d->options.wait_nodes);
	pr_notify("READY=1");
	if (pr_sandbox_seal(err) < 0 || pr_loop_run(d->loop, err) < 0)
		return PRD_EXIT_FAILED;
	pr_notify("STOPPING=1");
	if (d->status != 0)
		*err = d->why;
	return d->status;
}

int
prd_dispatcher_main(int argc, char **argv)
{
	static struct dispatcher all; /* too large for a stack */
	struct dispatcher *d = &all;
	struct pr_error err = {""};
	int status = pr_options_parse(&program, &d->options, argc, argv, NULL, &err);

	if (status == 0) {
		d->options.keys = pr_keys_dir(d->options.key_flag);
		status = split_interfaces(&d->options, &err) < 0 ? -1
								 : check(&d->options, &err);
	}
	if (status != 0) {
		status = status < 0 ? PRD_EXIT_USAGE : 0;
	} else {
		pr_log_open("packrack-dispatcher",
			d->options.verbose ? PR_LOG_DEBUG : PR_LOG_INFO,
			d->options.log_format);
		status = open_shunts(&d->options, &err) < 0 ||
					 open_fast(&d->options, &err) < 0 ||
					 drop_privileges(&d->options, &err) < 0
				 ? PRD_EXIT_FAILED
				 : set_up(d, &err);
		if (status == 0)
			status = run(d, &err);
	}
	if (d->replies_event)
		event_free(d->replies_event);
	prd_manage_close(&d->manage);
	prd_sender_destroy(&d->sender);
	prd_cutoff_destroy(&d->cutoff);
	prd_inputs_close(&d->inputs);
	pr_fast_close(&d->options.fast);
	pr_shunts_close(&d->options.shunts);
	prd_receiver_close(&d->receiver);
	pr_control_close(&d->control);
	pr_transmit_close(&d->transmit);
	pr_loop_destroy(&d->loop);
	pr_ring_destroy(&d->events);
	pr_ring_destroy(&d->replies);
	for (unsigned i = d->in_count; i-- > 0;)
		pr_netdev_restore(&d->in[i]);
	pr_netdev_restore(&d->out);
	pr_privilege_end();
	pr_rack_key_forget(&d->key);
	pr_options_free(&program, &d->options);
	if (status != 0)
		pr_log_last("packrack-dispatcher", err.text);
	return status;
}
