/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_cost FILE   CPU ns a packet header when each gives some keys of some bytes, and each of these sets
 *     some bits of a signature of 4 KiB (Hyperion, section 7.4): lines of keys, bytes in all, bits in all,
 *     ns. No header is known to be like the one before, as an index's builder would see.
 * bench_cost FILE density   share of bits set in 4 KiB after so many addresses: lines of bits a key,
 *     addresses, share with those of the file in their order, share with uniformly random ones
 */
#include <time.h>

#include "indexer/index/index_key.h"
#include "tests/bench/bench_trace.h"

#define BLOCK_BITS 32768u
#define HEADERS 65536u
#define HEADER 64u
#define ROUNDS 4

static uint8_t headers[HEADERS][HEADER];
static volatile uint8_t kept;

static void
load_headers(const struct trace *t)
{
	const uint8_t *record;
	uint32_t caplen;
	size_t at = GLOBAL;

	for (size_t i = 0; i < HEADERS; i++) {
		if (!trace_next(t, &at, &record, &caplen))
			trace_next(t, (at = GLOBAL, &at), &record, &caplen);
		memcpy(headers[i], record + RECORD, caplen < HEADER ? caplen : HEADER);
	}
}

/* As pri_slice_walk steps, with as many bits as asked for. */
static inline void
set_bits(uint8_t *words, uint64_t hash, unsigned bits)
{
	uint32_t low = (uint32_t)hash, step = (uint32_t)(hash >> 32) | 1u;

	for (unsigned i = 0; i < bits; i++, low += step) {
		uint32_t bit = (uint32_t)((uint64_t)low * BLOCK_BITS >> 32);

		words[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
}

static double
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
cost(unsigned keys, unsigned bytes, unsigned bits)
{
	static uint8_t words[BLOCK_BITS / 8];
	double begin = cpu_ns();

	for (unsigned r = 0; r < ROUNDS; r++)
		for (size_t i = 0; i < HEADERS; i++) {
			if (i % 512 == 0)
				memset(words, 0, sizeof(words));
			for (unsigned k = 0; k < keys; k++) {
				struct pri_key key =
					pri_key_bytes((enum pri_key_kind)(1 + k),
						headers[i] + 2 * k, bytes);

				set_bits(words, pri_key_hash(&key), bits);
			}
		}
	kept = words[7];
	return (cpu_ns() - begin) / ROUNDS / HEADERS;
}

static void
costs(void)
{
	static const unsigned keys[] = {1, 2, 4, 7, 10, 14}, bytes[] = {2, 4, 8, 16, 32},
			      bits[] = {2, 4, 7, 10};

	for (size_t n = 0; n < sizeof(keys) / sizeof(keys[0]); n++)
		for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++)
			for (size_t k = 0; k < sizeof(bits) / sizeof(bits[0]); k++)
				printf("%u %u %u %.3f\n", keys[n], keys[n] * bytes[b],
					keys[n] * bits[k],
					cost(keys[n], bytes[b], bits[k]));
}

/* ---- density: Hyperion's figure 13 ---- */

static double
density(const uint8_t *words)
{
	unsigned set = 0;

	for (size_t i = 0; i < BLOCK_BITS / 8; i++)
		set += (unsigned)__builtin_popcount(words[i]);
	return (double)set / BLOCK_BITS;
}

static void
add_address(uint8_t *words, const uint8_t *address, unsigned bits)
{
	struct pri_key key = pri_key_bytes(PRI_KEY_ADDRESS, address, 4);

	set_bits(words, pri_key_hash(&key), bits);
}

static void
densities(const struct trace *t, unsigned bits)
{
	uint8_t real[BLOCK_BITS / 8] = {0}, uniform[BLOCK_BITS / 8] = {0}, address[4];
	const uint8_t *record;
	uint32_t caplen, count = 0;
	size_t at = GLOBAL;

	while (count < 16000 && trace_next(t, &at, &record, &caplen)) {
		if (!is_ip(record, caplen))
			continue;
		for (uint32_t i = 0; i < 2; i++, count++) {
			add_address(real, record + RECORD + 26 + 4 * i, bits);
			pr_put_be32(address, trace_mix(count, 77));
			add_address(uniform, address, bits);
		}
		if (count % 500 == 0)
			printf("%u %u %.4f %.4f\n", bits, count, density(real),
				density(uniform));
	}
}

int
main(int argc, char **argv)
{
	struct trace t;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "density") != 0))
		die("FILE [density]");
	t = trace_load(argv[1]);
	load_headers(&t);
	if (argc == 2)
		costs();
	else
		for (unsigned bits = 5; bits <= 10; bits++)
			if (bits == 5 || bits == 7 || bits == 10)
				densities(&t, bits);
	free(t.bytes);
	return 0;
}
