/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/question.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"

#define ETHERNET 1

/*
 * Link types as in pcap files: Ethernet, 802.11 with radiotap, Linux cooked, raw IP, PPP, 802.11, ATM,
 * loopback, and those that alone have some filters: `on eth0` pflog, `vpi 0` SunATM, `fisu` MTP2,
 * `ifindex 1` Linux cooked v2.
 */
static const uint16_t common[] = {
	ETHERNET, 127, 113, 101, 9, 105, 100, 0, 117, 123, 140, 276};

int
question_check(const struct query_args *a, struct pr_error *err)
{
	if (!a->filter[0] || a->checked)
		return 0;
	return pri_filter_check(common, sizeof(common) / sizeof(common[0]), a->filter, err);
}

static size_t
instruction_count(const struct pri_bpf_set *programs)
{
	size_t all = 0, count;

	for (size_t i = 0; i < programs->count; i++) {
		pri_bpf_insns(programs->items[i], &count);
		all += count;
	}
	return all;
}

/* Programs as messages: three flat arrays, so that freeing is simple. */
static int
fill(struct question *q, struct pr_error *err)
{
	size_t all = instruction_count(&q->programs), used = 0, count;

	q->room = calloc(q->programs.count + 1, sizeof(*q->room));
	q->list = calloc(q->programs.count + 1, sizeof(*q->list));
	q->instruction_room = calloc(all + 1, sizeof(*q->instruction_room));
	q->instructions = calloc(all + 1, sizeof(*q->instructions));
	if (!q->room || !q->list || !q->instruction_room || !q->instructions)
		return pr_error_set(err, "no memory for the filter");
	for (size_t i = 0; i < q->programs.count; i++) {
		const struct pri_insn *insns = pri_bpf_insns(q->programs.items[i], &count);
		Packrack__Program *p = q->list[i] = &q->room[i];

		packrack__program__init(p);
		p->linktype = pri_bpf_linktype(q->programs.items[i]);
		p->instructions = q->instructions + used;
		p->n_instructions = count;
		for (size_t j = 0; j < count; j++, used++) {
			Packrack__Instruction *in = q->instructions[used] =
				&q->instruction_room[used];

			packrack__instruction__init(in);
			in->code = insns[j].code;
			in->jt = insns[j].jt;
			in->jf = insns[j].jf;
			in->k = insns[j].k;
		}
	}
	q->query.programs = q->list;
	q->query.n_programs = q->programs.count;
	return 0;
}

/* The filter's programs become the core of the question, and wider ones take their place. */
static int
relate(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	struct pri_bpf_set core = q->programs;
	int rc;

	q->programs = (struct pri_bpf_set){0};
	rc = related_programs(a->filter, linktypes, count, &q->programs, err);
	if (rc == 0)
		rc = related_make(&q->related, a->noted, &core, err);
	pri_bpf_set_free(&core);
	q->query.related = rc == 0 ? &q->related.message : NULL;
	return rc;
}

/* Its beginning, in whole characters. */
static void
put_text(char text[QUESTION_TEXT], const char *filter)
{
	size_t len = strlen(filter);

	if (len >= QUESTION_TEXT)
		for (len = QUESTION_TEXT - 4; len && (filter[len] & 0xc0) == 0x80;)
			len--;
	memcpy(text, filter, len);
	strcpy(text + len, filter[len] ? "..." : "");
}

int
question_make(struct question *q, const struct query_args *a, const uint16_t *linktypes,
	size_t count, struct pr_error *err)
{
	static const uint16_t ethernet = ETHERNET;

	*q = (struct question){.programs = {0}};
	packrack__query__init(&q->query);
	q->query.since = a->since;
	q->query.until = a->until;
	q->query.limit = a->limit;
	q->query.link = a->link ? a->link : (char *)"";
	q->query.strays = a->strays;
	q->query.count_only =
		!a->note && (a->count || (!a->write && query_form(a) != RENDER_TEXT));
	q->query.nodes = a->nodes.items;
	q->query.n_nodes = a->nodes.count;
	q->query.text = q->text;
	put_text(q->text, a->filter);
	packrack__tally_spec__init(&q->tally);
	q->tally.group = (uint32_t)a->tally.group;
	q->tally.step = a->tally.step;
	q->tally.best = (uint32_t)a->tally.best;
	q->tally.by_packets = a->tally.by_packets;
	q->tally.exact = a->tally.exact;
	q->query.tally = a->tally.group ? &q->tally : NULL;
	q->query.count_only |= a->tally.group != 0;
	q->query.follow = a->follow;
	if (!a->filter[0])
		return 0;
	if (!count) {
		linktypes = &ethernet;
		count = 1;
	}
	if (pri_filter_compile_all(linktypes, count, a->filter, &q->programs, err) < 0 ||
		(a->noted && relate(q, a, linktypes, count, err) < 0))
		return -1;
	if (fill(q, err) < 0 || lookups_make(&q->lookups, &q->programs, err) < 0)
		return -1;
	q->query.lookups = q->lookups.list;
	q->query.n_lookups = q->lookups.count;
	return 0;
}

int
question_explain(const struct question *q, const struct query_args *a,
	struct pri_plans *plans, struct pr_error *err)
{
	return a->explain ? pri_plans_create(&q->programs, plans, err) : 0;
}

void
question_free(struct question *q)
{
	pri_bpf_set_free(&q->programs);
	related_free(&q->related);
	free(q->room);
	free(q->list);
	free(q->instruction_room);
	free(q->instructions);
	lookups_free(&q->lookups);
}
