/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_CORPUS_H
#define TESTS_FUZZ_CORPUS_H

#include <stdint.h>

/* What the files of make_corpus share. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define TEXT(s) ((char *)(uintptr_t)(s))
#define END ((const void *)NULL)

/* Ends the program. */
void corpus_die(const char *what);
/* One input: the parts, each a pointer and a length, up to END. */
void corpus_put(const char *target, const char *name, ...);

void corpus_summaries(void);
void corpus_keys(void);

#endif
