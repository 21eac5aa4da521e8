/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/data_carry.h"

#include <stdlib.h>

#include "merger/cli/query/ask.h"
#include "merger/cli/query/sink.h"

struct carry {
	const struct data_names *have; /* or all that are to be there */
	struct data_names *names;
	struct data_place *place;
	struct prm_trace_hash *hash;
	uint64_t stored, found;
	size_t at; /* in have */
};

void
data_names_free(struct data_names *names)
{
	free(names->items);
	*names = (struct data_names){0};
}

/* ---- asking ---- */

/* Is it an answer of all that is there? */
static int
check_end(const Packrack__End *end, struct pr_error *err)
{
	const Packrack__Completeness *c = end->completeness;

	if (end->cancelled || !c)
		return pr_error_set(err, "interrupted");
	for (size_t i = 0; i < c->n_nodes; i++)
		if (!c->nodes[i]->answered)
			return pr_error_set(
				err, "%s: %s", c->nodes[i]->node, c->nodes[i]->error);
	if (end->corrupt_records)
		return pr_error_set(err,
			"%llu records cannot be read: packrack volume check names them",
			(unsigned long long)end->corrupt_records);
	return 0;
}

/* sink: as sink_init has it, and who takes packets. */
static int
ask(const struct query_args *q, struct sink *sink, struct ask_answer *answer,
	struct pr_error *err)
{
	enum ask_result result = q->volumes.count ? ask_volumes(q, sink, answer, err)
						  : ask_merger(q, sink, answer, err);

	if (result != ASK_DONE)
		return -1;
	return check_end(answer->end, err);
}

static int
ask_each(const struct query_args *q,
	int (*take)(void *arg, const struct pr_packet *p, struct pr_error *err), void *arg,
	uint64_t *matched, struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	struct sink sink;
	int rc;

	sink_init(&sink, q);
	sink.take = take;
	sink.take_arg = arg;
	rc = ask(q, &sink, &answer, err);
	if (rc == 0 && matched)
		*matched = answer.end->matched;
	sink_close(&sink);
	ask_answer_free(&answer);
	return rc;
}

int
data_ask_count(const struct query_args *q, uint64_t *count, struct pr_error *err)
{
	struct query_args counting = *q;

	counting.count = true;
	return ask_each(&counting, NULL, NULL, count, err);
}

/* ---- names ---- */

static struct data_name
name_of(const struct pr_packet *p)
{
	return (struct data_name){p->otime, p->epoch, p->seq, p->link};
}

/* In the total order. */
static int
compare(const struct data_name *a, const struct data_name *b)
{
	if (a->otime != b->otime)
		return a->otime < b->otime ? -1 : 1;
	if (a->link != b->link)
		return a->link < b->link ? -1 : 1;
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int
note(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct data_names *names = arg;
	size_t room = names->room ? names->room * 2 : 4096;
	struct data_name *grown;

	if (names->count == names->room) {
		grown = realloc(names->items, room * sizeof(*grown));
		if (!grown)
			return pr_error_set(err, "no memory for %zu packets", room);
		names->items = grown;
		names->room = room;
	}
	names->items[names->count++] = name_of(p);
	return 0;
}

int
data_ask_names(const struct query_args *q, struct data_names *names, struct pr_error *err)
{
	return ask_each(q, note, names, NULL, err);
}

/* Both come in order: is the packet among them? */
static bool
among(struct carry *c, const struct pr_packet *p)
{
	struct data_name name = name_of(p);
	int order = 1;

	while (c->at < c->have->count &&
		(order = compare(&c->have->items[c->at], &name)) < 0)
		c->at++;
	return c->at < c->have->count && order == 0;
}

/* ---- copying and verifying ---- */

static int
copy(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct carry *c = arg;

	if (note(c->names, p, err) < 0)
		return -1;
	prm_trace_hash_add(c->hash, p);
	if (among(c, p))
		return 0;
	c->stored++;
	return data_place_store(c->place, p, err);
}

int
data_ask_copy(const struct query_args *q, const struct data_names *have,
	struct data_place *place, struct data_names *all, struct prm_trace_hash *hash,
	uint64_t *stored, struct pr_error *err)
{
	struct carry c = {.have = have, .names = all, .place = place, .hash = hash};
	int rc = ask_each(q, copy, &c, NULL, err);

	*stored += c.stored;
	return rc;
}

static int
verify(void *arg, const struct pr_packet *p, struct pr_error *err)
{
	struct carry *c = arg;

	(void)err;
	if (!among(c, p))
		return 0;
	prm_trace_hash_add(c->hash, p);
	c->found++;
	return 0;
}

int
data_ask_verify(const struct query_args *q, const struct data_names *all,
	struct prm_trace_hash *hash, uint64_t *found, struct pr_error *err)
{
	struct carry c = {.have = all, .hash = hash};
	int rc = ask_each(q, verify, &c, NULL, err);

	*found = c.found;
	return rc;
}

int
data_ask_file(const struct query_args *q, char hash[PRM_TRACE_HASH_TEXT], uint64_t *packets,
	struct pr_error *err)
{
	struct ask_answer answer = {.end = NULL};
	struct sink sink;
	int rc;

	sink_init(&sink, q);
	rc = ask(q, &sink, &answer, err);
	if (rc == 0)
		rc = sink_finish(&sink, answer.end, err);
	if (rc == 0) {
		prm_trace_hash_of(sink.trace, hash);
		*packets = sink.packets;
	}
	sink_close(&sink);
	ask_answer_free(&answer);
	return rc;
}
