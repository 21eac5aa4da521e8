/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/answer.h"
#include "indexer/filter.h"
#include "indexer/query.h"
#include "indexer/query_message.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/clock.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"

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

	ck_assert_uint_lt(model_count, MODEL_MAX);
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
	ck_assert(pr_segment_add(b, &m->p));
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

static struct pr_view *
open_view(void)
{
	const char *paths[] = {path};
	struct pr_view *view = pr_view_open(paths, 1, 0, &err);

	ck_assert_msg(view != NULL, "%s", err.text);
	return view;
}

static void
refresh(struct pr_view *view)
{
	int rc = pr_view_refresh(view, true, INT64_MAX, &err);

	ck_assert_msg(rc == 0, "%d %s", rc, err.text);
}

/* ---- comparing ---- */

struct question {
	int64_t since, until;
	const char *filter, *link;
	uint64_t limit;
};

static bool
expected(const struct question *q, const struct pr_programs *programs,
	const struct pr_packet *p)
{
	if (p->time < q->since || p->time > q->until || !pr_programs_match(programs, p))
		return false;
	return !q->link ||
	       (p->link == 0) == (!strcmp(q->link, "0") || !strcmp(q->link, "tap0"));
}

static bool
holds(const Packrack__Held *h, const struct pr_packet *p)
{
	uint64_t at = p->seq - h->first;

	if (h->epoch != p->epoch || h->link != p->link || p->seq < h->first ||
		p->seq > h->last)
		return false;
	return !h->bits.len || h->bits.data[at / 8] >> at % 8 & 1;
}

struct result {
	uint64_t packets, held, lower[EPOCHS + 1][LINKS], upper[EPOCHS + 1][LINKS];
	size_t next; /* in the model */
	int64_t frontier;
	uint64_t batches, whole; /* whole: segments as they lie in the volume */
};

static uint64_t
count_held(const Packrack__Held *h)
{
	uint64_t count = 0;

	if (!h->bits.len)
		return h->last - h->first + 1;
	for (size_t i = 0; i < h->bits.len; i++)
		count += (uint64_t)__builtin_popcount(h->bits.data[i]);
	return count;
}

/* Bits are right if each seq of the model is held, and as many are held as the model has. */
static void
check_held(const struct question *q, struct result *r, const Packrack__Batch *batch)
{
	for (size_t i = 0; i < batch->n_held; i++) {
		const Packrack__Held *h = batch->held[i];
		uint64_t found = 0;
		for (size_t j = 0; j < model_count; j++)
			if (holds(h, &model[j].p)) {
				ck_assert_int_ge(model[j].p.otime, q->since);
				ck_assert_int_le(model[j].p.otime, q->until);
				ck_assert_int_ge(model[j].p.otime, h->first_otime);
				ck_assert_int_le(model[j].p.otime, h->last_otime);
				ck_assert_int_ge(model[j].p.otime, r->frontier);
				found++;
			}
		ck_assert_uint_eq(found, count_held(h));
		r->held += found;
	}
	for (size_t i = 0; i < batch->n_edge; i++) {
		const Packrack__Held *e = batch->edge[i];
		uint64_t *at = e->first_otime < q->since ? &r->lower[e->epoch][e->link]
							 : &r->upper[e->epoch][e->link];
		ck_assert_uint_eq(e->first, e->last);
		ck_assert_uint_eq(*at, 0);
		*at = e->first;
	}
}

static void
check_packets(const struct question *q, const struct pr_programs *programs,
	struct result *r, const Packrack__Batch *batch)
{
	struct pr_segment_reader reader;
	struct pr_packet p;
	int rc;

