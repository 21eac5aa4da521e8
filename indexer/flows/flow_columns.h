/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/flows/flow.h"

/*
 * Flow records column by column: a batch of rows, each column an array of numbers, and addresses by their place in a
 * list of the batch. A column is packed by itself, so a reader takes those that it needs, and its least and greatest
 * value tell what it need not read.
 *
 * Packed: value - least, in as many bytes as the greatest takes; the lowest bytes of all values are a plane, then the
 * next ones. Some thousand rows are a frame, so that few rows are unpacked without the others; a reader takes frames of
 * any number of rows. A frame: how each plane lies there, and rows; planes that zstd would take little off, or that are
 * read often, and those of which few bytes differ; then the others by zstd. Before, a frame was all its planes by zstd.
 * A column of one value takes no bytes.
 */
#define PRI_BATCH_ROWS 32768
#define PRI_FRAME_ROWS 8192
#define PRI_BATCH_LATE                                                                     \
	8 /* rows after which columns are written, and places are looked for */
/* Those of a side stand twice, of who began (SENT) and of the other. */
enum pri_column {
	PRI_COL_FIRST, /* pri_column_time */
	PRI_COL_SPAN, /* from first to last */
	PRI_COL_SRC, /* place in the list of addresses */
	PRI_COL_DST,
	PRI_COL_SPORT,
	PRI_COL_DPORT,
	PRI_COL_PROTOCOL,
	PRI_COL_VLAN,
	PRI_COL_LINK,
	PRI_COL_STATE, /* enum pri_flow_state */
	PRI_COL_BITS, /* enum pri_column_bits */
	PRI_COL_MISSING,
	PRI_COL_SAMPLING,
	PRI_COL_LAST_SYN, /* 0 none, else 1 + ns back from last */
	/* the list of addresses: in network order as two numbers; IPv4: high 0; six: 1 for IPv6 */
	PRI_COL_HIGH,
	PRI_COL_LOW,
	PRI_COL_SIX,
	PRI_COL_SENT,
	PRI_COL_RECEIVED = PRI_COL_SENT + 13,
	PRI_COLUMNS = PRI_COL_RECEIVED + 13
};
enum pri_column_bits { PRI_SIDE_1_BEGAN = 1, PRI_ONE_WAY = 2, PRI_LEFT_OUT = 4 };
/* Of a side. Times are 0 for none, else 1 + ns: on from the begin of the flow or of the side, back from their ends. */
enum pri_side_column {
	PRI_SIDE_PACKETS,
	PRI_SIDE_BYTES,
	PRI_SIDE_PAYLOAD,
	PRI_SIDE_FLAGS,
	PRI_SIDE_ICMP, /* code */
	PRI_SIDE_FIRST, /* on from the flow's */
	PRI_SIDE_LAST, /* back from the flow's */
	PRI_SIDE_FIRST_SEQ, /* received: on from that of who began */
	PRI_SIDE_SEQS, /* last - first */
	PRI_SIDE_SYN, /* on */
	PRI_SIDE_SYN_ACK, /* on */
	PRI_SIDE_FIN, /* back */
	PRI_SIDE_RST, /* back */
};
#define PRI_ROW ((PRI_COLUMNS + 7) / 8 * 8) /* numbers of a row: whole vectors */
#define PRI_COLUMNS_ALL ((UINT64_C(1) << PRI_COLUMNS) - 1)
#define PRI_COLUMNS_ADDRESSES                                                              \
	(UINT64_C(1) << PRI_COL_HIGH | UINT64_C(1) << PRI_COL_LOW |                        \
		UINT64_C(1) << PRI_COL_SIX)

/* Times as numbers in the same order, and back. */
static inline uint64_t
pri_column_time(int64_t time)
{
	return (uint64_t)time ^ UINT64_C(1) << 63;
}
static inline int64_t
pri_time_of_column(uint64_t v)
{
	return (int64_t)(v ^ UINT64_C(1) << 63);
}

