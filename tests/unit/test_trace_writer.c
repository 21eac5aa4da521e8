/* SPDX-License-Identifier: Apache-2.0 */
/* Traces, byte by byte: pcap and pcapng, and what becomes of a writer whose reader is gone. */
#include <signal.h>

#include "tests/unit/trace_written.h"

START_TEST(test_pcap_golden)
{
	static const uint8_t ns[] = {
		0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* magic, 2.4 */
		0, 0, 4, 0, 1, 0, 0, 0, /* 262144, Ethernet */
		1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3, /* 1.000000002 */
		0xff, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x9a, 0x3b, 0, 0, 0, 0, 60, 0, 0,
		0, /* -1 ns */
	};
	static const uint8_t us[] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 60, 0, 0,
		0, 1};
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAP_NS, NULL);

	write_packet(w, 1000000002, 3);
	write_packet(w, -1, 0);
	close_writer(w, &out, NULL);
	expect(ns, sizeof(ns));
	w = open_writer(_i, &out, PRM_TRACE_PCAP, NULL);
	write_packet(w, 1000007999, 1);
	close_writer(w, &out, NULL);
	expect(us, sizeof(us));
}
END_TEST

START_TEST(test_pcap_clamps)
{
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAP_NS, NULL);

	write_packet(w, INT64_MAX, 1);
	write_packet(w, INT64_MIN, 1);
	write_packet(w, INT64_C(4294967295999999999), 1);
	ck_assert_uint_eq(prm_trace_clamped(w), 2);
	close_writer(w, &out, NULL);
}
END_TEST

START_TEST(test_pcap_one_linktype)
{
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAP, NULL);
	struct pr_packet p = packet(1, 1, 113);
	struct pr_error err = {""};

	write_packet(w, 1, 1);
	ck_assert_int_eq(prm_trace_packet(w, &p, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "--link"));
	close_writer(w, &out, NULL);
}
END_TEST

static const uint8_t golden_start[] = {
	0x0a, 0x0d, 0x0d, 0x0a, 52, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, /* SHB */
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 14, 0, 'p', 'a', 'c', 'k',
	'r', 'a', 'c', 'k', ' ', '0', '.', '1', '.', '0', 0, 0, 0, 0, 0, 0, 52, 0, 0, 0, 1,
	0, 0, 0, 108, 0, 0, 0, 1, 0, 0, 0, 0, 0, 4, 0, /* IDB, 262144 */
	2, 0, 4, 0, 't', 'a', 'p', '0', 3, 0, 41, 0, /* name, description */
	'p', 'a', 'c', 'k', 'r', 'a', 'c', 'k', ' ', 'l', 'i', 'n', 'k', ' ', '0', ' ', 'o',
	'f', ' ', 'e', 'p', 'o', 'c', 'h', ' ', '0', '0', '0', '0', '0', '0', '0', '0', '0',
	'0', '0', '0', '0', '0', '0', '5', 0, 0, 0, /* pad */
	8, 0, 8, 0, 0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0, /* 10 Gbit/s */
	9, 0, 1, 0, 9, 0, 0, 0, /* ns */
	11, 0, 4, 0, 0, 'a', 'r', 'p', 0, 0, 0, 0, 108, 0, 0, 0, /* filter */
};
static const uint8_t golden_packet[] = {6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, /* EPB on 0 */
	1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 40, 0, 0,
	0};

START_TEST(test_pcapng_golden)
{
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, "arp");
	uint8_t all[sizeof(golden_start) + sizeof(golden_packet)];

	link_tap0(w);
	write_packet(w, INT64_C(0x100000002), 5);
	close_writer(w, &out, "missing: none");
	memcpy(all, golden_start, sizeof(golden_start));
	memcpy(all + sizeof(golden_start), golden_packet, sizeof(golden_packet));
	ck_assert_uint_gt(got_len, sizeof(all));
	got_len = sizeof(all);
	expect(all, sizeof(all));
	ck_assert_int_eq(got[sizeof(all)], 5); /* statistics */
	ck_assert_ptr_nonnull(memmem(got + sizeof(all), 100, "missing: none", 13));
}
END_TEST

/* Before 1970: an interface of its own, whose offset is 9223372037 s before the epoch. */
START_TEST(test_pcapng_ancient)
{
	static const uint8_t offset[] = {
		14, 0, 8, 0, 0xfb, 0x82, 0x3e, 0xda, 0xfd, 0xff, 0xff, 0xff};
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);
	const uint8_t *block;

	link_tap0(w);
	write_packet(w, 1, 1);
	write_packet(w, INT64_MIN, 1);
	write_packet(w, -1, 1);
	close_writer(w, &out, NULL);
	block = memmem(got, got_len, offset, sizeof(offset));
	ck_assert_ptr_nonnull(block);
	ck_assert_ptr_null(
		memmem(block + 1, got_len - (size_t)(block + 1 - got), offset, 12));
}
END_TEST

