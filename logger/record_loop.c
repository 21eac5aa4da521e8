/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/record_loop.h"

#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>

#include "logger/node.h"
#include "logger/writer_socket.h"
#include "proto/base/sandbox.h"
#include "proto/base/log.h"
#include "proto/base/metrics_server.h"
#include "proto/base/thread.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status.h"

#define VALUES_MAX 64

/*
 * Period of ticks, except for direct captures. Short, because in a rack packets also wait
 * for their timestamp log.
 */
#define TICK_NS (10 * PR_NS_PER_MS)
/*
 * A direct capture's ring must not fill up between two ticks: after this share of it, the
 * next tick comes sooner.
 */
#define TICK_SOON_NS (20 * PR_NS_PER_MS)
#define SOON_SHARE 4
#define NOTE_NS (500 * PR_NS_PER_MS)
/* Records handled before the loop gets a turn: signals and timers must not starve. */
enum { ROUND = 4096, BATCH = 256, DIRECT_ROUNDS = 8 };
#define DRAIN 4096 /* batches */
/* A tick reads what came; from this share of the buffer on, the loop is woken before. */
#define WAKE_SHARE 8

struct prl_record_loop {
	const struct prl_options *o;
	struct sfs *sfs;
	struct prl_volume_writer *append;
	struct prl_capture *capture;
	struct prl_record_loop_calls calls;
	struct pr_loop *loop;
	struct pr_timer *timer;
	struct event *readable, *again;
	struct pr_rpc *manage;
	struct pr_metrics_server *metrics;
	struct prl_writer_socket *door;
	bool stopping, suspended;
	struct prl_stall_clock patience;
	int64_t noted, ticked, tick_ns;
	uint32_t devices_lost; /* lost devices of the volume that were logged */
	uint64_t rated_bytes, rate;
};

/* The time for the calls: without stalls for the disk or management requests. */
static int64_t
patience(struct prl_record_loop *d)
{
	return prl_stall_clock_now(&d->patience, pr_now_mono());
}

/* One batch. false: there is nothing left. */
static bool
take_batch(struct prl_record_loop *d, int64_t now)
{
	struct pr_ring *ring = d->capture->ring;
	struct prl_capture_record *rec = NULL;
	struct prl_node *node = d->calls.node;
	size_t len;

	if (!ring)
		return prl_capture_take(d->capture, BATCH, d->calls.packet, d->calls.arg) ==
		       BATCH;
	for (unsigned i = 0; i < BATCH && (rec = pr_ring_next(ring, &len)); i++)
		if (node)
			prl_node_receive(node, rec, now);
		else
			d->calls.packet(
				d->calls.arg, rec->time, rec->data, rec->caplen, rec->len);
	if (node)
		prl_node_run(node, !rec && atomic_load(&d->capture->waiting), now);
	else
		pr_ring_release(ring);
	return rec != NULL;
}

static void
tick(struct prl_record_loop *d, int64_t now)
{
	d->ticked = now;
	if (d->calls.node)
		prl_node_tick(d->calls.node, now);
	else
		d->calls.tick(d->calls.arg, now);
	prl_writer_tick(d->append, pr_now_mono());
}

/*
 * Takes records, for as long as the loop may wait. true: there may be more; false: none
 * now, the ring is armed or the next tick takes them.
 */
static bool
take_round(struct prl_record_loop *d)
{
	struct pr_ring *ring = d->capture->ring;

	for (unsigned i = 0; i < ROUND / BATCH; i++) {
		int64_t now = patience(d);

		if (now - d->ticked >= d->tick_ns)
			tick(d, now);
		if (!take_batch(d, now) && (!ring || !pr_ring_arm(ring)))
			return false;
	}
	return true;
}

static void
on_readable(PR_UNUSED evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct prl_record_loop *d = arg;

	if (take_round(d))
		event_active(d->again, EV_READ, 0);
}

/*
 * First takes the packets of a direct capture, so that they need not wait for the next
 * tick.
 */
static void
tick_direct(struct prl_record_loop *d)
{
	const pr_counter *bytes = &d->capture->counters.bytes_received;
	uint64_t before = pr_counter_get(bytes);
	int64_t wanted = PRL_RECORD_LOOP_TICK_DIRECT;
	bool more = true;

	d->ticked = patience(d);
	for (unsigned i = 0; i < DIRECT_ROUNDS && more; i++)
		more = take_round(d);
	tick(d, patience(d));
	if (more)
		event_active(d->again, EV_READ, 0);
	if (pr_counter_get(bytes) - before > d->o->buffer_size / SOON_SHARE)
		wanted = TICK_SOON_NS;
	if (wanted != d->tick_ns)
		pr_timer_every(d->timer, wanted);
	d->tick_ns = wanted;
}

