/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/query/answer.h"

#include "indexer/flows/flow_parts.h"
#include "indexer/query/hello.h"
#include "indexer/query/query.h"
#include "proto/rpc/message.h"
#include "proto/wire/beyond.h"

/* ---- queries as messages ---- */

static int
take_related(const Packrack__Related *m, struct pri_query_spec *out, struct pr_error *err)
{
	struct pr_relations *r = out->relations = calloc(1, sizeof *r);

	if (r) {
		r->keys = calloc(m->n_keys + 1, sizeof *r->keys);
		r->spans = calloc(m->n_spans / 2 + 1, sizeof *r->spans);
	}
	if (!r || !r->keys || !r->spans)
		return pr_error_set(err, "no memory for related packets");
	if (m->n_first != m->n_keys || m->n_lasting != m->n_keys)
		return pr_error_set(err, "related packets without times");
	if (pr_bpf_set_from_message(m->core, m->n_core, &out->direct, err) < 0)
		return -1;
	for (size_t i = 0; i < m->n_keys; i++) {
		r->keys[i].key = m->keys[i];
		r->keys[i].first = m->first[i];
		if (m->lasting[i] > INT64_MAX || __builtin_add_overflow(m->first[i],
							 m->lasting[i], &r->keys[i].last))
			return pr_error_set(err, "related packets that never end");
	}
	for (size_t i = 0; i < m->n_spans / 2; i++)
		r->spans[i] =
			(struct pr_relation_span){m->spans[2 * i], m->spans[2 * i + 1]};
	r->count = m->n_keys;
	r->span_count = m->n_spans / 2;
	return pr_relations_valid(r)
		       ? 0
		       : pr_error_set(err, "related packets that are not in order");
}

static int
query_from_message(
	const Packrack__Query *message, struct pri_query_spec *out, struct pr_error *err)
{
	*out = (struct pri_query_spec){0};
	PR_COPY(out, message, since, until, limit, link, strays, estimate, memory_only,
		sums);
	if (pr_bpf_set_from_message(
		    message->programs, message->n_programs, &out->programs, err) < 0 ||
		(message->related && take_related(message->related, out, err) < 0)) {
		pri_query_spec_free(out);
		return -1;
	}
	return 0;
}

/* One allocation for each program: the message, its pointers, its instructions. */
static Packrack__Program *
program_to_message(const struct pr_bpf *program)
{
	struct whole {
		Packrack__Program message;
		Packrack__Instruction in[];
	} * whole;
	Packrack__Instruction **pointers;
	const struct pr_insn *insns = program->insns;
	size_t count = program->count;

	whole = malloc(sizeof *whole + count * (sizeof *whole->in + sizeof *pointers));
	if (!whole)
		return NULL;
	pointers = (Packrack__Instruction **)(whole->in + count);
	packrack__program__init(&whole->message);
	whole->message.linktype = program->linktype;
	whole->message.n_instructions = count;
	whole->message.instructions = pointers;
	for (size_t i = 0; i < count; i++) {
		packrack__instruction__init(&whole->in[i]);
		PR_COPY(&whole->in[i], &insns[i], code, jt, jf, k);
		pointers[i] = &whole->in[i];
	}
	return &whole->message;
}

int
pri_query_set_programs(
	Packrack__Query *message, const struct pr_bpf_set *programs, struct pr_error *err)
{
	size_t n = 0;

	message->programs = calloc(programs->count + 1, sizeof *message->programs);
	while (message->programs && n < programs->count &&
		(message->programs[n] = program_to_message(programs->items[n])))
		n++;
	message->n_programs = n;
	if (message->programs && n == programs->count)
		return 0;
	pri_query_message_free(message);
	return pr_error_set(err, "no memory for a filter");
}

void
pri_query_message_free(Packrack__Query *message)
{
	for (size_t i = 0; i < message->n_programs; i++)
		free(message->programs[i]);
	free(message->programs);
	message->programs = NULL;
	message->n_programs = 0;
}

/* ---- the end of an answer ---- */