START_TEST(test_pcapng_empty)
{
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	close_writer(w, &out, NULL);
	ck_assert_int_eq(got[52], 1); /* an interface, or libpcap takes it for damaged */
}
END_TEST

/* What libpcap would refuse the file for is not there unless a packet needs it. */
START_TEST(test_pcapng_unused_interface)
{
	const Packrack__LinkInfo sll = {
		.epoch = 5, .link = 1, .linktype = 113, .name = (char *)"any"};
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	ck_assert_int_eq(prm_trace_link(w, &sll, NULL), 0);
	link_tap0(w);
	write_packet(w, 1, 1);
	close_writer(w, &out, NULL);
	ck_assert_ptr_null(memmem(got, got_len, "any", 3));
}
END_TEST

static uint64_t
little(const uint8_t *at, unsigned bytes)
{
	return bytes ? at[0] | little(at + 1, bytes - 1) << 8 : 0;
}

/* The n-th block of this type, or NULL. */
static const uint8_t *
block_of(uint32_t type, unsigned n)
{
	for (size_t at = 0, len; at + 12 <= got_len; at += len) {
		len = little(got + at + 4, 4);
		ck_assert_uint_ge(len, 12);
		if (little(got + at, 4) == type && n-- == 0)
			return got + at;
	}
	return NULL;
}

/* The number in an option of a block whose options begin at `from`; -1: not there. */
static int64_t
option_of(const uint8_t *block, size_t from, uint16_t code)
{
	for (size_t at = from; at + 4 < little(block + 4, 4);) {
		size_t len = little(block + at + 2, 2);

		if (little(block + at, 2) == code && len == 8)
			return (int64_t)little(block + at + 4, 8);
		at += 4 + (len + 3) / 4 * 4;
	}
	return -1;
}

/* Each link of the answer has an interface and its own drops, though it has no packet there. */
START_TEST(test_pcapng_silent_links)
{
	static char tap0[] = "tap0", tap1[] = "tap1", any[] = "any", none[] = "";
	static Packrack__Ledger s[] = {
		{.name = tap0, .linktype = 1, .last_seq = 9, .dropped_kernel = 2},
		{.name = tap0, .linktype = 1, .last_seq = 30, .dropped_interface = 4},
		{.name = tap1, .link = 1, .linktype = 1, .dropped_kernel = 7},
		{.name = any, .link = 2, .linktype = 113, .last_seq = 1},
		{.name = none, .link = 3, .linktype = 1, .last_seq = 5},
	};
	Packrack__Ledger *list[] = {&s[0], &s[1], &s[2], &s[3], &s[4]};
	const Packrack__LinkInfo again = {
		.epoch = 6, .linktype = 1, .name = tap0, .speed = 1000};
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	link_tap0(w);
	ck_assert_int_eq(prm_trace_link(w, &again, NULL), 0);
	write_packet(w, 77, 1);
	ck_assert_int_eq(prm_trace_finish(w, list, 5, NULL, 0, NULL), 0);
	read_back(w, &out);
	/* two speeds: none is the interface's */
	ck_assert_int_eq(option_of(block_of(1, 0), 16, 8), -1);
	ck_assert_ptr_nonnull(memmem(got, got_len, ", 0 of 0000000000000006", 23));
	ck_assert_ptr_nonnull(memmem(block_of(1, 1), 40, "tap1", 4));
	ck_assert_ptr_nonnull(memmem(block_of(1, 2), 40, "link 3", 6));
	ck_assert_ptr_null(block_of(1, 3)); /* libpcap would refuse a file with "any" */
	ck_assert_int_eq(option_of(block_of(5, 0), 20, 4), 39);
	ck_assert_int_eq(option_of(block_of(5, 0), 20, 5), 4);
	ck_assert_int_eq(option_of(block_of(5, 0), 20, 7), 2);
	ck_assert_int_eq(option_of(block_of(5, 1), 20, 4), 0);
	ck_assert_int_eq(option_of(block_of(5, 1), 20, 7), 7);
	ck_assert_int_eq(option_of(block_of(5, 1), 20, 2), -1); /* begins never */
	ck_assert_uint_eq(little(block_of(5, 2) + 8, 4), 2);
	ck_assert_int_eq(option_of(block_of(5, 2), 20, 4), 5);
}
END_TEST

