/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/bpf.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/filter/bpf_code.h"
#include "proto/base/array.h"

/* ---- checking ---- */

static bool
code_known(uint16_t code)
{
	static const uint16_t known[] = {LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_W_IND, LD_H_IND,
		LD_B_IND, LD_LEN, LD_IMM, LD_MEM, LDX_IMM, LDX_MEM, LDX_LEN, LDX_MSH, ST,
		STX, ADD_K, SUB_K, MUL_K, DIV_K, OR_K, AND_K, LSH_K, RSH_K, MOD_K, XOR_K,
		NEG, ADD_X, SUB_X, MUL_X, DIV_X, OR_X, AND_X, LSH_X, RSH_X, MOD_X, XOR_X,
		JA, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, JGT_X, JGE_X, JSET_X, RET_K, RET_A,
		TAX, TXA};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i] == code)
			return true;
	return false;
}

/* NULL: good; else what is wrong with instruction i of count. */
static const char *
fault_of(const struct pri_insn *in, size_t i, size_t count)
{
	int64_t target = (int64_t)i + 1 + (int32_t)in->k;

	if (!code_known(in->code))
		return "is not known";
	if (in->code == JA)
		return target < 0 || target >= (int64_t)count ? "jumps out of the program"
							      : NULL;
	if ((in->code & CLASS_MASK) == CLASS_JMP)
		return i + 1 + in->jt >= count || i + 1 + in->jf >= count
			       ? "jumps out of the program"
			       : NULL;
	switch (in->code) {
	case LD_MEM:
	case LDX_MEM:
	case ST:
	case STX:
		return in->k >= PRI_BPF_MEMORY ? "uses memory that is not there" : NULL;
	case DIV_K:
	case MOD_K:
		return in->k == 0 ? "divides by zero" : NULL;
	case LSH_K:
	case RSH_K:
		return in->k >= 32 ? "shifts by more than 31 bits" : NULL;
	default:
		return NULL;
	}
}

static size_t
count_times(const struct pri_insn *insns, size_t count)
{
	size_t n = 0;

	while (2 * n + 1 < count && insns[2 * n].code == LD_TIME &&
		insns[2 * n + 1].code == LD_TIME)
		n++;
	return n;
}

static int
check(const struct pri_insn *insns, size_t count, struct pr_error *err)
{
	size_t times = count_times(insns, count);

	if (count > PRI_BPF_MAX)
		return pr_error_set(err, "filter of %zu instructions: at most %d are taken",
			count, PRI_BPF_MAX);
	if (times > PRI_TIMES_MAX)
		return pr_error_set(err, "filter of %zu times: at most %d are taken", times,
			PRI_TIMES_MAX);
	for (size_t i = 2 * times; i < count; i++) {
		const char *fault = fault_of(&insns[i], i, count);
		if (fault)
			return pr_error_set(err, "filter: instruction %zu (code 0x%02x) %s",
				i, insns[i].code, fault);
	}
	if (count && (insns[count - 1].code & CLASS_MASK) != CLASS_RET)
		return pr_error_set(err, "filter: it runs off its end");
	return 0;
}

struct pri_bpf *
pri_bpf_create(
	uint16_t linktype, const struct pri_insn *insns, size_t count, struct pr_error *err)
{
	struct pri_bpf *p;

	if (check(insns, count, err) < 0)
		return NULL;
	p = malloc(sizeof(*p) + count * sizeof(*insns));
	if (!p) {
		pr_error_set(err, "no memory for a filter");
		return NULL;
	}
	p->linktype = linktype;
	p->count = count;
	p->times = count_times(insns, count);
	if (count)
		memcpy(p->insns, insns, count * sizeof(*insns));
	return p;
}

void
pri_bpf_destroy(struct pri_bpf **program)
{
	free(*program);
	*program = NULL;
}

/* ---- running ---- */

struct machine {
	uint32_t a, x, mem[PRI_BPF_MEMORY];
	const uint8_t *data;
	uint32_t len, caplen;
	int64_t time;
	const struct pri_bpf *program;
};

/* Big-endian word of size bytes at offset; false when it is not within the captured bytes. */
static inline bool
load(const struct machine *m, uint64_t offset, unsigned size, uint32_t *out)
{
	const uint8_t *p;

	if (offset + size > m->caplen)
		return false;
	p = m->data + offset;
	if (size == 4)
		*out = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
		       p[3];
	else
		*out = size == 2 ? (uint32_t)(p[0] << 8 | p[1]) : p[0];
	return true;
}

/* Where no packet has bytes a term of time may have its place. */
static bool
load_word(struct machine *m, uint64_t offset)
{
	struct pri_bpf_time t;
	size_t i;

	if (load(m, offset, 4, &m->a))
		return true;
	i = m->program->times ? pri_bpf_time_at(offset) : PRI_TIMES_MAX;
	if (i >= m->program->times)
		return false;
	t = pri_bpf_time(m->program->insns, i);
	m->a = t.after ? m->time >= t.time : m->time <= t.time;
	return true;
}

