/* SPDX-License-Identifier: Apache-2.0 */
/* What exporters send: NetFlow 5, 9, IPFIX and sFlow; sequence numbers; what is bounded. */
#include <string.h>

#include "indexer/flows/flow_export.h"
#include "proto/base/cursor.h"
#include "tests/unit/golden_sflow.h"
#include "tests/unit/unit.h"

#define S PR_NS_PER_S
#define MS PR_NS_PER_MS
#define NOW (1700000100 * S)

static struct pr_error err;
static struct pri_flow flows[64];
static size_t count;
static struct pri_exporters *exporters;
static struct pri_export_from here = {.address = {192, 0, 2, 1}, .address_len = 4};

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *e)
{
	(void)arg;
	(void)e;
	unit_must(count < 64);
	flows[count++] = *flow;
	return 0;
}

static void
setup(void)
{
	count = 0;
	exporters = pri_exporters_create(on_flow, on_flow, NULL, &err);
}

static void
teardown(void)
{
	pri_exporters_destroy(&exporters);
}

/* ---- messages ---- */

static uint8_t bytes[2048];
static size_t len, set;

static void
b8(unsigned v)
{
	bytes[len++] = (uint8_t)v;
}

static void
b16(unsigned v)
{
	pr_put_be16(bytes + len, (uint16_t)v);
	len += 2;
}

static void
b32(uint32_t v)
{
	pr_put_be32(bytes + len, v);
	len += 4;
}

static void
b64(uint64_t v)
{
	pr_put_be64(bytes + len, v);
	len += 8;
}

static void
set_begin(unsigned id)
{
	set = len;
	b16(id);
	b16(0);
}

static void
set_end(void)
{
	pr_put_be16(bytes + set + 2, (uint16_t)(len - set));
}

/* version 9: uptime 60 s at 1700000060 */
static void
v9_begin(uint32_t sequence)
{
	len = 0;
	b16(9);
	b16(1);
	b32(60000);
	b32(1700000060);
	b32(sequence);
	b32(7);
}

static void
ipfix_begin(uint32_t sequence)
{
	len = 0;
	b16(10);
	b16(0);
	b32(1700000060);
	b32(sequence);
	b32(7);
}

static void
send(void)
{
	if (bytes[1] == 10)
		pr_put_be16(bytes + 2, (uint16_t)len);
	unit_must(pri_exporters_take(exporters, &here, bytes, len, NOW, &err) == 0);
}

/* id, length, ... , 0 */
static void template(unsigned kind, unsigned id, unsigned scopes, const uint16_t *fields)
{
	unsigned n = 0;

	while (fields[2 * n])
		n++;
	set_begin(kind);
	b16(id);
	if (kind == 1) {
		b16(scopes * 4);
		b16((n - scopes) * 4);
	} else {
		b16(n);
		if (kind == 3)
			b16(scopes);
	}
	for (unsigned i = 0; i < 2 * n; i++)
		b16(fields[i]);
	set_end();
}

static const uint16_t plain[] = {
	8, 4, 12, 4, 7, 2, 11, 2, 4, 1, 6, 1, 2, 4, 1, 4, 22, 4, 21, 4, 0};

static void
plain_record(unsigned port, uint32_t packets)
{
	b32(0x0a000001);
	b32(0x0a000002);
	b16(port);
	b16(80);
	b8(6);
	b8(0x1b);
	b32(packets);
	b32(packets * 100);
	b32(10000);
	b32(12000);
}

static const struct pri_exporter *
exporter(void)
{
	return pri_exporters_get(exporters, 0);
}

/* ---- versions ---- */

START_TEST(version_5)
{
	const struct pri_flow *f = &flows[0];

	len = 0;
	b16(5);
	b16(1);
	b32(60000);
	b32(1700000060);
	b32(500);
	b32(1000);
	b8(1);
	b8(2);
	b16(0x4000 | 10); /* one of ten */
	b32(0x0a000002);
	b32(0x0a000001);
	b32(0);
	b32(0);
	b32(3);
	b32(300);
	b32(10000);
	b32(12000);
	b16(443);
	b16(5000);
	b8(0);
	b8(0x12);
	b8(6);
	len += 9;
	send();
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(f->originator, 1);
	ck_assert_uint_eq(f->key.port[1], 443);
	ck_assert_uint_eq(f->key.address[0][3], 1);
	ck_assert_uint_eq(f->side[1].packets, 30);
	ck_assert_uint_eq(f->side[1].bytes, 3000);
	ck_assert_uint_eq(f->side[0].packets, 0);
	ck_assert_uint_eq(f->sampling, 10);
	ck_assert_uint_eq(f->side[1].flags, 0x12);
	ck_assert_int_eq(pri_flow_first(f), 1700000010 * S + 500);
	ck_assert_int_eq(pri_flow_last(f), 1700000012 * S + 500);
	ck_assert_uint_eq(exporter()->id.domain, 0x0102);
	/* more records than there are bytes */
	pr_put_be16(bytes + 2, 2);
	send();
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(exporter()->bad, 1);
}
END_TEST

