/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>

#include "tests/unit/truth.h"

/*
 * The machines of the simulated rack. Functions named __wrap_ take the place of those that reach the kernel
 * (Makefile: WRAP_test_truth_model).
 */

__typeof__(pr_now_real) __wrap_pr_now_real;
__typeof__(pr_now_mono) __wrap_pr_now_mono;
__typeof__(pr_nonce_make) __wrap_pr_nonce_make;
__typeof__(pr_log_at) __wrap_pr_log_at;
__typeof__(pr_transmit_add) __wrap_pr_transmit_add;
__typeof__(pr_transmit_send) __wrap_pr_transmit_send;
__typeof__(pr_transmit_counters) __wrap_pr_transmit_counters;
__typeof__(pr_transmit_trouble) __wrap_pr_transmit_trouble;
__typeof__(pr_control_add) __wrap_pr_control_add;
__typeof__(pr_control_flush) __wrap_pr_control_flush;
__typeof__(pr_netdev_open) __wrap_pr_netdev_open;
__typeof__(pr_carrier_read) __wrap_pr_carrier_read;
__typeof__(pr_netdev_receive_drops) __wrap_pr_netdev_receive_drops;
__typeof__(pr_capture_open) __wrap_pr_capture_open;
__typeof__(pr_capture_close) __wrap_pr_capture_close;
__typeof__(pr_capture_take) __wrap_pr_capture_take;
__typeof__(pr_capture_linktype) __wrap_pr_capture_linktype;
__typeof__(pr_capture_drops) __wrap_pr_capture_drops;
__typeof__(sfs_open) __wrap_sfs_open;
__typeof__(sfs_close) __wrap_sfs_close, __real_sfs_close;
__typeof__(sfs_disk_open) __wrap_sfs_disk_open;
__typeof__(sfs_open_queue) __wrap_sfs_open_queue, __real_sfs_open_queue;

/* ---- clocks, nonces, log lines ---- */

int64_t
__wrap_pr_now_real(void)
{
	return t_world->now + t_world->machine;
}

int64_t
__wrap_pr_now_mono(void)
{
	return t_world->now - T_START + 1000 * PR_NS_PER_S;
}

/* StreamFS waits for a root that a writer may be writing. */
int
poll(struct pollfd *fds, nfds_t count, int ms)
{
	(void)fds, (void)count;
	t_world->now += ms * PR_NS_PER_MS;
	return 0;
}

uint32_t
__wrap_pr_nonce_make(void)
{
	return (uint32_t)sim_random(&t_world->rng) | 1;
}

void
__wrap_pr_log_at(enum pr_log_level level, const char *file,
	const struct pr_log_field *fields, const char *fmt, ...)
{
	(void)fields;
	if (t_world->loud) {
		va_list args;

		fprintf(stderr, "%9.3f %s %d: ", seconds(t_world->now), file, (int)level);
		va_start(args, fmt);
		vfprintf(stderr, fmt, args);
		va_end(args);
		fputc('\n', stderr);
	}
}

static inline int64_t
mono(void)
{
	return __wrap_pr_now_mono();
}

/* ---- the switch ---- */

static inline void
ring_drain(struct pr_ring *ring)
{
	size_t len;

	while (pr_ring_next(ring, &len))
		;
	pr_ring_release(ring);
}

static inline void
put_frame(struct t_node *n, const uint8_t *data, size_t len, bool control)
{
	struct prl_capture_record *rec = pr_ring_reserve(n->ring, sizeof(*rec) + len);

	if (!rec)
		return;
	*rec = (struct prl_capture_record){.time = n->w->now + n->offset,
		.epoch = n->epoch,
		.fingerprint = control ? 0 : pr_fingerprint(data, len, n->epoch),
		.caplen = (uint32_t)len,
		.len = (uint32_t)len,
		.control = control};
	memcpy(rec->data, data, len);
	pr_ring_commit(n->ring, sizeof(*rec) + len);
	pr_ring_publish(n->ring);
}

