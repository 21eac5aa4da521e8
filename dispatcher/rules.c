/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/rules.h"

#include <stdio.h>

#include "proto/base/units.h"

enum { WORDS_MAX = 6, WORD_MAX = PR_NAME_MAX + 1 };

void
prd_rule_key(const struct prd_rule *rule, char *text, size_t room)
{
	const struct pr_connection *c = &rule->of;
	char ends[2][PR_ADDRESS_TEXT];

	for (int i = 0; i < 2; i++)
		pr_format_address(c->address[i], c->address_len, ends[i]);
	if (rule->kind == PRD_RULE_MOVE)
		snprintf(text, room, "move %s", ends[0]);
	else
		snprintf(text, room, "suspend %u %s %u %s %u", c->protocol, ends[0],
			c->port[0], ends[1], c->port[1]);
}

void
prd_turn(struct pr_connection *c)
{
	const struct pr_connection was = *c;

	for (int i = 0; i < 2; i++) {
		memcpy(c->address[i], was.address[!i], sizeof c->address[i]);
		c->port[i] = was.port[!i];
	}
}

static int
take_address(struct pr_connection *c, int end, const char *word, struct pr_error *err)
{
	uint8_t len = pr_parse_address(word, c->address[end]);

	if (!len)
		return pr_error_set(err, "'%s' is not an IP address", word);
	if (end && len != c->address_len)
		return pr_error_set(err, "%s is not of the same IP version", word);
	c->address_len = len;
	return 0;
}

/* -1: it is no number, or greater than max. */
static int
take_number(const char *word, unsigned long max, const char *what, struct pr_error *err)
{
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	if (*word < '0' || *word > '9' || *end || number > max)
		return pr_error_set(err, "'%s' is not %s", word, what);
	return (int)number;
}

static int
take_protocol(const char *word, struct pr_error *err)
{
	static const struct {
		const char *name;
		uint8_t number;
	} names[] = {{"tcp", 6}, {"udp", 17}, {"sctp", 132}, {"icmp", 1}, {"icmp6", 58}};

	for (size_t i = 0; i < PR_COUNT(names); i++)
		if (!strcmp(names[i].name, word))
			return names[i].number;
	return take_number(word, 255, "a protocol (tcp, udp, sctp or its number)", err);
}

static int
parse_suspend(struct prd_rule *r, char words[][WORD_MAX], int count, struct pr_error *err)
{
	int step = count == 5 ? 2 : 1;

	if (count != 5 && count != 3)
		return pr_error_set(err,
			"a connection is PROTOCOL ADDRESS PORT ADDRESS PORT, as in tcp "
			"192.0.2.1 1025 198.51.100.7 443");
	int protocol = take_protocol(words[0], err), port = 0;
	if (protocol < 0)
		return -1;
	r->of.protocol = (uint8_t)protocol;
	for (int i = 0; i < 2; i++) {
		if (take_address(&r->of, i, words[1 + i * step], err) < 0)
			return -1;
		if (count == 5)
			port = take_number(words[2 + i * step], UINT16_MAX, "a port", err);
		if (port < 0)
			return -1;
		r->of.port[i] = (uint16_t)port;
	}
	int order = memcmp(r->of.address[0], r->of.address[1], sizeof r->of.address[0]);
	if (order > 0 || (order == 0 && r->of.port[0] > r->of.port[1]))
		prd_turn(&r->of);
	return 0;
}

static int
parse_move(struct prd_rule *r, char words[][WORD_MAX], int count, struct pr_error *err)
{
	static const char *const sides[] = {NULL, "src", "dst", "both"};

	if (count < 1 || count > 3)
		return pr_error_set(
			err, "an address is moved by ADDRESS CLASS [src|dst|both]");
	r->sides = PRD_RULE_SRC | PRD_RULE_DST;
	while (count == 3 && r->sides && strcmp(words[2], sides[r->sides]) != 0)
		r->sides--;
	if (!r->sides)
		return pr_error_set(err, "'%s' is not src, dst or both", words[2]);
	if (count > 1)
		PR_PRINT(r->class, "%s", words[1]);
	return take_address(&r->of, 0, words[0], err);
}

int
prd_rule_parse(struct prd_rule *rule, enum prd_rule_kind kind, const char *text,
	struct pr_error *err)
{
	char words[WORDS_MAX][WORD_MAX];
	int count = sscanf(text, "%64s %64s %64s %64s %64s %64s", words[0], words[1],
		words[2], words[3], words[4], words[5]);

	*rule = (struct prd_rule){.kind = kind};
	return kind == PRD_RULE_SUSPEND ? parse_suspend(rule, words, count, err)
					: parse_move(rule, words, count, err);
}