struct pri_batch {
	size_t rows, addresses;
	uint64_t
		*values[PRI_COLUMNS]; /* rows, or of the list of addresses: twice as many */
	const uint32_t *only; /* rows whose values are unpacked; NULL: all */
	size_t only_count;
	/* of flow_columns.c */
	bool answered; /* a flow has packets of who did not begin it */
	/* rows wait here for others: columns are written by lines of the cache */
	uint64_t late[PRI_BATCH_LATE][PRI_ROW], first[PRI_ROW];
	size_t put; /* rows that do not wait */
	uint64_t same[PRI_ROW]; /* all bits set: only the first is written; or none */
	uint8_t varied[PRI_COLUMNS]; /* columns of rows that differ */
	unsigned varied_count;
	uint32_t *slots; /* a hash table of the list: place + 1 */
	struct pri_address {
		uint64_t high, low, six, hash;
	} ends[PRI_BATCH_LATE][2]; /* of rows from `found` on, which have no place yet */
	size_t found;
	uint8_t *planes;
	void *pack, *unpack;
};
/* NULL: no memory. */
struct pri_batch *pri_batch_create(void);
void pri_batch_destroy(struct pri_batch **batch);
void pri_batch_clear(struct pri_batch *batch);
/* There must be room: rows < PRI_BATCH_ROWS. left_out: PRI_LEFT_OUT. */
void pri_batch_add(struct pri_batch *batch, const struct pri_flow *flow, uint64_t missing,
	bool left_out);
/* There are no more rows: now it can be packed, and has all its addresses. */
void pri_batch_end(struct pri_batch *batch);
/* All columns must be there. What others' bytes gave is a flow, too, or false. */
bool pri_batch_flow(
	const struct pri_batch *batch, size_t row, struct pri_flow *out, uint64_t *missing);
/*
 * What sums and filters need: the key, flags, state, packets and bytes, and the first and the last time, as those of who
 * began; nothing else is set. Addresses must be there; columns that were never read are 0.
 */
#define PRI_COLUMN(column) (UINT64_C(1) << (column))
#define PRI_COLUMN_OF_SIDES(column)                                                        \
	(PRI_COLUMN(PRI_COL_SENT + (column)) | PRI_COLUMN(PRI_COL_RECEIVED + (column)))
#define PRI_COLUMNS_KEY                                                                    \
	((PRI_COLUMN(PRI_COL_STATE) - PRI_COLUMN(PRI_COL_SRC)) |                           \
		PRI_COLUMN(PRI_COL_BITS) | PRI_COLUMNS_ADDRESSES)
#define PRI_COLUMNS_SUMS                                                                   \
	(PRI_COLUMN_OF_SIDES(PRI_SIDE_PACKETS) | PRI_COLUMN_OF_SIDES(PRI_SIDE_BYTES) |     \
		PRI_COLUMN_OF_SIDES(PRI_SIDE_PAYLOAD) | PRI_COLUMN(PRI_COL_SPAN))
bool pri_batch_sums(const struct pri_batch *batch, size_t row, struct pri_flow *out);

static inline bool
pri_column_is_address(unsigned column)
{
	return column >= PRI_COL_HIGH && column <= PRI_COL_SIX;
}
/* Packs a column. Returns the number of bytes, 0 if all values are *least; SIZE_MAX: no room; all its bytes and 64 a frame
 * are enough. */
size_t pri_column_pack(struct pri_batch *batch, enum pri_column column, uint64_t *least,
	uint64_t *most, void *out, size_t room);
/* Any bytes may come; rows and addresses must be set, and not 0. False: they are no such column. */
bool pri_column_unpack(struct pri_batch *batch, enum pri_column column, uint64_t least,
	uint64_t most, const void *in, size_t len);

/* The address at a place of the list, in network order; returns its length. */
unsigned pri_batch_address(const struct pri_batch *batch, uint64_t place, uint8_t out[16]);

/*
 * A Bloom filter of the batch's addresses, by their sides. Each has one page, so that a reader takes no more of it: its
 * bits, and a check value of them that has to do with the page's place and `seed`.
 */
#define PRI_BLOOM_PAGE 512
#define PRI_BLOOM_BYTES (PRI_BLOOM_PAGE - 8)
enum {
	PRI_BLOOM_ANY,
	PRI_BLOOM_SRC,
	PRI_BLOOM_DST
}; /* any: as filters had it that have no pages */
/* Returns the size, a multiple of a page; there must be room. */
size_t pri_batch_bloom(const struct pri_batch *batch, uint64_t seed, uint8_t *out);
/* Where the page of an address begins in a filter of this size. */
size_t pri_bloom_page(size_t size, unsigned side, const uint8_t *address, size_t len);
/* seed: that of the filter, and where the page begins. */
bool pri_bloom_page_valid(const uint8_t *page, uint64_t seed);
/* False: the batch has no such address. The bits are the first PRI_BLOOM_BYTES of its page, or a filter without pages. */
bool pri_bloom_has(const uint8_t *bits, size_t size, unsigned side, const uint8_t *address,
	size_t len);
