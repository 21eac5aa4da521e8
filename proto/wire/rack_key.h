/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/wire/frame.h"

/*
 * Reads the rack key of frames from the file `rack` of a key directory: lines "frame-key HEX", 64 digits. The
 * first is the key; a second is the old key, which is accepted until the change is complete. dir NULL: *key
 * is unset. Otherwise a key must be there. *key is locked in memory until pr_rack_key_forget.
 */
int pr_rack_key_read(const char *dir, struct pr_frame_key *key, struct pr_error *err);
void pr_rack_key_forget(struct pr_frame_key *key);

/*
 * For nodes, which may have a new key before their dispatcher has it. A node tags its frames with the key that
 * the dispatcher used last, and forgets the old key when the dispatcher uses the new one.
 */
void pr_rack_key_heard(struct pr_frame_key *key, bool by_alternate);
/* While no dispatcher answers: a node alternates between both keys. */
void pr_rack_key_turn(struct pr_frame_key *key);
