/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "logger/volume_writer.h"
#include "proto/base/loop.h"

/*
 * The index socket: UUID.index in the runtime directory (proto/base/runtime_dir.h), for programs of this
 * user and of root only. The volume's indexer
 * sends index records to it, and the deletions that a merger ordered. Each record is
 * checked, appended and answered at once, so the indexer sends one at a time and waits when
 * the volume does not take it. Loop's thread.
 */

struct prl_writer_socket *prl_writer_socket_open(struct pr_loop *loop, struct sfs *sfs,
	struct prl_volume_writer *append, struct pr_error *err);
void prl_writer_socket_close(struct prl_writer_socket **door);
