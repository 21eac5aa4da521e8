/* SPDX-License-Identifier: Apache-2.0 */
/* First inputs of what comes from links: packets, trace files, and the programs of filters. */
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/bpf.h"
#include "indexer/flows/flow_parts.h"
#include "proto/wire/beyond.h"
#include "tests/fuzz/corpus.h"
#include "tests/unit/golden_sflow.h"

/* ---- packets, behind the number of their link type in fuzz_decode.c ---- */

#define MACS "\2\0\0\0\0\1\2\0\0\0\0\2"
#define IP4(protocol, fragment)                                                            \
	"\x45\0\0\x50\x12\x34" fragment "\x40" protocol "\0\0\x0a\0\0\1\x0a\0\0\2"
#define IP6(next) "\x60\0\0\0\0\x28" next "\x3f" ADDRESS "\1" ADDRESS "\2"
#define ADDRESS "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define TCP "\x03\xe8\0\x50\0\0\0\1\0\0\0\0\x50\x12\0\0\0\0\0\0"
#define UDP(to) "\x03\xe8" to "\0\x40\0\0"
#define PACKET(link, s)                                                                    \
	{                                                                                  \
		link, s, sizeof(s) - 1                                                     \
	}
static const struct {
	uint8_t link;
	const char *bytes;
	size_t len;
} packets[] = {
	PACKET(0, MACS "\x08\0" IP4("\6", "\0\0") TCP),
	PACKET(0, MACS "\x08\0" IP4("\x11", "\x20\0") UDP("\0\x35")),
	PACKET(0, MACS "\x08\0" IP4("\x11", "\x20\5") "more"),
	PACKET(0, MACS "\x08\0" IP4("\1", "\0\0") "\x08\0\0\0"),
	PACKET(0, MACS "\x81\0\0\7\x88\xa8\0\x08\x91\0\0\x09\x86\xdd" IP6("\6") TCP),
	PACKET(0, MACS "\x86\xdd" IP6("\0") "\x3c\0\1\4\0\0\0\0\x2b\0\1\4\0\0\0\0"
					    "\x2c\0\0\0\0\0\0\0\x33\0\0\1\0\0\0\7"
					    "\x3a\1\0\0\0\0\0\0\0\0\0\0\x80\0\0\0"),
	PACKET(0, MACS "\x86\xdd" IP6("\x3b")),
	PACKET(0, MACS "\x88\x47\0\1\0\x40\0\1\1\x40" IP4("\x84", "\0\0") TCP),
	PACKET(0, MACS "\x88\x64\x11\0\0\1\0\x30\0\x21" IP4("\6", "\0\0") TCP),
	PACKET(0, MACS "\x88\x64\x11\0\0\1\0\x30\0\x57" IP6("\x11") UDP("\0\x35")),
	PACKET(0, MACS
		"\x08\0" IP4("\x2f", "\0\0") "\xb0\0\x08\0\0\0\0\0\0\0\0\1\0\0\0\2" IP4(
			"\6", "\0\0") TCP),
	PACKET(0, MACS "\x08\0" IP4("\x2f", "\0\0") "\0\0\x65\x58" MACS "\x08\6 an ARP"),
	PACKET(0, MACS "\x08\0" IP4("\x2f",
			  "\0\0") "\x20\1\x88\x0b\0\4\0\1\0\0\0\1\xff\3\0\x21" IP4("\1",
			  "\0\0")),
	PACKET(0, MACS "\x08\0" IP4("\x11", "\0\0") UDP(
			  "\x12\xb5") "\x08\0\0\0\0\0\7\0" MACS "\x86\xdd" IP6("\6") TCP),
	PACKET(0, MACS "\x08\0" IP4("\4", "\0\0") IP4("\x29", "\0\0") IP6("\6") TCP),
	PACKET(0, MACS "\0\x26\x42\x42\3 spanning tree"),
	PACKET(0, MACS "\x08\6\0\1\x08\0\6\4\0\1 an ARP"),
	PACKET(1, "\2\0\0\0" IP4("\6", "\0\0") TCP),
	PACKET(1, "\0\0\0\x1c" IP6("\6") TCP),
	PACKET(2, IP4("\6", "\0\0") TCP),
	PACKET(3, "\0\0\0\2" IP4("\6", "\0\0") TCP),
	PACKET(4, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\0" IP4("\6", "\0\0") TCP),
	PACKET(5, IP4("\6", "\0\0") TCP),
	PACKET(6, IP6("\6") TCP),
	PACKET(7, "\x08\0\0\0\0\0\0\1\0\1\0\6\2\0\0\0\0\1\0\0" IP4("\6", "\0\0") TCP),
	PACKET(8, "what is this"),
};

/* A rule, and a packet four times, a second between them, as fuzz_cutoff.c reads them. */
static void
put_cutoff(const char *name, const char *rule, const char *packet, size_t len)
{
	const uint8_t head[] = {2, 0x01, 100, (uint8_t)len};

	corpus_put("cutoff", name, rule, strlen(rule) + 1, head, sizeof head, packet, len,
		head, sizeof head, packet, len, head, sizeof head, packet, len, head,
		sizeof head, packet, len, END);
}

/* A sum of what is beyond a cutoff. */
static void
put_beyond(void)
{
	const struct pr_beyond b = {
		.connection = {.port = {1000, 53}, .protocol = 17, .address_len = 16},
		.number = 7,
		.packets = 2,
		.bytes = 300,
		.first = 1,
		.last = 2,
		.name = "bulk"};
	uint8_t frame[PR_BEYOND_MAX];
	size_t len = pr_beyond_store(&b, frame);

	corpus_put("cutoff", "beyond", frame, len, END);
}

static void
put_packets(void)
{
	for (size_t i = 0; i < COUNT(packets); i++) {
		char name[32];

		snprintf(name, sizeof name, "packet-%zu", i);
		corpus_put("decode", name, &packets[i].link, (size_t)1, packets[i].bytes,
			packets[i].len, END);
		corpus_put("anonymize", name, &packets[i].link, (size_t)1, "\3\0",
			(size_t)2, packets[i].bytes, packets[i].len, END);
		corpus_put("index", name, packets[i].bytes, packets[i].len, END);
		if (packets[i].link == 0)
			put_cutoff(name, "", packets[i].bytes, packets[i].len);
	}
	put_cutoff(
		"rule", "tcp 10.0.0.1 1000 10.0.0.2 80", packets[0].bytes, packets[0].len);
	put_cutoff("moved", "10.0.0.1 rest src", packets[0].bytes, packets[0].len);
}

/* ---- programs: a packet, and what libpcap makes of filters ---- */

static const uint8_t packet[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0,
	40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0, 80, 0, 0, 0,
	1, 0, 0, 0, 2, 0x50, 0x12, 0, 99, 0, 0, 0, 0};

/* From one time on and up to another: two terms at the head, then loads of what they give, and jumps. */
static void
put_times(void)
{
	static const struct pr_bpf_time times[] = {{-1, true}, {1000, false}};
	struct pr_insn insns[] = {{0}, {0}, {0}, {0}, {0x20, 0, 0, PR_TIMES_AT},
		{0x15, 0, 2, 1}, {0x20, 0, 0, PR_TIMES_AT + PR_TIMES_APART},
		{0x15, 1, 0, 1}, {0x06, 0, 0, 0}, {0x06, 0, 0, 65535}};
	const unsigned char len = sizeof packet;

	for (size_t i = 0; i < COUNT(times); i++)
		pr_bpf_put_time(&insns[2 * i], &times[i]);
	corpus_put("program", "times", &len, sizeof len, packet, sizeof packet, insns,
		sizeof insns, END);
}

static void
put_programs(void)
{
	static const char *const filters[] = {"", "tcp port 80",
		"host 10.0.0.1 and greater 50", "ip[0] & 0xf > 5 or vlan 7",
		"ip6 protochain 6", "ether[len - 4:4] % 7 = 3",
		"tcp[2:2] * 3 - 4 / (ip[8] + 1) << 2 != 9", "net 10.0.0.0/8 or icmp6",
		"ip[6:2] & 0x1fff = 0 and udp[8:4] ^ 0x5555 >> 3 | 1 = 3"};
	pcap_t *dead = pcap_open_dead(DLT_EN10MB, 65535);
	const unsigned char len = sizeof packet;

	for (size_t i = 0; i < COUNT(filters); i++) {
		struct bpf_program program;
		char name[32];

		if (pcap_compile(dead, &program, filters[i], 1, PCAP_NETMASK_UNKNOWN) < 0)
			corpus_die(pcap_geterr(dead));
		snprintf(name, sizeof name, "filter-%zu", i);
		/* struct bpf_insn has no gaps: its bytes are the file's on little-endian machines */
		corpus_put("program", name, &len, sizeof len, packet, sizeof packet,
			program.bf_insns, program.bf_len * sizeof *program.bf_insns, END);
		pcap_freecode(&program);
	}
	pcap_close(dead);
	put_times();
}

/* ---- trace files ---- */

static void
put_pcap(const char *name, int linktype, int precision, int count)
{
	char path[512];
	pcap_t *dead =
		pcap_open_dead_with_tstamp_precision(linktype, 65535, (u_int)precision);
	pcap_dumper_t *dumper;

	corpus_put("import", name, END); /* makes the folder */
	snprintf(path, sizeof path, "%s/import/%s", corpus_top, name);
	dumper = pcap_dump_open(dead, path);
	if (!dumper)
		corpus_die(pcap_geterr(dead));
	for (int i = 0; i < count; i++) {
		struct pcap_pkthdr h = {.ts = {.tv_sec = 1700000000 - i % 2, .tv_usec = i},
			.caplen = (bpf_u_int32)(i % 5 * 10),
			.len = 1500};

		pcap_dump((u_char *)dumper, &h, packet);
	}
	pcap_dump_close(dumper);
	pcap_close(dead);
}

/* Blocks of a pcapng file: section, interface (with ns), packet, packet of old, simple, unknown. */
static const uint8_t pcapng[] = {0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b,
	0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 28, 0, 0, 0,
	/* interface: Ethernet, 256 bytes, if_tsresol 9 */
	1, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0,
	32, 0, 0, 0,
	/* enhanced packet */
	6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0x17, 0x97, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 60,
	0, 0, 0, 1, 2, 3, 4, 36, 0, 0, 0,
	/* simple packet */
	3, 0, 0, 0, 20, 0, 0, 0, 4, 0, 0, 0, 5, 6, 7, 8, 20, 0, 0, 0,
	/* unknown */
	0x99, 0, 0, 0, 16, 0, 0, 0, 1, 1, 1, 1, 16, 0, 0, 0};

static void
put_traces(void)
{
	/* link type 0x02000001, whose low 16 bits are Ethernet's */
	static const uint8_t odd[] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 2, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1,
		0, 0, 0, 9};
	/* a header of the other byte order, and of one packet */
	static const uint8_t swapped[] = {0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1, 0x65, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0,
		3, 0, 0, 0, 60, 1, 2, 3};

	put_pcap("us", DLT_EN10MB, PCAP_TSTAMP_PRECISION_MICRO, 5);
	put_pcap("ns", DLT_EN10MB, PCAP_TSTAMP_PRECISION_NANO, 5);
	put_pcap("raw", DLT_RAW, PCAP_TSTAMP_PRECISION_NANO, 5);
	put_pcap("wlan", DLT_IEEE802_11_RADIO, PCAP_TSTAMP_PRECISION_MICRO, 5);
	put_pcap("long", DLT_EN10MB, PCAP_TSTAMP_PRECISION_NANO, 100);
	corpus_put("import", "swapped", swapped, sizeof swapped, END);
	corpus_put("import", "cut", swapped, sizeof swapped - 1, END);
	corpus_put("import", "pcapng", pcapng, sizeof pcapng, END);
	corpus_put("import", "pcapng-twice", pcapng, sizeof pcapng, pcapng, sizeof pcapng,
		END);
	corpus_put("import", "odd-link-type", odd, sizeof odd, END);
	corpus_put("import", "no-trace", "what is this", (size_t)12, END);
}

