/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "logger/streamfs/internal.h"

/*
 * Is a device faster at its begin than at its end, as spinning disks are? Its rotational flag lies in
 * virtual machines, so it is asked itself. First and last GiB are read in turn, so that what else
 * the machine does falls on both, and the middle one of the rounds' ratios counts.
 */
#define GIB (UINT64_C(1) << 30)
#define ROUNDS 7
#define PIECE (1u << 20)
#define PIECES 16 /* a round: 16 MiB, a seek is a twentieth of what it takes */

/* ns that it takes to read from offset on; -1: it cannot be read. */
static int64_t
time_read(struct sfs_disk *disk, uint64_t offset, uint8_t *buf, int64_t (*now)(void))
{
	int64_t begin = now();
	for (uint64_t i = 0; i < PIECES; i++)
		if (sfs_disk_read(disk, buf, PIECE, offset + i * PIECE) < 0)
			return -1;
	return now() - begin;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double
sfs_zones_measure(struct sfs_disk *disk, int64_t (*now)(void))
{
	double ratio[ROUNDS];
	uint64_t end = disk->size & ~(uint64_t)(PIECE - 1);
	uint8_t *buf = sfs_buffer(PIECE);
	int n = 0;
	if (disk->size < 4 * GIB || !buf) {
		free(buf);
		return 1;
	}
	/* each round elsewhere in the GiB: a cache below us has not seen it */
	for (; n < ROUNDS; n++) {
		uint64_t at = (uint64_t)n * (GIB / ROUNDS & ~(uint64_t)(PIECE - 1));
		int64_t first = time_read(disk, at, buf, now);
		int64_t last = time_read(disk, end - GIB + at, buf, now);
		if (first <= 0 || last <= 0)
			break;
		ratio[n] = (double)last / (double)first;
	}
	free(buf);
	if (n < ROUNDS)
		return 1;
	qsort(ratio, ROUNDS, sizeof(*ratio), by_value);
	return ratio[ROUNDS / 2];
}
