/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "indexer/program.h"
#include "indexer/program_code.h"

/* ---- times ---- */

void
pr_program_put_time(struct pr_insn head[2], const struct pr_program_time *time)
{
	uint64_t bits = (uint64_t)time->time;

	for (unsigned i = 0; i < 2; i++)
		head[i] = (struct pr_insn){.code = LD_TIME,
			.jt = time->after,
			.jf = (uint8_t)i,
			.k = (uint32_t)(bits >> (i ? 0 : 32))};
}

struct pr_program_time
pr_program_time(const struct pr_insn *insns, size_t i)
{
	const struct pr_insn *head = &insns[2 * i];

	return (struct pr_program_time){
		.time = (int64_t)((uint64_t)head[0].k << 32 | head[1].k),
		.after = head[0].jt};
}

/* ---- several programs ---- */

const struct pr_program *
pr_programs_find(const struct pr_programs *programs, uint16_t linktype)
{
	for (size_t i = 0; i < programs->count; i++)
		if (pr_program_linktype(programs->items[i]) == linktype)
			return programs->items[i];
	return NULL;
}

int
pr_programs_add(
	struct pr_programs *programs, struct pr_program *program, struct pr_error *err)
{
	uint16_t linktype = pr_program_linktype(program);
	struct pr_program **items;

	if (pr_programs_find(programs, linktype)) {
		pr_error_set(err, "filter: two programs for link type %u", linktype);
		pr_program_destroy(&program);
		return -1;
	}
	items = realloc(programs->items, (programs->count + 1) * sizeof(*items));
	if (!items) {
		pr_program_destroy(&program);
		return pr_error_set(err, "no memory for a filter");
	}
	programs->items = items;
	items[programs->count++] = program;
	return 0;
}

void
pr_programs_free(struct pr_programs *programs)
{
	for (size_t i = 0; i < programs->count; i++)
		pr_program_destroy(&programs->items[i]);
	free(programs->items);
	*programs = (struct pr_programs){0};
}

static bool
accepts_all(const struct pr_program *p)
{
	size_t count;
	const struct pr_insn *insns = pr_program_insns(p, &count);

	return count == 0 || (insns[0].code == RET_K && insns[0].k != 0);
}

bool
pr_programs_all(const struct pr_programs *programs, uint16_t linktype)
{
	const struct pr_program *p = pr_programs_find(programs, linktype);

	return programs->count == 0 || (p && accepts_all(p));
}

bool
pr_programs_match(const struct pr_programs *programs, const struct pr_packet *packet)
{
	const struct pr_program *p;

	if (programs->count == 0)
		return true;
	p = pr_programs_find(programs, packet->linktype);
	return p && pr_program_match(p, packet);
}