/* Eight packets each, with all kinds of times, in one segment and in several. */
static void
put_segments(void)
{
	uint8_t bytes[2048];

	for (size_t first = 0; first + 8 < COUNT(packets); first += 4) {
		char name[32];
		size_t len = 0;

		for (size_t i = 0; i < 8; i++) {
			size_t n =
				packets[first + i].len < 200 ? packets[first + i].len : 200;
			uint8_t head[10] = {(uint8_t)(i ^ first << 3), (uint8_t)i, 2, 3, 4,
				5, 6, 7, (uint8_t)(i << 4), (uint8_t)n};

			memcpy(bytes + len, head, sizeof head);
			memcpy(bytes + len + sizeof head, packets[first + i].bytes, n);
			len += sizeof head + n;
		}
		snprintf(name, sizeof name, "segments-%zu", first);
		corpus_put("builder", name, bytes, len, END);
	}
}

/* Reports by chance, a line of congruence each: no two nodes say the same. */
static void
put_reports(void)
{
	uint8_t bytes[600] = {255, 254, 200};

	for (uint32_t seed = 1; seed <= 8; seed++) {
		char name[] = "reports0";
		uint32_t x = seed * 2654435761u;

		for (size_t i = 3; i < sizeof bytes; i++)
			bytes[i] =
				(uint8_t)((x = x * 1664525 + 1013904223) >> 24) >> seed % 4;
		name[7] = (char)('0' + seed);
		corpus_put("completeness", name, bytes, sizeof bytes, END);
	}
}

