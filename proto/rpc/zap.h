/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ZAP_H
#define PR_RPC_ZAP_H

#include "proto/base/error.h"

struct event_base;
struct pr_zap;

/*
 * ZeroMQ's authentication protocol (RFC 27): admits CURVE clients whose public key is enrolled, and
 * gives their messages that key (Z85) as user id, so that each can be checked anew. One per context,
 * made before its server is bound. dir is a key directory.
 */
struct pr_zap *pr_zap_create(
	struct event_base *base, void *ctx, const char *dir, struct pr_error *err);
void pr_zap_destroy(struct pr_zap **zap);
struct pr_enrolled *pr_zap_enrolled(struct pr_zap *zap);

#endif
