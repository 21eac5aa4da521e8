/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_DOOR_H
#define PRL_LOGGER_DOOR_H

#include "logger/volume_writer.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"
#include "proto/base/loop.h"

/*
 * Where the volume's indexer hands in what it made, and orders to delete that a merger gave it: a local
 * socket that only this user can write to.
 * Each record is checked and appended at once, and answered, so that it comes one at a time and gives
 * way when the volume does not take it. Loop's thread.
 */
struct prl_writer_socket;

struct prl_writer_socket *prl_writer_socket_open(struct pr_loop *loop, struct sfs *sfs,
	struct prl_volume_writer *append, struct pr_error *err);
void prl_writer_socket_close(struct prl_writer_socket **door);

#endif
