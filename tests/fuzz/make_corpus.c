/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_corpus DIR: the fuzzers' first inputs, one folder a target, made by writing valid things.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "indexer/level2.h"
#include "proto/rpc/message.h"
#include "proto/wire/frame.h"
#include "proto/wire/directory.h"
#include "proto/wire/ledger.h"
#include "proto/wire/segment.h"
#include "proto/wire/tslog.h"
#include "tests/fuzz/corpus.h"
#include "tests/unit/golden_frames.h"

static const uint8_t golden_level1[] = {
#include "tests/unit/golden_level1.h"
};

static const char *top;

void
corpus_die(const char *what)
{
	fprintf(stderr, "make_corpus: %s: %s\n", what, strerror(errno));
	exit(1);
}

void
corpus_put(const char *target, const char *name, ...)
{
	char path[512];
	const void *part;
	va_list ap;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", top, target);
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		corpus_die(path);
	snprintf(path, sizeof path, "%s/%s/%s", top, target, name);
	f = fopen(path, "w");
	if (!f)
		corpus_die(path);
	va_start(ap, name);
	while ((part = va_arg(ap, const void *))) {
		size_t len = va_arg(ap, size_t);

		if (fwrite(part, 1, len, f) != len)
			corpus_die(path);
	}
	va_end(ap);
	if (fclose(f) != 0)
		corpus_die(path);
}

/* ---- frames: the golden bytes, sealed by the target without and with a key ---- */

static void
put_frames(void)
{
#define GOLDEN(bytes)                                                                      \
	{                                                                                  \
		bytes, sizeof(bytes)                                                       \
	}
	static const struct {
		const uint8_t *data;
		size_t len;
	} golden[] = {GOLDEN(golden_ann), GOLDEN(golden_ann_ack), GOLDEN(golden_status),
		GOLDEN(golden_tslog), GOLDEN(golden_mark), GOLDEN(golden_resend),
		GOLDEN(golden_gone), GOLDEN(golden_stop), GOLDEN(golden_quit),
		GOLDEN(golden_identify), GOLDEN(golden_reset), GOLDEN(golden_disconnect),
		GOLDEN(golden_reconnect), GOLDEN(golden_port), GOLDEN(golden_keyed_stop)};

	for (size_t i = 0; i < COUNT(golden); i++)
		for (unsigned char mode = 0; mode < 16; mode += 7) {
			char name[32];

			snprintf(name, sizeof name, "golden-%zu-%d", i, mode);
			corpus_put("frame", name, &mode, sizeof mode, golden[i].data,
				golden[i].len, END);
		}
}

/* ---- timestamp logs ---- */

static struct pr_entry
make_entry(uint64_t n)
{
	static const uint8_t kinds[] = {0, PR_ENTRY_SECOND, PR_ENTRY_CAPLEN,
		PR_ENTRY_CAPLEN | PR_ENTRY_LEN, PR_ENTRY_LEN | PR_ENTRY_CUT,
		PR_ENTRY_ETHERTYPE, PR_ENTRY_RUNT, 0};
	uint8_t flags = kinds[n % COUNT(kinds)];
	struct pr_entry e = {.seq = 1 + n + (n > 20 ? 100 * n : 0),
		.ordinal = n,
		.time = 1700000000000000000 + (int64_t)(n * 12345),
		.fingerprint = (uint32_t)(n * 2654435761u),
		.flags = flags};

	e.otime = e.time + (n % 5 == 0 ? 77 : 0);
	e.caplen = flags & PR_ENTRY_CAPLEN ? 20 : 0;
	e.len = flags & PR_ENTRY_LEN ? 9000 : e.caplen;
	e.ethertype = flags & PR_ENTRY_ETHERTYPE ? PR_ETHERTYPE_DEFAULT : 0;
	e.runt_len = flags & PR_ENTRY_RUNT ? 3 : 0;
	if (!(flags & PR_ENTRY_RUNT))
		memset(e.macs, (int)(n % 3), sizeof e.macs);
	return e;
}