#define PR_COUNTED struct prl_capture_counters
static const struct pr_counter_row capture_rows[] = {
	PR_COUNTER_OF(
		frames_received, "received_frames", "Frames received, data and control."),
	PR_COUNTER_OF(bytes_received, "received_bytes", "Bytes of the frames received."),
	PR_COUNTER_OF(
		control_received, "control_received_frames", "Control frames received."),
	PR_METRIC(kernel_drops, "dropped_kernel", PR_COUNTER, "dropped_frames_total",
		PR_ONE, "place=\"kernel\",reason=\"ring_full\"",
		"Frames lost before the logger saw them, by place and reason."),
	PR_METRIC(interface_drops, "dropped_interface", PR_COUNTER, "dropped_frames_total",
		PR_ONE, "place=\"interface\",reason=\"card_or_backlog\"",
		"Frames lost before the logger saw them, by place and reason."),
	PR_COUNTER_OF(unstamped, "unstamped_frames",
		"With --tap: frames without a usable time of the source that --timestamp "
		"names: they have the kernel's."),
	PR_COUNTER_OF(buffer_waits, "buffer_waits",
		"Times that receiving waited for room in the buffer.")};
#undef PR_COUNTED

#define PR_COUNTED struct prl_writer_counters
static const struct pr_counter_row append_rows[] = {
	PR_COUNTER_OF(packets_stored, "stored_packets", "Packets given to the volume."),
	PR_COUNTER_OF(bytes_stored, "stored_bytes", "Bytes given to the volume."),
	PR_COUNTER_OF(packets_durable, "durable_packets", "Packets that are on the disk."),
	PR_COUNTER_OF(segments_stored, "stored_segments",
		"Batches of packets given to the volume."),
	PR_COUNTER_OF(strays_stored, "stored_strays",
		"Frames without a timestamp log, stored as strays."),
	PR_METRIC(lost_write, "lost_write", PR_COUNTER, "lost_packets_total", PR_ONE,
		"place=\"volume\",reason=\"write_failed\"",
		"Packets lost after they were received, by place and reason."),
	PR_COUNTER_OF(write_errors, "write_errors", "Failures of the disk or the volume."),
	PR_COUNTER_OF(ledger_refused, "ledger_refused",
		"Entries of the ledger that the volume did not take."),
	PR_COUNTER_OF(index_records, "index_records",
		"Records of the index stored for the indexer."),
	PR_COUNTER_OF(index_bytes, "index_bytes", "Bytes of the records of the index.")};

static void
make_report(void *arg, struct prl_report *r)
{
	struct prl_record_loop *d = arg;

	r->name = d->o->name;
	r->trouble = prl_writer_suspend_reason(d->append);
	r->state = r->trouble ? "suspended" : d->stopping ? "stopping" : "running";
	r->tables[0] = PR_COUNTER_TABLE(capture_rows, &d->capture->counters);
	r->tables[1] = PR_COUNTER_TABLE(append_rows, prl_writer_counters(d->append));
	r->table_count = 2;
	d->calls.report(d->calls.arg, r);
}

/*
 * Writes the counters to the volume's note, as JSON. A name that is not UTF-8 is left out,
 * so that the rest can be written.
 */
static void
note(struct prl_record_loop *d)
{
	struct prl_report r = {0};
	char text[SFS_NOTE_BYTES], epoch[24];
	json_t *root = json_object();

	make_report(d, &r);
	PR_PRINT(epoch, "%016" PRIx64, r.epoch);
	json_object_set_new(root, "mode", json_string(r.mode));
	json_object_set_new(root, "name", json_string(r.name));
	json_object_set_new(root, "state", json_string(r.state));
	json_object_set_new(root, "trouble", json_string(r.trouble));
	json_object_set_new(root, "epoch", json_string(epoch));
	for (size_t i = 0; i < r.table_count; i++)
		for (size_t j = 0; j < r.tables[i].count; j++) {
			const struct pr_counter_row *row = &r.tables[i].rows[j];
			uint64_t number = pr_counter_read(row, r.tables[i].base);

			json_object_set_new(root, row->name,
				json_integer((json_int_t)(number & INT64_MAX)));
		}
	size_t len = json_dumpb(root, text, sizeof(text) - 1, JSON_COMPACT);
	json_decref(root);
	if (len == 0 || len >= sizeof(text))
		return;
	text[len] = '\0';
	sfs_note_set(d->sfs, text);
}

