/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/query/hello.h"
#include "indexer/query/answer.h"
#include "merger/cli/cli.h"
#include "merger/cli/query/ask.h"
#include "merger/cli/query/query_build.h"
#include "merger/completeness.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/thread.h"
#include "proto/rpc/message.h"
#include "proto/wire/segment.h"

struct feed_batch {
	const uint8_t *packets; /* a segment; len 0: none */
	size_t len;
	Packrack__Batch *told; /* held, edges, frontier */
};
#define AHEAD 4
#define STEP_NS                                                                            \
	(50 * PR_NS_PER_MS) /* time after which the thread notices that it should stop */

/* Its buffers are used again and again. */
struct slot {
	enum pri_answer_state state;
	struct pri_read_buffer buffer;
	const uint8_t *packets; /* in buffer */
	size_t len;
	uint8_t *told; /* packed, so that it can be handed over */
	size_t told_len, told_room;
};

struct feed {
	pthread_t id;
	struct pr_queue queue;
	struct pri_answer *answer;
	struct slot slots[AHEAD];
	Packrack__Batch *unpacked; /* of the slot that is taken */
	struct pr_error error;
};

static int
fill(struct slot *s, struct pri_answer *answer)
{
	Packrack__Batch told = *pri_answer_batch(answer);

	s->packets = told.packets.data;
	s->len = told.packets.len;
	told.packets = (ProtobufCBinaryData){0};
	s->told_len = packrack__batch__get_packed_size(&told);
	if (PR_ARRAY_RESERVE(s->told, s->told_room, s->told_len) < 0)
		return -1;
	if (s->len)
		pri_answer_exchange(answer, &s->buffer);
	packrack__batch__pack(&told, s->told);
	return 0;
}

static void *
run(void *arg)
{
	struct feed *f = arg;
	enum pri_answer_state state = PRI_ANSWER_BATCH;
	int slot;

	while (state == PRI_ANSWER_BATCH && (slot = pr_queue_reserve(&f->queue)) >= 0) {
		do
			state = pri_answer_step(
				f->answer, pr_now_mono() + STEP_NS, &f->error);
		while (state == PRI_ANSWER_MORE && !pr_queue_stopped(&f->queue));
		if (state == PRI_ANSWER_BATCH && fill(&f->slots[slot], f->answer) < 0) {
			pr_error_set(&f->error, "no memory for a batch");
			state = PRI_ANSWER_ERROR;
		}
		f->slots[slot].state = state;
		pr_queue_put(&f->queue);
	}
	pr_queue_end(&f->queue);
	return NULL;
}

/* The answer (and its view) is the thread's until feed_stop. */
static struct feed *
feed_start(struct pri_answer *answer, struct pr_error *err)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f) {
		pr_error_set(err, "no memory for reading a volume");
		return NULL;
	}
	f->answer = answer;
	pr_queue_init(&f->queue, AHEAD);
	if (pr_thread_start(&f->id, run, f, "reading a volume", err) < 0) {
		pr_queue_destroy(&f->queue);
		free(f);
		return NULL;
	}
	return f;
}

/* BATCH: *out is valid until the next call; END; ERROR. Waits. */
static enum pri_answer_state
feed_next(struct feed *f, struct feed_batch *out, struct pr_error *err)
{
	int slot = pr_queue_take(&f->queue);
	struct slot *s = slot < 0 ? NULL : &f->slots[slot];

	if (f->unpacked)
		packrack__batch__free_unpacked(f->unpacked, NULL);
	f->unpacked = NULL;
	if ((!s || s->state == PRI_ANSWER_ERROR) && err)
		*err = f->error;
	if (!s || s->state != PRI_ANSWER_BATCH)
		return s ? s->state : PRI_ANSWER_ERROR;
	f->unpacked = packrack__batch__unpack(NULL, s->told_len, s->told);
	if (!f->unpacked) {
		pr_error_set(err, "no memory for a batch");
		return PRI_ANSWER_ERROR;
	}
	*out = (struct feed_batch){s->packets, s->len, f->unpacked};
	return PRI_ANSWER_BATCH;
}

