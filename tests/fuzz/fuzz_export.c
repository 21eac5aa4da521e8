/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of exporters: NetFlow 5, 9, IPFIX, sFlow. Covers indexer/flows/flow_export.c indexer/flows/flow_told.c
 * Options -max_len=2048
 *
 * The input is messages: a byte for the exporter, two of length, bytes.
 */
#include <string.h>

#include "indexer/flows/flow_export.h"
#include "indexer/flows/flow_frame.h"
#include "tests/fuzz/fuzz.h"

static int
on_flow(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	uint8_t frame[PRI_FLOW_FRAME_MAX];
	struct pri_flow kept;
	uint64_t missing;

	(void)err;
	++*(uint64_t *)arg;
	MUST(flow->side[0].packets + flow->side[1].packets > 0);
	MUST(pri_flow_first(flow) <= pri_flow_last(flow));
	MUST(pri_flow_state(flow) < PRI_FLOW_STATES);
	MUST(pri_flow_frame_read(
		frame, pri_flow_frame_write(flow, 0, frame), &kept, &missing));
	return 0;
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
		const struct pri_exporter_id id = {
			.address = {10, 0, 0, data[at] & 3}, .address_len = 4};
		size_t len = (size_t)data[at + 1] << 8 | data[at + 2];

		at += 3;
		len = len < size - at ? len : size - at;
		MUST(pri_exporters_take(e, &id, data[at - 3] >> 7, data + at, len,
			     1700000000 * PR_NS_PER_S, &err) == 0);
		at += len;
	}
	for (size_t i = 0; (x = pri_exporters_get(e, i)); i++)
		told += x->flows;
	MUST(told == flows);
	pri_exporters_destroy(&e);
	return 0;
}
