/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/remote.h"

#include <stdlib.h>

struct prm_waiting_batch {
	struct prm_waiting_batch *next;
	ProtobufCBinaryData packets; /* in the message */
	void *message; /* kept, see pr_rpc_keep */
};

static void
drop_head(struct prm_remote *r)
{
	struct prm_waiting_batch *b = r->head;

	r->head = b->next;
	r->bytes -= b->packets.len;
	r->waiting--;
	r->reading = false;
	pr_rpc_release(b->message);
	free(b);
}

void
prm_remote_destroy(struct prm_remote **rp)
{
	struct prm_remote *r = PR_TAKE(rp);

	if (!r)
		return;
	while (r->head)
		drop_head(r);
	free(r->error);
	free(r);
}

int
prm_remote_batch(struct prm_remote *r, struct pr_rpc *rpc, const Packrack__Batch *batch,
	struct pr_error *err)
{
	if (r->ended || !r->owed) {
		pr_error_set(err, r->ended ? "it sent a batch after its end"
					   : "it sent more batches than it was asked for");
		goto fail;
	}
	if ((batch->packets.len || r->passes) && rpc && !r->error) {
		struct prm_waiting_batch *b = malloc(sizeof(*b));
		if (b) {
			*b = (struct prm_waiting_batch){.packets = batch->packets};
			b->message = pr_rpc_keep(rpc, &b->packets);
		}
		if (!b || !b->message) {
			free(b);
			pr_error_set(err, "no memory for a batch");
			goto fail;
		}
		*(r->head ? &r->tail->next : &r->head) = b;
		r->tail = b;
		r->bytes += b->packets.len;
		r->waiting++;
	}
	r->owed--;
	if (batch->frontier && batch->frontier > r->watermark)
		r->watermark = batch->frontier;
	return 0;
fail:
	r->ended = true;
	return -1;
}

int
prm_remote_pass_on(struct prm_remote *r, struct pr_rpc *to, const struct pr_rpc_peer *peer)
{
	while (r->head) {
		if (pr_rpc_pass_on(r->head->message, to, peer) < 0)
			return -1;
		drop_head(r);
	}
	return 0;
}

/*
 * 1: a packet in order; 0: the batch is used up; -1: the source has failed (error is set).
 */
static int
read_packet(struct prm_remote *r, struct pr_packet *out)
{
	struct pr_error err;
	int got = 0;

	if (!r->reading) {
		got = pr_segment_open(
			&r->reader, r->head->packets.data, r->head->packets.len, &err);
		r->reading = true;
		r->any = r->any && !r->rounds;
	}
	if (got == 0)
		got = pr_segment_next(&r->reader, out, &err);
	/* parts of flows, which have no seq, come between others of their time */
	bool parts = got > 0 && (out->flags | r->last.flags) & PR_PACKET_PARTS;
	if (got > 0 && r->any &&
		(parts ? out->otime < r->last.otime : pr_packet_compare(out, &r->last) < 0))
		got = pr_error_set(&err, "its packets are not in order");
	if (got > 0) {
		out->flags &= ~PRM_WATERMARK;
		r->last = *out;
		r->any = true;
	} else if (got < 0) {
		r->ended = true;
		if (!r->error)
			r->error = strdup(err.text);
	}
	return got;
}

static int
remote_next(struct pr_source *source, struct pr_packet *out, PR_UNUSED struct pr_error *err)
{
	struct prm_remote *r = (struct prm_remote *)source;

	if (r->passes && r->head)
		return PR_SOURCE_WAIT;
	while (r->head && !r->error) {
		int got = read_packet(r, out);

		if (got > 0)
			return PR_SOURCE_PACKET;
		if (got == 0)
			drop_head(r);
	}
	while (r->head)
		drop_head(r);
	if (r->ended)
		return PR_SOURCE_END;
	if (r->watermark <= r->passed || (r->any && r->watermark <= r->last.otime))
		return PR_SOURCE_WAIT;
	/* no packet is here: return the lowest key that the next one can have */
	*out = (struct pr_packet){.time = r->watermark,
		.otime = r->watermark,
		.flags = PRM_WATERMARK,
		.data = (const uint8_t *)""};
	r->passed = r->watermark;
	r->last = *out;
	r->any = true;
	return PR_SOURCE_PACKET;
}

struct prm_remote *
prm_remote_create(struct pr_error *err)
{
	struct prm_remote *r = calloc(1, sizeof(*r));

	if (!r)
		return pr_error_null(err, "no memory for a node's answer");
	r->source.next = remote_next;
	r->watermark = r->passed = INT64_MIN;
	return r;
}

uint32_t
prm_remote_take_credit(struct prm_remote *r, uint32_t window, uint32_t least)
{
	uint32_t busy = r->owed + r->waiting, more = window > busy ? window - busy : 0;

	if (r->ended || more < least)
		return 0;
	r->owed += more;
	return more;
}
