/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_RACK_KEY_H
#define PR_WIRE_RACK_KEY_H

#include "proto/base/error.h"
#include "proto/wire/frame.h"

/*
 * Reads the key of a rack's frames from the file `rack` of a key directory: lines "frame-key HEX", 64
 * digits. The first is the key; a second is the one that it takes the place of, accepted until the
 * renewal is over. dir NULL: *key is unset. Else a key must be there. *key is locked in memory until
 * pr_rack_key_forget.
 */
int pr_rack_key_read(const char *dir, struct pr_frame_key *key, struct pr_error *err);
void pr_rack_key_forget(struct pr_frame_key *key);

/*
 * For nodes, which may be told of a new key before their dispatcher is: they speak with the key that
 * it used last. The old one is forgotten as soon as the dispatcher uses the new one.
 */
void pr_rack_key_heard(struct pr_frame_key *key, bool by_other);
/* While none is heard: with the other one, next time. */
void pr_rack_key_turn(struct pr_frame_key *key);

#endif
