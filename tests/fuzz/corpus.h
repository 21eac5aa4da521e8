/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* What the files of make_corpus share. */

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define TEXT(s) ((char *)(uintptr_t)(s))
#define END ((const void *)NULL)

extern const char *corpus_top; /* the folder for all of them */
/* Ends the program. */
void corpus_die(const char *what);
/* One input: the parts, each a pointer and a length, up to END. */
void corpus_put(const char *target, const char *name, ...);

/* corpus_NAME.c each */
void corpus_frames(void);
void corpus_volumes(void);
void corpus_packets(void);
void corpus_messages(void);
void corpus_summaries(void);
void corpus_keys(void);
void corpus_stages(void);
