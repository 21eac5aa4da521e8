/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completeness against the truth. A seed gives a rack of one or two dispatchers with up to three nodes each, traffic,
 * faults of all kinds, and queries at random moments over random ranges. The model knows each packet that was
 * captured, where it was sent, and when each link was observed. Each answer is held against that:
 *   - each captured packet of the range is in the answer, or on its list for a reason that is true;
 *   - no packet is in the answer or on the list that was not captured and asked for;
 *   - the answer calls itself complete if all is there and was observed, and only then.
 * Of a node that was disturbed (killed, cut off, damaged, its dispatcher killed) nobody may know what it was sent: what it
 * lost may then be named with another cause, or lie in a gap that an overwritten or deleted time explains; but never in an
 * answer that calls itself complete.
 * Real: the dispatcher's send thread (numbers, spread, timestamp logs, MARKs, node table), frames, a node's
 * protocol, matching, the volume's writer, StreamFS on a simulated disk, the indexer's view of the volume and its
 * answers, the merger's completeness. Simulated: clocks, capture interfaces, the switch, the disk; a logger's death
 * takes its memory; the indexer reads a live logger's memory directly (no shared memory).
 * TRUTH_LOUD=1 prints all that happens in a case; TRUTH_KEEP=1 goes on behind a failure; the others: seeds.h.
 */
#include "tests/unit/seeds.h"
#include "tests/unit/truth_check.h"

#define CASES 10000

struct world *t_world;

/* ---- a case ---- */

static unsigned
some(struct world *w, unsigned one_in, unsigned most)
{
	return below(w, one_in) ? 0 : 1 + (unsigned)below(w, most);
}

static void
draw_plan(struct world *w)
{
	struct t_plan *p = &w->plan;

	*p = (struct t_plan){
		.steps = 20 + (unsigned)below(w, below(w, 4) ? 60 : 200),
		.rate = 10 + (unsigned)below(w, 110),
		.racks = 1 + !below(w, 6),
		.nodes = 1 + (unsigned)below(w, 1 + below(w, T_NODES)),
		.links = 1 + (unsigned)below(w, T_LINKS),
		.copies = 1 + !below(w, 3),
		.blocks = 16 + (unsigned)below(w, below(w, 3) ? 100 : 20),
		.big = some(w, 4, 30),
		.mtu = below(w, 3) ? 9000 : 1500,
		.alike = some(w, 4, 50),
		.loss = some(w, 3, 100),
		.log_loss = some(w, 3, 60),
		.reorder = some(w, 4, 60),
		.repeat = some(w, 5, 40),
		.kill_node = some(w, 3, 15),
		.power = some(w, 5, 8),
		.kill_rack = some(w, 3, 12),
		.cable = some(w, 3, 15),
		.carrier = some(w, 3, 20),
		.stop = some(w, 4, 12),
		.indexer = some(w, 4, 15),
		.damage = some(w, 4, 500),
		.remove = some(w, 4, 25),
		.move = some(w, 4, 25),
		.clock = some(w, 4, 15),
		.hour = below(w, 2),
		.drop = some(w, 5, 60),
		.stall = some(w, 5, 30),
		.query = 10 + (unsigned)below(w, 30),
	};
}

static void
rack_make(struct world *w, unsigned i)
{
	struct t_rack *r = &w->rack[i];

	r->w = w;
	r->number = i;
	r->offset = below(w, 3) ? 0 : (int64_t)below(w, 20000000) - 10000000;
	r->cable = true;
	r->was_stopped = false;
	r->refuses = below(w, 2);
	r->link_count = w->plan.links;
	r->options = (struct prd_options){.copies = w->plan.copies,
		.in = {.items = r->names, .count = r->link_count},
		.snaplen = 65535,
		.ring_size = T_RING,
		.buffer_size = below(w, 4) ? T_RING : 65536,
		.log_memory = below(w, 4) ? 256 * 1024 : 16384,
		.wait_nodes = below(w, 2),
		.wait_time = PR_NS_PER_S,
		.rack_id = i + 1,
		.ethertype = PR_ETHERTYPE_DEFAULT,
		.hold_time = 2 * PR_NS_PER_S,
		.log_age = 50 * PR_NS_PER_MS};
	for (unsigned k = 0; k < r->link_count; k++) {
		struct t_link *l = &r->link[k];

		*l = (struct t_link){.rack = r, .number = k, .carrier = true};
		snprintf(l->name, sizeof(l->name), "link%u%u", i % 100, k % 100);
		r->names[k] = l->name;
	}
}