/* At most so many losses are listed; neighbours are put together beyond. */
#define LOSSES_MAX 20000
/* Losses just outside the range explain holes at its ends: these packets are not missing in it. */
#define LOSS_MARGIN (2 * PR_NS_PER_S)

/* A copy of the ledger's entry: the ledger may have changed before the End is sent. */
struct deleted {
	Packrack__Deleted message;
	struct pr_ledger_deleted word;
};

/* For each list of the End: the messages, and the pointers that protobuf-c needs. */
struct end {
	Packrack__End message;
	Packrack__Loss *losses;
	struct pri_evicted_list evicted;
	struct deleted *deleted; /* one for each evicted, used or not */
	bool filled;
};

/* ---- losses ---- */

static void
fill_loss(Packrack__Loss *out, const struct pr_loss *loss)
{
	uint64_t span = loss->last_seq - loss->first_seq + 1;

	packrack__loss__init(out);
	PR_COPY(out, loss, epoch, link, first_seq, last_seq, bits, first_time, last_time);
	out->count = PR_MIN(loss->count, span);
	out->reason = (char *)pr_loss_reason_name(loss->reason);
}

/*
 * Lists all losses that concern the query, link by link. A loss whose seqs are not known
 * explains no hole, and is left out.
 */
static int
gather_losses(const struct pri_ledger_view *book, struct pri_query *q,
	struct pr_loss **losses, size_t *count)
{
	const struct pri_query_spec *spec = pri_query_spec(q);
	size_t damaged_count;

	for (size_t i = 0; i < book->count; i++) {
		const struct pri_series_ledger *f = book->series[i];
		const struct pr_loss unsaved = pri_series_ledger_unsaved(
			f, f->mark.link.last_seq, book->writer_gone);

		for (size_t j = 0; pri_query_selects(q, f) && j <= f->loss_count; j++) {
			const struct pr_loss *l =
				j < f->loss_count ? &f->losses[j] : &unsaved;

			if (l->first_seq == 0 ||
				l->last_time < pr_time_minus(spec->since, LOSS_MARGIN) ||
				l->first_time > pr_time_minus(spec->until, -LOSS_MARGIN))
				continue;
			if (PR_ARRAY_ADD(*losses, *count, *l) < 0)
				return -1;
		}
	}
	const struct pr_loss *damaged = pri_query_damaged(q, &damaged_count);
	for (size_t i = 0; i < damaged_count; i++)
		if (PR_ARRAY_ADD(*losses, *count, damaged[i]) < 0)
			return -1;
	return 0;
}

static int
fill_losses(struct end *end, const struct pri_ledger_view *book, struct pri_query *q)
{
	struct pr_loss *losses = NULL, *l;
	size_t count = 0, n;

	if (gather_losses(book, q, &losses, &count) == 0) {
		/* each link gets at least one */
		size_t room = count < LOSSES_MAX ? count : LOSSES_MAX + book->count;
		end->losses = calloc(room + 1, sizeof *end->losses);
		for (size_t from = 0; end->losses && from < count; from += n) {
			l = losses + from;
			for (n = 1; from + n < count && l[n].epoch == l->epoch &&
				    l[n].link == l->link;)
				n++;
			size_t left = pri_losses_coalesce(
				l, n, count <= room ? n : n * LOSSES_MAX / count);
			for (size_t i = 0; i < left; i++)
				fill_loss(&end->losses[end->message.n_losses++], &l[i]);
		}
	}
	free(losses);
	end->message.losses = pri_message_pointers(
		end->losses, end->message.n_losses, sizeof *end->losses);
	return end->message.losses ? 0 : -1;
}

/* ---- what is evicted ---- */

/*
 * Adds who deleted the evicted range, if it was deleted by a command. deleted: memory for
 * the entry. since: of the query.
 */
static void
add_deleted(Packrack__Evicted *out, struct deleted *deleted,
	const struct pri_ledger_view *book, int64_t since)
{
	const struct pr_ledger_deleted *from =
		pri_ledger_view_deletion(book, out->link, !out->midst,
			out->midst && out->since > since ? out->since : since, out->until);

	if (!from)
		return;
	deleted->word = *from;
	pri_hello_deleted(&deleted->message, &deleted->word);
	out->deleted = &deleted->message;
}

