/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/runtime_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYSTEM, SESSION, SHARED_MEMORY, PLACES };
/* Others may look: what lies there has modes of its own. */
#define SYSTEM_MODE 0755

/* False: this user has no such place. */
static bool
place(unsigned which, uid_t user, char dir[PR_RUNTIME_PATH])
{
	const char *session = user == geteuid() ? getenv("XDG_RUNTIME_DIR") : NULL;
	int len;

	if (which == SYSTEM)
		len = snprintf(dir, PR_RUNTIME_PATH, PR_RUNTIME_DIR);
	else if (which == SHARED_MEMORY)
		len = snprintf(dir, PR_RUNTIME_PATH, "/dev/shm/packrack-%u", user);
	else if (session)
		len = snprintf(dir, PR_RUNTIME_PATH, "%s/packrack", session);
	else
		len = snprintf(dir, PR_RUNTIME_PATH, "/run/user/%u/packrack", user);
	return len < PR_RUNTIME_PATH;
}

/* Only root can make /run/packrack; elsewhere the directory must be the user's own, or root's. */
static bool
trusted(unsigned which, uid_t user, const char *dir)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
	       (which == SYSTEM ||
		       ((st.st_uid == user || st.st_uid == 0) && !(st.st_mode & 022)));
}

/*
 * Which of the places is the one in which we write. Root without capabilities may not write in all.
 */
static unsigned
own_place(void)
{
	struct stat st;

	if (stat(PR_RUNTIME_DIR, &st) < 0 ? geteuid() == 0
					  : (geteuid() == 0 || st.st_uid == geteuid()) &&
						    eaccess(PR_RUNTIME_DIR, W_OK) == 0)
		return SYSTEM;
	return getenv("XDG_RUNTIME_DIR") ? SESSION : SHARED_MEMORY;
}

static int
make(const char *dir, mode_t mode, struct pr_error *err)
{
	if (mkdir(dir, mode) == 0 || errno == EEXIST)
		return 0;
	return pr_error_errno(err, "cannot make the runtime directory %s", dir);
}

int
pr_runtime_give(uid_t user, gid_t group, struct pr_error *err)
{
	if (make(PR_RUNTIME_DIR, SYSTEM_MODE, err) < 0)
		return -1;
	if (lchown(PR_RUNTIME_DIR, user, group) < 0)
		return pr_error_errno(
			err, "cannot give " PR_RUNTIME_DIR " to user %u", user);
	return 0;
}

int
pr_runtime_own(const char *entry, char path[PR_RUNTIME_PATH], struct pr_error *err)
{
	unsigned which = own_place();
	char dir[PR_RUNTIME_PATH];

	if (!place(which, geteuid(), dir) ||
		snprintf(path, PR_RUNTIME_PATH, "%s/%s", dir, entry) >= PR_RUNTIME_PATH)
		return pr_error_set(err, "the path of XDG_RUNTIME_DIR is too long for a "
					 "socket in it: set a shorter one");
	if (make(dir, which == SYSTEM ? SYSTEM_MODE : 0700, err) < 0)
		return -1;
	if (trusted(which, geteuid(), dir))
		return 0;
	return pr_error_set(err,
		"runtime directory %s: it is not ours, or others may write to it: remove "
		"it, or set XDG_RUNTIME_DIR to a directory of our own",
		dir);
}

bool
pr_runtime_find(const char *entry, uid_t owner, char path[PR_RUNTIME_PATH])
{
	uid_t users[] = {geteuid(), owner};
	struct stat st;

	for (unsigned i = 0; i < (geteuid() == 0 ? 2 : 1) * PLACES; i++) {
		uid_t user = users[i / PLACES];
		char dir[PR_RUNTIME_PATH];

		if (place(i % PLACES, user, dir) && trusted(i % PLACES, user, dir) &&
			snprintf(path, PR_RUNTIME_PATH, "%s/%s", dir, entry) <
				PR_RUNTIME_PATH &&
			lstat(path, &st) == 0)
			return true;
	}
	return false;
}
