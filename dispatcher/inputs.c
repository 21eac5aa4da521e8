/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/inputs.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/port/capture.h"
#include "proto/port/netdev.h"
#include "proto/port/trace.h"

/*
 * After this time without a packet, none is on its way any more; allows for the kernel's
 * timers.
 */
#define QUIET_NS (5 * PR_CAPTURE_BLOCK_MS * PR_NS_PER_MS)
#define CAPTURE_BATCH 256 /* packets between two publications */
#define FILE_BATCH 64 /* packets of one file in a row, at pace max */
#define STATS_NS (100 * PR_NS_PER_MS)

struct file {
	struct pr_trace *trace;
	struct prd_link *link;
	bool ended;
	bool has_next;
	struct pr_packet next;
	bool begun;
	int64_t first_time, earliest;
};

/* A thread that fills one ring: from one capture interface, or from all trace files. */
struct prd_reader {
	const struct prd_options *options;
	struct pr_ring *ring;
	int wake; /* eventfd: ends a sleep of the thread */
	pthread_t thread;
	bool started;
	_Atomic bool running, quiet, quit;

	/* a capture interface */
	const char *ifname;
	struct prd_link *link;
	struct pr_capture *capture; /* NULL: closed, or the interface is down */
	int64_t last_stats, idle_since, last_time;
	/* real; when it noticed that it should stop; 0: it runs */
	int64_t stopped, stopped_mono;
	struct pr_carrier carrier;
	struct prd_inputs *inputs;
	uint64_t kernel_before, unstamped_before; /* of captures that have been closed */
	/* among what was counted as dropped by the interface: too long for XDP */
	uint64_t longer_before;
	uint64_t interface_before; /* drops of the interface when the capture began */

	/* trace files */
	struct file *files;
	unsigned file_count;
	_Atomic bool at_end, broken;
	struct pr_error why; /* set before broken is */
	int64_t begun; /* monotonic; 0: not yet */
};

/* ---- what both kinds of reader share ---- */

static struct prd_reader *
reader_create(struct prd_inputs *in, const struct prd_options *o, struct pr_error *err)
{
	struct pr_ring *ring = pr_ring_create(o->buffer_size, err);

	if (!ring)
		return NULL;
	in->rings[in->ring_count] = ring;
	struct prd_reader *r = calloc(1, sizeof *r);
	in->readers[in->ring_count++] = r;
	if (!r)
		return pr_error_null(err, "no memory to read packets");
	r->options = o;
	r->inputs = in;
	r->ring = ring;
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake < 0)
		pr_error_errno(err, "cannot make an eventfd");
	return r->wake < 0 ? NULL : r;
}

static void
wake(const struct prd_reader *r)
{
	uint64_t one = 1;

	(void)!write(r->wake, &one, sizeof one);
}

/* Sleeps for ns, until it is woken, or until packets have come. */
static void
sleep_for(struct prd_reader *r, int64_t ns)
{
	struct pollfd fds[2] = {{.fd = r->wake, .events = POLLIN},
		{.fd = r->capture ? pr_capture_fd(r->capture) : -1, .events = POLLIN}};
	struct timespec left = {.tv_sec = ns / PR_NS_PER_S, .tv_nsec = ns % PR_NS_PER_S};
	uint64_t n;

	if (ppoll(fds, 2, &left, NULL) > 0 && (fds[0].revents & POLLIN))
		(void)!read(r->wake, &n, sizeof n);
}

static inline void
fill_record(struct prd_record *rec, const struct prd_link *link, int64_t time,
	const uint8_t *data, uint32_t caplen, uint32_t len)
{
	rec->time = time;
	rec->caplen = caplen;
	rec->len = len;
	rec->link = link->number;
	rec->class = 0;
	memcpy(rec->data, data, caplen);
}

/* ---- what is observed ---- */

/* Notes the earliest packet of a trace file, or (by is set) that the capture is stopped. */
static void
observe(struct prd_inputs *in, struct prd_link *link, int64_t at, const char *by)
{
	const struct pr_carrier *w = by ? &in->readers[link->number]->carrier : NULL;

	pthread_mutex_lock(&link->lock);
	/* whether the carrier was there since the last look, nobody looks any more */
	if (w && w->observing && w->checked < at)
		at = w->checked;
	if (by)
		pr_observation_lost(&link->observation, PR_UNOBSERVED_STOPPED, at, by);
	else
		pr_observation_begin(&link->observation, PR_UNOBSERVED_FILE, at, "");
	pthread_mutex_unlock(&link->lock);
	atomic_fetch_add(&in->changes, 1);
}

