/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/filter/bpf_code.h"
#include "indexer/filter/plan_internal.h"
#include "proto/base/array.h"

/*
 * Abstract interpretation of a BPF program. Forward: the set of abstract states (what is known of headers and
 * registers) at each instruction, STATES_HERE at most; further ones merge into "nothing known". Backward: for each
 * state the condition under which the program accepts. Jumps go forward, so each is one pass over the
 * instructions; a backward jump counts as "may match". For example, of
 *	ldh [12]; jeq #0x800, accept, reject
 * the state of `accept` knows that IPv4 lies at 14, and the condition of the first is the key ETHERTYPE 0x0800.
 * States are told apart only by registers that are read later.
 */
#define STATES_HERE 12 /* at one instruction */
#define STATES_MAX 600000
#define TERMS_MAX 600000

#define NOWHERE UINT32_MAX

struct state_node {
	struct pri_state state;
	uint32_t next; /* of the same instruction */
	uint32_t yes, no; /* nodes; no only of conditional jumps; NOWHERE: may match */
	uint32_t if_yes, if_no, term;
};

struct planner {
	const struct pri_insn *insns;
	size_t count;
	const struct pri_linktype_layout *layout;
	struct pri_terms terms;
	uint8_t *live; /* of each instruction: registers whose value before it matters */
	uint32_t *first; /* node of each instruction; NOWHERE: none */
	struct state_node *nodes;
	uint32_t node_count;
	bool failed;
};

#define LIVE_A 1
#define LIVE_X 2

/* ---- which registers matter ---- */

static bool
is_jump(const struct pri_insn *in)
{
	return (in->code & CLASS_MASK) == CLASS_JMP;
}

static uint8_t
live_before(const struct pri_insn *in, uint8_t after)
{
	uint8_t source = in->code & SOURCE_X ? LIVE_X : 0;

	switch (in->code & CLASS_MASK) {
	case CLASS_LD:
		after &= (uint8_t)~LIVE_A;
		return in->code == LD_W_IND || in->code == LD_H_IND || in->code == LD_B_IND
			       ? after | LIVE_X
			       : after;
	case CLASS_LDX:
		return after & (uint8_t)~LIVE_X;
	case CLASS_ALU:
		return after | LIVE_A | (in->code == NEG ? 0 : source);
	case CLASS_JMP:
		return in->code == JA ? after : after | LIVE_A | source;
	case CLASS_RET:
		return in->code == RET_A ? LIVE_A : 0;
	case CLASS_MISC:
		if (in->code == TAX)
			return after & LIVE_X ? LIVE_A | (after & LIVE_A) : after;
		return after & LIVE_A ? LIVE_X | (after & LIVE_X) : after;
	default: /* stores are not followed */
		return after;
	}
}

static void
find_live(struct planner *p)
{
	for (size_t i = p->count; i-- > 0;) {
		const struct pri_insn *in = &p->insns[i];
		uint8_t after = 0;

		if (in->code == JA)
			after = (int32_t)in->k < 0 ? 0 : p->live[i + 1 + in->k];
		else if (is_jump(in))
			after = p->live[i + 1 + in->jt] | p->live[i + 1 + in->jf];
		else if ((in->code & CLASS_MASK) != CLASS_RET)
			after = p->live[i + 1];
		p->live[i] = live_before(in, after);
	}
}

/* ---- forwards ---- */

static bool
same_value(const struct pri_value *a, const struct pri_value *b)
{
	return a->form == b->form && a->size == b->size && a->shift == b->shift &&
	       a->base == b->base && a->at == b->at && a->mask == b->mask;
}

static bool
same_state(const struct pri_state *a, const struct pri_state *b)
{
	return a->net_is == b->net_is && a->flags == b->flags && a->tags == b->tags &&
	       a->labels == b->labels && a->type_at == b->type_at && a->net == b->net &&
	       same_value(&a->a, &b->a) && same_value(&a->x, &b->x);
}

