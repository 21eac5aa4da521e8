/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_DISPATCHER_H
#define PR_DISPATCHER_DISPATCHER_H

#include "proto/base/error.h"

/* The program. Returns its exit status; when that is not 0, err says why in one line. */
int prd_dispatcher_main(int argc, char **argv, struct pr_error *err);

#endif
