/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query_message.h"

#include <stdlib.h>

static struct pr_program *
program_from_message(const Packrack__Program *message, struct pr_error *err)
{
	size_t count = message->n_instructions;
	struct pr_insn *insns = calloc(count ? count : 1, sizeof(*insns));
	struct pr_program *program;

	if (!insns) {
		pr_error_set(err, "no memory for a filter");
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		const Packrack__Instruction *in = message->instructions[i];
		insns[i] = (struct pr_insn){.code = (uint16_t)in->code,
			.jt = (uint8_t)in->jt,
			.jf = (uint8_t)in->jf,
			.k = in->k};
	}
	program = pr_program_create((uint16_t)message->linktype, insns, count, err);
	free(insns);
	return program;
}

int
pr_query_from_message(
	const Packrack__Query *message, struct pr_query_spec *out, struct pr_error *err)
{
	struct pr_program *program;

	*out = (struct pr_query_spec){.since = message->since,
		.until = message->until,
		.limit = message->limit,
		.link = message->link,
		.strays = message->strays};
	for (size_t i = 0; i < message->n_programs; i++) {
		program = program_from_message(message->programs[i], err);
		if (!program || pr_programs_add(&out->programs, program, err) < 0) {
			pr_programs_free(&out->programs);
			return -1;
		}
	}
	return 0;
}

/* One piece of memory a program: the message, its pointers, its instructions. */
static Packrack__Program *
program_to_message(const struct pr_program *program)
{
	struct whole {
		Packrack__Program message;
		Packrack__Instruction in[];
	} * whole;
	Packrack__Instruction **pointers;
	size_t count;
	const struct pr_insn *insns = pr_program_insns(program, &count);

	whole = malloc(sizeof(*whole) + count * (sizeof(*whole->in) + sizeof(*pointers)));
	if (!whole)
		return NULL;
	pointers = (Packrack__Instruction **)(whole->in + count);
	packrack__program__init(&whole->message);
	whole->message.linktype = pr_program_linktype(program);
	whole->message.n_instructions = count;
	whole->message.instructions = pointers;
	for (size_t i = 0; i < count; i++) {
		packrack__instruction__init(&whole->in[i]);
		whole->in[i].code = insns[i].code;
		whole->in[i].jt = insns[i].jt;
		whole->in[i].jf = insns[i].jf;
		whole->in[i].k = insns[i].k;
		pointers[i] = &whole->in[i];
	}
	return &whole->message;
}

int
pr_query_set_programs(
	Packrack__Query *message, const struct pr_programs *programs, struct pr_error *err)
{
	message->programs = calloc(programs->count + 1, sizeof(*message->programs));
	message->n_programs = 0;
	if (!message->programs)
		return pr_error_set(err, "no memory for a filter");
	for (size_t i = 0; i < programs->count; i++) {
		message->programs[i] = program_to_message(programs->items[i]);
		if (!message->programs[i]) {
			pr_query_message_free(message);
			return pr_error_set(err, "no memory for a filter");
		}
		message->n_programs++;
	}
	return 0;
}

void
pr_query_message_free(Packrack__Query *message)
{
	for (size_t i = 0; i < message->n_programs; i++)
		free(message->programs[i]);
	free(message->programs);
	message->programs = NULL;
	message->n_programs = 0;
}