static void
put_tslogs(void)
{
	uint8_t buf[2048];

	for (unsigned i = 0; i < 6; i++) {
		struct pr_tslog_builder b;
		const uint8_t *body;
		char name[32];
		size_t len;

		pr_tslog_begin(
			&b, 1, i % 2 ? PR_TSLOG_INTERLEAVED : 0, 1 + i, buf, sizeof buf);
		for (uint64_t n = 0; n < 1u << i; n++) {
			struct pr_entry e = make_entry(n);

			e.ordinal = i % 2 ? n * n : n;
			if (!pr_tslog_add(&b, &e))
				break;
		}
		len = pr_tslog_finish(&b, &body);
		snprintf(name, sizeof name, "log-%u", i);
		corpus_put("tslog", name, body, len, END);
	}
}

/* ---- segments ---- */

static void
put_segments(void)
{
	static const uint8_t data[100] = "a packet's bytes";
	uint8_t buf[4096];

	for (unsigned i = 0; i < 6; i++) {
		struct pr_segment_builder b;
		char name[32];
		size_t len;

		pr_segment_begin(&b, buf, sizeof buf, i % 2 ? PR_SEGMENT_MIXED : 0);
		for (unsigned n = 0; n <= i; n++) {
			struct pr_packet p = {.time = 1000 - (int64_t)n,
				.otime = 1000,
				.epoch = 7,
				.seq = 5 + n,
				.caplen = n * 13,
				.len = 1500,
				.linktype = 1,
				.flags = (uint16_t)n,
				.data = data};

			if (!pr_segment_add(&b, &p))
				break;
		}
		len = pr_segment_seal(&b);
		snprintf(name, sizeof name, "segment-%u", i);
		corpus_put("segment", name, buf, len, END);
	}
}

/* ---- the ledger ---- */

static void
put_ledger(void)
{
	static const struct pr_ledger_entry entries[] = {
		{.type = PR_LEDGER_MARK,
			.u.mark = {7, 1000, 1, {.link = 1, .linktype = 1, .name = "tap0"}}},
		{.type = PR_LEDGER_LOSS,
			.u.loss = {.epoch = 7,
				.first_seq = 3,
				.last_seq = 5,
				.count = 2,
				.reason = 1}},
		{.type = PR_LEDGER_BOOT, .u.boot = {1000, 99, "node1"}},
		{.type = PR_LEDGER_DELETED,
			.u.deleted = {1000, 900, 3, 4096, 1, 1, "ann", "n2"}},
		{.type = PR_LEDGER_LINK, .u.link = {7, 1, 1, 65535, "tap0"}},
		{.type = PR_LEDGER_PORT, .u.port = {7, 1, 1000000000}},
	};
	static const uint8_t unknown[] = {99, 1, 3, 0, 1, 2, 3};
	uint8_t all[2048];
	struct pr_writer w = pr_writer_make(all, sizeof all);

	for (size_t i = 0; i < COUNT(entries); i++) {
		const uint8_t *start = w.at;
		char name[32];

		if (!pr_ledger_store(&w, &entries[i]))
			corpus_die("a ledger entry");
		snprintf(name, sizeof name, "entry-%zu", i);
		corpus_put("ledger", name, start, (size_t)(w.at - start), END);
	}
	corpus_put("ledger", "all", all, pr_writer_len(&w), unknown, sizeof unknown, END);
}

static void
put_directory(void)
{
	static const struct pr_directory_entry entries[] = {
		{.u.segment = {7, 1, 2400, 1000, 5000, 1000, 5000, 2400, 1, 1},
			.handle_len = 3,
			.handle = "abc"},
		{.u.segment = {7, 2401, 4000, 4000, 9000, 5000, 9000, 1000, 1, 1}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {1, 0x0102030405060708, 16, 1, 1}},
		{.kind = PR_DIRECTORY_INDEX, .u.index = {17, 99, 16, 1, 2}},
	};
	struct pr_directory_coder coder;
	uint8_t all[512];
	struct pr_writer w = pr_writer_make(all, sizeof all);

	if (!pr_directory_begin(&coder, &w))
		corpus_die("a directory");
	for (size_t i = 0; i < COUNT(entries); i++)
		if (!pr_directory_store(&coder, &w, &entries[i]))
			corpus_die("an entry of a directory");
	corpus_put("directory", "all", all, pr_writer_len(&w), END);
}

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

