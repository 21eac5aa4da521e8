/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/query_message.h"

#include <stdlib.h>

static struct pri_bpf *
program_from_message(const Packrack__Program *message, struct pr_error *err)
{
	size_t count = message->n_instructions;
	struct pri_insn *insns = calloc(count ? count : 1, sizeof(*insns));
	struct pri_bpf *program;

	if (!insns) {
		pr_error_set(err, "no memory for a filter");
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		const Packrack__Instruction *in = message->instructions[i];
		insns[i] = (struct pri_insn){.code = (uint16_t)in->code,
			.jt = (uint8_t)in->jt,
			.jf = (uint8_t)in->jf,
			.k = in->k};
	}
	program = pri_bpf_create((uint16_t)message->linktype, insns, count, err);
	free(insns);
	return program;
}

static int
programs_from_message(Packrack__Program *const *list, size_t count, struct pri_bpf_set *out,
	struct pr_error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct pri_bpf *program = program_from_message(list[i], err);

		if (!program || pri_bpf_set_add(out, program, err) < 0)
			return -1;
	}
	return 0;
}

/* Counts agree, which the message's check has seen to. */
static int
relations_from_message(
	const Packrack__Related *m, struct pr_relations *out, struct pr_error *err)
{
	out->keys = calloc(m->n_keys + 1, sizeof(*out->keys));
	out->spans = calloc(m->n_spans / 2 + 1, sizeof(*out->spans));
	if (!out->keys || !out->spans)
		return pr_error_set(err, "no memory for related packets");
	for (size_t i = 0; i < m->n_keys; i++)
		if (m->lasting[i] > INT64_MAX ||
			__builtin_add_overflow(
				m->first[i], (int64_t)m->lasting[i], &out->keys[i].last))
			return pr_error_set(err, "related packets that never end");
	for (size_t i = 0; i < m->n_keys; i++) {
		out->keys[i].key = m->keys[i];
		out->keys[i].first = m->first[i];
	}
	for (size_t i = 0; i < m->n_spans / 2; i++)
		out->spans[i] =
			(struct pr_relation_span){m->spans[2 * i], m->spans[2 * i + 1]};
	out->count = m->n_keys;
	out->span_count = m->n_spans / 2;
	return pr_relations_valid(out)
		       ? 0
		       : pr_error_set(err, "related packets that are not in order");
}

static int
take_related(const Packrack__Related *m, struct pri_query_spec *out, struct pr_error *err)
{
	out->relations = calloc(1, sizeof(*out->relations));
	if (!out->relations)
		return pr_error_set(err, "no memory for related packets");
	if (m->n_first != m->n_keys || m->n_lasting != m->n_keys)
		return pr_error_set(err, "related packets without times");
	if (programs_from_message(m->core, m->n_core, &out->core, err) < 0)
		return -1;
	return relations_from_message(m, out->relations, err);
}

int
pri_query_from_message(
	const Packrack__Query *message, struct pri_query_spec *out, struct pr_error *err)
{
	*out = (struct pri_query_spec){.since = message->since,
		.until = message->until,
		.limit = message->limit,
		.link = message->link,
		.strays = message->strays};
	if (programs_from_message(
		    message->programs, message->n_programs, &out->programs, err) < 0 ||
		(message->related && take_related(message->related, out, err) < 0)) {
		pri_query_spec_free(out);
		return -1;
	}
	return 0;
}

/* One piece of memory a program: the message, its pointers, its instructions. */
static Packrack__Program *
program_to_message(const struct pri_bpf *program)
{
	struct whole {
		Packrack__Program message;
		Packrack__Instruction in[];
	} * whole;
	Packrack__Instruction **pointers;
	const struct pri_insn *insns = program->insns;
	size_t count = program->count;

	whole = malloc(sizeof(*whole) + count * (sizeof(*whole->in) + sizeof(*pointers)));
	if (!whole)
		return NULL;
	pointers = (Packrack__Instruction **)(whole->in + count);
	packrack__program__init(&whole->message);
	whole->message.linktype = program->linktype;
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
pri_query_set_programs(
	Packrack__Query *message, const struct pri_bpf_set *programs, struct pr_error *err)
{
	message->programs = calloc(programs->count + 1, sizeof(*message->programs));
	message->n_programs = 0;
	if (!message->programs)
		return pr_error_set(err, "no memory for a filter");
	for (size_t i = 0; i < programs->count; i++) {
		message->programs[i] = program_to_message(programs->items[i]);
		if (!message->programs[i]) {
			pri_query_message_free(message);
			return pr_error_set(err, "no memory for a filter");
		}
		message->n_programs++;
	}
	return 0;
}

void
pri_query_message_free(Packrack__Query *message)
{
	for (size_t i = 0; i < message->n_programs; i++)
		free(message->programs[i]);
	free(message->programs);
	message->programs = NULL;
	message->n_programs = 0;
}