/* ---- a capture interface ---- */

/* 0, or an exit status. */
static int
capture_open(struct prd_reader *r, struct pr_error *err)
{
	struct pr_capture_options options = {.ifname = r->ifname,
		.buffer_size = r->options->ring_size,
		.snaplen = r->options->snaplen,
		.promiscuous = true,
		.timestamps = (uint8_t)r->options->timestamps};
	int status = PRD_EXIT_FAILED;

	r->capture = pr_capture_open(&options, err);
	if (!r->capture)
		return status;
	if (pr_capture_linktype(r->capture) != PR_LINKTYPE_ETHERNET)
		pr_error_set(err, "%s: link type %s: the rack carries Ethernet only",
			r->ifname,
			pr_linktype_name(pr_capture_linktype(r->capture),
				(char[PR_LINKTYPE_TEXT]){0}));
	else if (r->options->filter &&
		 pr_capture_filter(r->capture, r->options->filter, err) < 0)
		status = PRD_EXIT_USAGE;
	else
		return 0;
	pr_capture_close(&r->capture);
	return status;
}

static void
on_packet(void *arg, int64_t time, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	struct prd_reader *r = arg;
	size_t size = prd_record_size(caplen);
	struct prd_record *rec = pr_ring_reserve(r->ring, size);

	if (!rec) {
		pr_count(&r->link->dropped_ring, 1);
		return;
	}
	r->last_time = time;
	fill_record(rec, r->link, time, data, caplen, len);
	pr_ring_commit(r->ring, size);
	pr_count(&r->link->captured_packets, 1);
	pr_count(&r->link->captured_bytes, len);
}

/* All drops up to `before` were counted before now. */
static void
note_drops(struct prd_link *link, int64_t before)
{
	const struct prd_drops now = {pr_counter_get(&link->dropped_kernel),
		pr_counter_get(&link->dropped_interface),
		pr_counter_get(&link->dropped_ring), pr_now_real()};

	pthread_mutex_lock(&link->lock);
	if (link->next.until == 0 && now.kernel == link->told.kernel &&
		now.interface == link->told.interface && now.ring == link->told.ring)
		link->told.until = before;
	else if (link->next.until == 0 || link->next.until > now.until)
		link->next = now;
	if (before < link->told.until)
		link->told.until = before;
	pthread_mutex_unlock(&link->lock);
}

/* It may go back for a moment: the program tells what it lost before the interface does. */
static uint64_t
interface_drops(const struct prd_reader *r)
{
	uint64_t drops = pr_netdev_receive_drops(r->ifname);

	if (r->inputs->fast)
		drops -= pr_fast_counted_twice(r->inputs->fast, r->link->number);
	return drops;
}

static void
read_drops(struct prd_reader *r)
{
	struct prd_link *link = r->link;
	int64_t before = pr_now_real();
	uint64_t kernel, interface, longer = 0;

	if (r->capture) {
		pr_capture_drops(r->capture, &kernel, &interface);
		pr_counter_set(&link->dropped_kernel, r->kernel_before + kernel);
		pr_counter_set(&link->unstamped,
			r->unstamped_before + pr_capture_unstamped(r->capture));
	}
	if (!r->stopped && r->inputs->fast) {
		uint64_t full;

		pr_fast_refused(r->inputs->fast, link->number, &full, &longer);
		pr_counter_set(&link->dropped_ring, full);
	}
	interface = interface_drops(r) - r->interface_before;
	if (!r->stopped && (int64_t)interface >= 0 &&
		interface + longer > pr_counter_get(&link->dropped_interface)) {
		pr_counter_set(&link->dropped_interface, interface + longer);
		r->longer_before = longer;
	}
	note_drops(link, before);
}

int64_t
prd_link_drops_until(struct prd_link *link, int64_t said, bool tell)
{
	int64_t until;

	pthread_mutex_lock(&link->lock);
	until = link->next.until ? link->told.until : link->told.until + 2 * STATS_NS;
	if (link->next.until && said >= link->next.until) {
		until = said;
		if (tell) {
			link->told = link->next;
			link->next.until = 0;
		}
	}
	pthread_mutex_unlock(&link->lock);
	return until < said ? until : said;
}

static void
capture_close(struct prd_reader *r)
{
	read_drops(r);
	r->kernel_before = pr_counter_get(&r->link->dropped_kernel);
	r->unstamped_before = pr_counter_get(&r->link->unstamped);
	pr_capture_close(&r->capture);
}

