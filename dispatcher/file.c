/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/file.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/clock.h"

#define BATCH 64 /* packets of one file in a row, at pace max */

struct file {
	const char *path;
	pcap_t *pcap;
	struct prd_link *link;
	struct bpf_program
		program; /* run here, so that packets can be counted as they lie */
	bool filtered;
	uint64_t packets; /* read, whether they matched or not */
	bool ended;
	/* the next packet, with recorded pace */
	bool waiting;
	struct pcap_pkthdr *header;
	const u_char *data;
	int64_t first_time, time;
};

struct prd_files {
	struct prd_files_config config;
	struct pr_ring *ring;
	struct file *files;
	unsigned count;
	int wake;
	pthread_t thread;
	bool started;
	_Atomic bool on, quiet, quit, at_end, broken;
	struct pr_error why; /* written before broken is set */
	int64_t begun; /* monotonic; 0: not yet */
};

static int
file_filter(struct file *f, const char *filter, enum prd_fault *fault, struct pr_error *err)
{
	if (!filter)
		return 0;
	if (pcap_compile(f->pcap, &f->program, filter, 1, PCAP_NETMASK_UNKNOWN) < 0) {
		*fault = PRD_FAULT_USAGE;
		return pr_error_set(err, "--filter '%s': %s", filter, pcap_geterr(f->pcap));
	}
	f->filtered = true;
	return 0;
}

static int
file_open(struct file *f, const struct prd_files_config *config, enum prd_fault *fault,
	struct pr_error *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	const char *name;
	int type;

	f->pcap = pcap_open_offline_with_tstamp_precision(
		f->path, PCAP_TSTAMP_PRECISION_NANO, text);
	if (!f->pcap)
		return strncmp(text, f->path, strlen(f->path)) == 0
			       ? pr_error_set(err, "--read %s", text)
			       : pr_error_set(err, "--read %s: %s", f->path, text);
	type = pcap_datalink(f->pcap);
	name = pcap_datalink_val_to_name(type);
	if (type != DLT_EN10MB)
		return pr_error_set(err,
			"--read %s: its link type is %s (%d); the rack carries Ethernet "
			"only: "
			"take it in with 'packrack import'",
			f->path, name ? name : "unknown", type);
	f->link->linktype = 1;
	f->link->snaplen = (uint32_t)pcap_snapshot(f->pcap);
	if (f->link->snaplen == 0 || f->link->snaplen > config->snaplen)
		f->link->snaplen = config->snaplen;
	return file_filter(f, config->filter, fault, err);
}

struct prd_files *
prd_files_open(char *const *paths, unsigned count, const struct prd_files_config *config,
	struct prd_link *links, struct pr_ring *ring, enum prd_fault *fault,
	struct pr_error *err)
{
	struct prd_files *files = calloc(1, sizeof *files);

	*fault = PRD_FAULT_RUN;
	if (!files || !(files->files = calloc(count, sizeof *files->files))) {
		free(files);
		pr_error_set(err, "no memory for trace files");
		return NULL;
	}
	files->config = *config;
	files->ring = ring;
	files->count = count;
	files->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (files->wake < 0) {
		pr_error_errno(err, "cannot make an eventfd");
		prd_files_destroy(&files);
		return NULL;
	}
	for (unsigned i = 0; i < count; i++) {
		files->files[i].path = paths[i];
		files->files[i].link = &links[i];
		if (file_open(&files->files[i], config, fault, err) < 0) {
			prd_files_destroy(&files);
			return NULL;
		}
	}
	return files;
}

static void
nap(struct prd_files *files, int64_t ns)
{
	struct pollfd pfd = {.fd = files->wake, .events = POLLIN};
	struct timespec left = {.tv_sec = ns / PR_NS_PER_S, .tv_nsec = ns % PR_NS_PER_S};
	uint64_t n;

	if (ppoll(&pfd, 1, &left, NULL) > 0)
		(void)!read(files->wake, &n, sizeof n);
}

/* Waits for room; NULL when the thread shall end. */
static struct prd_record *
reserve(struct prd_files *files, size_t size)
{
	struct prd_record *rec;

	while (!(rec = pr_ring_reserve(files->ring, size))) {
		pr_ring_publish(files->ring);
		if (atomic_load(&files->quit))
			return NULL;
		nap(files, 500000);
	}
	return rec;
}

static void
file_deliver(struct prd_files *files, struct file *f)
{
	uint32_t caplen = f->header->caplen;
	struct prd_record *rec;
	size_t size;

	if (caplen > files->config.snaplen)
		caplen = files->config.snaplen;
	size = prd_record_size(caplen);
	rec = reserve(files, size);
	if (!rec)
		return;
	rec->time = f->time;
	rec->caplen = caplen;
	rec->len = f->header->len;
	rec->link = f->link->number;
	memcpy(rec->data, f->data, caplen);
	pr_ring_commit(files->ring, size);
	pr_count(&f->link->captured_packets, 1);
	pr_count(&f->link->captured_bytes, rec->len);
	f->waiting = false;
}