static void
put_packets(void)
{
	for (size_t i = 0; i < COUNT(packets); i++) {
		char name[32];

		snprintf(name, sizeof name, "packet-%zu", i);
		corpus_put("decode", name, &packets[i].link, (size_t)1, packets[i].bytes,
			packets[i].len, END);
	}
}

/* ---- messages ---- */

static void
put_message(Packrack__Envelope *env)
{
	struct pr_error err;
	uint8_t *buf;
	size_t len;

	env->id = 7;
	if (pr_message_pack(env, &buf, &len, &err) < 0)
		corpus_die(err.text);
	corpus_put("message", pr_message_name(env), buf, len, END);
	free(buf);
}

#define MESSAGE(kind, KIND, value)                                                         \
	do {                                                                               \
		Packrack__Envelope env_ = PACKRACK__ENVELOPE__INIT;                        \
		env_.body_case = PACKRACK__ENVELOPE__BODY_##KIND;                          \
		env_.kind = (value);                                                       \
		put_message(&env_);                                                        \
	} while (0)

static void
put_questions(void)
{
	Packrack__Instruction in = {
		PROTOBUF_C_MESSAGE_INIT(&packrack__instruction__descriptor), 6, 0, 0,
		0xffff};
	Packrack__Instruction *ins[] = {&in};
	Packrack__Program program = PACKRACK__PROGRAM__INIT, *programs[] = {&program};
	Packrack__Query query = PACKRACK__QUERY__INIT;
	Packrack__Credit credit = PACKRACK__CREDIT__INIT;
	Packrack__Cancel cancel = PACKRACK__CANCEL__INIT;
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Command command = PACKRACK__COMMAND__INIT;
	char *nodes[] = {TEXT("node1"), TEXT("node2")};

	program.linktype = 1;
	program.n_instructions = 1;
	program.instructions = ins;
	query.until = INT64_MAX;
	query.n_programs = 1;
	query.programs = programs;
	query.text = TEXT("tcp port 80");
	query.n_nodes = 2;
	query.nodes = nodes;
	MESSAGE(query, QUERY, &query);
	credit.batches = 8;
	MESSAGE(credit, CREDIT, &credit);
	MESSAGE(cancel, CANCEL, &cancel);
	request.per_link = 1;
	MESSAGE(status_request, STATUS_REQUEST, &request);
	command.verb = TEXT("identify");
	command.node = TEXT("node1");
	command.seconds = 5;
	MESSAGE(command, COMMAND, &command);
}

static Packrack__LinkInfo link_info = PACKRACK__LINK_INFO__INIT;
static Packrack__LinkInfo *link_infos[] = {&link_info};
static Packrack__NodeStatus node_status = PACKRACK__NODE_STATUS__INIT;
static Packrack__NodeStatus *node_statuses[] = {&node_status};

static void
put_states(void)
{
	Packrack__Hello hello = PACKRACK__HELLO__INIT;
	Packrack__Status status = PACKRACK__STATUS__INIT;
	Packrack__Value value = PACKRACK__VALUE__INIT, *values[] = {&value};
	Packrack__DispatcherNode node = PACKRACK__DISPATCHER_NODE__INIT, *nodes[] = {&node};
	Packrack__DispatcherLink link = PACKRACK__DISPATCHER_LINK__INIT, *links[] = {&link};
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Failure failure = PACKRACK__FAILURE__INIT;
	Packrack__IndexRecord record = PACKRACK__INDEX_RECORD__INIT;
	Packrack__IndexStored stored = PACKRACK__INDEX_STORED__INIT;
	static uint8_t body[] = {'P', 'I', 'X', '1'};

	link_info.epoch = 7;
	link_info.linktype = 1;
	link_info.name = TEXT("tap0");
	node_status.logger = TEXT("{\n\t\"frames\": 1\n}");
	hello.name = TEXT("node1");
	hello.n_links = 1;
	hello.links = link_infos;
	hello.status = &node_status;
	MESSAGE(hello, HELLO, &hello);
	value.name = link.name = TEXT("frames_sent");
	value.number = 99;
	node.mac = TEXT("02:00:00:00:00:01");
	node.n_values = link.n_values = status.n_values = 1;
	node.values = link.values = status.values = values;
	status.n_nodes = status.n_dispatcher_nodes = status.n_dispatcher_links =
		status.n_links = 1;
	status.nodes = node_statuses;
	status.dispatcher_nodes = nodes;
	status.dispatcher_links = links;
	status.links = link_infos;
	MESSAGE(status, STATUS, &status);
	done.status = &status;
	MESSAGE(command_done, COMMAND_DONE, &done);
	record.level = 1;
	record.segments = 3;
	record.body.data = body;
	record.body.len = sizeof body;
	MESSAGE(index_record, INDEX_RECORD, &record);
	stored.text = TEXT("no such link");
	MESSAGE(index_stored, INDEX_STORED, &stored);
	failure.text = TEXT("no such node");
	MESSAGE(failure, FAILURE, &failure);
}

