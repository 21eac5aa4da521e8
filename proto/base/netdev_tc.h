/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_NETDEV_TC_H
#define PR_BASE_NETDEV_TC_H

#include "proto/base/netdev.h"

/* Of netdev.c: everything that comes in is dropped behind the packet sockets, by tc(8). */
int pr_tc_drop(struct pr_netdev *dev, struct pr_error *err);
void pr_tc_undo(struct pr_netdev *dev);

#endif