static void
file_end(struct prd_files *files, struct file *f, int rc)
{
	f->ended = true;
	if (rc != PCAP_ERROR_BREAK) {
		pr_error_set(&files->why,
			"--read %s: packet %llu: %s; the %llu packets before it were "
			"delivered",
			f->path, (unsigned long long)f->packets + 1, pcap_geterr(f->pcap),
			(unsigned long long)pr_counter_get(&f->link->captured_packets));
		atomic_store(&files->broken, true);
	}
	atomic_store(&f->link->read_to_end, true);
}

/* Makes the file's next packet the waiting one; false at its end. */
static bool
file_look(struct prd_files *files, struct file *f)
{
	int rc;

	if (f->waiting || f->ended)
		return f->waiting;
	do {
		rc = pcap_next_ex(f->pcap, &f->header, &f->data);
		if (rc != 1) {
			file_end(files, f, rc);
			return false;
		}
		f->time = pr_time_from_pcap(f->header->ts.tv_sec, f->header->ts.tv_usec);
		if (f->packets++ == 0)
			f->first_time = f->time;
	} while (f->filtered && !pcap_offline_filter(&f->program, f->header, f->data));
	f->waiting = true;
	return true;
}

/* All files in turn, a batch each. */
static bool
step_max(struct prd_files *files)
{
	bool any = false;

	for (unsigned i = 0; i < files->count; i++) {
		struct file *f = &files->files[i];

		for (unsigned n = 0; n < BATCH && file_look(files, f); n++) {
			file_deliver(files, f);
			any = true;
			if (f->waiting)
				return true;
		}
		pr_ring_publish(files->ring);
	}
	return any;
}

/* Difference of two times, kept within what a wait can be. */
static int64_t
since_first(const struct file *f)
{
	int64_t t;

	if (__builtin_sub_overflow(f->time, f->first_time, &t))
		return f->time < f->first_time ? 0 : PR_TIME_MAX / 2;
	return t < 0 ? 0 : t < PR_TIME_MAX / 2 ? t : PR_TIME_MAX / 2;
}

/* The file whose packet is due first, when it is due. */
static bool
step_recorded(struct prd_files *files)
{
	struct file *next = NULL;
	int64_t wait;

	for (unsigned i = 0; i < files->count; i++) {
		struct file *f = &files->files[i];

		if (file_look(files, f) && (!next || since_first(f) < since_first(next)))
			next = f;
	}
	if (!next) {
		pr_ring_publish(files->ring);
		return false;
	}
	if (files->begun == 0)
		files->begun = pr_now_mono();
	wait = since_first(next) - (pr_now_mono() - files->begun);
	if (wait > 0) {
		pr_ring_publish(files->ring);
		nap(files, wait < 100 * PR_NS_PER_MS ? wait : 100 * PR_NS_PER_MS);
	} else {
		file_deliver(files, next);
	}
	return true;
}

static void *
files_main(void *arg)
{
	struct prd_files *files = arg;
	bool more = true;

	while (!atomic_load(&files->quit)) {
		if (!atomic_load(&files->on) || !more) {
			pr_ring_publish(files->ring);
			atomic_store(&files->quiet, true);
			nap(files, PR_NS_PER_S);
			continue;
		}
		atomic_store(&files->quiet, false);
		more = files->config.recorded ? step_recorded(files) : step_max(files);
		if (!more)
			atomic_store(&files->at_end, true);
	}
	return NULL;
}

int
prd_files_start_thread(struct prd_files *files, struct pr_error *err)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
	rc = pthread_create(&files->thread, NULL, files_main, files);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		errno = rc;
		return pr_error_errno(err, "cannot start reading");
	}
	files->started = true;
	return 0;
}

static void
files_wake(const struct prd_files *files)
{
	uint64_t one = 1;

	(void)!write(files->wake, &one, sizeof one);
}

void
prd_files_turn(struct prd_files *files, bool on)
{
	if (!on)
		atomic_store(&files->quiet, false);
	atomic_store(&files->on, on);
	files_wake(files);
}

bool
prd_files_is_quiet(const struct prd_files *files)
{
	return atomic_load(&files->quiet);
}

bool
prd_files_at_end(const struct prd_files *files)
{
	return atomic_load(&files->at_end);
}

bool
prd_files_broken(const struct prd_files *files, struct pr_error *err)
{
	if (!atomic_load(&files->broken))
		return false;
	*err = files->why;
	return true;
}

void
prd_files_destroy(struct prd_files **files)
{
	struct prd_files *all = *files;

	*files = NULL;
	if (!all)
		return;
	if (all->started) {
		atomic_store(&all->quit, true);
		files_wake(all);
		pthread_join(all->thread, NULL);
	}
	for (unsigned i = 0; i < all->count; i++) {
		if (all->files[i].filtered)
			pcap_freecode(&all->files[i].program);
		if (all->files[i].pcap)
			pcap_close(all->files[i].pcap);
	}
	if (all->wake >= 0)
		close(all->wake);
	free(all->files);
	free(all);
}
