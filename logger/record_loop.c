/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/record_loop.h"

#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "logger/writer_socket.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/metrics_server.h"
#include "proto/base/thread.h"
#include "proto/rpc/rpc.h"
#include "proto/rpc/status.h"

/* ---- the management socket ---- */

/* Answers status requests. It takes no commands: a node takes those from the dispatcher. */
struct prl_manage;
typedef void (*prl_manage_call)(void *arg, struct prl_report *report);

#define VALUES_MAX 64

struct prl_manage {
	struct pr_rpc *rpc;
	prl_manage_call call;
	void *arg;
};

/* ---- the report ---- */

static void
set_text(json_t *root, const char *name, const char *text)
{
	/* a name that is no UTF-8 is left out rather than the rest with it */
	if (text)
		json_object_set_new(root, name, json_string(text));
}

static bool
prl_report_text(const struct prl_report *r, char *buf, size_t size)
{
	json_t *root = json_object();
	char epoch[24];
	size_t len;

	if (!root)
		return false;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, r->epoch);
	set_text(root, "mode", r->mode);
	set_text(root, "name", r->name);
	set_text(root, "state", r->state);
	set_text(root, "trouble", r->trouble);
	set_text(root, "epoch", epoch);
	for (size_t i = 0; i < r->table_count; i++)
		for (size_t j = 0; j < r->tables[i].count; j++) {
			const struct pr_counter_row *row = &r->tables[i].rows[j];
			uint64_t number = pr_counter_read(row, r->tables[i].base);

			json_object_set_new(root, row->name,
				json_integer((json_int_t)(number & INT64_MAX)));
		}
	len = json_dumpb(root, buf, size - 1, JSON_COMPACT);
	json_decref(root);
	if (len == 0 || len >= size)
		return false;
	buf[len] = '\0';
	return true;
}

static void
prl_report_scrape(const struct prl_report *report, struct pr_metrics_page *page)
{
	static const char *const states[] = {"running", "suspended", "stopping", NULL};
	static const struct pr_counter_row state = {0, 0,
		PR_GAUGE_OF("state",
			"1 for the state that the logger is in, 0 for the others; "
			"suspended: the disk takes nothing.")};

	pr_status_metrics_build(page, "packrack-logger");
	pr_metrics_label(page, {"node", report->name});
	pr_metrics_states(page, "packrack_logger_", &state, states, report->state);
	for (size_t i = 0; i < report->table_count; i++)
		pr_metrics_table(page, "packrack_logger_", report->tables[i]);
}

/* ---- requests ---- */

static void
send_status(struct prl_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;
	Packrack__Value items[VALUES_MAX], *list[VALUES_MAX];
	struct pr_values values = PR_VALUE_LIST(items, list);
	struct prl_report report = {0};

	m->call(m->arg, &report);
	for (size_t i = 0; i < report.table_count; i++)
		pr_values_add_table(&values, report.tables[i]);
	status.program = (char *)(uintptr_t) "packrack-logger";
	status.version = (char *)(uintptr_t)PACKRACK_VERSION;
	status.time = pr_now_real();
	status.epoch = report.epoch;
	status.state = (char *)(uintptr_t)report.state;
	status.values = list;
	status.n_values = values.count;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS;
	env.status = &status;
	pr_rpc_send(m->rpc, peer, &env, NULL);
}

static void
send_failure(struct prl_manage *m, const struct pr_rpc_peer *peer, uint64_t id)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;

	failure.text = (char *)(uintptr_t) "a logger only answers status requests";
	failure.bad_request = true;
	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_FAILURE;
	env.failure = &failure;
	pr_rpc_send(m->rpc, peer, &env, NULL);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct prl_manage *m = arg;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_STATUS_REQUEST)
		send_status(m, peer, env->id);
	else
		send_failure(m, peer, env->id);
}

static struct prl_manage *
prl_manage_create(struct pr_loop *loop, const char *endpoint, const char *keys,
	prl_manage_call call, void *arg, struct pr_error *err)
{
	struct pr_rpc_keys dir = {keys};
	struct prl_manage *m = calloc(1, sizeof(*m));

	if (!m) {
		pr_error_set(err, "no memory for %s", endpoint);
		return NULL;
	}
	m->call = call;
	m->arg = arg;
	m->rpc = pr_rpc_listen(loop, endpoint, &dir, on_message, m, err);
	if (!m->rpc) {
		free(m);
		return NULL;
	}
	return m;
}