/* False: the frame does not come to the node, or only behind a later one. */
static inline bool
carry(struct t_node *n, const uint8_t *data, size_t len, bool control)
{
	struct world *w = n->w;

	if (!n->cable || !n->rack->cable || !n->node)
		return false;
	if (chance(w, control ? w->plan.log_loss : w->plan.loss))
		return false;
	if (!n->held && !control && chance(w, w->plan.reorder)) {
		n->held = malloc(len);
		n->held_len = len;
		memcpy(n->held, data, len);
		return false;
	}
	put_frame(n, data, len, control);
	if (!control && chance(w, w->plan.repeat))
		put_frame(n, data, len, control);
	if (n->held) {
		put_frame(n, n->held, n->held_len, false);
		free(n->held);
		n->held = NULL;
	}
	return true;
}

/* ---- the dispatcher's rack interface ---- */

void
__wrap_pr_transmit_add(
	struct pr_transmit *t, const uint8_t *frame, size_t len, const uint8_t *head)
{
	struct t_rack *r = (struct t_rack *)(void *)t;

	r->out[r->out_count].data = frame;
	r->out[r->out_count].head = head;
	r->out[r->out_count++].len = len;
}

static inline struct t_copy *
copy_of(struct t_rack *r, const struct prd_item *item)
{
	static struct t_copy canary;
	struct t_series *s;
	struct t_packet *p;

	if (item->link->number >= r->link_count)
		return &canary;
	s = r->link[item->link->number].series;
	p = &s->packets[item->entry.seq - 1];
	MUST(r->w, item->entry.seq <= s->count, "a seq that no packet has");
	return &p->copy[p->copy[0].node != 0];
}

size_t
__wrap_pr_transmit_send(struct pr_transmit *t, bool failed[PR_TRANSMIT_BATCH])
{
	struct t_rack *r = (struct t_rack *)(void *)t;
	size_t sent = 0;

	for (size_t i = 0; i < r->out_count; i++) {
		const uint8_t *head = r->out[i].head ? r->out[i].head : r->out[i].data;
		struct t_node *n = &r->w->node[head[5]];
		struct t_copy *copy = copy_of(r, &r->sender->items[i]);
		uint8_t frame[16384];

		failed[i] = !r->cable && r->refuses;
		if (failed[i])
			continue;
		memcpy(frame, r->out[i].data, r->out[i].len);
		memcpy(frame, head, PR_ETHER_LEN);
		*copy = (struct t_copy){.node = (uint8_t)(n->number + 1),
			.lost = !carry(n, frame, r->out[i].len, false)};
		sent++;
	}
	r->out_count = 0;
	return sent;
}

struct pr_transmit_counters *
__wrap_pr_transmit_counters(struct pr_transmit *t)
{
	static struct pr_transmit_counters none;

	(void)t;
	return &none;
}

bool
__wrap_pr_transmit_trouble(struct pr_transmit *t, struct pr_error *err)
{
	(void)t;
	(void)err;
	return false;
}

int
__wrap_pr_control_add(struct pr_control *c, struct pr_frame *f)
{
	struct t_rack *r = (struct t_rack *)(void *)c;
	uint8_t frame[65536];
	size_t len;

	memset(f->src, 0, PR_MAC_LEN);
	f->src[0] = 4;
	f->src[5] = (uint8_t)r->number;
	len = whole_frame(f, PR_ETHERTYPE_DEFAULT, NULL, frame, sizeof(frame));
	MUST(r->w, len > 0, "a %s frame that cannot be",
		pr_frame_type_name(f->header.type));
	for (unsigned i = 0; i < r->w->node_count; i++) {
		struct t_node *n = &r->w->node[i];

		/* of what is unobserved more is lost than of the rest, which says so seldom */
		if (n->rack != r ||
			(f->header.type == PR_FRAME_UNOBSERVED && r->w->plan.log_loss &&
				(uint64_t)r->w->now * UINT64_C(0x9e3779b97f4a7c15) >> 63) ||
			(memcmp(f->dst, n->mac, PR_MAC_LEN) && f->dst[0] != 0xff) ||
			!carry(n, frame, len, true) || f->header.type != PR_FRAME_MARK)
			continue;
		for (unsigned k = 0; k < r->link_count; k++)
			if (f->body.mark.said_until > r->link[k].series->told_until)
				r->link[k].series->told_until = f->body.mark.said_until;
	}
	return 0;
}