static void
node_make(struct world *w, unsigned i)
{
	struct t_node *n = &w->node[i];
	struct sfs_create_shape shape = {.block_size = T_BLOCK,
		.interval = SFS_MAP_INTERVAL,
		.utilization = SFS_UTILIZATION};

	n->w = w;
	n->number = i;
	n->rack = &w->rack[i % w->plan.racks];
	snprintf(n->name, sizeof(n->name), "log%u", i);
	memcpy(n->mac, (const uint8_t[]){2, 0, 0, 0, 0, (uint8_t)i}, PR_MAC_LEN);
	n->offset = below(w, 3) ? 0 : (int64_t)below(w, 20000000) - 10000000;
	n->cable = n->indexer = true;
	n->overwritten = PR_TIME_MIN;
	n->troubled = n->damaged = false;
	n->epoch = 0;
	ring_drain(n->ring);
	n->handle = sim_make(&n->disk, (2 + (uint64_t)w->plan.blocks) * T_BLOCK, &w->rng);
	MUST(w, sfs_create_shaped(&n->handle, 1, &shape, &w->err) == 0, "create");
	node_start(n);
}

static void
world_begin(struct world *w, uint64_t seed)
{
	w->seed = seed;
	w->rng.s = seed * 0x9e3779b97f4a7c15u;
	w->now = T_START;
	w->machine = 0;
	w->ids = T_ALIKE;
	w->series_count = w->deletion_count = w->moment_count = w->soon = w->promise_count =
		0;
	w->err.text[0] = 0;
	draw_plan(w);
	w->logs_get_lost = w->plan.log_loss > 0;
	for (unsigned i = 0; i < w->plan.racks; i++) {
		rack_make(w, i);
	}
	w->node_count = 0;
	for (unsigned i = 0; i < w->plan.nodes * w->plan.racks; i++, w->node_count++)
		node_make(w, i);
	for (unsigned i = 0; i < w->plan.racks; i++)
		rack_start(&w->rack[i]);
}

static void
world_end(struct world *w)
{
	for (unsigned i = 0; i < w->node_count; i++) {
		struct t_node *n = &w->node[i];

		view_close(n);
		if (n->sfs)
			node_kill(n, false);
		free(n->held);
		n->held = NULL;
	}
	for (unsigned i = 0; i < w->plan.racks; i++)
		if (w->rack[i].alive)
			rack_kill(&w->rack[i]);
}

static void
pass_time(struct world *w, unsigned steps, int64_t step)
{
	for (; steps > 0; steps--) {
		w->now += step;
		for (unsigned i = 0; i < w->plan.racks; i++)
			rack_step(&w->rack[i]);
		for (unsigned i = 0; i < w->node_count; i++)
			node_step(&w->node[i]);
	}
}

/* ---- faults ---- */

/* A clock is set by up to a second or an hour, or runs a little faster for a moment. */
static void
disturb_clock(struct world *w, int64_t *offset)
{
	static const int64_t by[] = {PR_NS_PER_S, 3600 * PR_NS_PER_S};
	int64_t step = by[w->plan.hour && below(w, 4) == 0];

	if (!chance(w, w->plan.clock))
		return;
	/* what a dispatcher leaves unsaid at its death has no time if the next one's clock was set back */
	*offset += below(w, 2)                        ? (int64_t)below(w, T_STEP / 2000)
		   : below(w, 2) || w->plan.kill_rack ? step
						      : -step;
	SAY(w, "a clock is set to %.3f", (double)*offset / 1e9);
}

static void
remove_some(struct world *w, struct t_node *n)
{
	int64_t length = w->now - T_START, since = PR_TIME_MIN, until;
	struct t_node *to = &w->node[below(w, w->node_count)];

	until = T_START + (int64_t)below(w, (uint64_t)length);
	if (below(w, 3) == 0) /* all: what comes in the meantime stays */
		until = w->now + PR_NS_PER_S;
	if (chance(w, w->plan.move) && to != n && to->sfs &&
		!prl_writer_suspend_reason(to->append)) {
		volume_move(n, to, until);
		return;
	}
	if (!chance(w, w->plan.remove))
		return;
	if (below(w, 2)) {
		since = T_START + (int64_t)below(w, (uint64_t)length);
		until = since + (int64_t)below(w, 2 * PR_NS_PER_S);
	}
	volume_delete(n, since, until, NULL, NULL, 0);
}

