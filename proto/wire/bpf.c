/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/bpf.h"

#include "proto/wire/bpf_code.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

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

	for (size_t i = 0; i < PR_COUNT(known); i++)
		if (known[i] == code)
			return true;
	return false;
}

/* Checks instruction i of count. NULL: valid; otherwise what is wrong. */
static const char *
fault_of(const struct pr_insn *in, size_t i, size_t count)
{
	int64_t target = (int64_t)i + 1 + (int32_t)in->k;
	uint16_t code = in->code;

	if (!code_known(code))
		return "is not known";
	if (code == JA ? target < 0 || target >= (int64_t)count
		       : BPF_CLASS(code) == BPF_JMP &&
				 (i + 1 + in->jt >= count || i + 1 + in->jf >= count))
		return "jumps out of the program";
	if ((code == LD_MEM || code == LDX_MEM || code == ST || code == STX) &&
		in->k >= PR_BPF_MEMORY)
		return "uses memory that is not there";
	if ((code == DIV_K || code == MOD_K) && in->k == 0)
		return "divides by zero";
	return (code == LSH_K || code == RSH_K) && in->k >= 32
		       ? "shifts by more than 31 bits"
		       : NULL;
}

static int
check(const struct pr_insn *insns, size_t count, size_t times, struct pr_error *err)
{
	if (count > PR_BPF_MAX)
		return pr_error_set(err, "filter of %zu instructions: at most %d are taken",
			count, PR_BPF_MAX);
	if (times > PR_TIMES_MAX)
		return pr_error_set(err, "filter of %zu times: at most %d are taken", times,
			PR_TIMES_MAX);
	for (size_t i = 2 * times; i < count; i++) {
		const char *fault = fault_of(&insns[i], i, count);
		if (fault)
			return pr_error_set(err, "filter: instruction %zu (code 0x%02x) %s",
				i, insns[i].code, fault);
	}
	if (count && BPF_CLASS(insns[count - 1].code) != BPF_RET)
		return pr_error_set(err, "filter: it runs off its end");
	return 0;
}

/*
 * Only backward jumps can make a program run long, so only these use up a budget, by their
 * distance. `ip6 protochain` walks headers of at least 8 bytes with some 40 instructions
 * each.
 */
#define BACKWARDS(caplen) (1024 + (caplen)*16)

struct pr_bpf *
pr_bpf_create(
	uint16_t linktype, const struct pr_insn *insns, size_t count, struct pr_error *err)
{
	size_t times = 0;

	while (2 * times + 1 < count && insns[2 * times].code == LD_TIME &&
		insns[2 * times + 1].code == LD_TIME)
		times++;
	if (check(insns, count, times, err) < 0)
		return NULL;
	struct pr_bpf *p = malloc(sizeof(*p) + count * sizeof(*insns));
	if (!p)
		return pr_error_null(err, "no memory for a filter");
	*p = (struct pr_bpf){
		.linktype = linktype, .count = count, .times = times, .steps = count};
	for (size_t i = 0; i < count; i++)
		if (insns[i].code == JA && (int32_t)insns[i].k < 0)
			p->steps = 2 * (uint32_t)count + BACKWARDS(1514);
	if (count)
		memcpy(p->insns, insns, count * sizeof(*insns));
	return p;
}

void
pr_bpf_destroy(struct pr_bpf **program)
{
	free(PR_TAKE(program));
}

/* ---- running ---- */

struct machine {
	uint32_t a, x, mem[PR_BPF_MEMORY];
	const uint8_t *data;
	uint32_t caplen;
	const struct pr_packet *packet;
	const struct pr_bpf *program;
};

/* Big-endian word of size bytes at offset; false when it is not within the captured bytes. */
static inline bool
load(const struct machine *m, uint64_t offset, unsigned size, uint32_t *out)
{
	if (offset + size > m->caplen)
		return false;
	const uint8_t *p = m->data + offset;
	if (size == 4)
		*out = pr_get_be32(p);
	else
		*out = size == 2 ? pr_get_be16(p) : p[0];
	return true;
}

