/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/capability.h>

#include "proto/base/text.h"

/*
 * What a daemon gives up before it reads what others send: its user if that is root, all capabilities, new
 * privileges by execve (NoNewPrivs), system calls that it does not need (seccomp), and files that it does
 * not write (Landlock, where the kernel has it).
 */
enum pr_sandbox_program {
	PR_SANDBOX_DISPATCHER = 1 << 0,
	PR_SANDBOX_LOGGER = 1 << 1,
	PR_SANDBOX_INDEXER = 1 << 2,
	PR_SANDBOX_MERGER = 1 << 3,
};

struct pr_sandbox {
	enum pr_sandbox_program program;
	const char *user; /* --user; NULL: PR_SANDBOX_USER, else nobody */
	struct pr_string_list writes; /* pr_sandbox_write */
};

#define PR_SANDBOX_USER "packrack"
#define PR_CAP(cap) (UINT64_C(1) << (cap))

/* A file, a folder, or an endpoint ipc://PATH, for its folder: it may be written. Left out if not there. */
void pr_sandbox_write(struct pr_sandbox *s, const char *path);
/*
 * Gives up, for good, all but the right to lock memory, which dispatcher and logger have until
 * pr_sandbox_locked: AF_XDP and io_uring need it when they are opened
 * Before any thread is started. Frees s->writes. -1: must not go on.
 */
int pr_sandbox_enter(struct pr_sandbox *s, struct pr_error *err);
/* Memory is locked: gives up that right too. Before any thread is started. */
int pr_sandbox_locked(struct pr_error *err);
/* All sockets are bound: from here on no thread may bind another. */
int pr_sandbox_seal(struct pr_error *err);

/* True if the process has any capability. */
bool pr_sandbox_privileged(void);
/* Of all capabilities keeps those in the set of PR_CAP, where it has them; and no new privileges. */
int pr_sandbox_keep(uint64_t caps, struct pr_error *err);