static void
disturb_node(struct world *w, struct t_node *n)
{
	const struct t_plan *p = &w->plan;

	if (!n->sfs) {
		if (chance(w, p->damage / 10))
			volume_damage(n);
		if (chance(w, 40))
			node_start(n);
	} else if (chance(w, p->kill_node)) {
		node_kill(n, false);
	} else if (chance(w, p->power)) {
		node_kill(n, true);
		view_close(n);
	}
	if (n->sfs && !prl_writer_suspend_reason(n->append))
		remove_some(w, n);
	disturb_clock(w, &n->offset);
	if (!n->cable ? chance(w, 40) : chance(w, p->cable)) {
		n->cable = !n->cable;
		n->troubled = true;
		SAY(w, "node %s: cable %d", n->name, n->cable);
	}
	if (!n->indexer ? chance(w, 50) : chance(w, p->indexer)) {
		n->indexer = !n->indexer;
		view_close(n);
		SAY(w, "node %s: indexer %d", n->name, n->indexer);
	}
	if (n->indexer && chance(w, 100))
		view_refresh(n);
}

static void
carrier_change(struct t_link *l)
{
	struct world *w = l->rack->w;

	observe(l);
	l->carrier = !l->carrier;
	l->carrier_changes++;
	observe(l);
	moment(w, clock_of_rack(l->rack));
	SAY(w, "link %s: carrier %d", l->name, l->carrier);
}

static void
disturb_rack(struct world *w, struct t_rack *r)
{
	const struct t_plan *p = &w->plan;

	disturb_clock(w, &r->offset);
	if (!r->alive) {
		if (chance(w, 50))
			rack_start(r);
		return;
	}
	if (chance(w, p->kill_rack)) {
		rack_kill(r);
		return;
	}
	if (!r->cable ? chance(w, 40) : chance(w, p->cable)) {
		r->cable = !r->cable;
		moment(w, clock_of_rack(r));
		for (unsigned i = 0; i < w->node_count; i++)
			w->node[i].troubled |= w->node[i].rack == r;
		SAY(w, "dispatcher %u: rack cable %d", r->number, r->cable);
	}
	if (r->stopped ? chance(w, 40) : chance(w, p->stop)) {
		rack_event(r, r->stopped ? PRD_EVENT_START : PRD_EVENT_STOP);
		r->stopped = !r->stopped;
		r->was_stopped = true;
		r->stopped_for = 0;
		moment(w, clock_of_rack(r));
		SAY(w, "dispatcher %u: %s", r->number, r->stopped ? "stop" : "start");
	}
	for (unsigned k = 0; k < r->link_count; k++)
		if (!r->link[k].carrier ? chance(w, 40) : chance(w, p->carrier)) {
			carrier_change(&r->link[k]);
			if (r->link[k].carrier || below(w, 2))
				continue;
			/* back before anybody has looked */
			w->now += 1 + (int64_t)below(w, 2 * PR_NS_PER_MS);
			carrier_change(&r->link[k]);
			w->soon = 1 + (unsigned)below(w, 3);
			w->hurry = true;
		}
}

static void
repair(struct world *w)
{
	struct t_plan *p = &w->plan;

	p->loss = p->log_loss = p->reorder = p->repeat = p->drop = p->stall = 0;
	p->rate = p->rate < 40 ? 10 : p->rate / 4;
	for (unsigned i = 0; i < w->plan.racks; i++) {
		struct t_rack *r = &w->rack[i];

		r->cable = true;
		for (unsigned k = 0; k < r->link_count; k++)
			r->link[k].carrier = true;
		if (!r->alive)
			rack_start(r);
		else if (r->stopped)
			rack_event(r, PRD_EVENT_START);
		r->stopped = false;
	}
	for (unsigned i = 0; i < w->node_count; i++) {
		w->node[i].cable = w->node[i].indexer = true;
		if (!w->node[i].sfs)
			node_start(&w->node[i]);
	}
}

