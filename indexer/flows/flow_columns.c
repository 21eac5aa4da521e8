/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_columns.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
#include <zstd.h>

#include "proto/base/cursor.h"

#define LEVEL 1
#define FRAME_HEAD 4 /* enum how of each plane, two bits; rows: both u16 */
#define FEW_HEAD 3 /* u8, u16 */
#define ALL_PACKED 0xaaaau
/* Columns whose planes are not packed by zstd, since they are read often: of keys and sums. */
#define READ_OFTEN                                                                         \
	(PRI_COLUMN(PRI_COL_SRC) | PRI_COLUMN(PRI_COL_DST) | PRI_COLUMN(PRI_COL_DPORT) |   \
		PRI_COLUMNS_ADDRESSES | PRI_COLUMN_OF_SIDES(PRI_SIDE_BYTES))
#define ADDRESSES (2 * PRI_BATCH_ROWS)
#define SLOTS (2 * ADDRESSES)
#define APART 24 /* numbers between two columns */

static size_t
room_of(unsigned column)
{
	return pri_column_is_address(column) ? ADDRESSES : PRI_BATCH_ROWS;
}

struct pri_batch *
pri_batch_create(void)
{
	struct pri_batch *b = calloc(1, sizeof(*b));
	size_t room = 0;

	if (!b)
		return NULL;
	/* of rows that follow each other, columns that lie alike would push each other out of the cache */
	for (unsigned c = 0; c < PRI_COLUMNS; c++)
		room += room_of(c) + APART;
	b->values[0] = calloc(room, sizeof(**b->values));
	for (unsigned c = 1; c < PRI_COLUMNS && b->values[0]; c++)
		b->values[c] = b->values[c - 1] + room_of(c - 1) + APART;
	b->slots = calloc(SLOTS, sizeof(*b->slots));
	b->planes = malloc(ADDRESSES * sizeof(uint64_t));
	b->pack = ZSTD_createCCtx();
	b->unpack = ZSTD_createDCtx();
	if (!b->values[0] || !b->slots || !b->planes || !b->pack || !b->unpack)
		pri_batch_destroy(&b);
	return b;
}

void
pri_batch_destroy(struct pri_batch **batch)
{
	struct pri_batch *b = PR_TAKE(batch);

	if (!b)
		return;
	PR_FREE(b, values[0], slots, planes);
	ZSTD_freeCCtx(b->pack);
	ZSTD_freeDCtx(b->unpack);
	free(b);
}

/* ---- addresses ---- */

static uint64_t
address_hash(uint64_t high, uint64_t low, uint64_t six)
{
	uint64_t h = ((high ^ six << 63) * UINT64_C(0x9e3779b97f4a7c15)) ^ low;

	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ h >> 32;
}

/* Not copied: a copy by larger parts waits for the stores. */
static inline __attribute__((always_inline)) struct pri_address
address_of(const uint8_t *bytes, size_t len)
{
	uint64_t six = len == 16, high = six ? pr_get_be64(bytes) : 0;
	uint64_t low = six ? pr_get_be64(bytes + 8) : pr_get_be32(bytes);

	return (struct pri_address){high, low, six, address_hash(high, low, six)};
}

static struct pri_address
address_at(const struct pri_batch *b, size_t place)
{
	uint64_t high = b->values[PRI_COL_HIGH][place], low = b->values[PRI_COL_LOW][place];
	uint64_t six = b->values[PRI_COL_SIX][place];

	return (struct pri_address){high, low, six, address_hash(high, low, six)};
}

void
pri_batch_clear(struct pri_batch *b)
{
	for (size_t i = 0; i < b->addresses; i++) {
		size_t at = address_at(b, i).hash % SLOTS;

		while (b->slots[at] != i + 1)
			at = (at + 1) % SLOTS;
		b->slots[at] = 0;
	}
	b->rows = b->put = b->addresses = b->found = 0;
	b->answered = false;
	memset(b->same, 0, sizeof(b->same));
}