size_t
__wrap_pr_control_flush(struct pr_control *c)
{
	(void)c;
	return 0;
}

/* ---- the dispatcher's capture interfaces ---- */

static inline struct t_link *
link_named(const char *name)
{
	for (unsigned i = 0; i < T_RACKS; i++)
		for (unsigned k = 0; k < T_LINKS; k++)
			if (!strcmp(t_world->rack[i].link[k].name, name))
				return &t_world->rack[i].link[k];
	abort();
}

int
__wrap_pr_netdev_open(struct pr_netdev *dev, const char *name, struct pr_error *err)
{
	(void)name;
	(void)err;
	*dev = (struct pr_netdev){.mtu = 8992};
	return 0;
}

struct pr_carrier
__wrap_pr_carrier_read(const char *name)
{
	const struct t_link *l = link_named(name);

	return (struct pr_carrier){.changes = l->carrier_changes, .observing = l->carrier};
}

uint64_t
__wrap_pr_netdev_receive_drops(const char *name)
{
	(void)name;
	return 0;
}

struct pr_capture *
__wrap_pr_capture_open(const struct pr_capture_options *options, struct pr_error *err)
{
	struct t_link *l = link_named(options->ifname);

	(void)err;
	l->open = true;
	l->kernel_drops = 0;
	l->drops_read = 0;
	l->next = l->rack->w->now + 1;
	l->stalled = 0;
	return (struct pr_capture *)(void *)l;
}

void
__wrap_pr_capture_close(struct pr_capture **capture)
{
	if (*capture)
		((struct t_link *)(void *)*capture)->open = false;
	*capture = NULL;
}

int
__wrap_pr_capture_linktype(const struct pr_capture *c)
{
	(void)c;
	return 1;
}

void
__wrap_pr_capture_drops(struct pr_capture *c, uint64_t *kernel, uint64_t *interface)
{
	struct t_link *l = (struct t_link *)(void *)c;

	l->drops_read = l->rack->w->now;
	*kernel = l->kernel_drops;
	*interface = 0;
}

static inline void
series_add(struct t_link *l, int64_t time, uint32_t id, uint32_t caplen)
{
	struct t_series *s = l->series;
	struct t_packet *p;

	if (PR_ARRAY_GROW(s->packets, s->count) < 0)
		abort();
	p = &s->packets[s->count++];
	*p = (struct t_packet){.time = time,
		.otime = time,
		.sent = l->rack->w->now,
		.id = id,
		.caplen = caplen};
	if (s->count > 1 && p[-1].otime > time)
		p->otime = p[-1].otime;
}

/* A packet of the link has come, or was dropped. */
static inline void
keep_promises(const struct t_link *l, int64_t time)
{
	struct world *w = l->rack->w;

	for (unsigned i = 0; i < w->promise_count && i < T_PROMISES; i++)
		MUST(w,
			w->promises[i].link != l || time < w->promises[i].since ||
				time > w->promises[i].until,
			"link %s: %.6f to %.6f was called complete, and a packet of %.6f "
			"comes",
			l->name, seconds(w->promises[i].since),
			seconds(w->promises[i].until), seconds(time));
}

/* A packet of the link that nobody will ever have. */
static inline void
drop_note(struct t_link *l, int64_t time)
{
	if (l->drop_count < T_DROPS) {
		l->drops[l->drop_count].time = time;
		l->drops[l->drop_count++].of = l->series;
	}
	moment(l->rack->w, time);
	SAY(l->rack->w, "link %s: the packet of %.3f is dropped", l->name, seconds(time));
}