	if (!batch->packets.len)
		return;
	ck_assert_msg(pr_segment_open(
			      &reader, batch->packets.data, batch->packets.len, &err) == 0,
		"%s", err.text);
	r->whole += !(reader.header.flags & PR_SEGMENT_MIXED);
	while ((rc = pr_segment_next(&reader, &p, &err)) == 1) {
		while (r->next < model_count && !expected(q, programs, &model[r->next].p))
			r->next++;
		ck_assert_uint_lt(r->next, model_count);
		ck_assert_int_eq(pr_packet_compare(&p, &model[r->next].p), 0);
		ck_assert_int_eq(p.time, model[r->next].p.time);
		ck_assert_uint_eq(p.len, model[r->next].p.len);
		ck_assert_uint_eq(p.caplen, model[r->next].p.caplen);
		ck_assert(!memcmp(p.data, model[r->next].data, p.caplen));
		ck_assert_int_ge(p.otime, r->frontier);
		r->next++;
		r->packets++;
	}
	ck_assert_int_eq(rc, 0);
}

static void
check_edges(const struct question *q, const struct result *r)
{
	uint64_t lower[EPOCHS + 1][LINKS] = {{0}}, upper[EPOCHS + 1][LINKS] = {{0}};

	for (size_t i = 0; i < model_count; i++) {
		const struct pr_packet *p = &model[i].p;
		uint64_t *low = &lower[p->epoch][p->link], *up = &upper[p->epoch][p->link];
		if (p->otime < q->since && p->seq > *low)
			*low = p->seq;
		if (p->otime > q->until && (!*up || p->seq < *up))
			*up = p->seq;
	}
	if (q->link)
		return;
	ck_assert_mem_eq(lower, r->lower, sizeof(lower));
	ck_assert_mem_eq(upper, r->upper, sizeof(upper));
}

static uint64_t
expected_count(const struct question *q, const struct pr_programs *programs, bool held)
{
	uint64_t count = 0;

	for (size_t i = 0; i < model_count; i++) {
		const struct pr_packet *p = &model[i].p;
		count += held ? p->otime >= q->since && p->otime <= q->until &&
					 (!q->link ||
						 expected(&(struct question){PR_TIME_MIN,
								  PR_TIME_MAX, "", q->link,
								  0},
							 &(struct pr_programs){0}, p))
			      : expected(q, programs, p);
	}
	return count;
}

static uint64_t
ask(struct pr_view *view, const struct question *q)
{
	static const uint16_t types[] = {1};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pr_programs programs = {0};
	struct result r = {.frontier = PR_TIME_MIN};
	struct pr_answer *a;
	const Packrack__End *end;
	enum pr_answer_state state;

	ck_assert_int_eq(pr_filter_compile_all(types, 1, q->filter, &programs, &err), 0);
	ck_assert_int_eq(pr_query_set_programs(&query, &programs, &err), 0);
	query.since = q->since;
	query.until = q->until;
	query.limit = q->limit;
	query.link = (char *)(q->link ? q->link : "");
	a = pr_answer_create(view, &query, &err);
	ck_assert_msg(a != NULL, "%s", err.text);
	while ((state = pr_answer_step(a, pr_now_mono() + PR_NS_PER_MS, &err)) !=
		PR_ANSWER_END) {
		ck_assert_msg(state != PR_ANSWER_ERROR, "%s", err.text);
		if (state != PR_ANSWER_BATCH)
			continue;
		check_packets(q, &programs, &r, pr_answer_batch(a));
		check_held(q, &r, pr_answer_batch(a));
		r.frontier = pr_answer_batch(a)->frontier;
		r.batches++;
	}
	end = pr_answer_end(a, &err);
	ck_assert_uint_eq(end->matched, r.packets);
	ck_assert_uint_eq(end->corrupt_records, 0);
	if (q->limit && q->limit <= expected_count(q, &programs, false)) {
		ck_assert_uint_eq(r.packets, q->limit);
		ck_assert(end->limit_reached);
	} else {
		ck_assert_uint_eq(r.packets, expected_count(q, &programs, false));
		ck_assert_uint_eq(r.held, expected_count(q, &programs, true));
		ck_assert_int_eq(r.frontier, PR_TIME_MAX);
		check_edges(q, &r);
	}
	pr_answer_destroy(&a);
	pr_query_message_free(&query);
	pr_programs_free(&programs);
	return r.whole;
}

