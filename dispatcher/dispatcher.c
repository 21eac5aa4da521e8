/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/dispatcher.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/inputs.h"
#include "dispatcher/manage.h"
#include "dispatcher/options.h"
#include "dispatcher/oport.h"
#include "dispatcher/send.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/loop.h"
#include "proto/port/netdev.h"
#include "proto/wire/rack_key.h"

enum { EVENTS_RING = 1 << 20, REPLIES_RING = 1 << 17 };
/* What a tag or two add to a frame beyond the MTU; AF_PACKET counts stacked ones. */
enum { TAGS = 8, OUT_MTU_MIN = 576 };

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
	struct prd_sender *sender;
	struct prd_oport *oport;
	struct prd_manage *manage;
	uint64_t epoch;
	uint32_t nonce;
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
			(unsigned)d->out.mtu, OUT_MTU_MIN);
	for (unsigned i = 0; i < d->in_count; i++)
		if (d->out.mtu < d->in[i].mtu + TAGS && !d->options.allow_cut)
			return pr_error_set(err,
				"--out %s: its MTU of %u cannot carry all packets of %s "
				"(%u): 'ip link set %s mtu %u', here and on the nodes, or "
				"--allow-cut",
				d->out.name, (unsigned)d->out.mtu, d->in[i].name,
				(unsigned)d->in[i].mtu, d->out.name,
				(unsigned)d->in[i].mtu + TAGS);
	return 0;
}

static int
look_at(struct pr_netdev *dev, const char *option, const char *name, struct pr_error *err)
{
	if (pr_netdev_open(dev, name, err) < 0 || pr_netdev_check(dev, err) < 0)
		return pr_error_prefix(err, "%s", option);
	return 0;
}

static int
open_devices(struct dispatcher *d, struct pr_error *err)
{
	for (size_t i = 0; i < d->options.in.count; i++)
		if (look_at(&d->in[i], "--in", d->options.in.items[i], err) < 0)
			return -1;
	if (look_at(&d->out, "--out", d->options.out, err) < 0)
		return -1;
	d->in_count = (unsigned)d->options.in.count;
	return check_mtu(d, err);
}

/* Changes are made when all else has been found in order; until then nothing needs undoing. */
static void
prepare_devices(struct dispatcher *d)
{
	pr_netdev_prepare(&d->out);
	for (unsigned i = 0; i < d->in_count; i++)
		pr_netdev_prepare(&d->in[i]);
}

static void
post_stop(struct dispatcher *d)
{
	struct prd_event *event = pr_ring_reserve(d->events, sizeof *event);

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
on_stop(void *arg)
{
	struct dispatcher *d = arg;

	pr_log_info("stopping: nodes are told to flush (a second signal ends at once)");
	d->ending = true;
	post_stop(d);
}

static void
on_stopped(struct dispatcher *d, const struct prd_reply *reply)
{
	bool read = prd_inputs_at_end(&d->inputs);

	if (prd_inputs_broken(&d->inputs, &d->why)) {
		d->status = 1;
		pr_log_error("%s", d->why.text);
	} else if (read && !reply->ok) {
		d->status = 1;
		pr_error_set(&d->why, "%s", reply->text);
	}
	if (d->ending || (read && d->options.exit_after_read))
		pr_loop_break(d->loop);
}

static void
on_reply(struct dispatcher *d, const struct prd_reply *reply)
{
	switch (reply->kind) {
	case PRD_REPLY_DONE:
		prd_manage_reply(d->manage, reply);
		break;
	case PRD_REPLY_STOPPED:
		on_stopped(d, reply);
		break;
	case PRD_REPLY_FAILED:
		d->status = 1;
		pr_error_set(&d->why, "%s", reply->text);
		pr_loop_break(d->loop);
		break;
	}
}

static void
on_replies(evutil_socket_t fd, short what, void *arg)
{
	struct dispatcher *d = arg;
	struct prd_reply *reply;
	size_t len;

	(void)fd;
	(void)what;
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
		.ifindex = (int)d->out.index,
		.xdp = true,
		.patience = d->options.read.count ? 10 * PR_NS_PER_S : 100 * PR_NS_PER_MS};
	struct prd_oport_config rx = {.ifname = d->out.name,
		.ifindex = (int)d->out.index,
		.ethertype = (uint16_t)d->options.ethertype,
		.rack = (uint32_t)d->options.rack_id,
		.key = &d->key,
		.events = d->events};

	d->transmit = pr_transmit_open(&tx, err);
	if (!d->transmit)
		return pr_error_prefix(err, "--out");
	d->control = pr_control_open(
		d->transmit, &d->out, (uint16_t)d->options.ethertype, &d->key, err);
	if (!d->control)
		return pr_error_prefix(err, "--out");
	d->oport = prd_oport_open(d->loop, &rx, err);
	return d->oport ? 0 : -1;
}

