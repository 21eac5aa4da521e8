/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets and filters of flows. Covers indexer/flows/flow_key.c indexer/flows/flow_filter.c indexer/flows/flow.c
 * indexer/flows/flow_table.c indexer/flows/flow_columns.c indexer/flows/flow_parts.c
 * Options -max_len=2048
 *
 * The input is a filter up to a zero byte, and packets: link type, step of time, length, bytes.
 */
#include <string.h>

#include "indexer/flows/flow_filter.h"
#include "indexer/flows/flow_parts.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/flow_packed.h"

static uint64_t packets;

static int
ignore_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	(void)err;
	if (arg)
		*(uint64_t *)arg += flow->side[0].packets + flow->side[1].packets;
	return 0;
}

static struct pri_batch *batch, *other;

/* A record is the same when it was kept. */
static void
kept_again(const struct pri_flow *flow)
{
	struct pri_flow kept;
	uint64_t missing;

	pri_batch_clear(batch);
	pri_batch_add(batch, flow, packets, false);
	MUST(batch_again(batch, other));
	MUST(pri_batch_flow(other, 0, &kept, &missing) && missing == packets);
	MUST(!memcmp(&kept.key, &flow->key, sizeof(kept.key)) &&
		pri_flow_state(&kept) == pri_flow_state(flow));
}

/* Any bytes as columns: what is unpacked can be read. */
static void
columns_of(const uint8_t *data, size_t len)
{
	struct pri_flow flow;
	uint64_t missing;

	other->rows = 1 + (len ? data[0] % 4 : 0);
	other->addresses = 1 + other->rows / 2;
	for (unsigned i = 0; i < PRI_COLUMNS; i++) {
		unsigned c = (i + PRI_COL_HIGH) % PRI_COLUMNS;

		if (!pri_column_unpack(other, c, len, len + i, data, len) &&
			!pri_column_unpack(other, c, len % 2, len % 2, NULL, 0))
			MUST(pri_column_unpack(other, c, 0, 0, NULL, 0));
	}
	for (size_t i = 0; i < other->rows; i++)
		if (pri_batch_flow(other, i, &flow, &missing))
			MUST(pri_flow_first(&flow) <= pri_flow_last(&flow));
}

/* Any bytes as parts of flows: they are damaged, or a table takes them all. */
static void
parts_of(const uint8_t *data, size_t len)
{
	const struct pri_flow_limits limits = {.flows = 4};
	struct pr_packet p = {
		.data = data, .caplen = (uint32_t)len, .flags = PR_PACKET_PARTS};
	struct pri_flow_table *table;
	struct pr_error err;

	if (len < 12)
		return;
	p.otime = (int64_t)pr_get_le64(data + 4);
	if (p.otime > INT64_MIN / PRI_FLOW_SLICE_NS &&
		p.otime < INT64_MAX / PRI_FLOW_SLICE_NS)
		p.otime = pri_flow_slice_last(p.otime);
	table = pri_flow_table_create(&limits, ignore_flow, NULL, &err);
	MUST(table);
	pri_flow_table_packet(table, &p, &err);
	MUST(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err) == 0);
	pri_flow_table_destroy(&table);
}

/* What nodes send: all packets are in it, and an owner's table has the same flows. */
static void
take_parts(struct pri_flow_parts *parts, struct pri_flow_table *owner)
{
	struct pr_packet p;
	struct pr_error err;

	if (pri_flow_parts_take(parts, &p))
		MUST(pri_flow_table_packet(owner, &p, &err) == 0);
}

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	char id[PRI_COMMUNITY_ID_MAX];

	(void)err;
	MUST(flow->side[0].packets + flow->side[1].packets > 0);
	MUST(pri_flow_first(flow) <= pri_flow_last(flow));
	MUST(pri_flow_state(flow) < PRI_FLOW_STATES);
	packets += flow->side[0].packets + flow->side[1].packets;
	pri_community_id(&flow->key, 0, id);
	MUST(strlen(id) == 30);
	if (arg)
		pri_flow_filter_match(arg, flow);
	kept_again(flow);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t linktypes[] = {1, 9, 12, 105, 113, 127, 276, 0};
	const uint8_t *end = memchr(data, 0, size < 200 ? size : 200);
	const struct pri_flow_limits limits = {.flows = 4, .idle_closed = 5 * PR_NS_PER_S};
	struct pri_flow_filter *filter = NULL;
	struct pri_flow_table *table, *owner;
	struct pri_flow_parts *parts;
	struct pr_error err;
	uint64_t owned = 0;
	int64_t time = 0, last = INT64_MIN;
	size_t at;

	if (!end)
		return 0;
	batch = batch ? batch : pri_batch_create();
	other = other ? other : pri_batch_create();
	MUST(batch && other);
	at = (size_t)(end - data) + 1;
	filter = pri_flow_filter_create((const char *)data, &err);
	table = pri_flow_table_create(&limits, on_flow, filter, &err);
	owner = pri_flow_table_create(&limits, ignore_flow, &owned, &err);
	parts = pri_flow_parts_create(2, 0, 0, &err);
	MUST(table && owner && parts);
	packets = 0;
	for (uint64_t seq = 1; at + 4 <= size; seq++) {
		size_t len = data[at + 3];
		struct pr_packet p = {.linktype = linktypes[data[at] & 7],
			.link = data[at] >> 7,
			.seq = seq};

		if (len > size - at - 4)
			len = size - at - 4;
		/* mostly on, a little back, or to the ends of time */
		time = pr_time_minus(time, (data[at + 1] & 0x40 ? 1 : -1) *
						   (int64_t)(data[at + 1] & 0x3f) * 300 *
						   PR_NS_PER_MS);
		if (data[at + 1] >= 0xfe)
			time = data[at + 1] == 0xff ? INT64_MAX - 1 : INT64_MIN + 1;
		p.time = p.otime = time;
		p.caplen = (uint32_t)len;
		p.len = (uint32_t)len + data[at + 2];
		p.data = data + at + 4;
		MUST(pri_flow_table_packet(table, &p, &err) == 0);
		columns_of(p.data, len);
		parts_of(p.data, len);
		p.otime = last = time > last ? time : last;
		MUST(pri_flow_parts_packet(parts, &p, &err) == 0);
		take_parts(parts, owner);
		at += 4 + len;
	}
	MUST(pri_flow_table_advance(table, PRI_FLOW_NEVER, &err) == 0);
	MUST(pri_flow_table_figures(table)->open == 0);
	MUST(packets + pri_flow_table_figures(table)->not_ip ==
		pri_flow_table_figures(table)->packets);
	MUST(pri_flow_parts_advance(parts, PRI_FLOW_NEVER, &err) == 0);
	take_parts(parts, owner);
	MUST(pri_flow_table_advance(owner, PRI_FLOW_NEVER, &err) == 0);
	MUST(owned == packets && pri_flow_table_figures(owner)->not_ip ==
					 pri_flow_table_figures(table)->not_ip);
	pri_flow_table_destroy(&table);
	pri_flow_table_destroy(&owner);
	pri_flow_parts_destroy(&parts);
	pri_flow_filter_destroy(&filter);
	return 0;
}
