/* SPDX-License-Identifier: Apache-2.0 */

#include "logger/record_loop.h"
#include "logger/node.h"
#include "proto/base/log.h"
#include "proto/port/control.h"
#include "proto/wire/rack_key.h"

/* What a captured frame can be at most: libpcap's largest snap length. */
#define SNAPLEN 262144

struct rack {
	const struct prl_options *o;
	struct sfs *sfs;
	struct pr_netdev dev;
	bool prepared;
	struct pr_frame_key key;
	struct prl_capture *capture;
	struct pr_transmit *transmit;
	struct pr_control *control;
	struct prl_volume_writer *append;
	struct prl_node *node;
	struct prl_record_loop *daemon;
	int64_t complained; /* about sending */
	/* for reports */
	struct prl_node_stats stats;
	struct prl_session_stats totals;
	uint64_t control_bad;
};

static void
send_frame(void *arg, struct pr_frame *frame)
{
	struct rack *r = arg;
	struct pr_error err;
	int64_t now = pr_now_mono();

	if (pr_control_add(r->control, frame) == 0 && pr_control_flush(r->control) == 0)
		return;
	if (r->complained && now - r->complained < 5 * PR_NS_PER_S)
		return;
	r->complained = now;
	if (!pr_transmit_trouble(r->transmit, &err))
		pr_error_set(&err, "%s: its send queue is full", r->o->rack);
	pr_log_warning("a %s frame was not sent: %s",
		pr_frame_type_name(frame->header.type), err.text);
}

static void
set_epoch(void *arg, uint64_t epoch, bool whole)
{
	struct rack *r = arg;

	atomic_store(&r->capture->whole, whole);
	atomic_store(&r->capture->epoch, epoch);
}

static int
identify(void *arg, uint32_t seconds)
{
	struct rack *r = arg;
	struct pr_error err;

	if (pr_netdev_blink(r->o->rack, seconds, &err) == 0)
		return 0;
	pr_log_warning("%s", err.text);
	return -1;
}

static int
reset(void *arg)
{
	struct rack *r = arg;
	struct pr_error err;

	pr_log_warning("the dispatcher has ordered to delete all stored packets");
	if (prl_writer_reset(r->append, &err) == 0)
		return 0;
	pr_log_error("cannot delete: %s", err.text);
	return -1;
}

static void
fill_report(void *arg, struct pr_status *status)
{
	struct rack *r = arg;
	struct pr_ring *ring = r->capture->ring;

	if (r->daemon)
		prl_record_loop_disk(r->daemon, status);
	status->kernel_drops = pr_counter_get(&r->capture->counters.kernel_drops);
	status->buffer_fill = 100 * pr_ring_used(ring) / pr_ring_size(ring);
	status->state =
		prl_writer_suspend_reason(r->append) ? PR_NODE_SUSPENDED : PR_NODE_RUNNING;
}