/* What a node sends of a few packets: as one, behind a filter. */
static void
put_flow_parts(void)
{
	struct pri_flow_parts *parts;
	uint8_t bytes[512] = {'t', 'c', 'p', 0};
	struct pr_packet p;
	struct pr_error err;

	parts = pri_flow_parts_create(10, 0, 0, &err);
	for (uint64_t k = 0; parts && k < 4 && k < COUNT(packets); k++) {
		p = (struct pr_packet){.linktype = 1,
			.otime = (int64_t)k,
			.seq = k + 1,
			.caplen = (uint32_t)packets[k].len,
			.len = (uint32_t)packets[k].len,
			.data = (const uint8_t *)packets[k].bytes};
		if (pri_flow_parts_packet(parts, &p, &err) < 0)
			abort();
	}
	if (!parts || pri_flow_parts_advance(parts, PRI_FLOW_NEVER, &err) < 0 ||
		!pri_flow_parts_take(parts, &p) || p.caplen > 255)
		abort();
	bytes[7] = (uint8_t)p.caplen;
	memcpy(bytes + 8, p.data, p.caplen);
	corpus_put("flow", "parts", bytes, 8 + p.caplen, END);
	pri_flow_parts_destroy(&parts);
}

/* Filters of flows, each with a conversation of a few packets in it. */
static void
put_flows(void)
{
	static const char *const filters[] = {"tcp and bytes > 1M",
		"state = S0 or not (packets_sent >= 3)",
		"duration != 10s && src net 10.0.0.0/8", "vlan and payload <= 5k",
		"less 100", "state > SF", "bytes > ten",
		"ip6 and state == RSTOS0 and icmp6"};

	for (size_t i = 0; i < COUNT(filters); i++) {
		uint8_t bytes[2000];
		size_t len = strlen(filters[i]) + 1;
		char name[16];

		memcpy(bytes, filters[i], len);
		for (size_t k = i; k < COUNT(packets) && len + 204 < sizeof bytes;
			k += 1 + i % 3) {
			size_t n = packets[k].len < 200 ? packets[k].len : 200;
			uint8_t head[4] = {0, (uint8_t)k, (uint8_t)i, (uint8_t)n};

			memcpy(bytes + len, head, sizeof head);
			memcpy(bytes + len + sizeof head, packets[k].bytes, n);
			len += sizeof head + n;
		}
		snprintf(name, sizeof name, "flows-%zu", i);
		corpus_put("flow", name, bytes, len, END);
	}
}