static int
fill_evicted(struct end *end, struct pri_volume *volume, struct pri_query *q,
	struct pr_error *err)
{
	struct pri_evicted_list *list = &end->evicted;

	if (pri_query_evicted(q, list, err) < 0)
		return -1;
	end->deleted = calloc(list->count + 1, sizeof *end->deleted);
	if (list->count)
		end->message.evicted =
			pri_message_pointers(list->items, list->count, sizeof *list->items);
	if (!end->deleted || (list->count && !end->message.evicted))
		return pr_error_set(err, "no memory for an answer's end");
	end->message.n_evicted = list->count;
	for (size_t i = 0; i < list->count; i++)
		add_deleted(&list->items[i], &end->deleted[i], &volume->ledger,
			pri_query_spec(q)->since);
	return 0;
}

/* ---- ledgers ---- */

/*
 * Copies the ledgers. Call it when the query is created: a later copy would declare packets
 * stored after that, which would then be reported missing. Of the epochs of a link that ended before the
 * time range, only the newest is given: it tells since when the link is not observed. Drops are those of the range.
 */
static int
fill_ledgers(struct end *end, const struct pri_volume *volume, struct pri_query *q)
{
	const struct pri_query_spec *spec = pri_query_spec(q);
	const struct pri_ledger_view *book = &volume->ledger;
	uint64_t before[(UINT16_MAX + 1) / 64] = {0}; /* links that have one */
	Packrack__End *m = &end->message;

	m->ledgers = calloc(book->count + 1, sizeof(*m->ledgers));
	for (size_t i = book->count; m->ledgers && i-- > 0;) {
		const struct pri_series_ledger *s = book->series[i];
		uint64_t bit = UINT64_C(1) << s->link % 64, *word = &before[s->link / 64];
		struct pri_seq_time below, above;
		char stream[SFS_NAME_MAX + 1];
		int64_t since = spec->since;
		Packrack__Ledger ledger;

		if (!s->have_mark || !pri_query_selects(q, s))
			continue;
		/* one that has only begun says nothing of the time before it */
		if ((s->mark.link.last_seq || s->mark.said_until) &&
			s->mark.link.last_otime < spec->since &&
			s->mark.said_until < spec->since) {
			if (*word & bit)
				continue;
			*word |= bit;
		}
		pri_hello_ledger(&ledger, s);
		pri_series_ledger_points(s, spec->since,
			pr_link_is_beyond(s->link) ? pr_beyond_last(spec->until)
						   : spec->until,
			&below, &above);
		ledger.below_seq = below.seq;
		ledger.below_otime = below.otime;
		ledger.above_seq = above.seq;
		ledger.above_otime = above.otime;
		PR_PRINT(stream, "packets.%u", s->link);
		if (since == PR_TIME_MIN) /* it begins at the oldest packet */
			since = pri_volume_evicted_until(
				volume, sfs_stream_find(volume->sfs, stream));
		struct pri_drop drops = pri_series_ledger_drops(s, since, spec->until);
		ledger.dropped_kernel = drops.kernel;
		ledger.dropped_interface = drops.interface;
		ledger.dropped_ring = drops.ring;
		if (!(m->ledgers[m->n_ledgers] = pr_message_copy(&ledger.base)))
			return -1;
		m->n_ledgers++;
	}
	return m->ledgers ? 0 : -1;
}

/* ---- the answer ---- */

#define FLUSH_NS (20 * PR_NS_PER_MS)
#define FIRST_BATCH 4096
#define BATCH_ROOM (PR_SEGMENT_TARGET + PR_SEGMENT_HEADER)
#define GROWTH 8
#define HELD_MAX (256 * 1024) /* bytes of coverage after which a batch goes out */
#define PACKETS_A_LOOK 64
#define STEPS_A_LOOK 1000000 /* of filters */