static void
prl_manage_destroy(struct prl_manage **manage)
{
	if (*manage)
		pr_rpc_destroy(&(*manage)->rpc);
	free(*manage);
	*manage = NULL;
}

/* ---- the loop ---- */

/* Of a rack the frame buffer and the log come before. */
#define TICK_NS (10 * PR_NS_PER_MS)
/* A direct capture's ring must not fill up between two ticks: where so much of it came, the next comes sooner. */
#define TICK_SOON_NS (20 * PR_NS_PER_MS)
#define SOON_SHARE 4
#define NOTE_NS (500 * PR_NS_PER_MS)
/* Records handled before the loop gets a turn: signals and timers must not starve. */
#define ROUND 4096
#define BATCH 256
#define DIRECT_ROUNDS 8
#define DRAIN 4096 /* batches */
/* The tick finds what came; a buffer so full does not wait for it. */
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
	struct prl_manage *manage;
	struct pr_metrics_server *metrics;
	struct prl_writer_socket *door;
	bool stopping, suspended;
	struct prl_stall_clock patience;
	int64_t noted, ticked, tick_ns;
	uint32_t devices_lost; /* of the volume, that have been said */
	int64_t rated;
	uint64_t rated_bytes, rate;
};

/* The time that the calls are given: not the disk's, nor the management's. */
static int64_t
patience(struct prl_record_loop *d)
{
	return prl_stall_clock_now(&d->patience, pr_now_mono());
}

/* One batch. false: there is nothing left. */
static bool
take_batch(struct prl_record_loop *d, int64_t now)
{
	struct pr_ring *ring = prl_capture_ring(d->capture);
	bool more = true;

	if (!ring)
		return prl_capture_take(d->capture, BATCH, d->calls.packet, d->calls.arg) ==
		       BATCH;
	for (unsigned i = 0; i < BATCH; i++) {
		size_t len;
		struct prl_capture_record *rec = pr_ring_next(ring, &len);

		if (!rec) {
			more = false;
			break;
		}
		d->calls.frame(d->calls.arg, rec, now);
	}
	d->calls.batch(d->calls.arg, !more && prl_capture_waiting(d->capture), now);
	return more;
}

static void
tick(struct prl_record_loop *d, int64_t now)
{
	d->ticked = now;
	d->calls.tick(d->calls.arg, now);
	prl_writer_tick(d->append, pr_now_mono());
}

/* Until it is woken, or the next tick. */
static bool
sleeps(struct prl_record_loop *d)
{
	struct pr_ring *ring = prl_capture_ring(d->capture);

	return !ring || !pr_ring_arm(ring);
}

/* As many as the loop may wait for. true: there may be more. */
static bool
take_round(struct prl_record_loop *d)
{
	for (unsigned i = 0; i < ROUND / BATCH; i++) {
		int64_t now = patience(d);

		if (now - d->ticked >= d->tick_ns)
			tick(d, now);
		if (!take_batch(d, now) && sleeps(d))
			return false;
	}
	return true;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct prl_record_loop *d = arg;

	(void)fd;
	(void)what;
	if (take_round(d))
		event_active(d->again, EV_READ, 0);
}

