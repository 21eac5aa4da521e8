/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_STORE_H
#define PRL_LOGGER_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "logger/append.h"
#include "logger/streamfs/streamfs.h"
#include "proto/base/error.h"

/*
 * Packets that another node recorded, moved here: they keep epoch, link, seq and times, so answers give
 * each once, wherever it lies. One thread, the volume's writer's.
 */

/*
 * body: a MIXED segment (proto/wire/segment.h). All or, where err says why, none of the packets are
 * taken; they are durable after prl_append_flush. 0 or -1.
 */
int prl_store_packets(struct sfs *sfs, struct prl_append *append, const void *body,
	size_t len, struct pr_error *err);

#endif
