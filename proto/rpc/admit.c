/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rpc/admit.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "proto/rpc/roles.h"

void
pr_admit_fill(struct pr_enrolled *enrolled, const char *user_id, struct pr_rpc_peer *peer)
{
	const struct pr_enrolled_key *key = NULL;

	peer->role = enrolled ? 0 : PR_ROLE_ALL;
	if (!enrolled || !user_id || strlen(user_id) != PR_KEY_TEXT - 1)
		return;
	if (zmq_z85_decode(peer->key, user_id))
		key = pr_enrolled_find(enrolled, peer->key);
	if (!key)
		return;
	peer->role = key->role;
	snprintf(peer->user, sizeof(peer->user), "%s", key->name);
}

bool
pr_admit_message(const struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer,
	Packrack__Envelope__BodyCase body, struct pr_error *why)
{
	unsigned roles = pr_roles_for(body);
	char has[PR_ROLE_TEXT], wanted[PR_ROLE_TEXT];

	if (!enrolled || peer->role & roles)
		return true;
	if (!peer->role)
		pr_error_set(why, PR_ADMIT_REVOKED);
	else
		pr_error_set(why,
			"your key's role does not allow this: %s is enrolled to %s; this "
			"takes %s%s",
			peer->user, pr_role_text(peer->role, has),
			roles & (roles - 1) ? "one of " : "",
			roles ? pr_role_text(roles, wanted) : "a server");
	return false;
}

bool
pr_admit_still(struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer)
{
	return !enrolled || pr_enrolled_find(enrolled, peer->key);
}
