/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logger/volume_writer.h"
#include "logger/import.h"
#include "logger/direct_link.h"
#include "logger/node.h"
#include "proto/base/clock.h"
#include "proto/wire/segment.h"
#include "proto/base/array.h"
#include "tests/unit/unit.h"

/* What a logger puts into a volume comes out of it again: packets, order, ledger, directory. */
#define VOLUME_BYTES (8 << 20)

static char path[64];

static struct sfs *
volume_make(void)
{
	struct sfs_create_options create = {
		.size = VOLUME_BYTES, .block_size = 65536, .force = true};
	struct sfs_open_options open = {.writer = true, .shm_bytes = 1 << 20};
	const char *paths[1] = {path};
	struct pr_error err = {0};
	struct sfs *sfs;

	snprintf(path, sizeof(path), "/tmp/test_logger_store.%d", (int)getpid());
	ck_assert_msg(sfs_create(paths, 1, &create, &err) == 0, "%s", err.text);
	sfs = sfs_open(paths, 1, &open, &err);
	ck_assert_msg(sfs != NULL, "%s", err.text);
	return sfs;
}

static void
volume_end(struct sfs *sfs)
{
	sfs_close(&sfs);
	unlink(path);
}

/* Calls back for each record of a stream, returns their number. */
static unsigned
each(struct sfs *sfs, const char *stream,
	void (*call)(void *arg, const struct sfs_record *r), void *arg)
{
	struct sfs_record record;
	struct sfs_cursor *cursor;
	unsigned n = 0;
	int id = sfs_stream_find(sfs, stream);

	ck_assert_msg(id >= 0, "no stream %s", stream);
	cursor = sfs_cursor_open(sfs, id, NULL, NULL);
	for (; sfs_cursor_next(cursor, &record, NULL) == 1; n++)
		call(arg, &record);
	sfs_cursor_close(&cursor);
	return n;
}

struct seen {
	uint64_t packets, last_seq, bytes;
	int64_t last_otime;
	unsigned marks, losses, links, directories, classes;
	struct pr_class class;
	struct pr_ledger_mark mark;
	struct pr_ledger_link link;
	struct pr_ledger_port port;
	struct pr_loss loss;
	struct pr_ledger_durable durable;
	uint64_t directory_packets;
};

static void
see_segment(void *arg, const struct sfs_record *record)
{
	struct seen *seen = arg;
	struct pr_segment_reader r;
	struct pr_packet p;

	ck_assert_int_eq(pr_segment_open(&r, record->body, record->length, NULL), 0);
	while (pr_segment_next(&r, &p, NULL) == 1) {
		ck_assert_uint_gt(p.seq, seen->last_seq);
		ck_assert_int_ge(p.otime, seen->last_otime);
		ck_assert_int_ge(p.otime, p.time);
		seen->last_seq = p.seq;
		seen->last_otime = p.otime;
		seen->packets++;
		seen->bytes += p.caplen;
	}
	ck_assert_uint_eq(r.left, 0);
}

static void
see_boot(void *arg, const struct sfs_record *record)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct pr_ledger_entry e;

	while (pr_ledger_load(&c, &e) == 1)
		if (e.type == PR_LEDGER_BOOT)
			snprintf(arg, sizeof(e.u.boot.name), "%s", e.u.boot.name);
}

static void
see_ledger(void *arg, const struct sfs_record *record)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct seen *seen = arg;
	struct pr_ledger_entry e;

	while (pr_ledger_load(&c, &e) == 1) {
		if (e.type == PR_LEDGER_MARK) {
			seen->mark = e.u.mark;
			seen->marks++;
		} else if (e.type == PR_LEDGER_LINK) {
			seen->link = e.u.link;
			seen->links++;
		} else if (e.type == PR_LEDGER_LOSS) {
			seen->loss = e.u.loss;
			seen->losses++;
		} else if (e.type == PR_LEDGER_DURABLE) {
			seen->durable = e.u.durable;
		} else if (e.type == PR_LEDGER_CLASS) {
			seen->class = e.u.class;
			seen->classes++;
		} else if (e.type == PR_LEDGER_PORT) {
			seen->port = e.u.port;
		}
	}
}