static inline void
packet_comes(struct t_link *l, int64_t time, pr_capture_call call, void *arg)
{
	struct world *w = l->rack->w;
	pr_counter *dropped = &l->rack->inputs.links[l->number].dropped_ring;
	uint32_t id = ++w->ids, caplen = 60 + (uint32_t)below(w, 80);
	uint64_t before = pr_counter_get(dropped);
	uint8_t bytes[16384];
	/* that it was dropped is counted when it comes: a look at the counters after that would have shown it */
	bool lost = l->next > l->drops_read && chance(w, w->plan.drop);

	if (below(w, 100) < w->plan.big)
		caplen = 4000 + (uint32_t)below(w, 4000);
	if (below(w, 100) < w->plan.alike) {
		id = 1 + (uint32_t)below(w, T_ALIKE);
		caplen = 64;
	}
	fill_packet(bytes, id, caplen);
	keep_promises(l, time);
	if (lost)
		l->kernel_drops++;
	else
		call(arg, time, bytes, caplen, caplen);
	if (!lost && pr_counter_get(dropped) == before)
		series_add(l, time, id, caplen);
	else
		drop_note(l, time);
}

/* Call at each step. */
static inline void
observe(struct t_link *l)
{
	bool now = l->rack->alive && l->open && l->carrier;
	int64_t t = clock_of_rack(l->rack);

	if (now && !l->observed && l->span_count < T_GAPS)
		l->spans[l->span_count++] = (struct t_span){t, t};
	if (now && l->span_count) {
		struct t_span *s = &l->spans[l->span_count - 1];

		s->to = t > s->to ? t : s->to;
	}
	l->observed = now;
}

/* What has come since the last step. */
int
__wrap_pr_capture_take(struct pr_capture *c, int most, pr_capture_call call, void *arg,
	struct pr_error *err)
{
	struct t_link *l = (struct t_link *)(void *)c;
	struct world *w = l->rack->w;
	/* frames wait in the kernel's ring for a moment */
	int64_t ready = w->now - (int64_t)below(w, PR_CAPTURE_BLOCK_MS * PR_NS_PER_MS);
	int n = 0;

	(void)err;
	for (; l->next <= ready && n < most;
		l->next += 1 + (int64_t)below(w, 2 * PR_NS_PER_S / w->plan.rate)) {
		int64_t back = below(w, 20) ? 0 : (int64_t)below(w, 500000);

		if (!l->carrier)
			continue;
		packet_comes(l, l->next + l->rack->offset - back, call, arg);
		n++;
	}
	return n;
}

/* ---- the dispatcher ---- */

static inline void
rack_start(struct t_rack *r)
{
	struct world *w = r->w;
	struct prd_sender_config config = {.options = &r->options,
		.inputs = &r->inputs,
		.transmit = (struct pr_transmit *)(void *)r,
		.control = (struct pr_control *)(void *)r,
		.mac = {4, 0, 0, 0, 0, (uint8_t)r->number},
		.mtu = w->plan.mtu,
		.events = r->events,
		.replies = r->replies};

	if (w->series_count + r->link_count > T_SERIES)
		return;
	w->machine = r->offset;
	config.epoch = (uint64_t)(clock_of_rack(r) / PR_NS_PER_S) << 32 |
		       (uint32_t)sim_random(&w->rng);
	config.nonce = __wrap_pr_nonce_make();
	ring_drain(r->events);
	MUST(w, prd_inputs_open(&r->inputs, &r->options, &w->err) == 0, "inputs");
	for (unsigned k = 0; k < r->link_count; k++) {
		struct t_series *s = &w->series[w->series_count++];

		s->epoch = config.epoch;
		s->link = (uint16_t)k;
		s->of = &r->link[k];
		s->count = s->given = 0;
		s->told_until = PR_TIME_MIN;
		s->begun = clock_of_rack(r);
		r->link[k].series = s;
	}
	r->sender = prd_sender_create(&config, &w->err);
	if (!r->sender)
		abort();
	r->sender->now = r->sender->state_since = mono();
	r->alive = true;
	r->stopped = false;
	r->stalled = 0;
	moment(w, clock_of_rack(r));
	prd_inputs_set_running(&r->inputs, true);
	for (unsigned k = 0; k < r->link_count; k++) {
		prd_capture_round(r->inputs.readers[k]);
		observe(&r->link[k]);
	}
	prd_control_reconnect_all(r->sender);
	SAY(w, "dispatcher %u starts, epoch %lx", r->number, (lu)config.epoch);
}

