/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/array.h"
#include "proto/base/error.h"
#include "proto/base/text.h"
#include "proto/wire/beyond.h"

/*
 * Changes to the cutoff while it runs, each for a time (Maier et al., SIGCOMM 2008, section 5: a NIDS steers the recorder). As
 * text, in commands:
 *
 *   suspend  PROTOCOL ADDRESS PORT ADDRESS PORT     tcp, udp, sctp or a number; without ports: PROTOCOL ADDRESS ADDRESS
 *   move     ADDRESS CLASS [src|dst]                new connections from it, to it, or both, are of that class
 */
enum prd_rule_kind { PRD_RULE_SUSPEND, PRD_RULE_MOVE };
enum prd_rule_side { PRD_RULE_SRC = 1, PRD_RULE_DST = 2 };
#define PRD_RULES_MAX 4096

struct prd_rule {
	/* SUSPEND: both ends, the smaller (address, port) first. MOVE: address[0] alone. On any link and VLAN (0) */
	struct pr_connection of;
	uint8_t kind; /* enum prd_rule_kind */
	uint8_t sides; /* MOVE: enum prd_rule_side */
	char class[PR_NAME_MAX + 1]; /* MOVE */
};

/* -1: err says which word is wrong. */
int prd_rule_parse(struct prd_rule *rule, enum prd_rule_kind kind, const char *text,
	struct pr_error *err);
/* A text that rules about the same connection or address have in common: the later one replaces the earlier. At most 128 bytes. */
void prd_rule_key(const struct prd_rule *rule, char *text, size_t room);
/* Exchanges the ends. */
void prd_turn(struct pr_connection *c);
