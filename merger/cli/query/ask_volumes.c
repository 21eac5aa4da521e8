/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "indexer/query/hello.h"
#include "indexer/query/answer.h"
#include "indexer/query/query.h"
#include "merger/cli/query/ask.h"
#include "merger/completeness.h"
#include "proto/base/thread.h"
#include "proto/port/trace.h"

#define AHEAD 4
/* time after which the thread notices that it should stop */
#define STEP_NS (50 * PR_NS_PER_MS)

/* A batch from the thread that reads. Its buffers are reused. */
struct slot {
	enum pri_answer_state state;
	struct pri_read_buffer buffer;
	const uint8_t *packets; /* in buffer: a segment; len 0: none */
	size_t len;
	uint8_t *told; /* coverage, edges and watermark, packed for the other thread */
	size_t told_len, told_room;
};

/*
 * A volume of a query with --volume. Each volume gives an answer in this process, as its
 * indexer would, and has a thread that reads it. The merge and completeness are those of a
 * merger.
 */
struct volume {
	struct pr_source source; /* first; the merge's */
	const char *path;
	struct pri_volume *view;
	struct pri_answer *answer; /* answer and view belong to the thread while it runs */
	struct prm_completeness *completeness;
	struct sink *sink;
	int index;
	struct pr_segment_reader reader;
	bool reading, ended;
	/* the thread, and what it hands over */
	bool running;
	pthread_t thread;
	struct pr_queue queue;
	struct slot slots[AHEAD];
	struct pr_error error;
};

/* A trace file of a query with --read. Its packets have epoch 0, and its place in argv as their link. */
struct file {
	struct pr_source source; /* first; the merge's */
	struct ask *ask;
	struct pr_trace *trace;
	int64_t otime;
	struct pr_error error; /* where it is damaged; "": nowhere */
	Packrack__LinkInfo link;
	Packrack__NodeAnswer answer; /* node: the path */
};

struct ask {
	const struct query_args *args;
	struct sink *sink;
	struct volume *volumes;
	struct file *files;
	size_t count; /* of either */
	uint64_t held; /* packets of files in the time range */
	struct pr_source *merge;
	struct prm_completeness *completeness;
	struct question question;
	bool packets; /* count packets here: the volumes send no counts */
	bool twice; /* some packets are in two volumes, so counts do not add up */
};

/* ---- the thread ---- */

static void *
read_volume(void *arg)
{
	struct volume *v = arg;
	enum pri_answer_state state = PRI_ANSWER_BATCH;
	int slot;

	while (state == PRI_ANSWER_BATCH && (slot = pr_queue_reserve(&v->queue)) >= 0) {
		struct slot *s = &v->slots[slot];

		do
			state = pri_answer_step(
				v->answer, pr_now_mono() + STEP_NS, &v->error);
		while (state == PRI_ANSWER_MORE && !pr_queue_stopped(&v->queue));
		if (state == PRI_ANSWER_BATCH) {
			Packrack__Batch told = *pri_answer_batch(v->answer);
			s->packets = told.packets.data;
			s->len = told.packets.len;
			told.packets = (ProtobufCBinaryData){0};
			s->told_len = packrack__batch__get_packed_size(&told);
			if (PR_ARRAY_RESERVE(s->told, s->told_room, s->told_len) < 0) {
				pr_error_set(&v->error, "no memory for a batch");
				state = PRI_ANSWER_ERROR;
			} else {
				packrack__batch__pack(&told, s->told);
				if (s->len)
					pri_answer_exchange(v->answer, &s->buffer);
			}
		}
		s->state = state;
		pr_queue_put(&v->queue);
	}
	pr_queue_end(&v->queue);
	return NULL;
}

static void
stop_reading(struct volume *v)
{
	if (!v->running)
		return;
	v->running = false;
	pr_queue_stop(&v->queue);
	pthread_join(v->thread, NULL);
	for (int i = 0; i < AHEAD; i++) {
		free(v->slots[i].buffer.bytes);
		free(v->slots[i].told);
	}
	pr_queue_destroy(&v->queue);
}

/* ---- a volume as a source ---- */