static inline void
rack_kill(struct t_rack *r)
{
	for (unsigned k = 0; k < r->link_count; k++) {
		struct t_link *l = &r->link[k];

		observe(l);
		/* what was in its rings is nowhere, nor what was in the kernel's */
		while (l->series->count > l->series->given)
			drop_note(l, l->series->packets[--l->series->count].time);
		if (l->open && l->carrier && l->next < r->w->now)
			drop_note(l, l->next + r->offset);
	}
	prd_sender_destroy(&r->sender);
	prd_inputs_close(&r->inputs);
	r->alive = false;
	for (unsigned i = 0; i < r->w->node_count; i++)
		r->w->node[i].troubled |= r->w->node[i].rack == r;
	for (unsigned k = 0; k < r->link_count; k++)
		observe(&r->link[k]);
	moment(r->w, clock_of_rack(r));
	SAY(r->w, "dispatcher %u is killed", r->number);
}

static inline void
rack_event(struct t_rack *r, enum prd_event_kind kind)
{
	struct prd_event *e = pr_ring_reserve(r->events, sizeof(*e));

	if (!e)
		return;
	memset(e, 0, offsetof(struct prd_event, u));
	e->kind = kind;
	snprintf(e->u.node.name, sizeof(e->u.node.name), "ann");
	pr_ring_commit(r->events, sizeof(*e));
	pr_ring_publish(r->events);
}

static inline void
rack_step(struct t_rack *r)
{
	r->w->machine = r->offset;
	if (!r->alive)
		return;
	r->stopped_for++;
	for (unsigned k = 0; k < r->link_count; k++) {
		struct t_link *l = &r->link[k];

		if (chance(r->w, r->w->plan.stall))
			l->stalled = r->w->now + (int64_t)below(r->w, PR_NS_PER_S / 3);
		if (r->w->now >= l->stalled)
			prd_capture_round(r->inputs.readers[k]);
		observe(l);
		MUST(r->w,
			!r->stopped || !l->open || r->w->plan.stall || r->stopped_for < 50,
			"link %s: captured on after a stop", l->name);
	}
	if (chance(r->w, r->w->plan.stall))
		r->stalled = r->w->now + (int64_t)below(r->w, PR_NS_PER_S / 3);
	if (r->w->now < r->stalled)
		return;
	for (int i = 0; i < 20 && prd_sender_round(r->sender) > 0; i++)
		;
	ring_drain(r->replies);
	for (unsigned k = 0; k < r->link_count; k++)
		r->link[k].series->given = pr_counter_get(&r->inputs.links[k].last_seq);
}

/* ---- a node: logger and volume ---- */

static void
node_send(void *arg, struct pr_frame *frame)
{
	struct t_node *n = arg;
	struct prd_event *e;

	if (!n->cable || !n->rack->cable || !n->rack->alive ||
		chance(n->w, n->w->plan.log_loss))
		return;
	e = pr_ring_reserve(n->rack->events, sizeof(*e));
	if (!e)
		return;
	e->kind = PRD_EVENT_FRAME;
	e->request = 0;
	e->u.frame = *frame;
	pr_ring_commit(n->rack->events, sizeof(*e));
	pr_ring_publish(n->rack->events);
}

static void
node_epoch(void *arg, uint64_t epoch, PR_UNUSED bool whole)
{
	((struct t_node *)arg)->epoch = epoch;
}

static int
node_identify(void *arg, uint32_t length)
{
	(void)arg;
	(void)length;
	return 0;
}

static int
node_reset(void *arg)
{
	return prl_writer_reset(((struct t_node *)arg)->append, NULL);
}

static void
node_report(void *arg, struct pr_status *status)
{
	struct t_node *n = arg;

	status->disk_total = status->disk_free = n->disk.size;
	status->state =
		prl_writer_suspend_reason(n->append) ? PR_NODE_SUSPENDED : PR_NODE_RUNNING;
}

