/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends frames at a rate, in batches, and says how many the kernel took: the offered load of the
 * benchmarks. Frames come from a capture, in turn, or are UDP packets of one size with a number.
 *
 *   flood IFACE RATE(packets/s, 0: as fast as can be) COUNT SIZE|FILE.pcap     (SIGTERM: that is enough)
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "proto/base/clock.h"

#define BATCH 32
#define FRAMES_MAX 200000

struct frames {
	uint8_t **data;
	uint32_t *len;
	size_t count;
	uint64_t bytes;
};

static volatile sig_atomic_t ended;

static void
on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static uint8_t *frame_data[FRAMES_MAX];
static uint32_t frame_len[FRAMES_MAX];

static int
open_out(const char *iface)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(iface)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, size = 64 << 20;

	if (fd < 0 || bind(fd, (struct sockaddr *)&ll, sizeof(ll)) < 0) {
		perror(iface);
		exit(1);
	}
	setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	return fd;
}

static void
add(struct frames *f, const uint8_t *data, uint32_t len)
{
	uint8_t *copy = calloc(1, len < 60 ? 60 : len);

	if (copy == NULL)
		exit(1);
	memcpy(copy, data, len);
	f->data[f->count] = copy;
	f->len[f->count++] = len < 60 ? 60 : len;
	f->bytes += len < 60 ? 60 : len;
}

/* Whole Ethernet frames up to 1514 bytes. A frame cut by the snap length is filled up with zeros. */
static void
load_file(struct frames *f, const char *path)
{
	char text[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *h;
	const u_char *data;
	uint8_t full[1514];
	pcap_t *p = pcap_open_offline(path, text);

	if (p == NULL) {
		fprintf(stderr, "flood: %s\n", text);
		exit(1);
	}
	while (f->count < FRAMES_MAX && pcap_next_ex(p, &h, &data) == 1) {
		uint32_t len = h->len > sizeof(full) ? sizeof(full) : h->len;
		if (h->caplen < 14 || h->caplen > sizeof(full) || len < h->caplen)
			continue;
		memset(full, 0, sizeof(full));
		memcpy(full, data, h->caplen);
		add(f, full, len);
	}
	pcap_close(p);
}

static void
make_udp(struct frames *f, uint32_t size)
{
	uint8_t b[1514] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45};

	for (uint32_t i = 0; i < 4096; i++) {
		b[16] = (uint8_t)((size - 14) >> 8);
		b[17] = (uint8_t)(size - 14);
		b[22] = 64;
		b[23] = 17;
		b[26] = 192, b[28] = 2, b[29] = (uint8_t)(1 + i % 100);
		b[30] = 192, b[32] = 2, b[33] = (uint8_t)(101 + i % 100);
		b[34] = (uint8_t)(i >> 8), b[35] = (uint8_t)i, b[37] = 53;
		b[38] = (uint8_t)((size - 34) >> 8);
		b[39] = (uint8_t)(size - 34);
		add(f, b, size);
	}
}

/* Stamps UDP frames of ours with a number, so that no two are alike. */
static void
stamp(uint8_t *frame, uint64_t number)
{
	memcpy(frame + 42, &number, sizeof(number));
}

/* Asleep: who is measured beside us must have the CPU. Late by little, and made up for by the next batch. */
static void
wait_until(int64_t when)
{
	struct timespec t = {when / PR_NS_PER_S, when % PR_NS_PER_S};

	if (when - pr_now_mono() > 20000)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t
flood(int fd, struct frames *f, uint64_t rate, uint64_t count, bool stamped)
{
	struct mmsghdr m[BATCH] = {0};
	struct iovec io[BATCH];
	uint64_t done = 0, accepted = 0;
	int64_t start = pr_now_mono();

	while (done < count && !ended) {
		unsigned n = count - done < BATCH ? (unsigned)(count - done) : BATCH;
		int sent;
		for (unsigned i = 0; i < n; i++) {
			size_t at = (done + i) % f->count;
			io[i] = (struct iovec){
				.iov_base = f->data[at], .iov_len = f->len[at]};
			m[i].msg_hdr = (struct msghdr){.msg_iov = &io[i], .msg_iovlen = 1};
			if (stamped)
				stamp(f->data[at], done + i);
		}
		sent = sendmmsg(fd, m, n, 0);
		accepted += sent > 0 ? (uint64_t)sent : 0;
		/* a refused frame is one that the link never had: it is left out */
		done += sent > 0 ? (uint64_t)sent : 1;
		if (rate)
			wait_until(start + (int64_t)((double)done * 1e9 / (double)rate));
	}
	return accepted;
}

int
main(int argc, char **argv)
{
	struct frames f = {0};
	uint64_t rate, count, accepted;
	int64_t start, took;
	char *end;
	long size;
	int fd;

	if (argc != 5) {
		fprintf(stderr, "usage: flood IFACE RATE COUNT SIZE|FILE\n");
		return 2;
	}
	f.data = frame_data;
	f.len = frame_len;
	rate = strtoull(argv[2], NULL, 10);
	count = strtoull(argv[3], NULL, 10);
	size = strtol(argv[4], &end, 10);
	if (*end == 0 && (size < 60 || size > 1514)) {
		fprintf(stderr, "flood: size %ld: give 60 to 1514\n", size);
		return 2;
	}
	if (*end == 0)
		make_udp(&f, (uint32_t)size);
	else
		load_file(&f, argv[4]);
	if (f.count == 0)
		return 1;
	fd = open_out(argv[1]);
	signal(SIGTERM, on_signal);
	prctl(PR_SET_TIMERSLACK, 1UL);
	start = pr_now_mono();
	accepted = flood(fd, &f, rate, count, *end == 0);
	took = pr_now_mono() - start;
	printf("{\"accepted\": %" PRIu64 ", \"offered\": %" PRIu64
	       ", \"seconds\": %.6f, \"rate\": %.0f, "
	       "\"mean_bytes\": %.1f}\n",
		accepted, count, (double)took / 1e9, (double)accepted * 1e9 / (double)took,
		(double)f.bytes / (double)f.count);
	return 0;
}
