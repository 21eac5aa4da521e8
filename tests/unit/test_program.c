/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <ftw.h>
#include <pcap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "indexer/filter/filter.h"
#include "proto/wire/bpf.h"
#include "proto/wire/bpf_code.h"
#include "proto/port/trace.h"
#include "tests/unit/unit.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct pr_error err;

static bool
valid(const struct pr_insn *insns, size_t count)
{
	struct pr_bpf *p = pr_bpf_create(1, insns, count, &err);
	bool good = p != NULL;

	pr_bpf_destroy(&p);
	return good;
}

START_TEST(refuses_hostile_programs)
{
	static const struct {
		struct pr_insn insns[3];
		size_t count;
	} bad[] = {
		{{{LD_IMM, 0, 0, 1}}, 1}, /* runs off */
		{{{0xffff, 0, 0, 0}, {RET_K, 0, 0, 1}}, 2}, /* unknown */
		{{{JEQ_K, 1, 0, 0}, {RET_K, 0, 0, 1}}, 2}, /* jt out */
		{{{JEQ_K, 0, 255, 0}, {RET_K, 0, 0, 1}}, 2}, /* jf out */
		{{{JA, 0, 0, 1}, {RET_K, 0, 0, 1}}, 2}, /* over the end */
		{{{JA, 0, 0, UINT32_MAX - 1}, {RET_K, 0, 0, 1}}, 2}, /* before the start */
		{{{JA, 0, 0, 0x7fffffff}, {RET_K, 0, 0, 1}}, 2}, /* far away */
		{{{ST, 0, 0, PR_BPF_MEMORY}, {RET_K, 0, 0, 1}}, 2}, /* memory */
		{{{LDX_MEM, 0, 0, UINT32_MAX}, {RET_K, 0, 0, 1}}, 2}, /* memory */
		{{{DIV_K, 0, 0, 0}, {RET_K, 0, 0, 1}}, 2}, /* by zero */
		{{{MOD_K, 0, 0, 0}, {RET_K, 0, 0, 1}}, 2}, /* by zero */
		{{{LSH_K, 0, 0, 32}, {RET_K, 0, 0, 1}}, 2}, /* too far */
	};
	struct pr_insn *many = calloc(PR_BPF_MAX + 1, sizeof(*many));

	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(!valid(bad[i].insns, bad[i].count), "program %zu", i);
	for (size_t i = 0; i <= PR_BPF_MAX; i++)
		many[i].code = RET_K;
	ck_assert(!valid(many, PR_BPF_MAX + 1));
	ck_assert(valid(many, PR_BPF_MAX));
	ck_assert(valid(many, 0));
	free(many);
}
END_TEST

START_TEST(endless_loops_end)
{
	static const struct pr_insn loop[] = {
		{ADD_K, 0, 0, 1}, {JA, 0, 0, (uint32_t)-2}, {RET_K, 0, 0, 1}};
	static const struct pr_insn self[] = {{JA, 0, 0, (uint32_t)-1}, {RET_K, 0, 0, 1}};
	struct pr_bpf *p = pr_bpf_create(1, loop, 3, &err);
	struct pr_bpf *q = pr_bpf_create(1, self, 2, &err);
	const uint8_t bytes[64] = {0};
	const struct pr_packet packet = {.data = bytes, .len = 64, .caplen = 64};

	ck_assert_uint_eq(pr_bpf_run(p, &packet), 0);
	ck_assert_uint_eq(pr_bpf_run(q, &packet), 0);
	pr_bpf_destroy(&p);
	pr_bpf_destroy(&q);
}
END_TEST

