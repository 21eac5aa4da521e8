/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_MANAGE_H
#define PR_DISPATCHER_MANAGE_H

#include "dispatcher/oport.h"
#include "dispatcher/send.h"
#include "proto/base/loop.h"

/*
 * The management socket (CLog section 3.4): figures and commands over ZeroMQ, in the loop's
 * thread. Commands travel to the send thread as events; its replies come back here.
 */
struct prd_manage;

struct prd_manage_config {
	const char *endpoint;
	const char *metrics; /* where to answer scrapes; NULL: nowhere */
	const char *keys; /* key directory, or NULL; kept */
	const struct prd_inputs *inputs;
	struct prd_sender *sender;
	const struct prd_oport *oport;
	struct pr_ring *events; /* same producer thread as the o-port's */
	uint64_t epoch;
};

struct prd_manage *prd_manage_open(
	struct pr_loop *loop, const struct prd_manage_config *config, struct pr_error *err);
void prd_manage_close(struct prd_manage **manage);

/* A PRD_REPLY_DONE of the send thread. */
void prd_manage_reply(struct prd_manage *manage, const struct prd_reply *reply);

#endif
