/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ADMIT_H
#define PR_RPC_ADMIT_H

#include <stdbool.h>

#include "proto/base/error.h"
#include "proto/rpc/keys.h"
#include "proto/rpc/rpc.h"

/* Inside proto/rpc: may this peer of a server send this? enrolled NULL: no keys, everybody may all. */

/* Fills in who the peer is, by the user id that the ZAP handler gave its messages. */
void pr_admit_fill(
	struct pr_enrolled *enrolled, const char *user_id, struct pr_rpc_peer *peer);
/* false: why holds a line for the peer. */
bool pr_admit_message(const struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer,
	Packrack__Envelope__BodyCase body, struct pr_error *why);
/* false: its key has been revoked since it connected. */
bool pr_admit_still(struct pr_enrolled *enrolled, const struct pr_rpc_peer *peer);
#define PR_ADMIT_REVOKED "your key is not enrolled here any more"

#endif
