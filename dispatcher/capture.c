/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/capture.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/port/netdev.h"

/* A packet waits at most so long in a part-filled block of the kernel's ring. */
#define BLOCK_TIMEOUT_MS 10
/* After so long without a packet, none is on its way any more: block timeout, timer slack, luck. */
#define QUIET_NS (5 * BLOCK_TIMEOUT_MS * PR_NS_PER_MS)
#define BATCH 256 /* packets between two publications */
#define STATS_NS (100 * PR_NS_PER_MS)

struct prd_capture {
	struct prd_capture_config config;
	struct prd_link *link;
	struct pr_ring *ring;
	pcap_t *pcap;
	int fd; /* of pcap */
	int wake;
	pthread_t thread;
	bool started;
	_Atomic bool on, quiet, quit;

	/* the thread's */
	int64_t stats_at, idle_since;
	int64_t last_time;
	uint64_t kernel_before; /* drops of handles that have been closed */
	uint64_t interface_before;
};

static int
set_filter(struct prd_capture *c, pcap_t *pcap, enum prd_fault *fault, struct pr_error *err)
{
	struct bpf_program program;
	int rc;

	if (!c->config.filter)
		return 0;
	if (pcap_compile(pcap, &program, c->config.filter, 1, PCAP_NETMASK_UNKNOWN) < 0) {
		*fault = PRD_FAULT_USAGE;
		return pr_error_set(
			err, "--filter '%s': %s", c->config.filter, pcap_geterr(pcap));
	}
	rc = pcap_setfilter(pcap, &program);
	pcap_freecode(&program);
	if (rc < 0)
		return pr_error_set(
			err, "--in %s: filter: %s", c->config.ifname, pcap_geterr(pcap));
	return 0;
}

static int
activate(struct prd_capture *c, pcap_t *pcap, struct pr_error *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	int rc;

	pcap_set_snaplen(pcap, (int)c->config.snaplen);
	pcap_set_promisc(pcap, 1);
	pcap_set_timeout(pcap, BLOCK_TIMEOUT_MS);
	pcap_set_buffer_size(pcap, (int)c->config.kernel_ring);
	pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO);
	rc = pcap_activate(pcap);
	if (rc < 0)
		return pr_error_set(err, "--in %s: %s (%s)", c->config.ifname,
			pcap_statustostr(rc), pcap_geterr(pcap));
	if (pcap_get_tstamp_precision(pcap) != PCAP_TSTAMP_PRECISION_NANO)
		return pr_error_set(
			err, "--in %s: no nanosecond stamps here", c->config.ifname);
	if (pcap_datalink(pcap) != DLT_EN10MB)
		return pr_error_set(err,
			"--in %s: link type %s, the rack carries Ethernet only",
			c->config.ifname, pcap_datalink_val_to_name(pcap_datalink(pcap)));
	if (pcap_setdirection(pcap, PCAP_D_IN) < 0)
		return pr_error_set(err, "--in %s: cannot capture what comes in only: %s",
			c->config.ifname, pcap_geterr(pcap));
	if (pcap_setnonblock(pcap, 1, text) < 0)
		return pr_error_set(err, "--in %s: %s", c->config.ifname, text);
	return 0;
}

static int
capture_open(struct prd_capture *c, enum prd_fault *fault, struct pr_error *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	pcap_t *pcap = pcap_create(c->config.ifname, text);

	*fault = PRD_FAULT_RUN;
	if (!pcap)
		return pr_error_set(err, "--in %s: %s", c->config.ifname, text);
	if (activate(c, pcap, err) < 0 || set_filter(c, pcap, fault, err) < 0) {
		pcap_close(pcap);
		return -1;
	}
	c->pcap = pcap;
	c->fd = pcap_get_selectable_fd(pcap);
	return 0;
}

struct prd_capture *
prd_capture_open(const struct prd_capture_config *config, struct prd_link *link,
	struct pr_ring *ring, enum prd_fault *fault, struct pr_error *err)
{
	struct prd_capture *c = calloc(1, sizeof *c);

	*fault = PRD_FAULT_RUN;
	if (!c) {
		pr_error_set(err, "no memory for a capture");
		return NULL;
	}
	c->config = *config;
	c->link = link;
	c->ring = ring;
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		pr_error_errno(err, "cannot make an eventfd");
	if (c->wake < 0 || capture_open(c, fault, err) < 0) {
		prd_capture_destroy(&c);
		return NULL;
	}
	c->interface_before = pr_netdev_receive_drops(config->ifname);
	link->linktype = 1;
	link->snaplen = config->snaplen;
	return c;
}

static void
on_packet(u_char *arg, const struct pcap_pkthdr *h, const u_char *data)
{
	struct prd_capture *c = (struct prd_capture *)(void *)arg;
	size_t size = prd_record_size(h->caplen);
	struct prd_record *rec = pr_ring_reserve(c->ring, size);

	if (!rec) {
		pr_count(&c->link->dropped_ring, 1);
		return;
	}
	/* with nanosecond precision, tv_usec holds nanoseconds */
	c->last_time = pr_time_make(h->ts.tv_sec, h->ts.tv_usec);
	rec->time = c->last_time;
	rec->caplen = h->caplen;
	rec->len = h->len;
	rec->link = c->link->number;
	memcpy(rec->data, data, h->caplen);
	pr_ring_commit(c->ring, size);
	pr_count(&c->link->captured_packets, 1);
	pr_count(&c->link->captured_bytes, h->len);
}