/* Messages of exporters: a template with its data, of versions 9 and 10, one of version 5, and one of sFlow. */
static void
put_exports(void)
{
	static const uint8_t elements[] = {8, 12, 7, 11, 4, 6, 2, 1, 22, 21, 34, 152};
	uint8_t bytes[600];

	for (unsigned version = 5; version <= 10; version += version == 9 ? 1 : 4) {
		size_t len = version == 5 ? 24 + 48 : version == 9 ? 20 : 16, set;

		memset(bytes, 0, sizeof bytes);
		bytes[3 + 1] = (uint8_t)version;
		bytes[3 + 3] = 1;
		for (size_t i = 24; i < len; i++)
			bytes[3 + i] = (uint8_t)(i * 7);
		set = 3 + len;
		if (version > 5) {
			bytes[set + 1] = version == 9 ? 0 : 2;
			bytes[set + 3] = 8 + 4 * sizeof elements;
			bytes[set + 4] = 1;
			bytes[set + 7] = sizeof elements;
			for (size_t i = 0; i < sizeof elements; i++) {
				bytes[set + 8 + 4 * i + 1] = elements[i];
				bytes[set + 8 + 4 * i + 3] = 4;
			}
			set += 8 + 4 * sizeof elements;
			bytes[set] = 1;
			bytes[set + 3] = 4 + 2 * 4 * sizeof elements;
			for (size_t i = 4; i < 4 + 2 * 4 * sizeof elements; i++)
				bytes[set + i] = (uint8_t)(i * 5);
			set += 4 + 2 * 4 * sizeof elements;
		}
		bytes[2] = (uint8_t)(set - 3);
		bytes[1] = (uint8_t)((set - 3) >> 8);
		if (version == 10)
			bytes[3 + 3] = bytes[2], bytes[3 + 2] = bytes[1];
		corpus_put("export",
			version == 5   ? "version-5"
			: version == 9 ? "version-9"
				       : "ipfix",
			bytes, set, END);
	}
	bytes[0] = 1 << 2; /* IPFIX by a connection */
	corpus_put(
		"export", "ipfix-tcp", bytes, 3 + ((size_t)bytes[1] << 8 | bytes[2]), END);
	memcpy(bytes + 3, sflow, sizeof sflow);
	bytes[0] = 0;
	bytes[1] = sizeof sflow >> 8;
	bytes[2] = (uint8_t)sizeof sflow;
	corpus_put("export", "sflow", bytes, 3 + sizeof sflow, END);
}

void
corpus_packets(void)
{
	put_flows();
	put_flow_parts();
	put_exports();
	put_segments();
	put_reports();
	put_packets();
	put_beyond();
	put_programs();
	put_traces();
}
