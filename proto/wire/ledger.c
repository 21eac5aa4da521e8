/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/ledger.h"

#include "proto/base/array.h"

enum { ENTRY_HEADER = 4 };

static const struct pr_field mark_items[] = {
	PR_INTS(pr_ledger_mark, epoch, said_until), PR_BOOL(pr_ledger_mark, stopping)};

static const struct pr_field loss_items[] = {
	PR_INTS(pr_loss, epoch, first_seq, last_seq, count, first_time, last_time, link,
		reason),
	PR_BOOL(pr_loss, second), PR_INT(pr_loss, bits)};

static const struct pr_field boot_items[] = {
	PR_INTS(pr_ledger_boot, time, nonce), PR_NAME(pr_ledger_boot, name)};

static const struct pr_field link_items[] = {
	PR_INTS(pr_ledger_link, epoch, link, linktype, snaplen),
	PR_NAME(pr_ledger_link, name)};

static const struct pr_field deleted_items[] = {
	PR_INTS(pr_ledger_deleted, at, since, until, records, bytes, link, phase),
	PR_NAME(pr_ledger_deleted, by), PR_NAME(pr_ledger_deleted, moved_to)};

static const struct pr_field port_items[] = {PR_INTS(pr_ledger_port, epoch, link, speed,
	clock.timestamps, clock.state, clock.steps, clock.stepped, clock.step)};

static const struct pr_field import_items[] = {
	PR_INTS(pr_ledger_import, epoch, link, size, packets, fingerprint),
	PR_NAME(pr_ledger_import, name)};

static const struct pr_field unobserved_items[] = {
	PR_INTS(pr_ledger_unobserved, epoch, link)};

static const struct pr_field durable_items[] = {
	PR_INTS(pr_ledger_durable, epoch, seq, link)};

static bool
valid(const struct pr_ledger_entry *e)
{
	const struct pr_loss *l = &e->u.loss;
	uint64_t span = l->last_seq - l->first_seq;

	/* readers take differences of the range; bits have its first and its last seq, and not all */
	if (e->type == PR_LEDGER_LOSS)
		return l->first_seq <= l->last_seq &&
		       (!l->bits || (span < 64 && l->bits & 1 && l->bits >> span == 1 &&
					    l->count <= span &&
					    (uint64_t)__builtin_popcountll(l->bits) ==
						    l->count));
	if (e->type == PR_LEDGER_UNOBSERVED)
		return pr_unobserved_valid(&e->u.unobserved.time);
	if (e->type == PR_LEDGER_CLASS)
		return pr_class_valid(&e->u.class);
	return e->type != PR_LEDGER_PORT ||
	       pr_port_valid(e->u.port.speed, &e->u.port.clock);
}

static const struct pr_field_table tables[] = {
	[PR_LEDGER_MARK] = PR_FIELD_TABLE(mark_items),
	[PR_LEDGER_LOSS] = PR_FIELD_TABLE(loss_items),
	[PR_LEDGER_BOOT] = PR_FIELD_TABLE(boot_items),
	[PR_LEDGER_LINK] = PR_FIELD_TABLE(link_items),
	[PR_LEDGER_DELETED] = PR_FIELD_TABLE(deleted_items),
	[PR_LEDGER_PORT] = PR_FIELD_TABLE(port_items),
	[PR_LEDGER_IMPORT] = PR_FIELD_TABLE(import_items),
	[PR_LEDGER_UNOBSERVED] = PR_FIELD_TABLE(unobserved_items),
	[PR_LEDGER_DURABLE] = PR_FIELD_TABLE(durable_items)};

/* count 0: unknown. Version 1 of a loss is one without bits, of a class without memory, of a port without clock. */
static struct pr_field_table
table_of(unsigned type, unsigned version)
{
	struct pr_field_table none = {NULL, 0},
			      table = type < PR_COUNT(tables)   ? tables[type]
				      : type == PR_LEDGER_CLASS ? pr_class_fields
								: none;
	unsigned newer = type == PR_LEDGER_LOSS || type == PR_LEDGER_CLASS ? 1
			 : type == PR_LEDGER_PORT                          ? 5
									   : 0;
	unsigned newest = newer ? 2 : 1;

	table.count -= table.count && version < newest ? newer : 0;
	return version && version <= newest ? table : none;
}

/* What stands behind the fields of its table in a MARK's or UNOBSERVED's entry, as in frame.h. NULL: nothing. */
static const struct pr_field_table *
rest_of(struct pr_ledger_entry *e, void **rest)
{
	*rest = e->type == PR_LEDGER_MARK ? (void *)&e->u.mark.link : &e->u.unobserved.time;
	return e->type == PR_LEDGER_MARK         ? &pr_mark_link_fields
	       : e->type == PR_LEDGER_UNOBSERVED ? &pr_unobserved_fields
						 : NULL;
}

