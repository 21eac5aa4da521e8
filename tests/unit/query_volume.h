/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/query/volume.h"
#include "logger/streamfs/streamfs.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"
#include "tests/unit/unit.h"

/*
 * A volume written as a logger writes one, next to a plain list of the same packets: whatever is
 * asked, the query must give what going through the list gives.
 */
#define LINKS 2
#define EPOCHS 3
#define MODEL_MAX 60000

struct model_packet {
	struct pr_packet p;
	struct sfs_handle handle; /* of its segment; generation 0: none yet */
	uint8_t data[64];
};

static struct model_packet *model;
static size_t model_count;
static char path[64];
static struct pr_error err;

struct writer {
	struct sfs *sfs;
	int data[LINKS], ledger, directory, strays;
	struct pr_segment_builder builder[LINKS];
	uint8_t buf[LINKS][49152];
	size_t first_in_model[LINKS][4096], in_segment[LINKS];
	uint8_t pending[65536]; /* directory entries */
	struct pr_writer pending_writer;
	struct pr_directory_coder coder;
	struct sfs_handle listed_before;
	unsigned least; /* packets of a segment; 0: few, by chance */
	unsigned forget; /* one in so many directory entries is lost; 0 none */
};

static struct writer w;

static void
make_volume(void)
{
	snprintf(path, sizeof(path), "/tmp/packrack-query.XXXXXX");
	close(mkstemp(path));
	model = calloc(MODEL_MAX, sizeof(*model));
	model_count = 0;
}

static void
remove_volume(void)
{
	unlink(path);
	free(model);
}

static void
begin_directory(void)
{
	w.pending_writer = pr_writer_make(w.pending, sizeof(w.pending));
	w.listed_before = (struct sfs_handle){0};
	ck_assert(pr_directory_begin(&w.coder, &w.pending_writer));
}

static void
open_writer(uint64_t size)
{
	const char *paths[] = {path};
	struct sfs_create_options create = {
		.size = size, .block_size = 65536, .force = true};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 4 << 20};

	memset(&w, 0, sizeof(w));
	ck_assert_msg(sfs_create(paths, 1, &create, &err) == 0, "%s", err.text);
	w.sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(w.sfs != NULL, "%s", err.text);
	w.data[0] = sfs_stream_open(w.sfs, "packets.0", 0, 0, &err);
	w.data[1] = sfs_stream_open(w.sfs, "packets.1", 0, 0, &err);
	w.ledger = sfs_stream_open(w.sfs, "ledger", size / 16, 0, &err);
	w.directory = sfs_stream_open(w.sfs, "segments", size / 16, 0, &err);
	w.strays = sfs_stream_open(w.sfs, "strays", 0, 0, &err);
	begin_directory();
}

static void
flush_directory(void)
{
	size_t len = pr_writer_len(&w.pending_writer);

	if (len > 1)
		ck_assert_int_eq(
			sfs_append(w.sfs, w.directory, 0, 0, w.pending, len, NULL, &err),
			SFS_OK);
	begin_directory();
}

static void
list_segment(const struct pr_segment_builder *b, const struct sfs_handle *handle)
{
	struct pr_directory_entry e = {.kind = PR_DIRECTORY_SEGMENT,
		.u.segment = {.epoch = b->header.epoch,
			.first_seq = b->header.first_seq,
			.last_seq = b->last_seq,
			.min_time = b->header.min_time,
			.max_time = b->header.max_time,
			.first_otime = b->header.first_otime,
			.last_otime = b->header.last_otime,
			.count = b->header.count,
			.link = b->header.link,
			.linktype = b->header.linktype}};

	if (w.forget && random() % w.forget == 0)
		return;
	e.handle_len = (uint8_t)sfs_handle_pack(handle, &w.listed_before, e.handle);
	w.listed_before = *handle;
	ck_assert(pr_directory_store(&w.coder, &w.pending_writer, &e));
	if (pr_writer_room(&w.pending_writer) < 1000)
		flush_directory();
}

static void
seal(int link)
{
	struct pr_segment_builder *b = &w.builder[link];
	struct sfs_handle handle;
	size_t len;

	if (w.in_segment[link] == 0)
		return;
	len = pr_segment_seal(b);
	ck_assert_int_eq(sfs_append(w.sfs, w.data[link], b->header.min_time,
				 b->header.max_time, b->buf, len, &handle, &err),
		SFS_OK);
	for (size_t i = 0; i < w.in_segment[link]; i++)
		model[w.first_in_model[link][i]].handle = handle;
	list_segment(b, &handle);
	w.in_segment[link] = 0;
}

