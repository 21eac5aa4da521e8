/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/writer_socket.h"

#include <stdlib.h>
#include <unistd.h>

#include "logger/delete.h"
#include "proto/base/log.h"
#include "proto/base/runtime_dir.h"
#include "proto/rpc/rpc.h"

#define FENCES 512 /* more than links that a logger takes */

struct prl_writer_socket {
	struct sfs *sfs;
	struct prl_volume_writer *append;
	struct pr_rpc *rpc;
	char path[PR_RUNTIME_PATH];
};

/* One step of a deletion that a merger ordered. */
static void
delete_step(struct prl_writer_socket *d, const Packrack__Command *c,
	Packrack__CommandDone *done, struct pr_error *err)
{
	struct prl_delete_fence fences[FENCES];
	struct prl_delete_order order = {.since = c->since ? c->since : PR_TIME_MIN,
		.until = c->until,
		.at = c->at,
		.by = c->user,
		.moved_to = c->moved_to,
		.step = c->number,
		.fenced = c->n_fences > 0,
		.fences = fences};
	size_t *n = &order.fence_count;
	struct prl_deleted deleted;

	for (; *n < c->n_fences && *n < FENCES; ++*n)
		fences[*n] = (struct prl_delete_fence){
			c->fences[*n]->stream, c->fences[*n]->last_segment};
	done->ok = prl_delete_step(d->sfs, d->append, &order, &deleted, err) == 0;
	PR_COPY(done, &deleted, segments, bytes, more);
	if (deleted.segments)
		pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"user", c->user}),
			"%llu segments deleted by order of %s",
			(unsigned long long)deleted.segments, c->user);
}

/* What other nodes know of an epoch that is over; of others the node hears by itself. */
static void
store_ledger(struct prl_writer_socket *d, const Packrack__Ledger *l)
{
	struct pr_ledger_entry mark = {PR_LEDGER_MARK,
		.u.mark = {l->epoch, l->first_said, l->ended,
			{l->link, l->linktype, l->snaplen, l->ended, l->last_seq,
				l->last_otime, 0, 0, l->dropped_kernel,
				l->dropped_interface, l->dropped_ring, l->dropped_no_node,
				l->dropped_send, l->cut, 0, 0, ""}}};
	struct pr_ledger_entry seen = {
		.type = PR_LEDGER_UNOBSERVED, .u.unobserved = {l->epoch, l->link}};

	if (l->said_until >= pr_now_real() - PR_LEDGER_ALIVE_NS)
		return;
	for (size_t i = 0; i < l->n_unobserved_reason; i++) {
		struct pr_unobserved *u = &seen.u.unobserved.time;

		u->reason = l->unobserved_reason[i];
		u->since = l->unobserved_since[i];
		u->until = l->unobserved_until[i];
		PR_PRINT(u->by, "%s", l->unobserved_by[i]);
		prl_writer_tell(d->append, &seen);
	}
	PR_PRINT(mark.u.mark.link.name, "%s", l->name);
	prl_writer_tell(d->append, &mark);
	mark.u.mark.said_until = l->said_until;
	prl_writer_tell(d->append, &mark);
}

static int
class_of(struct pr_class *class, const Packrack__Hold *h, struct pr_error *err)
{
	*class = (struct pr_class){.number = (uint8_t)h->number,
		.guarantee = (uint16_t)PR_MIN(h->guarantee, 1001U),
		/* what is released goes as if it were too old */
		.keep = h->released ? 1 : 0};
	int len = snprintf(class->name, sizeof class->name, PR_CLASS_HOLD "%s", h->name);

	if (h->number < PR_CLASS_HOLDS || h->number > PR_CLASS_MAX ||
		len >= (int)sizeof class->name || !pr_class_valid(class))
		return pr_error_set(err, "that is no hold");
	return 0;
}

/* Keeps a message as a record of a stream. */
static int
keep(struct prl_writer_socket *d, const char *stream, const ProtobufCMessage *m,
	struct pr_error *err)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		return pr_error_set(err, "no memory for stream %s", stream);
	protobuf_c_message_pack(m, bytes);
	int rc = prl_writer_record(d->append, stream, bytes, len, err);
	free(bytes);
	return rc;
}

static int
hold(struct prl_writer_socket *d, const Packrack__Command *c, struct pr_error *err)
{
	struct pr_class class;
	uint8_t *bytes;
	int rc = -1;

	if (!c->hold || class_of(&class, c->hold, err) < 0)
		return pr_error_set(err, "that is no hold");
	Packrack__Hold h = *c->hold;
	h.user = c->user;
	h.at = h.at ? h.at : pr_now_real();
	size_t len = packrack__hold__get_packed_size(&h);
	if ((bytes = malloc(len))) {
		packrack__hold__pack(&h, bytes);
		rc = prl_writer_hold(d->append, &class, bytes, len, err);
	}
	free(bytes);
	if (rc == 0)
		pr_log_with(PR_LOG_INFO, PR_LOG_FIELDS({"user", h.user}),
			"hold %s is %s by order of %s: %s", h.name,
			h.released ? "released" : "added", h.user, h.reason);
	return rc;
}

