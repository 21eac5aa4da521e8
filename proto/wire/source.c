/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/source.h"

#define THREE_WAY(a, b) (((a) > (b)) - ((a) < (b)))

int
pr_packet_compare(const struct pr_packet *a, const struct pr_packet *b)
{
	if (a->otime != b->otime)
		return THREE_WAY(a->otime, b->otime);
	if (a->link != b->link)
		return THREE_WAY(a->link, b->link);
	if (a->epoch != b->epoch)
		return THREE_WAY(a->epoch, b->epoch);
	return THREE_WAY(a->seq, b->seq);
}

void
pr_source_destroy(struct pr_source **source)
{
	if (*source)
		(*source)->destroy(*source);
	*source = NULL;
}
