/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ROLES_H
#define PR_RPC_ROLES_H

#include "proto/rpc/packrack.pb-c.h"

/*
 * What an enrolled key may ask of a server, in one table (packrack-keys(7) has the same one). Every
 * request is checked against it, with the role that its key has at that moment.
 */
enum pr_role {
	PR_ROLE_NODE = 1, /* announce, send summaries and answers */
	PR_ROLE_READ = 2, /* query, see status */
	PR_ROLE_STEER = 4, /* the same, and command */
	PR_ROLE_ALL = 7, /* all of them, and every peer of a server without keys */
};

/* "read", or several: "node,steer". 0: there is none of that name. */
unsigned pr_role_parse(const char *text);
/* The other way round. */
#define PR_ROLE_TEXT sizeof("node,read,steer")
const char *pr_role_text(unsigned roles, char text[PR_ROLE_TEXT]);

/*
 * The roles that may send a server this message. Those that are not in the table are for nodes only;
 * what only servers send is for nobody: 0.
 */
unsigned pr_roles_for(Packrack__Envelope__BodyCase body);

#endif