/* What a direct capture has is taken first: it is not to wait for the next tick. */
static void
tick_direct(struct prl_record_loop *d)
{
	const pr_counter *bytes = &prl_capture_counters(d->capture)->bytes_received;
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

static void
watch_suspension(struct prl_record_loop *d)
{
	const char *why = prl_writer_suspend_reason(d->append);

	if (why && !d->suspended)
		pr_log_error("storing is suspended, trying again: %s", why);
	if (!why && d->suspended)
		pr_log_info("storing goes on");
	d->suspended = why != NULL;
}

#define AT(field) PR_AT(struct prl_capture_counters, field)
static const struct pr_counter_row capture_rows[] = {
	{AT(frames_received),
		PR_COUNTER_OF("received_frames", "Frames received, data and control.")},
	{AT(bytes_received),
		PR_COUNTER_OF("received_bytes", "Bytes of the frames received.")},
	{AT(control_received),
		PR_COUNTER_OF("control_received_frames", "Control frames received.")},
	{AT(kernel_drops),
		PR_METRIC("dropped_kernel", PR_COUNTER, "dropped_frames_total", PR_ONE,
			"place=\"kernel\",reason=\"ring_full\"",
			"Frames lost before the logger saw them, by place and reason.")},
	{AT(interface_drops),
		PR_METRIC("dropped_interface", PR_COUNTER, "dropped_frames_total", PR_ONE,
			"place=\"interface\",reason=\"card_or_backlog\"",
			"Frames lost before the logger saw them, by place and reason.")},
	{AT(buffer_waits), PR_COUNTER_OF("buffer_waits",
				   "Times that receiving waited for room in the buffer.")},
};
#undef AT

#define AT(field) PR_AT(struct prl_writer_counters, field)
static const struct pr_counter_row append_rows[] = {
	{AT(packets_stored),
		PR_COUNTER_OF("stored_packets", "Packets given to the volume.")},
	{AT(bytes_stored), PR_COUNTER_OF("stored_bytes", "Bytes given to the volume.")},
	{AT(packets_durable),
		PR_COUNTER_OF("durable_packets", "Packets that are on the disk.")},
	{AT(segments_stored), PR_COUNTER_OF("stored_segments",
				      "Batches of packets given to the volume.")},
	{AT(strays_stored),
		PR_COUNTER_OF("stored_strays",
			"Frames without a log that were stored among the strays.")},
	{AT(lost_write),
		PR_METRIC("lost_write", PR_COUNTER, "lost_packets_total", PR_ONE,
			"place=\"volume\",reason=\"write_failed\"",
			"Packets lost after they were received, by place and reason.")},
	{AT(write_errors),
		PR_COUNTER_OF("write_errors", "Failures of the disk or the volume.")},
	{AT(ledger_refused),
		PR_COUNTER_OF("ledger_refused",
			"Entries of the ledger that the volume did not take.")},
	{AT(index_records), PR_COUNTER_OF("index_records",
				    "Records of the index stored for the indexer.")},
	{AT(index_bytes),
		PR_COUNTER_OF("index_bytes", "Bytes of the records of the index.")},
};
#undef AT

static void
make_report(void *arg, struct prl_report *r)
{
	struct prl_record_loop *d = arg;

	r->name = d->o->name;
	r->trouble = prl_writer_suspend_reason(d->append);
	r->state = r->trouble ? "suspended" : d->stopping ? "stopping" : "running";
	r->tables[0] = PR_COUNTER_TABLE(capture_rows, prl_capture_counters(d->capture));
	r->tables[1] = PR_COUNTER_TABLE(append_rows, prl_writer_counters(d->append));
	r->table_count = 2;
	d->calls.report(d->calls.arg, r);
}

static void
note(struct prl_record_loop *d)
{
	struct prl_report report = {0};
	char text[SFS_NOTE_BYTES];

	make_report(d, &report);
	if (prl_report_text(&report, text, sizeof(text)))
		sfs_note_set(d->sfs, text);
}

static void
measure_rate(struct prl_record_loop *d, int64_t now)
{
	uint64_t bytes = pr_counter_get(&prl_writer_counters(d->append)->bytes_stored);
	uint64_t ms = (uint64_t)(now - d->rated) / PR_NS_PER_MS;

	if (d->rated && ms)
		d->rate = (bytes - d->rated_bytes) * 1000 / ms;
	d->rated = now;
	d->rated_bytes = bytes;
}

/* Going on without a device is said when it begins. */
static void
watch_losses(struct prl_record_loop *d)
{
	struct sfs_volume_info info = {0};
	char text[400];

	if (sfs_info(d->sfs, &info, NULL) != SFS_OK || info.devices_lost == d->devices_lost)
		return;
	d->devices_lost = info.devices_lost;
	if (sfs_losses(d->sfs, text, sizeof(text)))
		pr_log_warning("%s", text);
}

static void
on_tick(void *arg)
{
	struct prl_record_loop *d = arg;
	int64_t now = pr_now_mono();

	if (!prl_capture_ring(d->capture)) {
		tick_direct(d);
	} else {
		tick(d, patience(d));
		/* The buffer may have filled up while all waited for a log. Taking disarms the ring:
		 * it must be emptied and armed again, or nobody wakes us. */
		on_readable(-1, 0, d);
	}
	watch_suspension(d);
	if (now - d->noted >= NOTE_NS) {
		d->noted = now;
		measure_rate(d, now);
		watch_losses(d);
		note(d);
	}
	if (prl_capture_failed(d->capture) ||
		(d->stopping && d->calls.over(d->calls.arg, patience(d))))
		pr_loop_break(d->loop);
}

static void
on_stop(void *arg)
{
	struct prl_record_loop *d = arg;

	pr_log_info("stopping");
	d->stopping = true;
	d->calls.stop(d->calls.arg, patience(d));
}

void
prl_record_loop_disk(struct prl_record_loop *d, struct prl_disk *disk)
{
	struct sfs_volume_info info = {0};

	*disk = (struct prl_disk){.rate = d->rate};
	if (sfs_info(d->sfs, &info, NULL) != SFS_OK)
		return;
	disk->total = info.blocks * info.block_size;
	disk->free = (info.blocks - info.blocks_used) * info.block_size;
}

static int
open_loop(struct prl_record_loop *d, struct pr_error *err)
{
	struct pr_loop_calls calls = {.stop = on_stop, .arg = d};
	struct pr_ring *ring = prl_capture_ring(d->capture);
	struct event_base *base;

	d->loop = pr_loop_create(&calls, err);
	if (!d->loop)
		return -1;
	base = pr_loop_base(d->loop);
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

/* Recording goes on without: who wants an index can make it later. */
static void
open_door(struct prl_record_loop *d)
{
	struct pr_error err;

	d->door = prl_writer_socket_open(d->loop, d->sfs, d->append, &err);
	if (!d->door)
		pr_log_warning("no index will be stored: %s", err.text);
}

static void
on_scrape(void *arg, struct pr_metrics_page *page)
{
	struct prl_report report = {0};

	make_report(arg, &report);
	prl_report_scrape(&report, page);
}

/* Where to ask us. */
static int
open_sockets(struct prl_record_loop *d, struct pr_error *err)
{
	const struct prl_options *o = d->o;

	if (o->manage && !o->keys)
		pr_log_warning("no keys: whoever reaches %s may read (packrack-keys(7))",
			o->manage);
	if (o->manage)
		d->manage =
			prl_manage_create(d->loop, o->manage, o->keys, make_report, d, err);
	if (o->manage && !d->manage)
		return -1;
	if (o->metrics)
		d->metrics = pr_metrics_serve(d->loop, o->metrics, on_scrape, d, err);
	return o->metrics && !d->metrics ? -1 : 0;
}

struct prl_record_loop *
prl_record_loop_create(const struct prl_options *o, struct sfs *sfs,
	struct prl_volume_writer *append, struct prl_capture *capture,
	const struct prl_record_loop_calls *calls, struct pr_error *err)
{
	struct prl_record_loop *d = calloc(1, sizeof(*d));

	if (!d) {
		pr_error_set(err, "no memory");
		return NULL;
	}
	d->o = o;
	d->sfs = sfs;
	d->append = append;
	d->capture = capture;
	d->calls = *calls;
	if (open_loop(d, err) || open_sockets(d, err))
		prl_record_loop_destroy(&d);
	if (d)
		open_door(d);
	return d;
}

/* What is there when the end has come; the kernel's ring of a direct capture still fills meanwhile. */
static void
drain(struct prl_record_loop *d)
{
	bool endless = prl_capture_ring(d->capture) == NULL;

	for (unsigned i = 0; take_batch(d, patience(d)); i++)
		if (endless && i == DRAIN)
			return;
}

int
prl_record_loop_run(struct prl_record_loop *d, struct pr_error *err)
{
	const char *failed;
	int result;

	pr_priority_thread(prl_capture_ring(d->capture) ? PR_NICE_STORE : PR_NICE_CAPTURE);
	if (prl_capture_start(d->capture, err))
		return -1;
	note(d);
	pr_notify("READY=1");
	event_active(d->again, EV_READ, 0); /* arms the ring */
	result = pr_loop_run(d->loop, err);
	pr_notify("STOPPING=1");
	prl_capture_stop(d->capture);
	drain(d);
	failed = prl_capture_failed(d->capture);
	if (failed && result == 0)
		result = pr_error_set(err, "%s", failed);
	return result;
}

void
prl_record_loop_destroy(struct prl_record_loop **daemon)
{
	struct prl_record_loop *d = *daemon;

	if (!d)
		return;
	prl_writer_socket_close(&d->door);
	pr_metrics_stop(&d->metrics);
	prl_manage_destroy(&d->manage);
	if (d->readable)
		event_free(d->readable);
	if (d->again)
		event_free(d->again);
	pr_timer_destroy(&d->timer);
	pr_loop_destroy(&d->loop);
	free(d);
	*daemon = NULL;
}