START_TEST(version_9)
{
	v9_begin(1);
	set_begin(256);
	plain_record(5000, 1);
	set_end();
	send();
	ck_assert_uint_eq(count, 0);
	ck_assert_uint_eq(exporter()->no_template, 1);
	v9_begin(2);
	template(0, 256, 0, plain);
	set_begin(256);
	plain_record(5000, 1);
	plain_record(5001, 2);
	b16(0); /* up to a word */
	set_end();
	send();
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(pri_flow_first(&flows[0]), 1700000010 * S);
	ck_assert_int_eq(pri_flow_last(&flows[1]), 1700000012 * S);
	ck_assert_uint_eq(flows[1].side[flows[1].originator].bytes, 200);
	/* options: sampling; a template with another meaning takes the old one's place */
	v9_begin(3);
	template(1, 300, 1, (const uint16_t[]){1, 4, 34, 4, 0});
	set_begin(300);
	b32(1);
	b32(100);
	set_end();
	template(0, 256, 0, (const uint16_t[]){8, 4, 12, 4, 24, 4, 23, 4, 0});
	set_begin(256);
	b32(0x0a000001);
	b32(0x0a000002);
	b32(5);
	b32(77);
	set_end();
	send();
	ck_assert_uint_eq(count, 3);
	ck_assert_uint_eq(exporter()->sampling, 100);
	ck_assert_uint_eq(flows[2].side[flows[2].originator].packets, 500);
	ck_assert_uint_eq(flows[2].sampling, 100);
	/* of no time: when it came */
	ck_assert_int_eq(pri_flow_first(&flows[2]), NOW);
	ck_assert_uint_eq(exporter()->bad, 0);
	ck_assert_uint_eq(exporter()->lost, 0);
}
END_TEST

/* Both directions (RFC 5103), a length in the record, an element of somebody else's. */
START_TEST(ipfix)
{
	const struct pri_flow *f = &flows[0];

	ipfix_begin(0);
	set_begin(2);
	b16(400);
	b16(9);
	for (int i = 0; i < 2; i++) {
		b16(27 + i);
		b16(16);
	}
	b16(4);
	b16(1);
	b16(2);
	b16(8);
	b16(0x8000 | 2);
	b16(4);
	b32(29305);
	b16(0x8000 | 2);
	b16(65535);
	b32(9);
	b16(152);
	b16(8);
	b16(153);
	b16(8);
	b16(58);
	b16(2);
	set_end();
	set_begin(400);
	for (int i = 0; i < 2; i++) {
		b64(0);
		b64((uint64_t)(2 - i));
	}
	b8(17);
	b64(11);
	b32(13);
	b8(255);
	b16(300);
	memset(bytes + len, 0xff, 300);
	len += 300;
	b64(1700000010123);
	b64(1700000011456);
	b16(100);
	set_end();
	send();
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(f->key.address_len, 16);
	ck_assert_uint_eq(f->key.vlan, 100);
	ck_assert_uint_eq(f->originator, 1);
	ck_assert_uint_eq(f->side[1].packets, 11);
	ck_assert_uint_eq(f->side[0].packets, 13);
	ck_assert_int_eq(pri_flow_first(f), 1700000010 * S + 123 * MS);
	ck_assert_int_eq(pri_flow_last(f), 1700000011 * S + 456 * MS);
	/* broken off anywhere: no flow, no crash */
	for (size_t n = len - 1; n > 16; n--) {
		len = n;
		count = 0;
		send();
		ck_assert_uint_eq(count, 0);
	}
}
END_TEST

/* ---- sFlow ---- */

enum { SAMPLE_1 = 40, SAMPLE_2 = SAMPLE_1 + 8 + 148 };

static void
send_sflow(const uint8_t *data, size_t size)
{
	unit_must(pri_exporters_take(exporters, &here, data, size, NOW, &err) == 0);
}

