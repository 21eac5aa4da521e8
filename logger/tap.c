/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "logger/daemon.h"
#include "logger/logger.h"
#include "logger/monitor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/netdev.h"

#define SAY_NS (100 * PR_NS_PER_MS)

struct tap {
	struct pr_capture *capture;
	struct pr_append *append;
	struct pr_monitor monitor;
	int64_t said;
};

static void
on_packets(void *arg, struct pr_packet *packets, size_t count)
{
	struct tap *t = arg;

	pr_monitor_packets(&t->monitor, packets, count);
}

static void
on_frame(void *arg, struct pr_capture_record *rec, int64_t now)
{
	struct tap *t = arg;

	(void)now;
	pr_monitor_packet(&t->monitor, rec->time, rec->data, rec->caplen, rec->len);
}

static void
on_batch(void *arg, bool full, int64_t now)
{
	struct tap *t = arg;

	(void)full;
	(void)now;
	pr_ring_release(pr_capture_ring(t->capture));
}

static void
say(struct tap *t, bool ended)
{
	const struct pr_capture_counters *c = pr_capture_counters(t->capture);

	t->monitor.mark.link.dropped_kernel = pr_counter_get(&c->kernel_drops);
	t->monitor.mark.link.dropped_interface = pr_counter_get(&c->interface_drops);
	pr_monitor_say(&t->monitor, ended);
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

static void
on_stop(void *arg, int64_t now)
{
	(void)arg;
	(void)now;
}

static bool
on_over(void *arg, int64_t now)
{
	(void)arg;
	(void)now;
	return true;
}

static void
on_report(void *arg, struct pr_report *r)
{
	const struct tap *t = arg;

	r->mode = "tap";
	r->epoch = t->monitor.mark.epoch;
	pr_report_add(r, "last_seq", t->monitor.mark.link.last_seq);
}

static int
tap_open(struct tap *t, struct sfs *sfs, const struct pr_logger_options *o,
	struct pr_error *err)
{
	struct pr_capture_options capture = {
		.ifname = o->tap,
		.buffer_size = o->buffer_size,
		.ring_size = o->ring_size,
		.snaplen = (uint32_t)o->snaplen,
		.filter = o->filter,
		.promiscuous = true,
		.both = o->both,
		.direct = true,
	};
	struct pr_append_options append = {
		.segment_age = o->segment_age, .far_ticks = PR_DAEMON_TICK_DIRECT};
	struct pr_netdev dev;
	int link = (int)o->link;

	if (!o->link_set)
		link = pr_monitor_link_number(sfs, o->tap, err);
	if (link < 0)
		return -1;
	t->capture = pr_capture_open(&capture, err);
	if (!t->capture)
		return -1;
	t->append = pr_append_create(sfs, &append, err);
	if (!t->append)
		return -1;
	pr_monitor_begin(&t->monitor, t->append, pr_epoch_make(pr_now_real()),
		(uint16_t)link, o->tap, pr_capture_linktype(t->capture),
		pr_capture_snaplen(t->capture));
	/* "any" is no device of which to ask */
	if (pr_netdev_open(&dev, o->tap, NULL) == 0 && dev.speed)
		pr_append_port(t->append, t->monitor.mark.epoch,
			&(struct pr_port){(uint16_t)link, dev.speed});
	return 0;
}

static int
tap_run(struct tap *t, struct sfs *sfs, const struct pr_logger_options *o,
	struct pr_error *err)
{
	struct pr_daemon_calls calls = {
		on_frame, on_packets, on_batch, on_tick, on_stop, on_over, on_report, t};
	struct pr_daemon *daemon =
		pr_daemon_create(o, sfs, t->append, t->capture, &calls, err);
	struct pr_error own;
	int result;

	if (!daemon)
		return -1;
	pr_log_link(PR_LOG_INFO, o->tap, "recording %s as link %u", o->tap,
		t->monitor.mark.link.link);
	result = pr_daemon_run(daemon, err);
	say(t, true);
	if (pr_append_flush(t->append, &own) && result == 0)
		result = pr_error_set(err, "%s", own.text);
	pr_log_info("%llu packets recorded, %llu dropped by the kernel",
		(unsigned long long)t->monitor.packets,
		(unsigned long long)t->monitor.mark.link.dropped_kernel);
	pr_daemon_destroy(&daemon);
	return result;
}

int
pr_logger_tap(struct sfs *sfs, const struct pr_logger_options *o, struct pr_error *err)
{
	struct tap t = {0};
	int result = tap_open(&t, sfs, o, err);

	if (result == 0)
		result = tap_run(&t, sfs, o, err);
	pr_append_destroy(&t.append);
	pr_capture_close(&t.capture);
	return result;
}