/* Nothing is known of a packet there but what its way here was. */
static struct pri_state
forgotten(void)
{
	struct pri_state state;

	pri_state_start(&state, NULL);
	state.a.form = state.x.form = PRI_VALUE_ANY;
	return state;
}

/* Without what does not matter from instruction at on. */
static void
forget_dead(const struct planner *p, size_t at, struct pri_state *state)
{
	struct pri_value a = state->a;

	if ((p->insns[at].code & CLASS_MASK) == CLASS_RET) {
		*state = forgotten();
		state->a = a;
	}
	if (!(p->live[at] & LIVE_A))
		state->a = (struct pri_value){.form = PRI_VALUE_ANY};
	if (!(p->live[at] & LIVE_X))
		state->x = (struct pri_value){.form = PRI_VALUE_ANY};
}

static uint32_t
find_node(const struct planner *p, size_t at, const struct pri_state *state, unsigned *here)
{
	uint32_t i = p->first[at];

	for (*here = 0; i != NOWHERE; i = p->nodes[i].next, ++*here)
		if (same_state(&p->nodes[i].state, state))
			return i;
	return NOWHERE;
}

/* The node of a state at instruction at; NOWHERE: no memory. */
static uint32_t
reach(struct planner *p, size_t at, struct pri_state state)
{
	unsigned here;
	uint32_t found;

	forget_dead(p, at, &state);
	found = find_node(p, at, &state, &here);
	if (found == NOWHERE && (here >= STATES_HERE || p->node_count >= STATES_MAX)) {
		state = forgotten();
		found = find_node(p, at, &state, &here);
	}
	if (found != NOWHERE)
		return found;
	if (PR_ARRAY_GROW(p->nodes, p->node_count) < 0) {
		p->failed = true;
		return NOWHERE;
	}
	p->nodes[p->node_count] = (struct state_node){
		.state = state, .next = p->first[at], .yes = NOWHERE, .no = NOWHERE};
	p->first[at] = p->node_count;
	return p->node_count++;
}

static void
go_branch(struct planner *p, size_t at, uint32_t node)
{
	const struct pri_insn *in = &p->insns[at];
	struct pri_state yes = p->nodes[node].state, no = yes;
	uint32_t if_yes = pri_state_branch(&yes, p->layout, in, true, &p->terms),
		 if_no = pri_state_branch(&no, p->layout, in, false, &p->terms), to;

	p->nodes[node].if_yes = if_yes;
	p->nodes[node].if_no = if_no;
	if (if_yes != PRI_TERM_FALSE) {
		to = reach(p, at + 1 + in->jt, yes);
		p->nodes[node].yes = to;
	}
	if (if_no != PRI_TERM_FALSE) {
		to = reach(p, at + 1 + in->jf, no);
		p->nodes[node].no = to;
	}
}

static void
go_on(struct planner *p, size_t at, uint32_t node)
{
	const struct pri_insn *in = &p->insns[at];
	struct pri_state state = p->nodes[node].state;
	uint32_t to = NOWHERE;

	if (pri_insn_begins_part(
		    in)) { /* whose tests give its loads their meaning by themselves */
		pri_state_start(&state, p->layout);
		state.a.form = state.x.form = PRI_VALUE_ANY;
	}
	if (in->code == JA) {
		if ((int32_t)in->k >= 0)
			to = reach(p, at + 1 + in->k, state);
	} else {
		pri_state_step(&state, in);
		to = reach(p, at + 1, state);
	}
	p->nodes[node].yes = to;
}

static void
forwards(struct planner *p)
{
	struct pri_state start;

	pri_state_start(&start, p->layout);
	reach(p, 0, start);
	for (size_t at = 0; at < p->count && !p->failed; at++) {
		const struct pri_insn *in = &p->insns[at];

		if ((in->code & CLASS_MASK) == CLASS_RET)
			continue;
		for (uint32_t i = p->first[at]; i != NOWHERE; i = p->nodes[i].next)
			if (is_jump(in) && in->code != JA)
				go_branch(p, at, i);
			else
				go_on(p, at, i);
	}
}