#define CARRIER_NS (20 * PR_NS_PER_MS)

/*
 * Looks whether the carrier is there, and was there since the check before. What the ledger confirms never passes
 * the last check: so it never has to be taken back.
 */
static void
check_carrier(struct prd_reader *r, int64_t now)
{
	const struct pr_carrier *w = &r->carrier;

	if (w->observing && now >= w->checked && now - w->checked < CARRIER_NS)
		return;
	pthread_mutex_lock(&r->link->lock);
	bool changed = pr_carrier_look(&r->carrier, pr_carrier_read(r->ifname),
		r->capture != NULL || r->inputs->fast, now, &r->link->observation, "");
	pthread_mutex_unlock(&r->link->lock);
	if (changed)
		atomic_fetch_add(&r->inputs->changes, 1);
	read_drops(r);
}

static void
capture_done_until(struct prd_reader *r, int64_t time)
{
	atomic_store(&r->link->captured_until,
		time < r->carrier.checked ? time : r->carrier.checked);
}

/*
 * running: as the round began. What is told as observed from now on is not closed in the same round.
 * Returns the number of packets; 0: none; -1: the interface is down or gone.
 */
static int
capture_step(struct prd_reader *r, bool running)
{
	int64_t before = pr_now_real();
	struct pr_error err;

	if (running && atomic_load(&r->running))
		check_carrier(r, before);
	uint64_t ring = pr_counter_get(&r->link->dropped_ring);
	int n = pr_capture_take(r->capture, CAPTURE_BATCH, on_packet, r, &err);
	pr_ring_publish(r->ring);
	if (pr_counter_get(&r->link->dropped_ring) != ring)
		note_drops(r->link, atomic_load(&r->link->captured_until));
	if (n < 0) {
		pr_log_link(PR_LOG_WARNING, r->ifname,
			"capture stopped: %s; trying to reopen the interface", err.text);
		capture_close(r);
	} else if (n > 0) {
		capture_done_until(r, pr_capture_confirm(r->capture, r->last_time));
		r->idle_since = 0;
	} else {
		capture_done_until(r, pr_capture_confirm(r->capture, before - QUIET_NS));
		if (r->idle_since == 0)
			r->idle_since = pr_now_mono();
	}
	return n;
}

/*
 * As prd_capture_round, where the XDP program captures: it publishes by itself, and the send thread reads. When it is told to
 * stop, what it had begun is done long before the link is quiet.
 */
static int64_t
fast_round(struct prd_reader *r, bool running)
{
	int64_t now = pr_now_real();

	if (running) {
		atomic_store(&r->quiet, false);
		if (r->stopped) /* what was dropped before, nobody captured */
			r->interface_before = interface_drops(r) -
					      (pr_counter_get(&r->link->dropped_interface) -
						      r->longer_before);
		r->stopped = 0;
		pr_fast_set_running(r->inputs->fast, r->link->number, true);
		check_carrier(r, now);
		capture_done_until(r, now);
		return CARRIER_NS;
	}
	if (!r->stopped) {
		pr_fast_set_running(r->inputs->fast, r->link->number, false);
		read_drops(r);
		r->stopped = now;
		r->stopped_mono = pr_now_mono();
		r->carrier.observing = false; /* prd_inputs_stop has noted it */
	}
	atomic_store(&r->link->captured_until, now);
	if (pr_now_mono() - r->stopped_mono <= QUIET_NS)
		return QUIET_NS;
	atomic_store(&r->quiet, true);
	return PR_NS_PER_S;
}

