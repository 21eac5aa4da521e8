/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/holds.h"

#include "indexer/query/answer.h"
#include "proto/base/array.h"
#include "proto/base/log.h"

#define STEP_NS (5 * PR_NS_PER_MS)
#define ROUND_NS (2 * PR_NS_PER_S) /* how often what is new is copied */
/* Copies of so much time before the last one may not have been on the disk when the node was killed: they are made again. */
#define AGAIN_NS (60 * PR_NS_PER_S)
enum { NAME_MAX_BYTES = PR_NAME_MAX - sizeof(PR_CLASS_HOLD) + 1 };
#define HEARD_NS                                                                           \
	(4 * PR_NS_PER_S) /* a dispatcher that was silent for longer holds nothing up */

struct hold {
	Packrack__Hold *said;
	uint64_t sequence; /* of its record */
	Packrack__Hold shown; /* the same, as status tells it */
	struct pri_answer *answer; /* of the present round */
	int64_t next, until; /* the round's range; next: all before it is copied */
	int64_t safe; /* all before it is on the disk */
	int64_t begin_at; /* of the next round, monotonic */
	bool stored; /* packets in this round */
	bool told; /* the logger knows its class */
	bool rewrite; /* its record is overwritten: if we are killed, nobody knows of it */
};

struct pri_holds {
	struct pri_volume *volume;
	struct pri_record_sender *sender;
	struct sfs_cursor *cursor; /* of stream "holds"; NULL: there is none yet */
	struct hold **items;
	size_t count, turn;
	unsigned logger; /* as counted by the sender */
	struct hold *waits; /* for the logger's answer */
	int64_t look_at; /* at the rack's state, monotonic */
	uint64_t refused; /* the id of a hold that cannot be: that is logged once */
	Packrack__Hold **list;
};

static void
end_round(struct hold *h)
{
	pri_answer_destroy(&h->answer);
	h->begin_at = pr_now_mono() + ROUND_NS;
}

static struct hold *
find(const struct pri_holds *holds, const char *name)
{
	for (size_t i = 0; i < holds->count; i++)
		if (!strcmp(holds->items[i]->said->name, name))
			return holds->items[i];
	return NULL;
}

static void
forget(struct pri_holds *holds, size_t i)
{
	struct hold *h = holds->items[i];

	if (holds->waits == h)
		holds->waits = NULL;
	holds->items[i] = holds->items[--holds->count];
	pri_answer_destroy(&h->answer);
	packrack__hold__free_unpacked(h->said, NULL);
	free(h);
}

/* ---- definitions ---- */

static bool
stream_times(const struct pri_holds *holds, unsigned number, int64_t *last)
{
	const struct pri_catalog *catalog = &holds->volume->catalog;
	bool any = false;
	int64_t oldest, newest;

	*last = PR_TIME_MIN;
	for (size_t i = 0; i < catalog->series_count; i++) {
		const struct pri_epoch_series *s = catalog->series[i];

		if (s->strays || pr_stream_class(s->number) != number || !s->packets ||
			!pri_catalog_times(catalog, s->stream, &oldest, &newest))
			continue;
		any = true;
		*last = PR_MAX(*last, newest);
	}
	return any;
}

static bool
makes_sense(Packrack__Hold *said)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	struct pr_error err;

	c.verb = "hold";
	c.hold = said;
	Packrack__Envelope env = pr_message_of(0, PACKRACK__ENVELOPE__BODY_COMMAND, &c);
	return said && said->query && said->number >= PR_CLASS_HOLDS &&
	       said->number <= PR_CLASS_MAX && pr_message_check(&env, &err) == 0;
}