static void
ask_at_random(struct pr_view *view, unsigned times)
{
	static const char *const filters[] = {"", "udp port 53", "tcp", "host 10.0.0.3",
		"greater 900", "ether[50] = 7 and tcp"};
	static const char *const links[] = {NULL, NULL, NULL, "0", "tap0", "1"};
	int64_t first = model[0].p.time, last = model[model_count - 1].p.otime;

	for (unsigned i = 0; i < times; i++) {
		struct question q = {
			.filter = filters[random() % 6], .link = links[random() % 6]};
		q.since = first - 10 + random() % (last - first + 20);
		q.until = q.since + random() % (i % 2 ? last - first : 20000);
		if (i % 4 == 0)
			q.since = PR_TIME_MIN;
		if (i % 5 == 0)
			q.until = PR_TIME_MAX;
		if (i % 7 == 0)
			q.limit = 1 + (uint64_t)random() % 2000;
		ask(view, &q);
	}
}

/* ---- tests ---- */

START_TEST(equals_the_list)
{
	struct pr_view *view;

	srandom((unsigned)_i + 1);
	open_writer(64 << 20);
	w.forget = _i == 0 ? 0 : _i == 1 ? 5 : 1; /* a directory, one with holes, none */
	write_epoch(1, 1000000, 6000, 40);
	write_epoch(3, 1500000, 6000, 100); /* overlaps the first in time */
	write_epoch(2, 90000000, 6000, 70);
	flush_directory();
	sort_model();
	view = open_view();
	refresh(view);
	ck_assert_uint_eq(pr_view_catalog(view)->packets, model_count);
	ask_at_random(view, 40);
	pr_view_close(&view);
	sfs_close(&w.sfs); /* the same from the device alone */
	view = open_view();
	refresh(view);
	ask_at_random(view, 40);
	pr_view_close(&view);
}
END_TEST

