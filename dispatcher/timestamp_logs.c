/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/timestamp_logs.h"

#include <stdlib.h>

/* ---- sent logs, kept for RESEND ---- */

/*
 * The history is a cyclic memory. Positions only grow (offset = position % size); 0 means none, so they
 * start at size. Each sent log names the position of the one before it of the same (node, link): a RESEND
 * walks from the newest log back, and finds what it needs soon.
 */
struct sent_log {
	struct prd_log_meta meta;
	uint64_t before;
	int64_t sent_at;
	/* total: with this header and padding; 0: a gap up to the end of the memory */
	uint32_t len, total;
	uint8_t body[];
};

/* The logs of one (node, link). */
struct prd_log_series {
	uint64_t newest;
	/* the last PRD_GONE_LOGS_MAX that left; made when the first one does */
	struct prd_log_meta *gone;
	uint64_t gone_count;
};

static struct prd_log_series *
series_of(const struct prd_logs *h, const struct prd_log_meta *meta)
{
	return &h->series[(size_t)meta->node * h->links + meta->link];
}

static struct sent_log *
log_at(const struct prd_logs *h, uint64_t pos)
{
	return (struct sent_log *)(void *)(h->mem + pos % h->size);
}

static void
note_gone(struct prd_log_series *series, const struct prd_log_meta *meta)
{
	if (!series->gone)
		series->gone = calloc(PRD_GONE_LOGS_MAX, sizeof *series->gone);
	if (series->gone)
		series->gone[series->gone_count++ % PRD_GONE_LOGS_MAX] = *meta;
}

/* True if the rest of the memory at pos is a gap: a log may not cross the end. */
static bool
is_gap(const struct prd_logs *h, uint64_t pos)
{
	return h->size - pos % h->size < sizeof(struct sent_log) ||
	       log_at(h, pos)->total == 0;
}

static void
drop_oldest(struct prd_logs *h)
{
	const struct sent_log *log = log_at(h, h->tail);

	if (is_gap(h, h->tail)) {
		h->tail += h->size - h->tail % h->size;
		return;
	}
	note_gone(series_of(h, &log->meta), &log->meta);
	h->tail += log->total;
	h->kept -= log->total;
}

static void
drop_expired(struct prd_logs *h, int64_t now)
{
	while (h->tail < h->head &&
		(is_gap(h, h->tail) || now - log_at(h, h->tail)->sent_at >= h->keep))
		drop_oldest(h);
}

static void
history_put(struct prd_logs *h, const struct prd_log_meta *meta, const void *body,
	size_t len, int64_t now)
{
	size_t total = (sizeof(struct sent_log) + len + 7) & ~7;
	size_t to_end = h->size - h->head % h->size;
	struct prd_log_series *series = series_of(h, meta);

	if (total > h->size / 2) {
		note_gone(series, meta);
		return;
	}
	drop_expired(h, now);
	/* early if the logs kept have room twice in front of them: memory not needed stays untouched */
	bool wrap = to_end < total || (h->tail / h->size == h->head / h->size &&
					      h->tail % h->size > 2 * (h->kept + total));
	while (h->head + total + (wrap ? to_end : 0) - h->tail > h->size)
		drop_oldest(h);
	if (wrap) {
		if (to_end >= sizeof(struct sent_log))
			log_at(h, h->head)->total = 0;
		h->head += to_end;
	}
	struct sent_log *log = log_at(h, h->head);
	log->meta = *meta;
	log->before = series->newest;
	log->sent_at = now;
	log->len = len;
	log->total = total;
	memcpy(log->body, body, len);
	series->newest = h->head;
	h->head += total;
	h->kept += total;
}

/*
 * Finds logs which->number..last, both included, made for which->nonce. found is a ring: it gets the
 * PRD_RESEND_MAX oldest of them, newest first. Returns how many there are; *lowest is the smallest number
 * still kept (last + 1 if none is).
 */
static size_t
history_find(const struct prd_logs *h, const struct prd_log_meta *which, uint64_t last,
	const struct sent_log *found[PRD_RESEND_MAX], uint64_t *lowest)
{
	uint64_t pos = series_of(h, which)->newest;
	size_t n = 0;

	*lowest = last + 1;
	while (pos >= h->tail && pos != 0) {
		const struct sent_log *log = log_at(h, pos);

		if (log->meta.nonce != which->nonce || log->meta.number < which->number)
			break;
		pos = log->before;
		if (log->meta.number > last)
			continue;
		*lowest = log->meta.number;
		found[n++ % PRD_RESEND_MAX] = log;
	}
	return n;
}

/*
 * Collects what is known of the gone logs which->number..last; seqs, times and count stay 0
 * unless all are known.
 */
static void
history_gone(const struct prd_logs *h, const struct prd_log_meta *which, uint64_t last,
	struct pr_gone *out)
{
	const struct prd_log_series *series = series_of(h, which);
	uint64_t count = series->gone_count, known = 0;
	uint64_t from = count < PRD_GONE_LOGS_MAX ? 0 : count - PRD_GONE_LOGS_MAX;
	const struct pr_gone unknown = {
		.link = which->link, .first_log = which->number, .last_log = last};