/* ---- backwards ---- */

static uint32_t
returned(const struct pri_insn *in, const struct pri_state *state)
{
	uint32_t value = in->k;

	if (in->code == RET_A) {
		if (state->a.form != PRI_VALUE_CONSTANT)
			return PRI_TERM_TRUE;
		value = state->a.at;
	}
	return value ? PRI_TERM_TRUE : PRI_TERM_FALSE;
}

/* What must hold from a node on, if what leads to it can hold. */
static uint32_t
term_at(const struct planner *p, uint32_t node, uint32_t condition)
{
	if (condition == PRI_TERM_FALSE)
		return PRI_TERM_FALSE;
	return node == NOWHERE ? PRI_TERM_TRUE : p->nodes[node].term;
}

static uint32_t
branch(struct planner *p, const struct state_node *s)
{
	return pri_term_branch(&p->terms, s->if_yes, term_at(p, s->yes, s->if_yes),
		s->if_no, term_at(p, s->no, s->if_no));
}

static void
backwards(struct planner *p)
{
	for (size_t at = p->count; at-- > 0;) {
		const struct pri_insn *in = &p->insns[at];

		for (uint32_t i = p->first[at]; i != NOWHERE; i = p->nodes[i].next) {
			struct state_node *s = &p->nodes[i];

			if ((in->code & CLASS_MASK) == CLASS_RET)
				s->term = returned(in, &s->state);
			else if (!is_jump(in) || in->code == JA)
				s->term = term_at(p, s->yes, PRI_TERM_TRUE);
			else
				s->term = branch(p, s);
		}
	}
}

/* ---- all of it ---- */

static int
planner_init(struct planner *p, const struct pri_bpf *program)
{
	*p = (struct planner){.layout = pri_linktype_layout_find(program->linktype)};
	p->insns = program->insns;
	p->count = program->count;
	p->live = calloc(p->count + 1, 1);
	p->first = malloc((p->count + 1) * sizeof(*p->first));
	if (pri_terms_init(&p->terms, TERMS_MAX) < 0 || !p->live || !p->first)
		return -1;
	p->terms.times = p->insns;
	p->terms.time_count = program->times;
	memset(p->first, 0xff, (p->count + 1) * sizeof(*p->first));
	return 0;
}

static void
planner_free(struct planner *p)
{
	pri_terms_free(&p->terms);
	free(p->live);
	free(p->first);
	free(p->nodes);
}

static struct pri_plan *
make(struct planner *p)
{
	uint32_t term = PRI_TERM_TRUE;

	if (p->count) {
		find_live(p);
		forwards(p);
		if (p->failed)
			return NULL;
		backwards(p);
		term = p->nodes[0].term;
	}
	return pri_plan_lower(&p->terms, term);
}

struct pri_plan *
pri_plan_create(const struct pri_bpf *program, struct pr_error *err)
{
	struct pri_plan *plan = NULL;
	struct planner p;

	if (planner_init(&p, program) == 0)
		plan = make(&p);
	planner_free(&p);
	if (!plan)
		pr_error_set(err, "no memory to plan a filter");
	else
		plan->linktype = program->linktype;
	return plan;
}

void
pri_plan_destroy(struct pri_plan **plan)
{
	if (!*plan)
		return;
	free((*plan)->nodes);
	free((*plan)->keys);
	free((*plan)->ranges);
	free(*plan);
	*plan = NULL;
}

/* ---- does it hold? ---- */

/*
 * Ways to the left are calls, ways to the right a loop: chains of alternatives lean to the right, and
 * pri_plan_create bounds how far anything leans to the left.
 */
enum { UNKNOWN, NO, YES };

struct holds {
	const struct pri_plan *plan;
	const struct pri_plan_index *index;
	uint8_t *found;
};

