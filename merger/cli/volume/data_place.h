/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_DATA_PLACE_H
#define PR_CLI_DATA_PLACE_H

#include "merger/cli/volume/data.h"
#include "merger/cli/query/query_args.h"
#include "proto/wire/source.h"

/* Where moved packets go to: another node, or a volume of this machine. They keep their names. */
struct data_place;

/* links: what the packets' links are called. NULL: err. */
struct data_place *data_place_open(const struct data_args *a,
	Packrack__LinkInfo *const *links, size_t link_count, struct pr_error *err);
void data_place_close(struct data_place **place);
/* Copies the packet. */
int data_place_store(
	struct data_place *place, const struct pr_packet *p, struct pr_error *err);
/* All that was stored is durable when it returns 0. */
int data_place_flush(struct data_place *place, struct pr_error *err);
/* To ask it what it holds; time range and all else are the caller's. It borrows the args' texts. */
void data_place_question(const struct data_place *place, struct query_args *q);

#endif