/* PACKET: there is another batch. WAIT: it was empty. */
static int
next_batch(struct volume *v, struct pr_error *err)
{
	if (v->ended)
		return PR_SOURCE_END;
	int slot = pr_queue_take(&v->queue);
	struct slot *s = slot < 0 ? NULL : &v->slots[slot];
	if (s && s->state == PRI_ANSWER_END) {
		stop_reading(v);
		const Packrack__End *end = pri_answer_end(v->answer, err);
		if (!end || prm_completeness_end(v->completeness, v->index, end, err) < 0)
			return PR_SOURCE_ERROR;
		v->ended = true;
		return PR_SOURCE_END;
	}
	if (!s || s->state != PRI_ANSWER_BATCH) {
		*err = v->error;
		return PR_SOURCE_ERROR;
	}
	Packrack__Batch *told = packrack__batch__unpack(NULL, s->told_len, s->told);
	if (!told)
		return pr_error_set(err, "no memory for a batch");
	int rc = prm_completeness_batch(v->completeness, v->index, told, err);
	if (rc == 0 && told->tally)
		rc = sink_tally(v->sink, told->tally, err);
	packrack__batch__free_unpacked(told, NULL);
	if (rc < 0)
		return PR_SOURCE_ERROR;
	if (!s->len)
		return PR_SOURCE_WAIT;
	v->reading = true;
	return pr_segment_open(&v->reader, s->packets, s->len, err) < 0 ? PR_SOURCE_ERROR
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
		if (got == PR_SOURCE_ERROR || got == PR_SOURCE_END || cli_interrupted)
			return got == PR_SOURCE_PACKET ? PR_SOURCE_WAIT : got;
	}
}

/* The merge destroys its sources; the volume itself belongs to struct ask. */
static void
volume_let_go(PR_UNUSED struct pr_source *source)
{
}

/* ---- beginning ---- */

struct pri_volume *
ask_volume_open(const char *volume, unsigned options, struct pr_error *err)
{
	struct pri_volume *view = NULL;
	struct volume_paths paths;

	if (volume_paths_parse(volume, &paths, err) == 0)
		view = pri_volume_open(paths.path, paths.count, options, err);
	volume_paths_free(&paths);
	return view;
}

static int
learn_links(struct ask *ask, struct pr_error *err)
{
	size_t count = 0, used = 0;
	int result = CLI_FAILED;

	for (size_t i = 0; i < ask->count; i++)
		count += ask->volumes[i].view->ledger.count;
	Packrack__LinkInfo *room = calloc(count + 1, sizeof(*room));
	Packrack__LinkInfo **list = calloc(count + 1, sizeof(*list));
	for (size_t i = 0; room && list && i < ask->count; i++) {
		const struct pri_ledger_view *book = &ask->volumes[i].view->ledger;

		for (size_t j = 0; j < book->count; j++, used++) {
			list[used] = &room[used];
			pri_hello_link(&room[used], book->series[j]);
		}
	}
	if (room && list)
		result = ask_prepare(&ask->question, ask->sink, list, used, err);
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
		pr_queue_init(&v->queue, AHEAD);
		v->running = pr_thread_start(&v->thread, read_volume, v, "reading a volume",
				     err) == 0;
		if (!v->running) {
			pr_queue_destroy(&v->queue);
			return -1;
		}
		if (pr_merge_add(ask->merge, &v->source, err) < 0)
			return -1;
	}
	return 0;
}

#define SETTLE_MS 20 /* between two looks whether packets up to now are stored */

static int
open_all(struct ask *ask, struct pr_error *err)
{
	const struct query_args *a = ask->args;
	struct prm_completeness_options o = {.now = pr_now_real(), .settled = !a->no_wait};
	struct sfs_volume_info info;
	int64_t first, last;
	char text[400];

	PR_COPY(&o, a, since, until, link);
	ask->volumes = calloc(a->volumes.count, sizeof(*ask->volumes));
	if (!ask->volumes)
		return pr_error_set(err, "no memory for so many volumes");
	ask->completeness = prm_completeness_create(&o, err);
	if (!ask->completeness)
		return -1;
	while (ask->count < a->volumes.count) {
		struct volume *v = &ask->volumes[ask->count];

		v->source = (struct pr_source){volume_next, volume_let_go};
		v->path = a->volumes.items[ask->count++];
		PR_COPY(v, ask, completeness, sink);
		v->index = prm_completeness_node(ask->completeness, v->path, err);
		if (v->index >= 0)
			v->view = ask_volume_open(v->path, PRI_VOLUME_CACHED, err);
		if (!v->view)
			return -1;
		if (sfs_info(v->view->sfs, &info, NULL) == SFS_OK && info.writer_alive)
			pr_priority_give_way();
		if (sfs_degraded(v->view->sfs, text, sizeof(text)))
			fprintf(stderr, "packrack: %s: %s\n", v->path, text);
		do {
			if (pri_volume_refresh(v->view, true, INT64_MAX, err) < 0)
				return -1;
		} while (!a->no_wait && !cli_interrupted &&
			 !pri_answer_settled(v->view, a->until, o.now) &&
			 poll(NULL, 0, SETTLE_MS) == 0);
		if (pri_catalog_times(&v->view->catalog, -1, &first, &last))
			sink_reaches(ask->sink, first, last);
		else if (sfs_stream_find(v->view->sfs, "flow.windows") >= 0)
			return pr_error_set(err,
				"%s keeps flows, no packets: ask it with --kept", v->path);
	}
	return 0;
}

