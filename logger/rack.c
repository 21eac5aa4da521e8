/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "logger/daemon.h"
#include "logger/device.h"
#include "logger/logger.h"
#include "logger/node.h"
#include "logger/transmit.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/netdev.h"
#include "proto/wire/rack_key.h"

/* What a captured frame can be at most: libpcap's largest snap length. */
#define SNAPLEN 262144

struct rack {
	const struct pr_logger_options *o;
	struct sfs *sfs;
	struct pr_netdev dev;
	bool prepared;
	struct pr_frame_key key;
	struct pr_capture *capture;
	struct pr_transmit *transmit;
	struct pr_append *append;
	struct pr_node *node;
	struct pr_daemon *daemon;
	int64_t complained; /* about sending */
};

static void
send_frame(void *arg, struct pr_frame *frame)
{
	struct rack *r = arg;
	struct pr_error err;
	int64_t now = pr_now_mono();

	if (pr_transmit_send(r->transmit, frame, &err) == 0)
		return;
	if (r->complained && now - r->complained < 5 * PR_NS_PER_S)
		return;
	r->complained = now;
	pr_log_warning("%s: %s", r->o->rack, err.text);
}

static void
set_epoch(void *arg, uint64_t epoch)
{
	struct rack *r = arg;

	pr_capture_set_epoch(r->capture, epoch);
}

static int
identify(void *arg, uint32_t seconds)
{
	struct rack *r = arg;
	struct pr_error err;

	if (pr_device_identify(r->o->rack, seconds, &err) == 0)
		return 0;
	pr_log_warning("%s", err.text);
	return -1;
}

static int
reset(void *arg)
{
	struct rack *r = arg;
	struct pr_error err;

	pr_log_warning("told to delete all packets that are stored");
	if (pr_append_reset(r->append, &err) == 0)
		return 0;
	pr_log_error("cannot delete: %s", err.text);
	return -1;
}

static void
fill_report(void *arg, struct pr_status *status)
{
	struct rack *r = arg;
	struct pr_ring *ring = pr_capture_ring(r->capture);
	struct pr_disk disk = {0};

	if (r->daemon)
		pr_daemon_disk(r->daemon, &disk);
	status->disk_total = disk.total;
	status->disk_free = disk.free;
	status->write_rate = disk.rate;
	status->kernel_drops =
		pr_counter_get(&pr_capture_counters(r->capture)->kernel_drops);
	status->buffer_fill = (uint8_t)(100 * pr_ring_used(ring) / pr_ring_size(ring));
	status->state =
		pr_append_suspended(r->append) ? PR_NODE_SUSPENDED : PR_NODE_RUNNING;
}

static void
on_frame(void *arg, struct pr_capture_record *rec, int64_t now)
{
	struct rack *r = arg;

	pr_node_receive(r->node, rec, now);
}

static void
on_batch(void *arg, bool full, int64_t now)
{
	struct rack *r = arg;

	pr_node_run(r->node, full, now);
}

static void
on_tick(void *arg, int64_t now)
{
	struct rack *r = arg;

	pr_node_tick(r->node, now);
}

static void
on_stop(void *arg, int64_t now)
{
	struct rack *r = arg;

	pr_node_leave(r->node, now);
}

static bool
on_over(void *arg, int64_t now)
{
	struct rack *r = arg;

	return pr_node_left(r->node, now);
}

static void
report_bad(const struct pr_node_stats *stats, struct pr_report *report)
{
	uint64_t bad = 0;

	for (int i = PR_FRAME_BAD_LENGTH; i < PR_FRAME_RESULTS; i++)
		bad += stats->control_bad[i];
	pr_report_add(report, "control_bad", bad);
	pr_report_add(report, "control_bad_tag", stats->control_bad[PR_FRAME_BAD_TAG]);
	pr_report_add(report, "control_refused", stats->control_refused);
}

static void
on_report(void *arg, struct pr_report *report)
{
	struct rack *r = arg;
	struct pr_node_stats stats;
	struct pr_session_stats s;

	pr_node_get_stats(r->node, &stats);
	pr_node_get_totals(r->node, &s);
	report->mode = "rack";
	report->epoch = stats.epoch;
	pr_report_add(report, "connected", stats.connected);
	pr_report_add(report, "data_frames", stats.frames);
	pr_report_add(report, "foreign_frames", stats.foreign);
	pr_report_add(report, "unexpected_frames", stats.unexpected);
	report_bad(&stats, report);
	pr_report_add(report, "announced", stats.announced);
	pr_report_add(report, "statuses", stats.statuses);
	pr_report_add(report, "resends", stats.resends);
	pr_report_add(report, "ordinal_settled", stats.ordinal);
	pr_report_add(report, "matched", s.match.matched);
	pr_report_add(report, "missing", s.match.lost);
	pr_report_add(report, "strays", s.match.strays);
	pr_report_add(report, "late", s.match.late);
	pr_report_add(report, "duplicates", s.match.duplicates);
	pr_report_add(report, "searched", s.match.searched);
	pr_report_add(report, "pending", s.match.pending_frames);
	pr_report_add(report, "pending_entries", s.match.pending_entries);
	pr_report_add(report, "logs_received", s.match.logs);
	pr_report_add(report, "logs_requested", s.match.logs_requested);
	pr_report_add(report, "logs_gone", s.match.logs_gone);
	pr_report_add(report, "logs_bad", s.match.logs_bad);
	pr_report_add(report, "logs_repeated", s.match.logs_repeated);
	pr_report_add(report, "given_up_early", s.match.given_up_early);
	pr_report_add(report, "stashed", s.stashed);
}