/* Twice a second: computes the write rate, logs lost devices, writes the note. */
static void
look_around(struct prl_record_loop *d, int64_t now)
{
	uint64_t bytes = pr_counter_get(&prl_writer_counters(d->append)->bytes_stored);
	uint64_t ms = (uint64_t)(now - d->noted) / PR_NS_PER_MS;
	struct sfs_volume_info info = {0};
	char text[400];

	if (d->noted && ms)
		d->rate = (bytes - d->rated_bytes) * 1000 / ms;
	d->noted = now;
	d->rated_bytes = bytes;
	if (sfs_info(d->sfs, &info, NULL) == SFS_OK &&
		info.devices_lost != d->devices_lost) {
		d->devices_lost = info.devices_lost;
		if (sfs_losses(d->sfs, text, sizeof(text)))
			pr_log_warning("%s", text);
	}
	note(d);
}

/* Asks the recorder to stop; true: it has stopped. */
static bool
may_end(struct prl_record_loop *d)
{
	return !d->calls.node || prl_node_quit(d->calls.node, patience(d));
}

static void
on_tick(void *arg)
{
	struct prl_record_loop *d = arg;
	int64_t now = pr_now_mono();

	if (!d->capture->ring) {
		tick_direct(d);
	} else {
		tick(d, patience(d));
		/*
		 * The buffer may have filled up while all frames waited for a log. Taking
		 * frames disarms the ring: it must be emptied and armed again, or nobody
		 * wakes the loop.
		 */
		on_readable(-1, 0, d);
	}
	const char *why = prl_writer_suspend_reason(d->append);
	if (why && !d->suspended)
		pr_log_error("storing is suspended, trying again: %s", why);
	if (!why && d->suspended)
		pr_log_info("storing continues");
	d->suspended = why != NULL;
	if (now - d->noted >= NOTE_NS)
		look_around(d, now);
	if (prl_capture_failed(d->capture) || (d->stopping && may_end(d)))
		pr_loop_break(d->loop);
}

static void
on_stop(void *arg)
{
	struct prl_record_loop *d = arg;

	pr_log_info("stopping");
	d->stopping = true;
	may_end(d);
}

void
prl_record_loop_disk(struct prl_record_loop *d, struct pr_status *out)
{
	struct sfs_volume_info info = {0};

	sfs_info(d->sfs, &info, NULL);
	out->write_rate = d->rate;
	out->disk_total = info.blocks * info.block_size;
	out->disk_free = (info.blocks - info.blocks_used) * info.block_size;
}

static int
open_loop(struct prl_record_loop *d, struct pr_error *err)
{
	struct pr_loop_calls calls = {.stop = on_stop, .arg = d};
	struct pr_ring *ring = d->capture->ring;

	d->loop = pr_loop_create(&calls, err);
	if (!d->loop)
		return -1;
	struct event_base *base = pr_loop_base(d->loop);
	d->tick_ns = ring ? TICK_NS : PRL_RECORD_LOOP_TICK_DIRECT;
	d->timer = pr_timer_create(d->loop, d->tick_ns, on_tick, d, err);
	if (!d->timer)
		return -1;
	d->again = event_new(base, -1, 0, on_readable, d);
	if (ring) {
		pr_ring_wake_above(ring, pr_ring_size(ring) / WAKE_SHARE);
		d->readable = event_new(
			base, pr_ring_fd(ring), EV_READ | EV_PERSIST, on_readable, d);
	}
	if (!d->again || (ring && (!d->readable || event_add(d->readable, NULL))))
		return pr_error_set(err, "no memory for the event loop");
	return 0;
}

static void
on_scrape(void *arg, struct pr_metrics_page *page)
{
	static const char *const states[] = {"running", "suspended", "stopping", NULL};
	static const struct pr_counter_row state = PR_STATES_OF("state",
		"1 for the state that the logger is in, 0 for the others; "
		"suspended: the disk takes nothing.");
	struct prl_report report = {0};

	make_report(arg, &report);
	pr_status_metrics_build(page, "packrack-logger");
	pr_metrics_label(page, {"node", report.name});
	pr_metrics_states(page, "packrack_logger_", &state, states, report.state);
	for (size_t i = 0; i < report.table_count; i++)
		pr_metrics_table(page, "packrack_logger_", report.tables[i]);
}

