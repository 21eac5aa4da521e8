/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/rack/sizing.h"

#include <math.h>

void
sizing_need(const struct sizing *s, struct sizing_need *out)
{
	/* of a mean: packets of which only some are longer than the snap length take less */
	double kept = fmin(s->packet_bytes, s->snaplen);
	double each = kept + SIZING_PACKET_HEAD + SIZING_PACKET_PADDING;

	out->packets_per_s = s->link_bytes / s->packet_bytes;
	out->stored_per_s = out->packets_per_s * each * s->copies *
			    (1 + s->index_percent / 100) / SIZING_USABLE;
	out->node_per_s = out->stored_per_s / s->nodes;
	out->disk_per_s = out->node_per_s / s->disks;
}

double
sizing_kept(const struct sizing *s)
{
	struct sizing_need need;

	sizing_need(s, &need);
	return s->nodes * s->disks * s->disk_bytes / need.stored_per_s;
}

double
sizing_disks(const struct sizing *s, double seconds)
{
	struct sizing_need need;

	sizing_need(s, &need);
	return fmax(1, ceil(need.node_per_s * seconds / s->disk_bytes));
}