struct pri_answer {
	struct pri_volume *volume;
	struct pri_query *query;
	bool count_only;
	struct pr_segment_builder builder;
	struct pri_read_buffer buffer; /* builder's */
	struct pri_read_buffer *used; /* has the batch's packets: buffer, or the query's */
	size_t target; /* bytes from which a batch goes out */
	uint32_t packets_a_look; /* between two looks at the clock */
	struct pr_packet waiting; /* did not fit; data is valid until the next query step */
	bool has_waiting, searched;
	int64_t flushed; /* monotonic */
	struct pri_range_list held, edges;
	Packrack__Held *messages;
	Packrack__Held **pointers;
	struct pri_beyond_list beyond;
	Packrack__Batch batch;
	struct end end;
	struct pri_flow_parts *parts; /* of flows, instead of the packets; or NULL */
	struct pr_packet sum; /* of what a cutoff kept back, if has_sum: comes next */
	bool has_sum;
	struct pr_tally *tally; /* or NULL */
	size_t tally_at; /* items of it that were sent */
	struct pr_tally_part part;
};

static void
begin_segment(struct pri_answer *a)
{
	pr_segment_begin(
		&a->builder, a->buffer.bytes, a->buffer.capacity, PR_SEGMENT_MIXED);
}

/* What is counted goes out instead of packets. */
static int
begin_tally(struct pri_answer *a, const Packrack__TallySpec *tally,
	struct pri_query_spec *spec, struct pr_error *err)
{
	if (!tally)
		return 0;
	a->count_only = true;
	a->tally = pri_tally_key_tally(tally, err);
	if (!a->tally)
		return -1;
	spec->tally = a->tally;
	spec->tally_key = tally->group;
	PR_COPY(spec, tally, step, exact);
	return 0;
}

/* Parts of flows go out instead of packets. A limit counts packets. */
static int
begin_parts(struct pri_answer *a, const Packrack__Query *query, struct pr_error *err)
{
	if (!query->fold_flows || a->count_only || query->tally || query->limit)
		return 0;
	if (query->shares > PRI_FLOW_SHARES_MAX ||
		(query->shares && (!query->share || query->share > query->shares)))
		return pr_error_set(err, "there is no share %u of %u of the flows",
			query->share, query->shares);
	a->parts = pri_flow_parts_create(
		PRI_FLOW_PARTS_MOST, query->share, query->shares, err);
	return a->parts ? 0 : -1;
}

/* After the last MARK, for that of a dispatcher that is gone; in all, if its clock is behind ours. */
#define SETTLE_HEARD_NS (2 * PR_NS_PER_S)
#define SETTLE_MAX_NS (5 * PR_NS_PER_S)

bool
pri_answer_settled(const struct pri_volume *volume, int64_t until, int64_t came)
{
	const struct pri_catalog *catalog = &volume->catalog;
	int64_t now = pr_now_real();

	/* a MARK confirms the time before it */
	until = PR_MIN(until, came);
	if (now - came > SETTLE_MAX_NS)
		return true;
	/* packets of an epoch that has just begun may be here before its first MARK */
	for (size_t i = 0; i < catalog->series_count; i++) {
		const struct pri_epoch_series *s = catalog->series[i];
		const struct pri_series_ledger *told =
			pri_ledger_view_find(&volume->ledger, s->epoch, s->link);

		for (size_t j = 0; j < s->run_count && !s->strays; j++)
			if (!(told && told->have_mark) &&
				s->runs[j]->max_time > now - SETTLE_HEARD_NS)
				return false;
	}
	return pri_ledger_view_stored_until(&volume->ledger, now, SETTLE_HEARD_NS) > until;
}