static void
see_directory(void *arg, const struct sfs_record *record)
{
	struct pr_cursor c = pr_cursor_make(record->body, record->length);
	struct pr_directory_coder coder;
	struct pr_directory_entry e;
	struct seen *seen = arg;
	int rc;

	ck_assert(pr_directory_open(&coder, &c));
	while ((rc = pr_directory_load(&coder, &c, &e)) == 1)
		if (e.kind == PR_DIRECTORY_SEGMENT) {
			seen->directories++;
			seen->directory_packets += e.u.segment.count;
		}
	ck_assert_int_eq(rc, 0);
}

static struct seen
look(struct sfs *sfs, const char *stream)
{
	struct seen seen = {.last_otime = PR_TIME_MIN};

	each(sfs, stream, see_segment, &seen);
	each(sfs, "segments", see_directory, &seen);
	each(sfs, "ledger", see_ledger, &seen);
	return seen;
}

START_TEST(test_restore)
{
	struct pr_entry e = {
		.seq = 7, .time = 5, .otime = 6, .macs = {1, 2, 3, 4, 5, 6, 7, 8, 9}};
	uint8_t frame[80] = {0xff, 0xff};
	struct pr_packet p;

	frame[12] = 0x88;
	frame[13] = 0xb6;
	ck_assert(prl_restore(&e, frame, 80, &p));
	ck_assert_uint_eq(p.caplen, 80);
	ck_assert_uint_eq(p.len, 80);
	ck_assert_mem_eq(frame, e.macs, 12);
	e.flags = PR_ENTRY_CAPLEN | PR_ENTRY_ETHERTYPE | PR_ENTRY_CUT;
	e.caplen = 20;
	e.len = 1000;
	e.ethertype = 0x88b5;
	ck_assert(prl_restore(&e, frame, 80, &p));
	ck_assert_uint_eq(p.caplen, 20);
	ck_assert_uint_eq(p.len, 1000);
	ck_assert_uint_eq(p.data[13], 0xb5);
	ck_assert_uint_eq(p.flags, PR_PACKET_CUT);
	e.caplen = 81;
	ck_assert(!prl_restore(&e, frame, 80, &p));
}
END_TEST

START_TEST(test_restore_runt)
{
	struct pr_entry e = {.flags = PR_ENTRY_RUNT, .runt_len = 3, .runt = "abc"};
	uint8_t frame[60] = {0};
	struct pr_packet p;

	ck_assert(prl_restore(&e, frame, 60, &p));
	ck_assert_uint_eq(p.caplen, 3);
	ck_assert_uint_eq(p.len, 3);
	ck_assert_mem_eq(p.data, "abc", 3);
	e.runt_len = 0;
	ck_assert(prl_restore(&e, frame, 60, &p));
	ck_assert_uint_eq(p.caplen, 0);
}
END_TEST

START_TEST(test_append)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	struct prl_direct_link m;
	struct pr_ledger_entry loss = {.type = PR_LEDGER_LOSS,
		.u.loss = {.epoch = 9,
			.link = 3,
			.first_seq = 5,
			.last_seq = 6,
			.count = 2,
			.reason = PR_LOSS_SWITCH}};
	uint8_t data[2000];
	struct seen seen;

	memset(data, 7, sizeof(data));
	prl_direct_link_begin(&m, a, 9, 3, "eth7", 1, 65535);
	for (unsigned i = 0; i < 1000; i++)
		prl_direct_link_packet(&m, 1000 - (i % 7), data, 60 + i, 60 + i);
	prl_writer_tell(a, &loss);
	prl_direct_link_say(&m, pr_now_real(), true);
	ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	ck_assert_uint_eq(pr_counter_get(&prl_writer_counters(a)->packets_durable), 1000);
	prl_writer_destroy(&a);
	seen = look(sfs, "packets.3");
	ck_assert_uint_eq(seen.packets, 1000);
	ck_assert_uint_eq(seen.last_seq, 1000);
	ck_assert_uint_eq(seen.directory_packets, 1000);
	ck_assert_uint_gt(seen.directories, 10); /* 64 KiB blocks make small segments */
	ck_assert_uint_eq(seen.losses, 1);
	ck_assert_uint_eq(seen.loss.last_seq, 6);
	ck_assert_str_eq(seen.link.name, "eth7");
	ck_assert(seen.mark.link.ended);
	ck_assert_uint_eq(seen.mark.link.last_seq, 1000);
	ck_assert_int_eq(prl_direct_link_link_number(sfs, "eth7", 0, NULL), 3);
	ck_assert_int_eq(prl_direct_link_link_number(sfs, "eth8", 0, NULL), 4);
	volume_end(sfs);
}
END_TEST

