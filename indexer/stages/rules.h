/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <hs/hs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/error.h"

/*
 * Rules of Snort and Suricata, as far as they are about one packet: header, content with nocase, depth, offset, distance,
 * within; pcre (flags i, s, m); dsize, flags, itype, sid, rev, msg, classtype, priority; reference and metadata say nothing about
 * packets. Bounds as in Suricata (docs.suricata.io, rules/payload-keywords): A<>B is between, without A and B. What else a
 * rule asks for cannot be told from one packet alone, or is not built: such a rule is refused, never weakened.
 */

#define PRI_RULE_CONTENTS 32
#define PRI_RULE_PARTS 64 /* of a list of addresses or ports */
#define PRI_RULE_MOST 100000

/* Addresses or ports of one end; count 0: any. */
struct pri_rule_part {
	bool negated;
	uint8_t address_len, bits; /* 4 or 16 */
	uint8_t address[16];
	uint16_t low, high; /* ports */
};
struct pri_rule_list {
	struct pri_rule_part *parts;
	size_t count;
};

struct pri_rule_range {
	enum {
		PRI_RANGE_ANY,
		PRI_RANGE_IS,
		PRI_RANGE_LESS,
		PRI_RANGE_MORE,
		PRI_RANGE_BETWEEN
	} kind;
	uint32_t low, high;
};

struct pri_rule_content {
	uint8_t *bytes;
	uint32_t len;
	bool negated, nocase, relative, has_depth; /* relative: distance or within */
	int32_t offset; /* or distance, from the end of the content before */
	uint32_t
		depth; /* or within: the match ends this far behind where it may begin at the earliest */
};

struct pri_rule {
	char protocol; /* 't'cp, 'u'dp, 'i'cmp, or 0: any IP */
	bool both; /* <> */
	struct pri_rule_list address[2], port[2];
	struct pri_rule_content content[PRI_RULE_CONTENTS];
	size_t contents;
	char *pcre, *message, *class; /* pcre: NULL, or without its slashes */
	bool pcre_not;
	unsigned pcre_flags; /* of hs_compile */
	struct pri_rule_range dsize, itype;
	bool has_flags;
	char flags_way; /* 0: exactly, '+': these and others, '*': any of these, '!': none of them */
	uint8_t flags, flags_mask; /* mask: of those that count */
	uint32_t sid, rev, priority;
};

struct pri_rules {
	struct pri_rule *items;
	size_t count;
	uint64_t refused;
};

/*
 * Reads rules, one a line (a backslash at its end continues it); # begins a comment. A rule that is refused is told on `told`
 * ("FILE:LINE: why", at most 20 of them) and left out; NULL: it is the error. vars: "NAME=VALUE;NAME=VALUE" of $NAME; or NULL.
 */
int pri_rules_read(struct pri_rules *rules, const char *path, const char *vars, FILE *told,
	struct pr_error *err);
/* One rule; text is changed. */
int pri_rule_parse(
	struct pri_rule *rule, char *text, const char *vars, struct pr_error *err);
/* A pattern of content: text, with |hex| in it and \ before what is special. -1: err. */
int pri_rule_bytes(const char *text, uint8_t **bytes, uint32_t *len, struct pr_error *err);
/* Bytes as a regular expression, from malloc (as a literal it could not begin with 0). NULL: no memory. */
char *pri_rule_regex(const uint8_t *bytes, uint32_t len);
/*
 * Does the pattern matcher find one byte at each place of 200? Vectorscan 5.4.9 does not with AVX-512, behind the 64th; Hyperscan
 * does, of which Vectorscan is a fork by the same name. -1: err.
 */
int pri_rule_matcher_check(struct pr_error *err);
/* Compiles one regular expression, and makes scratch large enough for it, too. Both are the caller's, also after -1. */
int pri_pattern_compile(const char *regex, unsigned flags, hs_database_t **out,
	hs_scratch_t **scratch, struct pr_error *err);
/* Is it in these bytes? */
bool pri_pattern_found(
	const hs_database_t *pattern, hs_scratch_t *scratch, const void *data, size_t len);
/* PATTERN/ism: cut at its slash. */
int pri_rule_pcre(char *text, unsigned *flags, struct pr_error *err);
void pri_rules_free(struct pri_rules *rules);