static inline void
node_start(struct t_node *n)
{
	struct world *w = n->w;
	const struct sfs_open_options open = {
		.writer = true, .one_thread = true, .shm_bytes = 6 * T_BLOCK};
	const struct prl_writer_options options = {0};
	struct prl_node_config config = {.rack = n->rack->number + 1,
		.ethertype = PR_ETHERTYPE_DEFAULT,
		.ring = n->ring,
		.send = node_send,
		.epoch = node_epoch,
		.identify = node_identify,
		.reset = node_reset,
		.report = node_report,
		.arg = n,
		.ann = {.version = "0", .mtu = w->plan.mtu, .buffer_size = T_RING / 2}};
	struct pr_ledger_entry boot = {.type = PR_LEDGER_BOOT};

	w->machine = n->offset;
	n->sfs = sfs_open_disks(&n->handle, 1, &open, &w->err);
	MUST(w, n->sfs != NULL, "node %s cannot open its volume", n->name);
	n->append = prl_writer_create(n->sfs, &options, &w->err);
	MUST(w, n->append != NULL, "node %s: no writer", n->name);
	config.append = n->append;
	memcpy(config.mac, n->mac, PR_MAC_LEN);
	snprintf(config.ann.name, sizeof(config.ann.name), "%s", n->name);
	prl_match_defaults(&config.match);
	config.match.room = 1024;
	n->node = prl_node_create(&config, &w->err);
	boot.u.boot.time = pr_now_real();
	boot.u.boot.nonce = prl_node_nonce(n->node);
	snprintf(boot.u.boot.name, sizeof(boot.u.boot.name), "%s", n->name);
	prl_writer_keep(n->append, &boot);
	SAY(w, "node %s starts", n->name);
}

/* What the logger's memory held is gone; what it wrote is in the disk's cache, which a power cut loses. */
static inline void
node_kill(struct t_node *n, bool power)
{
	n->w->machine = n->offset;
	n->disk.dead = true;
	prl_node_destroy(&n->node);
	prl_writer_destroy(&n->append);
	sfs_dispose(&n->sfs, true);
	n->disk.dead = false;
	n->troubled = true;
	n->killed = n->w->now;
	if (power)
		sim_power_cut(&n->disk, 128, 0);
	ring_drain(n->ring);
	SAY(n->w, "node %s is killed%s", n->name, power ? " by a power cut" : "");
}

static inline void
node_step(struct t_node *n)
{
	struct prl_capture_record *rec;
	size_t len;

	n->w->machine = n->offset;
	if (!n->node)
		return;
	while ((rec = pr_ring_next(n->ring, &len)))
		prl_node_receive(n->node, rec, mono());
	prl_node_run(n->node, false, mono());
	prl_node_tick(n->node, mono());
	prl_writer_tick(n->append, mono());
	n->troubled |= prl_writer_suspend_reason(n->append) != NULL;
}

/* ---- the node's indexer: it reads through the logger's memory, and what the disk has when that is gone ---- */

static struct t_node *t_opening;

/* Closes what the indexer reads of a dead logger's volume. */
static inline void
reader_drop(struct t_node *n)
{
	if (n->reader)
		sfs_dispose(&n->reader, false);
}

static inline struct sfs *
reader_of(struct t_node *n)
{
	const struct sfs_open_options open = {0};

	if (n->sfs)
		return n->sfs;
	if (!n->reader)
		n->reader = sfs_open_disks(&n->handle, 1, &open, &n->w->err);
	MUST(n->w, n->reader != NULL, "node %s: its volume cannot be read", n->name);
	return n->reader;
}

struct sfs *
__wrap_sfs_open(const char *const *paths, size_t count,
	const struct sfs_open_options *options, struct pr_error *err)
{
	(void)paths;
	(void)count;
	(void)options;
	(void)err;
	return reader_of(t_opening);
}

/* The nodes close what they have opened. */
void
__wrap_sfs_close(struct sfs **sfs)
{
	for (unsigned i = 0; i < t_world->node_count; i++)
		if (*sfs == t_world->node[i].sfs || *sfs == t_world->node[i].reader)
			*sfs = NULL;
	__real_sfs_close(sfs);
}