/* Packets of the canary go when they are old: nobody asks for them, and one a second fills indexers' memory. */
START_TEST(test_canary_goes)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	int64_t hour = INT64_C(3600) * PR_NS_PER_S, now = pr_now_real();
	uint8_t data[60] = {0};
	struct pr_packet p = {
		.epoch = 9, .linktype = 1, .len = 60, .caplen = 60, .data = data};
	struct sfs_stream_info info;

	for (unsigned i = 0; i < 400; i++) {
		p.seq = i + 1;
		p.time = p.otime = i < 300 ? now - hour : now;
		for (int link = 0; link < 2; link++) {
			p.link = link ? PR_LINK_CANARY : 3;
			ck_assert_int_eq(prl_writer_put_packet(a, &p), 0);
		}
		ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	}
	prl_writer_tick(a, pr_now_mono() + hour);
	ck_assert_int_eq(sfs_stream_info(sfs, (size_t)sfs_stream_find(sfs, "packets.3"),
				 &info, NULL),
		SFS_OK);
	ck_assert_uint_eq(info.first_sequence, 1);
	ck_assert_int_eq(sfs_stream_info(sfs, (size_t)sfs_stream_find(sfs, "packets.65534"),
				 &info, NULL),
		SFS_OK);
	ck_assert_uint_eq(info.last_sequence, 400);
	ck_assert_uint_gt(info.first_sequence, 200);
	ck_assert_uint_le(info.first_sequence, 301);
	prl_writer_destroy(&a);
	volume_end(sfs);
}
END_TEST

/* Blocks of a class that is kept for a time end before they are full: few packets an hour go in time, too. */
START_TEST(test_few_packets_go)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	int64_t hour = 3600 * PR_NS_PER_S, now = pr_now_real();
	const struct pr_class class = {.number = 5, .keep = 8 * hour, .name = "guests"};
	struct pr_ledger_mark mark = {.epoch = 9, .link.link = 2}; /* ends a segment */
	uint8_t data[60] = {0};
	struct pr_packet p = {.epoch = 9,
		.link = 2,
		.linktype = 1,
		.class = 5,
		.len = 60,
		.caplen = 60,
		.data = data};
	struct sfs_stream_info info;

	prl_writer_set_class(a, &class);
	for (p.seq = 1; p.seq <= 200; p.seq++) {
		p.time = p.otime = now - 20 * hour + (int64_t)p.seq * hour / 10;
		ck_assert_int_eq(prl_writer_put_packet(a, &p), 0);
		mark.link.last_seq = p.seq;
		prl_writer_put_mark(a, &mark);
		if (p.seq == 1)
			prl_writer_tick(a, pr_now_mono() + hour);
	}
	prl_writer_tick(a, pr_now_mono() + 2 * hour);
	ck_assert_int_eq(sfs_stream_info(sfs, (size_t)sfs_stream_find(sfs, "packets.49474"),
				 &info, NULL),
		SFS_OK);
	ck_assert_uint_eq(info.last_sequence, 200);
	ck_assert_int_ge(info.min_time, now - 9 * hour);
	ck_assert_int_le(info.min_time, now - 8 * hour + hour / 5);
	ck_assert_uint_le(info.blocks, 10);
	prl_writer_destroy(&a);
	volume_end(sfs);
}
END_TEST

/* Longer than a block of the volume: lost, said so, and nothing else suffers. */
START_TEST(test_append_too_long)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	uint8_t *data = calloc(1, 70000);
	struct prl_direct_link m;
	struct seen seen;

	prl_direct_link_begin(&m, a, 9, 0, "big", 1, 262144);
	prl_direct_link_packet(&m, 1, data, 100, 100);
	prl_direct_link_packet(&m, 2, data, 70000, 70000);
	prl_direct_link_packet(&m, 3, data, 100, 100);
	ck_assert_uint_eq(m.refused, 1);
	ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	prl_writer_destroy(&a);
	seen = look(sfs, "packets.0");
	ck_assert_uint_eq(seen.packets, 2);
	ck_assert_uint_eq(seen.losses, 1);
	ck_assert_uint_eq(seen.loss.first_seq, 2);
	ck_assert_uint_eq(seen.loss.reason, PR_LOSS_WRITE);
	free(data);
	volume_end(sfs);
}
END_TEST