/* A record of the stream: a hold begins, or is released. */
static void
take(struct pri_holds *holds, const struct sfs_record *record)
{
	Packrack__Hold *said = packrack__hold__unpack(NULL, record->length, record->body);
	int64_t last;

	if (!makes_sense(said)) {
		pr_log_warning("a record of the stream of holds makes no sense");
		packrack__hold__free_unpacked(said, NULL);
		return;
	}
	/* whose number it has now must not make the logger remove what it copies */
	for (size_t i = holds->count; i-- > 0 && !said->released;)
		if (holds->items[i]->said->number == said->number &&
			holds->items[i]->said->released)
			forget(holds, i);
	struct hold *h = find(holds, said->name);
	bool rewritten = h && !said->released && !h->said->released &&
			 h->said->number == said->number;
	if (h) {
		packrack__hold__free_unpacked(h->said, NULL);
		pri_answer_destroy(&h->answer);
	} else if (PR_ARRAY_GROW(holds->items, holds->count) == 0 &&
		   (h = calloc(1, sizeof *h))) {
		holds->items[holds->count++] = h;
	} else {
		packrack__hold__free_unpacked(said, NULL);
		return;
	}
	h->said = said;
	h->sequence = record->sequence;
	h->rewrite = false;
	if (rewritten)
		return;
	h->told = false;
	h->next = said->query->since;
	if (stream_times(holds, said->number, &last))
		h->next = PR_MAX(h->next, pr_time_minus(last, AGAIN_NS));
	h->safe = h->next;
}

static void
read_definitions(struct pri_holds *holds)
{
	struct sfs *sfs = holds->volume->sfs;
	struct sfs_record record;
	struct pr_error err;
	struct sfs_stream_info info;
	int rc, stream = sfs_stream_find(sfs, "holds");

	if (!holds->cursor && stream >= 0)
		holds->cursor = sfs_cursor_open(sfs, stream, NULL, &err);
	while (holds->cursor && (rc = sfs_cursor_next(holds->cursor, &record, &err)) != 0) {
		if (rc == 1)
			take(holds, &record);
		else if (rc == SFS_ERROR)
			break;
	}
	if (!holds->count || sfs_stream_info(sfs, (size_t)stream, &info, &err) != SFS_OK)
		return;
	for (size_t i = 0; i < holds->count; i++)
		holds->items[i]->rewrite = !holds->items[i]->said->released &&
					   holds->items[i]->sequence < info.first_sequence;
}

/* A number that no other hold has, and whose streams have nothing of an earlier one any more; 0: there is none. */
static unsigned
free_number(const struct pri_holds *holds)
{
	int64_t last;

	for (unsigned number = PR_CLASS_HOLDS; number <= PR_CLASS_MAX; number++) {
		bool used = stream_times(holds, number, &last);

		for (size_t i = 0; i < holds->count; i++)
			used |= holds->items[i]->said->number == number &&
				!holds->items[i]->said->released;
		if (!used)
			return number;
	}
	return 0;
}

int
pri_holds_prepare(struct pri_holds *holds, Packrack__Command *command, struct pr_error *err)
{
	Packrack__Hold *said = command->hold;

	read_definitions(holds);
	if (!said || !said->name[0] || strlen(said->name) > NAME_MAX_BYTES)
		return pr_error_set(
			err, "a hold has a name of 1 to %d bytes", NAME_MAX_BYTES);
	struct hold *h = find(holds, said->name);
	bool active = h && !h->said->released;
	if (said->released) {
		if (!active)
			return pr_error_set(err, "there is no hold %s", said->name);
		said->number = h->said->number;
		said->id = h->said->id;
		packrack__query__free_unpacked(said->query, NULL);
		said->query = pr_message_copy(&h->said->query->base);
		return said->query ? 0 : pr_error_set(err, "no memory for a hold");
	}
	if (h)
		return pr_error_set(err,
			active ? "there is a hold %s already"
			       : "the copies of an earlier hold %s are still being "
				 "removed: try again in a minute",
			said->name);
	said->at = 0; /* the logger has the clock */
	if (!said->query)
		return pr_error_set(err, "a hold without a query");
	struct pri_answer *tried = pri_answer_create(holds->volume, said->query, err);
	if (!tried)
		return -1;
	pri_answer_destroy(&tried);
	if (!(said->number = free_number(holds)))
		return pr_error_set(err,
			"there are %d holds already, or what was released is not gone yet: "
			"'packrack hold list' shows them",
			PRI_HOLDS_MAX);
	return 0;
}

/* ---- copying ---- */

static void copy(struct pri_holds *holds, struct hold *h, int64_t deadline);

