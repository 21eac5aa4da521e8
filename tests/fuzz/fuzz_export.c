/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of exporters: NetFlow 5, 9, IPFIX, sFlow. Covers indexer/flows/flow_export.c indexer/flows/flow_told.c
 * Options -max_len=2048
 *
 * The input is messages: a byte for the exporter (2 bits of address, 4 of a connection: 0 is none, else messages that
 * follow each other; the highest bit is the port, or ends the connection), two of length, bytes.
 */
#include <string.h>

#include "indexer/flows/flow_export.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/flow_packed.h"

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	static struct pri_batch *batch, *other;
	struct pri_flow kept;
	uint64_t missing;

	batch = batch ? batch : pri_batch_create();
	other = other ? other : pri_batch_create();
	MUST(batch && other);
	(void)err;
	++*(uint64_t *)arg;
	MUST(flow->side[0].packets + flow->side[1].packets > 0);
	MUST(pri_flow_first(flow) <= pri_flow_last(flow));
	MUST(pri_flow_state(flow) < PRI_FLOW_STATES);
	pri_batch_clear(batch);
	pri_batch_add(batch, flow, 0, false);
	MUST(batch_again(batch, other) && pri_batch_flow(other, 0, &kept, &missing));
	return 0;
}

/* As a connection gives them (merger/cli/flows/collect.c, on_bytes). */
static void
take_stream(struct pri_exporters *e, const struct pri_export_from *from,
	const uint8_t *data, size_t left)
{
	struct pr_error err;
	size_t len;

	for (; left >= 4 && (len = pri_ipfix_length(data)) && len <= left;
		data += len, left -= len)
		MUST(pri_exporters_take(
			     e, from, data, len, 1700000000 * PR_NS_PER_S, &err) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t flows = 0, told = 0;
	struct pr_error err;
	struct pri_exporters *e = pri_exporters_create(on_flow, on_flow, &flows, &err);
	const struct pri_exporter *x;

	MUST(e);
	for (size_t at = 0; at + 3 <= size;) {
		struct pri_export_from from = {.address = {10, 0, 0, data[at] & 3},
			.address_len = 4,
			.port = data[at] >> 7,
			.connection = data[at] >> 2 & 15};
		size_t len = (size_t)data[at + 1] << 8 | data[at + 2];

		at += 3;
		len = len < size - at ? len : size - at;
		if (from.connection) /* messages behind each other */
			take_stream(e, &from, data + at, len);
		else
			MUST(pri_exporters_take(e, &from, data + at, len,
				     1700000000 * PR_NS_PER_S, &err) == 0);
		if (from.connection && from.port)
			pri_exporters_end(e, from.connection);
		at += len;
	}
	for (size_t i = 0; (x = pri_exporters_get(e, i)); i++)
		told += x->flows;
	MUST(told == flows);
	pri_exporters_destroy(&e);
	return 0;
}