static void
write_trace(const char *name, unsigned packets, size_t cut)
{
	static const uint8_t header[24] = {
		0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, [17] = 0x40, [20] = 1};
	FILE *f = fopen(name, "w");
	uint8_t packet[16 + 60] = {0};

	fwrite(header, 1, sizeof(header), f);
	for (unsigned i = 0; i < packets; i++) {
		packet[0] = (uint8_t)i; /* seconds */
		packet[4] = 5; /* nanoseconds */
		packet[8] = packet[12] = 60;
		fwrite(packet, 1, i + 1 == packets ? sizeof(packet) - cut : sizeof(packet),
			f);
	}
	fclose(f);
}

/* The ledger says that the packets of a MARK are durable when they are, and not before. */
START_TEST(test_durable_is_told)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	uint8_t bytes[60] = {0};
	struct pr_packet p = {.epoch = 9,
		.link = 2,
		.linktype = 1,
		.data = bytes,
		.len = sizeof(bytes),
		.caplen = sizeof(bytes),
		.time = 50,
		.otime = 50};
	struct pr_ledger_mark mark = {.epoch = 9, .link.link = 2};
	int64_t deadline = pr_now_mono() + 20 * PR_NS_PER_S;
	struct seen seen = {0};

	ck_assert_ptr_nonnull(a);
	for (p.seq = 1; p.seq <= 4; p.seq++)
		ck_assert_int_eq(prl_writer_put_packet(a, &p), 0);
	mark.link.last_seq = 7; /* the others are another node's */
	prl_writer_put_mark(a, &mark);
	while (seen.durable.seq == 0 && pr_now_mono() < deadline) {
		int stream = sfs_stream_find(sfs, "packets.2");
		bool durable = sfs_durable(sfs, stream) == sfs_appended(sfs, stream);

		seen = (struct seen){0};
		each(sfs, "ledger", see_ledger, &seen);
		ck_assert(durable || seen.durable.seq == 0);
		prl_writer_tick(a, pr_now_mono());
	}
	ck_assert_uint_eq(seen.durable.seq, 7);
	ck_assert_uint_eq(seen.durable.epoch, 9);
	ck_assert_uint_eq(seen.durable.link, 2);
	prl_writer_destroy(&a);
	volume_end(sfs);
}
END_TEST

/* Packets of a class go to a stream of its own: a MARK is durable when those of all streams of its link are. */
START_TEST(test_durable_with_classes)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	static const struct pr_class class = {
		.number = 5, .guarantee = 100, .keep = 3600 * PR_NS_PER_S, .name = "bulk"};
	static const struct {
		uint16_t link;
		uint8_t class;
		const char *stream;
	} streams[] = {{2, 0, "packets.2"}, {2, 5, "packets.49474"},
		{2, 6, "packets.49538"},
		/* of another link, and of one that has no streams of classes */
		{3, 5, "packets.49475"}, {64, 5, "packets.64"}};
	uint8_t bytes[60] = {0};
	struct pr_packet p = {.epoch = 9,
		.linktype = 1,
		.data = bytes,
		.len = sizeof(bytes),
		.caplen = sizeof(bytes),
		.time = 50,
		.otime = 50};
	struct pr_ledger_mark mark = {.epoch = 9, .link = {.link = 2, .last_seq = 5}};
	int64_t deadline = pr_now_mono() + 20 * PR_NS_PER_S;
	struct sfs_stream_info info;
	struct seen seen = {0};

	ck_assert_ptr_nonnull(a);
	prl_writer_set_class(a, &class);
	for (size_t i = 0; i < PR_COUNT(streams); i++) {
		p.link = streams[i].link;
		p.class = streams[i].class;
		p.seq = i + 1;
		ck_assert_int_eq(prl_writer_put_packet(a, &p), 0);
	}
	prl_writer_put_mark(a, &mark);
	while (seen.durable.seq == 0 && pr_now_mono() < deadline) {
		bool durable = true;

		/* of the link's three streams */
		for (size_t i = 0; i < 3; i++) {
			int stream = sfs_stream_find(sfs, streams[i].stream);

			durable = durable && stream >= 0 && sfs_appended(sfs, stream) > 0 &&
				  sfs_durable(sfs, stream) == sfs_appended(sfs, stream);
		}
		seen = (struct seen){0};
		each(sfs, "ledger", see_ledger, &seen);
		ck_assert(durable || seen.durable.seq == 0);
		prl_writer_tick(a, pr_now_mono());
	}
	ck_assert_uint_eq(seen.durable.seq, 5);
	ck_assert_uint_eq(seen.durable.link, 2);
	/* the ledger knows the class; its streams have their guarantee, that of no other has one */
	ck_assert_uint_eq(seen.classes, 1);
	ck_assert_uint_eq(seen.class.number, 5);
	ck_assert_uint_eq(seen.class.guarantee, 100);
	ck_assert_int_eq(seen.class.keep, class.keep);
	ck_assert_str_eq(seen.class.name, "bulk");
	for (size_t i = 0; i < PR_COUNT(streams); i++) {
		int stream = sfs_stream_find(sfs, streams[i].stream);

		ck_assert_int_eq(sfs_stream_info(sfs, stream, &info, NULL), SFS_OK);
		ck_assert_int_eq(
			info.guarantee > 0, streams[i].class == 5 && streams[i].link < 64);
	}
	/* the same again is not written again */
	prl_writer_set_class(a, &class);
	prl_writer_destroy(&a);
	seen = (struct seen){0};
	each(sfs, "ledger", see_ledger, &seen);
	ck_assert_uint_eq(seen.classes, 1);
	volume_end(sfs);
}
END_TEST

