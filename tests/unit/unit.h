/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <check.h>
#include <stdlib.h>

/*
 * ck_assert for what is looked at a million times: Check writes a note to a file for each assertion that it
 * comes by, this one only when it does not hold.
 */
#define unit_must(condition)                                                               \
	do {                                                                               \
		if (!(condition))                                                          \
			ck_abort_msg("%s does not hold", #condition);                      \
	} while (0)

/* Runs a suite of several test cases; nonzero on failure. */
static inline int
unit_run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The main of a unit test: runs one test case; nonzero on failure. */
static inline int
unit_run(const char *name, void (*fill)(TCase *tc))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 120); /* the machine may be busy */
	fill(tc);
	suite_add_tcase(suite, tc);
	return unit_run_suite(suite);
}