struct pri_answer *
pri_answer_create(
	struct pri_volume *volume, const Packrack__Query *query, struct pr_error *err)
{
	struct pri_query_spec spec;
	struct pri_answer *a = calloc(1, sizeof *a);
	if (!a)
		return pr_error_null(err, "no memory for an answer");
	a->volume = volume;
	a->count_only = query->count_only;
	a->target = FIRST_BATCH;
	a->flushed = pr_now_mono();
	packrack__end__init(&a->end.message);
	if (pri_read_buffer_grow(&a->buffer, BATCH_ROOM) < 0)
		pr_error_set(err, "no memory for an answer");
	else if (query_from_message(query, &spec, err) == 0) {
		if (begin_tally(a, query->tally, &spec, err) == 0 &&
			begin_parts(a, query, err) == 0)
			a->query = pri_query_create(volume, &spec, err);
		else
			pri_query_spec_free(&spec);
	}
	if (a->query && fill_ledgers(&a->end, volume, a->query) < 0) {
		pr_error_set(err, "no memory for an answer's end");
		pri_query_destroy(&a->query);
	}
	if (!a->query) {
		pri_answer_destroy(&a);
		return NULL;
	}
	a->packets_a_look =
		pr_bpf_set_packets(&pri_query_spec(a->query)->programs, STEPS_A_LOOK);
	a->packets_a_look = PR_MIN(a->packets_a_look, PACKETS_A_LOOK);
	begin_segment(a);
	return a;
}

static void
free_held(struct pri_answer *a)
{
	pri_range_list_free(&a->held);
	pri_range_list_free(&a->edges);
	PR_FREE(a, messages, pointers, beyond.items, batch.beyond);
	a->messages = NULL;
	a->pointers = NULL;
	a->batch.beyond = NULL;
	a->beyond = (struct pri_beyond_list){0};
}

void
pri_answer_destroy(struct pri_answer **answer)
{
	struct pri_answer *a = PR_TAKE(answer);

	if (!a)
		return;
	free_held(a);
	PR_FREE(a, end.message.losses, end.message.evicted);
	for (size_t i = 0; i < a->end.message.n_ledgers; i++)
		packrack__ledger__free_unpacked(a->end.message.ledgers[i], NULL);
	PR_FREE(a, end.message.ledgers, end.losses, end.evicted.items, end.deleted);
	pri_query_destroy(&a->query);
	pri_flow_parts_destroy(&a->parts);
	pr_tally_destroy(&a->tally);
	pr_tally_part_free(&a->part);
	free(a->buffer.bytes);
	free(a);
}

/* ---- making a batch ---- */

static int
fill_lists(struct pri_answer *a, struct pr_error *err)
{
	size_t count = a->held.count + a->edges.count;

	a->messages = calloc(count + 1, sizeof *a->messages);
	a->pointers = pri_message_pointers(a->messages, count, sizeof *a->messages);
	if (!a->pointers)
		return pr_error_set(err, "no memory for what is held");
	for (size_t i = 0; i < count; i++) {
		const struct pr_summary_run *from =
			i < a->held.count ? &a->held.items[i]
					  : &a->edges.items[i - a->held.count];
		Packrack__Held *out = &a->messages[i];

		packrack__held__init(out);
		PR_COPY(out, from, epoch, link, first, last, first_otime, last_otime);
		out->bits.data = (uint8_t *)from->bits;
		out->bits.len = from->bits_len;
	}
	a->batch.held = a->pointers;
	a->batch.n_held = a->held.count;
	a->batch.edge = a->pointers + a->held.count;
	a->batch.n_edge = a->edges.count;
	pri_query_take_beyond(a->query, &a->beyond);
	for (size_t i = 0; i < a->beyond.count; i++)
		a->beyond.items[i].message.name = a->beyond.items[i].name;
	if (a->beyond.count)
		a->batch.beyond = pri_message_pointers(
			a->beyond.items, a->beyond.count, sizeof *a->beyond.items);
	if (a->beyond.count && !a->batch.beyond)
		return pr_error_set(err, "no memory for what a cutoff kept back");
	a->batch.n_beyond = a->beyond.count;
	return 0;
}

