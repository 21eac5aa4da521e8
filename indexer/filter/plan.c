/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/plan.h"

#include "proto/wire/bpf_code.h"
#include "indexer/filter/plan_internal.h"

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
enum { STATES_MAX = 600000, TERMS_MAX = 600000 };

#define NOWHERE UINT32_MAX

struct state_node {
	struct pri_state state;
	uint32_t next; /* next node of the same instruction */
	uint32_t yes, no; /* nodes; `no`: only of conditional jumps; NOWHERE: may match */
	uint32_t if_yes, if_no, term;
};

struct planner {
	const struct pr_insn *insns;
	size_t count;
	const struct pri_linktype_layout *layout;
	struct pri_terms terms;
	uint8_t *live; /* for each instruction: registers whose value is read later */
	uint32_t *first; /* node of each instruction; NOWHERE: none */
	struct state_node *nodes;
	uint32_t node_count;
	bool failed;
};

#define LIVE_A 1u
#define LIVE_X 2u

/* ---- which registers matter ---- */

static void
find_live(struct planner *p)
{
	for (size_t i = p->count; i-- > 0;) {
		const struct pr_insn *in = &p->insns[i];
		unsigned class = BPF_CLASS(in->code), live = 0,
			 source = in->code & BPF_X ? LIVE_X : 0;

		if (class == BPF_RET)
			live = in->code == RET_A ? LIVE_A : 0;
		else if (in->code == JA)
			live = (int32_t)in->k >= 0 ? p->live[i + 1 + in->k] : 0;
		else if (class == BPF_JMP)
			live = LIVE_A | source | p->live[i + 1 + in->jt] |
			       p->live[i + 1 + in->jf];
		else
			live = p->live[i + 1];
		if (class == BPF_LD)
			live &= ~LIVE_A;
		else if (class == BPF_LDX)
			live &= ~LIVE_X;
		else if (class == BPF_ALU)
			live |= LIVE_A | source;
		else if (in->code == TAX && live & LIVE_X)
			live = LIVE_A;
		else if (in->code == TXA && live & LIVE_A)
			live = LIVE_X;
		if (class == BPF_LD && BPF_MODE(in->code) == BPF_IND)
			live |= LIVE_X;
		p->live[i] = live;
	}
}

/* ---- forwards ---- */

/* Nothing is known of a packet there but what its way here was. */
static struct pri_state
forgotten(void)
{
	return pri_state_start(NULL, PRI_VALUE_ANY);
}

static uint32_t
find_node(const struct planner *p, size_t at, const struct pri_state *state, unsigned *here)
{
	uint32_t i = p->first[at];

	for (*here = 0; i != NOWHERE; i = p->nodes[i].next, ++*here)
		if (!memcmp(&p->nodes[i].state, state, sizeof(*state)))
			return i;
	return NOWHERE;
}

