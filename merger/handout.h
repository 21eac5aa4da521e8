/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/text.h"
#include "proto/rpc/packrack.pb-c.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/source.h"

/*
 * What users may have of packets. Whoever has the role read-anonymized, and no other that reads, gets all packets through the
 * policy (proto/wire/anonymize.h), and filters look at packets behind it: a filter that looked at them before would tell
 * addresses by counting. Limits hold for a user of any role but operate: links, age, rate.
 */
struct prm_handout_options {
	const char *policy,
		*key; /* files; NULL: nobody may read anonymized; policy NULL: the default */
	const struct pr_string_list
		*limits; /* "USER links=A,B max-age=7d max-rate=10M", bytes a second */
};

struct prm_handout;
/* Reads the files. */
struct prm_handout *prm_handout_create(
	const struct prm_handout_options *options, struct pr_error *err);
void prm_handout_destroy(struct prm_handout **h);

/* Does this user get less than all? */
bool prm_handout_limits(const struct prm_handout *h, const struct pr_rpc_peer *peer);
/* Is it one who sees nothing but anonymized packets? */
bool prm_handout_anonymizes(const struct pr_rpc_peer *peer);

/* A query's packets pass one by one. */
struct prm_gate;
/* Of such a user. Changes query, which must be the caller's own: nodes are not asked what the gate decides. NULL: err is for the client. */
struct prm_gate *prm_gate_create(struct prm_handout *h, const struct pr_rpc_peer *peer,
	Packrack__Query *query, int64_t now, struct pr_error *err);
void prm_gate_destroy(struct prm_gate **g);
/* False: the user does not get it. True: p may have been changed; its data is valid until the next call. */
bool prm_gate_passes(struct prm_gate *g, struct pr_packet *p);
/* So many packets it looks at in one go; then others have their turn. */
uint32_t prm_gate_go(const struct prm_gate *g);
/* There was no memory for a packet: the answer cannot go on. */
bool prm_gate_failed(const struct prm_gate *g);
/* Bytes of packets that may have gone until now (monotonic ns); UINT64_MAX: any. */
uint64_t prm_gate_allowed(const struct prm_gate *g, int64_t mono);
