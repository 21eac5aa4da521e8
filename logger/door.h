/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_LOGGER_DOOR_H
#define PR_LOGGER_DOOR_H

#include "logger/append.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"

/*
 * Where the volume's indexer hands in what it made, and orders to delete that a merger gave it: a local
 * socket that only this user can write to.
 * Each record is checked and appended at once, and answered, so that it comes one at a time and gives
 * way when the volume does not take it. Loop's thread.
 */
struct pr_door;

struct pr_door *pr_door_open(struct pr_loop *loop, struct sfs *sfs,
	struct pr_append *append, struct pr_error *err);
void pr_door_close(struct pr_door **door);

#endif