/*
 * Stores packets of another node, and the names of their links. Without packets: makes all
 * durable.
 */
static int
store(struct prl_writer_socket *d, const Packrack__Command *c, struct pr_error *err)
{
	struct pr_class class;

	if (c->hold && class_of(&class, c->hold, err) < 0)
		return -1;
	if (c->hold && c->packets.len)
		return prl_writer_put_held(
			d->append, &class, c->packets.data, c->packets.len, err);
	if (c->hold)
		prl_writer_set_class(d->append, &class);
	for (size_t i = 0; i < c->n_links; i++) {
		const Packrack__LinkInfo *from = c->links[i];
		struct pr_ledger_entry e = prl_link_entry(
			from->epoch, from->link, from->linktype, from->snaplen, from->name);

		prl_writer_tell(d->append, &e);
	}
	for (size_t i = 0; i < c->n_ledgers; i++)
		store_ledger(d, c->ledgers[i]);
	return c->packets.len ? prl_writer_put_moved(d->append, c->packets.data,
					c->packets.len, c->copies, err)
			      : prl_writer_flush(d->append, err);
}

static void
on_message(void *arg, const struct pr_rpc_peer *peer, const Packrack__Envelope *env)
{
	struct prl_writer_socket *d = arg;
	Packrack__IndexStored stored = PACKRACK__INDEX_STORED__INIT;
	Packrack__CommandDone done = PACKRACK__COMMAND_DONE__INIT;
	Packrack__Envelope reply;
	struct pr_error err = {""};

	if (env->body_case == PACKRACK__ENVELOPE__BODY_INDEX_RECORD) {
		const Packrack__IndexRecord *r = env->index_record;
		struct pr_index_record record = {.body = r->body.data, .len = r->body.len};

		PR_COPY(&record, r, link, level, first_sequence, check, segments, min_time,
			max_time);
		int rc = prl_writer_index(d->append, &record, &err);
		stored.stored = rc == 0;
		stored.later = rc > 0;
		stored.text = err.text;
		reply = pr_message_of(
			env->id, PACKRACK__ENVELOPE__BODY_INDEX_STORED, &stored);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_COMMAND) {
		const Packrack__Command *c = env->command;

		if (!strcmp(c->verb, "delete"))
			delete_step(d, c, &done, &err);
		else if (!strcmp(c->verb, "store"))
			done.ok = store(d, c, &err) == 0;
		else if (!strcmp(c->verb, "hold"))
			done.ok = hold(d, c, &err) == 0;
		else if (!strcmp(c->verb, "state") && c->state)
			done.ok = keep(d, "state", &c->state->base, &err) == 0;
		else
			pr_error_set(
				&err, "a logger does not %s: ask the dispatcher", c->verb);
		done.text = err.text;
		reply = pr_message_of(
			env->id, PACKRACK__ENVELOPE__BODY_COMMAND_DONE, &done);
	} else {
		return;
	}
	pr_rpc_send(d->rpc, peer, &reply, NULL);
}

struct prl_writer_socket *
prl_writer_socket_open(struct pr_loop *loop, struct sfs *sfs,
	struct prl_volume_writer *append, struct pr_error *err)
{
	struct prl_writer_socket *d = calloc(1, sizeof(*d));
	char entry[64], endpoint[PR_RUNTIME_PATH + 8];
	struct sfs_volume_info info;

	if (!d)
		return pr_error_null(err, "no memory for the indexer's socket");
	d->sfs = sfs;
	d->append = append;
	sfs_info(sfs, &info, NULL);
	PR_PRINT(entry, "%s.index", info.uuid);
	if (pr_runtime_own(entry, d->path, err) == 0) {
		PR_PRINT(endpoint, "ipc://%s", d->path);
		d->rpc = pr_rpc_listen_own(loop, endpoint, on_message, d, err);
	}
	if (!d->rpc)
		prl_writer_socket_close(&d);
	return d;
}

/* The volume's lock is still ours: nobody else can have bound the path meanwhile. */
void
prl_writer_socket_close(struct prl_writer_socket **door)
{
	struct prl_writer_socket *d = PR_TAKE(door);

	if (!d)
		return;
	if (d->rpc) {
		pr_rpc_destroy(&d->rpc);
		unlink(d->path);
	}
	free(d);
}