static void
feed_stop(struct feed **fp)
{
	struct feed *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	pr_queue_stop(&f->queue);
	pthread_join(f->id, NULL);
	for (int i = 0; i < AHEAD; i++) {
		free(f->slots[i].buffer.bytes);
		free(f->slots[i].told);
	}
	if (f->unpacked)
		packrack__batch__free_unpacked(f->unpacked, NULL);
	pr_queue_destroy(&f->queue);
	free(f);
}

/*
 * The embedded mode: each volume answers as its indexer would, in this process, and the same merge
 * and completeness make one answer of it. Each volume has a thread that reads it.
 */
struct volume {
	struct pr_source source; /* first; the merge's */
	const char *path;
	struct pri_volume *view;
	struct pri_answer *answer;
	struct prm_completeness *completeness;
	struct sink *sink;
	int index;
	struct pr_segment_reader reader;
	bool reading, ended;
	struct feed *feed;
};

struct ask {
	const struct query_args *args;
	struct sink *sink;
	struct volume *volumes;
	size_t count;
	struct pr_source *merge;
	struct prm_completeness *completeness;
	struct question question;
	bool packets; /* count these ourselves, */
	bool twice; /* as some lie in two volumes, whose counts do not add up */
};

static volatile sig_atomic_t interrupted;

static void
on_signal(int number)
{
	interrupted = 1;
	signal(number,
		SIG_DFL); /* a second signal ends the program at once, even if a reader of our output blocks */
}

/* ---- a volume as a source ---- */

static int
end_volume(struct volume *v, struct pr_error *err)
{
	const Packrack__End *end;

	feed_stop(&v->feed);
	end = pri_answer_end(v->answer, err);
	if (!end || prm_completeness_end(v->completeness, v->index, end, err) < 0)
		return PR_SOURCE_ERROR;
	v->ended = true;
	return PR_SOURCE_END;
}

/* PACKET: there is another batch. WAIT: it was empty. */
static int
next_batch(struct volume *v, struct pr_error *err)
{
	struct feed_batch batch;

	if (v->ended)
		return PR_SOURCE_END;
	switch (feed_next(v->feed, &batch, err)) {
	case PRI_ANSWER_BATCH:
		break;
	case PRI_ANSWER_END:
		return end_volume(v, err);
	default:
		return PR_SOURCE_ERROR;
	}
	if (prm_completeness_batch(v->completeness, v->index, batch.told, err) < 0 ||
		(batch.told->tally && sink_tally(v->sink, batch.told->tally, err) < 0))
		return PR_SOURCE_ERROR;
	if (!batch.len)
		return PR_SOURCE_WAIT;
	v->reading = true;
	return pr_segment_open(&v->reader, batch.packets, batch.len, err) < 0
		       ? PR_SOURCE_ERROR
		       : PR_SOURCE_PACKET;
}

static int
volume_next(struct pr_source *source, struct pr_packet *out, struct pr_error *err)
{
	struct volume *v = (struct volume *)source;

	for (;;) {
		int got = v->reading ? pr_segment_next(&v->reader, out, err) : 0;

		if (got > 0)
			return PR_SOURCE_PACKET;
		v->reading = false;
		if (got == 0)
			got = next_batch(v, err);
		if (got == PR_SOURCE_ERROR)
			pr_error_prefix(err, "%s", v->path);
		if (got == PR_SOURCE_ERROR || got == PR_SOURCE_END || interrupted)
			return got == PR_SOURCE_PACKET ? PR_SOURCE_WAIT : got;
	}
}

/* The merge destroys its sources; the volume itself belongs to struct ask. */
static void
volume_let_go(struct pr_source *source)
{
	(void)source;
}

/* ---- beginning ---- */

static int
open_volume(struct ask *ask, size_t i, struct pr_error *err)
{
	struct volume *v = &ask->volumes[i];
	const char *path = ask->args->volumes.items[i];
	struct sfs_volume_info info;
	struct volume_paths paths;
	char text[400];

	v->source.next = volume_next;
	v->source.destroy = volume_let_go;
	v->path = path;
	v->completeness = ask->completeness;
	v->sink = ask->sink;
	v->index = prm_completeness_node(ask->completeness, path, err);
	if (v->index >= 0 && volume_paths_parse(path, &paths, err) == 0) {
		v->view = pri_volume_open(paths.path, paths.count, PRI_VOLUME_CACHED, err);
		volume_paths_free(&paths);
	}
	if (!v->view)
		return -1;
	if (sfs_info(v->view->sfs, &info, NULL) == SFS_OK && info.writer_alive)
		pr_priority_give_way();
	if (sfs_degraded(v->view->sfs, text, sizeof(text)))
		fprintf(stderr, "packrack: %s: %s\n", path, text);
	return pri_volume_refresh(v->view, true, INT64_MAX, err) < 0 ? -1 : 0;
}