	*out = unknown;
	for (uint64_t i = from; i < count; i++) {
		const struct prd_log_meta *gone = &series->gone[i % PRD_GONE_LOGS_MAX];

		if (gone->nonce != which->nonce || gone->number < which->number ||
			gone->number > last)
			continue;
		if (known++ == 0)
			PR_COPY(out, gone, first_seq, first_time);
		PR_COPY(out, gone, last_seq, last_time);
		out->count += gone->count;
	}
	if (known != last - which->number + 1)
		*out = unknown;
}

/* ---- logs being filled ---- */

int
prd_logs_init(struct prd_logs *h, unsigned links, size_t memory, int64_t keep,
	struct pr_error *err)
{
	size_t size = memory & ~7;

	*h = (struct prd_logs){.mem = malloc(size),
		.size = size,
		.head = size,
		.tail = size,
		.keep = keep,
		.series = calloc((size_t)PRD_NODES_MAX * links, sizeof *h->series),
		.numbers = calloc(links, sizeof *h->numbers),
		.links = links};
	for (unsigned i = 0; h->numbers && i < links; i++)
		h->numbers[i] = (uint16_t)i;
	if (h->mem && h->series && h->numbers)
		return 0;
	prd_logs_free(h);
	return pr_error_set(err, "cannot allocate %zu bytes for sent timestamp logs", size);
}

void
prd_logs_free(struct prd_logs *h)
{
	for (size_t i = 0; h->series && i < (size_t)PRD_NODES_MAX * h->links; i++)
		free(h->series[i].gone);
	free(h->series);
	free(h->mem);
	free(h->numbers);
	h->series = NULL;
	h->numbers = NULL;
	h->mem = NULL;
}

static void
log_begin(const struct prd_logs *logs, struct prd_node *node, uint16_t link)
{
	struct prd_node_log *log = &node->logs[link];
	uint16_t flags = logs->flags | (logs->links > 1 ? PR_TSLOG_INTERLEAVED : 0);
	size_t room = node->mtu - PR_FRAME_HEADER - PR_FRAME_TAG;

	pr_tslog_begin(&log->builder, logs->numbers[link], flags, log->last_log + 1,
		log->buf, room < PRD_LOG_ROOM_MAX ? room : PRD_LOG_ROOM_MAX);
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
	prd_logs_forget(node);
	node->logs = calloc(logs->links, sizeof *node->logs);
	uint8_t *buf = malloc((size_t)logs->links * PRD_LOG_ROOM_MAX);
	if (!node->logs || !buf) {
		free(buf);
		free(node->logs);
		node->logs = NULL;
		return pr_error_set(
			err, "no memory for the logs of node %s", node->ann.name);
	}
	for (unsigned i = 0; i < logs->links; i++) {
		node->logs[i].buf = buf + (size_t)i * PRD_LOG_ROOM_MAX;
		log_begin(logs, node, i);
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
	history_put(logs, &log->meta, body, len, now);
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
			log_finish(logs, node, i, now);
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

void
prd_logs_resend(
	struct prd_logs *h, struct prd_node *node, const struct pr_resend *ask, int64_t now)
{
	struct prd_log_meta which = {.nonce = node->nonce, .node = node->number};
	uint64_t last = ask->last_log, lowest;
	const struct sent_log *found[PRD_RESEND_MAX];
	struct pr_frame frame;
	size_t n, sent = 0;

	node->resend_asked++;
	while (which.link < h->links && h->numbers[which.link] != ask->link)
		which.link++;
	if (which.link >= h->links || !node->logs || ask->first_log == 0)
		return;
	which.number = ask->first_log;
	if (last > node->logs[which.link].last_log)
		last = node->logs[which.link].last_log;
	if (ask->first_log > last || node->resend_budget <= 0)
		return;
	drop_expired(h, now); /* so that all others may be sent again */
	n = history_find(h, &which, last, found, &lowest);
	if (lowest > ask->first_log) {
		history_gone(h, &which, lowest - 1, &frame.body.gone);
		frame.body.gone.link = ask->link;
		node->gone_answered++;
		h->send(h->arg, node, PR_FRAME_GONE, &frame);
	}
	for (; n > 0 && sent < PRD_RESEND_MAX; sent++) {
		const struct sent_log *log = found[--n % PRD_RESEND_MAX];

		log_send(h, node, log->body, log->len);
	}
	node->resend_answered += sent;
	node->resend_budget -= (int64_t)sent + 1;
}

void
prd_logs_refill(struct prd_node *node, int64_t elapsed)
{
	node->resend_budget += elapsed / (PR_NS_PER_S / PRD_RESEND_PER_S);
	if (node->resend_budget > PRD_RESEND_PER_S)
		node->resend_budget = PRD_RESEND_PER_S;
}
