/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan_place.h"

#include <string.h>

#include "indexer/filter/plan_field.h"
#include "indexer/filter/bpf_code.h"

static const struct pri_value any = {.form = PRI_VALUE_ANY};

void
pri_place_start(struct pri_place *place, const struct pri_linktype_layout *layout)
{
	*place = (struct pri_place){.net_is = PRI_NET_OTHER};
	/* registers begin as 0 */
	place->a.form = place->x.form = PRI_VALUE_CONSTANT;
	if (!layout)
		return;
	place->net_is = layout->form == PRI_TYPE_NIBBLE ? PRI_NET_NIBBLE : PRI_NET_TYPE;
	place->type_at = layout->type_at;
	place->net = layout->net_at;
}

/* ---- instructions ---- */

#define FAR 0xf000u /* what lies further in a packet has no keys; keeps sums short */

static uint32_t
all_bits(unsigned size)
{
	return size == 4 ? UINT32_MAX : (1u << 8 * size) - 1;
}

static struct pri_value
loaded(uint64_t at, unsigned size)
{
	if (size == 4 && pri_bpf_time_at(at) < PRI_TIMES_MAX)
		return (struct pri_value){
			.form = PRI_VALUE_TIME, .at = (uint32_t)pri_bpf_time_at(at)};
	if (at > FAR)
		return any;
	return (struct pri_value){.form = PRI_VALUE_LOAD,
		.size = (uint8_t)size,
		.at = (uint32_t)at,
		.mask = all_bits(size)};
}

static struct pri_value
loaded_behind(const struct pri_value *x, uint32_t k, unsigned size)
{
	struct pri_value v;

	if (x->form == PRI_VALUE_CONSTANT)
		return loaded((uint64_t)x->at + k, size);
	if (x->form != PRI_VALUE_HEADER)
		return any;
	v = loaded(k, size);
	if (v.form == PRI_VALUE_LOAD) {
		v.form = PRI_VALUE_LOAD_BEHIND;
		v.base = (uint16_t)x->at;
	}
	return v;
}

static struct pri_value
constant(uint32_t k)
{
	return (struct pri_value){.form = PRI_VALUE_CONSTANT, .at = k};
}

static struct pri_value
computed(const struct pri_value *a, const struct pri_insn *in)
{
	struct pri_value v = *a;

	if (v.form != PRI_VALUE_LOAD && v.form != PRI_VALUE_LOAD_BEHIND)
		return any;
	if (in->code == AND_K) {
		v.mask &= (uint32_t)((uint64_t)in->k << v.shift);
		return v;
	}
	if (in->code != RSH_K || v.shift + in->k > 31)
		return any;
	v.shift = (uint8_t)(v.shift + in->k);
	v.mask &= UINT32_MAX << v.shift;
	return v;
}

static void
step_load(struct pri_place *p, const struct pri_insn *in)
{
	switch (in->code) {
	case LD_W_ABS:
	case LD_H_ABS:
	case LD_B_ABS:
		p->a = loaded(in->k, in->code == LD_W_ABS   ? 4
				     : in->code == LD_H_ABS ? 2
							    : 1);
		break;
	case LD_W_IND:
	case LD_H_IND:
	case LD_B_IND:
		p->a = loaded_behind(&p->x, in->k,
			in->code == LD_W_IND   ? 4
			: in->code == LD_H_IND ? 2
					       : 1);
		break;
	case LD_LEN:
		p->a = (struct pri_value){.form = PRI_VALUE_LENGTH};
		break;
	case LD_TIME:
		p->a = any;
		break;
	case LD_IMM:
		p->a = constant(in->k);
		break;
	case LDX_IMM:
		p->x = constant(in->k);
		break;
	case LDX_LEN:
		p->x = (struct pri_value){.form = PRI_VALUE_LENGTH};
		break;
	case LDX_MSH:
		p->x = in->k > FAR
			       ? any
			       : (struct pri_value){.form = PRI_VALUE_HEADER, .at = in->k};
		break;
	case LDX_MEM:
		p->x = any;
		break;
	default: /* LD_MEM */
		p->a = any;
	}
}

void
pri_place_step(struct pri_place *p, const struct pri_insn *in)
{
	switch (in->code & CLASS_MASK) {
	case CLASS_LD:
	case CLASS_LDX:
		step_load(p, in);
		break;
	case CLASS_ALU:
		p->a = computed(&p->a, in);
		break;
	case CLASS_MISC:
		if (in->code == TAX)
			p->x = p->a;
		else
			p->a = p->x;
		break;
	default: /* stores: what is loaded from memory is not followed */
		break;
	}
}

/* ---- branches ---- */

/* The register's value lies in [least, most]. */
static uint32_t
within(const struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t least,
	uint32_t most, struct pri_terms *terms)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_RANGE,
		.range = {.number = PRI_NUMBER_LENGTH, .least = least, .most = most}};

	if (p->a.form == PRI_VALUE_LENGTH)
		return pri_term_leaf(terms, &leaf);
	if (!layout || p->a.shift || p->a.mask != all_bits(p->a.size ? p->a.size : 1))
		return PRI_TERM_TRUE;
	return pri_field_within(p, least, most, terms);
}