static void
write_packet(const struct pr_packet *p)
{
	int link = p->link;
	struct pr_segment_builder *b = &w.builder[link];
	struct model_packet *m = &model[model_count];

	unit_must(model_count < MODEL_MAX);
	m->p = *p;
	memcpy(m->data, p->data, p->caplen);
	m->p.data = m->data;
	if (w.in_segment[link] >= (w.least ? w.least : 1 + (size_t)random() % 200) ||
		(w.in_segment[link] && b->header.epoch != p->epoch))
		seal(link);
	if (w.in_segment[link] == 0) {
		pr_segment_begin(b, w.buf[link], sizeof(w.buf[link]), 0);
		b->header.epoch = p->epoch;
		b->header.link = p->link;
		b->header.linktype = p->linktype;
	}
	unit_must(pr_segment_add(b, &m->p));
	w.first_in_model[link][w.in_segment[link]++] = model_count++;
}

static void
write_ledger(const struct pr_ledger_entry *e)
{
	uint8_t buf[512];
	struct pr_writer out = pr_writer_make(buf, sizeof(buf));

	ck_assert(pr_ledger_store(&out, e));
	ck_assert_int_eq(
		sfs_append(w.sfs, w.ledger, 0, 0, buf, pr_writer_len(&out), NULL, &err),
		SFS_OK);
}

static void
write_mark(uint64_t epoch, uint16_t link, uint64_t last_seq, int64_t last_otime)
{
	struct pr_ledger_entry e = {.type = PR_LEDGER_MARK,
		.u.mark = {.epoch = epoch, .said_until = last_otime}};

	e.u.mark.link.link = link;
	e.u.mark.link.linktype = 1;
	e.u.mark.link.last_seq = last_seq;
	e.u.mark.link.last_otime = last_otime;
	snprintf(e.u.mark.link.name, sizeof(e.u.mark.link.name), "tap%u", link);
	write_ledger(&e);
}

/* An Ethernet frame with UDP or TCP in it, its number in the payload. */
static void
make_frame(uint8_t data[64], uint32_t number)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0,
		50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};

	memset(data, 0, 64);
	memcpy(data, head, sizeof(head));
	data[23] = random() % 4 ? 17 : 6;
	data[29] = (uint8_t)(random() % 8);
	data[36] = 0;
	data[37] = random() % 3 ? 53 : 80;
	memcpy(data + 50, &number, sizeof(number));
}

struct clockwork {
	uint64_t seq[LINKS];
	int64_t now, otime[LINKS];
};

/* One packet of the link; this node holds some of them. */
static void
next_packet(struct clockwork *c, uint64_t epoch, uint16_t link, unsigned held_percent)
{
	uint8_t data[64];
	struct pr_packet p = {.epoch = epoch,
		.link = link,
		.linktype = 1,
		.caplen = 60,
		.len = 60 + (uint32_t)random() % 1000,
		.data = data};

	c->now += random() % 5 ? random() % 1000 : 0;
	if (random() % 1500 == 0)
		c->now -=
			400000; /* for many segments: until it has caught up, otime stands */
	p.time = c->now;
	if (random() % 50 == 0)
		p.time -= random() % 20000; /* the clock stepped back */
	if (random() % 3000 == 0)
		p.time -= 3000000;
	if (p.time > c->otime[link])
		c->otime[link] = p.time;
	p.otime = c->otime[link];
	p.seq = ++c->seq[link];
	make_frame(data, (uint32_t)p.seq);
	if ((unsigned)random() % 100 < held_percent)
		write_packet(&p);
}

static void
write_epoch(uint64_t epoch, int64_t start, size_t packets, unsigned held_percent)
{
	struct clockwork c = {.now = start, .otime = {PR_TIME_MIN, PR_TIME_MIN}};

	for (size_t i = 0; i < packets; i++) {
		next_packet(&c, epoch, (uint16_t)(random() % LINKS), held_percent);
		if (random() % 500 == 0)
			flush_directory();
	}
	for (int link = 0; link < LINKS; link++) {
		seal(link);
		if (c.seq[link])
			write_mark(epoch, (uint16_t)link, c.seq[link], c.otime[link]);
	}
}

static int
by_order(const void *a, const void *b)
{
	return pr_packet_compare(
		&((const struct model_packet *)a)->p, &((const struct model_packet *)b)->p);
}

static void
sort_model(void)
{
	qsort(model, model_count, sizeof(*model), by_order);
	for (size_t i = 0; i < model_count; i++)
		model[i].p.data = model[i].data;
}

static struct pri_volume *
open_view(void)
{
	const char *paths[] = {path};
	struct pri_volume *view = pri_volume_open(paths, 1, 0, &err);

	ck_assert_msg(view != NULL, "%s", err.text);
	return view;
}

static void
refresh(struct pri_volume *view)
{
	int rc = pri_volume_refresh(view, true, INT64_MAX, &err);

	ck_assert_msg(rc == 0, "%d %s", rc, err.text);
}
