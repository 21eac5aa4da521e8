/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/roles.h"

#include <stdio.h>
#include <string.h>

enum { NODE = PR_ROLE_NODE, READ = PR_ROLE_READ, STEER = PR_ROLE_STEER, NOBODY = 0 };

static const struct {
	Packrack__Envelope__BodyCase body;
	unsigned roles;
} table[] = {
	{PACKRACK__ENVELOPE__BODY_HELLO, NODE},
	{PACKRACK__ENVELOPE__BODY_BATCH, NODE},
	{PACKRACK__ENVELOPE__BODY_END, NODE},
	{PACKRACK__ENVELOPE__BODY_FAILURE, NODE},
	{PACKRACK__ENVELOPE__BODY_INDEX_RECORD, NODE},
	{PACKRACK__ENVELOPE__BODY_COVERAGE, NODE},
	{PACKRACK__ENVELOPE__BODY_SUMMARY, NODE},
	{PACKRACK__ENVELOPE__BODY_PEER, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_ROUTE_REQUEST, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_QUERY, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_CREDIT, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_CANCEL, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_STATUS_REQUEST, READ | STEER},
	{PACKRACK__ENVELOPE__BODY_COMMAND, STEER},
	{PACKRACK__ENVELOPE__BODY_STATUS, NOBODY},
	{PACKRACK__ENVELOPE__BODY_COMMAND_DONE, NODE},
	{PACKRACK__ENVELOPE__BODY_INDEX_STORED, NOBODY},
	{PACKRACK__ENVELOPE__BODY_SUMMARY_WANT, NOBODY},
	{PACKRACK__ENVELOPE__BODY_ROUTE, NOBODY},
};

static const char *const names[] = {"node", "read", "steer"};
enum { ROLES = sizeof(names) / sizeof(names[0]) };

static unsigned
role_named(const char *name, size_t len)
{
	for (unsigned i = 0; i < ROLES; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return 1U << i;
	return 0;
}

unsigned
pr_role_parse(const char *text)
{
	unsigned roles = 0, role;

	for (;; text++) {
		size_t len = strcspn(text, ",");

		role = role_named(text, len);
		roles |= role;
		text += len;
		if (!role || !*text)
			return role ? roles : 0;
	}
}

const char *
pr_role_text(unsigned roles, char text[PR_ROLE_TEXT])
{
	*text = 0;
	for (unsigned i = 0; i < ROLES; i++)
		if (roles & 1U << i)
			snprintf(text + strlen(text), PR_ROLE_TEXT - strlen(text), "%s%s",
				*text ? "," : "", names[i]);
	return text;
}

unsigned
pr_roles_for(Packrack__Envelope__BodyCase body)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].body == body)
			return table[i].roles;
	return NODE;
}