/* Nothing is read ahead: a cursor could not take the queue along. */
int
__wrap_sfs_open_queue(const struct sfs *sfs, struct sfs_queue *q, enum sfs_queue_kind kind,
	struct pr_error *err)
{
	if (q == &sfs->reads)
		return pr_error_set(err, "no reading ahead");
	return __real_sfs_open_queue(sfs, q, kind, err);
}

int
__wrap_sfs_disk_open(struct sfs_disk *disk, const char *path, bool write, bool direct,
	struct pr_error *err)
{
	(void)write;
	(void)direct;
	for (unsigned i = 0; i < t_world->node_count; i++)
		if (!strcmp(t_world->node[i].name, path)) {
			*disk = t_world->node[i].handle;
			return 0;
		}
	return pr_error_set(err, "%s: no such disk", path);
}

/* The view's cursors go on where they were when the logger dies or comes. */
static inline void
view_attach(struct t_node *n)
{
	struct sfs *sfs;

	if (n->sfs)
		reader_drop(n);
	n->view->sfs = sfs = reader_of(n);
	for (int i = 0; i < PRI_VOLUME_LISTS; i++)
		if (n->view->cursors[i]) /* a cursor begins with its volume */
			memcpy(n->view->cursors[i], &sfs, sizeof(sfs));
}

static inline void view_close(struct t_node *n);

static inline int
view_try(struct t_node *n)
{
	n->w->machine = n->offset;
	if (!n->view) {
		t_opening = n;
		n->view = pri_volume_open(&(const char *){n->name}, 1, 0, &n->w->err);
		MUST(n->w, n->view != NULL, "node %s: no view", n->name);
	}
	view_attach(n);
	return pri_volume_refresh(n->view, true, PR_TIME_MAX, &n->w->err);
}

/*
 * The volume as the indexer knows it, brought up to date. What does not fit it any more (damage took all that a new
 * stream had) is opened anew, as the indexer does.
 */
static inline void
view_refresh(struct t_node *n)
{
	if (view_try(n) == 0)
		return;
	view_close(n);
	MUST(n->w, view_try(n) == 0, "node %s: its view cannot be refreshed", n->name);
}

static inline void
view_close(struct t_node *n)
{
	if (n->view)
		view_attach(n);
	pri_volume_close(&n->view);
	reader_drop(n);
}

/* ---- what is done to a volume ---- */

/* Some sectors of a dead logger's volume hold nothing sensible any more; perhaps it is repaired. */
static inline void
volume_damage(struct t_node *n)
{
	struct world *w = n->w;
	uint64_t sectors = n->disk.size / SIM_SECTOR,
		 first = 2 * SFS_ROOT_BYTES / SIM_SECTOR;
	struct sfs_repair_result result;

	reader_drop(n);
	for (uint64_t left = 1 + below(w, 3); left > 0; left--)
		sim_garble(&n->disk, (first + below(w, sectors - first)) * SIM_SECTOR,
			SIM_SECTOR);
	n->troubled = n->damaged = true;
	SAY(w, "node %s: sectors are damaged", n->name);
	if (below(w, 2) == 0)
		return;
	if (sfs_repair(&(const char *){n->name}, 1, NULL, NULL, NULL, &result, &w->err) ==
		0)
		SAY(w, "node %s: repaired, %lu records dropped", n->name,
			(lu)result.dropped_records);
	else
		SAY(w, "node %s: not repaired: %s", n->name, w->err.text);
}

/* moved_to: the node that has a copy of what lies within the fences; or NULL. */
static inline void
volume_delete(struct t_node *n, int64_t since, int64_t until, const struct t_node *moved_to,
	const struct prl_delete_fence *fences, size_t fence_count)
{
	struct world *w = n->w;
	struct prl_delete_order order = {.since = since,
		.until = until,
		.by = "bob",
		.moved_to = moved_to ? moved_to->name : NULL,
		.fenced = moved_to != NULL,
		.fences = fences,
		.fence_count = fence_count};
	struct prl_deleted out;

	w->machine = n->offset;
	order.at = pr_now_real();
	if (w->deletion_count == T_GAPS)
		return;
	w->deletions[w->deletion_count++] =
		(struct t_deletion){n, since, until, w->now, moved_to};
	SAY(w, "node %s: delete %.3f to %.3f, moved to %s", n->name, seconds(since),
		seconds(until), moved_to ? moved_to->name : "nobody");
	do {
		MUST(w, prl_delete_step(n->sfs, n->append, &order, &out, &w->err) == 0,
			"deletion");
		order.step++;
	} while (out.more);
}

