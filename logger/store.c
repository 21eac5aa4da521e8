/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/store.h"

#include "proto/wire/segment.h"

/* What a volume does not take is not to be declared lost: it still lies where it came from. */
static int
check(struct sfs *sfs, const void *body, size_t len, struct pr_error *err)
{
	size_t most = sfs_record_max(sfs);
	struct pr_segment_reader r;
	struct pr_packet p;
	int rc;

	if (pr_segment_open(&r, body, len, err) < 0)
		return -1;
	if (!(r.header.flags & PR_SEGMENT_MIXED))
		return pr_error_set(err, "packets of one link, where a mixed lot is due");
	while ((rc = pr_segment_next(&r, &p, err)) == 1) {
		if (p.link == PRL_STRAY_LINK || p.seq == 0)
			return pr_error_set(err, "a packet without a number");
		if (PR_SEGMENT_HEADER + pr_segment_cost(p.caplen) > most)
			return pr_error_set(err,
				"a packet of %u bytes is too long for a block of the "
				"volume",
				p.caplen);
	}
	return rc;
}

int
prl_store_packets(struct sfs *sfs, struct prl_append *append, const void *body, size_t len,
	struct pr_error *err)
{
	struct pr_segment_reader r;
	struct pr_packet p;

	if (prl_append_suspended(append))
		return pr_error_set(err, "%s", prl_append_suspended(append));
	if (check(sfs, body, len, err) < 0 || pr_segment_open(&r, body, len, err) < 0)
		return -1;
	while (pr_segment_next(&r, &p, err) == 1)
		if (prl_append_packet(append, &p) < 0)
			return pr_error_set(err, "%s",
				prl_append_suspended(append)
					? prl_append_suspended(append)
					: "the volume does not take it");
	return 0;
}