/* X + k wraps nowhere: libpcap refuses what lies behind the packet, however it got there. */
static bool
step_load(struct machine *m, const struct pr_insn *in)
{
	uint32_t *to = BPF_CLASS(in->code) == BPF_LD ? &m->a : &m->x, byte;
	uint64_t at = in->k;
	struct pr_bpf_time t;
	size_t i;

	switch (BPF_MODE(in->code)) {
	case BPF_IND:
		at += m->x;
		/* fall through */
	case BPF_ABS:
		if (BPF_SIZE(in->code) != BPF_W)
			return load(m, at, pr_insn_size(in), to);
		if (load(m, at, 4, to))
			return true;
		/* an offset without packet bytes may be that of a term of time */
		i = m->program->times ? pr_bpf_time_at(at) : PR_TIMES_MAX;
		if (i >= m->program->times)
			return false;
		t = pr_bpf_time(m->program->insns, i);
		*to = t.after ? m->packet->time >= t.time : m->packet->time <= t.time;
		return true;
	case BPF_IMM:
		*to = in->k;
		return true;
	case BPF_MEM:
		*to = m->mem[in->k];
		return true;
	case BPF_LEN:
		*to = m->packet->len;
		return true;
	case BPF_MSH: /* an IP header's length */
		if (!load(m, in->k, 1, &byte))
			return false;
		*to = (byte & 0xf) << 2;
		return true;
	default: /* terms of time at the head: no sensible program jumps back to them */
		return true;
	}
}

static inline uint32_t
operand(const struct machine *m, const struct pr_insn *in)
{
	return in->code & BPF_X ? m->x : in->k;
}

static uint32_t
computed(unsigned op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_ADD:
		return a + v;
	case BPF_SUB:
		return a - v;
	case BPF_MUL:
		return a * v;
	case BPF_DIV:
		return a / v;
	case BPF_MOD:
		return a % v;
	case BPF_AND:
		return a & v;
	case BPF_OR:
		return a | v;
	case BPF_XOR:
		return a ^ v;
	case BPF_LSH:
		return v < 32 ? a << v : 0;
	case BPF_RSH:
		return v < 32 ? a >> v : 0;
	default: /* BPF_NEG */
		return 0u - a;
	}
}

/* Is what the instruction loads known? *known: of each byte, whether it is. An IP header's length is. */
static bool
is_known(const struct machine *m, const struct pr_insn *in, const bool *known)
{
	uint64_t at = in->k + (BPF_MODE(in->code) == BPF_IND ? (uint64_t)m->x : 0);

	if (BPF_MODE(in->code) == BPF_LEN)
		return false;
	if (BPF_MODE(in->code) != BPF_ABS && BPF_MODE(in->code) != BPF_IND)
		return true;
	for (unsigned i = 0; i < pr_insn_size(in); i++)
		if (at + i >= m->caplen || !known[at + i])
			return false;
	return true;
}

/* known NULL: all is; else *unknown is set, and ends it, where the result depends on other bytes. */
static inline __attribute__((always_inline)) uint32_t
run(const struct pr_bpf *program, const struct pr_packet *packet, const bool *known,
	bool *unknown)
{
	struct machine m = {.data = packet->data,
		.caplen = packet->caplen,
		.packet = packet,
		.program = program};
	int64_t budget = (int64_t)program->count + BACKWARDS((int64_t)packet->caplen);
	const struct pr_insn *in = program->insns + 2 * program->times,
			     *end = program->insns + program->count;
	uint32_t v;

	if (program->count == 0)
		return UINT32_MAX;
	for (;; in++) {
		switch (BPF_CLASS(in->code)) {
		case BPF_LD:
		case BPF_LDX:
			if (known && !is_known(&m, in, known)) {
				*unknown = true;
				return 0;
			}
			if (step_load(&m, in))
				break;
			if (unknown)
				*unknown = true;
			/*
			 * a load beyond the packet rejects the packet, or only its part of
			 * the program
			 */
			while (in < end && !pr_insn_begins_part(in))
				in++;
			if (in == end)
				return 0;
			break;
		case BPF_ALU:
			v = operand(&m, in);
			if (v == 0 && (BPF_OP(in->code) == BPF_DIV ||
					      BPF_OP(in->code) == BPF_MOD))
				return 0;
			m.a = computed(BPF_OP(in->code), m.a, v);
			break;
		case BPF_JMP:
			if (in->code != JA) {
				in += pr_insn_holds(BPF_OP(in->code), m.a, operand(&m, in))
					      ? in->jt
					      : in->jf;
				break;
			}
			if ((int32_t)in->k < 0 && (budget += (int32_t)in->k) < 0)
				return 0;
			in += (int32_t)in->k;
			break;
		case BPF_RET:
			return in->code == RET_A ? m.a : in->k;
		default: /* few cases, so that the compiler makes no jump table */
			if (in->code == ST || in->code == STX)
				m.mem[in->k] = in->code == ST ? m.a : m.x;
			else if (in->code == TAX)
				m.x = m.a;
			else
				m.a = m.x;
		}
	}
}

