/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>

#include "proto/wire/bpf.h"

/*
 * The instruction codes of BPF (McCanne and Jacobson, 1993) that libpcap generates. Names
 * of their parts are the kernel's, because only filter.c may include pcap.h.
 */
enum {
	LD_IMM = BPF_LD | BPF_IMM,
	LD_W_ABS = BPF_LD | BPF_W | BPF_ABS,
	LD_H_ABS = BPF_LD | BPF_H | BPF_ABS,
	LD_B_ABS = BPF_LD | BPF_B | BPF_ABS,
	LD_W_IND = BPF_LD | BPF_W | BPF_IND,
	LD_H_IND = BPF_LD | BPF_H | BPF_IND,
	LD_B_IND = BPF_LD | BPF_B | BPF_IND,
	LD_MEM = BPF_LD | BPF_MEM,
	LD_LEN = BPF_LD | BPF_LEN,
	LD_TIME = PR_INSN_TIME, /* our extension */
	LDX_IMM = BPF_LDX | BPF_IMM,
	LDX_MEM = BPF_LDX | BPF_MEM,
	LDX_LEN = BPF_LDX | BPF_LEN,
	LDX_MSH = BPF_LDX | BPF_B | BPF_MSH,
	ST = BPF_ST,
	STX = BPF_STX,
	NEG = BPF_ALU | BPF_NEG,
	JA = BPF_JMP | BPF_JA,
	RET_K = BPF_RET | BPF_K,
	RET_A = BPF_RET | BPF_A,
	TAX = BPF_MISC | BPF_TAX,
	TXA = BPF_MISC | BPF_TXA,
};

#define PRI_BOTH(class, op)                                                                \
	enum { op##_K = class | BPF_##op | BPF_K, op##_X = class | BPF_##op | BPF_X }
PRI_BOTH(BPF_ALU, ADD);
PRI_BOTH(BPF_ALU, SUB);
PRI_BOTH(BPF_ALU, MUL);
PRI_BOTH(BPF_ALU, DIV);
PRI_BOTH(BPF_ALU, OR);
PRI_BOTH(BPF_ALU, AND);
PRI_BOTH(BPF_ALU, LSH);
PRI_BOTH(BPF_ALU, RSH);
PRI_BOTH(BPF_ALU, MOD);
PRI_BOTH(BPF_ALU, XOR);
PRI_BOTH(BPF_JMP, JEQ);
PRI_BOTH(BPF_JMP, JGT);
PRI_BOTH(BPF_JMP, JGE);
PRI_BOTH(BPF_JMP, JSET);

/* Number of bytes that a load reads. */
static inline unsigned
pr_insn_size(const struct pr_insn *in)
{
	unsigned bits = BPF_SIZE(in->code);

	return bits == BPF_W ? 4 : bits == BPF_H ? 2 : 1;
}

/* True if the test of a conditional jump holds. */
static inline bool
pr_insn_holds(unsigned op, uint32_t a, uint32_t v)
{
	return op == BPF_JEQ   ? a == v
	       : op == BPF_JGT ? a > v
	       : op == BPF_JGE ? a >= v
			       : (a & v) != 0;
}