/* The slot of an address, or the one that it can have. */
static uint32_t *
slot_of(const struct pri_batch *b, const struct pri_address *a)
{
	size_t at = a->hash % SLOTS;

	for (; b->slots[at]; at = (at + 1) % SLOTS) {
		size_t i = b->slots[at] - 1;
		if (b->values[PRI_COL_LOW][i] == a->low &&
			b->values[PRI_COL_HIGH][i] == a->high &&
			b->values[PRI_COL_SIX][i] == a->six)
			break;
	}
	return &b->slots[at];
}

static uint64_t
place_of(struct pri_batch *b, const struct pri_address *a)
{
	uint32_t *slot = slot_of(b, a);
	size_t i = b->addresses;

	if (*slot)
		return *slot - 1;
	b->values[PRI_COL_HIGH][i] = a->high;
	b->values[PRI_COL_LOW][i] = a->low;
	b->values[PRI_COL_SIX][i] = a->six;
	*slot = (uint32_t)++b->addresses;
	return i;
}

/* Finds the places of addresses that wait, up to a row. */
static void
find_places(struct pri_batch *b, size_t until)
{
	for (; b->found < until; b->found++) {
		const struct pri_address *ends = b->ends[b->found % PRI_BATCH_LATE];

		b->values[PRI_COL_SRC][b->found] = place_of(b, &ends[0]);
		b->values[PRI_COL_DST][b->found] = place_of(b, &ends[1]);
	}
}

unsigned
pri_batch_address(const struct pri_batch *b, uint64_t place, uint8_t out[16])
{
	if (!b->values[PRI_COL_SIX][place]) {
		pr_put_be32(out, (uint32_t)b->values[PRI_COL_LOW][place]);
		return 4;
	}
	pr_put_be64(out, b->values[PRI_COL_HIGH][place]);
	pr_put_be64(out + 8, b->values[PRI_COL_LOW][place]);
	return 16;
}

/* ---- a Bloom filter of them ---- */

#define BITS_EACH 16
#define PROBES 7

static uint64_t
bloom_hash(const struct pri_address *a, unsigned side)
{
	return a->hash ^ side * UINT64_C(0xd6e8feb86659fd93);
}

static size_t
page_of(size_t size, uint64_t hash)
{
	hash *= UINT64_C(0x9e3779b97f4a7c15); /* not the bits that the probes take */
	return (hash >> 32) % (size / PRI_BLOOM_PAGE) * PRI_BLOOM_PAGE;
}

static uint64_t
page_check(const uint8_t *page, uint64_t seed)
{
	return XXH3_64bits_withSeed(page, PRI_BLOOM_BYTES, seed);
}

/* Calls for each probe: the bit's place. */
#define EACH_PROBE(hash, size, bit)                                                        \
	for (uint64_t bit, h_ = (hash), p_ = 0;                                            \
		p_ < PROBES && (bit = (h_ >> 11) % ((size)*8), true);                      \
		p_++, h_ += (hash) << 32 | (hash) >> 32 | 1)