START_TEST(sflow_is_golden)
{
	const struct pri_flow *f = &flows[0], *six = &flows[1];

	send_sflow(sflow, sizeof(sflow));
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(f->key.address_len, 4);
	ck_assert_uint_eq(f->key.port[0], 0xc000);
	ck_assert_uint_eq(f->key.protocol, 6);
	ck_assert_uint_eq(f->sampling, 100);
	ck_assert_uint_eq(f->side[0].packets, 100);
	ck_assert_uint_eq(f->side[0].bytes, 4000);
	ck_assert_uint_eq(f->side[0].flags, 2);
	ck_assert_uint_eq(f->side[1].packets, 0);
	ck_assert_int_eq(pri_flow_first(f), NOW);
	ck_assert_uint_eq(six->key.address_len, 16);
	ck_assert_uint_eq(six->key.port[0], 50000);
	ck_assert_uint_eq(six->sampling, 200);
	ck_assert_uint_eq(six->side[1].bytes, 256 * 200);
	ck_assert_uint_eq(six->side[1].packets, 200);
	ck_assert_int_eq(six->side[1].syn_ack, NOW);
	ck_assert_uint_eq(exporter()->id.version, PRI_EXPORT_SFLOW);
	ck_assert_uint_eq(exporter()->id.address[15], 9);
	ck_assert_uint_eq(exporter()->id.domain, 3);
	ck_assert_uint_eq(exporter()->id.source, 5);
	ck_assert_uint_eq(exporter()->messages, 3);
	ck_assert_uint_eq(exporter()->flows, 2);
	ck_assert_uint_eq(exporter()->lost, 2);
	ck_assert_uint_eq(exporter()->dropped, 5);
	ck_assert_uint_eq(exporter()->skipped, 1);
	ck_assert_uint_eq(exporter()->bad, 0);
	ck_assert(!pri_exporters_get(exporters, 1));
	ck_assert_uint_eq(pri_exporters_refused(exporters), 0);
}
END_TEST

/* Broken off anywhere: what was whole before is taken, and the rest counted once. */
START_TEST(sflow_breaks_off)
{
	for (size_t n = sizeof(sflow) - 1; n > 0; n--) {
		uint8_t *copy = malloc(n); /* what is read beyond is found by sanitizers */

		memcpy(copy, sflow, n);
		teardown();
		setup();
		send_sflow(copy, n);
		ck_assert_uint_eq(count, n >= SAMPLE_2 + 8 + 108 ? 2 : n >= SAMPLE_2);
		ck_assert_uint_eq(pri_exporters_refused(exporters), 1);
		free(copy);
	}
}
END_TEST

/* One word of the message says something else: how much is taken, how much is bad or refused. */
static const struct lie {
	size_t at;
	uint32_t word;
	unsigned flows, bad, refused;
} lies[] = {{4, 3, 0, 0, 1}, {36, 0xffffffff, 0, 0, 1}, {36, 5, 2, 0, 1}, {36, 0, 0, 0, 0},
	{SAMPLE_1 + 4, 0xffffffff, 0, 0, 1}, {SAMPLE_1 + 4, 8, 0, 1, 1},
	{SAMPLE_1 + 4, 4, 0, 0, 2}, {SAMPLE_1 + 36, 0xffffffff, 1, 1, 0}, /* records */
	{SAMPLE_1 + 36, 0, 1, 0, 0}, {SAMPLE_1 + 44, 0xffffffff, 1, 1, 0},
	/* of a header more bytes than are there: what the agent found counts */
	{SAMPLE_1 + 40 + 40 + 20, 0xffffffff, 2, 0, 0},
	{SAMPLE_1 + 40 + 40 + 20, 53, 2, 0, 0},
	{SAMPLE_1 + 40 + 40 + 8, 0xffffffff, 2, 0, 0}, /* begun by nothing known */
	{SAMPLE_1 + 40 + 40 + 12, 0xffffffff, 2, 0, 0}}; /* a long packet */

START_TEST(sflow_lies)
{
	const struct lie *l = &lies[_i];
	uint8_t copy[sizeof(sflow)];
	const struct pri_exporter *x;

	memcpy(copy, sflow, sizeof(sflow));
	pr_put_be32(copy + l->at, l->word);
	send_sflow(copy, sizeof(copy));
	x = exporter();
	ck_assert_uint_eq(count, l->flows);
	ck_assert_uint_eq(x ? x->bad : 0, l->bad);
	ck_assert_uint_ge(pri_exporters_refused(exporters), l->refused > 0);
	ck_assert_uint_le(pri_exporters_refused(exporters), l->refused);
	/* whatever it is: what was multiplied did not turn over */
	pr_put_be32(copy + SAMPLE_1 + 16, 0xffffffff);
	pr_put_be32(copy + SAMPLE_2 + 20, 0xffffffff);
	count = 0;
	send_sflow(copy, sizeof(copy));
	for (size_t i = 0; i < count; i++)
		ck_assert_uint_ge(flows[i].side[0].bytes + flows[i].side[1].bytes,
			flows[i].side[0].packets + flows[i].side[1].packets);
}
END_TEST

