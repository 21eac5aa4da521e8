/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_internal.h"

/* What is done with a packet that the merge has come to. */

int
pri_query_tally(struct pri_query *q, const struct pri_line *line, uint64_t sequence,
	const struct pr_packet *p, struct pr_error *err)
{
	if (!q->spec.tally || sequence < line->counted)
		return 0;
	return pri_tally_key_count(q->spec.tally, q->spec.group, q->spec.step, p, err);
}

/* By the filter itself, or by belonging to what it matches; p->flags tell which. */
static bool
matches_or_related(struct pri_query *q, struct pr_packet *p)
{
	if (!q->spec.relations)
		return pri_bpf_set_match(&q->spec.programs, p);
	if (pri_bpf_set_match(&q->spec.core, p))
		return true;
	if (!pri_bpf_set_match(&q->spec.programs, p))
		return false;
	p->flags |= pr_relations_test(q->spec.relations, p);
	q->figures.related += (p->flags & PR_PACKET_RELATED) != 0;
	return p->flags & PR_PACKET_RELATED;
}

bool
pri_query_matches(struct pri_query *q, const struct pri_line *line, enum pri_judged judged,
	struct pr_packet *p)
{
	if (p->time < q->spec.since || p->time > q->spec.until)
		return false;
	if (line->run->strays) {
		q->figures.strays++;
		if (!q->spec.strays)
			return false;
	}
	return judged == PRI_JUDGED_NOT ? matches_or_related(q, p)
					: judged == PRI_JUDGED_YES;
}
