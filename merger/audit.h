/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "merger/fanout.h"

/*
 * Who asked for what, and got how much: a record (a line of JSON) when a query begins or is refused, one when it ends, and one for each command as it comes. In
 * the log, and in a volume of the merger's own, which overwrites its oldest records when it is full. `packrack audit` shows
 * them.
 */
#define PRM_AUDIT_STREAM "audit"
#define PRM_AUDIT_BYTES (64 << 20) /* of a volume that is made; some 200,000 records */

struct prm_audit;
/* path: of the volume; it is made if there is none. */
struct prm_audit *prm_audit_open(const char *path, struct pr_error *err);
void prm_audit_close(struct prm_audit **a);
/* All take NULL. */
void prm_audit_query(struct prm_audit *a, const struct prm_fanout *f);
void prm_audit_end(struct prm_audit *a, const struct prm_fanout *f);
/* A query that did not begin. */
void prm_audit_refused(struct prm_audit *a, const struct pr_rpc_peer *peer,
	const Packrack__Query *query, const char *why);
void prm_audit_command(struct prm_audit *a, const struct pr_rpc_peer *peer,
	const Packrack__Command *command);
/* Makes records durable that are older than some 200 ms. */
void prm_audit_tick(struct prm_audit *a);
/* Records that could not be written. */
uint64_t prm_audit_lost(const struct prm_audit *a);