/* A logger that begins anew stores packets of a class before it is told of it: what was guaranteed is so still. */
START_TEST(test_guarantee_stays)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	static const struct pr_class class = {.number = 5, .guarantee = 100, .name = "dns"};
	uint8_t bytes[60] = {0};
	struct pr_packet p = {.epoch = 9,
		.link = 2,
		.linktype = 1,
		.class = 5,
		.data = bytes,
		.len = sizeof(bytes),
		.caplen = sizeof(bytes)};
	struct sfs_stream_info info;

	for (p.seq = 1; p.seq <= 2; p.seq++) {
		struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);

		if (p.seq == 1)
			prl_writer_set_class(a, &class);
		ck_assert_int_eq(prl_writer_put_packet(a, &p), 0);
		ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
		int stream = sfs_stream_find(sfs, "packets.49474");
		ck_assert_int_eq(sfs_stream_info(sfs, stream, &info, NULL), SFS_OK);
		ck_assert_uint_gt(info.guarantee, 0);
		ck_assert_uint_eq(info.last_sequence, p.seq);
		prl_writer_destroy(&a);
	}
	volume_end(sfs);
}
END_TEST

/* A reset deletes what says whose packets come next: it is said again, of each link the newest. */
START_TEST(test_reset_tells_again)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	const struct pr_ledger_entry facts[] = {
		{PR_LEDGER_BOOT, .u.boot = {.time = 5, .nonce = 3, .name = "log1"}},
		{PR_LEDGER_LINK, .u.link = {.epoch = 1, .link = 2, .name = "before"}},
		{PR_LEDGER_LINK, .u.link = {.epoch = 9, .link = 2, .name = "tap0"}},
		{PR_LEDGER_PORT, .u.port = {9, 2, 10000000000}},
	};
	char name[64] = "";
	struct seen seen;

	ck_assert_ptr_nonnull(a);
	for (unsigned i = 0; i < 4; i++)
		prl_writer_keep(a, &facts[i]);
	ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	ck_assert_int_eq(prl_writer_reset(a, NULL), 0);
	ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	seen = (struct seen){0};
	each(sfs, "ledger", see_ledger, &seen);
	each(sfs, "ledger", see_boot, name);
	ck_assert_uint_eq(seen.links, 1);
	ck_assert_uint_eq(seen.link.epoch, 9);
	ck_assert_str_eq(seen.link.name, "tap0");
	ck_assert_uint_eq(seen.port.epoch, 9);
	ck_assert_uint_eq(seen.port.speed, 10000000000);
	ck_assert_str_eq(name, "log1");
	prl_writer_destroy(&a);
	volume_end(sfs);
}
END_TEST