int64_t
prd_capture_round(struct prd_reader *r)
{
	bool running = atomic_load(&r->running);

	if (r->inputs->fast)
		return fast_round(r, running);
	int64_t rest = 0;
	struct pr_error err;

	if (running)
		atomic_store(&r->quiet, false);
	else if (!r->capture)
		atomic_store(&r->link->captured_until, pr_now_real());
	if (running && r->stopped) /* what was dropped before, nobody captured */
		r->interface_before = pr_netdev_receive_drops(r->ifname) -
				      pr_counter_get(&r->link->dropped_interface);
	if (running)
		r->stopped = 0;
	/* before packets are taken: what is captured after a drop is not told without it */
	if (pr_now_mono() - r->last_stats >= STATS_NS || (!running && !r->stopped)) {
		r->last_stats = pr_now_mono();
		read_drops(r);
	}
	if (!running && !r->stopped) {
		r->stopped = pr_now_real();
		r->stopped_mono = pr_now_mono();
	}
	if (!running)
		r->carrier.observing = false; /* prd_inputs_stop has noted it */
	else if (!r->capture) {
		check_carrier(r, pr_now_real());
		/* other links do not wait for it */
		capture_done_until(r, r->carrier.checked);
	}
	if (!r->capture && running && capture_open(r, &err) == 0) {
		pr_log_link(PR_LOG_INFO, r->ifname, "%s: captured again", r->ifname);
	} else if (!r->capture) {
		if (!running)
			atomic_store(&r->quiet, true);
		rest = running ? PR_NS_PER_S / 10 : PR_NS_PER_S;
	} else if (capture_step(r, running) == 0) {
		if (!running && pr_now_mono() - r->idle_since > QUIET_NS)
			capture_close(r);
		else
			rest = (running ? 100 : PR_CAPTURE_BLOCK_MS) * PR_NS_PER_MS;
	} else if (!running &&
		   (r->last_time > r->stopped ||
			   (pr_now_real() < r->stopped &&
				   pr_now_mono() - r->stopped_mono > 10 * QUIET_NS))) {
		/* a busy link is never quiet: all that came before is delivered; or the clock was set back behind it */
		capture_close(r);
	}
	return rest;
}

static void *
capture_main(void *arg)
{
	struct prd_reader *r = arg;

	pr_priority_thread(PR_NICE_CAPTURE);
	while (!atomic_load(&r->quit)) {
		int64_t rest = prd_capture_round(r);
		if (rest)
			sleep_for(r, rest);
	}
	capture_close(r);
	return NULL;
}

/* ---- trace files ---- */

static void
file_deliver(struct prd_reader *r, struct file *f)
{
	const struct pr_packet *p = &f->next;
	uint32_t caplen =
		p->caplen < r->options->snaplen ? p->caplen : (uint32_t)r->options->snaplen;
	size_t size = prd_record_size(caplen);
	struct prd_record *rec;

	while (!(rec = pr_ring_reserve(r->ring, size))) {
		pr_ring_publish(r->ring);
		if (atomic_load(&r->quit))
			return;
		sleep_for(r, PR_NS_PER_MS / 2);
	}
	fill_record(rec, f->link, p->time, p->data, caplen, p->len);
	pr_ring_commit(r->ring, size);
	pr_count(&f->link->captured_packets, 1);
	pr_count(&f->link->captured_bytes, p->len);
	f->has_next = false;
}

/* Reads the file's next packet unless it has been read already; false at the file's end. */
static bool
file_read(struct prd_reader *r, struct file *f)
{
	struct pr_error err;

	if (f->has_next || f->ended)
		return f->has_next;
	int got = pr_trace_next(f->trace, &f->next, &err);
	f->ended = got != PR_SOURCE_PACKET;
	f->has_next = !f->ended;
	if (f->has_next && !f->begun)
		f->first_time = f->next.time;
	if (f->has_next && (!f->begun || f->next.time < f->earliest)) {
		f->begun = true;
		f->earliest = f->next.time;
		observe(r->inputs, f->link, f->earliest, NULL);
	}
	if (got == PR_SOURCE_ERROR) {
		pr_error_set(&r->why,
			"--read %s; the %llu packets before it were delivered", err.text,
			(unsigned long long)pr_counter_get(&f->link->captured_packets));
		atomic_store(&r->broken, true);
	}
	return f->has_next;
}

/* All files in turn, a batch each. False: all are at their ends. */
static bool
files_step_max(struct prd_reader *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->file_count; i++) {
		struct file *f = &r->files[i];

		for (unsigned n = 0; n < FILE_BATCH && file_read(r, f); n++) {
			file_deliver(r, f);
			any = true;
			if (f->has_next)
				return true;
		}
		pr_ring_publish(r->ring);
	}
	return any;
}

/* Time from the file's first packet to its next; limited to what a wait can be. */
static int64_t
due_after(const struct file *f)
{
	int64_t t = pr_time_minus(f->next.time, f->first_time);

	return t < 0 ? 0 : t < PR_TIME_MAX / 2 ? t : PR_TIME_MAX / 2;
}

