/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_RACK_KEY_H
#define PR_WIRE_RACK_KEY_H

#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * Reads a rack's key: a file of 64 hexadecimal digits (and a newline), that only its owner may
 * read. path NULL: no key, *key is unset.
 */
int pr_rack_key_read(const char *path, struct pr_frame_key *key, struct pr_error *err);

#endif