size_t
pri_batch_bloom(const struct pri_batch *b, uint64_t seed, uint8_t *out)
{
	uint8_t *sides = b->planes; /* on which the addresses are */
	size_t count = 0;

	memset(sides, 0, b->addresses);
	for (size_t i = 0; i < b->rows; i++) {
		sides[b->values[PRI_COL_SRC][i]] |= PRI_BLOOM_SRC;
		sides[b->values[PRI_COL_DST][i]] |= PRI_BLOOM_DST;
	}
	for (size_t i = 0; i < b->addresses; i++)
		count += sides[i] == (PRI_BLOOM_SRC | PRI_BLOOM_DST) ? 2 : 1;
	size_t size = (count * BITS_EACH / (PRI_BLOOM_BYTES * 8) + 1) * PRI_BLOOM_PAGE;
	memset(out, 0, size);
	for (size_t i = 0; i < 2 * b->addresses; i++) {
		const struct pri_address a = address_at(b, i / 2);
		unsigned side = i % 2 ? PRI_BLOOM_DST : PRI_BLOOM_SRC;
		uint64_t hash = bloom_hash(&a, side);
		uint8_t *page = out + page_of(size, hash);

		if (!(sides[i / 2] & side))
			continue;
		EACH_PROBE(hash, PRI_BLOOM_BYTES, bit)
		page[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
	for (size_t at = 0; at < size; at += PRI_BLOOM_PAGE)
		pr_put_le64(out + at + PRI_BLOOM_BYTES, page_check(out + at, seed + at));
	return size;
}

size_t
pri_bloom_page(size_t size, unsigned side, const uint8_t *address, size_t len)
{
	const struct pri_address a = address_of(address, len);

	return page_of(size, bloom_hash(&a, side));
}

bool
pri_bloom_page_valid(const uint8_t *page, uint64_t seed)
{
	return pr_get_le64(page + PRI_BLOOM_BYTES) == page_check(page, seed);
}

bool
pri_bloom_has(
	const uint8_t *bits, size_t size, unsigned side, const uint8_t *address, size_t len)
{
	const struct pri_address a = address_of(address, len);
	uint64_t hash = bloom_hash(&a, side);

	EACH_PROBE(hash, size, bit)
	if (!(bits[bit / 8] >> bit % 8 & 1))
		return false;
	return true;
}

/* ---- rows ---- */

/* A loop over numbers, with the vectors that the processor has. */
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__clang__)
#define WIDE __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* Where the rows that wait are not as the first one: bits of each column. */
WIDE static uint64_t
differ(const struct pri_batch *b, uint64_t out[PRI_ROW])
{
	uint64_t all = 0;

	for (unsigned c = 0; c < PRI_ROW; c++) {
		uint64_t bits = 0;
		for (unsigned i = 0; i < PRI_BATCH_LATE; i++)
			bits |= b->late[i][c] ^ b->first[c];
		out[c] = bits & b->same[c];
		all |= out[c];
	}
	return all;
}

/*
 * Puts the rows that wait; fewer than PRI_BATCH_LATE: and others, which others take the place of. Most columns have one
 * value throughout, and are written once.
 */
static void
put_rows(struct pri_batch *b)
{
	uint64_t bits[PRI_ROW];

	for (unsigned c = differ(b, bits) ? 0 : PRI_COLUMNS; c < PRI_COLUMNS; c++) {
		if (!bits[c])
			continue;
		b->same[c] = 0;
		b->varied[b->varied_count++] = (uint8_t)c;
		for (size_t i = 0; i < b->put; i++)
			b->values[c][i] = b->first[c];
	}
	for (unsigned v = 0; v < b->varied_count; v++) {
		unsigned c = b->varied[v];
		uint64_t *to = b->values[c] + b->put;

#pragma GCC unroll 8
		for (unsigned i = 0; i < PRI_BATCH_LATE; i++)
			to[i] = b->late[i][c];
	}
	b->put = b->rows;
}

static void
put_first(struct pri_batch *b)
{
	memset(b->same, 0xff, sizeof(b->same));
	b->same[PRI_COL_SRC] = b->same[PRI_COL_DST] = b->varied_count = 0;
	memcpy(b->first, b->late[0], sizeof(b->first));
	for (unsigned i = 1; i < PRI_BATCH_LATE; i++)
		memcpy(b->late[i], b->first, sizeof(b->first));
	for (unsigned c = 0; c < PRI_COLUMNS; c++)
		*b->values[c] = b->first[c];
}

/* Time from one to the other; 0: there is none. */
static uint64_t
apart(int64_t from, int64_t to, int64_t time, int64_t none)
{
	return time == none ? 0 : (uint64_t)to - (uint64_t)from + 1;
}

static int64_t
on(int64_t from, uint64_t v, int64_t none)
{
	return v ? (int64_t)((uint64_t)from + (v - 1)) : none;
}

static int64_t
back(int64_t from, uint64_t v, int64_t none)
{
	return v ? (int64_t)((uint64_t)from - (v - 1)) : none;
}

static inline __attribute__((always_inline)) void
add_side(uint64_t *v, const struct pri_flow_side *s, int64_t first, int64_t last,
	uint64_t seq)
{
	v[PRI_SIDE_PACKETS] = s->packets;
	v[PRI_SIDE_BYTES] = s->bytes;
	v[PRI_SIDE_PAYLOAD] = s->payload;
	v[PRI_SIDE_FLAGS] = s->flags;
	v[PRI_SIDE_ICMP] = s->icmp_code;
	v[PRI_SIDE_FIRST] = apart(first, s->first, s->first, PRI_FLOW_NEVER);
	v[PRI_SIDE_LAST] = apart(s->last, last, s->last, INT64_MIN);
	v[PRI_SIDE_FIRST_SEQ] = s->first_seq - seq;
	v[PRI_SIDE_SEQS] = s->last_seq - s->first_seq;
	v[PRI_SIDE_SYN] = apart(s->first, s->syn, s->syn, PRI_FLOW_NEVER);
	v[PRI_SIDE_SYN_ACK] = apart(s->first, s->syn_ack, s->syn_ack, PRI_FLOW_NEVER);
	v[PRI_SIDE_FIN] = apart(s->fin, s->last, s->fin, PRI_FLOW_NEVER);
	v[PRI_SIDE_RST] = apart(s->rst, s->last, s->rst, PRI_FLOW_NEVER);
}

void
pri_batch_add(
	struct pri_batch *b, const struct pri_flow *flow, uint64_t missing, bool left_out)
{
	const struct pri_flow_key *k = &flow->key;
	unsigned o = flow->originator;
	int64_t first = pri_flow_first(flow), last = pri_flow_last(flow);
	size_t row = b->rows;
	struct pri_address *ends = b->ends[row % PRI_BATCH_LATE];
	uint64_t *v = b->late[row % PRI_BATCH_LATE];

	if (row && row % PRI_BATCH_LATE == 0)
		put_rows(b);
	if (row >= PRI_BATCH_LATE)
		find_places(b, row - PRI_BATCH_LATE + 1);
	/* their slots have come from memory when they are looked for, some rows later */
	for (int i = 0; i < 2; i++) {
		ends[i] = address_of(k->address[o ^ i], k->address_len);
		__builtin_prefetch(&b->slots[ends[i].hash % SLOTS]);
	}
	v[PRI_COL_FIRST] = pri_column_time(first);
	v[PRI_COL_SPAN] = (uint64_t)last - (uint64_t)first;
	v[PRI_COL_SPORT] = k->port[o];
	v[PRI_COL_DPORT] = k->port[!o];
	v[PRI_COL_PROTOCOL] = k->protocol;
	v[PRI_COL_VLAN] = k->vlan;
	v[PRI_COL_LINK] = k->link;
	v[PRI_COL_STATE] = pri_flow_state(flow);
	v[PRI_COL_BITS] = (o ? PRI_SIDE_1_BEGAN : 0) | (k->one_way ? PRI_ONE_WAY : 0) |
			  (left_out ? PRI_LEFT_OUT : 0);
	v[PRI_COL_MISSING] = missing;
	v[PRI_COL_SAMPLING] = flow->sampling;
	v[PRI_COL_LAST_SYN] = apart(flow->last_syn, last, flow->last_syn, INT64_MIN);
	add_side(v + PRI_COL_SENT, &flow->side[o], first, last, 0);
	/* where nobody has answered yet, its columns are those of the first row */
	b->answered |= flow->side[!o].packets || flow->side[o].first_seq;
	if (b->answered || !row)
		add_side(v + PRI_COL_RECEIVED, &flow->side[!o], first, last,
			flow->side[o].first_seq);
	if (!b->rows++)
		put_first(b);
}

void
pri_batch_end(struct pri_batch *b)
{
	if (b->put < b->rows)
		put_rows(b);
	find_places(b, b->rows);
}

static void
sums_of(const struct pri_batch *b, unsigned column, size_t row, struct pri_flow_side *s)
{
	s->packets = b->values[column + PRI_SIDE_PACKETS][row];
	s->bytes = b->values[column + PRI_SIDE_BYTES][row];
	s->payload = b->values[column + PRI_SIDE_PAYLOAD][row];
	s->flags = (uint8_t)b->values[column + PRI_SIDE_FLAGS][row];
	s->icmp_code = (uint8_t)b->values[column + PRI_SIDE_ICMP][row];
}

bool
pri_batch_sums(const struct pri_batch *b, size_t row, struct pri_flow *out)
{
	uint64_t *const *v = b->values;
	struct pri_flow_key *k = &out->key;
	unsigned o = v[PRI_COL_BITS][row] & PRI_SIDE_1_BEGAN;

	memset(k, 0, sizeof(*k));
	k->address_len = (uint8_t)pri_batch_address(b, v[PRI_COL_SRC][row], k->address[o]);
	if (pri_batch_address(b, v[PRI_COL_DST][row], k->address[!o]) != k->address_len)
		return false;
	k->port[o] = (uint16_t)v[PRI_COL_SPORT][row];
	k->port[!o] = (uint16_t)v[PRI_COL_DPORT][row];
	k->protocol = (uint8_t)v[PRI_COL_PROTOCOL][row];
	k->vlan = (uint16_t)v[PRI_COL_VLAN][row];
	k->link = (uint16_t)v[PRI_COL_LINK][row];
	k->one_way = (v[PRI_COL_BITS][row] & PRI_ONE_WAY) != 0;
	out->originator = (uint8_t)o;
	out->state = (uint8_t)(1 + v[PRI_COL_STATE][row]);
	sums_of(b, PRI_COL_SENT, row, &out->side[o]);
	sums_of(b, PRI_COL_RECEIVED, row, &out->side[!o]);
	out->side[o].first = pri_time_of_column(v[PRI_COL_FIRST][row]);
	out->side[o].last = (int64_t)((uint64_t)out->side[o].first + v[PRI_COL_SPAN][row]);
	out->side[!o].first = PRI_FLOW_NEVER;
	out->side[!o].last = INT64_MIN;
	return true;
}

static void
times_of(const struct pri_batch *b, unsigned column, size_t row, uint64_t seq,
	int64_t first, int64_t last, struct pri_flow_side *s)
{
	uint64_t v[PRI_SIDE_RST + 1];

	for (unsigned i = PRI_SIDE_FIRST; i <= PRI_SIDE_RST; i++)
		v[i] = b->values[column + i][row];
	s->first = on(first, v[PRI_SIDE_FIRST], PRI_FLOW_NEVER);
	s->last = back(last, v[PRI_SIDE_LAST], INT64_MIN);
	s->first_seq = seq + v[PRI_SIDE_FIRST_SEQ];
	s->last_seq = s->first_seq + v[PRI_SIDE_SEQS];
	s->syn = on(s->first, v[PRI_SIDE_SYN], PRI_FLOW_NEVER);
	s->syn_ack = on(s->first, v[PRI_SIDE_SYN_ACK], PRI_FLOW_NEVER);
	s->fin = back(s->last, v[PRI_SIDE_FIN], PRI_FLOW_NEVER);
	s->rst = back(s->last, v[PRI_SIDE_RST], PRI_FLOW_NEVER);
}

bool
pri_batch_flow(
	const struct pri_batch *b, size_t row, struct pri_flow *out, uint64_t *missing)
{
	uint64_t *const *v = b->values;

	if (!pri_batch_sums(b, row, out))
		return false;
	unsigned o = out->originator;
	int64_t first = out->side[o].first, last = out->side[o].last;
	out->state = 0;
	out->sampling = (uint32_t)v[PRI_COL_SAMPLING][row];
	*missing = v[PRI_COL_MISSING][row];
	times_of(b, PRI_COL_SENT, row, 0, first, last, &out->side[o]);
	times_of(b, PRI_COL_RECEIVED, row, out->side[o].first_seq, first, last,
		&out->side[!o]);
	out->last_syn = back(last, v[PRI_COL_LAST_SYN][row], INT64_MIN);
	return first <= last && pri_flow_first(out) == first && pri_flow_last(out) == last;
}

/* ---- columns ---- */

static size_t
count_of(const struct pri_batch *b, unsigned column)
{
	return pri_column_is_address(column) ? b->addresses : b->rows;
}

/* Bytes that a number takes. */
static unsigned
width_of(uint64_t v)
{
	return v ? (71 - (unsigned)__builtin_clzll(v)) / 8 : 0;
}

WIDE static void
range_of(const uint64_t *v, size_t n, uint64_t *least, uint64_t *most)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < n; i++) {
		low = v[i] < low ? v[i] : low;
		high = v[i] > high ? v[i] : high;
	}
	*least = low;
	*most = high;
}