/* Delivers the packet that is due first, or waits for it. False: all files are at their ends. */
static bool
files_step_recorded(struct prd_reader *r)
{
	struct file *next = NULL;

	for (unsigned i = 0; i < r->file_count; i++) {
		struct file *f = &r->files[i];

		if (file_read(r, f) && (!next || due_after(f) < due_after(next)))
			next = f;
	}
	if (next && r->begun == 0)
		r->begun = pr_now_mono();
	int64_t wait = next ? due_after(next) - (pr_now_mono() - r->begun) : 0;
	if (!next || wait > 0)
		pr_ring_publish(r->ring);
	if (wait > 0)
		sleep_for(r, wait < 100 * PR_NS_PER_MS ? wait : 100 * PR_NS_PER_MS);
	else if (next)
		file_deliver(r, next);
	return next != NULL;
}

static void *
files_main(void *arg)
{
	struct prd_reader *r = arg;
	bool more = true;

	while (!atomic_load(&r->quit)) {
		if (!atomic_load(&r->running) || !more) {
			pr_ring_publish(r->ring);
			atomic_store(&r->quiet, true);
			sleep_for(r, PR_NS_PER_S);
			continue;
		}
		atomic_store(&r->quiet, false);
		more = r->options->pace == PRD_PACE_RECORDED ? files_step_recorded(r)
							     : files_step_max(r);
		if (!more)
			atomic_store(&r->at_end, true);
	}
	return NULL;
}

/* ---- all inputs ---- */

static int
open_interface(struct prd_inputs *in, const struct prd_options *o, unsigned i,
	struct pr_error *err)
{
	struct prd_link *link = &in->links[i];
	struct pr_netdev dev;
	int status = PRD_EXIT_FAILED;

	if (pr_netdev_open(&dev, o->in.items[i], err) < 0) {
		pr_error_prefix(err, "--in");
		return status;
	}
	PR_COPY(link, &dev, mtu, speed);
	struct prd_reader *r = reader_create(in, o, err);
	if (!r)
		return status;
	r->ifname = o->in.items[i];
	r->link = link;
	status = in->fast ? 0 : capture_open(r, err);
	if (status != 0)
		pr_error_prefix(err, status == PRD_EXIT_USAGE ? "--filter" : "--in");
	r->stopped = pr_now_real();
	return status;
}

static int
open_files(struct prd_inputs *in, const struct prd_options *o, struct pr_error *err)
{
	struct prd_reader *r = reader_create(in, o, err);

	if (!r)
		return PRD_EXIT_FAILED;
	r->files = calloc(in->link_count, sizeof *r->files);
	if (!r->files)
		return pr_error_as(PRD_EXIT_FAILED, err, "no memory for trace files");
	while (r->file_count < in->link_count) {
		const char *path = o->read.items[r->file_count];
		struct prd_link *link = &in->links[r->file_count];
		struct file *f = &r->files[r->file_count++];

		f->link = link;
		f->trace = pr_trace_open(path, err);
		if (!f->trace) {
			pr_error_prefix(err, "--read");
			return PRD_EXIT_FAILED;
		}
		const struct pr_trace_info *info = pr_trace_info(f->trace);
		if (info->linktype != PR_LINKTYPE_ETHERNET)
			return pr_error_as(PRD_EXIT_FAILED, err,
				"--read %s: its link type is %s (%d); the rack carries "
				"Ethernet only: import the file with 'packrack import'",
				path,
				pr_linktype_name(
					info->linktype, (char[PR_LINKTYPE_TEXT]){0}),
				info->linktype);
		if (info->snaplen && info->snaplen < link->snaplen)
			link->snaplen = info->snaplen;
		if (o->filter && pr_trace_filter(f->trace, o->filter, err) < 0)
			return PRD_EXIT_USAGE;
	}
	return 0;
}

static void
link_init(struct prd_link *link, uint16_t number, const char *name, uint32_t snaplen)
{
	pthread_mutex_init(&link->lock, NULL);
	link->number = number;
	link->linktype = PR_LINKTYPE_ETHERNET;
	link->snaplen = snaplen;
	snprintf(link->name, sizeof link->name, "%s", name);
	pr_text_clean(link->name, ""); /* frames carry names that can be shown */
}

