/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What classes promise, over months: a logger's writer fills a volume on a simulated disk for ten laps in four months of a
 * clock of our own, with classes that are kept for a time, have a guarantee, or age by degrees, and with two cases. Programs
 * are killed and the power goes, by chance. All that was durable must be there then, byte for byte, but for what is older than
 * its class keeps it, and the oldest of what nothing guarantees.
 * RETENTION_SEED, RETENTION_CASES, RETENTION_JOBS: seeds.h.
 */
#include <sys/syscall.h>
#include <time.h>

#include <check.h>

#include "logger/volume_writer.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "tests/unit/seeds.h"
#include "tests/unit/streamfs_model.h"

enum { CASES = 4, DAYS = 120, DAY_PACKETS = 2200, TICKS = 50, BLOCKS = 240, LAPS = 10 };
/* HEAD: what a segment has of a packet beside its bytes; PAD: a record that is written alone ends with a sector */
enum { HEAD = 48, PAD = 4096 };
enum { HEADERS = 14 + 20 + 20, PACKET_MAX = 1400, TRACKED = DAYS * DAY_PACKETS };
#define DAY (24 * 3600 * PR_NS_PER_S)

/* A class is a stream of its own; class 0: packets of none. Two cases: the second is released midway. */
enum { NONE, AGED, SURE, AGING, SELDOM, AGING_CUT, AGING_HEADERS, CASE, RELEASED, CLASSES };
static const struct pr_class classes[CLASSES] = {{.number = 0},
	{.number = 1, .keep = 20 * DAY, .name = "aged"},
	{.number = 2, .guarantee = 150, .name = "sure"},
	{.number = 3, .keep = DAY, .name = "aging"},
	{.number = 6, .guarantee = 30, .keep = 2 * DAY, .name = "seldom"},
	{.number = 4, .guarantee = 200, .keep = 4 * DAY, .name = "aging.cut"},
	{.number = 5, .guarantee = 100, .keep = 60 * DAY, .name = "aging.headers"},
	{.number = 48, .guarantee = 150, .name = "hold.case"},
	{.number = 49, .guarantee = 100, .name = "hold.released"}};

/* What a stream must hold: packets in the order of putting. */
struct track {
	struct put {
		uint64_t seq;
		int64_t time;
		uint32_t caplen;
		uint64_t block; /* + 1, once it was found */
	} * puts;
	uint32_t count, durable, gone; /* gone: how many of the oldest were not found */
};
struct run {
	uint64_t seed;
	struct sim_rng rng;
	struct sim_disk disk;
	struct sfs_disk handle;
	struct sfs *sfs;
	struct prl_volume_writer *writer;
	struct track tracks[CLASSES];
	uint64_t seq, bytes, crashes;
	int64_t mono;
	bool released;
	struct pr_error err;
};

/* ---- a clock of our own ---- */

static int64_t today;

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_REALTIME || !today)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = (struct timespec){today / PR_NS_PER_S, today % PR_NS_PER_S};
	return 0;
}

/* ---- packets ---- */

/* Ethernet, IPv4 and TCP; what follows is by seq. */
static void
make_packet(uint64_t seq, uint32_t len, uint8_t *to)
{
	static const uint8_t head[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};

	memset(to, 0, HEADERS);
	memcpy(to, head, sizeof(head));
	pr_put_be16(to + 16, (uint16_t)(len - 14));
	to[23] = 6;
	pr_put_be32(to + 26, (uint32_t)seq);
	to[46] = 0x50;
	for (uint32_t i = HEADERS; i < len; i++)
		to[i] = (uint8_t)(seq * 31 + i);
}

static void
note(struct track *t, uint64_t seq, int64_t time, uint32_t caplen)
{
	t->puts[t->count++] = (struct put){seq, time, caplen, 0};
}

