/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_oracle IN   for each filter on standard input: how many of IN's packets match, how many segments
 *     hold any, and their bytes: what must be read by who knows where they are
 */
#include "indexer/filter/filter.h"
#include "proto/wire/segment.h"
#include "tests/bench/bench_trace.h"

#define FILTERS 64

struct oracle {
	struct pr_bpf *program;
	uint64_t matched, segments, bytes;
	bool here; /* in the segment at hand */
};

static size_t
read_filters(struct oracle *o, size_t room, uint16_t linktype)
{
	struct pr_error err;
	char line[4096];
	size_t n = 0;

	while (n < room && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		o[n].program = pri_filter_compile(linktype, line, &err);
		if (!o[n++].program)
			die(err.text);
	}
	return n;
}

static void
close_segment(struct oracle *o, size_t n, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		o[i].segments += o[i].here;
		o[i].bytes += o[i].here ? len : 0;
		o[i].here = false;
	}
}

static void
ask_all(const char *in)
{
	static uint8_t buf[PR_SEGMENT_TARGET];
	static struct oracle o[FILTERS];
	struct trace t = trace_load(in);
	size_t n = read_filters(o, FILTERS, (uint16_t)record_linktype(&t)), at = GLOBAL;
	struct pr_segment_builder b;
	const uint8_t *record;
	uint32_t caplen;

	pr_segment_begin(&b, buf, sizeof(buf), 0);
	for (uint64_t seq = 1; trace_next(&t, &at, &record, &caplen); seq++) {
		struct pr_packet p = record_packet(&t, record, caplen, seq);

		if (!pr_segment_add(&b, &p)) {
			close_segment(o, n, pr_segment_seal(&b));
			pr_segment_begin(&b, buf, sizeof(buf), 0);
			pr_segment_add(&b, &p);
		}
		for (size_t i = 0; i < n; i++)
			if (pr_bpf_run(o[i].program, &p)) {
				o[i].matched++;
				o[i].here = true;
			}
	}
	close_segment(o, n, pr_segment_seal(&b));
	for (size_t i = 0; i < n; i++)
		printf("%llu %llu %llu\n", (unsigned long long)o[i].matched,
			(unsigned long long)o[i].segments, (unsigned long long)o[i].bytes);
}

int
main(int argc, char **argv)
{
	if (argc != 2)
		die("IN");
	ask_all(argv[1]);
	return 0;
}