int
prd_inputs_open(struct prd_inputs *in, const struct prd_options *o, struct pr_error *err)
{
	bool live = o->in.count > 0;
	unsigned count = live ? o->in.count : o->read.count;
	int status = 0;

	memset(in, 0, sizeof *in);
	in->live = live;
	in->fast = o->fast;
	in->shunts = o->shunts;
	in->link_count = count;
	in->beyond = o->cuts;
	in->all_links = count * (in->beyond ? 2 : 1) + (live && o->no_canary == 0);
	in->links =
		aligned_alloc(alignof(struct prd_link), in->all_links * sizeof *in->links);
	if (!in->links)
		return pr_error_as(PRD_EXIT_FAILED, err, "no memory for %u links", count);
	memset(in->links, 0, in->all_links * sizeof *in->links);
	for (unsigned i = 0; i < in->all_links; i++) {
		bool canary = i == count * (in->beyond ? 2 : 1);
		const char *name = canary ? PR_LINK_CANARY_NAME
				   : live ? o->in.items[i % count]
					  : o->read.items[i % count];
		const char *slash = live ? NULL : strrchr(name, '/');

		link_init(&in->links[i],
			canary      ? PR_LINK_CANARY
			: i < count ? i
				    : PR_LINK_BEYOND + i - count,
			slash && slash[1] ? slash + 1 : name, o->snaplen);
		pr_observation_begin(&in->links[i].observation,
			live ? PR_UNOBSERVED_BEGIN : PR_UNOBSERVED_FILE,
			canary ? pr_now_real() : PR_TIME_MAX, "");
	}
	if (in->fast && o->filter &&
		!(in->filter = pr_packet_filter_create(o->filter, err))) {
		pr_error_prefix(err, "--filter");
		status = PRD_EXIT_USAGE;
	}
	for (unsigned i = 0; live && i < count && status == 0; i++)
		status = open_interface(in, o, i, err);
	return live ? status : open_files(in, o, err);
}

int
prd_inputs_start_threads(struct prd_inputs *in, struct pr_error *err)
{
	for (unsigned i = 0; i < in->ring_count; i++) {
		struct prd_reader *r = in->readers[i];

		if (pr_thread_start(&r->thread, in->live ? capture_main : files_main, r,
			    "a thread to read packets", err) < 0)
			return -1;
		r->started = true;
	}
	return 0;
}

void
prd_inputs_close(struct prd_inputs *in)
{
	for (unsigned i = 0; i < in->ring_count; i++) {
		struct prd_reader *r = in->readers[i];

		if (r && r->started) {
			atomic_store(&r->quit, true);
			wake(r);
			pthread_join(r->thread, NULL);
		}
		if (r) {
			pr_capture_close(&r->capture);
			for (unsigned k = 0; k < r->file_count; k++)
				pr_trace_close(&r->files[k].trace);
			free(r->files);
			pr_close(r->wake);
		}
		free(r);
		pr_ring_destroy(&in->rings[i]);
	}
	pr_packet_filter_destroy(&in->filter);
	free(in->links);
	memset(in, 0, sizeof *in);
}

void
prd_inputs_stop(struct prd_inputs *in, const char *by)
{
	for (unsigned i = 0; in->live && i < in->link_count; i++)
		observe(in, &in->links[i], pr_now_real(), by);
	prd_inputs_set_running(in, false);
}

uint16_t
prd_inputs_generation(const struct prd_inputs *in)
{
	return 1 + atomic_load(&in->changes) % UINT16_MAX;
}

void
prd_inputs_observation(struct prd_inputs *in, unsigned link, struct pr_observation *out)
{
	const uint16_t number = in->links[link].number;

	if (pr_link_is_beyond(number)) /* as the link that it is about */
		link -= in->link_count;
	pthread_mutex_lock(&in->links[link].lock);
	*out = in->links[link].observation;
	pthread_mutex_unlock(&in->links[link].lock);
	out->link = number;
}

void
prd_inputs_set_running(struct prd_inputs *in, bool running)
{
	if (in->shunts)
		pr_shunts_set_running(in->shunts, running);
	for (unsigned i = 0; i < in->ring_count; i++) {
		if (!running)
			atomic_store(&in->readers[i]->quiet, false);
		atomic_store(&in->readers[i]->running, running);
		wake(in->readers[i]);
	}
}

bool
prd_inputs_quiet(const struct prd_inputs *in)
{
	for (unsigned i = 0; i < in->ring_count; i++)
		if (!atomic_load(&in->readers[i]->quiet))
			return false;
	return true;
}

bool
prd_inputs_at_end(const struct prd_inputs *in)
{
	return !in->live && atomic_load(&in->readers[0]->at_end);
}

bool
prd_inputs_broken(const struct prd_inputs *in, struct pr_error *err)
{
	if (in->live || !atomic_load(&in->readers[0]->broken))
		return false;
	*err = in->readers[0]->why;
	return true;
}
