/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "indexer/stages/packrack-stage.h"
#include "proto/base/array.h"
#include "proto/base/text.h"
#include "proto/wire/decode.h"
#include "proto/wire/source.h"

/* What the stages of packrack share. */
extern const struct packrack_stage pri_stage_count, pri_stage_flows, pri_stage_http,
	pri_stage_rtt, pri_stage_detect, pri_stage_grep, pri_stage_anonymize;

/* The value of KEY=VALUE; NULL: not given. The last one counts. */
const char *pri_stage_option(const char *const *options, const char *key);

/*
 * `count` packets or the like were seen. name: what there is, about; name_error: half of the interval that has it at 95 %, if
 * a sample of 1 in `scale` was taken (each for itself: the estimate's variance is count * scale * (scale - 1)).
 */
void pri_stage_put(json_t *to, const char *name, uint64_t count, uint32_t scale);

struct pri_stage_tally {
	uint64_t packets, bytes;
};
/* Packets, and bytes, as an object of this name; NULL: into `to`. */
void pri_stage_put_tally(
	json_t *to, const char *name, const struct pri_stage_tally *t, uint32_t scale);

/* A report as text; drops it. */
char *pri_stage_text(json_t *report);

/* The packet as decoders and flows take it. */
static inline struct pr_packet
pri_stage_packet_of(const struct packrack_packet *p)
{
	struct pr_packet out = {.otime = p->time, .data = p->data};

	PR_COPY(&out, p, time, seq, caplen, len, linktype, link);
	return out;
}

static inline void
pri_stage_add(struct pri_stage_tally *to, const struct pri_stage_tally *more, size_t count)
{
	for (size_t i = 0; i < count; i++)
		PR_ADD(&to[i], &more[i], packets, bytes);
}