static size_t
count_facts(const struct ask *ask)
{
	size_t count = 0;

	for (size_t i = 0; i < ask->count; i++)
		count += ask->volumes[i].view->ledger.count;
	return count;
}

/* The question for the link types there are, and the sink for their names. */
static enum ask_result
prepare(struct ask *ask, Packrack__LinkInfo *const *links, size_t count,
	struct pr_error *err)
{
	enum ask_result result = ASK_FAILED;
	uint16_t *types = NULL;
	int n = ask_linktypes(links, count, &types, err);

	if (n >= 0 && question_make(&ask->question, ask->args, types, (size_t)n, err) < 0)
		result = ASK_USAGE;
	else if (n >= 0 && sink_open(ask->sink, links, count, err) == 0)
		result = ASK_DONE;
	free(types);
	return result;
}

static enum ask_result
learn_links(struct ask *ask, struct pr_error *err)
{
	size_t count = count_facts(ask), used = 0;
	Packrack__LinkInfo *room = calloc(count + 1, sizeof(*room));
	Packrack__LinkInfo **list = calloc(count + 1, sizeof(*list));
	enum ask_result result = ASK_FAILED;

	for (size_t i = 0; room && list && i < ask->count; i++) {
		const struct pri_ledger_view *book = &ask->volumes[i].view->ledger;

		for (size_t j = 0; j < book->count; j++, used++) {
			list[used] = &room[used];
			pri_hello_link(&room[used], book->series[j]);
		}
	}
	if (room && list)
		ask_warn_link(ask->args, list, used);
	if (room && list)
		result = prepare(ask, list, used, err);
	else
		pr_error_set(err, "no memory for %zu links", count);
	free(room);
	free(list);
	return result;
}

static int
begin(struct ask *ask, struct pr_error *err)
{
	ask->merge = pr_merge_create(err);
	if (!ask->merge)
		return -1;
	for (size_t i = 0; i < ask->count; i++) {
		struct volume *v = &ask->volumes[i];
		Packrack__Query query = ask->question.query;

		/* of several, a merge must tell which packets lie in two of them */
		query.tally = ask->packets ? NULL : query.tally;
		query.count_only = query.count_only && (ask->count == 1 || query.tally);
		v->answer = pri_answer_create(v->view, &query, err);
		if (!v->answer)
			return pr_error_prefix(err, "%s", v->path);
		v->feed = feed_start(v->answer, err);
		if (!v->feed || pr_merge_add(ask->merge, &v->source, err) < 0)
			return -1;
	}
	return 0;
}

static int
open_all(struct ask *ask, struct pr_error *err)
{
	struct prm_completeness_options o = {.since = ask->args->since,
		.until = ask->args->until,
		.now = pr_now_real(),
		.link = ask->args->link};

	ask->count = ask->args->volumes.count;
	ask->volumes = calloc(ask->count, sizeof(*ask->volumes));
	if (!ask->volumes) {
		ask->count = 0;
		return pr_error_set(err, "no memory for so many volumes");
	}
	ask->completeness = prm_completeness_create(&o, err);
	if (!ask->completeness)
		return -1;
	for (size_t i = 0; i < ask->count; i++)
		if (open_volume(ask, i, err) < 0)
			return -1;
	return 0;
}

static void
close_all(struct ask *ask)
{
	pr_source_destroy(&ask->merge);
	for (size_t i = 0; i < ask->count; i++) {
		feed_stop(&ask->volumes[i].feed);
		pri_answer_destroy(&ask->volumes[i].answer);
		if (ask->volumes[i].view)
			pri_volume_close(&ask->volumes[i].view);
	}
	prm_completeness_destroy(&ask->completeness);
	question_free(&ask->question);
	free(ask->volumes);
}

/* ---- answering ---- */

#define PAUSE_PACKETS 1024 /* between looks at the clock */

