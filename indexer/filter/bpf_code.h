/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/filter/bpf.h"

/*
 * The instruction codes of BPF (McCanne and Jacobson, 1993) that libpcap generates, with
 * names of our own, because only filter.c may include pcap.h.
 */
enum { CLASS_MASK = 0x07, OP_MASK = 0xf0, SOURCE_X = 0x08 };
#define MODE_MASK 0xe0 /* of loads */
#define SIZE_MASK 0x18

enum {
	CLASS_LD,
	CLASS_LDX,
	CLASS_ST,
	CLASS_STX,
	CLASS_ALU,
	CLASS_JMP,
	CLASS_RET,
	CLASS_MISC
};

enum {
	MODE_IMM = 0x00,
	MODE_ABS = 0x20,
	MODE_IND = 0x40,
	MODE_MEM = 0x60,
	MODE_LEN = 0x80,
	MODE_MSH = 0xa0,
	SIZE_W = 0x00,
	SIZE_H = 0x08,
};

enum {
	OP_ADD = 0x00,
	OP_SUB = 0x10,
	OP_MUL = 0x20,
	OP_DIV = 0x30,
	OP_OR = 0x40,
	OP_AND = 0x50,
	OP_LSH = 0x60,
	OP_RSH = 0x70,
	OP_NEG = 0x80,
	OP_MOD = 0x90,
	OP_XOR = 0xa0,
	OP_JA = 0x00,
	OP_JEQ = 0x10,
	OP_JGT = 0x20,
	OP_JGE = 0x30,
	OP_JSET = 0x40,
};

enum {
	LD_IMM = 0x00,
	LD_W_ABS = 0x20,
	LD_H_ABS = 0x28,
	LD_B_ABS = 0x30,
	LD_W_IND = 0x40,
	LD_H_IND = 0x48,
	LD_B_IND = 0x50,
	LD_MEM = 0x60,
	LD_LEN = 0x80,
	LD_TIME = PRI_INSN_TIME, /* our extension */
	LDX_IMM = 0x01,
	LDX_MEM = 0x61,
	LDX_LEN = 0x81,
	LDX_MSH = 0xb1,
	ST = 0x02,
	STX = 0x03,
	NEG = 0x84,
	JA = 0x05,
	RET_K = 0x06,
	RET_A = 0x16,
	TAX = 0x07,
	TXA = 0x87,
};

#define PRI_BOTH(name, class, op)                                                          \
	enum { name##_K = class | op, name##_X = class | op | SOURCE_X }
PRI_BOTH(ADD, CLASS_ALU, OP_ADD);
PRI_BOTH(SUB, CLASS_ALU, OP_SUB);
PRI_BOTH(MUL, CLASS_ALU, OP_MUL);
PRI_BOTH(DIV, CLASS_ALU, OP_DIV);
PRI_BOTH(OR, CLASS_ALU, OP_OR);
PRI_BOTH(AND, CLASS_ALU, OP_AND);
PRI_BOTH(LSH, CLASS_ALU, OP_LSH);
PRI_BOTH(RSH, CLASS_ALU, OP_RSH);
PRI_BOTH(MOD, CLASS_ALU, OP_MOD);
PRI_BOTH(XOR, CLASS_ALU, OP_XOR);
PRI_BOTH(JEQ, CLASS_JMP, OP_JEQ);
PRI_BOTH(JGT, CLASS_JMP, OP_JGT);
PRI_BOTH(JGE, CLASS_JMP, OP_JGE);
PRI_BOTH(JSET, CLASS_JMP, OP_JSET);

/* Number of bytes that a load reads. */
static inline unsigned
pri_insn_size(const struct pri_insn *in)
{
	unsigned bits = in->code & SIZE_MASK;

	return bits == SIZE_W ? 4 : bits == SIZE_H ? 2 : 1;
}

/* True if the test of a conditional jump holds. */
static inline bool
pri_insn_holds(unsigned op, uint32_t a, uint32_t v)
{
	return op == OP_JEQ   ? a == v
	       : op == OP_JGT ? a > v
	       : op == OP_JGE ? a >= v
			      : (a & v) != 0;
}
