/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_MESSAGE_CHECK_H
#define PR_RPC_MESSAGE_CHECK_H

#include "proto/base/error.h"
#include "proto/rpc/packrack.pb-c.h"

/* What bytes that protobuf takes may still not say; see message.h for the list. 0 or -1. */
int pr_message_check(const Packrack__Envelope *env, struct pr_error *err);

#endif