/* Copies the packets of an answer's batch to another node. */
static inline void
move_batch(struct t_node *to, const Packrack__Batch *batch)
{
	struct world *w = to->w;
	static uint8_t room[1 << 20];
	struct pr_segment_builder b;
	struct pr_segment_reader r;
	struct pr_packet p;
	int rc;

	if (!batch->packets.len)
		return;
	pr_segment_begin(&b, room, sizeof(room), PR_SEGMENT_MIXED);
	MUST(w, pr_segment_open(&r, batch->packets.data, batch->packets.len, &w->err) == 0,
		"a batch that cannot be read");
	while ((rc = pr_segment_next(&r, &p, &w->err)) == 1)
		MUST(w, pr_segment_add(&b, &p), "a batch that is too long");
	w->machine = to->offset;
	MUST(w,
		prl_writer_put_moved(
			to->append, room, pr_segment_seal(&b), false, &w->err) == 0,
		"packets are not taken");
}

static inline void
move_names(struct t_node *to, const struct t_node *from)
{
	for (size_t i = 0; i < from->view->ledger.count; i++) {
		const struct pri_series_ledger *s = from->view->ledger.series[i];
		struct pr_ledger_entry e = {.type = PR_LEDGER_LINK,
			.u.link = {.epoch = s->epoch,
				.link = s->link,
				.linktype = 1,
				.snaplen = 65535}};

		snprintf(e.u.link.name, sizeof(e.u.link.name), "%s",
			pri_series_ledger_name(s));
		if (e.u.link.name[0])
			prl_writer_tell(to->append, &e);
	}
}

/* As `packrack data move` does: copies all up to a time, makes it durable, deletes no more than was there. */
static inline void
volume_move(struct t_node *from, struct t_node *to, int64_t until)
{
	struct world *w = from->w;
	struct prl_delete_fence fences[T_LINKS * 2];
	static char names[T_LINKS * 2][SFS_NAME_MAX + 1];
	Packrack__Query m = PACKRACK__QUERY__INIT;
	enum pri_answer_state state = PRI_ANSWER_MORE;
	struct sfs_stream_info info;
	struct pri_answer *answer;
	size_t count = 0;

	m.since = PR_TIME_MIN;
	m.until = until;
	m.link = "";
	view_refresh(from);
	for (size_t i = 0; sfs_stream_info(from->sfs, i, &info, NULL) == SFS_OK; i++)
		if (!strncmp(info.name, "packets.", 8) && count < PR_COUNT(fences)) {
			snprintf(names[count], sizeof(names[count]), "%s", info.name);
			fences[count] =
				(struct prl_delete_fence){names[count], info.last_sequence};
			count++;
		}
	answer = pri_answer_create(from->view, &m, &w->err);
	MUST(w, answer != NULL, "no answer");
	while (state != PRI_ANSWER_END) {
		state = pri_answer_step(answer, PR_TIME_MAX, &w->err);
		MUST(w, state == PRI_ANSWER_BATCH || state == PRI_ANSWER_END, "answer");
		if (state == PRI_ANSWER_BATCH)
			move_batch(to, pri_answer_batch(answer));
	}
	pri_answer_destroy(&answer);
	w->machine = to->offset;
	move_names(to, from);
	MUST(w, prl_writer_flush(to->append, &w->err) == 0, "flush");
	for (uint64_t i = below(w, 20); i > 0;
		i--) { /* what comes in the meantime must stay */
		w->now += T_STEP;
		rack_step(from->rack);
		node_step(from);
	}
	volume_delete(from, PR_TIME_MIN, until, to, fences, count);
}
