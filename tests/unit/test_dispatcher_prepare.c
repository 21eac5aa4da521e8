/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/sender.h"

#include <ftw.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/unit/unit.h"

/*
 * Whatever is captured: what goes over the switch and what its log says give it back. The
 * restoring here is written from the format, and shares nothing with the logger's.
 */
enum { ROOM = 1 << 19, BODY = 1400 };
static const uint8_t node_mac[6] = {2, 0, 0, 0, 0, 9};
static const struct prd_prepare prepare = {.src = {2, 0, 0, 0, 0, 1},
	.ethertype = PR_ETHERTYPE_DEFAULT,
	.epoch = 0x1234567890abcdef};
static uint8_t memory[ROOM];

static struct prd_record *
record(const uint8_t *data, uint32_t caplen, uint32_t len)
{
	struct prd_record *rec = (struct prd_record *)(void *)memory;

	memset(memory, 0xee, prd_record_size(caplen) + 8);
	rec->time = 1000;
	rec->caplen = caplen;
	rec->len = len;
	memcpy(rec->data, data, caplen);
	return rec;
}

/* Through a log of one entry, as a node would get it. */
static struct pr_entry
logged(struct pr_entry e)
{
	uint8_t buf[BODY];
	struct pr_tslog_builder b;
	struct pr_tslog_reader r;
	struct pr_entry out;
	const uint8_t *body;
	size_t len;

	e.seq = 1;
	e.ordinal = 0;
	e.otime = e.time;
	pr_tslog_begin(&b, 0, 0, 1, buf, sizeof buf);
	ck_assert(pr_tslog_add(&b, &e));
	len = pr_tslog_finish(&b, &body);
	ck_assert_int_eq(pr_tslog_open(&r, body, len), 0);
	ck_assert_int_eq(pr_tslog_next(&r, &out), 1);
	return out;
}

static size_t
restore(const uint8_t *frame, size_t sent, const struct pr_entry *e, uint8_t *out,
	size_t *len)
{
	size_t caplen = e->flags & PR_ENTRY_CAPLEN ? e->caplen : sent;

	*len = e->flags & PR_ENTRY_LEN ? e->len : caplen;
	if (e->flags & PR_ENTRY_RUNT) {
		memcpy(out, e->runt, e->runt_len);
		return e->runt_len;
	}
	memcpy(out, frame, caplen);
	memcpy(out, e->macs, 12);
	if (e->flags & PR_ENTRY_ETHERTYPE) {
		size_t at = pr_ethertype_offset(frame, caplen);

		out[at] = (uint8_t)(e->ethertype >> 8);
		out[at + 1] = (uint8_t)e->ethertype;
	}
	return caplen;
}

static struct pr_entry
check(const uint8_t *data, uint32_t caplen, uint32_t len, uint32_t mtu)
{
	static uint8_t out[ROOM];
	struct prd_record *rec = record(data, caplen, len);
	struct pr_entry e;
	size_t sent = prd_prepare(&prepare, rec, node_mac, mtu, &e), got, original;

	ck_assert_uint_ge(sent, PR_FRAME_MIN);
	ck_assert_uint_le(sent, prd_frame_limit(rec->data, sent, mtu));
	ck_assert_mem_eq(rec->data, node_mac, 6);
	ck_assert_mem_eq(rec->data + 6, prepare.src, 6);
	ck_assert(!pr_is_control(rec->data, sent, PR_ETHERTYPE_DEFAULT));
	ck_assert_uint_eq(e.fingerprint, pr_fingerprint(rec->data, sent, prepare.epoch));
	/* nothing was written behind the room that the record has */
	ck_assert_uint_eq(memory[prd_record_size(caplen)], 0xee);
	e = logged(e);
	got = restore(rec->data, sent, &e, out, &original);
	ck_assert_uint_eq(original, len);
	if (e.flags & PR_ENTRY_CUT)
		ck_assert_uint_eq(got, prd_frame_limit(data, caplen, mtu));
	else
		ck_assert_uint_eq(got, caplen);
	ck_assert_mem_eq(out, data, got);
	return e;
}

START_TEST(short_ones)
{
	uint8_t data[80];

	for (unsigned i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t caplen = 0; caplen < sizeof data; caplen++) {
		struct pr_entry e = check(data, caplen, caplen, 1508);

		ck_assert_int_eq((e.flags & PR_ENTRY_RUNT) != 0, caplen < PR_ETHER_LEN);
		ck_assert_int_eq((e.flags & PR_ENTRY_CAPLEN) != 0, caplen < PR_FRAME_MIN);
		check(data, caplen, 1500, 1508);
		check(data, caplen, caplen > 3 ? caplen - 3 : 0,
			1508); /* odd files say so */
	}
}
END_TEST

