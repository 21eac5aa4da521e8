/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/restore.h"

#include <string.h>

static void
restore_runt(const struct pr_entry *e, struct pr_packet *out)
{
	out->data = e->runt;
	out->caplen = e->runt_len;
	out->len = e->flags & (PR_ENTRY_LEN | PR_ENTRY_CAPLEN) ? e->len : e->runt_len;
}

static void
restore_ethertype(const struct pr_entry *e, uint8_t *data, uint32_t len)
{
	size_t at = pr_ethertype_offset(data, len);

	if (at && at + 2 <= len) {
		data[at] = (uint8_t)(e->ethertype >> 8);
		data[at + 1] = (uint8_t)e->ethertype;
	}
}

bool
prl_restore(const struct pr_entry *e, uint8_t *data, uint32_t len, struct pr_packet *out)
{
	uint32_t caplen = e->flags & PR_ENTRY_CAPLEN ? e->caplen : len;

	*out = (struct pr_packet){.time = e->time, .otime = e->otime, .seq = e->seq};
	if (e->flags & PR_ENTRY_SECOND)
		out->flags |= PR_PACKET_SECOND;
	if (e->flags & PR_ENTRY_CUT)
		out->flags |= PR_PACKET_CUT;
	if (e->flags & PR_ENTRY_RUNT) {
		restore_runt(e, out);
		return true;
	}
	if (caplen > len || len < PR_ETHER_LEN)
		return false;
	memcpy(data, e->macs, sizeof(e->macs));
	if (e->flags & PR_ENTRY_ETHERTYPE)
		restore_ethertype(e, data, len);
	out->data = data;
	out->caplen = caplen;
	out->len = e->flags & (PR_ENTRY_LEN | PR_ENTRY_CAPLEN) ? e->len : caplen;
	return true;
}