/* ---- sequence numbers ---- */

static const struct sequence {
	struct {
		uint32_t at, records;
	} messages[8];
	uint64_t lost, late, restarts;
} sequences[] = {
	{{{10, 2}, {12, 3}, {15, 1}}, 0, 0, 0},
	{{{10, 2}, {15, 1}, {16, 1}}, 3, 0, 0},
	/* what comes late was not lost */
	{{{10, 2}, {14, 2}, {12, 2}, {16, 1}}, 0, 2, 0},
	{{{10, 2}, {18, 2}, {12, 2}, {20, 1}}, 4, 2, 0},
	/* begun anew, and over the end of 32 bits */
	{{{4000000, 2}, {0, 1}, {1, 1}}, 0, 1, 1},
	{{{1000, 2}, {0, 1}, {5, 1}, {6, 1}}, 4, 1, 1},
	/* twice: neither lost nor found again */
	{{{10, 2}, {14, 2}, {14, 2}, {16, 1}}, 2, 2, 0},
	/* of a gap, the middle, and then both ends */
	{{{10, 1}, {20, 1}, {14, 2}, {11, 3}, {16, 4}, {21, 1}}, 0, 9, 0},
	{{{UINT32_MAX, 2}, {1, 1}, {4, 1}}, 2, 0, 0},
};

START_TEST(numbers_tell_losses)
{
	const struct sequence *s = &sequences[_i];

	ipfix_begin(s->messages[0].at);
	template(2, 256, 0, plain);
	send();
	for (int i = 0; i < 8 && s->messages[i].records; i++) {
		ipfix_begin(s->messages[i].at);
		set_begin(256);
		for (uint32_t n = 0; n < s->messages[i].records; n++)
			plain_record(1000 + n, 1);
		set_end();
		send();
	}
	ck_assert_uint_eq(exporter()->lost, s->lost);
	ck_assert_uint_eq(exporter()->late, s->late);
	ck_assert_uint_eq(exporter()->restarts, s->restarts);
}
END_TEST

/* Where a template is missing the next number tells how many records there were: they are lost. */
START_TEST(unknown_records)
{
	ipfix_begin(10);
	set_begin(256);
	plain_record(1, 1);
	set_end();
	send();
	ipfix_begin(20);
	template(2, 256, 0, plain);
	send();
	ck_assert_uint_eq(exporter()->lost, 10);
	ipfix_begin(22);
	send();
	ck_assert_uint_eq(exporter()->lost, 12);
}
END_TEST

/* Two connections of one exporter at once: templates and numbers are of each; the next one has neither. */
START_TEST(connections)
{
	static const uint16_t other[] = {8, 4, 12, 4, 7, 2, 11, 2, 4, 1, 6, 1, 2, 4, 0};

	for (uint32_t n = 1; n <= 3; n++) {
		here.connection = n % 2 + 1; /* 2, 1, 2 again */
		ipfix_begin(1000 * (uint32_t)here.connection + n);
		if (n < 3)
			template(2, 256, 0, n == 1 ? plain : other);
		set_begin(256);
		plain_record(n, n);
		len -= n == 2 ? 12 : 0;
		set_end();
		send();
	}
	ck_assert_uint_eq(count, 3);
	ck_assert_uint_eq(flows[0].side[0].bytes + flows[0].side[1].bytes, 100);
	ck_assert_uint_eq(flows[1].side[0].packets + flows[1].side[1].packets, 2);
	ck_assert_uint_eq(flows[1].side[0].bytes + flows[1].side[1].bytes, 0);
	ck_assert_uint_eq(flows[2].side[0].bytes + flows[2].side[1].bytes, 300);
	ck_assert_uint_eq(exporter()->id.stream, 1);
	ck_assert_uint_eq(exporter()->lost, 1);
	ck_assert_uint_eq(pri_exporters_get(exporters, 1)->lost, 0);
	pri_exporters_end(exporters, 2);
	here.connection = 7;
	ipfix_begin(5);
	set_begin(256);
	plain_record(1, 1);
	set_end();
	send();
	ck_assert_uint_eq(exporter()->no_template, 1);
	ck_assert_uint_eq(exporter()->lost, 1);
	ck_assert_uint_eq(exporter()->id.stream, 1);
	ck_assert_ptr_null(pri_exporters_get(exporters, 2));
	/* withdrawn */
	ipfix_begin(5);
	template(2, 256, 0, plain);
	template(2, 2, 0, (const uint16_t[]){0});
	set_begin(256);
	plain_record(1, 1);
	set_end();
	send();
	ck_assert_uint_eq(exporter()->no_template, 2);
	ck_assert_uint_eq(exporter()->bad, 0);
	/* no more at once than there are templates for */
	for (here.connection = 8; here.connection < 8 + PRI_EXPORT_STREAMS_MAX;
		here.connection++) {
		ipfix_begin(1);
		send();
	}
	ck_assert_uint_eq(pri_exporters_refused(exporters), 2);
	here.connection = 0;
}
END_TEST