static void
take_stats(struct prd_capture *c)
{
	struct pcap_stat stat;
	uint64_t now;

	if (c->pcap && pcap_stats(c->pcap, &stat) == 0)
		pr_counter_set(&c->link->dropped_kernel, c->kernel_before + stat.ps_drop);
	now = pr_netdev_receive_drops(c->config.ifname);
	if (now >= c->interface_before)
		pr_counter_set(&c->link->dropped_interface, now - c->interface_before);
}

static void
capture_close(struct prd_capture *c)
{
	take_stats(c);
	c->kernel_before = pr_counter_get(&c->link->dropped_kernel);
	if (c->pcap)
		pcap_close(c->pcap);
	c->pcap = NULL;
}

static void
sleep_for(struct prd_capture *c, int ms)
{
	struct pollfd fds[2] = {{.fd = c->wake, .events = POLLIN},
		{.fd = c->pcap ? c->fd : -1, .events = POLLIN}};
	uint64_t n;

	if (poll(fds, 2, ms) > 0 && (fds[0].revents & POLLIN))
		(void)!read(c->wake, &n, sizeof n);
}

/* The interface went down or away: say so once, and try again every second. */
static void
reopen(struct prd_capture *c)
{
	enum prd_fault fault;
	struct pr_error err;

	if (capture_open(c, &fault, &err) == 0) {
		pr_log_link(PR_LOG_INFO, c->config.ifname, "%s: captured again",
			c->config.ifname);
		return;
	}
	sleep_for(c, 1000);
}

/* One step of capture; gives how many packets came, 0 after a short sleep, -1 on trouble. */
static int
capture_step(struct prd_capture *c)
{
	int64_t before = pr_now_real();
	int n = pcap_dispatch(c->pcap, BATCH, on_packet, (u_char *)(void *)c);

	pr_ring_publish(c->ring);
	if (n < 0) {
		pr_log_link(PR_LOG_WARNING, c->config.ifname,
			"%s: capture is interrupted: %s", c->config.ifname,
			pcap_geterr(c->pcap));
		capture_close(c);
		return n;
	}
	if (n > 0) {
		atomic_store(&c->link->captured_until, c->last_time);
		c->idle_since = 0;
		return n;
	}
	atomic_store(&c->link->captured_until, before - QUIET_NS);
	if (c->idle_since == 0)
		c->idle_since = before;
	return 0;
}

static void
capture_on(struct prd_capture *c)
{
	int64_t now;

	if (!c->pcap) {
		reopen(c);
		return;
	}
	if (capture_step(c) == 0)
		sleep_for(c, 100);
	now = pr_now_mono();
	if (now - c->stats_at >= STATS_NS) {
		c->stats_at = now;
		take_stats(c);
	}
}

/* What was captured before the order to stop is delivered, then the handle is closed. */
static void
capture_off(struct prd_capture *c)
{
	if (c->pcap) {
		if (capture_step(c) == 0) {
			if (pr_now_real() - c->idle_since > QUIET_NS)
				capture_close(c);
			else
				sleep_for(c, BLOCK_TIMEOUT_MS);
		}
		return;
	}
	atomic_store(&c->link->captured_until, pr_now_real());
	atomic_store(&c->quiet, true);
	sleep_for(c, 1000);
}

static void *
capture_main(void *arg)
{
	struct prd_capture *c = arg;

	/* Capture comes first: a packet not taken in time is lost. Without the right to it, as is. */
	setpriority(PRIO_PROCESS, 0, PRD_NICE_CAPTURE);
	while (!atomic_load(&c->quit)) {
		if (atomic_load(&c->on)) {
			atomic_store(&c->quiet, false);
			capture_on(c);
		} else {
			capture_off(c);
		}
	}
	capture_close(c);
	return NULL;
}

int
prd_capture_start_thread(struct prd_capture *c, struct pr_error *err)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
	rc = pthread_create(&c->thread, NULL, capture_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		errno = rc;
		return pr_error_errno(
			err, "cannot start the capture of %s", c->config.ifname);
	}
	c->started = true;
	return 0;
}

static void
capture_wake(const struct prd_capture *c)
{
	uint64_t one = 1;

	(void)!write(c->wake, &one, sizeof one);
}

void
prd_capture_turn(struct prd_capture *c, bool on)
{
	if (!on)
		atomic_store(&c->quiet, false);
	atomic_store(&c->on, on);
	capture_wake(c);
}

bool
prd_capture_is_quiet(const struct prd_capture *c)
{
	return atomic_load(&c->quiet);
}

void
prd_capture_destroy(struct prd_capture **capture)
{
	struct prd_capture *c = *capture;

	*capture = NULL;
	if (!c)
		return;
	if (c->started) {
		atomic_store(&c->quit, true);
		capture_wake(c);
		pthread_join(c->thread, NULL);
	}
	if (c->pcap)
		pcap_close(c->pcap);
	if (c->wake >= 0)
		close(c->wake);
	free(c);
}
