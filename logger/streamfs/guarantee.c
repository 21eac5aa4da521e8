/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "logger/streamfs/internal.h"
#include "proto/base/clock.h"

/*
 * Storage guarantees (Hyperion, section 4.2): what may be promised, and changing a promise on a
 * volume that is being written.
 */

/* The frontier needs room to turn: not all of even the smallest volume may be promised. */
#define ROOM 4

struct promised {
	uint64_t blocks, streams;
};

static struct promised
promised_beside(const struct sfs_table *t, int stream)
{
	struct promised p = {0};
	for (uint32_t i = 0; i < t->streams; i++) {
		if ((int)i == stream || t->stream[i].guarantee == 0)
			continue;
		p.blocks += sfs_table_blocks_for(t, t->stream[i].guarantee);
		p.streams++;
	}
	return p;
}

/* Blocks for records, on devices that are not lost. */
static uint64_t
data_blocks(const struct sfs *sfs)
{
	uint64_t blocks = sfs->root.blocks;
	for (uint16_t i = 0; i < sfs->disks; i++)
		if (sfs->disk[i].lost)
			blocks -= sfs->layout.rows[i];
	return blocks - blocks / sfs->root.map_interval;
}

uint64_t
sfs_guarantee_most(const struct sfs *sfs)
{
	uint64_t data = data_blocks(sfs);
	uint64_t most = data * sfs->root.utilization / 1000;
	if (data <= ROOM)
		return 0;
	return most > data - ROOM ? data - ROOM : most;
}

int
sfs_guarantee_check(
	const struct sfs *sfs, int stream, uint64_t guarantee, struct pr_error *err)
{
	struct promised p = promised_beside(&sfs->table, stream);
	uint64_t data = data_blocks(sfs), most = sfs_guarantee_most(sfs);
	p.blocks += sfs_table_blocks_for(&sfs->table, guarantee);
	p.streams += guarantee > 0;
	/* each stream's newest block comes on top of what is promised */
	if (p.blocks <= most && p.blocks + p.streams + ROOM <= data)
		return 0;
	return pr_error_set(err,
		"guarantees of %llu blocks in all: at most %llu of the volume's %llu may "
		"be guaranteed (utilization %u.%u %%)",
		(unsigned long long)p.blocks, (unsigned long long)most,
		(unsigned long long)sfs->root.blocks, sfs->root.utilization / 10,
		sfs->root.utilization % 10);
}

static int
set_own(struct sfs *sfs, const char *name, uint64_t guarantee, struct pr_error *err)
{
	int id = sfs_stream_find(sfs, name);
	if (id < 0)
		return pr_error_set(err, "no stream '%s' in the volume", name);
	if (sfs_guarantee_check(sfs, id, guarantee, err) < 0)
		return -1;
	struct sfs_stream *s = &sfs->table.stream[id], old = *s;
	s->guarantee = guarantee;
	s->flags |= SFS_STREAM_KEPT;
	return sfs_stream_store(sfs, (uint32_t)id, &old, err);
}

void
sfs_guarantee_serve(struct sfs *sfs)
{
	struct sfs_shm_header *h = sfs->shm.header;
	uint64_t state = atomic_load_explicit(&h->ask_state, memory_order_acquire);
	struct sfs_ask ask;
	struct sfs_answer answer = {0};
	struct pr_error err = {0};
	if ((state & 1) == 0)
		return;
	sfs_words_get(h->ask, &ask, SFS_ASK_WORDS);
	ask.name[SFS_NAME_MAX] = 0;
	answer.result = set_own(sfs, ask.name, ask.guarantee, &err);
	snprintf(answer.text, sizeof(answer.text), "%s", err.text);
	sfs_words_put(h->answer, &answer, SFS_ANSWER_WORDS);
	atomic_store_explicit(&h->ask_state, state + 1, memory_order_release);
}

#define PATIENCE (10 * PR_NS_PER_S)

/* Until what was asked, by us or by someone who gave up, is answered. */
static int
await(struct sfs *sfs, const struct sfs_shm_header *h, int64_t deadline,
	struct pr_error *err)
{
	while (atomic_load_explicit(&h->ask_state, memory_order_acquire) & 1) {
		if (!sfs_writer_alive(sfs))
			return pr_error_set(err, "the volume's writer has gone: try again");
		if (pr_now_mono() > deadline)
			return pr_error_set(err,
				"the volume's writer does not answer: it may be busy, or "
				"its device may hang");
		poll(NULL, 0, 2);
	}
	return 0;
}

static int
ask_writer(struct sfs *sfs, const struct sfs_ask *ask, struct pr_error *err)
{
	int64_t deadline = pr_now_mono() + PATIENCE;
	struct sfs_answer answer;
	int fd, rc;
	struct sfs_shm_header *h = sfs_shm_ask_open(&sfs->shm, &fd, err);
	if (!h)
		return -1;
	rc = await(sfs, h, deadline, err);
	if (rc == 0) {
		sfs_words_put(h->ask, ask, SFS_ASK_WORDS);
		atomic_fetch_add_explicit(&h->ask_state, 1, memory_order_release);
		rc = await(sfs, h, deadline, err);
	}
	if (rc == 0) {
		sfs_words_get(h->answer, &answer, SFS_ANSWER_WORDS);
		answer.text[sizeof(answer.text) - 1] = 0;
		if (answer.result < 0)
			rc = pr_error_set(err, "%s", answer.text);
	}
	sfs_shm_ask_close(h, fd);
	return rc;
}

int
sfs_guarantee_set(
	struct sfs *sfs, const char *stream, uint64_t guarantee, struct pr_error *err)
{
	struct sfs_ask ask = {.guarantee = guarantee};
	if (sfs->w)
		return set_own(sfs, stream, guarantee, err);
	if (sfs_refresh(sfs, err) != SFS_OK)
		return -1;
	if (!sfs->live)
		return pr_error_set(
			err, "no writer of the volume lives: open it for writing");
	if (strlen(stream) > SFS_NAME_MAX)
		return pr_error_set(err, "no stream '%.60s' in the volume", stream);
	snprintf(ask.name, sizeof(ask.name), "%s", stream);
	return ask_writer(sfs, &ask, err);
}

/* As seen by whoever asks, writer or reader. */
void
sfs_guarantee_info(struct sfs *sfs, struct sfs_volume_info *out)
{
	struct sfs_stream s;
	uint64_t size = sfs->root.block_size;
	out->utilization = sfs->root.utilization;
	out->guarantee_most = sfs_guarantee_most(sfs);
	for (uint32_t i = 0; i < sfs_view_streams(sfs); i++)
		if (sfs_view_stream(sfs, i, &s))
			out->guaranteed_blocks +=
				s.guarantee / size + (s.guarantee % size != 0);
}
