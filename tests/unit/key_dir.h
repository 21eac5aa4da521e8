/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zmq.h>

#include "proto/rpc/keys.h"

/* Key directories as `packrack keys` leaves them, for tests and fuzzers of what reads them. */

/* Writes DIR/NAME as a new file, and waits until who reads it looks at it with the next message. */
static inline void __attribute__((format(printf, 4, 5)))
key_dir_write(const char *dir, const char *name, mode_t mode, const char *fmt, ...)
{
	char path[160], beside[168];
	va_list args;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(beside, sizeof(beside), "%s.new", path);
	FILE *f = fopen(beside, "w");
	if (!f)
		abort();
	va_start(args, fmt);
	vfprintf(f, fmt, args);
	va_end(args);
	if (fclose(f) || chmod(beside, mode) || rename(beside, path))
		abort();
	for (int64_t until = pr_now_mono() + PR_ENROLLED_LOOK_NS; pr_now_mono() <= until;)
		;
}

/* Makes the directory, and a pair in it. */
static inline void
key_dir_make(const char *dir, char public[PR_KEY_TEXT])
{
	char secret[PR_KEY_TEXT];

	mkdir(dir, 0700);
	if (zmq_curve_keypair(public, secret))
		abort();
	key_dir_write(dir, "secret", 0600, "secret-key %s\n", secret);
	key_dir_write(dir, "public", 0644, "public-key %s\n", public);
}
