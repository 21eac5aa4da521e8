/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_RPC_ENROLLED_H
#define PR_RPC_ENROLLED_H

#include "proto/rpc/keys.h"

/* Inside proto/rpc: one line of an enrolled file. */
enum pr_enrolled_line { PR_ENROLLED_KEY, PR_ENROLLED_NOTHING, PR_ENROLLED_BAD };
enum pr_enrolled_line pr_enrolled_parse(const char *line, struct pr_enrolled_key *out);

#endif
