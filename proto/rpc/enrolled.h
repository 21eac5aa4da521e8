/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ENROLLED_H
#define PR_RPC_ENROLLED_H

#include "proto/rpc/keys.h"

/* Inside proto/rpc: line `number` of an enrolled file. 1: a key; 0: nothing; -1 and err: neither. */
int pr_enrolled_parse(const char *file, unsigned number, const char *line,
	struct pr_enrolled_key *out, struct pr_error *err);

#endif
