/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/streamfs/internal.h"

/*
 * How long the volume will hold what comes. A stream's rate is what its blocks take of the volume
 * over the times that their records have; the recent rate counts only the blocks of the last minute
 * before now, so it speaks of captures that are running. What is all in one block says little of
 * itself: it is taken to have come in the time of the longest stream.
 */
#define RECENT (60 * INT64_C(1000000000))
#define SECOND 1e9

struct rates {
	double whole, recent; /* bytes a second */
	double small, longest; /* bytes of streams of one block; ns of the longest */
};

static double
over(double bytes, double ns)
{
	return ns < 1 ? 0 : bytes / ns * SECOND;
}

static double
seen(int64_t from, int64_t to)
{
	return (double)to - (double)from;
}

/* A block that is full takes its whole size; the newest, what is in it. */
static void
stream_rates(struct sfs *sfs, const struct sfs_stream *s, int64_t now, struct rates *out)
{
	double bytes = 0, recent = 0;
	int64_t from = INT64_MAX, to = INT64_MIN, recent_from = INT64_MAX;
	uint64_t generation = 0;
	struct sfs_entry e;
	for (uint32_t b = s->oldest; b != SFS_NONE && sfs_view_entry(sfs, b, &e) &&
				     e.stream == s->id && e.generation > generation;
		b = e.next) {
		double size = e.next == SFS_NONE ? e.end : sfs->root.block_size;
		generation = e.generation;
		if (e.records == 0 || e.min_time == INT64_MIN || e.min_time > e.max_time)
			continue;
		from = e.min_time < from ? e.min_time : from;
		to = e.max_time > to ? e.max_time : to;
		bytes += size;
		if (e.max_time < now - RECENT || e.min_time > now)
			continue;
		recent += size;
		recent_from = e.min_time < recent_from ? e.min_time : recent_from;
	}
	if (s->blocks <= 1)
		out->small += bytes;
	else if (from < to)
		out->whole += over(bytes, seen(from, to));
	if (from < to && seen(from, to) > out->longest)
		out->longest = seen(from, to);
	if (recent_from < now)
		out->recent += over(recent, seen(recent_from, now));
}

static int64_t
time_for(double bytes, double rate)
{
	double s = bytes / rate;
	/* a rate of nothing, or more than 292 years */
	return rate <= 0 || s > 9.2e9 ? INT64_MAX : (int64_t)(s * SECOND);
}

int
sfs_forecast(struct sfs *sfs, int64_t now, struct sfs_forecast *out, struct pr_error *err)
{
	struct sfs_volume_info volume;
	struct rates r = {0};
	struct sfs_stream s;
	if (!sfs->live && !sfs->table_valid)
		return pr_error_set(err, "the volume cannot be read at present"), SFS_ERROR;
	if (sfs_info(sfs, &volume, err) != SFS_OK)
		return SFS_ERROR;
	uint64_t data = volume.blocks - volume.blocks / sfs->root.map_interval;
	*out = (struct sfs_forecast){.capacity = data * volume.block_size};
	for (uint32_t i = 0; i < volume.stream_count; i++) {
		if (!sfs_view_stream(sfs, i, &s))
			continue;
		stream_rates(sfs, &s, now, &r);
		out->wrapped = out->wrapped || s.evicted_until != INT64_MIN;
	}
	r.whole += over(r.small, r.longest);
	out->rate = (uint64_t)r.whole;
	out->recent_rate = volume.writer_alive ? (uint64_t)r.recent : 0;
	double present = out->recent_rate > 0 ? r.recent : r.whole;
	uint64_t used = volume.blocks_used < data ? volume.blocks_used : data;
	uint64_t bound = volume.guaranteed_blocks < data ? volume.guaranteed_blocks : data;
	out->kept = time_for((double)(data - bound) * volume.block_size, present);
	out->until_full =
		out->wrapped ? 0
			     : time_for((double)(data - used) * volume.block_size, present);
	return SFS_OK;
}
