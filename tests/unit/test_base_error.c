/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/log.h"
#include "tests/unit/unit.h"

START_TEST(error_texts)
{
	struct pr_error err;

	errno = ENOENT;
	ck_assert_int_eq(pr_error_set(&err, "no %s", "volume"), -1);
	ck_assert_str_eq(err.text, "no volume");
	ck_assert_int_eq(pr_error_errno(&err, "cannot open %s", "x"), -1);
	ck_assert_str_eq(err.text, "cannot open x: No such file or directory");
	ck_assert_int_eq(pr_error_prefix(&err, "node %d", 3), -1);
	ck_assert_str_eq(err.text, "node 3: cannot open x: No such file or directory");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(pr_error_set(NULL, "nobody asks"), -1);
	ck_assert_int_eq(pr_error_errno(NULL, "nobody asks"), -1);
	ck_assert_int_eq(pr_error_prefix(NULL, "nobody asks"), -1);
}
END_TEST

START_TEST(error_long_texts_are_cut)
{
	struct pr_error err;
	char text[2000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	pr_error_set(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
	errno = EIO;
	pr_error_errno(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
	pr_error_prefix(&err, "%s", text);
	ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
}
END_TEST

/* stderr goes into a pipe; returns what came out. */
static void
log_through(int fds[2], char *out, size_t size, enum pr_log_level level, const char *text)
{
	ssize_t n;

	pr_log(level, "%s", text);
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	n = read(fds[0], out, size - 1);
	out[n < 0 ? 0 : n] = '\0';
}

START_TEST(log_lines)
{
	char long_text[3000], out[4000], stream[64];
	struct stat st;
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	pr_log_open("packrack-test", PR_LOG_INFO, PR_LOG_AUTO);
	log_through(fds, out, sizeof out, PR_LOG_WARNING, "low\nspace\033[2J");
	ck_assert_str_eq(out, "packrack-test: warning: low?space?[2J\n");
	log_through(fds, out, sizeof out, PR_LOG_DEBUG, "not this");
	ck_assert_str_eq(out, "");

	memset(long_text, 'y', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = '\0';
	log_through(fds, out, sizeof out, PR_LOG_ERROR, long_text);
	ck_assert_uint_eq(strlen(out), strlen("packrack-test: error: ") + 1023 + 1);
	ck_assert_int_eq(out[strlen(out) - 1], '\n');

	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	pr_log_open("packrack-test", PR_LOG_INFO, PR_LOG_AUTO);
	log_through(fds, out, sizeof out, PR_LOG_ERROR, "gone");
	ck_assert_str_eq(out, "<3>gone\n");
	setenv("JOURNAL_STREAM", "1:1", 1);
	pr_log_open("packrack-test", PR_LOG_INFO, PR_LOG_AUTO);
	log_through(fds, out, sizeof out, PR_LOG_ERROR, "gone");
	ck_assert_str_eq(out, "packrack-test: error: gone\n");
}
END_TEST

static void
fill(TCase *tc)
{
	tcase_add_test(tc, error_texts);
	tcase_add_test(tc, error_long_texts_are_cut);
	tcase_add_test(tc, log_lines);
}

int
main(void)
{
	return unit_run("base error", fill);
}
