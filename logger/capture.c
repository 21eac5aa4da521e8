/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/capture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/thread.h"
#include "proto/wire/frame.h"

/*
 * Time for which frames may gather in the kernel's ring, if it has at least GATHER_BYTES:
 * 10 Gbit/s then fill a third of it. A direct capture is read every 60 ms: then they fill
 * four fifths of its ring, which also has four times the frame buffer's memory.
 */
#define GATHER_MS 8
#define GATHER_BYTES ((uint64_t)32 << 20)
/* Records that are made visible to the other side at once. */
#define PUBLISH 1024
/* Period of reading the kernel's counters: for that libpcap reads files in /sys. */
#define STATS_NS (500 * PR_NS_PER_MS)
/* A thread that is told to stop ends within this time. */
#define WAIT_MS 50

struct prl_capture *
prl_capture_open(const struct prl_capture_options *o, struct pr_error *err)
{
	bool direct = o->direct && o->port.buffer_size >= GATHER_BYTES;
	struct pr_capture_options port = o->port;
	struct prl_capture *c = calloc(1, sizeof(*c));
	char rack[160];

	if (!c)
		return pr_error_null(err, "no memory for receiving");
	c->o = *o;
	/* If the switch floods, frames for other nodes must not be copied. */
	snprintf(rack, sizeof(rack),
		"ether dst " PR_MAC_FORMAT " or (ether broadcast and ether[12:2] = %u)",
		PR_MAC_ARGS(o->mac), o->ethertype);
	const char *filter = o->rack ? rack : o->filter;
	if (direct)
		port.buffer_size += 4 * o->ring_size;
	else
		c->ring = pr_ring_create(o->ring_size, err);
	if (direct || c->ring)
		c->port = pr_capture_open(&port, err);
	if (!c->port || (filter && pr_capture_filter(c->port, filter, err)))
		prl_capture_close(&c);
	return c;
}

/* Reserves room in the frame buffer, and waits for it. NULL: stopping. */
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
take(void *arg, int64_t time, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	struct prl_capture *c = arg;
	size_t size = sizeof(struct prl_capture_record) + caplen;
	struct prl_capture_record *rec = room(c, size);

	if (!rec) /* stopping: this frame is not ours any more */
		return;
	rec->time = time;
	rec->caplen = caplen;
	rec->len = len;
	rec->control = c->o.rack && pr_is_control(data, caplen, c->o.ethertype);
	rec->epoch = atomic_load_explicit(&c->epoch, memory_order_relaxed);
	rec->whole = atomic_load_explicit(&c->whole, memory_order_relaxed);
	rec->fingerprint = 0;
	if (c->o.rack && !rec->control)
		rec->fingerprint = pr_fingerprint_of(rec->whole, data, caplen, rec->epoch);
	memcpy(rec->data, data, caplen);
	pr_ring_commit(c->ring, size);
	pr_count(&c->counters.frames_received, 1);
	pr_count(&c->counters.bytes_received, caplen);
	if (rec->control)
		pr_count(&c->counters.control_received, 1);
}

static void
take_direct(void *arg, int64_t time, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	struct prl_capture *c = arg;

	c->taken++;
	c->taken_bytes += caplen;
	c->call(c->call_arg, time, data, caplen, len);
}

static void
read_kernel_counters(struct prl_capture *c)
{
	int64_t now = pr_now_mono();
	uint64_t kernel, interface;

	if (now - c->last_stats < STATS_NS)
		return;
	c->last_stats = now;
	pr_capture_drops(c->port, &kernel, &interface);
	pr_counter_set(&c->counters.kernel_drops, kernel);
	pr_counter_set(&c->counters.interface_drops, interface);
	pr_counter_set(&c->counters.unstamped, pr_capture_unstamped(c->port));
}

int
prl_capture_take(struct prl_capture *c, int most, pr_capture_call call, void *arg)
{
	if (atomic_load(&c->failed))
		return 0;
	c->call = call;
	c->call_arg = arg;
	c->taken = c->taken_bytes = 0;
	int result = pr_capture_take(c->port, most, take_direct, c, &c->why);
	if (result < 0)
		atomic_store(&c->failed, true);
	pr_count(&c->counters.frames_received, c->taken);
	pr_count(&c->counters.bytes_received, c->taken_bytes);
	read_kernel_counters(c);
	return result > 0 ? result : 0;
}

static void *
receive(void *arg)
{
	const struct timespec nap = {.tv_nsec = GATHER_MS * PR_NS_PER_MS};
	struct prl_capture *c = arg;
	struct pollfd p = {.fd = pr_capture_fd(c->port), .events = POLLIN};

	pr_priority_thread(PR_NICE_CAPTURE);
	while (!atomic_load(&c->stop)) {
		int taken = pr_capture_take(c->port, PUBLISH, take, c, &c->why);

		pr_ring_publish(c->ring);
		if (taken < 0) {
			atomic_store(&c->failed, true);
			break;
		}
		/*
		 * After emptying the ring, waits a while: a wake-up for each block would
		 * cost more than its frames.
		 */
		if (taken == 0)
			poll(&p, 1, WAIT_MS);
		else if (taken < PUBLISH && c->o.port.buffer_size >= GATHER_BYTES)
			nanosleep(&nap, NULL);
		read_kernel_counters(c);
	}
	return NULL;
}

int
prl_capture_start(struct prl_capture *c, struct pr_error *err)
{
	if (!c->ring)
		return 0;
	if (pr_thread_start(&c->thread, receive, c, "the receive thread", err) < 0)
		return -1;
	c->started = true;
	return 0;
}

void
prl_capture_stop(struct prl_capture *c)
{
	atomic_store(&c->stop, true);
	if (c->started)
		pthread_join(c->thread, NULL);
	c->started = false;
	c->last_stats = 0;
	if (c->port)
		read_kernel_counters(c);
}

void
prl_capture_close(struct prl_capture **capture)
{
	struct prl_capture *c = PR_TAKE(capture);

	if (!c)
		return;
	prl_capture_stop(c);
	pr_capture_close(&c->port);
	pr_ring_destroy(&c->ring);
	free(c);
}

const char *
prl_capture_failed(const struct prl_capture *c)
{
	return atomic_load(&c->failed) ? c->why.text : NULL;
}
