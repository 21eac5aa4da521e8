/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

void
prl_report_add(struct prl_report *r, const char *name, uint64_t number)
{
	if (r->count == PRL_REPORT_MAX)
		return;
	r->values[r->count].name = name;
	r->values[r->count++].number = number;
}

static void
set_text(json_t *root, const char *name, const char *text)
{
	/* a name that is no UTF-8 is left out rather than the rest with it */
	if (text)
		json_object_set_new(root, name, json_string(text));
}

bool
prl_report_text(const struct prl_report *r, char *buf, size_t size)
{
	json_t *root = json_object();
	char epoch[24];
	size_t len;

	if (!root)
		return false;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, r->epoch);
	set_text(root, "mode", r->mode);
	set_text(root, "name", r->name);
	set_text(root, "state", r->state);
	set_text(root, "trouble", r->trouble);
	set_text(root, "epoch", epoch);
	for (size_t i = 0; i < r->count; i++)
		json_object_set_new(root, r->values[i].name,
			json_integer((json_int_t)(r->values[i].number & INT64_MAX)));
	len = json_dumpb(root, buf, size - 1, JSON_COMPACT);
	json_decref(root);
	if (len == 0 || len >= size)
		return false;
	buf[len] = '\0';
	return true;
}

void
prl_report_counters(struct prl_report *r, const struct prl_append_counters *a,
	const struct prl_capture_counters *c)
{
	prl_report_add(r, "frames_received", pr_counter_get(&c->frames_received));
	prl_report_add(r, "bytes_received", pr_counter_get(&c->bytes_received));
	prl_report_add(r, "control_received", pr_counter_get(&c->control_received));
	prl_report_add(r, "kernel_drops", pr_counter_get(&c->kernel_drops));
	prl_report_add(r, "interface_drops", pr_counter_get(&c->interface_drops));
	prl_report_add(r, "buffer_waits", pr_counter_get(&c->buffer_waits));
	prl_report_add(r, "packets_stored", pr_counter_get(&a->packets_stored));
	prl_report_add(r, "bytes_stored", pr_counter_get(&a->bytes_stored));
	prl_report_add(r, "packets_durable", pr_counter_get(&a->packets_durable));
	prl_report_add(r, "segments_stored", pr_counter_get(&a->segments_stored));
	prl_report_add(r, "strays_stored", pr_counter_get(&a->strays_stored));
	prl_report_add(r, "lost_write", pr_counter_get(&a->lost_write));
	prl_report_add(r, "write_errors", pr_counter_get(&a->write_errors));
	prl_report_add(r, "ledger_refused", pr_counter_get(&a->ledger_refused));
	prl_report_add(r, "index_records", pr_counter_get(&a->index_records));
	prl_report_add(r, "index_bytes", pr_counter_get(&a->index_bytes));
}