static enum pri_answer_state
make_batch(struct pri_answer *a, struct pr_error *err)
{
	int64_t frontier;

	packrack__batch__init(&a->batch);
	if (pri_query_take_coverage(a->query, &a->held, &frontier, err) < 0 ||
		pri_query_take_edges(a->query, &a->edges, err) < 0 ||
		fill_lists(a, err) < 0)
		return PRI_ANSWER_ERROR;
	/* parts of a slice that is over come next */
	if (a->parts && !a->has_waiting) {
		if (pri_flow_parts_advance(a->parts, frontier, err) < 0)
			return PRI_ANSWER_ERROR;
		a->has_waiting = pri_flow_parts_take(a->parts, &a->waiting);
	}
	/* a waiting packet is still to come; and 0 would say nothing */
	if (a->has_waiting && a->waiting.otime < frontier)
		frontier = a->waiting.otime;
	a->batch.frontier = frontier == 0 ? -1 : frontier;
	a->batch.packets.len = pr_segment_seal(&a->builder);
	a->batch.packets.data = a->batch.packets.len ? a->buffer.bytes : NULL;
	a->used = &a->buffer;
	a->target = a->target >= PR_SEGMENT_TARGET / GROWTH ? PR_SEGMENT_TARGET
							    : a->target * GROWTH;
	a->flushed = pr_now_mono();
	return PRI_ANSWER_BATCH;
}

/* ---- working ---- */

/* Adds the waiting packet to the batch. BATCH: the batch is full and must go out first. */
static enum pri_answer_state
add_waiting(struct pri_answer *a, struct pr_error *err)
{
	const struct pr_packet *p = &a->waiting;

	if (!a->has_waiting)
		return PRI_ANSWER_MORE;
	a->has_waiting = false;
	if (a->count_only ||
		(a->builder.used < a->target && pr_segment_add(&a->builder, p)))
		return PRI_ANSWER_MORE;
	if (a->builder.used > PR_SEGMENT_HEADER) {
		a->has_waiting = true;
		return make_batch(a, err);
	}
	/* a packet longer than any batch gets a batch as large as it needs */
	if (pri_read_buffer_grow(
		    &a->buffer, PR_SEGMENT_HEADER + pr_segment_cost(p->caplen) + 64) < 0)
		return pr_error_as(PRI_ANSWER_ERROR, err,
			"no memory for a packet of %u bytes", p->caplen);
	begin_segment(a);
	if (pr_segment_add(&a->builder, p))
		return PRI_ANSWER_MORE;
	pr_error_set(err, "a packet of %u bytes fits no batch", p->caplen);
	return PRI_ANSWER_ERROR;
}

/*
 * BATCH: a whole segment goes out as it is, or the packets collected before it. MORE: no
 * whole segment is next.
 */
static enum pri_answer_state
hand_on(struct pri_answer *a, struct pr_error *err)
{
	struct pri_read_buffer *buffer;
	const uint8_t *body;
	size_t len;

	if (a->builder.used > PR_SEGMENT_HEADER)
		return make_batch(a, err);
	int rc = pri_query_take_whole(a->query, &body, &len, &buffer, err);
	if (rc <= 0)
		return rc < 0 ? PRI_ANSWER_ERROR : PRI_ANSWER_MORE;
	if (make_batch(a, err) != PRI_ANSWER_BATCH)
		return PRI_ANSWER_ERROR;
	a->batch.packets.data = (uint8_t *)body;
	a->batch.packets.len = len;
	a->used = buffer;
	return PRI_ANSWER_BATCH;
}

/* As pri_query_next, but folds the packets, and gives frames of parts. */
static int
next_parts(struct pri_answer *a, struct pr_error *err)
{
	int rc = PR_SOURCE_PACKET, folded = 0;
	struct pr_packet p;

	for (uint32_t i = 0; rc == PR_SOURCE_PACKET && i < a->packets_a_look; i++) {
		if (pri_flow_parts_take(a->parts, &a->waiting))
			return PR_SOURCE_PACKET;
		if (a->has_sum) {
			a->waiting = a->sum;
			a->has_sum = false;
			return PR_SOURCE_PACKET;
		}
		rc = pri_query_next(a->query, &p, err);
		a->has_sum = rc == PR_SOURCE_PACKET && pr_link_is_beyond(p.link);
		if (a->has_sum) { /* behind the parts of the slices before it */
			a->sum = p;
			folded = pri_flow_parts_advance(a->parts, p.otime, err);
		} else if (rc == PR_SOURCE_PACKET)
			folded = pri_flow_parts_packet(a->parts, &p, err);
		else if (rc == PR_SOURCE_END)
			folded = pri_flow_parts_advance(a->parts, PRI_FLOW_NEVER, err);
		if (folded < 0)
			return PR_SOURCE_ERROR;
	}
	if (rc != PR_SOURCE_ERROR && pri_flow_parts_take(a->parts, &a->waiting))
		return PR_SOURCE_PACKET;
	return rc == PR_SOURCE_PACKET ? PR_SOURCE_WAIT : rc;
}

