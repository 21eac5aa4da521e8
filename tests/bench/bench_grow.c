/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_grow trace IN OUT PACKETS [SNAP]   a larger trace of IN's packets (see bench_trace.h), cut to SNAP
 *     bytes each; OUT - is standard output
 * bench_grow rows IN                       its packets' headers as rows for COPY: tabs between time (ns),
 *     source, destination (as numbers; empty: none), protocol, ports, length
 */
#include <inttypes.h>

#include "tests/bench/bench_trace.h"

static void
put(FILE *f, const void *bytes, size_t len, const char *what)
{
	if (fwrite(bytes, 1, len, f) != len)
		die(what);
}

static void
grow(const char *in, const char *out, uint64_t packets, uint32_t snap)
{
	static struct grower g;
	struct trace t = trace_load(in);
	FILE *f = strcmp(out, "-") ? fopen(out, "wb") : stdout;

	if (!f)
		die(out);
	setvbuf(f, NULL, _IOFBF, 1 << 20);
	if (snap)
		pr_put_le32(t.bytes + 16, snap);
	put(f, t.bytes, GLOBAL, out);
	grow_begin(&g, &t, packets, snap);
	while (grow_next(&g))
		put(f, g.record, RECORD + g.caplen, out);
	if (fclose(f))
		die(out);
	free(t.bytes);
}

/* Of IPv4 alone; the others have NULL there. */
static void
put_row(const uint8_t *record, uint32_t caplen)
{
	const uint8_t *d = record + RECORD;
	size_t x = caplen >= 34 ? 14 + 4 * (d[14] & 15u) : 0;

	printf("%" PRIu64 "\t", record_us(record) * 1000);
	if (!is_ip(record, caplen))
		printf("\\N\t\\N\t\\N\t\\N\t\\N");
	else if ((d[23] == 6 || d[23] == 17) && caplen >= x + 4)
		printf("%u\t%u\t%u\t%u\t%u", pr_get_be32(d + 26), pr_get_be32(d + 30),
			d[23], pr_get_be16(d + x), pr_get_be16(d + x + 2));
	else
		printf("%u\t%u\t%u\t\\N\t\\N", pr_get_be32(d + 26), pr_get_be32(d + 30),
			d[23]);
	printf("\t%u\n", pr_get_le32(record + 12));
}

static void
rows(const char *in)
{
	struct trace t = trace_load(in);
	const uint8_t *record;
	uint32_t caplen;
	size_t at = GLOBAL;

	while (trace_next(&t, &at, &record, &caplen))
		put_row(record, caplen);
	if (fflush(stdout))
		die("standard output");
	free(t.bytes);
}

int
main(int argc, char **argv)
{
	if ((argc == 5 || argc == 6) && !strcmp(argv[1], "trace"))
		grow(argv[2], argv[3], strtoull(argv[4], NULL, 10),
			argc == 6 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0);
	else if (argc == 3 && !strcmp(argv[1], "rows"))
		rows(argv[2]);
	else
		die("trace IN OUT PACKETS [SNAP] | rows IN");
	return 0;
}