/* A byte of each number. */
WIDE static void
take_plane(const uint64_t *v, size_t n, uint64_t least, unsigned shift,
	uint8_t *restrict plane)
{
	for (size_t i = 0; i < n; i++)
		plane[i] = (uint8_t)((v[i] - least) >> shift);
}

/* How a plane lies in a frame. */
enum how {
	ZEROS, /* it does not */
	WHOLE, /* as it is */
	PACKED, /* with others, by zstd, behind those that are not */
	FEW /* most bytes are one value: put_few */
};
#define SAMPLE 31 /* one byte of so many is looked at */
#define FEW_SHARE 16 /* one in so many */
#define VALUES_MANY 10 /* as many as zstd takes little off */

WIDE static uint32_t
count_others(const uint8_t *plane, size_t n, uint8_t most)
{
	uint32_t others = 0;

	for (size_t i = 0; i < n; i++)
		others += plane[i] != most;
	return others;
}

/* The sum of squares of shares is 1 / n if n values are about as frequent. */
static enum how
choose_how(const uint8_t *plane, size_t n, bool read_often, uint8_t *most, size_t *others)
{
	uint32_t counts[256] = {0}, taken = 0;
	uint64_t squares = 0;

	for (size_t i = 0; i < n; i += SAMPLE, taken++)
		counts[plane[i]]++;
	*most = 0;
	for (unsigned i = 0; i < 256; i++) {
		squares += (uint64_t)counts[i] * counts[i];
		*most = counts[i] > counts[*most] ? (uint8_t)i : *most;
	}
	*others = count_others(plane, n, *most);
	if (*others <= n / FEW_SHARE)
		return *others || *most ? FEW : ZEROS;
	return read_often || squares * VALUES_MANY < (uint64_t)taken * taken ? WHOLE
									     : PACKED;
}