bool
pr_ledger_store(struct pr_writer *w, const struct pr_ledger_entry *e)
{
	uint8_t version = 1 + ((e->type == PR_LEDGER_LOSS && e->u.loss.bits) ||
				      (e->type == PR_LEDGER_CLASS && e->u.class.memory) ||
				      (e->type == PR_LEDGER_PORT &&
					      pr_clock_known(&e->u.port.clock)));
	const struct pr_field_table table = table_of(e->type, version), *behind;
	uint8_t *head = w->at;
	void *rest;

	if (!table.count || pr_writer_room(w) < ENTRY_HEADER || !valid(e))
		return false;
	struct pr_writer payload =
		pr_writer_make(head + ENTRY_HEADER, pr_writer_room(w) - ENTRY_HEADER);
	behind = rest_of((struct pr_ledger_entry *)(uintptr_t)e, &rest);
	if (!pr_field_table_store(&payload, &e->u, &table, PR_LITTLE_ENDIAN) ||
		(behind && !pr_field_table_store(&payload, rest, behind, PR_LITTLE_ENDIAN)))
		return false;
	head[0] = e->type;
	head[1] = version;
	pr_put_le16(head + 2, pr_writer_len(&payload));
	w->at = payload.at;
	return true;
}

int
pr_ledger_load(struct pr_cursor *c, struct pr_ledger_entry *out)
{
	struct pr_cursor at = *c, inside;

	/* *c moves only behind good entries: after -1, the next call returns -1 again */
	for (; pr_cursor_left(&at); *c = at) {
		const uint8_t *payload;
		void *rest;
		uint8_t type, version;
		uint16_t len;

		if (!pr_load_u8(&at, &type) || !pr_load_u8(&at, &version) ||
			!pr_load_le16(&at, &len) || !pr_load_bytes(&at, &payload, len))
			return -1;
		struct pr_field_table table = table_of(type, version);
		if (!table.count)
			continue;
		memset(out, 0, sizeof *out);
		out->type = type;
		const struct pr_field_table *behind = rest_of(out, &rest);
		inside = pr_cursor_make(payload, len);
		if (!pr_field_table_load(&inside, &out->u, &table, PR_LITTLE_ENDIAN) ||
			(behind && !pr_field_table_load(
					   &inside, rest, behind, PR_LITTLE_ENDIAN)) ||
			pr_cursor_left(&inside) || !valid(out))
			return -1;
		*c = at;
		return 1;
	}
	return 0;
}

struct pr_loss
pr_loss_of(uint64_t epoch, uint16_t link, uint64_t seq, int64_t otime,
	enum pr_loss_reason reason, bool second)
{
	return (struct pr_loss){
		epoch, seq, seq, 1, 0, otime, otime, link, (uint8_t)reason, second};
}

#define JOINED_NS (100 * PR_NS_PER_MS) /* bits are of one time */

bool
pr_loss_join(struct pr_loss *l, const struct pr_loss *next)
{
	uint64_t span = l->last_seq - l->first_seq, at = next->first_seq - l->first_seq,
		 more = next->last_seq - next->first_seq;
	bool adjoins = !l->bits && at == span + 1;

	if (!l->count || l->epoch != next->epoch || l->link != next->link ||
		l->reason != next->reason || l->second != next->second ||
		next->first_seq <= l->last_seq || next->count - 1 != more ||
		(!l->bits && l->count - 1 != span) ||
		(!adjoins &&
			(more || at > 63 ||
				pr_time_minus(next->last_time, JOINED_NS) > l->first_time)))
		return false;
	if (!adjoins)
		l->bits = (l->bits ? l->bits : UINT64_MAX >> (63 - span)) | UINT64_C(1)
										    << at;
	l->count += next->count;
	PR_COPY(l, next, last_seq, last_time);
	return true;
}

const char *
pr_loss_reason_name(unsigned reason)
{
	static const char *const names[] = {[PR_LOSS_SWITCH] = "switch",
		[PR_LOSS_LOG_GONE] = "log_gone",
		[PR_LOSS_NODE_KERNEL] = "node_kernel",
		[PR_LOSS_WRITE] = "write",
		[PR_LOSS_NODE_STOP] = "node_stop",
		[PR_LOSS_DISPATCHER] = "dispatcher",
		[PR_LOSS_UNREADABLE] = "corrupt",
		[PR_LOSS_UNSAVED] = "unsaved"};
	return reason < PR_COUNT(names) && names[reason] ? names[reason] : "?";
}