static void
stored(void *arg, const Packrack__CommandDone *done)
{
	struct pri_holds *holds = arg;
	struct hold *h = holds->waits;

	holds->waits = NULL;
	if (!h)
		return;
	h->told = done && done->ok;
	if (done && !done->ok)
		pr_log_warning("hold %s: %s", h->said->name, done->text);
	if (!h->told) { /* what is not on the disk for sure comes again */
		h->next = h->safe;
		end_round(h);
	} else if (!h->answer) {
		h->safe = h->next;
		h->stored = false;
	} else {
		copy(holds, h, pr_now_mono() + STEP_NS);
	}
}

/* packets.len 0: makes all durable, and tells of the class, by the whole definition if that is to be written again. */
static void
send(struct pri_holds *holds, struct hold *h, ProtobufCBinaryData packets)
{
	Packrack__Command c = PACKRACK__COMMAND__INIT;
	Packrack__Hold of = *h->said;
	bool rewrite = h->rewrite && !packets.len;

	if (!rewrite)
		of.query = NULL;
	c.verb = rewrite ? "hold" : "store";
	c.user = h->said->user;
	c.hold = &of;
	c.packets = packets;
	holds->waits = h;
	if (pri_sender_store(holds->sender, &c, stored, holds) < 0)
		stored(holds, NULL);
}

/* All that is stored for good, up to now: no packet of an earlier time comes any more. */
static int64_t
stored_until(const struct pri_holds *holds)
{
	int64_t until = pri_ledger_view_stored_until(
			&holds->volume->ledger, pr_now_real(), HEARD_NS),
		first;

	if (until == PR_TIME_MAX &&
		!pri_catalog_times(&holds->volume->catalog, -1, &first, &until))
		return PR_TIME_MIN;
	return until;
}

static void
begin_round(struct pri_holds *holds, struct hold *h)
{
	Packrack__Query query = *h->said->query;
	struct pr_error err;

	h->until = PR_MIN(query.until, stored_until(holds));
	h->begin_at = pr_now_mono() + ROUND_NS;
	if (h->until < h->next)
		return;
	query.since = h->next;
	query.until = h->until;
	query.settle = query.settle_now = query.follow = query.count_only = false;
	query.limit = 0;
	if (pri_volume_refresh(holds->volume, true, pr_now_mono() + STEP_NS, &err) == 0)
		h->answer = pri_answer_create(holds->volume, &query, &err);
}

/* A round is over: all up to its end is copied. */
static void
finish_round(struct pri_holds *holds, struct hold *h)
{
	struct pr_error err;
	const Packrack__End *end = pri_answer_end(h->answer, &err);

	for (size_t i = 0; end && i < end->n_evicted; i++)
		if (h->next == h->said->query->since || end->evicted[i]->until > h->next)
			pr_log_info("hold %s: packets of stream %s were gone before they "
				    "could be copied",
				h->said->name, end->evicted[i]->stream);
	end_round(h);
	h->next = h->until == PR_TIME_MAX ? h->until : h->until + 1;
	if (h->stored)
		send(holds, h, (ProtobufCBinaryData){0, NULL});
	else
		h->safe = h->next;
}

static void
copy(struct pri_holds *holds, struct hold *h, int64_t deadline)
{
	struct pr_error err;

	while (!holds->waits && h->answer && pr_now_mono() < deadline)
		switch (pri_answer_step(h->answer, deadline, &err)) {
		case PRI_ANSWER_BATCH: {
			const Packrack__Batch *batch = pri_answer_batch(h->answer);

			h->stored |= batch->packets.len > 0;
			if (batch->packets.len)
				send(holds, h, batch->packets);
			break;
		}
		case PRI_ANSWER_END:
			finish_round(holds, h);
			break;
		case PRI_ANSWER_ERROR:
			pr_log_warning("hold %s: %s", h->said->name, err.text);
			end_round(h);
			break;
		case PRI_ANSWER_MORE:
			return;
		}
}

/* ---- the rack's state ---- */

static void
followed(void *arg, const Packrack__CommandDone *done)
{
	struct pri_holds *holds = arg;

	if (done && !done->ok)
		pr_log_warning("holds of the rack's state: %s", done->text);
	holds->look_at = 0; /* its record is there now: the next one */
}