static uint8_t
ask(const struct holds *h, const struct pri_plan_node *n)
{
	const struct pri_plan_index *i = h->index;
	bool yes = n->op == PRI_PLAN_TRUE;

	if (n->op == PRI_PLAN_KEY)
		yes = i->has_key(i->arg, &h->plan->keys[n->left]);
	else if (n->op == PRI_PLAN_PARTS)
		yes = !i->has_parts || i->has_parts(i->arg, &h->plan->keys[n->left]);
	else if (n->op == PRI_PLAN_RANGE)
		yes = i->has_range(i->arg, &h->plan->ranges[n->left]);
	return yes ? YES : NO;
}

/* The value of node, of which what was passed on the way right of `from` is to be told as well. */
static uint8_t
find(const struct holds *h, uint32_t node)
{
	uint32_t from = node;
	uint8_t value;

	for (;;) {
		const struct pri_plan_node *n = &h->plan->nodes[node];

		value = h->found[node];
		if (value != UNKNOWN)
			break;
		if (n->op != PRI_PLAN_AND && n->op != PRI_PLAN_OR) {
			value = ask(h, n);
			break;
		}
		value = find(h, n->left);
		if (value == (n->op == PRI_PLAN_OR ? YES : NO))
			break;
		node = n->right;
	}
	h->found[node] = value;
	/* all that was passed has the value of what stands right of it */
	for (; from != node; from = h->plan->nodes[from].right)
		h->found[from] = value;
	return value;
}

bool
pri_plan_holds(
	const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *scratch)
{
	struct holds h = {.plan = plan, .index = index, .found = scratch};

	for (size_t i = 0; i < plan->count; i++)
		scratch[i] = UNKNOWN;
	return find(&h, (uint32_t)plan->count - 1) == YES;
}

/* ---- in what order to ask ---- */

unsigned
pri_plan_range_ports(const struct pri_plan_range *r)
{
	if ((r->number != PRI_NUMBER_SPORT && r->number != PRI_NUMBER_DPORT) ||
		r->least < 0 || r->most > UINT16_MAX || r->least > r->most ||
		r->most - r->least >= PRI_RANGE_PORTS)
		return 0;
	return (unsigned)(r->most - r->least) + 1;
}

struct pri_key
pri_plan_range_port(const struct pri_plan_range *r, unsigned index)
{
	return pri_key_number(r->number == PRI_NUMBER_SPORT ? PRI_KEY_SPORT : PRI_KEY_DPORT,
		(uint32_t)r->least + index);
}

void
pri_plan_ranks(const struct pri_plan *plan, size_t keys[PRI_RANKS])
{
	memset(keys, 0, PRI_RANKS * sizeof(*keys));
	for (size_t i = 0; i < plan->key_count; i++)
		if (plan->keys[i].kind != PRI_KEY_PARTS)
			keys[pri_key_rank(&plan->keys[i])]++;
	for (size_t i = 0; i < plan->range_count; i++)
		keys[PRI_RANK_PORTS] += pri_plan_range_ports(&plan->ranges[i]);
}

/* ---- the plans of all link types ---- */

int
pri_plans_create(
	const struct pri_bpf_set *programs, struct pri_plans *out, struct pr_error *err)
{
	*out = (struct pri_plans){
		.items = calloc(programs->count + 1, sizeof(*out->items))};
	if (!out->items)
		return pr_error_set(err, "no memory to plan a filter");
	for (; out->count < programs->count; out->count++) {
		out->items[out->count] = pri_plan_create(programs->items[out->count], err);
		if (!out->items[out->count]) {
			pri_plans_free(out);
			return -1;
		}
	}
	return 0;
}

void
pri_plans_free(struct pri_plans *plans)
{
	for (size_t i = 0; i < plans->count; i++)
		pri_plan_destroy(&plans->items[i]);
	free(plans->items);
	*plans = (struct pri_plans){0};
}

const struct pri_plan *
pri_plans_find(const struct pri_plans *plans, uint16_t linktype)
{
	for (size_t i = 0; i < plans->count; i++)
		if (plans->items[i]->linktype == linktype)
			return plans->items[i];
	return NULL;
}
