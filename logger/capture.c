/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/capture_private.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "logger/monitor.h"
#include "proto/base/clock.h"
#include "proto/base/priority.h"
#include "proto/wire/frame.h"

/*
 * So long frames may gather in a kernel's ring of this size at least: 10 Gbit/s fill a third of it. A direct
 * capture is looked at every 60 ms: they fill four fifths of its ring with four times the frame buffer's memory.
 */
#define GATHER_MS 8
#define GATHER_BYTES ((uint64_t)32 << 20)
/* Records that are made visible to the other side at once. */
#define PUBLISH 1024
/* One look at the kernel's counters in so many ns: libpcap reads files of /sys for it. */
#define STATS_NS (500 * PR_NS_PER_MS)

struct prl_capture *
prl_capture_open(const struct prl_capture_options *options, struct pr_error *err)
{
	struct prl_capture *c = calloc(1, sizeof(*c));

	if (!c) {
		pr_error_set(err, "no memory for receiving");
		return NULL;
	}
	c->o = *options;
	c->o.direct = options->direct && options->buffer_size >= GATHER_BYTES;
	if (c->o.direct ? prl_capture_open_direct(c, err)
			: prl_capture_open_buffered(c, err))
		prl_capture_close(&c);
	return c;
}

/* Room in the frame buffer; waits for it. NULL: told to stop. */
static void *
room(struct prl_capture *c, size_t len)
{
	const struct timespec nap = {.tv_nsec = 50000};
	void *at = pr_ring_reserve(c->ring, len);

	if (at)
		return at;
	pr_count(&c->counters.buffer_waits, 1);
	pr_ring_publish(c->ring);
	while (!at && !atomic_load(&c->stop)) {
		atomic_store(&c->waiting, true);
		nanosleep(&nap, NULL);
		at = pr_ring_reserve(c->ring, len);
	}
	atomic_store(&c->waiting, false);
	return at;
}

static void
take(u_char *arg, const struct pcap_pkthdr *h, const u_char *data)
{
	struct prl_capture *c = (struct prl_capture *)(void *)arg;
	size_t size = sizeof(struct prl_capture_record) + h->caplen;
	struct prl_capture_record *rec = room(c, size);

	if (!rec) /* stopping: this one is not ours any more */
		return;
	rec->time = pr_time_make(h->ts.tv_sec, h->ts.tv_usec); /* ns, as asked for */
	rec->caplen = h->caplen;
	rec->len = h->len;
	rec->control = c->o.rack && pr_is_control(data, h->caplen, c->o.ethertype);
	rec->epoch = atomic_load_explicit(&c->epoch, memory_order_relaxed);
	rec->fingerprint = 0;
	if (c->o.rack && !rec->control)
		rec->fingerprint = pr_fingerprint(data, h->caplen, rec->epoch);
	memcpy(rec->data, data, h->caplen);
	pr_ring_commit(c->ring, size);
	pr_count(&c->counters.frames_received, 1);
	pr_count(&c->counters.bytes_received, h->caplen);
	if (rec->control)
		pr_count(&c->counters.control_received, 1);
}

/* ns, as asked for; what no clock says is made fit elsewhere. */
static inline int64_t
stamp(const struct timeval *ts)
{
	if (ts->tv_sec < 0 || ts->tv_sec > INT32_MAX || ts->tv_usec < 0 ||
		ts->tv_usec >= PR_NS_PER_S)
		return pr_time_make(ts->tv_sec, ts->tv_usec);
	return ts->tv_sec * PR_NS_PER_S + ts->tv_usec;
}

static void
take_direct(u_char *arg, const struct pcap_pkthdr *h, const u_char *data)
{
	struct prl_capture *c = (struct prl_capture *)(void *)arg;
	struct pr_packet p = {
		.time = stamp(&h->ts), .data = data, .caplen = h->caplen, .len = h->len};

	c->taken++;
	c->taken_bytes += h->caplen;
	c->call(c->call_arg, &p, 1);
}

static void
take_packets(void *arg, struct pr_packet *packets, size_t count)
{
	struct prl_capture *c = arg;

	c->taken += count;
	for (size_t i = 0; i < count; i++)
		c->taken_bytes += packets[i].caplen;
	c->call(c->call_arg, packets, count);
}

