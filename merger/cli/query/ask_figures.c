/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <stdio.h>
#include <string.h>

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

void
ask_put_figures(Packrack__NodeAnswer *node, const Packrack__End *end)
{
	node->stopped = false;
	node->matched = end->matched;
	node->scanned_packets = end->scanned_packets;
	node->scanned_bytes = end->scanned_bytes;
	node->scanned_segments = end->scanned_segments;
	node->skipped_segments = end->skipped_segments;
	node->skipped_bytes = end->skipped_bytes;
}

void
ask_warn_link(const struct query_args *a, Packrack__LinkInfo *const *links, size_t count)
{
	char number[16];

	if (!a->link || a->follow)
		return;
	for (size_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%u", links[i]->link);
		if (!strcmp(a->link, links[i]->name) || !strcmp(a->link, number))
			return;
	}
	fprintf(stderr, "packrack: no link is called %s, so far\n", a->link);
}