static void
close_all(struct ask *ask)
{
	pr_source_destroy(&ask->merge);
	for (size_t i = 0; i < ask->count; i++) {
		stop_reading(&ask->volumes[i]);
		pri_answer_destroy(&ask->volumes[i].answer);
		pri_volume_close(&ask->volumes[i].view);
	}
	prm_completeness_destroy(&ask->completeness);
	question_free(&ask->question);
	free(ask->volumes);
}

/* ---- answering ---- */

#define PAUSE_PACKETS 1024 /* between looks at the clock */

static int
pump(struct ask *ask, bool *limited, struct pr_error *err)
{
	struct pr_packet p, none = {.otime = PR_TIME_MIN};
	struct sink *sink = ask->sink;
	int got = PR_SOURCE_PACKET;

	/* before this, an interrupted command has nothing to finish */
	cli_catch_signals();
	while (!cli_interrupted && !*limited &&
		(got = pr_source_next(ask->merge, &p, err)) == PR_SOURCE_PACKET) {
		if (sink_packet(sink, &p, err) < 0)
			return sink_failure(sink);
		*limited = ask->args->limit && sink->packets >= ask->args->limit;
		if (!*limited && sink->packets % PAUSE_PACKETS == 0 &&
			sink_pause(sink, err) < 0)
			return sink_failure(sink);
	}
	if (ask->completeness && (cli_interrupted || *limited))
		prm_completeness_truncate(ask->completeness, sink->packets ? &p : &none);
	return got == PR_SOURCE_ERROR ? CLI_FAILED : CLI_OK;
}

static int
sum_up(struct ask *ask, Packrack__End *sums, bool limited, struct pr_error *err)
{
	bool one = ask->count == 1, counted = ask->args->tally.group && !ask->packets;

	sums->matched = ask->sink->packets;
	PR_COPY(sums, ask->sink, related, truncated, from_cut, from_headers);
	sums->limit_reached = limited;
	sums->cancelled = cli_interrupted;
	for (size_t i = 0; i < ask->count; i++) {
		stop_reading(&ask->volumes[i]);
		const Packrack__End *end = pri_answer_end(ask->volumes[i].answer, err);
		if (!end)
			return -1;
		if (one && (!cli_interrupted || ask->question.query.count_only)) {
			PR_COPY(sums, end, matched, related, truncated, from_cut,
				from_headers);
		} else if (counted) {
			sums->matched += end->matched;
		}
		if (one && end->limit_reached) {
			sums->limit_reached = true;
			prm_completeness_truncate(ask->completeness, NULL);
		}
		if (!ask->volumes[i].ended && prm_completeness_end(ask->completeness,
						      ask->volumes[i].index, end, err) < 0)
			return -1;
		pr_message_add_numbers(&sums->base, &end->base);
	}
	if (prm_completeness_finish(ask->completeness, &sums->completeness, err) < 0)
		return -1;
	ask->twice = counted && !one && prm_completeness_duplicates(ask->completeness) > 0;
	return 0;
}

static int
answer(struct ask *ask, struct pr_error *err)
{
	bool limited = false;
	int result = open_all(ask, err) < 0 ? CLI_FAILED : learn_links(ask, err);

	if (result != CLI_OK)
		return result;
	if (begin(ask, err) < 0)
		return CLI_FAILED;
	result = pump(ask, &limited, err);
	if (result != CLI_OK)
		return result;
	Packrack__End *end = ask->sink->end = malloc(sizeof(*end));
	if (!end)
		return pr_error_as(CLI_FAILED, err, "no memory for the end of the answer");
	packrack__end__init(end);
	return sum_up(ask, end, limited, err) < 0 ? CLI_FAILED : CLI_OK;
}

int
ask_volumes(struct sink *sink, struct pr_error *err)
{
	struct ask ask = {.args = sink->args, .sink = sink};
	int result = answer(&ask, err);

	close_all(&ask);
	if (result != CLI_OK || !ask.twice || cli_interrupted)
		return result;
	/* the sink forgets the first answer when it is opened */
	ask = (struct ask){.args = sink->args, .sink = sink, .packets = true};
	result = answer(&ask, err);
	close_all(&ask);
	return result;
}

/* ---- trace files ---- */