static struct pr_insn
random_insn(size_t i, size_t count)
{
	static const uint16_t codes[] = {LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_W_IND, LD_H_IND,
		LD_B_IND, LD_LEN, LD_IMM, LD_MEM, LDX_IMM, LDX_MEM, LDX_LEN, LDX_MSH, ST,
		STX, ADD_K, SUB_K, MUL_K, DIV_K, OR_K, AND_K, LSH_K, RSH_K, MOD_K, XOR_K,
		NEG, ADD_X, SUB_X, MUL_X, DIV_X, OR_X, AND_X, LSH_X, RSH_X, MOD_X, XOR_X,
		JA, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, JGT_X, JGE_X, JSET_X, RET_K, RET_A,
		TAX, TXA};
	static const uint32_t ks[] = {0, 1, 2, 3, 5, 13, 60, 61, 62, 63, 64, 65, 0x800,
		0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
	size_t left = count - 1 - i;
	struct pr_insn in = {.code = codes[(size_t)random() % COUNT(codes)],
		.k = ks[(size_t)random() % COUNT(ks)]};

	if ((in.code == RET_K || in.code == RET_A) && random() % 4)
		in.code = LD_B_IND;
	if (left > 0) {
		in.jt = (uint8_t)((size_t)random() % left);
		in.jf = (uint8_t)((size_t)random() % left);
		if (in.code == JA)
			in.k = in.jt;
	}
	if (in.code == ST || in.code == STX || in.code == LD_MEM || in.code == LDX_MEM)
		in.k &= PR_BPF_MEMORY - 1;
	return in;
}

/* Memory first, as libpcap leaves it as it was. */
START_TEST(equals_libpcap_on_random_programs)
{
	struct pr_insn insns[2 * PR_BPF_MEMORY + 40];
	uint8_t packet[64];
	unsigned compared = 0;

	_Static_assert(sizeof(struct pr_insn) == sizeof(struct bpf_insn), "same shape");
	srandom(1);
	for (unsigned round = 0; round < 100000; round++) {
		size_t n = 0, body = 2 + (size_t)random() % 30;
		uint32_t caplen = (uint32_t)random() % 65,
			 len = caplen + (uint32_t)random() % 2;
		for (size_t i = 0; i < sizeof(packet); i++)
			packet[i] = (uint8_t)(random() % 3 ? random() % 4 : random());
		for (uint32_t i = 0; i < PR_BPF_MEMORY; i++)
			insns[n++] = (struct pr_insn){ST, 0, 0, i};
		for (size_t i = 0; i < body; i++)
			insns[n++] = random_insn(i, body);
		insns[n - 1] = (struct pr_insn){random() % 2 ? RET_A : RET_K, 0, 0, 1};
		struct pr_bpf *p = pr_bpf_create(1, insns, n, &err);
		if (!p)
			continue;
		compared++;
		ck_assert_uint_eq(pr_bpf_run(p, &(struct pr_packet){.data = packet,
							.len = len,
							.caplen = caplen}),
			bpf_filter((const struct bpf_insn *)insns, packet, len, caplen));
		pr_bpf_destroy(&p);
	}
	ck_assert_uint_gt(compared, 30000);
}
END_TEST

static const char *const texts[] = {
	"",
	"tcp",
	"udp port 53",
	"ip6",
	"host 10.0.0.1 or net 192.168.0.0/16",
	"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
	"vlan",
	"vlan and vlan and ip",
	"arp or rarp",
	"ip6 protochain 58",
	"ip protochain 6",
	"greater 500",
	"len % 3 = 1",
	"ip[8] / (ip[9] - 6) > 2",
	"ether[12:2] & 0xff00 = 0x0800 and ip[2:2] > 100",
	"icmp6 or icmp",
	"ip broadcast or ether multicast",
	"portrange 1000-2000",
	"not ip",
	"mpls or pppoes",
	"geneve",
	"tcp portrange 1-1024 and (ip[6:2] & 0x1fff = 0)",
	"(tcp[12] >> 4) * 4 > 20 and ip[0] << 2 > 3",
};

static unsigned files, packets, filters;

static void
compare_filter(pcap_t *pcap, const char *path, const char *text)
{
	char e[PCAP_ERRBUF_SIZE];
	pcap_t *file = pcap_open_offline(path, e), *in; /* as tcpdump -r compiles it */
	struct bpf_program code;
	struct pcap_pkthdr *h;
	const u_char *data;
	struct pr_bpf *p = NULL;

	if (pcap_compile(file, &code, text, 1, 0) == 0) {
		p = pri_filter_compile((uint16_t)pr_linktype_of_pcap(pcap), text, &err);
		ck_assert_msg(p != NULL, "%s: %s", text, err.text);
		in = pcap_open_offline(path, e);
		while (pcap_next_ex(in, &h, &data) == 1) {
			bool ours = pr_bpf_run(p, &(struct pr_packet){.data = data,
							  .len = h->len,
							  .caplen = h->caplen}) != 0;
			bool theirs = pcap_offline_filter(&code, h, data) != 0;
			ck_assert_msg(ours == theirs, "%s: '%s'", path, text);
			packets++;
		}
		filters++;
		pcap_close(in);
		pcap_freecode(&code);
		pr_bpf_destroy(&p);
	}
	pcap_close(file);
}

static int
compare_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char e[PCAP_ERRBUF_SIZE];
	pcap_t *pcap;

	(void)ftw;
	if (type != FTW_F || st->st_size > 500000)
		return 0;
	pcap = pcap_open_offline(path, e);
	if (!pcap)
		return 0;
	files++;
	for (size_t i = 0; i < COUNT(texts); i++)
		compare_filter(pcap, path, texts[i]);
	pcap_close(pcap);
	return 0;
}

