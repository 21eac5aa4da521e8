/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>

#include "indexer/flows/flow_columns.h"

/* Packs the batch and unpacks it into another one, as a reader of a volume does. False: it is another one then. */
static inline bool
batch_again(struct pri_batch *from, struct pri_batch *to)
{
	pri_batch_end(from);

	size_t room = 4096 + 9 * (from->rows + from->addresses), len;
	uint8_t *packed = malloc(room);
	uint64_t least, most;
	bool same = packed;

	to->rows = from->rows;
	to->addresses = from->addresses;
	for (unsigned i = 0; i < PRI_COLUMNS && same; i++) {
		/* the list of addresses before their places */
		unsigned c = (i + PRI_COL_HIGH) % PRI_COLUMNS;
		size_t n = pri_column_is_address(c) ? from->addresses : from->rows;

		len = pri_column_pack(from, c, &least, &most, packed, room);
		same = len != SIZE_MAX &&
		       pri_column_unpack(to, c, least, most, packed, len);
		for (size_t r = 0; r < n && same; r++)
			same = to->values[c][r] == from->values[c][len ? r : 0];
	}
	free(packed);
	return same;
}