static int
open_sender(struct dispatcher *d, struct pr_error *err)
{
	struct prd_sender_config config = {.options = &d->options,
		.inputs = &d->inputs,
		.transmit = d->transmit,
		.control = d->control,
		.mtu = d->out.mtu,
		.epoch = d->epoch,
		.nonce = d->nonce,
		.events = d->events,
		.replies = d->replies};
	struct prd_manage_config manage = {.endpoint = d->options.manage,
		.metrics = d->options.metrics,
		.keys = d->options.keys,
		.inputs = &d->inputs,
		.oport = d->oport,
		.events = d->events,
		.epoch = d->epoch};

	memcpy(config.mac, d->out.mac, PR_MAC_LEN);
	d->sender = prd_sender_create(&config, err);
	if (!d->sender)
		return -1;
	manage.sender = d->sender;
	d->manage = prd_manage_open(d->loop, &manage, err);
	return d->manage ? 0 : -1;
}

/* Everything that can be refused is opened before any thread runs or any interface changes. */
static int
set_up(struct dispatcher *d, struct pr_error *err)
{
	int status;

	if (sodium_init() < 0) {
		pr_error_set(err, "libsodium does not start");
		return PRD_EXIT_FAILED;
	}
	if (pr_rack_key_read(d->options.keys, &d->key, err) < 0)
		return PRD_EXIT_USAGE;
	d->epoch = pr_epoch_make(pr_now_real());
	d->nonce = pr_nonce_make();
	if (open_devices(d, err) < 0)
		return PRD_EXIT_FAILED;
	status = prd_inputs_open(&d->inputs, &d->options, err);
	if (status != 0)
		return status;
	if (open_rings(d, err) < 0 || open_out(d, err) < 0 || open_sender(d, err) < 0)
		return PRD_EXIT_FAILED;
	return 0;
}

static void
tear_down(struct dispatcher *d)
{
	if (d->replies_event)
		event_free(d->replies_event);
	prd_manage_close(&d->manage);
	prd_sender_destroy(&d->sender);
	prd_inputs_close(&d->inputs);
	prd_oport_close(&d->oport);
	pr_control_close(&d->control);
	pr_transmit_close(&d->transmit);
	pr_loop_destroy(&d->loop);
	pr_ring_destroy(&d->events);
	pr_ring_destroy(&d->replies);
	for (unsigned i = d->in_count; i-- > 0;)
		pr_netdev_restore(&d->in[i]);
	pr_netdev_restore(&d->out);
	pr_rack_key_forget(&d->key);
	prd_options_free(&d->options);
}

static int
run(struct dispatcher *d, struct pr_error *err)
{
	if (!d->key.set)
		pr_log_warning("no keys: whoever is on the switch may speak as a node, and "
			       "whoever reaches %s may steer (packrack-keys(7))",
			d->options.manage);
	prepare_devices(d);
	if (prd_sender_start_thread(d->sender, err) < 0 ||
		prd_inputs_start_threads(&d->inputs, err) < 0)
		return PRD_EXIT_FAILED;
	pr_log_info("epoch %016llx, %u links, o-port %s; waiting for %llu nodes",
		(unsigned long long)d->epoch, d->inputs.link_count, d->out.name,
		(unsigned long long)d->options.wait_nodes);
	pr_notify("READY=1");
	if (pr_loop_run(d->loop, err) < 0)
		return PRD_EXIT_FAILED;
	pr_notify("STOPPING=1");
	if (d->status != 0)
		*err = d->why;
	return d->status;
}

int
prd_dispatcher_main(int argc, char **argv, struct pr_error *err)
{
	struct dispatcher *d = calloc(1, sizeof *d);
	int status;

	if (!d) {
		pr_error_set(err, "no memory");
		return PRD_EXIT_FAILED;
	}
	status = prd_options_parse(&d->options, argc, argv, err);
	if (status != 0) {
		prd_options_free(&d->options);
		free(d);
		return status < 0 ? PRD_EXIT_USAGE : 0;
	}
	pr_log_open("packrack-dispatcher", d->options.verbose ? PR_LOG_DEBUG : PR_LOG_INFO);
	pr_log_set_format(d->options.log_format);
	status = set_up(d, err);
	if (status == 0)
		status = run(d, err);
	tear_down(d);
	free(d);
	return status;
}