/* What most bytes are, how many others there are: their places, and then they. */
static size_t
put_few(const uint8_t *plane, size_t n, uint8_t most, size_t others, uint8_t *out)
{
	uint8_t *place = out + FEW_HEAD, *value = place + 2 * others;

	out[0] = most;
	pr_put_le16(out + 1, (uint16_t)others);
	for (size_t i = 0; i < n; i++)
		if (plane[i] != most) {
			pr_put_le16(place, (uint16_t)i);
			place += 2;
			*value++ = plane[i];
		}
	return FEW_HEAD + 3 * others;
}

/* Returns the bytes of a frame; SIZE_MAX: no room. */
static size_t
pack_frame(struct pri_batch *b, const uint64_t *v, size_t n, uint64_t least, unsigned width,
	bool read_often, uint8_t *out, size_t room)
{
	uint8_t *to = b->planes, most;
	size_t len = FRAME_HEAD, others;
	unsigned hows = 0;

	if (room < FRAME_HEAD + (n + FEW_HEAD) * width)
		return SIZE_MAX;
	for (unsigned w = 0; w < width; w++) {
		take_plane(v, n, least, 8 * w, to);
		enum how how = choose_how(to, n, read_often, &most, &others);

		hows |= how << 2 * w;
		if (how == FEW)
			len += put_few(to, n, most, others, out + len);
		else if (how == WHOLE)
			memcpy(out + len, to, n);
		len += how == WHOLE ? n : 0;
		to += how == PACKED ? n : 0;
	}
	pr_put_le16(out, (uint16_t)hows);
	pr_put_le16(out + 2, (uint16_t)n);
	if (to == b->planes)
		return len;
	size_t packed = ZSTD_compressCCtx(
		b->pack, out + len, room - len, b->planes, (size_t)(to - b->planes), LEVEL);
	return ZSTD_isError(packed) ? SIZE_MAX : len + packed;
}

