/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/runtime_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Not root, whose directory is that of the machine's own programs. */
enum { SOMEBODY = 54321, SOMEBODY_ELSE = 54322 };
static char session[] = "/tmp/packrack-runtime.XXXXXX", dir[PR_RUNTIME_PATH];
static struct pr_error err;
static char path[PR_RUNTIME_PATH], found[PR_RUNTIME_PATH];

static void
set_up(void)
{
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(SOMEBODY), 0);
	memcpy(strrchr(session, '.') + 1, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(session));
	setenv("XDG_RUNTIME_DIR", session, 1);
	snprintf(dir, sizeof dir, "%s/packrack", session);
}

static void
tear_down(void)
{
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	/* a plain user's is shared with the other tests */
	if (getuid() == 0 || strncmp(dir, "/dev/shm", 8) != 0)
		rmdir(dir);
	rmdir(session);
}

static void
make_file(const char *name)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	fclose(f);
}

START_TEST(own)
{
	char want[PR_RUNTIME_PATH + 8];
	struct stat st;

	ck_assert_int_eq(pr_runtime_own("v.shm", path, &err), 0);
	snprintf(want, sizeof want, "%s/v.shm", dir);
	ck_assert_str_eq(path, want);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0700);
	ck_assert(!pr_runtime_find("v.shm", geteuid(), found));
	make_file(path);
	ck_assert(pr_runtime_find("v.shm", geteuid(), found));
	ck_assert_str_eq(found, path);
	chmod(dir, 0777); /* anyone may have put it there */
	ck_assert(!pr_runtime_find("v.shm", geteuid(), found));
	ck_assert_int_eq(pr_runtime_own("v.shm", path, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "others may write to it"));
	unlink(want);
}
END_TEST

START_TEST(taken)
{
	ck_assert_int_eq(symlink("/tmp", dir), 0);
	ck_assert_int_eq(pr_runtime_own("v.shm", path, &err), -1);
	unlink(dir);
	if (getuid() != 0)
		return;
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(mkdir(dir, 0700) | chown(dir, SOMEBODY_ELSE, 0), 0);
	ck_assert_int_eq(seteuid(SOMEBODY), 0);
	ck_assert_int_eq(pr_runtime_own("v.shm", path, &err), -1);
	ck_assert_ptr_nonnull(strstr(err.text, "it is not ours"));
	ck_assert(!pr_runtime_find("v.shm", geteuid(), found));
}
END_TEST

START_TEST(without_session)
{
	char want[PR_RUNTIME_PATH];

	unsetenv("XDG_RUNTIME_DIR");
	snprintf(dir, sizeof dir, "/dev/shm/packrack-%u", (unsigned)geteuid());
	ck_assert_int_eq(pr_runtime_own("v.shm", path, &err), 0);
	snprintf(want, sizeof want, "/dev/shm/packrack-%u/v.shm", (unsigned)geteuid());
	ck_assert_str_eq(path, want);
	make_file(path);
	ck_assert(pr_runtime_find("v.shm", geteuid(), found));
	if (getuid() == 0) { /* root looks where the volume's owner has it */
		ck_assert_int_eq(seteuid(0), 0);
		ck_assert(!pr_runtime_find("v.shm", 0, found));
		ck_assert(pr_runtime_find("v.shm", SOMEBODY, found));
		ck_assert_str_eq(found, path);
	}
	unlink(path);
}
END_TEST

START_TEST(too_long)
{
	char name[PR_RUNTIME_PATH];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = 0;
	ck_assert_int_eq(pr_runtime_own(name, path, &err), -1);
	ck_assert(!pr_runtime_find(name, geteuid(), found));
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, own);
	tcase_add_test(tc, taken);
	tcase_add_test(tc, without_session);
	tcase_add_test(tc, too_long);
}

int
main(void)
{
	return unit_run("runtime directory", fill);
}
