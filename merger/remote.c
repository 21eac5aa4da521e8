/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/remote.h"

#include <stdlib.h>
#include <string.h>

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
	if (!r->head)
		r->tail = NULL;
	r->bytes -= b->packets.len;
	r->waiting--;
	r->reading = false;
	pr_rpc_release(b->message);
	free(b);
}

void
prm_remote_destroy(struct prm_remote **rp)
{
	struct prm_remote *r = *rp;

	*rp = NULL;
	if (!r)
		return;
	while (r->head)
		drop_head(r);
	free(r->error);
	free(r);
}

static void
fail(struct prm_remote *r, const char *why)
{
	r->ended = true;
	if (!r->error)
		r->error = strdup(why);
}

static int
put(struct prm_remote *r, struct pr_rpc *rpc, ProtobufCBinaryData packets,
	struct pr_error *err)
{
	struct prm_waiting_batch *b = malloc(sizeof(*b));

	if (b)
		*b = (struct prm_waiting_batch){.packets = packets};
	if (b)
		b->message = pr_rpc_keep(rpc, &b->packets);
	if (!b || !b->message) {
		free(b);
		return pr_error_set(err, "no memory for a batch");
	}
	if (r->tail)
		r->tail->next = b;
	else
		r->head = b;
	r->tail = b;
	r->bytes += b->packets.len;
	r->waiting++;
	return 0;
}

int
prm_remote_batch(struct prm_remote *r, struct pr_rpc *rpc, const Packrack__Batch *batch,
	struct pr_error *err)
{
	int result = 0;

	if (r->ended)
		result = pr_error_set(err, "it sent a batch after its end");
	else if (!r->owed)
		result = pr_error_set(err, "it sent more batches than it was asked for");
	else if (batch->packets.len && rpc && !r->error)
		result = put(r, rpc, batch->packets, err);
	if (result < 0) {
		r->ended = true;
		return -1;
	}
	r->owed--;
	if (batch->frontier && batch->frontier > r->watermark)
		r->watermark = batch->frontier;
	return 0;
}

/* 1 a packet in order; 0 the batch is used up; -1 the source has been failed. */
static int
read_packet(struct prm_remote *r, struct pr_packet *out)
{
	struct pr_error err;
	int got;

	if (!r->reading) {
		if (pr_segment_open(&r->reader, r->head->packets.data, r->head->packets.len,
			    &err) < 0) {
			fail(r, err.text);
			return -1;
		}
		r->reading = true;
		r->any = r->any && !r->rounds;
	}
	got = pr_segment_next(&r->reader, out, &err);
	if (got < 0) {
		fail(r, err.text);
	} else if (got && r->any && pr_packet_compare(out, &r->last) < 0) {
		fail(r, "its packets are not in order");
		got = -1;
	} else if (got) {
		out->flags &= (uint16_t)~PRM_WATERMARK;
		r->last = *out;
		r->any = true;
	}
	return got;
}

/* No packet is at hand: the least that the next one can be, if that says anything new. */
static int
give_nothing(struct prm_remote *r, struct pr_packet *out)
{
	if (r->watermark <= r->passed || (r->any && r->watermark <= r->last.otime))
		return PR_SOURCE_WAIT;
	*out = (struct pr_packet){.time = r->watermark,
		.otime = r->watermark,
		.flags = PRM_WATERMARK,
		.data = (const uint8_t *)""};
	r->passed = r->watermark;
	r->last = *out;
	r->any = true;
	return PR_SOURCE_PACKET;
}

static int
remote_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	struct prm_remote *r = (struct prm_remote *)source;

	(void)err;
	while (r->head && !r->error) {
		int got = read_packet(r, out);

		if (got > 0)
			return PR_SOURCE_PACKET;
		if (got == 0)
			drop_head(r);
	}
	while (r->head)
		drop_head(r);
	return r->ended ? PR_SOURCE_END : give_nothing(r, out);
}

/* The merge lets go of the source, which is a part of the remote. */
static void
let_go(struct pr_source *source)
{
	(void)source;
}

struct prm_remote *
prm_remote_create(struct pr_error *err)
{
	struct prm_remote *r = calloc(1, sizeof(*r));

	if (!r) {
		pr_error_set(err, "no memory for a node's answer");
		return NULL;
	}
	r->source = (struct pr_source){.next = remote_next, .destroy = let_go};
	r->watermark = r->passed = INT64_MIN;
	return r;
}

uint32_t
prm_remote_take_credit(struct prm_remote *r, uint32_t window, uint32_t least)
{
	uint32_t busy = r->owed + r->waiting, more;

	if (r->ended || busy >= window)
		return 0;
	more = window - busy;
	if (more < least)
		return 0;
	r->owed += more;
	return more;
}