static void
put_answers(void)
{
	static uint8_t bits[] = {0xff, 0x01};
	Packrack__Held held = PACKRACK__HELD__INIT, *helds[] = {&held};
	Packrack__Loss loss = PACKRACK__LOSS__INIT, *losses[] = {&loss};
	Packrack__Evicted evicted = PACKRACK__EVICTED__INIT, *evicteds[] = {&evicted};
	Packrack__Ledger ledger = PACKRACK__LEDGER__INIT, *ledgers[] = {&ledger};
	Packrack__NodeAnswer answer = PACKRACK__NODE_ANSWER__INIT, *answers[] = {&answer};
	Packrack__Completeness completeness = PACKRACK__COMPLETENESS__INIT;
	Packrack__Batch batch = PACKRACK__BATCH__INIT;
	Packrack__End end = PACKRACK__END__INIT;

	held.first = 10;
	held.last = 18;
	held.bits.data = bits;
	held.bits.len = sizeof bits;
	loss.first_seq = 4;
	loss.last_seq = 9;
	loss.reason = TEXT("switch");
	batch.n_held = batch.n_edge = 1;
	batch.held = batch.edge = helds;
	batch.packets.data = bits;
	batch.packets.len = sizeof bits;
	batch.frontier = 17;
	MESSAGE(batch, BATCH, &batch);
	answer.node = TEXT("node1");
	completeness.n_nodes = completeness.n_missing = completeness.n_evicted = 1;
	completeness.nodes = answers;
	completeness.missing = end.losses = losses;
	completeness.evicted = end.evicted = evicteds;
	end.n_losses = end.n_evicted = end.n_ledgers = completeness.n_ledgers = 1;
	end.ledgers = completeness.ledgers = ledgers;
	end.completeness = &completeness;
	MESSAGE(end, END, &end);
}

/* ---- programs: a packet, and what libpcap makes of filters ---- */

static const uint8_t packet[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0,
	40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x1f, 0x90, 0, 80, 0, 0, 0,
	1, 0, 0, 0, 2, 0x50, 0x12, 0, 99, 0, 0, 0, 0};

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
}

