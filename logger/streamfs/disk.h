/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "proto/base/text.h"

/*
 * The interface between StreamFS and its devices. Tests use a simulated disk, which tears
 * and reorders writes that are not synced. Files and block devices also have a descriptor,
 * which io_uring and the writing threads use directly. Offsets, lengths and buffers of
 * writes are multiples of 4096; only the length of the last write to a block is a multiple
 * of the device's sector.
 */
struct sfs_queue;
struct sfs_disk_ops {
	ssize_t (*read)(void *arg, void *buf, size_t len, uint64_t offset); /* -1: errno */
	ssize_t (*write)(void *arg, const void *buf, size_t len, uint64_t offset);
	int (*sync)(void *arg);
	void (*close)(void *arg);
	/* Of disks without descriptor (simulated ones): opens a queue for their requests. */
	int (*open_queue)(struct sfs_queue *q);
};
struct sfs_disk {
	const struct sfs_disk_ops *ops;
	void *arg; /* argument of ops; for an fd they get the disk itself */
	uint64_t size;
	int fd; /* -1: none, use ops */
	uint32_t piece; /* longest request that the device takes undivided; 0: not known */
	/*
	 * The smallest unit that the device writes without reading, 512 to 4096; 0: not
	 * known.
	 */
	uint32_t sector;
	bool direct;
	bool missing; /* a stand-in that refuses everything: ENODEV */
	bool lost; /* missing for good: the volume goes on without it */
	char path[200];
	char why[300]; /* why it is missing */
};
void sfs_disk_missing(struct sfs_disk *disk, const char *path, const char *why);

/* direct: try O_DIRECT first. */
int sfs_disk_open(struct sfs_disk *disk, const char *path, bool write, bool direct,
	struct pr_error *err);
int sfs_disk_measure(struct sfs_disk *disk, struct pr_error *err); /* as it is now */
bool sfs_disk_is_file(const struct sfs_disk *disk);
void sfs_disk_close(struct sfs_disk *disk);
/* Whole reads and writes; -1 with errno: EIO when the device ends early. */
int sfs_disk_read(struct sfs_disk *disk, void *buf, size_t len, uint64_t offset);
int sfs_disk_write(struct sfs_disk *disk, const void *buf, size_t len, uint64_t offset);
int sfs_disk_sync(struct sfs_disk *disk);

#define SFS_CONTROL_WRITE 2 /* a root or a sync */
struct sfs_request {
	struct sfs_disk *disk;
	const uint8_t *buf; /* bytes to write; NULL: a read or a sync */
	uint8_t *into; /* buffer to read into; both NULL: a sync */
	size_t len, done;
	uint64_t offset;
	int error; /* 0 or errno, when it comes back */
	uint32_t slot, parts;
	uint32_t flush_parity; /* of the flush that waits for it; or SFS_CONTROL_WRITE */
	bool first; /* submitted before waiting requests: it does not depend on them */
	struct sfs_request *next;
};
/* Performs the request at once, and waits. */
void sfs_request_perform(struct sfs_request *r);

/* Requests under way. One thread. A request is the queue's from submit until reap returns it. */
struct sfs_queue_ops {
	void (*submit)(void *state, struct sfs_request *r);
	struct sfs_request *(*reap)(void *state, bool wait); /* a list */
	void (*destroy)(void *state);
	bool (*pin)(void *state, uint8_t *base, size_t size); /* optional */
};
struct sfs_queue {
	const struct sfs_queue_ops *ops;
	void *state;
	const char *name;
	uint32_t in_flight;
};
/* How files and devices of volumes are opened: open(2), or a daemon's own. Set once, before threads. */
extern int (*sfs_open_file)(const char *path, int flags);

enum sfs_queue_kind {
	SFS_QUEUE_ANY, /* io_uring; if not permitted, threads */
	SFS_QUEUE_NO_URING, /* a few threads with pwrite */
	/* io_uring; one thread submits and reaps, so completions need not wake it. */
	SFS_QUEUE_ONE_THREAD,
};
int sfs_queue_open(struct sfs_queue *q, enum sfs_queue_kind kind, struct pr_error *err);
void sfs_queue_close(struct sfs_queue *q);
/*
 * Registers memory (io_uring's registered buffers): the kernel need not look up its pages
 * for each request. base is a multiple of a page. False: not possible (RLIMIT_MEMLOCK, or
 * no io_uring); everything works without it.
 */
bool sfs_queue_pin(struct sfs_queue *q, uint8_t *base, size_t size);
void sfs_queue_submit(struct sfs_queue *q, struct sfs_request *r);
struct sfs_request *sfs_queue_reap(struct sfs_queue *q, bool wait);
/*
 * Puts the request into a list of waiting ones: at the end, or, with `first`, at the
 * beginning.
 */
void sfs_request_wait(
	struct sfs_request **list, struct sfs_request ***tail, struct sfs_request *r);
