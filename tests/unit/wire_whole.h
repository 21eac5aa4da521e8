/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "proto/base/cursor.h"
#include "proto/wire/frame.h"
#include "proto/wire/segment.h"

/* A frame with its Ethernet header; 0: it does not fit, or cannot be. */
static inline size_t
whole_frame(const struct pr_frame *f, uint16_t ethertype, const struct pr_frame_key *key,
	uint8_t *buf, size_t room)
{
	size_t len = 0;

	if (room >= PR_ETHER_LEN)
		len = pr_frame_encode_payload(
			f, key, buf + PR_ETHER_LEN, room - PR_ETHER_LEN);
	if (len == 0)
		return 0;
	memcpy(buf, f->dst, PR_MAC_LEN);
	memcpy(buf + PR_MAC_LEN, f->src, PR_MAC_LEN);
	pr_put_be16(buf + 2 * PR_MAC_LEN, ethertype);
	return PR_ETHER_LEN + len;
}

/* A source over a segment in memory. */
struct segment_source {
	struct pr_source source;
	struct pr_segment_reader reader;
};

static inline int
segment_source_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	return pr_segment_next(&((struct segment_source *)source)->reader, out, err);
}

static inline void
segment_source_destroy(struct pr_source *source)
{
	free(source);
}

static inline struct pr_source *
segment_source(const void *body, size_t len, struct pr_error *err)
{
	struct segment_source *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->source.next = segment_source_next;
	s->source.destroy = segment_source_destroy;
	if (pr_segment_open(&s->reader, body, len, err) < 0) {
		free(s);
		return NULL;
	}
	return &s->source;
}
