/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_CLIENT_H
#define PR_CLI_CLIENT_H

#include "merger/cli/cli.h"

/* One question, one answer: status and commands. *reply is freed with pr_message_free. */

/* reply's body is a Status; from a program whose name begins with `program`. */
int client_status(const char *endpoint, const struct pr_rpc_keys *keys, const char *program,
	Packrack__Envelope **reply, struct pr_error *err);

/*
 * reply's body is a CommandDone; one that was not done is an error. Stopping waits for the nodes:
 * hence the time. 1: capture is stopped, but not all nodes said that they have stored all.
 */
int client_command(const char *endpoint, const struct pr_rpc_keys *keys,
	const Packrack__Command *command, int64_t timeout_ns, Packrack__Envelope **reply,
	struct pr_error *err);

/*
 * Endpoint of flag, variable or fallback; *given: the user named it. A fallback at which nobody
 * listens is NULL without an error text.
 */
const char *client_endpoint(const char *flag, const char *variable, const char *fallback,
	bool *given, struct pr_error *err);

#endif