#define PR_COUNTED struct rack
static const struct pr_counter_row rack_rows[] = {
	PR_GAUGE_OF(stats.connected, "connected",
		"1 when a dispatcher has admitted the node, else 0."),
	PR_COUNTER_OF(stats.frames, "data_frames", "Data frames of the dispatcher."),
	PR_COUNTER_OF(stats.foreign, "foreign_frames",
		"Frames that are not from the dispatcher of this rack."),
	PR_COUNTER_OF(stats.unexpected, "unexpected_frames",
		"Frames that came while no dispatcher had admitted the node."),
	PR_COUNTER_OF(stats.control_bad[PR_FRAME_BAD_TAG], "control_bad_tag_frames",
		"Of the bad, those whose tag does not fit the key of the rack."),
	PR_COUNTER_OF(stats.control_refused, "control_refused_frames",
		"Control frames in order but out of place: old numbers, other starts."),
	PR_COUNTER_OF(
		stats.announced, "announcements", "Times that the node announced itself."),
	PR_COUNTER_OF(stats.statuses, "statuses", "Statuses sent to the dispatcher."),
	PR_COUNTER_OF(
		stats.resends, "resends", "Requests for logs sent to the dispatcher."),
	PR_GAUGE_OF(stats.ordinal, "settled_ordinal",
		"Ordinal of the last frame of this admission that is stored or given up."),

	PR_COUNTER_OF(totals.match.matched, "matched_packets",
		"Frames matched with their entry in a timestamp log."),
	PR_COUNTER_OF(totals.match.lost, "missing_packets",
		"Entries of logs whose frame never came."),
	PR_COUNTER_OF(totals.match.strays, "stray_frames",
		"Frames that no timestamp log listed within the match timeout."),
	PR_COUNTER_OF(totals.match.late, "late_frames",
		"Frames that came after their entry had been given up."),
	PR_COUNTER_OF(
		totals.match.duplicates, "duplicate_frames", "Frames that came twice."),
	PR_COUNTER_OF(totals.match.searched, "searched_entries",
		"Entries matched by search, because order or count was not as sent."),
	PR_GAUGE_OF(totals.match.pending_frames, "pending_frames",
		"Frames that wait for their timestamp log."),
	PR_GAUGE_OF(totals.match.pending_entries, "pending_entries",
		"Entries of logs that wait for their frame."),
	PR_COUNTER_AS(totals.match.logs, "received_tslogs", "received_logs_total",
		"Timestamp logs received."),
	PR_COUNTER_AS(totals.match.logs_requested, "requested_tslogs",
		"requested_logs_total", "Timestamp logs asked for again."),
	PR_COUNTER_AS(totals.match.logs_gone, "gone_tslogs", "gone_logs_total",
		"Timestamp logs that the dispatcher no longer keeps."),
	PR_COUNTER_AS(totals.match.logs_bad, "bad_tslogs", "bad_logs_total",
		"Timestamp logs that cannot be read."),
	PR_COUNTER_AS(totals.match.logs_repeated, "repeated_tslogs", "repeated_logs_total",
		"Timestamp logs that came twice."),
	PR_COUNTER_OF(totals.match.given_up_early, "given_up_early_frames",
		"Frames given up before the match timeout because the buffer was full."),
	PR_COUNTER_OF(totals.stashed, "stashed_frames",
		"Frames copied out of the buffer to make room."),

	PR_COUNTER_OF(control_bad, "control_bad_frames",
		"Control frames that are damaged, of another version, or with a bad tag.")};

static void
on_report(void *arg, struct prl_report *report)
{
	struct rack *r = arg;

	prl_node_get_stats(r->node, &r->stats);
	prl_node_get_totals(r->node, &r->totals);
	r->control_bad = 0;
	for (int i = PR_FRAME_BAD_LENGTH; i < PR_FRAME_RESULTS; i++)
		r->control_bad += r->stats.control_bad[i];
	report->mode = "rack";
	report->epoch = r->stats.epoch;
	report->tables[report->table_count++] = PR_COUNTER_TABLE(rack_rows, r);
}

static int
open_capture(struct rack *r, struct pr_error *err)
{
	struct prl_capture_options options = {.port = {.ifname = r->o->rack,
						      .buffer_size = r->o->buffer_size,
						      .snaplen = SNAPLEN},
		.ring_size = r->o->ring_size,
		.rack = true,
		.ethertype = r->o->ethertype};

	if (!r->o->keys)
		pr_log_warning("no keys: any machine on the switch can act as the "
			       "dispatcher (packrack-keys(7))");
	if (pr_rack_key_read(r->o->keys, &r->key, err) ||
		pr_netdev_open(&r->dev, r->o->rack, err) || pr_netdev_check(&r->dev, err))
		return -1;
	r->prepared = true;
	pr_netdev_prepare(&r->dev);
	memcpy(options.mac, r->dev.mac, sizeof(options.mac));
	r->capture = prl_capture_open(&options, err);
	return r->capture ? 0 : -1;
}