static void
look_at_kernel(struct prl_capture *c)
{
	int64_t now = pr_now_mono();
	uint64_t kernel, interface;
	struct pcap_stat stat;

	if (now - c->looked < STATS_NS)
		return;
	c->looked = now;
	if (c->packets) {
		prl_packet_ring_drops(c->packets, &kernel, &interface);
		pr_counter_set(&c->counters.kernel_drops, kernel);
		pr_counter_set(&c->counters.interface_drops, interface);
	} else if (pcap_stats(c->pcap, &stat) == 0) {
		pr_counter_set(&c->counters.kernel_drops, stat.ps_drop);
		pr_counter_set(&c->counters.interface_drops, stat.ps_ifdrop);
	}
}

/* What has been drained is left alone for a while: waking for each block costs more than its packets do. */
static void
let_gather(const struct prl_capture *c, int taken)
{
	const struct timespec nap = {.tv_nsec = GATHER_MS * PR_NS_PER_MS};

	if (taken > 0 && taken < PUBLISH && c->o.buffer_size >= GATHER_BYTES)
		nanosleep(&nap, NULL);
}

static void
fail(struct prl_capture *c, const char *why)
{
	snprintf(c->why, sizeof(c->why), "%s: %s", c->o.ifname, why);
	atomic_store(&c->failed, true);
}

static int
take_some(struct prl_capture *c, int most)
{
	struct pr_error err;
	int result;

	if (!c->packets) {
		result = pcap_dispatch(c->pcap, most, take_direct, (u_char *)c);
		if (result == PCAP_ERROR)
			fail(c, pcap_geterr(c->pcap));
		return result;
	}
	result = prl_packet_ring_take(c->packets, most, take_packets, c, &err);
	if (result < 0)
		fail(c, err.text);
	return result;
}

int
prl_capture_take(struct prl_capture *c, int most, prl_capture_call call, void *arg)
{
	int result;

	if (atomic_load(&c->failed))
		return 0;
	c->call = call;
	c->call_arg = arg;
	c->taken = c->taken_bytes = 0;
	result = take_some(c, most);
	pr_count(&c->counters.frames_received, c->taken);
	pr_count(&c->counters.bytes_received, c->taken_bytes);
	look_at_kernel(c);
	return result > 0 ? result : 0;
}

static void *
receive(void *arg)
{
	struct prl_capture *c = arg;
	int result = 0;

	pr_priority_thread(PR_NICE_CAPTURE);
	while (!atomic_load(&c->stop)) {
		result = pcap_dispatch(c->pcap, PUBLISH, take, (u_char *)c);
		pr_ring_publish(c->ring);
		if (result < 0)
			break;
		let_gather(c, result);
		look_at_kernel(c);
	}
	if (result == PCAP_ERROR && !atomic_load(&c->stop))
		fail(c, pcap_geterr(c->pcap));
	return NULL;
}

int
prl_capture_start(struct prl_capture *c, struct pr_error *err)
{
	sigset_t all, before;
	int result;

	if (c->o.direct)
		return 0;
	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = pthread_create(&c->thread, NULL, receive, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (result)
		return pr_error_set(
			err, "cannot start the receive thread: %s", strerror(result));
	c->started = true;
	return 0;
}

void
prl_capture_stop(struct prl_capture *c)
{
	atomic_store(&c->stop, true);
	if (c->started) {
		pcap_breakloop(c->pcap);
		pthread_join(c->thread, NULL);
	}
	c->started = false;
	c->looked = 0;
	if (c->activated || c->packets)
		look_at_kernel(c);
}

void
prl_capture_close(struct prl_capture **capture)
{
	struct prl_capture *c = *capture;

	if (!c)
		return;
	prl_capture_stop(c);
	prl_capture_close_pcap(c);
	prl_packet_ring_close(&c->packets);
	pr_ring_destroy(&c->ring);
	free(c);
	*capture = NULL;
}

struct pr_ring *
prl_capture_ring(struct prl_capture *c)
{
	return c->ring;
}

int
prl_capture_linktype(const struct prl_capture *c)
{
	return c->linktype;
}

uint32_t
prl_capture_snaplen(const struct prl_capture *c)
{
	return c->snaplen;
}

const struct prl_capture_counters *
prl_capture_counters(const struct prl_capture *c)
{
	return &c->counters;
}

void
prl_capture_set_epoch(struct prl_capture *c, uint64_t epoch)
{
	atomic_store(&c->epoch, epoch);
}

bool
prl_capture_waiting(const struct prl_capture *c)
{
	return atomic_load(&c->waiting);
}

const char *
prl_capture_failed(const struct prl_capture *c)
{
	return atomic_load(&c->failed) ? c->why : NULL;
}
