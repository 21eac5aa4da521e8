/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"
#include "proto/wire/source.h"

/*
 * What the programs of the index's benchmarks share: a trace in memory (little-endian pcap, microseconds),
 * and larger ones from it. A fault ends the program.
 */
#define GLOBAL 24
#define RECORD 16
#define CAPLEN_MAX 65535u
#define NEEDLE 0xcb00714du /* 203.0.113.77 */

struct trace {
	uint8_t *bytes;
	size_t len;
	uint64_t span; /* us, of all packets, and a little */
};

static inline void
die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

/* The next record at *at, which begins as GLOBAL; false at the end. */
static inline bool
trace_next(const struct trace *t, size_t *at, const uint8_t **record, uint32_t *caplen)
{
	*record = t->bytes + *at;
	*caplen = 0;
	if (t->len - *at < RECORD)
		return false;
	*caplen = pr_get_le32(*record + 8);
	if (t->len - *at - RECORD < *caplen)
		return false;
	*at += RECORD + *caplen;
	return true;
}

static inline uint64_t
record_us(const uint8_t *record)
{
	return pr_get_le32(record) * 1000000ull + pr_get_le32(record + 4);
}

static inline uint32_t
record_linktype(const struct trace *t)
{
	return pr_get_le32(t->bytes + 20);
}

static inline struct pr_packet
record_packet(const struct trace *t, const uint8_t *record, uint32_t caplen, uint64_t seq)
{
	int64_t ns = (int64_t)record_us(record) * 1000;

	return (struct pr_packet){.time = ns,
		.otime = ns,
		.seq = seq,
		.linktype = (uint16_t)record_linktype(t),
		.caplen = caplen,
		.len = pr_get_le32(record + 12),
		.data = record + RECORD};
}

static inline bool
is_ip(const uint8_t *record, uint32_t caplen)
{
	return caplen >= 34 && pr_get_be16(record + RECORD + 12) == 0x0800;
}

static inline struct trace
trace_load(const char *path)
{
	struct trace t = {0};
	uint64_t least = UINT64_MAX, most = 0;
	const uint8_t *record;
	FILE *f = fopen(path, "rb");
	uint32_t caplen;
	size_t at = GLOBAL;
	long len;

	if (!f || fseek(f, 0, SEEK_END) || (len = ftell(f)) < GLOBAL)
		die(path);
	rewind(f);
	t.bytes = malloc((size_t)len);
	if (!t.bytes || fread(t.bytes, 1, (size_t)len, f) != (size_t)len)
		die(path);
	fclose(f);
	t.len = (size_t)len;
	if (pr_get_le32(t.bytes) != 0xa1b2c3d4)
		die("a little-endian pcap in microseconds is wanted");
	while (trace_next(&t, &at, &record, &caplen)) {
		least = record_us(record) < least ? record_us(record) : least;
		most = record_us(record) > most ? record_us(record) : most;
	}
	if (most < least)
		die("no packets");
	t.span = most - least + 1000;
	return t;
}

static inline uint32_t
trace_mix(uint32_t x, uint32_t round)
{
	x = (x ^ round * 0x9e3779b9u) * 0x85ebca6bu;
	x = (x ^ x >> 15) * 0xc2b2ae35u;
	return x ^ x >> 13;
}

/* A quarter of the hosts stay the same for ever; the others keep their first octet. */
static inline void
renew_address(uint8_t *at, uint32_t round)
{
	uint32_t a = pr_get_be32(at);

	if (trace_mix(a, 0) % 4)
		pr_put_be32(at, (a & 0xff000000u) | (trace_mix(a, round) & 0x00ffffffu));
}

static inline void
renew_port(uint8_t *at, uint32_t round)
{
	uint16_t port = pr_get_be16(at);

	if (port >= 10000)
		pr_put_be16(at, (uint16_t)(10000 + trace_mix(port, round) % 55536));
}

static inline void
renew(uint8_t *d, uint32_t caplen, uint32_t round)
{
	size_t x;

	if (round == 0 || caplen < 38 || pr_get_be16(d + 12) != 0x0800)
		return;
	renew_address(d + 26, round);
	renew_address(d + 30, round);
	x = 14 + 4 * (d[14] & 15u);
	if ((d[23] == 6 || d[23] == 17) && caplen >= x + 4) {
		renew_port(d + x, round);
		renew_port(d + x + 2, round);
	}
}

/*
 * A larger trace: its packets again and again; in each round most addresses and high ports are new ones,
 * the same for all packets of a host or port, so that flows, and the skew among hosts, stay as they
 * were. One packet, two thirds in, is from NEEDLE.
 */
struct grower {
	const struct trace *from;
	uint64_t packets, done;
	uint32_t snap, round; /* snap 0: none */
	size_t at;
	bool hidden;
	uint8_t record[RECORD + CAPLEN_MAX];
	uint32_t caplen;
};

static inline void
grow_begin(struct grower *g, const struct trace *from, uint64_t packets, uint32_t snap)
{
	memset(g, 0, sizeof(*g));
	g->from = from;
	g->packets = packets;
	g->snap = snap;
	g->at = GLOBAL;
}

/* The next is in g->record, g->caplen; false: that was the last. */
static inline bool
grow_next(struct grower *g)
{
	const uint8_t *record;
	uint64_t t;

	if (g->done == g->packets)
		return false;
	if (!trace_next(g->from, &g->at, &record, &g->caplen)) {
		g->at = GLOBAL;
		g->round++;
		trace_next(g->from, &g->at, &record, &g->caplen);
	}
	g->caplen = g->caplen < CAPLEN_MAX ? g->caplen : CAPLEN_MAX;
	g->caplen = g->snap && g->snap < g->caplen ? g->snap : g->caplen;
	memcpy(g->record, record, RECORD + g->caplen);
	t = record_us(record) + g->round * g->from->span;
	pr_put_le32(g->record, (uint32_t)(t / 1000000));
	pr_put_le32(g->record + 4, (uint32_t)(t % 1000000));
	pr_put_le32(g->record + 8, g->caplen);
	renew(g->record + RECORD, g->caplen, g->round);
	if (!g->hidden && g->done >= g->packets * 2 / 3 && is_ip(g->record, g->caplen)) {
		pr_put_be32(g->record + RECORD + 26, NEEDLE);
		g->hidden = true;
	}
	g->done++;
	return true;
}