static enum ask_result
pump(struct ask *ask, bool *limited, struct pr_error *err)
{
	uint64_t limit = ask->args->limit ? ask->args->limit : UINT64_MAX;
	struct pr_packet p;
	int got = PR_SOURCE_PACKET;

	while (!interrupted &&
		(got = pr_source_next(ask->merge, &p, err)) == PR_SOURCE_PACKET) {
		if (sink_packet(ask->sink, &p, err) < 0)
			return sink_closed(ask->sink) ? ASK_CLOSED : ASK_FAILED;
		*limited = ask->sink->packets >= limit;
		if (*limited || interrupted)
			prm_completeness_truncate(ask->completeness, p.otime);
		if (*limited)
			return ASK_DONE;
		if (ask->sink->packets % PAUSE_PACKETS == 0 &&
			sink_pause(ask->sink, err) < 0)
			return sink_closed(ask->sink) ? ASK_CLOSED : ASK_FAILED;
	}
	if (interrupted)
		prm_completeness_truncate(
			ask->completeness, ask->sink->packets ? p.otime : PR_TIME_MIN);
	return got == PR_SOURCE_ERROR ? ASK_FAILED : ASK_DONE;
}

static int
sum_up(struct ask *ask, Packrack__End *sums, bool limited, struct pr_error *err)
{
	sums->matched = ask->sink->packets;
	sums->related = ask->sink->related;
	sums->limit_reached = limited;
	sums->cancelled = interrupted;
	for (size_t i = 0; i < ask->count; i++) {
		const Packrack__End *end;

		feed_stop(&ask->volumes[i].feed);
		end = pri_answer_end(ask->volumes[i].answer, err);
		if (!end)
			return -1;
		if (ask->count == 1 && (!interrupted || ask->question.query.count_only)) {
			sums->matched = end->matched;
			sums->related = end->related;
		} else if (ask->args->tally.group && !ask->packets) {
			sums->matched += end->matched;
		}
		if (end->limit_reached && ask->count == 1) {
			sums->limit_reached = true;
			prm_completeness_truncate(ask->completeness, PR_TIME_MAX);
		}
		pr_message_add_numbers(&sums->base, &end->base);
	}
	if (prm_completeness_finish(ask->completeness, &sums->completeness, err) < 0)
		return -1;
	for (size_t i = 0; i < ask->count && i < sums->completeness->n_nodes; i++) {
		Packrack__NodeAnswer *node = sums->completeness->nodes[i];

		if (node->stopped)
			pr_message_copy_numbers(&node->base,
				&pri_answer_end(ask->volumes[i].answer, err)->base);
		node->stopped = false;
	}
	ask->twice = ask->args->tally.group && !ask->packets && ask->count > 1 &&
		     prm_completeness_duplicates(ask->completeness) > 0;
	return 0;
}

static enum ask_result
answer(struct ask *ask, struct ask_answer *out, struct pr_error *err)
{
	Packrack__End **end = &out->end;
	bool limited = false;
	enum ask_result result;

	if (open_all(ask, err) < 0)
		return ASK_FAILED;
	result = learn_links(ask, err);
	if (result != ASK_DONE)
		return result;
	if (question_explain(&ask->question, ask->args, &out->plans, err) < 0 ||
		begin(ask, err) < 0)
		return ASK_FAILED;
	signal(SIGINT,
		on_signal); /* until here there is nothing to be broken off in order */
	signal(SIGTERM, on_signal);
	result = pump(ask, &limited, err);
	if (result != ASK_DONE)
		return result;
	*end = malloc(sizeof(**end));
	if (!*end) {
		pr_error_set(err, "no memory for the end of the answer");
		return ASK_FAILED;
	}
	packrack__end__init(*end);
	return sum_up(ask, *end, limited, err) < 0 ? ASK_FAILED : ASK_DONE;
}

enum ask_result
ask_volumes(const struct query_args *a, struct sink *sink, struct ask_answer *out,
	struct pr_error *err)
{
	struct ask ask = {.args = a, .sink = sink};
	enum ask_result result;

	result = answer(&ask, out, err);
	close_all(&ask);
	if (result != ASK_DONE || !ask.twice || interrupted)
		return result;
	ask_answer_free(out);
	ask = (struct ask){.args = a, .sink = sink, .packets = true};
	result = answer(&ask, out, err);
	close_all(&ask);
	return result;
}
