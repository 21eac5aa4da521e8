/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What a valid input must keep to; a finding like a crash is one. */
#define MUST(condition)                                                                    \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__,      \
				#condition);                                               \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* A public key as text: fuzz_keys enrolls it, and a first input asks with it. */
#define FUZZ_NEW_KEY "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"

/* After opening a volume as its writer: a target that fails must not leave its shared memory behind. */
static inline void
fuzz_unname_shm(const char *uuid)
{
	char name[64];

	snprintf(name, sizeof name, "/packrack-%s", uuid);
	shm_unlink(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
