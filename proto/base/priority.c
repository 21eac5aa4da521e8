/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE_GIVE_WAY 10

void
pr_priority_thread(int nice)
{
	setpriority(PRIO_PROCESS, 0, nice);
}

void
pr_priority_give_way(void)
{
	enum { WHO_PROCESS = 1, CLASS_BEST_EFFORT = 2, LOWEST = 7, CLASS_SHIFT = 13 };

	pr_priority_thread(NICE_GIVE_WAY);
	syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_BEST_EFFORT << CLASS_SHIFT | LOWEST);
}
