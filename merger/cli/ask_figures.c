/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/ask.h"

void
ask_add_figures(Packrack__End *sums, const Packrack__End *end)
{
	sums->scanned_packets += end->scanned_packets;
	sums->scanned_bytes += end->scanned_bytes;
	sums->scanned_segments += end->scanned_segments;
	sums->skipped_segments += end->skipped_segments;
	sums->corrupt_records += end->corrupt_records;
	sums->strays += end->strays;
	sums->skipped_level1 += end->skipped_level1;
	sums->skipped_level2 += end->skipped_level2;
	sums->skipped_linktype += end->skipped_linktype;
	sums->skipped_bytes += end->skipped_bytes;
	sums->index_reads += end->index_reads;
	sums->index_bytes += end->index_bytes;
	sums->index_damaged += end->index_damaged;
	sums->counted_packets += end->counted_packets;
}
