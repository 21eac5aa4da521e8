/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/rpc/keys.h"
#include "proto/rpc/rpc.h"

/* ---- roles ---- */

/*
 * What an enrolled key may ask of a server, in one table (packrack-keys(7) has the same one). Every
 * request is checked against it, with the role that its key has at that moment.
 */
enum pr_role {
	PR_ROLE_NODE = 1, /* announce, send summaries and answers */
	PR_ROLE_READ = 2, /* query, see status */
	PR_ROLE_OPERATE = 4, /* query, see status, and command */
	PR_ROLE_ALL = 7, /* these roles; every peer of a server without keys */
	PR_ROLE_ANONYMIZED = 8, /* query, through the merger's policy (merger/handout.h) */
};

/* Parses "read", or several: "node,operate". 0: an unknown role. */
unsigned pr_role_parse(const char *text);
/* The text of a set of roles, as pr_role_parse takes it. */
#define PR_ROLE_TEXT sizeof("node,read,operate,read-anonymized")
const char *pr_role_text(unsigned roles, char text[PR_ROLE_TEXT]);

/*
 * The roles that may send a server this message. A message that is not in the table is for
 * nodes only. A message that only servers send is for no role: 0.
 */
unsigned pr_roles_for(Packrack__Envelope__BodyCase body);

/* ---- inside proto/rpc: keys are checked ---- */

struct event_base;

/*
 * ZeroMQ's authentication protocol (RFC 27): admits CURVE clients whose public key is enrolled, and
 * gives their messages that key (Z85) as user id, so that each can be checked anew. One per context,
 * made before its server is bound. dir is a key directory; *enrolled: its list, as
 * long as this lasts.
 */
struct pr_zap *pr_zap_create(struct event_base *base, void *ctx, const char *dir,
	struct pr_enrolled **enrolled, struct pr_error *err);
void pr_zap_destroy(struct pr_zap **zap);

/*
 * Inside proto/rpc: checks what a peer may send. enrolled NULL: no keys, all may send
 * everything.
 */

/* Fills in who the peer is, by the user id that the ZAP handler gave its messages. */
void pr_admit_fill(
	struct pr_enrolled *enrolled, const char *user_id, struct pr_rpc_peer *peer);
/* false: why holds a line for the peer. */
bool pr_admit_message(const struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer,
	Packrack__Envelope__BodyCase body, struct pr_error *why);
#define PR_ADMIT_REVOKED "your key is not enrolled here any more"