/* The node of a state at instruction at; NOWHERE: no memory. */
static uint32_t
reach(struct planner *p, size_t at, struct pri_state state)
{
	struct pri_value a = state.a;
	unsigned here;

	/* drop what is not read later */
	if (BPF_CLASS(p->insns[at].code) == BPF_RET) {
		state = forgotten();
		state.a = a;
	}
	if (!(p->live[at] & LIVE_A))
		state.a = (struct pri_value){.form = PRI_VALUE_ANY};
	if (!(p->live[at] & LIVE_X))
		state.x = (struct pri_value){.form = PRI_VALUE_ANY};
	uint32_t found = find_node(p, at, &state, &here);
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

/* Adds the successors of a node of instruction `at`, which is not a return. */
static void
go_on(struct planner *p, size_t at, uint32_t node)
{
	const struct pr_insn *in = &p->insns[at];
	struct pri_state yes = p->nodes[node].state, no = yes;
	uint32_t if_yes = PRI_TERM_TRUE, if_no = PRI_TERM_FALSE, to;
	size_t next = at + 1;

	if (in->code == JA) {
		next += in->k;
	} else if (BPF_CLASS(in->code) == BPF_JMP) {
		if_yes = pri_state_branch(&yes, p->layout, in, true, &p->terms);
		if_no = pri_state_branch(&no, p->layout, in, false, &p->terms);
		next += in->jt;
	} else {
		pri_state_step(&yes, in);
	}
	/* the tests within a part must determine its loads: start with nothing known */
	if (pr_insn_begins_part(in))
		yes = pri_state_start(p->layout, PRI_VALUE_ANY);
	p->nodes[node].if_yes = if_yes;
	p->nodes[node].if_no = if_no;
	/* nodes may move while one is reached */
	if (if_yes != PRI_TERM_FALSE && (in->code != JA || (int32_t)in->k >= 0)) {
		to = reach(p, next, yes);
		p->nodes[node].yes = to;
	}
	if (if_no != PRI_TERM_FALSE) {
		to = reach(p, at + 1 + in->jf, no);
		p->nodes[node].no = to;
	}
}

/* ---- backwards ---- */

/* What must hold from a node on, if what leads to it can hold. */
static uint32_t
term_at(const struct planner *p, uint32_t node, uint32_t condition)
{
	if (condition == PRI_TERM_FALSE)
		return PRI_TERM_FALSE;
	return node == NOWHERE ? PRI_TERM_TRUE : p->nodes[node].term;
}

static void
backwards(struct planner *p)
{
	for (size_t at = p->count; at-- > 0;) {
		const struct pr_insn *in = &p->insns[at];

		for (uint32_t i = p->first[at]; i != NOWHERE; i = p->nodes[i].next) {
			struct state_node *s = &p->nodes[i];

			if (in->code == RET_A)
				s->term = s->state.a.form != PRI_VALUE_CONSTANT ||
							  s->state.a.at
						  ? PRI_TERM_TRUE
						  : PRI_TERM_FALSE;
			else if (in->code == RET_K)
				s->term = in->k ? PRI_TERM_TRUE : PRI_TERM_FALSE;
			else
				s->term = pri_term_branch(&p->terms, s->if_yes,
					term_at(p, s->yes, s->if_yes), s->if_no,
					term_at(p, s->no, s->if_no));
		}
	}
}

/* ---- the whole plan ---- */

/* NULL: no memory. */
static struct pri_plan *
make(struct planner *p)
{
	uint32_t term = PRI_TERM_TRUE;

	p->live = calloc(p->count + 1, 1);
	p->first = malloc((p->count + 1) * sizeof(*p->first));
	if (pri_terms_init(&p->terms, TERMS_MAX) < 0 || !p->live || !p->first)
		return NULL;
	memset(p->first, 0xff, (p->count + 1) * sizeof(*p->first));
	if (p->count) {
		find_live(p);
		reach(p, 0, pri_state_start(p->layout, PRI_VALUE_CONSTANT));
		for (size_t at = 0; at < p->count && !p->failed && !p->terms.failed; at++)
			if (BPF_CLASS(p->insns[at].code) != BPF_RET)
				for (uint32_t i = p->first[at]; i != NOWHERE;
					i = p->nodes[i].next)
					go_on(p, at, i);
		if (p->failed || p->terms.failed)
			return NULL;
		backwards(p);
		term = p->nodes[0].term;
	}
	return pri_plan_lower(&p->terms, term);
}

struct pri_plan *
pri_plan_create(const struct pr_bpf *program, const atomic_bool *stop, struct pr_error *err)
{
	struct planner p = {.insns = program->insns,
		.count = program->count,
		.layout = pri_linktype_layout_find(program->linktype),
		.terms = {.times = program->insns,
			.time_count = program->times,
			.stop = stop}};
	struct pri_plan *plan = make(&p);

	pri_terms_free(&p.terms);
	PR_FREE(&p, live, first, nodes);
	if (plan)
		plan->linktype = program->linktype;
	else
		pr_error_set(err, "no memory to plan a filter");
	return plan;
}

void
pri_plan_destroy(struct pri_plan **plan)
{
	struct pri_plan *p = PR_TAKE(plan);

	if (p)
		PR_FREE(p, nodes, keys, ranges);
	free(p);
}

/* ---- evaluating a plan ---- */

/*
 * Evaluation recurses to the left and loops to the right: chains of alternatives lean to
 * the right, and pri_plan_create bounds the depth to the left.
 */
enum { UNKNOWN, NO, YES };

/* The value of node, of which what was passed on the way right of `from` is to be told as well. */
static uint8_t
find(const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *found,
	uint32_t node)
{
	const struct pri_plan_node *n;
	uint32_t from = node;
	bool yes = true;

	for (;; node = n->right) {
		n = &plan->nodes[node];
		if (found[node] != UNKNOWN) {
			yes = found[node] == YES;
			break;
		}
		if (n->op == PRI_PLAN_KEY)
			yes = !index->has_key ||
			      index->has_key(index->arg, &plan->keys[n->left]);
		else if (n->op == PRI_PLAN_PARTS)
			yes = !index->has_parts ||
			      index->has_parts(index->arg, &plan->keys[n->left]);
		else if (n->op == PRI_PLAN_RANGE)
			yes = index->has_range(index->arg, &plan->ranges[n->left]);
		else if (n->op == PRI_PLAN_AND || n->op == PRI_PLAN_OR)
			yes = find(plan, index, found, n->left) == YES;
		else
			yes = n->op == PRI_PLAN_TRUE;
		if (n->op != (yes ? PRI_PLAN_AND : PRI_PLAN_OR))
			break;
	}
	/* each node that was passed has the value of its right side */
	for (;; from = plan->nodes[from].right) {
		found[from] = yes ? YES : NO;
		if (from == node)
			return found[from];
	}
}

bool
pri_plan_holds(
	const struct pri_plan *plan, const struct pri_plan_index *index, uint8_t *scratch)
{
	memset(scratch, UNKNOWN, plan->count);
	return find(plan, index, scratch, plan->count - 1) == YES;
}

/* ---- in what order to ask ---- */

unsigned
pri_plan_range_ports(const struct pri_plan_range *r)
{
	if ((r->number != PRI_NUMBER_SPORT && r->number != PRI_NUMBER_DPORT) ||
		r->least < 0 || r->most > UINT16_MAX || r->least > r->most ||
		r->most - r->least >= PRI_RANGE_PORTS)
		return 0;
	return r->most - r->least + 1;
}

struct pri_key
pri_plan_range_port(const struct pri_plan_range *r, unsigned index)
{
	return pri_key_number(r->number == PRI_NUMBER_SPORT ? PRI_KEY_SPORT : PRI_KEY_DPORT,
		r->least + index);
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
pri_plans_create(const struct pr_bpf_set *programs, const atomic_bool *stop,
	struct pri_plans *out, struct pr_error *err)
{
	*out = (struct pri_plans){
		.items = calloc(programs->count + 1, sizeof(*out->items))};
	if (!out->items)
		return pr_error_set(err, "no memory to plan a filter");
	for (; out->count < programs->count; out->count++) {
		out->items[out->count] =
			pri_plan_create(programs->items[out->count], stop, err);
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
