/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/wire/bpf_code.h"
#include "tests/unit/plan_packets.h"

/* For test_plan_random.c: filters and programs made up, of values that the packets have. */

struct text {
	char bytes[2048];
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
say(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->bytes + t->used, sizeof(t->bytes) - t->used, format, args);
	va_end(args);
	if (n > 0 && t->used + (size_t)n < sizeof(t->bytes))
		t->used += (size_t)n;
}

static const char *
address(char *buf)
{
	struct in_addr a = {htonl(PICK(hosts))};

	return inet_ntop(AF_INET, &a, buf, INET_ADDRSTRLEN);
}

static void
say_load(struct text *t)
{
	static const char *const bases[] = {
		"ether", "ip", "ip6", "tcp", "udp", "arp", "icmp", "icmp6"};
	static const unsigned offsets[] = {
		0, 2, 4, 6, 8, 9, 12, 13, 14, 16, 20, 22, 23, 24, 26, 28, 30, 38, 40};
	static const char *const relations[] = {"=", "!=", ">", "<", ">=", "<="};
	unsigned size = 1u << random() % 3;
	uint32_t value = size == 1   ? (uint32_t[]){6, 17, 10, 0x45, 8, 128}[random() % 6]
			 : size == 2 ? (random() % 2 ? PICK(types) : PICK(ports))
				     : PICK(hosts);

	say(t, "%s[%u:%u]", PICK(bases), PICK(offsets), size);
	if (random() % 3 == 0)
		say(t, " & 0x%x",
			(uint32_t[]){0xff, 0xf0, 0x1fff, 0xffff0000, 0xfffff000, 0xfff,
				1}[random() % 7]);
	else if (random() % 6 == 0)
		say(t, " >> %u", (unsigned)random() % 9);
	say(t, " %s 0x%x", PICK(relations), random() % 5 ? value : 0);
}

static const char *const sides[] = {"", "src ", "dst ", "src or dst ", "src and dst "};

static void
say_network(struct text *t)
{
	static const char *const nets[] = {"10", "10.0", "10.0.0", "10.0.0.0/12",
		"192.168.0.0/30", "10.0.1.0/23", "8.0.0.0/5"};
	static const char *const one_side[] = {"", "src ", "dst "};
	char a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN];

	switch (random() % 7) {
	case 0:
		say(t, "%snet %s", PICK(sides), PICK(nets));
		break;
	case 4: /* what another end is not */
		say(t, "(%shost %s and not %shost %s)", PICK(sides), address(a),
			PICK(sides), address(b));
		break;
	case 1:
		say(t, "ip6 %shost 2001:db8::%u", PICK(sides), (unsigned)random() % 3);
		break;
	case 2:
		say(t, "ip6 %snet 2001:db8::/%u", PICK(sides),
			30 + (unsigned)random() % 50);
		break;
	case 3:
		say(t, "ether %shost 1:2:3:4:5:%u", PICK(one_side), (unsigned)random() % 3);
		break;
	default:
		say(t, "%shost %s", PICK(sides), address(a));
	}
}

static void
say_port(struct text *t)
{
	static const char *const protocols[] = {"", "", "tcp ", "udp ", "sctp "};
	unsigned port = PICK(ports), before = (unsigned)random() % 9,
		 behind = random() % 3 ? (unsigned)random() % 9 : 50;
	char a[INET_ADDRSTRLEN];

	switch (random() % 4) {
	case 0:
		say(t, "%s%sport %u", PICK(protocols), PICK(sides), port);
		break;
	case 1:
		say(t, "%s%sportrange %u-%u", PICK(protocols), PICK(sides), port - before,
			port + behind);
		break;
	case 2:
		say(t, "(%shost %s and %s%sportrange %u-%u)", PICK(sides), address(a),
			PICK(protocols), PICK(sides), port - before, port + behind);
		break;
	default: /* what composites are made of */
		say(t, "(%shost %s and %s%sport %u)", PICK(sides), address(a),
			PICK(protocols), PICK(sides), port);
	}
}