size_t
pri_column_pack(struct pri_batch *b, enum pri_column column, uint64_t *least,
	uint64_t *most, void *out, size_t room)
{
	const uint64_t *v = b->values[column];
	size_t n = count_of(b, column), len = 0;

	*least = *most = n ? *v : 0;
	if (n && (!b->same[column] || pri_column_is_address(column)))
		range_of(v, n, least, most);
	unsigned width = width_of(*most - *least);
	for (size_t at = 0, rows; width && at < n; at += rows) {
		rows = n - at < PRI_FRAME_ROWS ? n - at : PRI_FRAME_ROWS;
		size_t size = pack_frame(b, v + at, rows, *least, width,
			READ_OFTEN >> column & 1, (uint8_t *)out + len, room - len);
		if (size == SIZE_MAX)
			return SIZE_MAX;
		len += size;
	}
	return len;
}

/* The greatest that other code can take: places in the list of addresses, names of states. */
static uint64_t
limit_of(const struct pri_batch *b, unsigned column)
{
	if (column == PRI_COL_SRC || column == PRI_COL_DST)
		return b->addresses - 1;
	return column == PRI_COL_STATE ? PRI_FLOW_STATES - 1 : UINT64_MAX;
}

/* A frame: its planes that are not zeros. */
struct frame {
	const uint8_t *planes[8], *packed;
	unsigned shifts[8], count;
	size_t rows, size, packed_size, unpacked_size;
};