/* Does what this node missed: one change at a time. */
static void
follow(struct pri_holds *holds, const struct pr_rack_state *state)
{
	for (size_t i = 0; i < state->count; i++) {
		const Packrack__SteerRule *item = state->items[i];
		const Packrack__Hold *want = item->hold;
		struct hold *h = want ? find(holds, want->name) : NULL;
		bool active = h && !h->said->released, same = h && h->said->id == want->id;
		/* also of the one before, whose release was missed; no other one ends by itself */
		bool release = active && h->said->id &&
			       (item->removed ? same : want->replaced == h->said->id);
		Packrack__Command c = PACKRACK__COMMAND__INIT;
		struct pr_error err;

		if (!want || (!release && (item->removed || h)))
			continue;
		c.verb = "hold";
		c.user = item->user;
		c.hold = pr_message_copy(&want->base);
		if (c.hold)
			c.hold->released = release;
		if (!c.hold || pri_holds_prepare(holds, &c, &err) < 0) {
			if (c.hold && holds->refused != want->id)
				pr_log_warning("hold %s: %s", want->name, err.text);
			holds->refused = want->id;
		} else if (pri_sender_store(holds->sender, &c, followed, holds) == 0) {
			holds->look_at = PR_TIME_MAX;
		}
		packrack__hold__free_unpacked(c.hold, NULL);
		if (holds->look_at == PR_TIME_MAX)
			return;
	}
}

void
pri_holds_step(struct pri_holds *holds, const struct pr_rack_state *state)
{
	int64_t now = pr_now_mono(), deadline = now + STEP_NS, last;

	read_definitions(holds);
	if (now >= holds->look_at && !holds->waits) {
		holds->look_at = now + PR_NS_PER_S;
		follow(holds, state);
	}
	if (holds->logger !=
		pri_sender_connects(holds->sender)) { /* another one, who knows nothing */
		holds->logger = pri_sender_connects(holds->sender);
		for (size_t i = 0; i < holds->count; i++) {
			struct hold *h = holds->items[i];

			pri_answer_destroy(&h->answer);
			h->told = false;
			h->next = h->safe;
		}
	}
	for (size_t i = 0; i < holds->count && !holds->waits && pr_now_mono() < deadline;
		i++) {
		size_t at = holds->turn++ % holds->count;
		struct hold *h = holds->items[at];

		if (h->said->released && h->told && now >= h->begin_at &&
			!stream_times(holds, h->said->number, &last)) {
			forget(holds, at);
			continue;
		}
		if ((!h->told || (h->rewrite && !h->answer)) && now >= h->begin_at) {
			h->begin_at = now + ROUND_NS;
			send(holds, h, (ProtobufCBinaryData){0, NULL});
			continue;
		}
		if (h->said->released || !h->told)
			continue;
		if (!h->answer && now >= h->begin_at)
			begin_round(holds, h);
		copy(holds, h, deadline);
	}
}

/* ---- the whole ---- */

Packrack__Hold **
pri_holds_list(struct pri_holds *holds, size_t *count)
{
	*count = 0;
	free(holds->list);
	holds->list = calloc(holds->count + 1, sizeof(Packrack__Hold *));
	for (size_t i = 0; holds->list && i < holds->count; i++) {
		struct hold *h = holds->items[i];

		h->shown = *h->said;
		h->shown.query = NULL;
		h->shown.copied_until = PR_MAX(h->next, 0);
		if (!h->said->released)
			holds->list[(*count)++] = &h->shown;
	}
	return holds->list;
}

struct pri_holds *
pri_holds_create(
	struct pri_volume *volume, struct pri_record_sender *sender, struct pr_error *err)
{
	struct pri_holds *holds = calloc(1, sizeof *holds);

	if (!holds)
		return pr_error_null(err, "no memory for holds");
	holds->volume = volume;
	holds->sender = sender;
	return holds;
}

void
pri_holds_destroy(struct pri_holds **holds)
{
	struct pri_holds *h = PR_TAKE(holds);

	if (!h)
		return;
	while (h->count)
		forget(h, h->count - 1);
	sfs_cursor_close(&h->cursor);
	PR_FREE(h, items, list);
	free(h);
}