static int
open_device(struct rack *r, struct pr_error *err)
{
	unsigned want = PR_NETDEV_DROP_INGRESS | PR_NETDEV_NO_IPV6 | PR_NETDEV_NO_MERGE;
	struct pr_error why;
	char text[128];

	if (pr_netdev_open(&r->dev, r->o->rack, err) || pr_netdev_check(&r->dev, err))
		return -1;
	r->prepared = true;
	if (pr_netdev_prepare(&r->dev, want, &why))
		pr_log_warning("%s: %s", r->o->rack, why.text);
	pr_netdev_describe(&r->dev, text, sizeof(text));
	if (*text)
		pr_log_info("%s: %s", r->o->rack, text);
	return 0;
}

static int
open_key(struct rack *r, struct pr_error *err)
{
	if (!r->o->keys)
		pr_log_warning("no keys: whoever is on the switch may speak as the "
			       "dispatcher (packrack-keys(7))");
	return pr_rack_key_read(r->o->keys, &r->key, err);
}

static int
open_capture(struct rack *r, struct pr_error *err)
{
	struct pr_capture_options options = {
		.ifname = r->o->rack,
		.buffer_size = r->o->buffer_size,
		.ring_size = r->o->ring_size,
		.snaplen = SNAPLEN,
		.rack = true,
		.ethertype = (uint16_t)r->o->ethertype,
	};

	memcpy(options.mac, r->dev.mac, sizeof(options.mac));
	r->capture = pr_capture_open(&options, err);
	return r->capture ? 0 : -1;
}

static void
fill_ann(const struct rack *r, struct pr_ann *ann)
{
	uint64_t ring = pr_ring_size(pr_capture_ring(r->capture));

	snprintf(ann->name, sizeof(ann->name), "%s", r->o->name);
	snprintf(ann->version, sizeof(ann->version), "%s", PACKRACK_VERSION);
	ann->link_speed = r->dev.speed;
	ann->mtu = r->dev.mtu;
	/* Half of what there is, so that what is being stored does not count against it. */
	ann->buffer_size = (ring < r->o->buffer_size ? ring : r->o->buffer_size) / 2;
}

static int
open_node(struct rack *r, struct pr_error *err)
{
	struct pr_node_config config = {
		.rack = (uint32_t)r->o->rack_id,
		.ethertype = (uint16_t)r->o->ethertype,
		.key = &r->key,
		.append = r->append,
		.ring = pr_capture_ring(r->capture),
		.send = send_frame,
		.epoch = set_epoch,
		.identify = identify,
		.reset = reset,
		.report = fill_report,
		.arg = r,
	};
	struct pr_ledger_boot boot = {.time = pr_now_real()};

	memcpy(config.mac, r->dev.mac, sizeof(config.mac));
	fill_ann(r, &config.ann);
	pr_match_defaults(&config.match);
	config.match.window = (uint32_t)r->o->window;
	config.match.hold_ns = r->o->hold_time;
	r->node = pr_node_create(&config, err);
	if (!r->node)
		return -1;
	boot.nonce = pr_node_nonce(r->node);
	snprintf(boot.name, sizeof(boot.name), "%s", r->o->name);
	pr_append_boot(r->append, &boot);
	return 0;
}

static int
rack_open(struct rack *r, struct pr_error *err)
{
	struct pr_append_options append = {.segment_age = r->o->segment_age};
	struct pr_daemon_calls calls = {
		on_frame, NULL, on_batch, on_tick, on_stop, on_over, on_report, r};

	if (open_key(r, err) || open_device(r, err) || open_capture(r, err))
		return -1;
	r->transmit = pr_transmit_open(
		r->o->rack, r->dev.mac, (uint16_t)r->o->ethertype, &r->key, err);
	if (r->transmit)
		r->append = pr_append_create(r->sfs, &append, err);
	if (!r->append || open_node(r, err))
		return -1;
	r->daemon = pr_daemon_create(r->o, r->sfs, r->append, r->capture, &calls, err);
	return r->daemon ? 0 : -1;
}

static void
rack_close(struct rack *r)
{
	pr_daemon_destroy(&r->daemon);
	pr_node_destroy(&r->node);
	pr_append_destroy(&r->append);
	pr_transmit_close(&r->transmit);
	pr_capture_close(&r->capture);
	if (r->prepared)
		pr_netdev_restore(&r->dev);
	pr_rack_key_forget(&r->key);
}

/* What is open is settled and stored before the last word. */
static int
rack_end(struct rack *r, int result, struct pr_error *err)
{
	const struct pr_append_counters *a = pr_append_counters(r->append);
	struct pr_session_stats s;
	struct pr_error own;

	pr_node_end(r->node, pr_now_mono());
	if (pr_append_flush(r->append, &own) && result == 0)
		result = pr_error_set(err, "%s", own.text);
	pr_node_get_totals(r->node, &s);
	pr_log_info("%llu packets stored, %llu missing, %llu strays",
		(unsigned long long)pr_counter_get(&a->packets_stored),
		(unsigned long long)s.match.lost,
		(unsigned long long)(s.match.strays + s.match.late));
	return result;
}

int
pr_logger_rack(struct sfs *sfs, const struct pr_logger_options *o, struct pr_error *err)
{
	struct rack r = {.o = o, .sfs = sfs};
	int result = rack_open(&r, err);

	if (result == 0) {
		pr_log_node(PR_LOG_INFO, o->name, "node \"%s\" on %s, announcing", o->name,
			o->rack);
		result = rack_end(&r, pr_daemon_run(r.daemon, err), err);
	}
	rack_close(&r);
	return result;
}