uint32_t
pr_bpf_run(const struct pr_bpf *program, const struct pr_packet *packet)
{
	return run(program, packet, NULL, NULL);
}

uint32_t
pr_bpf_run_known(const struct pr_bpf *program, const struct pr_packet *packet,
	const bool *known, bool *unknown)
{
	*unknown = false;
	return run(program, packet, known, unknown);
}

/* ---- times ---- */

void
pr_bpf_put_time(struct pr_insn head[2], const struct pr_bpf_time *time)
{
	uint64_t bits = time->time;

	for (unsigned i = 0; i < 2; i++)
		head[i] = (struct pr_insn){.code = LD_TIME,
			.jt = time->after,
			.jf = i,
			.k = bits >> (i ? 0 : 32)};
}

struct pr_bpf_time
pr_bpf_time(const struct pr_insn *insns, size_t i)
{
	const struct pr_insn *head = &insns[2 * i];

	return (struct pr_bpf_time){
		.time = (uint64_t)head[0].k << 32 | head[1].k, .after = head[0].jt};
}

/* ---- several programs ---- */

const struct pr_bpf *
pr_bpf_set_find(const struct pr_bpf_set *programs, uint16_t linktype)
{
	for (size_t i = 0; i < programs->count; i++)
		if (programs->items[i]->linktype == linktype)
			return programs->items[i];
	return NULL;
}

int
pr_bpf_set_add(struct pr_bpf_set *programs, struct pr_bpf *program, struct pr_error *err)
{
	uint16_t linktype = program->linktype;

	if (pr_bpf_set_find(programs, linktype)) {
		pr_error_set(err, "filter: two programs for link type %u", linktype);
		pr_bpf_destroy(&program);
		return -1;
	}
	if (PR_ARRAY_ADD(programs->items, programs->count, program) == 0)
		return 0;
	pr_bpf_destroy(&program);
	return pr_error_set(err, "no memory for a filter");
}

void
pr_bpf_set_free(struct pr_bpf_set *programs)
{
	for (size_t i = 0; i < programs->count; i++)
		pr_bpf_destroy(&programs->items[i]);
	free(programs->items);
	*programs = (struct pr_bpf_set){0};
}

bool
pr_bpf_set_all(const struct pr_bpf_set *programs, uint16_t linktype)
{
	const struct pr_bpf *p = pr_bpf_set_find(programs, linktype);

	return programs->count == 0 ||
	       (p && (p->count == 0 || (p->insns[0].code == RET_K && p->insns[0].k != 0)));
}

uint32_t
pr_bpf_set_packets(const struct pr_bpf_set *programs, uint32_t steps)
{
	uint32_t most = 1;

	for (size_t i = 0; i < programs->count; i++)
		most = PR_MAX(most, programs->items[i]->steps);
	return steps > most ? steps / most : 1;
}

bool
pr_bpf_set_match(const struct pr_bpf_set *programs, const struct pr_packet *packet)
{
	const struct pr_bpf *p = pr_bpf_set_find(programs, packet->linktype);

	return programs->count == 0 || (p && pr_bpf_run(p, packet));
}