START_TEST(test_pcapng_speed)
{
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	link_tap0(w);
	link_tap0_at(w, 0);
	write_packet(w, 77, 1);
	close_writer(w, &out, NULL);
	ck_assert_int_eq(option_of(block_of(1, 0), 16, 8), INT64_C(10000000000));
	w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);
	link_tap0_at(w, 0);
	write_packet(w, 77, 1);
	close_writer(w, &out, NULL);
	ck_assert_int_eq(option_of(block_of(1, 0), 16, 8), -1);
}
END_TEST

/* A packet that is truncated, or related, or both, says so itself. */
START_TEST(test_pcapng_packet_comments)
{
	static const char related[] = "related: a fragment", cut[] = "truncated to the MTU";
	static const uint16_t flags[] = {PR_PACKET_FRAGMENT_OF, PR_PACKET_CUT,
		PR_PACKET_FRAGMENT_OF | PR_PACKET_CUT, PR_PACKET_SECOND};
	struct prm_output out;

	for (size_t i = 0; i < 4; i++) {
		struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);
		struct pr_packet p = packet(1, 5, 1);
		uint64_t len;
		const uint8_t *block;

		link_tap0(w);
		p.flags = flags[i];
		ck_assert_int_eq(prm_trace_packet(w, &p, NULL), 0);
		close_writer(w, &out, NULL);
		block = block_of(6, 0);
		len = little(block + 4, 4);
		ck_assert_uint_eq(little(block + len - 4, 4), len);
		ck_assert_int_eq(memmem(block, len, related, sizeof(related) - 1) != NULL,
			(flags[i] & PR_PACKET_RELATED) != 0);
		ck_assert_int_eq(memmem(block, len, cut, sizeof(cut) - 1) != NULL,
			(flags[i] & PR_PACKET_CUT) != 0);
		/* the last option ends the list, if there is one */
		ck_assert_uint_eq(little(block + len - 8, 4), i < 3 ? 0 : 5);
	}
}
END_TEST

START_TEST(test_long_comment)
{
	char *comment = malloc(100001);
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	memset(comment, 'x', 100000);
	comment[100000] = 0;
	close_writer(w, &out, comment);
	ck_assert_uint_gt(got_len, 65535);
	ck_assert_uint_lt(got_len, 66000);
	free(comment);
}
END_TEST

START_TEST(test_big_packets)
{
	uint8_t *data = calloc(1, 3 * 1024 * 1024);
	struct pr_packet p = packet(1, 3 * 1024 * 1024, 1);
	struct prm_output out;
	struct prm_trace_writer *w = open_writer(_i, &out, PRM_TRACE_PCAPNG, NULL);

	p.data = data;
	write_packet(w, 1, 1);
	ck_assert_int_eq(prm_trace_packet(w, &p, NULL), 0);
	write_packet(w, 1, 1);
	close_writer(w, &out, NULL);
	ck_assert_uint_gt(got_len, 3 * 1024 * 1024);
	free(data);
}
END_TEST

START_TEST(test_reader_gone)
{
	struct prm_trace_options o = {.format = PRM_TRACE_PCAP};
	struct pr_error err = {""};
	struct prm_trace_writer *w;
	struct prm_output out;
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	close(fds[0]);
	ck_assert_int_eq(prm_output_init(&out, fds[1], _i, NULL), 0);
	w = prm_trace_create(&out, &o, NULL);
	write_packet(w, 1, 1);
	ck_assert_int_eq(prm_trace_finish(w, NULL, 0, NULL, 0, &err), -1);
	ck_assert(out.closed);
	prm_trace_destroy(&w);
	prm_output_free(&out);
	close(fds[1]);
}
END_TEST

static void
fill(TCase *t)
{
	signal(SIGPIPE, SIG_IGN);
	tcase_add_loop_test(t, test_pcap_golden, 0, 2);
	tcase_add_loop_test(t, test_pcap_clamps, 0, 2);
	tcase_add_loop_test(t, test_pcap_one_linktype, 0, 2);
	tcase_add_loop_test(t, test_pcapng_golden, 0, 2);
	tcase_add_loop_test(t, test_pcapng_ancient, 0, 2);
	tcase_add_loop_test(t, test_pcapng_empty, 0, 2);
	tcase_add_loop_test(t, test_pcapng_unused_interface, 0, 2);
	tcase_add_loop_test(t, test_pcapng_silent_links, 0, 2);
	tcase_add_loop_test(t, test_pcapng_speed, 0, 2);
	tcase_add_loop_test(t, test_pcapng_packet_comments, 0, 2);
	tcase_add_loop_test(t, test_long_comment, 0, 2);
	tcase_add_loop_test(t, test_big_packets, 0, 2);
	tcase_add_loop_test(t, test_reader_gone, 0, 2);
}

int
main(void)
{
	return unit_run("trace writer", fill);
}
