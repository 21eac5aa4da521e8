/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/frame_body.h"

/* Field order is the wire's; frame.h documents it. All big-endian. */

static const struct pr_field ann_items[] = {
	PR_NAME(struct pr_ann, name),
	PR_NAME(struct pr_ann, version),
	PR_INT(struct pr_ann, disk_total),
	PR_INT(struct pr_ann, disk_free),
	PR_INT(struct pr_ann, write_rate),
	PR_INT(struct pr_ann, buffer_size),
	PR_INT(struct pr_ann, link_speed),
	PR_INT(struct pr_ann, mtu),
};

static const struct pr_field ann_ack_items[] = {
	PR_INT(struct pr_ann_ack, node),
	PR_INT(struct pr_ann_ack, hold_ns),
	PR_INT(struct pr_ann_ack, snaplen),
};

static const struct pr_field status_items[] = {
	PR_INT(struct pr_status, state),
	PR_INT(struct pr_status, buffer_fill),
	PR_INT(struct pr_status, ordinal_settled),
	PR_INT(struct pr_status, frames_received),
	PR_INT(struct pr_status, bytes_received),
	PR_INT(struct pr_status, packets_stored),
	PR_INT(struct pr_status, bytes_stored),
	PR_INT(struct pr_status, packets_durable),
	PR_INT(struct pr_status, missing),
	PR_INT(struct pr_status, stray),
	PR_INT(struct pr_status, duplicate),
	PR_INT(struct pr_status, pending),
	PR_INT(struct pr_status, kernel_drops),
	PR_INT(struct pr_status, logs_received),
	PR_INT(struct pr_status, logs_requested),
	PR_INT(struct pr_status, logs_gone),
	PR_INT(struct pr_status, disk_total),
	PR_INT(struct pr_status, disk_free),
	PR_INT(struct pr_status, write_rate),
	PR_INT(struct pr_status, command),
	PR_INT(struct pr_status, command_type),
	PR_BOOL(struct pr_status, command_result),
};

static const struct pr_field mark_items[] = {
	PR_INT(struct pr_mark, said_until),
	PR_INT(struct pr_mark, last_ordinal),
	PR_BOOL(struct pr_mark, stopping),
	PR_INT(struct pr_mark, link_count),
	PR_INT(struct pr_mark, count),
};

static const struct pr_field mark_link_items[] = {
	PR_INT(struct pr_mark_link, link),
	PR_INT(struct pr_mark_link, linktype),
	PR_INT(struct pr_mark_link, snaplen),
	PR_BOOL(struct pr_mark_link, ended),
	PR_INT(struct pr_mark_link, last_seq),
	PR_INT(struct pr_mark_link, last_otime),
	PR_INT(struct pr_mark_link, last_log),
	PR_INT(struct pr_mark_link, assigned),
	PR_INT(struct pr_mark_link, dropped_kernel),
	PR_INT(struct pr_mark_link, dropped_interface),
	PR_INT(struct pr_mark_link, dropped_ring),
	PR_INT(struct pr_mark_link, dropped_no_node),
	PR_INT(struct pr_mark_link, dropped_send),
	PR_INT(struct pr_mark_link, cut),
	PR_INT(struct pr_mark_link, undelivered_first),
	PR_INT(struct pr_mark_link, undelivered_last),
	PR_NAME(struct pr_mark_link, name),
};
const struct pr_field_table pr_mark_link_fields = PR_FIELD_TABLE(mark_link_items);

static const struct pr_field resend_items[] = {
	PR_INT(struct pr_resend, link),
	PR_INT(struct pr_resend, first_log),
	PR_INT(struct pr_resend, last_log),
};

static const struct pr_field gone_items[] = {
	PR_INT(struct pr_gone, link),
	PR_INT(struct pr_gone, first_log),
	PR_INT(struct pr_gone, last_log),
	PR_INT(struct pr_gone, first_seq),
	PR_INT(struct pr_gone, last_seq),
	PR_INT(struct pr_gone, first_time),
	PR_INT(struct pr_gone, last_time),
	PR_INT(struct pr_gone, count),
};

static const struct pr_field command_items[] = {
	PR_INT(struct pr_command, command),
	PR_INT(struct pr_command, seconds),
};

static const struct pr_field port_items[] = {
	PR_INT(struct pr_port, link),
	PR_INT(struct pr_port, speed),
};

static bool
ann_valid(const struct pr_frame *f)
{
	return f->body.ann.name[0] != '\0';
}

/* Half the range of int64_t, so that a receiver may add the hold time to any time of this age. */
static bool
ann_ack_valid(const struct pr_frame *f)
{
	return f->body.ann_ack.hold_ns <= INT64_MAX / 2;
}

