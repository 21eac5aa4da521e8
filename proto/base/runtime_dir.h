/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "proto/base/error.h"

/*
 * Where the programs of one machine that share a volume find each other: the logger's shared memory
 * and index socket are entries of a runtime directory, named after the volume's UUID. The directory
 * depends on the user whom the logger runs as:
 * - root, or the owner of /run/packrack: /run/packrack
 * - any other user: $XDG_RUNTIME_DIR/packrack; without XDG_RUNTIME_DIR: /dev/shm/packrack-UID
 * Only this user and root can create anything there, so nobody else can take a name first.
 */
#define PR_RUNTIME_DIR "/run/packrack"
#define PR_RUNTIME_PATH 108 /* as much as the path of a socket takes */

/* Root, before it becomes another user: /run/packrack is made, and is that user's from now on. */
int pr_runtime_give(uid_t user, gid_t group, struct pr_error *err);
/* Writer: the path of an entry in our own directory, which is made if it does not exist. */
int pr_runtime_own(const char *entry, char path[PR_RUNTIME_PATH], struct pr_error *err);
/*
 * Reader: finds an entry in /run/packrack, in our own directory, or, for root, in that of the user
 * `owner` of the volume. False: there is none.
 */
bool pr_runtime_find(const char *entry, uid_t owner, char path[PR_RUNTIME_PATH]);