static int
file_next(struct pr_source *source, struct pr_packet *out, PR_UNUSED struct pr_error *err)
{
	struct file *f = (struct file *)source;
	const struct query_args *a = f->ask->args;
	const struct question *q = &f->ask->question;

	while (!cli_interrupted) {
		/* a damaged file ends here; the others go on */
		if (pr_trace_next(f->trace, out, &f->error) != PR_SOURCE_PACKET)
			return PR_SOURCE_END;
		out->seq = ++f->answer.scanned_packets;
		f->answer.scanned_bytes += out->caplen;
		out->otime = f->otime = out->time > f->otime ? out->time : f->otime;
		out->link = f->link.link;
		if (out->time < a->since || out->time > a->until)
			continue;
		f->ask->held++;
		if (!pri_query_match(&q->programs, &q->direct, a->noted, out))
			continue;
		f->answer.matched++;
		return PR_SOURCE_PACKET;
	}
	return PR_SOURCE_WAIT;
}

/* While a pipe gives nothing, what it gave is shown. */
static bool
go_on(void *arg)
{
	struct file *f = arg;

	return !cli_interrupted && sink_pause(f->ask->sink, &f->error) == 0;
}

static int
file_open(struct file *f, struct ask *ask, char *path, struct pr_error *err)
{
	*f = (struct file){{file_next, volume_let_go}, .ask = ask, .otime = PR_TIME_MIN};
	packrack__link_info__init(&f->link);
	packrack__node_answer__init(&f->answer);
	f->answer.node = path;
	f->trace = pr_trace_open(path, err);
	if (!f->trace)
		return -1;
	pr_trace_on_idle(f->trace, go_on, f);
	f->link.link = ask->count;
	f->link.linktype = pr_trace_info(f->trace)->linktype;
	f->link.snaplen = pr_trace_info(f->trace)->snaplen;
	f->link.name = basename(path);
	return 0;
}

/* The answer is complete if all files were read to their ends, or to the limit. */
static int
files_end(struct ask *ask, Packrack__NodeAnswer **nodes, bool limited, struct pr_error *err)
{
	Packrack__Completeness c = PACKRACK__COMPLETENESS__INIT;
	Packrack__End end = PACKRACK__END__INIT;

	c.complete = true;
	c.held_packets = ask->held;
	c.nodes = nodes;
	for (; c.n_nodes < ask->count; c.n_nodes++) {
		struct file *f = &ask->files[c.n_nodes];

		nodes[c.n_nodes] = &f->answer;
		f->answer.answered = !f->error.text[0];
		if (f->error.text[0]) /* begins with the path */
			f->answer.error = f->error.text + strlen(f->answer.node) + 2;
		c.complete &= f->answer.answered;
		PR_ADD(&end, &f->answer, scanned_packets, scanned_bytes);
	}
	end.completeness = &c;
	end.matched = ask->sink->packets;
	end.related = ask->sink->related;
	end.limit_reached = limited;
	end.cancelled = cli_interrupted;
	ask->sink->end = pr_message_copy(&end.base);
	return ask->sink->end ? CLI_OK : pr_error_set(err, "no memory for an answer");
}

int
ask_files(struct sink *sink, struct pr_error *err)
{
	const struct pr_string_list *paths = &sink->args->files;
	struct ask ask = {.args = sink->args, .sink = sink, .merge = pr_merge_create(err)};
	void **list = calloc(paths->count, sizeof(*list));
	int result = CLI_FAILED, rc = 0;
	bool limited = false;

	ask.files = calloc(paths->count, sizeof(*ask.files));
	if (!list || !ask.files || !ask.merge)
		rc = pr_error_set(err, "no memory for %zu files", paths->count);
	for (; rc == 0 && ask.count < paths->count; ask.count++) {
		rc = file_open(&ask.files[ask.count], &ask, paths->items[ask.count], err);
		list[ask.count] = &ask.files[ask.count].link;
	}
	if (rc == 0)
		result = ask_prepare(
			&ask.question, sink, (Packrack__LinkInfo **)list, ask.count, err);
	for (size_t i = 0; result == CLI_OK && i < ask.count; i++)
		if (pr_merge_add(ask.merge, &ask.files[i].source, err) < 0)
			result = CLI_FAILED;
	if (result == CLI_OK)
		result = pump(&ask, &limited, err);
	if (result == CLI_OK &&
		files_end(&ask, (Packrack__NodeAnswer **)list, limited, err) < 0)
		result = CLI_FAILED;
	pr_source_destroy(&ask.merge);
	for (size_t i = 0; i < ask.count; i++)
		pr_trace_close(&ask.files[i].trace);
	question_free(&ask.question);
	free(ask.files);
	free(list);
	return result;
}
