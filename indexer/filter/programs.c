/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "indexer/filter/bpf.h"
#include "indexer/filter/bpf_code.h"

/* ---- times ---- */

void
pri_bpf_put_time(struct pri_insn head[2], const struct pri_bpf_time *time)
{
	uint64_t bits = (uint64_t)time->time;

	for (unsigned i = 0; i < 2; i++)
		head[i] = (struct pri_insn){.code = LD_TIME,
			.jt = time->after,
			.jf = (uint8_t)i,
			.k = (uint32_t)(bits >> (i ? 0 : 32))};
}

struct pri_bpf_time
pri_bpf_time(const struct pri_insn *insns, size_t i)
{
	const struct pri_insn *head = &insns[2 * i];

	return (struct pri_bpf_time){
		.time = (int64_t)((uint64_t)head[0].k << 32 | head[1].k),
		.after = head[0].jt};
}

/* ---- several programs ---- */

const struct pri_bpf *
pri_bpf_set_find(const struct pri_bpf_set *programs, uint16_t linktype)
{
	for (size_t i = 0; i < programs->count; i++)
		if (pri_bpf_linktype(programs->items[i]) == linktype)
			return programs->items[i];
	return NULL;
}

int
pri_bpf_set_add(struct pri_bpf_set *programs, struct pri_bpf *program, struct pr_error *err)
{
	uint16_t linktype = pri_bpf_linktype(program);
	struct pri_bpf **items;

	if (pri_bpf_set_find(programs, linktype)) {
		pr_error_set(err, "filter: two programs for link type %u", linktype);
		pri_bpf_destroy(&program);
		return -1;
	}
	items = realloc(programs->items, (programs->count + 1) * sizeof(*items));
	if (!items) {
		pri_bpf_destroy(&program);
		return pr_error_set(err, "no memory for a filter");
	}
	programs->items = items;
	items[programs->count++] = program;
	return 0;
}

void
pri_bpf_set_free(struct pri_bpf_set *programs)
{
	for (size_t i = 0; i < programs->count; i++)
		pri_bpf_destroy(&programs->items[i]);
	free(programs->items);
	*programs = (struct pri_bpf_set){0};
}

static bool
accepts_all(const struct pri_bpf *p)
{
	size_t count;
	const struct pri_insn *insns = pri_bpf_insns(p, &count);

	return count == 0 || (insns[0].code == RET_K && insns[0].k != 0);
}

bool
pri_bpf_set_all(const struct pri_bpf_set *programs, uint16_t linktype)
{
	const struct pri_bpf *p = pri_bpf_set_find(programs, linktype);

	return programs->count == 0 || (p && accepts_all(p));
}

bool
pri_bpf_set_match(const struct pri_bpf_set *programs, const struct pr_packet *packet)
{
	const struct pri_bpf *p;

	if (programs->count == 0)
		return true;
	p = pri_bpf_set_find(programs, packet->linktype);
	return p && pri_bpf_match(p, packet);
}