START_TEST(whole_segments_equal_the_list)
{
	struct question q = {.filter = "", .link = "0"};
	struct pr_view *view;
	uint64_t whole = 0;
	int64_t first, last;

	srandom((unsigned)_i + 1);
	open_writer(64 << 20);
	w.least = 250; /* 22 KiB: long enough to be handed on */
	write_epoch(1, 1000000, 20000, _i ? 40 : 100);
	write_epoch(2, 5000000, 10000, 100); /* overlaps the first in time */
	write_epoch(3, 90000000, 10000, 100);
	flush_directory();
	sort_model();
	first = model[0].p.time;
	last = model[model_count - 1].p.otime;
	view = open_view();
	refresh(view);
	for (int i = 0; i < 20; i++) {
		q.since = i < 5 ? PR_TIME_MIN : first + random() % (last - first);
		q.until = i % 3 ? PR_TIME_MAX : q.since / 2 + last / 2;
		whole += ask(view, &q);
	}
	ck_assert_uint_gt(whole, 20);
	pr_view_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

START_TEST(follows_the_writer)
{
	struct pr_view *view;

	srandom(9);
	open_writer(64 << 20);
	view = open_view();
	w.forget = 3;
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		for (int64_t part = 0; part < 1; part++)
			write_epoch(epoch, (int64_t)epoch * 100000000, 3000, 60);
		if (epoch != 2)
			flush_directory();
		refresh(view);
		sort_model();
		ck_assert_uint_eq(pr_view_catalog(view)->packets, model_count);
		ask_at_random(view, 8);
	}
	pr_view_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* The logger comes and goes and deletes everything; whoever looks must not notice more than that. */
START_TEST(writer_restarts_and_resets)
{
	const char *paths[] = {path};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 1 << 20};
	struct pr_view *view;

	srandom(21);
	open_writer(64 << 20);
	view = open_view();
	write_epoch(1, 100000000, 3000, 80);
	flush_directory();
	refresh(view);
	sfs_close(&w.sfs);
	refresh(view);
	w.sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(w.sfs != NULL, "%s", err.text);
	write_epoch(2, 200000000, 3000, 80);
	refresh(view);
	sort_model();
	ck_assert_uint_eq(pr_view_catalog(view)->packets, model_count);
	ask_at_random(view, 6);
	ck_assert_int_eq(sfs_reset(w.sfs, &err), 0);
	model_count = 0;
	begin_directory();
	refresh(view);
	ck_assert_uint_eq(pr_view_catalog(view)->packets, 0);
	write_epoch(3, 300000000, 3000, 80);
	flush_directory();
	refresh(view);
	sort_model();
	ck_assert_uint_eq(pr_view_catalog(view)->packets, model_count);
	ck_assert_uint_eq(pr_view_book(view)->count, 2);
	ask_at_random(view, 6);
	pr_view_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* Drops from the model what the volume has recycled; returns how many. */
static size_t
forget_expired(struct pr_view *view)
{
	static uint8_t buf[65536];
	size_t kept = 0, length, gone;

	for (size_t i = 0; i < model_count; i++) {
		struct sfs_record record;
		int rc = sfs_read(pr_view_sfs(view), &model[i].handle, buf, sizeof(buf),
			&length, &record, &err);
		if (rc == SFS_EXPIRED)
			continue;
		ck_assert_int_eq(rc, SFS_OK);
		model[kept++] = model[i];
	}
	gone = model_count - kept;
	model_count = kept;
	sort_model();
	return gone;
}

START_TEST(recycled_is_evicted)
{
	struct pr_view *view, *fresh;
	struct question all = {PR_TIME_MIN, PR_TIME_MAX, "", NULL, 0};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct pr_answer *a;
	const Packrack__End *end;
	uint64_t evicted = 0;

	srandom(11);
	open_writer(2 << 20);
	view = open_view();
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		write_epoch(epoch, (int64_t)epoch * 100000000, 12000, 100);
		flush_directory();
		refresh(view);
	}
	ck_assert_uint_gt(forget_expired(view), 10000);
	ck_assert_uint_eq(pr_view_catalog(view)->packets, model_count);
	ask(view, &all);
	fresh = open_view();
	refresh(fresh);
	ask(fresh, &all);
	for (int i = 0; i < 2; i++) {
		query.since = PR_TIME_MIN;
		query.until = PR_TIME_MAX;
		a = pr_answer_create(i ? fresh : view, &query, &err);
		ck_assert_ptr_nonnull(a);
		end = pr_answer_end(a, &err);
		ck_assert_ptr_nonnull(end);
		evicted = 0;
		for (size_t j = 0; j < end->n_evicted; j++) {
			ck_assert_str_eq(end->evicted[j]->stream,
				end->evicted[j]->link ? "packets.1" : "packets.0");
			for (size_t k = 0; k < model_count; k++)
				ck_assert(model[k].p.epoch != end->evicted[j]->epoch ||
					  model[k].p.link != end->evicted[j]->link ||
					  model[k].p.seq > end->evicted[j]->last_seq);
			evicted += end->evicted[j]->last_seq;
		}
		ck_assert_uint_eq(evicted + model_count, 36000);
		ck_assert_uint_eq(end->n_ledgers, 6);
		pr_answer_destroy(&a);
	}
	pr_view_close(&fresh);
	pr_view_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* The frontier runs over a query: what it still gives is right, and it says what went. */
START_TEST(recycled_while_asked)
{
	struct pr_view *view;
	struct pr_query_spec spec = {.since = PR_TIME_MIN, .until = PR_TIME_MAX};
	struct pr_query *query;
	struct pr_packet p, last = {0};
	struct pr_evicted *evicted;
	size_t count, got = 0;
	int rc;

	srandom(12);
	open_writer(2 << 20);
	view = open_view();
	write_epoch(1, 1000000, 12000, 100);
	flush_directory();
	refresh(view);
	query = pr_query_create(view, &spec, &err);
	ck_assert_ptr_nonnull(query);
	ck_assert_int_eq(pr_query_next(query, &p, &err), PR_SOURCE_PACKET);
	write_epoch(2, 100000000, 14000, 100); /* not yet all of the first */
	for (rc = PR_SOURCE_WAIT; rc != PR_SOURCE_END;) {
		rc = pr_query_next(query, &p, &err);
		ck_assert_int_ne(rc, PR_SOURCE_ERROR);
		if (rc != PR_SOURCE_PACKET)
			continue;
		ck_assert(got++ == 0 || pr_packet_compare(&last, &p) < 0);
		ck_assert_uint_eq(p.epoch, 1);
		last = p;
	}
	ck_assert_uint_lt(got, 11000);
	ck_assert_uint_eq(pr_query_figures(query)->corrupt_records, 0);
	ck_assert_int_eq(pr_query_evicted(query, &evicted, &count, &err), 0);
	ck_assert_uint_gt(count, 0);
	free(evicted);
	pr_query_destroy(&query);
	pr_view_close(&view);
	sfs_close(&w.sfs);
}
END_TEST

/* One byte of a segment turned on the device: it is skipped and counted, the rest is given. */
START_TEST(corrupt_is_skipped)
{
	struct pr_view *view;
	struct question all = {PR_TIME_MIN, PR_TIME_MAX, "", NULL, 0};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	struct sfs_handle bad;
	struct pr_answer *a;
	enum pr_answer_state state;
	uint64_t got = 0, lost = 0;
	FILE *f;

	srandom(13);
	open_writer(16 << 20);
	write_epoch(1, 1000000, 5000, 100);
	flush_directory();
	sfs_close(&w.sfs);
	sort_model();
	view = open_view();
	refresh(view);
	ask(view, &all);
	pr_view_close(&view);
	bad = model[2500].handle;
	for (size_t i = 0; i < model_count; i++)
		lost += !memcmp(&model[i].handle, &bad, sizeof(bad));
	f = fopen(path, "r+");
	/* its first packet's bytes are somewhere in the file: turn the one that is ours */
	ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
	long size = ftell(f);
	uint8_t *bytes = malloc((size_t)size);
	rewind(f);
	ck_assert_uint_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
	for (long at = 0; at + 64 < size; at += 8)
		if (!memcmp(bytes + at, model[2500].data, 60)) {
			fseek(f, at + 10, SEEK_SET);
			fputc(bytes[at + 10] ^ 1, f);
		}
	fclose(f);
	free(bytes);
	view = open_view();
	refresh(view);
	query.since = PR_TIME_MIN;
	query.until = PR_TIME_MAX;
	a = pr_answer_create(view, &query, &err);
	while ((state = pr_answer_step(a, INT64_MAX, &err)) != PR_ANSWER_END)
		ck_assert_int_eq(state, PR_ANSWER_BATCH);
	got = pr_answer_end(a, &err)->matched;
	ck_assert_uint_ge(pr_answer_end(a, &err)->corrupt_records, 1);
	ck_assert_uint_lt(got, model_count);
	ck_assert_uint_ge(got, model_count - 4 * lost - 400);
	pr_answer_destroy(&a);
	pr_view_close(&view);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("query");
	TCase *tests = tcase_create("query");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(tests, make_volume, remove_volume);
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, equals_the_list, 0, 3);
	tcase_add_loop_test(tests, whole_segments_equal_the_list, 0, 2);
	tcase_add_test(tests, follows_the_writer);
	tcase_add_test(tests, writer_restarts_and_resets);
	tcase_add_test(tests, recycled_is_evicted);
	tcase_add_test(tests, recycled_while_asked);
	tcase_add_test(tests, corrupt_is_skipped);
	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
