/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/sandbox.h"

/*
 * Privilege separation. A daemon that starts with privileges splits in two, before it reads a byte of
 * anybody's:
 * - The parent keeps those privileges that its requests need: it opens packet sockets, binds them, prepares
 *   and restores interfaces (ethtool, tc, IPv6), blinks a LED, opens volumes, trace files and keys. It does
 *   this only for the interfaces and paths that the command line names, which are fixed before the split.
 *   It reads requests of fixed form (proto/base/privilege.h) and nothing else, and ends with the daemon.
 * - The daemon becomes its user, without capabilities, in a sandbox (proto/base/sandbox.h).
 * The daemon keeps its process id: its supervisor sees, signals and restarts the process that works.
 */
enum pr_grant_kind {
	PR_GRANT_INTERFACE, /* "any": sockets may be bound to all at once */
	PR_GRANT_READ, /* a path; it need not be there yet */
	PR_GRANT_WRITE,
	PR_GRANT_KEYS, /* the files of a key directory */
	PR_GRANT_ENDPOINT, /* the daemon itself may write in the folder of ipc://PATH */
};

#define PR_GRANTS_MAX 256
struct pr_grants {
	struct pr_sandbox sandbox;
	struct pr_grant {
		enum pr_grant_kind kind;
		char *name;
		char *real; /* a path without symbolic links, as it was at the start */
	} list[PR_GRANTS_MAX];
	size_t count;
};

/* name NULL: nothing. */
void pr_grant(struct pr_grants *g, enum pr_grant_kind kind, const char *name);
void pr_grant_all(
	struct pr_grants *g, enum pr_grant_kind kind, const struct pr_string_list *names);

/*
 * Splits off the parent if this process has any capability, and drops all of them here. Call it when the
 * options are checked, before any thread. Frees the list. -1: the program must not go on.
 */
int pr_privilege_drop(struct pr_grants *g, struct pr_error *err);
/* Ends the parent, and waits for that. */
void pr_privilege_end(void);

/* The parent: answers requests on fd until the other end is closed. Tests call it. */
void pr_parent_serve(int fd, const struct pr_grants *g);