/* The ledger overwrites its oldest entries, but not the last that says what a link or a class is. */
START_TEST(test_facts_outlive_the_ledger)
{
	struct sfs *sfs = volume_make();
	struct prl_writer_options options = {0};
	struct prl_volume_writer *a = prl_writer_create(sfs, &options, NULL);
	const struct pr_ledger_entry link = {
		PR_LEDGER_LINK, .u.link = {.epoch = 9, .link = 2, .name = "tap0"}};
	const struct pr_class class = {.number = 5, .guarantee = 100, .name = "guests"};
	struct pr_ledger_entry other = {PR_LEDGER_DURABLE, .u.durable = {.epoch = 9}};
	int64_t now = pr_now_mono();
	struct sfs_stream_info info;
	struct seen seen = {0};

	prl_writer_keep(a, &link);
	prl_writer_set_class(a, &class);
	do {
		for (int i = 0; i < 1000; i++, other.u.durable.seq++)
			prl_writer_tell(a, &other);
		ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
		prl_writer_tick(a, now += 20 * PR_NS_PER_S);
		ck_assert_int_eq(
			sfs_stream_info(sfs, sfs_stream_find(sfs, "ledger"), &info, NULL),
			SFS_OK);
		ck_assert_uint_lt(other.u.durable.seq, 10000000);
	} while (info.first_sequence <= 2 * (info.last_sequence - info.first_sequence + 1));
	ck_assert_int_eq(prl_writer_flush(a, NULL), 0);
	each(sfs, "ledger", see_ledger, &seen);
	ck_assert_uint_ge(seen.links, 1);
	ck_assert_uint_le(seen.links, 4); /* not with each record */
	ck_assert_str_eq(seen.link.name, "tap0");
	ck_assert_str_eq(seen.class.name, "guests");
	prl_writer_destroy(&a);
	volume_end(sfs);
}
END_TEST

START_TEST(test_import)
{
	struct sfs *sfs = volume_make();
	struct prl_import_options options = {.link = -1};
	struct prl_import_stats stats;
	struct pr_error err = {0};
	char name[80];
	struct seen seen;

	snprintf(name, sizeof(name), "%s.pcap", path);
	write_trace(name, 100, 0);
	ck_assert_msg(prl_import_file(sfs, name, &options, NULL, NULL, &stats, &err) == 0,
		"%s", err.text);
	ck_assert_uint_eq(stats.packets, 100);
	ck_assert_uint_eq(stats.link, 0);
	ck_assert_int_eq(stats.last_time, 99 * PR_NS_PER_S + 5);
	seen = look(sfs, "packets.0");
	ck_assert_uint_eq(seen.packets, 100);
	ck_assert(seen.mark.link.ended);
	options.name = "another";
	ck_assert_int_eq(prl_import_file(sfs, name, &options, NULL, NULL, &stats, NULL), 0);
	ck_assert_uint_eq(stats.link, 1);
	write_trace(name, 100, 10);
	ck_assert_int_eq(
		prl_import_file(sfs, name, &options, NULL, NULL, &stats, &err), -1);
	ck_assert_uint_eq(stats.stored, 99);
	ck_assert_ptr_nonnull(strstr(err.text, "packet 100"));
	ck_assert_ptr_nonnull(strstr(err.text, name));
	unlink(name);
	ck_assert_int_eq(
		prl_import_file(sfs, name, &options, NULL, NULL, &stats, &err), -1);
	volume_end(sfs);
}
END_TEST

static void
fill(TCase *tcase)
{
	tcase_set_timeout(tcase, 120);
	tcase_add_test(tcase, test_restore);
	tcase_add_test(tcase, test_restore_runt);
	tcase_add_test(tcase, test_append);
	tcase_add_test(tcase, test_canary_goes);
	tcase_add_test(tcase, test_few_packets_go);
	tcase_add_test(tcase, test_append_too_long);
	tcase_add_test(tcase, test_durable_is_told);
	tcase_add_test(tcase, test_durable_with_classes);
	tcase_add_test(tcase, test_guarantee_stays);
	tcase_add_test(tcase, test_reset_tells_again);
	tcase_add_test(tcase, test_facts_outlive_the_ledger);
	tcase_add_test(tcase, test_import);
}

int
main(void)
{
	return unit_run("logger_store", fill);
}