START_TEST(equals_libpcap_on_captures)
{
	const char *dir =
		getenv("PACKRACK_DATA") ? getenv("PACKRACK_DATA") : "../shared/data";

	if (access(dir, R_OK) < 0) {
		printf("skipped: no captures in %s (set PACKRACK_DATA)\n", dir);
		return;
	}
	nftw(dir, compare_file, 16, FTW_PHYS);
	printf("%u captures, %u filters, %u packets\n", files, filters, packets);
	ck_assert_uint_gt(files, 0);
}
END_TEST

START_TEST(compiles_for_link_types)
{
	static const uint16_t types[] = {1, 105, 101, 1};
	struct pr_bpf_set out = {0};
	uint8_t ip[20] = {0x45};
	struct pr_packet packet = {.data = ip, .caplen = 20, .len = 20, .linktype = 101};

	ck_assert(pr_bpf_set_match(&out, &packet));
	ck_assert_int_eq(pri_filter_compile_all(types, 4, "ip", false, &out, &err), 0);
	ck_assert_uint_eq(out.count, 3);
	ck_assert(pr_bpf_set_match(&out, &packet));
	packet.linktype = 1;
	ck_assert(!pr_bpf_set_match(&out, &packet));
	packet.linktype = 127;
	ck_assert(!pr_bpf_set_match(&out, &packet));
	pr_bpf_set_free(&out);
	ck_assert_int_eq(pri_filter_compile_all(
				 types, 4, "wlan addr1 0:1:2:3:4:5", false, &out, &err),
		0);
	ck_assert_uint_eq(out.count, 1);
	pr_bpf_set_free(&out);
	ck_assert_int_eq(
		pri_filter_compile_all(types, 4, "tcp prot 80", false, &out, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "tcp prot 80"));
	ck_assert_ptr_nonnull(strstr(err.text, "syntax error"));
}
END_TEST

static void
fill(TCase *tests)
{
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, refuses_hostile_programs);
	tcase_add_test(tests, endless_loops_end);
	tcase_add_test(tests, equals_libpcap_on_random_programs);
	tcase_add_test(tests, equals_libpcap_on_captures);
	tcase_add_test(tests, compiles_for_link_types);
}

int
main(void)
{
	return unit_run("program", fill);
}
