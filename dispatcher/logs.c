/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/logs.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"

int
prd_logs_init(struct prd_logs *logs, unsigned links, size_t memory, int64_t keep,
	struct pr_error *err)
{
	memset(logs, 0, sizeof *logs);
	logs->links = links;
	logs->store = prd_store_create(memory, keep, links, err);
	return logs->store ? 0 : -1;
}

void
prd_logs_free(struct prd_logs *logs)
{
	prd_store_destroy(&logs->store);
}

static size_t
log_room(const struct prd_node *node)
{
	size_t room = node->mtu - PR_FRAME_HEADER - PR_FRAME_TAG;

	return room < PRD_LOG_ROOM_MAX ? room : PRD_LOG_ROOM_MAX;
}

static void
log_begin(const struct prd_logs *logs, struct prd_node *node, uint16_t link)
{
	struct prd_node_log *log = &node->logs[link];
	uint16_t flags = logs->links > 1 ? PR_TSLOG_INTERLEAVED : 0;

	pr_tslog_begin(
		&log->builder, link, flags, log->last_log + 1, log->buf, log_room(node));
	log->began = 0;
	log->meta = (struct prd_log_meta){.nonce = node->nonce,
		.node = node->number,
		.link = link,
		.number = log->last_log + 1};
}

void
prd_logs_forget(struct prd_node *node)
{
	if (node->logs)
		free(node->logs[0].buf);
	free(node->logs);
	node->logs = NULL;
}

int
prd_logs_admit(struct prd_logs *logs, struct prd_node *node, struct pr_error *err)
{
	uint8_t *buf;

	prd_logs_forget(node);
	node->logs = calloc(logs->links, sizeof *node->logs);
	buf = malloc((size_t)logs->links * PRD_LOG_ROOM_MAX);
	if (!node->logs || !buf) {
		free(buf);
		free(node->logs);
		node->logs = NULL;
		return pr_error_set(
			err, "no memory for the logs of node %s", node->ann.name);
	}
	for (unsigned i = 0; i < logs->links; i++) {
		node->logs[i].buf = buf + (size_t)i * PRD_LOG_ROOM_MAX;
		log_begin(logs, node, (uint16_t)i);
	}
	node->resend_budget = PRD_RESEND_PER_S;
	return 0;
}

static void
log_send(struct prd_logs *logs, struct prd_node *node, const void *body, size_t len)
{
	struct pr_frame frame;

	frame.body.raw.data = body;
	frame.body.raw.len = len;
	node->logs_sent++;
	logs->send(logs->arg, node, PR_FRAME_TSLOG, &frame);
}

static void
log_finish(struct prd_logs *logs, struct prd_node *node, uint16_t link, int64_t now)
{
	struct prd_node_log *log = &node->logs[link];
	const uint8_t *body;
	size_t len = pr_tslog_finish(&log->builder, &body);

	if (len == 0)
		return;
	prd_store_put(logs->store, &log->meta, body, len, now);
	log->last_log++;
	log_send(logs, node, body, len);
	log_begin(logs, node, link);
}

void
prd_logs_add(struct prd_logs *logs, struct prd_node *node, uint16_t link,
	const struct pr_entry *e, int64_t now)
{
	struct prd_node_log *log = &node->logs[link];
	struct prd_log_meta *meta = &log->meta;

	if (!pr_tslog_add(&log->builder, e)) {
		log_finish(logs, node, link, now);
		/* an empty log takes any entry, as begin demands room enough */
		if (!pr_tslog_add(&log->builder, e))
			return;
	}
	if (log->began == 0) {
		log->began = now;
		meta->first_seq = e->seq;
		meta->first_time = e->otime;
	}
	meta->last_seq = e->seq;
	meta->last_time = e->otime;
	meta->count++;
	log->assigned += !(e->flags & PR_ENTRY_SECOND);
}

void
prd_logs_flush(struct prd_logs *logs, struct prd_node *node, int64_t then, int64_t now)
{
	for (unsigned i = 0; node->logs && i < logs->links; i++)
		if (node->logs[i].began != 0 && node->logs[i].began <= then)
			log_finish(logs, node, (uint16_t)i, now);
}

int64_t
prd_logs_oldest(const struct prd_logs *logs, const struct prd_node *node)
{
	int64_t oldest = PR_TIME_MAX;

	for (unsigned i = 0; node->logs && i < logs->links; i++)
		if (node->logs[i].began != 0 && node->logs[i].meta.first_time < oldest)
			oldest = node->logs[i].meta.first_time;
	return oldest;
}

static void
resend_gone(struct prd_logs *logs, struct prd_node *node, const struct prd_log_meta *which,
	uint64_t last)
{
	struct pr_frame frame;

	prd_store_gone(logs->store, which, last, &frame.body.gone);
	node->gone_answered++;
	logs->send(logs->arg, node, PR_FRAME_GONE, &frame);
}

void
prd_logs_resend(struct prd_logs *logs, struct prd_node *node, const struct pr_resend *ask,
	int64_t now)
{
	struct prd_log_meta which = {.nonce = node->nonce, .node = node->number};
	uint64_t last = ask->last_log, lowest;
	size_t n;

	node->resend_asked++;
	if (ask->link >= logs->links || !node->logs || ask->first_log == 0)
		return;
	which.link = ask->link;
	which.number = ask->first_log;
	if (last > node->logs[ask->link].last_log)
		last = node->logs[ask->link].last_log;
	if (ask->first_log > last || node->resend_budget <= 0)
		return;
	n = prd_store_find(
		logs->store, &which, last, now, logs->found, PRD_RESEND_MAX, &lowest);
	if (lowest > ask->first_log)
		resend_gone(logs, node, &which, lowest - 1);
	for (size_t i = 0; i < n; i++)
		log_send(logs, node, logs->found[i].body, logs->found[i].len);
	node->resend_answered += n;
	node->resend_budget -= (int64_t)n + 1;
}

void
prd_logs_refill(struct prd_node *node, int64_t elapsed)
{
	node->resend_budget += elapsed / (PR_NS_PER_S / PRD_RESEND_PER_S);
	if (node->resend_budget > PRD_RESEND_PER_S)
		node->resend_budget = PRD_RESEND_PER_S;
}
