/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends frames in batches of 64 without a system call for each (BPF_F_TEST_XDP_LIVE_FRAMES), which costs the sender
 * least. Between two bursts the kernel pauses for some 25 ms.
 *
 *   live PROGRAM.bpf.o IFACE SIZE BURST BURSTS       prints how many were sent, and in how many seconds
 *   live PROGRAM.bpf.o IFACE SIZE BURST BURSTS RATE  the same at so many frames a second
 *   live PROGRAM.bpf.o IFACE sink|control            drops all that comes by IFACE, or all but control frames, until it is killed
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"

static int
program(struct bpf_object *o, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(o, name));
}

/* As in live.bpf.c. */
struct pace {
	uint64_t step, next, sent, most;
};

static int
paced(struct bpf_object *o, struct bpf_test_run_opts *run, uint64_t most, double rate)
{
	int map = bpf_object__find_map_fd_by_name(o, "pace");
	struct pace p = {.step = (uint64_t)(256e9 / rate), .most = most};
	uint32_t zero = 0;
	double seconds = 0;

	run->repeat =
		4000000; /* the pause takes some 25 ms, this many frames that are not due some 200 */
	while (p.sent < most) {
		if (bpf_map_update_elem(map, &zero, &p, BPF_ANY) < 0)
			return 1;
		int64_t begun = pr_now_mono();
		if (bpf_prog_test_run_opts(program(o, "paced"), run) < 0 ||
			bpf_map_lookup_elem(map, &zero, &p) < 0) {
			perror("live");
			return 1;
		}
		seconds += (double)(pr_now_mono() - begun) / 1e9 - 0.025;
	}
	printf("{\"sent\": %llu, \"seconds\": %.3f}\n", (unsigned long long)p.sent,
		seconds);
	return 0;
}

int
main(int argc, char **argv)
{
	struct bpf_object *o = argc > 3 ? bpf_object__open(argv[1]) : NULL;
	uint32_t zero = 0, index = argc > 3 ? if_nametoindex(argv[2]) : 0;
	uint8_t frame[1514] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45};

	if (!o || bpf_object__load(o) < 0) {
		fprintf(stderr, "live: cannot load the program\n");
		return 1;
	}
	if (argc == 4) {
		LIBBPF_OPTS(bpf_link_create_opts, native, .flags = XDP_FLAGS_DRV_MODE);
		if (bpf_link_create(program(o, argv[3]), (int)index, BPF_XDP, &native) >= 0)
			pause();
		return 1;
	}
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame,
		.data_size_in = (uint32_t)atoi(argv[3]),
		.repeat = argc > 5 ? atoi(argv[4]) : 0,
		.flags = BPF_F_TEST_XDP_LIVE_FRAMES);
	int bursts = argc > 5 ? atoi(argv[5]) : 0;
	if (run.data_size_in < 60 || run.data_size_in > sizeof frame || bursts < 1 ||
		bpf_map_update_elem(bpf_object__find_map_fd_by_name(o, "to"), &zero, &index,
			BPF_ANY) < 0)
		return 2;
	if (argc > 6)
		return paced(o, &run, (uint64_t)run.repeat * bursts, atof(argv[6]));
	int64_t begun = pr_now_mono();
	for (int i = 0; i < bursts; i++)
		if (bpf_prog_test_run_opts(program(o, "live"), &run) < 0) {
			perror("live");
			return 1;
		}
	printf("{\"sent\": %lld, \"seconds\": %.3f}\n", (long long)run.repeat * bursts,
		(double)(pr_now_mono() - begun) / 1e9);
	return 0;
}