/* X + k wraps nowhere: libpcap refuses what lies behind the packet, however it got there. */
static bool
step_load(struct machine *m, const struct pri_insn *in)
{
	uint32_t *to = (in->code & CLASS_MASK) == CLASS_LD ? &m->a : &m->x, byte;
	uint64_t at = in->k;

	switch (in->code & MODE_MASK) {
	case MODE_IND:
		at += m->x;
		/* fall through */
	case MODE_ABS:
		if ((in->code & SIZE_MASK) == SIZE_W)
			return load_word(m, at);
		return load(m, at, (in->code & SIZE_MASK) == SIZE_H ? 2 : 1, to);
	case MODE_IMM:
		*to = in->k;
		return true;
	case MODE_MEM:
		*to = m->mem[in->k];
		return true;
	case MODE_LEN:
		*to = m->len;
		return true;
	case MODE_MSH: /* an IP header's length */
		if (!load(m, in->k, 1, &byte))
			return false;
		*to = (byte & 0xf) << 2;
		return true;
	default: /* terms of time at the head: no sensible program jumps back to them */
		return true;
	}
}

/* false: division by zero, which ends the program. */
static bool
step_alu(struct machine *m, const struct pri_insn *in)
{
	uint32_t v = in->code & SOURCE_X ? m->x : in->k, op = in->code & OP_MASK;

	switch (op) {
	case OP_ADD:
		m->a += v;
		break;
	case OP_SUB:
		m->a -= v;
		break;
	case OP_MUL:
		m->a *= v;
		break;
	case OP_DIV:
	case OP_MOD:
		if (v == 0)
			return false;
		m->a = op == OP_DIV ? m->a / v : m->a % v;
		break;
	case OP_AND:
		m->a &= v;
		break;
	case OP_OR:
		m->a |= v;
		break;
	case OP_XOR:
		m->a ^= v;
		break;
	case OP_LSH:
		m->a = v < 32 ? m->a << v : 0;
		break;
	case OP_RSH:
		m->a = v < 32 ? m->a >> v : 0;
		break;
	default: /* OP_NEG */
		m->a = 0u - m->a;
	}
	return true;
}

static bool
test(const struct machine *m, const struct pri_insn *in)
{
	uint32_t v = in->code & SOURCE_X ? m->x : in->k;

	switch (in->code & OP_MASK) {
	case OP_JEQ:
		return m->a == v;
	case OP_JGT:
		return m->a > v;
	case OP_JGE:
		return m->a >= v;
	default: /* OP_JSET */
		return m->a & v;
	}
}

static void
step_move(struct machine *m, const struct pri_insn *in)
{
	switch (in->code) {
	case ST:
		m->mem[in->k] = m->a;
		break;
	case STX:
		m->mem[in->k] = m->x;
		break;
	case TAX:
		m->x = m->a;
		break;
	default: /* TXA */
		m->a = m->x;
		break;
	}
}

/*
 * Only a backward jump can make a program run on, so only these are paid for, by their distance.
 * `ip6 protochain` walks headers of at least 8 bytes with some 40 instructions each.
 */
static int64_t
backward_budget(size_t count, uint32_t caplen)
{
	return (int64_t)count + 1024 + (int64_t)caplen * 16;
}

/* A load beyond the captured bytes rejects the packet, or the part of the program that it is in. */
static const struct pri_insn *
next_part(const struct pri_bpf *p, const struct pri_insn *in)
{
	for (; in < p->insns + p->count; in++)
		if (pri_insn_begins_part(in))
			return in;
	return NULL;
}

static uint32_t
run(const struct pri_bpf *program, struct machine *m)
{
	int64_t budget = backward_budget(program->count, m->caplen);

	if (program->count == 0)
		return UINT32_MAX;
	m->program = program;
	for (const struct pri_insn *in = program->insns + 2 * program->times;; in++) {
		switch (in->code & CLASS_MASK) {
		case CLASS_LD:
		case CLASS_LDX:
			if (!step_load(m, in) && !(in = next_part(program, in)))
				return 0;
			break;
		case CLASS_ALU:
			if (!step_alu(m, in))
				return 0;
			break;
		case CLASS_JMP:
			if (in->code != JA) {
				in += test(m, in) ? in->jt : in->jf;
				break;
			}
			if ((int32_t)in->k < 0 && (budget += (int32_t)in->k) < 0)
				return 0;
			in += (int32_t)in->k;
			break;
		case CLASS_RET:
			return in->code == RET_A ? m->a : in->k;
		default:
			step_move(m, in);
		}
	}
}

uint32_t
pri_bpf_run(
	const struct pri_bpf *program, const uint8_t *data, uint32_t len, uint32_t caplen)
{
	struct machine m = {.data = data, .len = len, .caplen = caplen};

	return run(program, &m);
}

bool
pri_bpf_match(const struct pri_bpf *program, const struct pr_packet *packet)
{
	struct machine m = {.data = packet->data,
		.len = packet->len,
		.caplen = packet->caplen,
		.time = packet->time};

	return run(program, &m) != 0;
}

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
		if (programs->items[i]->linktype == linktype)
			return programs->items[i];
	return NULL;
}

int
pri_bpf_set_add(struct pri_bpf_set *programs, struct pri_bpf *program, struct pr_error *err)
{
	uint16_t linktype = program->linktype;

	if (pri_bpf_set_find(programs, linktype)) {
		pr_error_set(err, "filter: two programs for link type %u", linktype);
		pri_bpf_destroy(&program);
		return -1;
	}
	if (PR_ARRAY_GROW(programs->items, programs->count) < 0) {
		pri_bpf_destroy(&program);
		return pr_error_set(err, "no memory for a filter");
	}
	programs->items[programs->count++] = program;
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

bool
pri_bpf_set_all(const struct pri_bpf_set *programs, uint16_t linktype)
{
	const struct pri_bpf *p = pri_bpf_set_find(programs, linktype);

	return programs->count == 0 ||
	       (p && (p->count == 0 || (p->insns[0].code == RET_K && p->insns[0].k != 0)));
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