/* Status requests alone: a node takes commands from the dispatcher. */
static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct prl_record_loop *d = arg;
	Packrack__Status status = pr_status_of("packrack-logger");
	Packrack__Value items[VALUES_MAX], *list[VALUES_MAX];
	struct pr_values values = PR_VALUE_LIST(items, list);
	struct prl_report report = {0};

	if (env->body_case != PACKRACK__ENVELOPE__BODY_STATUS_REQUEST) {
		pr_rpc_refuse(d->manage, peer, env->id,
			"a logger only answers status requests", true);
		return;
	}
	make_report(d, &report);
	for (size_t i = 0; i < report.table_count; i++)
		pr_values_add_table(&values, report.tables[i]);
	pr_values_add_table(&values, pr_connections_figures());
	status.epoch = report.epoch;
	status.state = (char *)report.state;
	status.values = list;
	status.n_values = values.count;
	Packrack__Envelope reply =
		pr_message_of(env->id, PACKRACK__ENVELOPE__BODY_STATUS, &status);
	pr_rpc_send(d->manage, peer, &reply, NULL);
}

/* Opens the sockets for status, metrics and the indexer. */
static int
open_sockets(struct prl_record_loop *d, struct pr_error *err)
{
	const struct prl_options *o = d->o;
	struct pr_error own;

	if (o->manage && !o->keys)
		pr_log_warning(
			"no keys: any client of %s may read (packrack-keys(7))", o->manage);
	if (o->manage)
		d->manage = pr_rpc_listen(d->loop, o->manage, o->keys, on_message, d, err);
	if (o->manage && !d->manage)
		return -1;
	if (o->metrics)
		d->metrics = pr_metrics_serve(d->loop, o->metrics, on_scrape, d, err);
	if (o->metrics && !d->metrics)
		return -1;
	/* Recording continues without the socket: the index can be made later. */
	d->door = prl_writer_socket_open(d->loop, d->sfs, d->append, &own);
	if (!d->door)
		pr_log_warning("no index will be stored: %s", own.text);
	return 0;
}

struct prl_record_loop *
prl_record_loop_create(const struct prl_options *o, struct sfs *sfs,
	struct prl_volume_writer *append, struct prl_capture *capture,
	const struct prl_record_loop_calls *calls, struct pr_error *err)
{
	struct prl_record_loop *d = calloc(1, sizeof(*d));

	if (!d)
		return pr_error_null(err, "no memory");
	d->o = o;
	d->sfs = sfs;
	d->append = append;
	d->capture = capture;
	d->calls = *calls;
	if (open_loop(d, err) || open_sockets(d, err))
		prl_record_loop_destroy(&d);
	return d;
}

int
prl_record_loop_run(struct prl_record_loop *d, struct pr_error *err)
{
	bool endless = d->capture->ring == NULL;

	pr_priority_thread(endless ? PR_NICE_CAPTURE : PR_NICE_STORE);
	if (prl_capture_start(d->capture, err))
		return -1;
	note(d);
	pr_notify("READY=1");
	event_active(d->again, EV_READ, 0); /* arms the ring */
	int result = pr_sandbox_seal(err) < 0 ? -1 : pr_loop_run(d->loop, err);
	pr_notify("STOPPING=1");
	prl_capture_stop(d->capture);
	/*
	 * Takes what is left; bounded, because a direct capture's ring in the kernel still
	 * fills.
	 */
	for (unsigned i = 0; take_batch(d, patience(d)) && !(endless && i == DRAIN); i++)
		;
	const char *failed = prl_capture_failed(d->capture);
	if (failed && result == 0)
		result = pr_error_set(err, "%s", failed);
	return result;
}

void
prl_record_loop_destroy(struct prl_record_loop **daemon)
{
	struct prl_record_loop *d = PR_TAKE(daemon);

	if (!d)
		return;
	prl_writer_socket_close(&d->door);
	pr_metrics_stop(&d->metrics);
	pr_rpc_destroy(&d->manage);
	if (d->readable)
		event_free(d->readable);
	if (d->again)
		event_free(d->again);
	pr_timer_destroy(&d->timer);
	pr_loop_destroy(&d->loop);
	free(d);
}