/* Puts a plane of which few bytes differ. Returns its size in the frame; 0: it is none. */
static size_t
take_few(const uint8_t *in, size_t len, size_t n, uint8_t *plane)
{
	size_t others = len < FEW_HEAD ? SIZE_MAX : pr_get_le16(in + 1);

	if (others > len || FEW_HEAD + 3 * others > len)
		return 0;
	memset(plane, in[0], n);
	for (size_t i = 0; i < others; i++) {
		size_t place = pr_get_le16(in + FEW_HEAD + 2 * i);

		if (place >= n)
			return 0;
		plane[place] = in[FEW_HEAD + 2 * others + i];
	}
	return FEW_HEAD + 3 * others;
}

/* Where the planes of a frame lie; those of which few bytes differ stand behind the others in b->planes. */
static bool
find_planes(struct pri_batch *b, const uint8_t *in, size_t len, unsigned hows,
	unsigned width, struct frame *f)
{
	uint8_t *few = b->planes + width * f->rows;

	for (unsigned w = 0; w < width; w++) {
		enum how how = hows >> 2 * w & 3;
		size_t size = how == WHOLE ? f->rows : 0;

		if (how == ZEROS)
			continue;
		f->planes[f->count] =
			how == WHOLE ? in + f->size : b->planes + f->unpacked_size;
		if (how == FEW) {
			few -= f->rows;
			f->planes[f->count] = few;
			size = take_few(in + f->size, len - f->size, f->rows, few);
		}
		if (how == PACKED)
			f->unpacked_size += f->rows;
		else if (!size || size > len - f->size)
			return false;
		f->shifts[f->count++] = 8 * w;
		f->size += size;
	}
	return true;
}

