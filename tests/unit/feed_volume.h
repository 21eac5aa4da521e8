/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/index_follower.h"
#include "logger/volume_writer.h"
#include "merger/cli/volume/volume.h"
#include "proto/base/clock.h"
#include "proto/base/cursor.h"
#include "tests/unit/unit.h"

/* A volume whose packets are appended, and indexed by a feed. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define EPOCH 77
#define VOLUME_BYTES (20u << 20)

static struct pr_error err;
static char path[64];
static struct sfs *sfs;
static struct prl_volume_writer *append;
static uint64_t seq;

static inline uint32_t
pick(uint32_t n)
{
	return (uint32_t)random() % n;
}

static inline void
open_writer(void)
{
	const char *paths[] = {path};
	const struct sfs_open_options o = {.writer = true, .no_direct = true};
	/* full ones only: how many there are is no matter of how busy the machine is */
	const struct prl_writer_options ao = {.segment_age = 3600 * PR_NS_PER_S};

	sfs = sfs_open(paths, 1, &o, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	append = prl_writer_create(sfs, &ao, &err);
	ck_assert(append != NULL);
}

static inline void
close_writer(void)
{
	ck_assert_int_eq(prl_writer_flush(append, &err), 0);
	prl_writer_destroy(&append);
	sfs_close(&sfs);
}

static inline void
begin(void)
{
	const char *paths[] = {path};
	const struct sfs_create_options o = {
		.size = VOLUME_BYTES, .block_size = 512 * 1024, .force = true};

	snprintf(path, sizeof(path), "/tmp/packrack-feed-%d", getpid());
	ck_assert_int_eq(sfs_create(paths, 1, &o, &err), 0);
	srandom(1);
	seq = 0;
	open_writer();
}

static inline void
end(void)
{
	unlink(path);
}

/* Neighbours have addresses of their own: what one segment holds, few others do. */
static inline void
put_packets(unsigned count, unsigned step)
{
	uint8_t d[120];

	for (unsigned i = 0; i < count; i++) {
		struct pr_packet p = {.epoch = EPOCH,
			.linktype = 1,
			.data = d,
			.caplen = 100,
			.len = 100 + pick(900)};

		seq += step ? step : 1 + pick(3);
		p.seq = seq;
		p.time = p.otime = (int64_t)seq * 1000000;
		memset(d, 0, sizeof(d));
		pr_put_be16(d + 12, 0x0800);
		d[14] = 0x45;
		d[23] = pick(10) ? 6 : 17;
		pr_put_be32(d + 26, 0x0a000000 + (uint32_t)seq * 131 + pick(2));
		pr_put_be32(d + 30, 0xac100000 + (uint32_t)(seq / 4) * 517 + pick(3));
		pr_put_be16(d + 34, (uint16_t)(1024 + seq % 60000));
		pr_put_be16(d + 36, (uint16_t)(pick(50) ? 443 : pick(1000)));
		unit_must(prl_writer_put_packet(append, &p) == 0);
		if (i % 64 == 0)
			prl_writer_tick(append, pr_now_mono());
	}
}

/* ---- indexing ---- */

static unsigned refuse; /* the sink, so many times */
static unsigned level[4]; /* records by level */

static inline int
sink(void *arg, const struct pr_index_record *r)
{
	(void)arg;
	if (refuse) {
		refuse--;
		return 1;
	}
	ck_assert_msg(prl_writer_index(append, r, &err) == 0, "%s", err.text);
	level[r->level]++;
	return 0;
}

static inline struct pri_volume *
open_view(void)
{
	const char *paths[] = {path};
	struct pri_volume *view =
		pri_volume_open(paths, 1, PRI_VOLUME_CACHED | PRI_VOLUME_SUMMARIES, &err);

	ck_assert_msg(view != NULL, "%s", err.text);
	ck_assert_int_eq(pri_volume_refresh(view, true, INT64_MAX, &err), 0);
	return view;
}

/* Indexes what is there; returns how many segments that were. */
static inline uint64_t
index_all(bool group)
{
	struct pri_volume *view = open_view();
	struct pri_index_follower *feed = pri_follower_create(view, NULL, sink, NULL, &err);
	struct pri_follower_stats f;

	do
		while (pri_follower_step(feed, INT64_MAX, &err) > 0)
			;
	while (pri_follower_finish(feed, group, &err) == 0);
	while (pri_follower_step(feed, INT64_MAX, &err) > 0)
		;
	ck_assert_int_eq(pri_follower_finish(feed, group, &err), 1);
	pri_follower_stats(feed, &f);
	ck_assert_uint_eq(f.behind, 0);
	ck_assert_uint_eq(f.damaged, 0);
	pri_follower_destroy(&feed);
	pri_volume_close(&view);
	return f.segments;
}
