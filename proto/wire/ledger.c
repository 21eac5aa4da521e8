/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/ledger.h"
#include "proto/wire/frame.h"

#define VERSION 1
#define ENTRY_HEADER 4

static const struct pr_field mark_items[] = {
	PR_INT(struct pr_ledger_mark, epoch),
	PR_INT(struct pr_ledger_mark, said_until),
	PR_BOOL(struct pr_ledger_mark, stopping),
};

static const struct pr_field loss_items[] = {
	PR_INT(struct pr_loss, epoch),
	PR_INT(struct pr_loss, first_seq),
	PR_INT(struct pr_loss, last_seq),
	PR_INT(struct pr_loss, count),
	PR_INT(struct pr_loss, first_time),
	PR_INT(struct pr_loss, last_time),
	PR_INT(struct pr_loss, link),
	PR_INT(struct pr_loss, reason),
	PR_BOOL(struct pr_loss, second),
};

static const struct pr_field boot_items[] = {
	PR_INT(struct pr_ledger_boot, time),
	PR_INT(struct pr_ledger_boot, nonce),
	PR_NAME(struct pr_ledger_boot, name),
};

static const struct pr_field link_items[] = {
	PR_INT(struct pr_ledger_link, epoch),
	PR_INT(struct pr_ledger_link, link),
	PR_INT(struct pr_ledger_link, linktype),
	PR_INT(struct pr_ledger_link, snaplen),
	PR_NAME(struct pr_ledger_link, name),
};

static const struct pr_field deleted_items[] = {
	PR_INT(struct pr_ledger_deleted, at),
	PR_INT(struct pr_ledger_deleted, since),
	PR_INT(struct pr_ledger_deleted, until),
	PR_INT(struct pr_ledger_deleted, records),
	PR_INT(struct pr_ledger_deleted, bytes),
	PR_INT(struct pr_ledger_deleted, link),
	PR_INT(struct pr_ledger_deleted, phase),
	PR_NAME(struct pr_ledger_deleted, by),
	PR_NAME(struct pr_ledger_deleted, moved_to),
};

static const struct pr_field port_items[] = {
	PR_INT(struct pr_ledger_port, epoch),
	PR_INT(struct pr_ledger_port, link),
	PR_INT(struct pr_ledger_port, speed),
};

/* Ranges that readers take differences of. */
static bool
loss_valid(const struct pr_ledger_entry *e)
{
	return e->u.loss.first_seq <= e->u.loss.last_seq;
}

static bool
port_valid(const struct pr_ledger_entry *e)
{
	return e->u.port.speed > 0;
}

static const struct {
	struct pr_field_table fields;
	bool (*valid)(const struct pr_ledger_entry *e);
} rows[] = {
	[PR_LEDGER_MARK] = {PR_FIELD_TABLE(mark_items), NULL},
	[PR_LEDGER_LOSS] = {PR_FIELD_TABLE(loss_items), loss_valid},
	[PR_LEDGER_BOOT] = {PR_FIELD_TABLE(boot_items), NULL},
	[PR_LEDGER_LINK] = {PR_FIELD_TABLE(link_items), NULL},
	[PR_LEDGER_DELETED] = {PR_FIELD_TABLE(deleted_items), NULL},
	[PR_LEDGER_PORT] = {PR_FIELD_TABLE(port_items), port_valid},
};

static bool
known(unsigned type)
{
	return type < sizeof rows / sizeof rows[0] && rows[type].fields.count;
}

static bool
store_payload(struct pr_writer *w, const struct pr_ledger_entry *e)
{
	if (rows[e->type].valid && !rows[e->type].valid(e))
		return false;
	if (!pr_field_table_store(w, &e->u, &rows[e->type].fields, PR_LITTLE_ENDIAN))
		return false;
	return e->type != PR_LEDGER_MARK || pr_field_table_store(w, &e->u.mark.link,
						    &pr_mark_link_fields, PR_LITTLE_ENDIAN);
}

static bool
load_payload(struct pr_cursor *c, struct pr_ledger_entry *e)
{
	if (!pr_field_table_load(c, &e->u, &rows[e->type].fields, PR_LITTLE_ENDIAN))
		return false;
	if (e->type == PR_LEDGER_MARK && !pr_field_table_load(c, &e->u.mark.link,
						 &pr_mark_link_fields, PR_LITTLE_ENDIAN))
		return false;
	return pr_cursor_left(c) == 0 && (!rows[e->type].valid || rows[e->type].valid(e));
}

bool
pr_ledger_store(struct pr_writer *w, const struct pr_ledger_entry *e)
{
	if (!known(e->type) || pr_writer_room(w) < ENTRY_HEADER)
		return false;
	uint8_t *head = w->at;
	struct pr_writer payload =
		pr_writer_make(head + ENTRY_HEADER, pr_writer_room(w) - ENTRY_HEADER);
	if (!store_payload(&payload, e))
		return false;
	head[0] = e->type;
	head[1] = VERSION;
	pr_put_le16(head + 2, (uint16_t)pr_writer_len(&payload));
	w->at = payload.at;
	return true;
}

static int
corrupt(struct pr_cursor *c, const struct pr_cursor *entry)
{
	*c = *entry; /* who asks again gets the same answer */
	return -1;
}

int
pr_ledger_load(struct pr_cursor *c, struct pr_ledger_entry *out)
{
	while (pr_cursor_left(c)) {
		const struct pr_cursor entry = *c;
		uint8_t type, version;
		uint16_t len;
		const uint8_t *payload;
		if (!pr_load_u8(c, &type) || !pr_load_u8(c, &version) ||
			!pr_load_le16(c, &len) || !pr_load_bytes(c, &payload, len))
			return corrupt(c, &entry);
		if (!known(type) || version != VERSION)
			continue;
		memset(out, 0, sizeof *out);
		out->type = type;
		struct pr_cursor inside = pr_cursor_make(payload, len);
		return load_payload(&inside, out) ? 1 : corrupt(c, &entry);
	}
	return 0;
}

const char *
pr_loss_reason_name(unsigned reason)
{
	static const char *const names[] = {
		[PR_LOSS_SWITCH] = "switch",
		[PR_LOSS_LOG_GONE] = "log_gone",
		[PR_LOSS_NODE_KERNEL] = "node_kernel",
		[PR_LOSS_WRITE] = "write",
		[PR_LOSS_NODE_STOP] = "node_stop",
	};
	return reason < sizeof names / sizeof names[0] && names[reason] ? names[reason]
									: "?";
}