START_TEST(our_ethertype)
{
	static const uint8_t tags[] = {0x81, 0, 0, 5, 0x88, 0xa8, 0, 6, 0x91, 0, 0, 7};

	for (unsigned n = 0; n <= 3; n++) {
		uint8_t data[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
		size_t at = 12 + 4 * n;
		struct pr_entry e;

		memcpy(data + 12, tags, 4 * n);
		data[at] = PR_ETHERTYPE_DEFAULT >> 8;
		data[at + 1] = PR_ETHERTYPE_DEFAULT & 0xff;
		e = check(data, sizeof data, sizeof data, 1508);
		ck_assert(e.flags & PR_ENTRY_ETHERTYPE);
		ck_assert_uint_eq(e.ethertype, PR_ETHERTYPE_DEFAULT);
		e = check(data, (uint32_t)at + 2, sizeof data,
			1508); /* snapped right there */
		ck_assert(e.flags & PR_ENTRY_ETHERTYPE);
		check(data, (uint32_t)at + 1, sizeof data, 1508);
		data[at + 1] =
			PR_ETHERTYPE_ESCAPE & 0xff; /* the escape itself passes as it is */
		e = check(data, sizeof data, sizeof data, 1508);
		ck_assert(!(e.flags & PR_ENTRY_ETHERTYPE));
	}
}
END_TEST

START_TEST(cut)
{
	static uint8_t data[262144];
	struct pr_entry e;

	for (unsigned i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i % 251);
	e = check(data, 1514, 1514, 1500);
	ck_assert_uint_eq(e.flags, 0);
	e = check(data, 1515, 1515, 1500);
	ck_assert_uint_eq(e.flags, PR_ENTRY_CUT | PR_ENTRY_LEN);
	e = check(data, 2000, 9000, 1500);
	ck_assert_uint_eq(e.len, 9000);
	check(data, sizeof data, sizeof data, 65535);
	data[12] = 0x81; /* one tag comes on top */
	data[13] = 0;
	e = check(data, 1518, 1518, 1500);
	ck_assert_uint_eq(e.flags, 0);
	e = check(data, 1519, 1519, 1500);
	ck_assert_uint_eq(e.flags, PR_ENTRY_CUT | PR_ENTRY_LEN);
}
END_TEST

static unsigned packets, files, alike[2];

/* Matching needs it: of ten neighbours, only frames that are equal behind their MACs have equal fingerprints, of either kind. */
static void
check_neighbours(const uint8_t *data, size_t len)
{
	enum { NEAR = 10, MAX = 2048 };
	static struct {
		uint32_t fingerprint[2];
		size_t len;
		uint8_t data[MAX];
	} near[NEAR];
	static unsigned count;
	size_t n = len < MAX ? len : MAX;

	if (n < 12)
		return; /* these get their zeros before */
	for (unsigned kind = 0; kind < 2; kind++) {
		uint32_t fingerprint = pr_fingerprint_of(kind, data, len, prepare.epoch);

		for (unsigned i = 0; i < NEAR && i < count; i++)
			if (near[i].fingerprint[kind] == fingerprint)
				alike[kind] += near[i].len != len ||
					       memcmp(near[i].data + 12, data + 12, n - 12);
		near[count % NEAR].fingerprint[kind] = fingerprint;
	}
	near[count % NEAR].len = len;
	memcpy(near[count++ % NEAR].data, data, n);
}

static int
check_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char text[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *h;
	const u_char *data;
	pcap_t *pcap;

	(void)ftw;
	if (type != FTW_F || st->st_size > 4000000 ||
		!(pcap = pcap_open_offline(path, text)))
		return 0;
	files += pcap_datalink(pcap) == DLT_EN10MB;
	while (pcap_datalink(pcap) == DLT_EN10MB && pcap_next_ex(pcap, &h, &data) == 1) {
		check(data, h->caplen, h->len, packets % 2 ? 1508 : 65535);
		check_neighbours(data, h->caplen);
		packets++;
	}
	pcap_close(pcap);
	return 0;
}

START_TEST(captures)
{
	const char *dir =
		getenv("PACKRACK_DATA") ? getenv("PACKRACK_DATA") : "../shared/data";

	if (access(dir, R_OK) < 0) {
		printf("skipped: no captures in %s (set PACKRACK_DATA)\n", dir);
		return;
	}
	nftw(dir, check_file, 16, FTW_PHYS);
	printf("%u captures, %u packets\n", files, packets);
	ck_assert_uint_gt(files, 0);
	ck_assert_uint_eq(alike[0], 0);
	ck_assert_uint_eq(alike[1], 0);
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, short_ones);
	tcase_add_test(tc, our_ethertype);
	tcase_add_test(tc, cut);
	tcase_add_test(tc, captures);
}

int
main(void)
{
	return unit_run("dispatcher prepare", fill);
}
