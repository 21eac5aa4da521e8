/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/prepare.h"

#include <string.h>

enum { MACS = 2 * PR_MAC_LEN };

size_t
prd_frame_limit(const uint8_t *frame, size_t len, uint32_t mtu)
{
	bool tagged = len >= PR_ETHER_LEN && frame[12] == 0x81 && frame[13] == 0x00;

	return (size_t)mtu + PR_ETHER_LEN + (tagged ? PRD_VLAN_TAG : 0);
}

/* Too short for an Ethernet header: its bytes travel in the log, a frame of zeros in its place. */
static void
prepare_runt(struct prd_record *rec, struct pr_entry *e)
{
	e->flags |= PR_ENTRY_RUNT;
	e->runt_len = (uint8_t)rec->caplen;
	memcpy(e->runt, rec->data, rec->caplen);
	memset(e->macs, 0, sizeof e->macs);
	memset(rec->data, 0, PR_FRAME_MIN);
}

/* A node would take a tapped frame of our Ethertype for one of ours. */
static void
prepare_escape(const struct prd_prepare *p, struct prd_record *rec, struct pr_entry *e)
{
	size_t at = pr_ethertype_offset(rec->data, rec->caplen);

	if (at == 0 || at + 2 > rec->caplen)
		return;
	if (rec->data[at] != p->ethertype >> 8 ||
		rec->data[at + 1] != (p->ethertype & 0xff))
		return;
	e->flags |= PR_ENTRY_ETHERTYPE;
	e->ethertype = p->ethertype;
	rec->data[at] = PR_ETHERTYPE_ESCAPE >> 8;
	rec->data[at + 1] = PR_ETHERTYPE_ESCAPE & 0xff;
}

static size_t
prepare_length(struct prd_record *rec, uint32_t mtu, struct pr_entry *e)
{
	size_t limit = prd_frame_limit(rec->data, rec->caplen, mtu);

	e->caplen = rec->caplen;
	if (rec->caplen > limit) {
		e->caplen = (uint32_t)limit;
		e->flags |= PR_ENTRY_CUT;
	}
	if (e->caplen >= PR_FRAME_MIN)
		return e->caplen;
	memset(rec->data + e->caplen, 0, PR_FRAME_MIN - e->caplen);
	return PR_FRAME_MIN;
}

size_t
prd_prepare(const struct prd_prepare *p, struct prd_record *rec,
	const uint8_t dst[PR_MAC_LEN], uint32_t mtu, struct pr_entry *e)
{
	size_t len = PR_FRAME_MIN;

	e->flags = e->runt_len = 0;
	e->time = rec->time;
	if (rec->caplen < PR_ETHER_LEN) {
		prepare_runt(rec, e);
		e->caplen = rec->caplen;
	} else {
		memcpy(e->macs, rec->data, MACS);
		prepare_escape(p, rec, e);
		len = prepare_length(rec, mtu, e);
	}
	e->len = rec->len;
	if (e->caplen != len)
		e->flags |= PR_ENTRY_CAPLEN;
	if (e->len != e->caplen)
		e->flags |= PR_ENTRY_LEN;
	memcpy(rec->data, dst, PR_MAC_LEN);
	memcpy(rec->data + PR_MAC_LEN, p->src, PR_MAC_LEN);
	e->fingerprint = pr_fingerprint(rec->data, len, p->epoch);
	return len;
}
