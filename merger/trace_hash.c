/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/trace_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "proto/wire/cursor.h"

#define HEAD 24

struct prm_trace_hash {
	XXH3_state_t *state;
};

struct prm_trace_hash *
prm_trace_hash_create(struct pr_error *err)
{
	struct prm_trace_hash *h = calloc(1, sizeof(*h));

	if (h)
		h->state = XXH3_createState();
	if (h && h->state && XXH3_128bits_reset(h->state) == XXH_OK)
		return h;
	prm_trace_hash_destroy(&h);
	pr_error_set(err, "no memory for the hash of a trace");
	return NULL;
}

void
prm_trace_hash_destroy(struct prm_trace_hash **hp)
{
	struct prm_trace_hash *h = *hp;

	*hp = NULL;
	if (!h)
		return;
	XXH3_freeState(h->state);
	free(h);
}

void
prm_trace_hash_add(struct prm_trace_hash *h, const struct pr_packet *p)
{
	uint8_t head[HEAD];

	pr_put_le64(head, (uint64_t)p->time);
	pr_put_le32(head + 8, p->caplen);
	pr_put_le32(head + 12, p->len);
	pr_put_le32(head + 16, p->linktype);
	pr_put_le32(head + 20, 0);
	XXH3_128bits_update(h->state, head, sizeof(head));
	XXH3_128bits_update(h->state, p->data, p->caplen);
}

char *
prm_trace_hash_text(const struct prm_trace_hash *h, char out[PRM_TRACE_HASH_TEXT])
{
	XXH128_hash_t sum = XXH3_128bits_digest(h->state);

	snprintf(out, PRM_TRACE_HASH_TEXT, "xxh3-128/1:%016llx%016llx",
		(unsigned long long)sum.high64, (unsigned long long)sum.low64);
	return out;
}