/* The register's bits under bits (of the value as loaded) are those of value. */
static uint32_t
equals(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t bits,
	uint32_t value, struct pri_terms *terms)
{
	return layout ? pri_field_equals(p, layout, bits, value, terms) : PRI_TERM_TRUE;
}

static uint32_t
branch_equal(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t k,
	bool taken, struct pri_terms *terms)
{
	uint32_t mask = p->a.mask, value = k << p->a.shift;

	if (taken) {
		if (value >> p->a.shift != k || value & ~mask)
			return PRI_TERM_FALSE;
		return equals(p, layout, mask, value, terms);
	}
	if (layout && mask == UINT32_MAX)
		return pri_field_differs(p, k, terms);
	if (mask & (mask - 1) || !mask || value & ~mask)
		return PRI_TERM_TRUE;
	return equals(p, layout, mask, value ^ mask, terms); /* one bit: it is the other */
}

static uint32_t
branch_bits(struct pri_place *p, const struct pri_linktype_layout *layout, uint32_t k,
	bool taken, struct pri_terms *terms)
{
	uint32_t bits = (uint32_t)((uint64_t)k << p->a.shift) & p->a.mask;

	if (!taken)
		return bits ? equals(p, layout, bits, 0, terms) : PRI_TERM_TRUE;
	if (!bits)
		return PRI_TERM_FALSE;
	if (!(bits & (bits - 1)))
		return equals(p, layout, bits, bits, terms);
	return layout ? pri_field_any_bit(p, bits, terms) : PRI_TERM_TRUE;
}

static uint32_t
branch_order(const struct pri_place *p, const struct pri_linktype_layout *layout,
	uint64_t from, bool taken, struct pri_terms *terms)
{
	uint32_t most = p->a.form == PRI_VALUE_LENGTH ? UINT32_MAX : all_bits(p->a.size);

	if (taken)
		return from > most ? PRI_TERM_FALSE
				   : within(p, layout, (uint32_t)from, most, terms);
	if (from == 0)
		return PRI_TERM_FALSE;
	return from > most ? PRI_TERM_TRUE
			   : within(p, layout, 0, (uint32_t)from - 1, terms);
}

/* libpcap tests a term for 1; its range is the catalog's to look up. */
static uint32_t
branch_time(const struct pri_place *p, unsigned op, uint32_t k, bool taken,
	struct pri_terms *terms)
{
	struct pri_term_leaf leaf = {.op = PRI_PLAN_RANGE,
		.range = {
			.number = PRI_NUMBER_TIME, .least = INT64_MIN, .most = INT64_MAX}};
	struct pri_plan_range *r = &leaf.range;
	struct pri_bpf_time t;

	if (op != OP_JEQ || k != 1 || p->a.at >= terms->time_count)
		return PRI_TERM_TRUE;
	t = pri_bpf_time(terms->times, p->a.at);
	if (!taken && t.time == (t.after ? INT64_MIN : INT64_MAX))
		return PRI_TERM_FALSE;
	if (t.after == taken)
		r->least = taken ? t.time : t.time + 1;
	else
		r->most = taken ? t.time : t.time - 1;
	return pri_term_leaf(terms, &leaf);
}

static bool
holds(uint32_t a, unsigned op, uint32_t k)
{
	return op == OP_JEQ   ? a == k
	       : op == OP_JGT ? a > k
	       : op == OP_JGE ? a >= k
			      : (a & k) != 0;
}

uint32_t
pri_place_branch(struct pri_place *p, const struct pri_linktype_layout *layout,
	const struct pri_insn *in, bool taken, struct pri_terms *terms)
{
	unsigned op = in->code & OP_MASK, form = p->a.form;
	uint32_t k = in->k;

	if (in->code & SOURCE_X) {
		if (p->x.form != PRI_VALUE_CONSTANT)
			return PRI_TERM_TRUE;
		k = p->x.at;
	}
	if (form == PRI_VALUE_CONSTANT)
		return holds(p->a.at, op, k) == taken ? PRI_TERM_TRUE : PRI_TERM_FALSE;
	if (form == PRI_VALUE_TIME)
		return branch_time(p, op, k, taken, terms);
	if (form == PRI_VALUE_LENGTH && op == OP_JEQ)
		return taken ? within(p, layout, k, k, terms) : PRI_TERM_TRUE;
	if (op == OP_JGT || op == OP_JGE) {
		if (form == PRI_VALUE_ANY || form == PRI_VALUE_HEADER)
			return PRI_TERM_TRUE;
		if (form != PRI_VALUE_LENGTH &&
			(p->a.shift || p->a.mask != all_bits(p->a.size)))
			return PRI_TERM_TRUE;
		return branch_order(p, layout, (uint64_t)k + (op == OP_JGT), taken, terms);
	}
	if (form != PRI_VALUE_LOAD && form != PRI_VALUE_LOAD_BEHIND)
		return PRI_TERM_TRUE;
	return op == OP_JEQ ? branch_equal(p, layout, k, taken, terms)
			    : branch_bits(p, layout, k, taken, terms);
}