static void
put_packet(struct run *m)
{
	uint8_t data[PACKET_MAX];
	unsigned class =
		sim_below(&m->rng, 300) ? (unsigned)sim_below(&m->rng, AGING + 1) : SELDOM;
	bool beyond = class == AGING && sim_below(&m->rng, 2);
	struct pr_packet p = {.time = today,
		.otime = today,
		.epoch = 1,
		.seq = ++m->seq,
		.linktype = 1,
		.class = (uint8_t)(classes[class].number | (beyond ? PR_CLASS_BEYOND : 0)),
		.len = HEADERS + (uint32_t)sim_below(&m->rng, PACKET_MAX - HEADERS),
		.data = data};

	p.caplen = p.len;
	make_packet(p.seq, p.len, data);
	MUST(m, prl_writer_put_packet(m->writer, &p) == 0, "put");
	note(&m->tracks[class], p.seq, p.time, p.caplen);
	if (class == AGING && !beyond)
		note(&m->tracks[AGING_CUT], p.seq, p.time, p.caplen);
	if (class == AGING)
		note(&m->tracks[AGING_HEADERS], p.seq, p.time, HEADERS);
	m->bytes += p.caplen;
}

/* ---- reading ---- */

struct walk {
	struct run *m;
	struct track *t;
	int class;
	uint32_t at, first; /* index of the packet that comes next; of the first one */
	bool any;
	uint64_t block; /* of the record before */
	int64_t oldest,
		block_last; /* times of the first packet, and of the last one of its block */
	bool first_block;
};

static struct sfs_cursor *
open_stream_of(struct run *m, int class)
{
	char name[32];

	snprintf(name, sizeof(name), "packets.%u",
		pr_stream_of_class(0, classes[class].number));
	int stream = sfs_stream_find(m->sfs, name);
	return stream < 0 ? NULL : sfs_cursor_open(m->sfs, stream, NULL, &m->err);
}

static void
see_packet(struct walk *w, const struct pr_packet *p)
{
	struct run *m = w->m;
	struct track *t = w->t;
	uint8_t want[PACKET_MAX];

	while (!w->any && w->at < t->count && t->puts[w->at].seq < p->seq)
		w->at++;
	w->first = w->any ? w->first : w->at;
	w->oldest = w->any ? w->oldest : p->time;
	w->any = true;
	MUST(m, w->at < t->count && t->puts[w->at].seq == p->seq,
		"class %d: packet %lu is out of its turn, or nobody's", w->class,
		(lu)p->seq);
	MUST(m, p->caplen == t->puts[w->at].caplen && p->time == t->puts[w->at].time,
		"class %d: packet %lu is another", w->class, (lu)p->seq);
	make_packet(p->seq, p->len, want);
	MUST(m, memcmp(want, p->data, p->caplen) == 0, "class %d: bytes of packet %lu",
		w->class, (lu)p->seq);
	t->puts[w->at++].block = w->block + 1;
	if (w->first_block)
		w->block_last = p->time;
}

/* Reads the whole stream: it has a stretch of the track without a gap. */
static struct walk
read_stream(struct run *m, int class)
{
	struct walk w = {
		.m = m, .t = &m->tracks[class], .class = class, .first_block = true};
	struct sfs_cursor *c = open_stream_of(m, class);
	struct pr_segment_reader reader;
	struct sfs_record record;
	struct pr_packet p;

	while (c && sfs_cursor_next(c, &record, &m->err) == 1) {
		w.first_block &= !w.any || record.handle.block == w.block;
		w.block = record.handle.block;
		MUST(m, pr_segment_open(&reader, record.body, record.length, &m->err) == 0,
			"segment");
		while (pr_segment_next(&reader, &p, &m->err) == 1)
			see_packet(&w, &p);
	}
	sfs_cursor_close(&c);
	return w;
}

/*
 * From which packet on a class promises to have all: those of its newest whole blocks that are not too old. What was put since
 * the last look may have taken blocks, too, and may have gone with a crash: at most so many.
 */
