/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/record_loop.h"
#include "logger/direct_link.h"
#include "proto/base/log.h"
#include "proto/port/netdev.h"

#define SAY_NS (100 * PR_NS_PER_MS)
#define QUIET_NS (5 * PR_CAPTURE_BLOCK_MS * PR_NS_PER_MS)
#define TIMESTAMP_SLACK PR_NS_PER_MS

struct tap {
	struct prl_capture *capture;
	struct prl_volume_writer *append;
	struct prl_direct_link monitor;
	int64_t said;
	const char *ifname, *name; /* of the interface, of the node */
	struct pr_carrier carrier;
	uint64_t packets; /* when it was last said */
	struct pr_ledger_port port;
	struct pr_clock_watch watch;
};

static void
on_packet(void *arg, int64_t time, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	struct tap *t = arg;

	prl_direct_link_packet(&t->monitor, time, data, caplen, len);
}

/* The ledger has the interface at first, and when something of its clock changes. */
static void
look_at_clock(struct tap *t)
{
	struct pr_clock was = t->port.clock;
	bool first = !t->watch.begun;
	struct pr_clock_reading now;

	if (!pr_clock_read(&now))
		return;
	pr_clock_look(&t->watch, &now, &t->port.clock);
	/* the journal takes nothing that says nothing */
	if (pr_port_valid(t->port.speed, &t->port.clock) &&
		(first || !pr_clock_equal(&was, &t->port.clock)))
		prl_writer_keep(t->append,
			&(struct pr_ledger_entry){PR_LEDGER_PORT, .u.port = t->port});
}

static void
say(struct tap *t, bool ended)
{
	const struct prl_capture_counters *c = &t->capture->counters;
	int64_t now = pr_now_real(), said;

	t->monitor.mark.link.dropped_kernel = pr_counter_get(&c->kernel_drops);
	t->monitor.mark.link.dropped_interface = pr_counter_get(&c->interface_drops);
	/*
	 * Packets that lie in the kernel's ring are newer than the last one that was taken; after a time without packets
	 * there are none from before.
	 */
	if (now > t->carrier.checked || !t->carrier.observing)
		pr_carrier_look(&t->carrier, pr_carrier_read(t->ifname),
			!prl_capture_failed(t->capture), now, &t->monitor.observation,
			t->name);
	look_at_clock(t);
	said = pr_capture_confirm(t->capture->port,
		t->monitor.packets == t->packets ? now - QUIET_NS
						 : t->monitor.last_time - TIMESTAMP_SLACK);
	t->packets = t->monitor.packets;
	if (ended) {
		pr_observation_lost(
			&t->monitor.observation, PR_UNOBSERVED_STOPPED, now, "");
		said = now;
	}
	prl_direct_link_say(&t->monitor, PR_MIN(said, now), ended);
}

static void
on_tick(void *arg, int64_t now)
{
	struct tap *t = arg;

	if (now - t->said < SAY_NS)
		return;
	t->said = now;
	say(t, false);
}

#define PR_COUNTED struct tap
static const struct pr_counter_row tap_rows[] = {
	PR_COUNTER_AS(monitor.mark.link.last_seq, "last_seq", "numbered_packets_total",
		"With --tap: packets that were given a number.")};

static void
on_report(void *arg, struct prl_report *r)
{
	const struct tap *t = arg;

	r->mode = "tap";
	r->epoch = t->monitor.mark.epoch;
	r->tables[r->table_count++] = PR_COUNTER_TABLE(tap_rows, t);
}

static int
tap_open(struct tap *t, struct sfs *sfs, const struct prl_options *o, struct pr_error *err)
{
	struct prl_capture_options capture = {.port = {.ifname = o->tap,
						      .buffer_size = o->buffer_size,
						      .snaplen = o->snaplen,
						      .promiscuous = true,
						      .both = o->both,
						      .timestamps = (uint8_t)o->timestamps},
		.ring_size = o->ring_size,
		.filter = o->filter,
		.direct = true};
	struct prl_writer_options append = {
		.segment_age = o->segment_age, .tick_ns = PRL_RECORD_LOOP_TICK_DIRECT};
	struct pr_netdev dev;
	int link = o->link;

	t->ifname = o->tap;
	t->name = o->name;
	if (link == PRL_LINK_BY_NAME)
		link = prl_direct_link_link_number(sfs, o->tap, 0, err);
	if (link < 0)
		return -1;
	if (!(t->capture = prl_capture_open(&capture, err)) ||
		!(t->append = prl_writer_create(sfs, &append, err)))
		return -1;
	prl_direct_link_begin(&t->monitor, t->append, pr_epoch_make(pr_now_real()), link,
		o->tap, pr_capture_linktype(t->capture->port),
		pr_capture_snaplen(t->capture->port));
	/* the pseudo-device "any" has no speed */
	t->port = (struct pr_ledger_port){t->monitor.mark.epoch, link,
		pr_netdev_open(&dev, o->tap, NULL) == 0 ? dev.speed : 0,
		{.timestamps = (uint8_t)o->timestamps}};
	look_at_clock(t);
	return 0;
}

int
prl_logger_tap(struct sfs *sfs, const struct prl_options *o, struct pr_error *err)
{
	struct tap t = {0};
	const struct prl_record_loop_calls calls = {
		.packet = on_packet, .tick = on_tick, .report = on_report, .arg = &t};
	struct prl_record_loop *daemon = NULL;
	struct pr_error own;
	int result = -1;

	if (tap_open(&t, sfs, o, err) == 0)
		daemon = prl_record_loop_create(o, sfs, t.append, t.capture, &calls, err);
	if (daemon) {
		pr_log_link(PR_LOG_INFO, o->tap, "recording %s as link %u", o->tap,
			t.monitor.mark.link.link);
		result = prl_record_loop_run(daemon, err);
		say(&t, true);
		if (prl_writer_flush(t.append, &own) && result == 0)
			result = pr_error_set(err, "%s", own.text);
		pr_log_info("%llu packets recorded, %llu dropped by the kernel",
			(unsigned long long)t.monitor.packets,
			(unsigned long long)t.monitor.mark.link.dropped_kernel);
	}
	prl_record_loop_destroy(&daemon);
	prl_writer_destroy(&t.append);
	prl_capture_close(&t.capture);
	return result;
}
