/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/rpc/rpc.h"

struct pr_door {
	struct pr_append *append;
	struct pr_rpc *rpc;
	char endpoint[sizeof(PR_RPC_ENDPOINT_INDEX) +
		      sizeof(((struct sfs_volume_info *)0)->uuid)];
};

static void
answer(struct pr_door *d, const struct pr_rpc_peer *peer, uint64_t id,
	Packrack__IndexStored *stored)
{
	Packrack__Envelope env = PACKRACK__ENVELOPE__INIT;

	env.id = id;
	env.body_case = PACKRACK__ENVELOPE__BODY_INDEX_STORED;
	env.index_stored = stored;
	pr_rpc_send(d->rpc, peer, &env, NULL);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	const Packrack__IndexRecord *r = env->index_record;
	Packrack__IndexStored stored = PACKRACK__INDEX_STORED__INIT;
	struct pr_door *d = arg;
	struct pr_error err = {""};
	struct pr_index_body body;
	int rc;

	if (env->body_case != PACKRACK__ENVELOPE__BODY_INDEX_RECORD)
		return;
	body = (struct pr_index_body){.link = (uint16_t)r->link,
		.level = (uint16_t)r->level,
		.first_sequence = r->first_sequence,
		.check = r->check,
		.segments = r->segments,
		.min_time = r->min_time,
		.max_time = r->max_time,
		.body = r->body.data,
		.len = r->body.len};
	rc = pr_append_index(d->append, &body, &err);
	stored.stored = rc == 0;
	stored.later = rc > 0;
	stored.text = err.text;
	answer(d, peer, env->id, &stored);
}

struct pr_door *
pr_door_open(struct pr_loop *loop, struct sfs *sfs, struct pr_append *append,
	struct pr_error *err)
{
	struct pr_door *d = calloc(1, sizeof(*d));
	struct sfs_volume_info info;

	if (!d) {
		pr_error_set(err, "no memory for the indexer's socket");
		return NULL;
	}
	d->append = append;
	if (sfs_info(sfs, &info, err) == SFS_OK) {
		snprintf(
			d->endpoint, sizeof(d->endpoint), PR_RPC_ENDPOINT_INDEX, info.uuid);
		d->rpc = pr_rpc_listen(loop, d->endpoint, NULL, on_message, d, err);
	}
	if (!d->rpc)
		pr_door_close(&d);
	return d;
}

/* The volume's lock is still ours: nobody else can have bound the path meanwhile. */
void
pr_door_close(struct pr_door **door)
{
	struct pr_door *d = *door;

	if (!d)
		return;
	if (d->rpc) {
		pr_rpc_destroy(&d->rpc);
		unlink(d->endpoint + strlen("ipc://"));
	}
	free(d);
	*door = NULL;
}