/* ---- bounds ---- */

START_TEST(hostile_templates)
{
	/* of no bytes, of no fields, of an id that is none, of too many fields */
	v9_begin(1);
	template(0, 256, 0, (const uint16_t[]){8, 0, 0});
	set_begin(256);
	b32(0);
	set_end();
	send();
	v9_begin(2);
	template(0, 257, 0, (const uint16_t[]){0});
	send();
	v9_begin(3);
	template(0, 255, 0, plain);
	send();
	v9_begin(4);
	set_begin(0);
	b16(256);
	b16(PRI_EXPORT_FIELDS_MAX + 1);
	len += 4 * (PRI_EXPORT_FIELDS_MAX + 1);
	set_end();
	send();
	ck_assert_uint_eq(count, 0);
	ck_assert_uint_eq(exporter()->bad, 3);
	ck_assert_uint_eq(exporter()->no_template, 1);
}
END_TEST

START_TEST(too_many)
{
	static const uint8_t junk[] = {0, 10, 0, 16, 0};
	bool links[PRI_EXPORTERS_MAX] = {false};
	struct pri_exporter x;
	struct pri_exporters *other = pri_exporters_create(on_flow, on_flow, NULL, &err);

	for (uint32_t i = 0; i < PRI_EXPORTERS_MAX + 5; i++) {
		v9_begin(1);
		pr_put_be32(bytes + 16, i);
		send();
	}
	/* who sends no flows makes room; who does stays */
	ck_assert_uint_eq(pri_exporters_refused(exporters), 0);
	ck_assert(!pri_exporters_get(exporters, PRI_EXPORTERS_MAX));
	for (uint32_t i = 0; i < PRI_EXPORTERS_MAX + 5; i++) {
		count = 0;
		v9_begin(1);
		pr_put_be32(bytes + 16, 5000 + i);
		template(0, 256, 0, plain);
		set_begin(256);
		plain_record(1, 1);
		set_end();
		send();
	}
	ck_assert_uint_eq(pri_exporters_refused(exporters), 5);
	for (size_t i = 0; i < PRI_EXPORTERS_MAX; i++) {
		uint16_t link = pri_exporters_get(exporters, i)->link;

		ck_assert(link < PRI_EXPORTERS_MAX && !links[link]);
		links[link] = true;
	}
	unit_must(pri_exporters_take(exporters, &here, junk, sizeof(junk), NOW, &err) == 0);
	ck_assert_uint_eq(pri_exporters_refused(exporters), 6);
	/* known before: its numbers go on, and its link is its own */
	x = *pri_exporters_get(exporters, 3);
	ck_assert_int_eq(pri_exporters_restore(other, &x, &err), 0);
	ck_assert_int_eq(pri_exporters_restore(other, &x, &err), -1);
	ck_assert_mem_eq(pri_exporters_get(other, 0), &x, sizeof(x));
	pri_exporters_destroy(&other);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, version_5);
	tcase_add_test(t, version_9);
	tcase_add_test(t, ipfix);
	tcase_add_test(t, sflow_is_golden);
	tcase_add_test(t, sflow_breaks_off);
	tcase_add_loop_test(t, sflow_lies, 0, sizeof(lies) / sizeof(lies[0]));
	tcase_add_loop_test(
		t, numbers_tell_losses, 0, sizeof(sequences) / sizeof(sequences[0]));
	tcase_add_test(t, unknown_records);
	tcase_add_test(t, connections);
	tcase_add_test(t, hostile_templates);
	tcase_add_test(t, too_many);
}

int
main(void)
{
	return unit_run("flow export", fill);
}