static enum pri_answer_state
search(struct pri_answer *a, int64_t deadline, struct pr_error *err)
{
	for (unsigned i = 1;; i++) {
		enum pri_answer_state state;

		/* not while batches are still small, at the beginning of the answer */
		if (!a->count_only && !a->parts && a->target == PR_SEGMENT_TARGET &&
			pri_query_whole(a->query)) {
			state = hand_on(a, err);
			if (state != PRI_ANSWER_MORE)
				return state;
		}
		int rc = a->parts ? next_parts(a, err)
				  : pri_query_next(a->query, &a->waiting, err);
		if (rc == PR_SOURCE_ERROR)
			return PRI_ANSWER_ERROR;
		if (rc == PR_SOURCE_END) {
			a->searched = true;
			return make_batch(a, err);
		}
		a->has_waiting = rc == PR_SOURCE_PACKET;
		state = add_waiting(a, err);
		if (state != PRI_ANSWER_MORE)
			return state;
		if (rc == PR_SOURCE_PACKET && i % a->packets_a_look)
			continue;
		int64_t now = pr_now_mono();
		if (now - a->flushed >= FLUSH_NS ||
			pri_query_coverage_bytes(a->query) >= HELD_MAX)
			return make_batch(a, err);
		if (now >= deadline)
			return PRI_ANSWER_MORE;
	}
}

enum pri_answer_state
pri_answer_step(struct pri_answer *a, int64_t deadline, struct pr_error *err)
{
	int rc = 0;

	/* the coverage of the previous batch is no longer used */
	free_held(a);
	if (a->batch.packets.len) {
		a->batch.packets.len = 0;
		if (pri_read_buffer_grow(&a->buffer, BATCH_ROOM) < 0)
			return pr_error_as(PRI_ANSWER_ERROR, err, "no memory for a batch");
		begin_segment(a);
	}
	if (!a->searched) {
		enum pri_answer_state state = add_waiting(a, err);
		return state == PRI_ANSWER_MORE ? search(a, deadline, err) : state;
	}
	/* the last batch of packets was sent: now the tally, part by part, then the End */
	if (a->tally)
		rc = pr_tally_next_part(a->tally, &a->tally_at, &a->part, err);
	if (rc > 0) {
		packrack__batch__init(&a->batch);
		a->batch.tally = &a->part.message;
		return PRI_ANSWER_BATCH;
	}
	return rc == 0 && pri_answer_end(a, err) ? PRI_ANSWER_END : PRI_ANSWER_ERROR;
}

const Packrack__Batch *
pri_answer_batch(const struct pri_answer *a)
{
	return &a->batch;
}

void
pri_answer_exchange(struct pri_answer *a, struct pri_read_buffer *buffer)
{
	struct pri_read_buffer mine = *a->used;

	*a->used = *buffer;
	*buffer = mine;
}

const Packrack__End *
pri_answer_end(struct pri_answer *a, struct pr_error *err)
{
	struct end *end = &a->end;

	if (end->filled)
		return &end->message;
	end->filled = true;
	pr_message_copy_numbers(&end->message.base, &pri_query_stats(a->query)->base);
	if (fill_losses(end, &a->volume->ledger, a->query) == 0)
		return fill_evicted(end, a->volume, a->query, err) == 0 ? &end->message
									: NULL;
	return pr_error_null(err, "no memory for an answer's end");
}
