/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "indexer/filter/program.h"
#include "indexer/filter/program_code.h"

/* ---- times ---- */

void
pri_program_put_time(struct pri_insn head[2], const struct pri_program_time *time)
{
	uint64_t bits = (uint64_t)time->time;

	for (unsigned i = 0; i < 2; i++)
		head[i] = (struct pri_insn){.code = LD_TIME,
			.jt = time->after,
			.jf = (uint8_t)i,
			.k = (uint32_t)(bits >> (i ? 0 : 32))};
}

struct pri_program_time
pri_program_time(const struct pri_insn *insns, size_t i)
{
	const struct pri_insn *head = &insns[2 * i];

	return (struct pri_program_time){
		.time = (int64_t)((uint64_t)head[0].k << 32 | head[1].k),
		.after = head[0].jt};
}

/* ---- several programs ---- */

const struct pri_bpf *
pri_programs_find(const struct pri_programs *programs, uint16_t linktype)
{
	for (size_t i = 0; i < programs->count; i++)
		if (pri_program_linktype(programs->items[i]) == linktype)
			return programs->items[i];
	return NULL;
}

int
pri_programs_add(
	struct pri_programs *programs, struct pri_bpf *program, struct pr_error *err)
{
	uint16_t linktype = pri_program_linktype(program);
	struct pri_bpf **items;

	if (pri_programs_find(programs, linktype)) {
		pr_error_set(err, "filter: two programs for link type %u", linktype);
		pri_program_destroy(&program);
		return -1;
	}
	items = realloc(programs->items, (programs->count + 1) * sizeof(*items));
	if (!items) {
		pri_program_destroy(&program);
		return pr_error_set(err, "no memory for a filter");
	}
	programs->items = items;
	items[programs->count++] = program;
	return 0;
}

void
pri_programs_free(struct pri_programs *programs)
{
	for (size_t i = 0; i < programs->count; i++)
		pri_program_destroy(&programs->items[i]);
	free(programs->items);
	*programs = (struct pri_programs){0};
}

static bool
accepts_all(const struct pri_bpf *p)
{
	size_t count;
	const struct pri_insn *insns = pri_program_insns(p, &count);

	return count == 0 || (insns[0].code == RET_K && insns[0].k != 0);
}

bool
pri_programs_all(const struct pri_programs *programs, uint16_t linktype)
{
	const struct pri_bpf *p = pri_programs_find(programs, linktype);

	return programs->count == 0 || (p && accepts_all(p));
}

bool
pri_programs_match(const struct pri_programs *programs, const struct pr_packet *packet)
{
	const struct pri_bpf *p;

	if (programs->count == 0)
		return true;
	p = pri_programs_find(programs, packet->linktype);
	return p && pri_program_match(p, packet);
}
