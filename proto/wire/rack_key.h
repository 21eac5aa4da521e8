/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_RACK_KEY_H
#define PR_WIRE_RACK_KEY_H

#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * Reads the key of a rack's frames from the file `rack` of a key directory: the first line
 * "frame-key HEX", 64 digits. dir NULL: *key is unset. Else a key must be there. *key is locked in
 * memory until pr_rack_key_forget.
 */
int pr_rack_key_read(const char *dir, struct pr_frame_key *key, struct pr_error *err);
void pr_rack_key_forget(struct pr_frame_key *key);

#endif