static void
say_words(struct text *t)
{
	static const char *const words[] = {"ip", "ip6", "arp", "rarp", "tcp", "udp",
		"sctp", "icmp", "icmp6", "vlan", "vlan 5", "vlan 6", "mpls", "mpls 5",
		"mpls 6", "pppoes", "pppoes 5", "ether broadcast", "ether multicast",
		"ip broadcast", "ip multicast", "ip6 multicast", "ip6 protochain 6",
		"ip protochain 6", "tcp[tcpflags] & tcp-syn != 0",
		"icmp[icmptype] = icmp-echo", "icmp6[icmp6type] = 128",
		"ip[6:2] & 0x1fff = 0", "ip[6:2] & 0x1fff != 0", "ip[0] & 0xf != 5",
		"ip6 proto 44", "proto 6", "ip proto 17"};

	if (random() % 3)
		say(t, "%s", PICK(words));
	else
		say(t, "%s %u", random() % 2 ? "less" : "greater",
			(unsigned)random() % 1500);
}

static void
say_primitive(struct text *t)
{
	static void (*const sayers[])(struct text *) = {say_network, say_network,
		say_network, say_port, say_port, say_load, say_words};

	PICK(sayers)(t);
}

static void
say_filter(struct text *t, unsigned depth)
{
	if (depth == 0 || random() % 4 == 0) {
		say_primitive(t);
		return;
	}
	say(t, random() % 5 ? "(" : "not (");
	say_filter(t, depth - 1);
	say(t, random() % 2 ? ") and (" : ") or (");
	say_filter(t, depth - 1);
	say(t, ")");
}

static inline struct pr_insn
random_insn(size_t i, size_t count)
{
	static const uint16_t codes[] = {LD_W_ABS, LD_H_ABS, LD_B_ABS, LD_H_ABS, LD_B_ABS,
		LD_H_IND, LD_B_IND, LD_W_IND, LD_LEN, LD_IMM, LDX_IMM, LDX_MSH, LDX_MSH, ST,
		LD_MEM, LDX_MEM, AND_K, RSH_K, ADD_K, AND_X, TAX, TXA, JA, JEQ_K, JEQ_K,
		JEQ_K, JEQ_K, JEQ_K, JGT_K, JGE_K, JSET_K, JEQ_X, RET_K};
	static const uint32_t offsets[] = {0, 2, 6, 8, 12, 12, 12, 14, 14, 16, 18, 20, 22,
		23, 24, 26, 30, 38, 54, 56, 28, 34};
	static const uint32_t masks[] = {
		0xff, 0xf0, 0x1fff, 0xffff0000, 0xfffff000, 0xfff, 1, 4};
	size_t left = count - 2 - i;
	struct pr_insn in = {.code = PICK(codes)};
	bool jump = BPF_CLASS(in.code) == BPF_JMP;

	if (in.code == RET_K && random() % 3)
		in.code = LD_H_ABS;
	in.k = jump                            ? (random() % 2          ? PICK(types)
							 : random() % 2 ? PICK(hosts)
							 : random() % 2 ? PICK(protos)
									: PICK(ports))
	       : BPF_CLASS(in.code) == BPF_ALU ? PICK(masks)
					       : PICK(offsets);
	if (in.code == JSET_K)
		in.k = PICK(masks);
	if (in.code == RSH_K)
		in.k %= 20;
	if (in.code == ST || in.code == LD_MEM || in.code == LDX_MEM)
		in.k %= PR_BPF_MEMORY;
	if (in.code == RET_K)
		in.k = (uint32_t)random() % 2;
	if (jump) {
		size_t most = left < 6 ? left : 6;
		in.jt = (uint8_t)((size_t)random() % (most + 1));
		in.jf = (uint8_t)((size_t)random() % (most + 1));
		if (in.code == JA)
			in.k = random() % 20
				       ? in.jt
				       : (uint32_t) -
						 (int32_t)((size_t)random() % (i + 1) + 1);
	}
	return in;
}
