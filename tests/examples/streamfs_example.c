/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamFS without the rest of packrack: makes a volume, appends to two streams, reads one record
 * back by its handle and a stream by walking it, and repairs nothing as nothing is wrong.
 *
 *	cc streamfs_example.c $(pkg-config --cflags --libs streamfs)
 *	./a.out VOLUME
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <streamfs.h>

static const char *path;

static void
fail(const char *what, const struct pr_error *err)
{
	fprintf(stderr, "%s: %s\n", what, err->text);
	exit(1);
}

/* One process writes; here a thousand readings of a thermometer, and a remark now and then. */
static struct sfs_handle
record(struct pr_error *err)
{
	struct sfs_create_options create = {.size = 16 << 20, .block_size = 64 << 10};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 4 << 20};
	struct sfs_handle last = {0};
	struct sfs *sfs;
	int readings, remarks;
	char text[64];

	if (sfs_create(&path, 1, &create, err) < 0)
		fail("create", err);
	sfs = sfs_open(&path, 1, &open, err);
	if (!sfs)
		fail("open", err);
	/* a megabyte of remarks is kept, however many readings come */
	readings = sfs_stream_open(sfs, "readings", 0, 0, err);
	remarks = sfs_stream_open(sfs, "remarks", 1 << 20, 0, err);
	if (readings < 0 || remarks < 0)
		fail("stream", err);
	for (int64_t second = 0; second < 1000; second++) {
		int64_t time = second * 1000000000;
		double degrees = 20 + (double)(second % 60) / 10;

		if (sfs_append(sfs, readings, time, time, &degrees, sizeof(degrees), NULL,
			    err) != SFS_OK)
			fail("append", err);
		if (second % 100 != 0)
			continue;
		snprintf(text, sizeof(text), "second %d", (int)second);
		if (sfs_append(sfs, remarks, time, time, text, strlen(text) + 1, &last,
			    err) != SFS_OK)
			fail("append", err);
	}
	/* from here on, a power cut takes none of it */
	if (sfs_flush(sfs, err) != SFS_OK)
		fail("flush", err);
	sfs_close(&sfs);
	return last;
}

/* Any number of processes read, also while one writes. */
static void
read_back(const struct sfs_handle *remark, struct pr_error *err)
{
	struct sfs_open_options open = {.writer = false};
	struct sfs *sfs = sfs_open(&path, 1, &open, err);
	struct sfs_cursor *cursor;
	struct sfs_record r;
	unsigned count = 0;
	int rc;

	if (!sfs)
		fail("open", err);
	if (sfs_read(sfs, remark, NULL, 0, NULL, &r, err) != SFS_OK)
		fail("read", err);
	printf("remark %d: %s\n", (int)r.sequence, (const char *)r.body);
	cursor = sfs_cursor_open(sfs, sfs_stream_find(sfs, "readings"), NULL, err);
	if (!cursor)
		fail("cursor", err);
	while ((rc = sfs_cursor_next(cursor, &r, err)) != 0) {
		if (rc == 1)
			count++;
		else if (rc == SFS_ERROR)
			fail("walk", err);
		/* else: records were recycled or damaged; it goes on behind them */
	}
	sfs_cursor_close(&cursor);
	sfs_close(&sfs);
	printf("readings: %u\n", count);
}

int
main(int argc, char **argv)
{
	struct sfs_repair_result result;
	struct sfs_handle remark;
	struct pr_error err;

	if (argc != 2) {
		fprintf(stderr, "usage: %s VOLUME\n", argv[0]);
		return 2;
	}
	path = argv[1];
	remark = record(&err);
	read_back(&remark, &err);
	if (sfs_repair(&path, 1, NULL, NULL, NULL, &result, &err) < 0)
		fail("repair", &err);
	printf("faults: %d\n", (int)result.faults);
	return 0;
}