static uint32_t
promised(const struct run *m, int class)
{
	const struct track *t = &m->tracks[class];
	int64_t keep = classes[class].keep;
	uint64_t bytes = 0;
	uint32_t i = t->count;

	for (; i > 0 && !t->puts[i - 1].block; i--)
		bytes += t->puts[i - 1].caplen + HEAD;
	int blocks = (int)(classes[class].guarantee * BLOCKS / 1000) -
		     (int)((bytes + TICKS * PAD) / BLOCK);

	if (blocks < 1 || (class == RELEASED && m->released))
		return t->count;
	for (; i > 0 && (!keep || t->puts[i - 1].time > today - keep); i--)
		if (i < t->count && t->puts[i].block &&
			t->puts[i].block != t->puts[i - 1].block && --blocks == 0)
			break;
	return PR_MIN(i, t->durable);
}

static void
check(struct run *m)
{
	for (int class = 0; class < CLASSES; class ++) {
		struct track *t = &m->tracks[class];
		struct walk w = read_stream(m, class);
		uint32_t first = w.any ? w.first : t->durable;
		uint32_t end = w.any ? w.at : t->durable;
		uint32_t from = promised(m, class);
		int64_t keep = classes[class].keep;

		MUST(m, first <= from, "class %d: packets from %u on are gone, up to %u",
			class, from, first);
		MUST(m, end >= t->durable, "class %d: %u of %u durable ones", class, end,
			t->durable);
		MUST(m, first >= t->gone, "class %d: packets have come back", class);
		MUST(m, !w.any || !keep || w.block_last >= today - keep - DAY / TICKS,
			"class %d: its oldest block is too old", class);
		MUST(m,
			!w.any || !keep ||
				w.oldest >= today - keep - keep / 8 - DAY / TICKS,
			"class %d: its oldest packet is too old", class);
		MUST(m, class != RELEASED || !m->released || !w.any, "it was released");
		t->gone = first;
	}
}

/* ---- a day ---- */

static void
set_classes(struct run *m)
{
	for (int class = 1; class < CLASSES; class ++) {
		struct pr_class c = classes[class];

		if (class < CASE) {
			prl_writer_set_class(m->writer, &c);
			continue;
		}
		if (class == RELEASED && m->released) {
			c.guarantee = 0;
			c.keep = 1;
		}
		MUST(m, prl_writer_hold(m->writer, &c, "x", 1, &m->err) == 0, "hold");
	}
}

static void
open_volume(struct run *m)
{
	const struct sfs_open_options open = {.writer = true, .shm_bytes = 16 * BLOCK};
	const struct prl_writer_options options = {.segment_age = PRL_SEGMENT_AGE_DEFAULT};

	m->sfs = sfs_open_disks(&m->handle, 1, &open, &m->err);
	MUST(m, m->sfs, "open");
	m->writer = prl_writer_create(m->sfs, &options, &m->err);
	MUST(m, m->writer, "writer");
	set_classes(m);
}

/* Some of today's segments of a class become a case's. */
static void
hold_some(struct run *m, int class, uint64_t from)
{
	struct sfs_cursor *c = open_stream_of(m, SURE);
	struct pr_segment_reader reader;
	struct sfs_record record;
	struct pr_packet p;
	bool done = false;

	while (!done && sfs_cursor_next(c, &record, &m->err) == 1) {
		MUST(m, pr_segment_open(&reader, record.body, record.length, &m->err) == 0,
			"segment");
		while (pr_segment_next(&reader, &p, &m->err) == 1 && p.seq > from) {
			note(&m->tracks[class], p.seq, p.time, p.caplen);
			done = true;
		}
		if (done)
			MUST(m,
				prl_writer_put_held(m->writer, &classes[class], record.body,
					record.length, &m->err) == 0,
				"held");
	}
	sfs_cursor_close(&c);
}

static void
flush(struct run *m)
{
	MUST(m, prl_writer_flush(m->writer, &m->err) == 0, "flush");
	for (int class = 0; class < CLASSES; class ++)
		m->tracks[class].durable = m->tracks[class].count;
}