static int
open_node(struct rack *r, struct pr_error *err)
{
	struct pr_ring *ring = r->capture->ring;
	uint64_t size = pr_ring_size(ring);
	struct prl_node_config config = {.rack = r->o->rack_id,
		.ethertype = r->o->ethertype,
		.key = &r->key,
		.append = r->append,
		.ring = ring,
		.send = send_frame,
		.epoch = set_epoch,
		.identify = identify,
		.reset = reset,
		.report = fill_report,
		.arg = r,
		.ann = {.version = PACKRACK_VERSION,
			.link_speed = r->dev.speed,
			.mtu = r->dev.mtu}};
	struct pr_ledger_entry boot = {
		.type = PR_LEDGER_BOOT, .u.boot = {.time = pr_now_real()}};

	memcpy(config.mac, r->dev.mac, sizeof(config.mac));
	PR_PRINT(config.ann.name, "%s", r->o->name);
	/* Half of the memory: the other half is for frames that are being stored. */
	config.ann.buffer_size = PR_MIN(size, r->o->buffer_size) / 2;
	prl_match_defaults(&config.match);
	config.match.window = r->o->window;
	config.match.hold_ns = r->o->hold_time;
	r->node = prl_node_create(&config, err);
	if (!r->node)
		return -1;
	boot.u.boot.nonce = prl_node_nonce(r->node);
	memcpy(boot.u.boot.name, config.ann.name, sizeof(boot.u.boot.name));
	prl_writer_keep(r->append, &boot);
	return 0;
}

static int
rack_open(struct rack *r, struct pr_error *err)
{
	const struct prl_writer_options append = {.segment_age = r->o->segment_age};
	struct prl_record_loop_calls calls = {.report = on_report, .arg = r};
	struct pr_transmit_config transmit = {.ifname = r->o->rack};

	if (open_capture(r, err))
		return -1;
	transmit.ifindex = r->dev.index;
	transmit.mtu = r->dev.mtu;
	if (!(r->transmit = pr_transmit_open(&transmit, err)) ||
		!(r->control = pr_control_open(
			  r->transmit, &r->dev, r->o->ethertype, &r->key, err)) ||
		!(r->append = prl_writer_create(r->sfs, &append, err)) || open_node(r, err))
		return -1;
	calls.node = r->node;
	r->daemon =
		prl_record_loop_create(r->o, r->sfs, r->append, r->capture, &calls, err);
	return r->daemon ? 0 : -1;
}

int
prl_logger_rack(struct sfs *sfs, const struct prl_options *o, struct pr_error *err)
{
	struct rack r = {.o = o, .sfs = sfs};
	struct prl_session_stats s;
	struct pr_error own;
	int result = rack_open(&r, err);

	if (result == 0) {
		const struct prl_writer_counters *a = prl_writer_counters(r.append);

		pr_log_node(PR_LOG_INFO, o->name, "node \"%s\" on %s, announcing", o->name,
			o->rack);
		result = prl_record_loop_run(r.daemon, err);
		/* Settles and stores what is open, then logs the totals. */
		prl_node_finish(r.node, pr_now_mono());
		if (prl_writer_flush(r.append, &own) && result == 0)
			result = pr_error_set(err, "%s", own.text);
		prl_node_get_totals(r.node, &s);
		pr_log_info("%llu packets stored, %llu missing, %llu strays",
			(unsigned long long)pr_counter_get(&a->packets_stored),
			(unsigned long long)s.match.lost,
			(unsigned long long)(s.match.strays + s.match.late));
	}
	prl_record_loop_destroy(&r.daemon);
	prl_node_destroy(&r.node);
	prl_writer_destroy(&r.append);
	pr_control_close(&r.control);
	pr_transmit_close(&r.transmit);
	prl_capture_close(&r.capture);
	if (r.prepared)
		pr_netdev_restore(&r.dev);
	pr_rack_key_forget(&r.key);
	return result;
}
