/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/client.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

#define STATUS_NS (5 * PR_NS_PER_S)

/* -1 with the failure's text when that is the reply. */
static int
expect(const char *endpoint, Packrack__Envelope__BodyCase body, Packrack__Envelope **reply,
	struct pr_error *err)
{
	if ((*reply)->body_case == body)
		return 0;
	if ((*reply)->body_case == PACKRACK__ENVELOPE__BODY_FAILURE)
		pr_error_set(err, "%s: %s", endpoint, (*reply)->failure->text);
	else
		pr_error_set(err, "%s answers with %s: is it the right program?", endpoint,
			pr_message_name(*reply));
	pr_message_free(reply);
	return -1;
}

int
client_status(const char *endpoint, const struct pr_rpc_keys *keys, const char *program,
	Packrack__Envelope **reply, struct pr_error *err)
{
	Packrack__StatusRequest request = PACKRACK__STATUS_REQUEST__INIT;
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = 1;
	env.body_case = PACKRACK__ENVELOPE__BODY_STATUS_REQUEST;
	env.status_request = &request;
	request.per_link = true;
	if (pr_rpc_ask(endpoint, keys, &env, STATUS_NS, reply, err) < 0 ||
		expect(endpoint, PACKRACK__ENVELOPE__BODY_STATUS, reply, err) < 0)
		return -1;
	if (!strncmp((*reply)->status->program, program, strlen(program)))
		return 0;
	pr_error_set(
		err, "%s is a %s, and no %s", endpoint, (*reply)->status->program, program);
	pr_message_free(reply);
	return -1;
}

/* Capture has ended all the same: some node has not said that it stored all. */
static bool
stopped(const Packrack__Status *status)
{
	return status && status->state && !strcmp(status->state, "stopped");
}

int
client_command(const char *endpoint, const struct pr_rpc_keys *keys,
	const Packrack__Command *command, int64_t timeout_ns, Packrack__Envelope **reply,
	struct pr_error *err)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = 1;
	env.body_case = PACKRACK__ENVELOPE__BODY_COMMAND;
	env.command = (Packrack__Command *)command;
	if (pr_rpc_ask(endpoint, keys, &env, timeout_ns, reply, err) < 0 ||
		expect(endpoint, PACKRACK__ENVELOPE__BODY_COMMAND_DONE, reply, err) < 0)
		return -1;
	if ((*reply)->command_done->ok)
		return 0;
	if (!strcmp(command->verb, "stop") && stopped((*reply)->command_done->status))
		return 1;
	pr_error_set(err, "%s", (*reply)->command_done->text);
	pr_message_free(reply);
	return -1;
}

const char *
client_endpoint(const char *flag, const char *variable, const char *fallback, bool *given,
	struct pr_error *err)
{
	const char *from = getenv(variable);
	struct pr_error none;

	*given = flag || (from && from[0]);
	if (*given || pr_rpc_reachable(fallback, &none) == 0)
		return cli_endpoint(flag, variable, fallback, err);
	return NULL;
}