/* Frames were zstd with all planes. False: it is no frame of at most so many rows. */
static bool
frame_read(struct pri_batch *b, const uint8_t *in, size_t len, unsigned width, size_t most,
	struct frame *f)
{
	static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	unsigned hows;

	*f = (struct frame){.size = FRAME_HEAD};
	if (len < FRAME_HEAD)
		return false;
	hows = pr_get_le16(in);
	f->rows = pr_get_le16(in + 2);
	if (!memcmp(in, zstd, sizeof(zstd))) {
		hows = ALL_PACKED >> (16 - 2 * width);
		f->rows = ZSTD_getFrameContentSize(in, len) / width;
		f->size = 0;
	}
	if (!f->rows || f->rows > most || hows >> 2 * width ||
		!find_planes(b, in, len, hows, width, f))
		return false;
	f->packed = in + f->size;
	f->packed_size = f->unpacked_size
				 ? ZSTD_findFrameCompressedSize(f->packed, len - f->size)
				 : 0;
	f->size += f->packed_size;
	return !ZSTD_isError(f->packed_size);
}

/* Puts the values of a frame together, or of some rows (`at` is the frame's first); returns the greatest without `least`. */
static inline __attribute__((always_inline)) uint64_t
put_together(const struct frame *f, unsigned count, uint64_t least, const uint32_t *rows,
	size_t at, size_t n, uint64_t *v)
{
	uint64_t greatest = 0;

	for (size_t i = 0; i < n; i++) {
		size_t row = rows ? rows[i] - at : i;
		uint64_t x = 0;

#pragma GCC unroll 8
		for (unsigned j = 0; j < count; j++)
			x |= (uint64_t)f->planes[j][row] << f->shifts[j];
		greatest = x > greatest ? x : greatest;
		v[row] = least + x;
	}
	return greatest;
}

WIDE static uint64_t
put_all_together(const struct frame *f, uint64_t least, uint64_t *v)
{
	switch (f->count) {
#define CASE(count)                                                                        \
	case count:                                                                        \
		return put_together(f, count, least, NULL, 0, f->rows, v);
		CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
	}
	return UINT64_MAX;
}

bool
pri_column_unpack(struct pri_batch *b, enum pri_column column, uint64_t least,
	uint64_t most, const void *in, size_t len)
{
	const uint8_t *from = in;
	const uint32_t *only = pri_column_is_address(column) ? NULL : b->only;
	size_t n = count_of(b, column), k = 0;
	unsigned width = most >= least ? width_of(most - least) : 0;
	uint64_t *v = b->values[column], greatest = 0;
	struct frame f = {.rows = n};

	if (n > room_of(column) || most < least || most > limit_of(b, column) ||
		(width == 0) != (len == 0))
		return false;
	if (!width)
		put_all_together(&f, least, v);
	for (size_t at = 0; width && at < n; at += f.rows, from += f.size, len -= f.size) {
		size_t count = 0;

		if (!frame_read(b, from, len, width, n - at, &f))
			return false;
		while (only && k + count < b->only_count && only[k + count] < at + f.rows)
			count++;
		if (only && !count)
			continue;
		if (f.packed_size &&
			ZSTD_decompressDCtx(b->unpack, b->planes, f.unpacked_size, f.packed,
				f.packed_size) != f.unpacked_size)
			return false;
		uint64_t x =
			only ? put_together(&f, f.count, least, only + k, at, count, v + at)
			     : put_all_together(&f, least, v + at);
		greatest = x > greatest ? x : greatest;
		k += count;
	}
	return len == 0 && greatest <= most - least;
}