static void
put_configs(void)
{
	static const char *const texts[] = {"f# comment\n[logger]\nfast = yes\nname = tcp "
					    "port 80 ; why\nin = a\nin = b\n"
					    "rack-id = 0x88b5\nring-size = 1MiB\nhold = "
					    "50ms\nsince = 90s ago\nspread = flow\n",
		"f[link a]\nx = 1\n[class b]\ny: 2\n[dispatcher]\nz = "
		"3\n[logger]\nfast=off\n",
		"f[loger]\nx = 1\n", "f[logger]\nrng-size = 1\n", "f[logger]\nname\n",
		"f[link]\na = b\n", "fx = 1\n", "f[logger]\nhold = 1x\n",
		"f[nothing-like-it]\na = b\n", "f[logger]\nzz = 1\n",
		" --fast\n--name=x\n-i\na\n-ib\n--rack-id\n7\n-r64K\n--hold\n1.5h\n-s\n@1."
		"5\ntcp\n--\n-x",
		" --spread=flow\n--since\n2026-11-21T00:40:00.5+02:00\nport",
		" --rng-size=1", " -q", " --name", " --help", " --version",
		" --since\n2026-02-30", " --spread\nnone", " --fast=maybe", " --q",
		" --hold\n1d\n--hold=3min\n--hold=7us", " --rack-id=65536",
		" --ring-size=1", " --config\n/tmp"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		char name[32];

		snprintf(name, sizeof name, "config-%zu", i);
		corpus_put("config", name, texts[i], strlen(texts[i]), END);
	}
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
	snprintf(path, sizeof path, "%s/import/%s", top, name);
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

/* ---- volumes: one patch each (fuzz_volume.c), of a field's bytes ---- */

static void
put_patch(unsigned kind, unsigned target, unsigned offset, uint8_t value, unsigned writer)
{
	const uint8_t patch[] = {(uint8_t)writer, (uint8_t)kind, (uint8_t)target,
		(uint8_t)offset, (uint8_t)(offset >> 8), 4, value, value, value, value};
	char name[64];

	snprintf(name, sizeof name, "%u-%u-%u-%u-%u", kind, target, offset, value, writer);
	corpus_put("volume", name, patch, sizeof patch, END);
}

/* Two: a map entry's flags, and a block header's high bytes of its stream. */
static void
put_patches(unsigned kind, unsigned target, unsigned offset, uint8_t value, unsigned kind2,
	unsigned target2, unsigned offset2, unsigned writer)
{
	const uint8_t patches[] = {(uint8_t)writer, (uint8_t)kind, (uint8_t)target,
		(uint8_t)offset, (uint8_t)(offset >> 8), 1, value, (uint8_t)kind2,
		(uint8_t)target2, (uint8_t)offset2, 0, 1, 4};
	char name[64];

	snprintf(name, sizeof name, "two-%u-%u-%u", offset, target2, writer);
	corpus_put("volume", name, patches, sizeof patches, END);
}

static void
put_volumes(void)
{
	static const uint16_t ends[] = {32, 288, 256, 96, 64, 128};

	for (unsigned writer = 0; writer < 2; writer++) {
		for (unsigned kind = 0; kind < 5; kind++)
			for (unsigned offset = 0; offset < ends[kind]; offset += 12)
				put_patch(kind, offset % 7, offset, offset % 5 ? 1 : 0xff,
					writer);
		for (unsigned field = 36; field < 220; field += 4) /* of the root */
			put_patch(0, 2, field, field % 8 ? 0 : 0xff, writer);
		for (unsigned target = 8; target < 20; target += 3)
			put_patch(5, target, 100, 0, writer);
		/* the map says "open", the block's header names a stream that is not there */
		for (unsigned entry = 0; entry < 3; entry++)
			put_patches(4, 0, entry * 64 + 4, 1, 1, entry, 31, writer);
		put_patch(3, 0, 0, 1, writer); /* one root copy is gone */
		put_patch(3, 4, 0, 1, writer);
	}
}

/* ---- the index ---- */

static void
put_index(void)
{
	struct pr_level2_writer w = {0};
	struct pr_level2_column column = {.check = 1, .segments = 3};
	uint64_t hashes[] = {1, 2, 3};
	uint8_t *out;
	size_t len;

	corpus_put("index", "level1", golden_level1, sizeof golden_level1, END);
	for (int i = 0; i < 16; i++)
		pr_level2_add(&w, 5, &column, hashes, 3, 100000);
	len = pr_level2_size(&w);
	out = malloc(len);
	if (!out)
		corpus_die("level2");
	pr_level2_finish(&w, 2, out);
	corpus_put("index", "level2", out, len, END);
	free(out);
	pr_level2_free(&w);
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: make_corpus DIR\n");
		return 2;
	}
	top = argv[1];
	if (mkdir(top, 0777) < 0 && errno != EEXIST)
		corpus_die(top);
	put_frames();
	put_tslogs();
	put_segments();
	put_ledger();
	put_directory();
	put_packets();
	put_questions();
	put_states();
	put_answers();
	put_programs();
	put_configs();
	put_traces();
	put_volumes();
	put_index();
	corpus_summaries();
	corpus_keys();
	return 0;
}