static bool
status_valid(const struct pr_frame *f)
{
	const struct pr_status *s = &f->body.status;
	return s->state <= PR_NODE_SUSPENDED && s->buffer_fill <= 100 &&
	       s->command_type < PR_FRAME_TYPES;
}

static bool
mark_valid(const struct pr_frame *f)
{
	const struct pr_mark *m = &f->body.mark;
	return m->count <= PR_MARK_LINKS_MAX && m->count <= m->link_count;
}

static bool
resend_valid(const struct pr_frame *f)
{
	const struct pr_resend *r = &f->body.resend;
	return r->first_log >= 1 && r->first_log <= r->last_log;
}

static bool
gone_valid(const struct pr_frame *f)
{
	const struct pr_gone *g = &f->body.gone;
	bool seqs_known = g->first_seq >= 1 && g->first_seq <= g->last_seq;
	return g->first_log >= 1 && g->first_log <= g->last_log &&
	       (seqs_known || (g->first_seq == 0 && g->last_seq == 0));
}

static bool
port_valid(const struct pr_frame *f)
{
	return f->body.port.speed != 0;
}

static bool
encode_plain(const struct pr_frame_row *row, const struct pr_frame *f, struct pr_writer *w)
{
	return pr_field_table_store(w, &f->body, &row->fields, PR_BIG_ENDIAN);
}

static bool
decode_plain(const struct pr_frame_row *row, struct pr_cursor *c, struct pr_frame *f)
{
	return pr_field_table_load(c, &f->body, &row->fields, PR_BIG_ENDIAN);
}

/* memmove: the log may have been built in the frame's own buffer. */
static bool
encode_raw(const struct pr_frame_row *row, const struct pr_frame *f, struct pr_writer *w)
{
	(void)row;
	if (f->body.raw.len == 0 || pr_writer_room(w) < f->body.raw.len)
		return false;
	memmove(w->at, f->body.raw.data, f->body.raw.len);
	w->at += f->body.raw.len;
	return true;
}

static bool
decode_raw(const struct pr_frame_row *row, struct pr_cursor *c, struct pr_frame *f)
{
	(void)row;
	f->body.raw.len = pr_cursor_left(c);
	return f->body.raw.len > 0 && pr_load_bytes(c, &f->body.raw.data, f->body.raw.len);
}

static bool
encode_mark(const struct pr_frame_row *row, const struct pr_frame *f, struct pr_writer *w)
{
	if (!encode_plain(row, f, w))
		return false;
	for (unsigned i = 0; i < f->body.mark.count; i++)
		if (!pr_field_table_store(
			    w, &f->body.mark.links[i], &pr_mark_link_fields, PR_BIG_ENDIAN))
			return false;
	return true;
}

static bool
decode_mark(const struct pr_frame_row *row, struct pr_cursor *c, struct pr_frame *f)
{
	if (!decode_plain(row, c, f) || !mark_valid(f))
		return false;
	for (unsigned i = 0; i < f->body.mark.count; i++)
		if (!pr_field_table_load(
			    c, &f->link_room[i], &pr_mark_link_fields, PR_BIG_ENDIAN))
			return false;
	f->body.mark.links = f->link_room;
	return true;
}

#define ROW(items, check) encode_plain, decode_plain, PR_FIELD_TABLE(items), check

const struct pr_frame_row pr_frame_rows[PR_FRAME_TYPES] = {
	[PR_FRAME_ANN] = {"ANN", ROW(ann_items, ann_valid)},
	[PR_FRAME_ANN_ACK] = {"ANN_ACK", ROW(ann_ack_items, ann_ack_valid)},
	[PR_FRAME_STATUS] = {"STATUS", ROW(status_items, status_valid)},
	[PR_FRAME_TSLOG] = {"TSLOG", encode_raw, decode_raw, {NULL, 0}, NULL},
	[PR_FRAME_MARK] = {"MARK", encode_mark, decode_mark, PR_FIELD_TABLE(mark_items),
		mark_valid},
	[PR_FRAME_RESEND] = {"RESEND", ROW(resend_items, resend_valid)},
	[PR_FRAME_GONE] = {"GONE", ROW(gone_items, gone_valid)},
	[PR_FRAME_STOP] = {"STOP", ROW(command_items, NULL)},
	[PR_FRAME_QUIT] = {"QUIT", ROW(command_items, NULL)},
	[PR_FRAME_IDENTIFY] = {"IDENTIFY", ROW(command_items, NULL)},
	[PR_FRAME_RESET] = {"RESET", ROW(command_items, NULL)},
	[PR_FRAME_DISCONNECT] = {"DISCONNECT", ROW(command_items, NULL)},
	[PR_FRAME_RECONNECT] = {"RECONNECT", ROW(command_items, NULL)},
	[PR_FRAME_PORT] = {"PORT", ROW(port_items, port_valid)},
};