/* What was not durable may be gone: the end of each stream. */
static void
crash(struct run *m)
{
	const struct sim_cut cut = sim_any_cut(&m->rng, SIM_SECTOR);

	m->disk.dead = true;
	prl_writer_destroy(&m->writer);
	sfs_close_as_killed(&m->sfs);
	m->disk.dead = false;
	if (sim_below(&m->rng, 3))
		sim_cut_power(&m->disk, &cut);
	open_volume(m);
	m->crashes++;
	check(m);
	for (int class = 0; class < CLASSES; class ++) {
		struct walk w = read_stream(m, class);

		if (w.any || m->tracks[class].durable == 0)
			m->tracks[class].count = w.at;
	}
}

static void
one_day(struct run *m, int day)
{
	uint64_t from = m->seq;
	int64_t begin = today;
	unsigned crashes_at =
		sim_below(&m->rng, 4) ? TICKS : (unsigned)sim_below(&m->rng, TICKS);

	for (unsigned tick = 0; tick < TICKS; tick++) {
		for (int i = 0; i < DAY_PACKETS / TICKS; i++) {
			today += DAY / DAY_PACKETS;
			put_packet(m);
		}
		m->mono += DAY / TICKS;
		prl_writer_tick(m->writer, m->mono);
		if (tick == crashes_at)
			crash(m);
		else if (sim_below(&m->rng, 20) == 0)
			flush(m);
	}
	today = begin + DAY;
	flush(m);
	if (day % 8 == 0)
		hold_some(m, CASE, from);
	if (day % 8 == 4 && !m->released)
		hold_some(m, RELEASED, from);
	if (day == DAYS / 2) {
		m->released = true;
		set_classes(m);
	}
	flush(m);
	for (int i = 0; i < 3; i++)
		prl_writer_tick(m->writer, m->mono += DAY / TICKS);
	flush(m);
	check(m);
}

static void
run_case(void *model, uint64_t seed)
{
	struct run *m = model;
	const struct sfs_create_shape shape = {.block_size = BLOCK,
		.interval = SFS_MAP_INTERVAL,
		.utilization = SFS_UTILIZATION};

	m->seed = m->rng.s = seed;
	m->seq = m->bytes = m->crashes = 0;
	m->released = false;
	m->mono = pr_now_mono();
	today = INT64_C(1700000000) * PR_NS_PER_S;
	for (int i = 0; i < CLASSES; i++)
		m->tracks[i] = (struct track){.puts = m->tracks[i].puts};
	m->handle = sim_make(&m->disk, (BLOCKS + 8) * BLOCK, &m->rng);
	MUST(m, sfs_create_shaped(&m->handle, 1, &shape, &m->err) == 0, "create");
	open_volume(m);
	for (int day = 0; day < DAYS; day++)
		one_day(m, day);
	for (int class = 0; class < CLASSES; class ++)
		MUST(m, (m->tracks[class].gone > 0) == (class != CASE),
			"class %d: %u are gone", class, m->tracks[class].gone);
	MUST(m, m->bytes > (uint64_t)LAPS * BLOCKS * BLOCK, "it wrote %lu", (lu)m->bytes);
	MUST(m, m->crashes > 10, "%lu crashes", (lu)m->crashes);
	prl_writer_destroy(&m->writer);
	sfs_close(&m->sfs);
}

static void *
make_run(void)
{
	struct run *m = calloc(1, sizeof(*m));

	for (int i = 0; i < CLASSES; i++)
		m->tracks[i].puts = malloc(TRACKED * sizeof(struct put));
	return m;
}

static void
free_run(void *model)
{
	struct run *m = model;

	sim_free(&m->disk);
	for (int i = 0; i < CLASSES; i++)
		free(m->tracks[i].puts);
	free(m);
}

int
main(void)
{
	static const struct seeds seeds = {.name = "retention",
		.prefix = "RETENTION",
		.cases = CASES,
		.make = make_run,
		.run = run_case,
		.free = free_run};

	return seeds_main(&seeds);
}
