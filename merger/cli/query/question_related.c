/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "indexer/filter/filter.h"
#include "indexer/query/query_message.h"
#include "merger/cli/query/question.h"

/*
 * What could be related to anything: fragments, IPv6 with extension headers (fragments may be behind
 * them), ICMP, tunnels; and on Ethernet tags, labels and PPPoE. By Ethertype, as `vlan` and its like move
 * the offsets of all that stands behind them.
 */
#define CANDIDATES_IP                                                                      \
	"ip[6:2] & 0x3fff != 0 or icmp or icmp6 or ip proto 4 or ip proto 41 or ip proto " \
	"47 or ip6 proto 4 or ip6 proto 41 or ip6 proto 47 or udp dst port 4789 or "       \
	"ip6[6] = 0 or ip6[6] = 43 or ip6[6] = 44 or ip6[6] = 51 or ip6[6] = 60 or "       \
	"ip6[6] = 135"
#define CANDIDATES_TAGGED                                                                  \
	"ether proto 0x8100 or ether proto 0x88a8 or ether proto 0x9100 or ether proto "   \
	"0x8847 or ether proto 0x8848 or ether proto 0x8864"

static struct pri_bpf *
compile(uint16_t linktype, const char *candidates, const char *filter)
{
	struct pri_bpf *program;
	char *text;

	if (asprintf(&text, filter ? "(%s) or (%s)" : "%s", candidates, filter) < 0)
		return NULL;
	program = pri_filter_compile(linktype, 0, text, NULL);
	free(text);
	return program;
}

/* As much as makes sense on this link type; the filter itself may be of another. */
static struct pri_bpf *
widest(uint16_t linktype, const char *filter)
{
	static const char *const candidates[] = {
		CANDIDATES_TAGGED " or " CANDIDATES_IP, CANDIDATES_IP};
	struct pri_bpf *program = NULL;

	for (size_t i = 0; !program && i < 4; i++)
		program = compile(linktype, candidates[i % 2], i < 2 ? filter : NULL);
	return program ? program : pri_filter_compile(linktype, 0, filter, NULL);
}

int
related_programs(const char *filter, const uint16_t *linktypes, size_t count,
	struct pri_bpf_set *out, struct pr_error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct pri_bpf *program = widest(linktypes[i], filter);

		if (program && pri_bpf_set_add(out, program, err) < 0)
			return -1;
	}
	return 0;
}

static int
allocate(struct related_question *q, const struct pr_relations *noted, struct pr_error *err)
{
	q->keys = calloc(noted->count + 1, sizeof(*q->keys));
	q->first = calloc(noted->count + 1, sizeof(*q->first));
	q->lasting = calloc(noted->count + 1, sizeof(*q->lasting));
	q->spans = calloc(2 * noted->span_count + 1, sizeof(*q->spans));
	return q->keys && q->first && q->lasting && q->spans
		       ? 0
		       : pr_error_set(err, "no memory for related packets");
}

int
related_make(struct related_question *q, const struct pr_relations *noted,
	const struct pri_bpf_set *core, struct pr_error *err)
{
	packrack__related__init(&q->message);
	packrack__query__init(&q->core);
	if (allocate(q, noted, err) < 0 || pri_query_set_programs(&q->core, core, err) < 0)
		return -1;
	for (size_t i = 0; i < noted->count; i++) {
		q->keys[i] = noted->keys[i].key;
		q->first[i] = noted->keys[i].first;
		q->lasting[i] =
			(uint64_t)noted->keys[i].last - (uint64_t)noted->keys[i].first;
	}
	for (size_t i = 0; i < noted->span_count; i++) {
		q->spans[2 * i] = noted->spans[i].first;
		q->spans[2 * i + 1] = noted->spans[i].last;
	}
	q->message.core = q->core.programs;
	q->message.n_core = q->core.n_programs;
	q->message.keys = q->keys;
	q->message.first = q->first;
	q->message.lasting = q->lasting;
	q->message.n_keys = q->message.n_first = q->message.n_lasting = noted->count;
	q->message.spans = q->spans;
	q->message.n_spans = 2 * noted->span_count;
	return 0;
}

void
related_free(struct related_question *q)
{
	if (q->core.programs)
		pri_query_message_free(&q->core);
	free(q->keys);
	free(q->first);
	free(q->lasting);
	free(q->spans);
}