/* A time of the case, often one at which something happened, or up to which a node may have heard. */
static int64_t
draw_time(struct world *w)
{
	static const int64_t near[] = {1, 5 * PR_NS_PER_MS, 300 * PR_NS_PER_MS};
	const struct t_rack *r = &w->rack[below(w, w->plan.racks)];
	uint64_t length = (uint64_t)(w->now - T_START + PR_NS_PER_S);
	int64_t far = near[below(w, PR_COUNT(near))], at;
	unsigned known = w->moment_count < T_MOMENTS ? w->moment_count : T_MOMENTS;

	switch (below(w, 4)) {
	case 0:
		at = r->link[below(w, r->link_count)].series->told_until;
		if (at > T_START)
			return at - (int64_t)below(w, (uint64_t)far);
		/* fall through */
	case 1:
		return T_START - PR_NS_PER_S / 2 + (int64_t)below(w, length);
	default:
		at = known ? w->moments[below(w, known)] : w->now;
		return at - far + (int64_t)below(w, 2 * (uint64_t)far);
	}
}

static void
ask_anything(struct world *w)
{
	const struct t_rack *r = &w->rack[below(w, w->plan.racks)];
	const char *link = below(w, 3) ? "" : r->link[below(w, r->link_count)].name;
	int64_t since = below(w, 4) ? draw_time(w) : PR_TIME_MIN, until = w->now, other;

	if (w->moment_count &&
		below(w, 3) == 0) { /* from before the last event on, as far as is known */
		since = w->moments[(w->moment_count - 1) % T_MOMENTS] -
			(int64_t)below(w, 50 * PR_NS_PER_MS);
		until = r->link[below(w, r->link_count)].series->told_until;
		until = until > since ? until - 1 : since;
	} else if (below(w, 4))
		until = draw_time(w);
	else if (below(w, 2) && since > T_START)
		until = since + (int64_t)below(w, PR_NS_PER_S / 2);
	if (until < since && since != PR_TIME_MIN) {
		other = since;
		since = until;
		until = other;
	}
	w->soon = 0;
	ask(w, since, until, below(w, 30) ? link : "foo");
}

static void
run_case(void *model, uint64_t seed)
{
	struct world *w = t_world = model;

	w->loud = getenv("TRUTH_LOUD") != NULL;
	world_begin(w, seed);
	for (unsigned n = w->plan.steps; n > 0; n--) {
		/* now and then something happens between two looks at a carrier, or two MARKs */
		pass_time(w, 1,
			!w->hurry && below(w, 3) ? T_STEP : 1 + (int64_t)below(w, T_STEP));
		w->hurry = false;
		for (unsigned i = 0; i < w->plan.racks; i++)
			disturb_rack(w, &w->rack[i]);
		for (unsigned i = 0; i < w->node_count; i++)
			disturb_node(w, &w->node[i]);
		if (chance(w, w->plan.query) || (w->soon && --w->soon == 0))
			ask_anything(w);
	}
	if (below(w, 2))
		return world_end(w);
	repair(w);
	pass_time(w, 52, 100 * PR_NS_PER_MS);
	ask_anything(w);
	ask(w, PR_TIME_MIN, w->now, "");
	world_end(w);
}

static void *
world_make(void)
{
	struct world *w = calloc(1, sizeof(*w));

	for (unsigned i = 0; i < T_RACKS; i++) {
		struct t_rack *r = &w->rack[i];

		r->events = pr_ring_create(T_RING, &w->err);
		r->replies = pr_ring_create(65536, &w->err);
	}
	for (unsigned i = 0; i < T_RACKS * T_NODES; i++)
		w->node[i].ring = pr_ring_create(T_RING, &w->err);
	return w;
}

static void
world_free(void *model)
{
	struct world *w = model;

	for (unsigned i = 0; i < T_RACKS; i++) {
		struct t_rack *r = &w->rack[i];

		pr_ring_destroy(&r->events);
		pr_ring_destroy(&r->replies);
	}
	for (unsigned i = 0; i < T_RACKS * T_NODES; i++) {
		pr_ring_destroy(&w->node[i].ring);
		sim_free(&w->node[i].disk);
	}
	for (size_t i = 0; i < T_SERIES; i++)
		free(w->series[i].packets);
	fprintf(stderr, "%lu queries, %lu complete\n", (lu)w->queries, (lu)w->completes);
	free(w);
}

/* Seeds by which longer runs found faults: tried first. What a seed does changes with the model. */
static const uint64_t found[] = {630868, 658378, 853023, 986587, 1153498, 1187306, 1202735,
	1224156, 1288585, 1363776};

int
main(void)
{
	const struct seeds seeds = {.name = "truth",
		.prefix = "TRUTH",
		.cases = CASES,
		.make = world_make,
		.run = run_case,
		.free = world_free,
		.found = found,
		.found_count = sizeof(found) / sizeof(*found)};

	return seeds_main(&seeds);
}
