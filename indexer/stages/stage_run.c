/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/stages/stage_run.h"

#include <dlfcn.h>
#include <jansson.h>
#include <xxhash.h>

#include "indexer/flows/flow_key.h"
#include "proto/base/array.h"
#include "proto/base/thread.h"
#include "proto/wire/decode.h"

#define BATCHES 8
#define BATCH_PACKETS 1024
#define BATCH_BYTES (1 << 20)

struct item {
	struct pr_packet in;
	struct packrack_packet p;
	uint32_t shard;
	bool given;
};

/* Packets that all threads look at, each at its own. `steps` is guarded by the run's lock. */
struct batch {
	struct item *items;
	uint8_t *bytes;
	size_t count, used;
	unsigned steps; /* threads that are through with it */
	_Atomic bool failed;
};

struct worker {
	struct pri_stage_run *run;
	unsigned number;
	pthread_t thread;
	void *state[PRI_STAGE_MOST];
};

struct pri_stage_run {
	struct pri_stage_options options;
	const struct packrack_stage *stages[PRI_STAGE_MOST];
	unsigned stage_count, threads,
		states; /* states: of each stage; workers that have one */
	struct worker workers[PRI_STAGE_SHARDS];
	bool connections, gives;
	uint64_t seen, taken, random;
	/* handed over in turn: filled, and written out before it is filled again */
	struct batch batches[BATCHES];
	uint64_t filled, written; /* of batches; filled is guarded by lock */
	unsigned started;
	bool stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

/* ---- which stage ---- */

const struct packrack_stage *
pri_stage_find(const char *name, struct pr_error *err)
{
	for (size_t i = 0; pri_stages[i]; i++)
		if (!strcmp(pri_stages[i]->name, name))
			return pri_stages[i];
	if (!strchr(name, '/'))
		return pr_error_null(err,
			"no stage %s: `packrack stage --list` shows them; one of your own "
			"is a "
			"path, as in ./mine.so",
			name);
	void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!object)
		return pr_error_null(err, "cannot load the stage: %s", dlerror());
	const struct packrack_stage *stage = dlsym(object, "packrack_stage");
	if (!stage || stage->version != PACKRACK_STAGE_VERSION || !stage->name ||
		!stage->open || !stage->packet || !stage->report || !stage->close)
		return pr_error_null(err, "%s: %s", name,
			stage ? "its version is another, or a function is missing: see "
				"packrack-stage.h"
			      : "no symbol packrack_stage");
	return stage;
}

static bool
has_option(const struct packrack_stage *s, const char *key, size_t len)
{
	for (const char *const *o = s->options; o && *o; o++)
		if (!strncmp(*o, key, len) && (*o)[len] == ':')
			return true;
	return false;
}

/* `KEY=VALUE`, or `STAGE.KEY=VALUE`: where KEY begins, if this stage has it. */
static const char *
option_of(const struct packrack_stage *s, const char *text)
{
	size_t name = strlen(s->name), len = strcspn(text, "=");

	if (!strncmp(text, s->name, name) && text[name] == '.' && len > name)
		return has_option(s, text + name + 1, len - name - 1) ? text + name + 1
								      : NULL;
	return text[len] && has_option(s, text, len) ? text : NULL;
}

static int
open_states(struct pri_stage_run *run, unsigned stage, struct pr_error *err)
{
	const struct packrack_stage *s = run->stages[stage];
	const struct pr_string_list *set = &run->options.set;
	const char *options[set->count + 1], *option;
	char why[400] = "no memory";
	size_t count = 0;

	for (size_t i = 0; i < set->count; i++)
		if ((option = option_of(s, set->items[i])))
			options[count++] = option;
	options[count] = NULL;
	for (unsigned i = 0; i < run->states; i++) {
		if (run->options.pipeline && i != stage)
			continue;
		run->workers[i].state[stage] = s->open(options, why, sizeof(why));
		if (!run->workers[i].state[stage])
			return pr_error_set(err, "stage %s: %s", s->name, why);
	}
	return 0;
}

static int
take_names(struct pri_stage_run *run, const char *names, struct pr_error *err)
{
	struct pr_string_list one = {.items = (char *[]){(char *)names}, .count = 1},
			      list = {0};
	const struct pr_string_list *set = &run->options.set;
	int rc = pr_string_list_split(&list, &one, err);

	if (rc == 0 && (!list.count || list.count > PRI_STAGE_MOST))
		rc = pr_error_set(
			err, "one to %d stages, separated by commas", PRI_STAGE_MOST);
	for (size_t i = 0; rc == 0 && i < list.count; i++) {
		const struct packrack_stage *s = pri_stage_find(list.items[i], err);

		run->stages[run->stage_count++] = s;
		rc = s ? 0 : -1;
		run->connections |= s && s->flags & PACKRACK_STAGE_CONNECTIONS;
		run->gives = s && s->flags & PACKRACK_STAGE_GIVES;
		if (s && i + 1 < list.count && !run->gives)
			rc = pr_error_set(err,
				"stage %s gives no packets: %s behind it would get none",
				s->name, list.items[i + 1]);
		if (s && !s->add && run->options.shards > 1 && !run->options.pipeline)
			rc = pr_error_set(err, "stage %s: with one shard only", s->name);
	}
	pr_string_list_clear(&list);
	for (size_t i = 0; rc == 0 && i < set->count; i++) {
		bool known = false;
		for (unsigned j = 0; j < run->stage_count; j++)
			known |= option_of(run->stages[j], set->items[i]) != NULL;
		if (!known)
			rc = pr_error_set(err,
				"-o %s: no such option; `packrack stage --list` shows "
				"those of "
				"each stage",
				set->items[i]);
	}
	return rc;
}

bool
pri_stage_any(const struct pri_stage_run *run, uint32_t flag)
{
	for (unsigned i = 0; i < run->stage_count; i++)
		if (run->stages[i]->flags & flag)
			return true;
	return false;
}

/* ---- the work ---- */

/* Stages from..to - 1 on a packet. -1: one failed. */
static int
work(struct worker *w, struct item *item, unsigned from, unsigned to)
{
	const struct pri_stage_run *run = w->run;
	int rc = 1;

	for (unsigned i = from; i < to && rc == 1; i++)
		rc = run->stages[i]->packet(w->state[i], &item->p);
	item->given = rc == 1;
	return rc;
}

/* A thread's part of a batch. */
static void
work_on(struct worker *w, struct batch *b)
{
	const struct pri_stage_run *run = w->run;
	bool pipeline = run->options.pipeline;
	unsigned from = pipeline ? w->number : 0,
		 to = pipeline ? from + 1 : run->stage_count;

	for (size_t i = 0; i < b->count && !b->failed; i++)
		if (pipeline ? b->items[i].given : b->items[i].shard == w->number)
			if (work(w, &b->items[i], from, to) < 0)
				b->failed = true;
}

static void *
work_thread(void *arg)
{
	struct worker *w = arg;
	struct pri_stage_run *run = w->run;

	pthread_mutex_lock(&run->lock);
	for (uint64_t at = 0;; at++) {
		struct batch *b = &run->batches[at % BATCHES];

		while (!run->stop && (at >= run->filled || (run->options.pipeline &&
								   b->steps != w->number)))
			pthread_cond_wait(&run->changed, &run->lock);
		if (run->stop)
			break;
		pthread_mutex_unlock(&run->lock);
		work_on(w, b);
		pthread_mutex_lock(&run->lock);
		b->steps++;
		pthread_cond_broadcast(&run->changed);
	}
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

/* What came of a packet. */
static int
put_out(struct pri_stage_run *run, struct item *item, struct pr_error *err)
{
	const struct pri_stage_options *o = &run->options;
	struct pr_packet p = item->in;
	int rc = 0;

	if (item->p.line && o->print)
		rc = o->print(o->arg, item->p.line, err);
	free(item->p.line);
	item->p.line = NULL;
	if (rc < 0 || !item->given || !run->gives || !o->give)
		return rc;
	p.data = item->p.data;
	PR_COPY(&p, &item->p, time, caplen, len);
	return o->give(o->arg, &p, err);
}

/* Writes out the oldest batch, when all threads are through with it. */
static int
write_batch(struct pri_stage_run *run, struct pr_error *err)
{
	struct batch *b = &run->batches[run->written % BATCHES];
	int rc = 0;

	pthread_mutex_lock(&run->lock);
	while (b->steps < run->threads)
		pthread_cond_wait(&run->changed, &run->lock);
	pthread_mutex_unlock(&run->lock);
	run->written++;
	if (b->failed)
		rc = pr_error_set(err, "a stage has no memory");
	for (size_t i = 0; i < b->count; i++)
		if (rc == 0)
			rc = put_out(run, &b->items[i], err);
		else
			free(b->items[i].p.line);
	b->count = b->used = 0;
	return rc;
}

static int
hand_over(struct pri_stage_run *run, struct pr_error *err)
{
	struct batch *b = &run->batches[run->filled % BATCHES];

	if (!b->count)
		return 0;
	pthread_mutex_lock(&run->lock);
	b->steps = 0;
	b->failed = false;
	run->filled++;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
	return run->filled - run->written == BATCHES ? write_batch(run, err) : 0;
}

int
pri_stage_pause(struct pri_stage_run *run, struct pr_error *err)
{
	int rc = run->threads > 1 ? hand_over(run, err) : 0;

	while (rc == 0 && run->written < run->filled)
		rc = write_batch(run, err);
	return rc;
}

static struct packrack_packet
packet_of(const struct pri_stage_run *run, const struct pr_packet *p)
{
	struct packrack_packet out = {.data = (uint8_t *)p->data,
		.scale = run->options.sample > 1 ? run->options.sample : 1};

	PR_COPY(&out, p, time, seq, caplen, len, linktype, link);
	return out;
}

static int
put_in(struct pri_stage_run *run, const struct pr_packet *p, uint32_t shard,
	struct pr_error *err)
{
	struct batch *b = &run->batches[run->filled % BATCHES];

	if (b->count == BATCH_PACKETS || b->used + p->caplen > BATCH_BYTES) {
		if (hand_over(run, err) < 0)
			return -1;
		b = &run->batches[run->filled % BATCHES];
	}
	struct item *item = &b->items[b->count];
	*item = (struct item){
		.in = *p, .p = packet_of(run, p), .shard = shard, .given = true};
	item->p.data = memcpy(b->bytes + b->used, p->data, p->caplen);
	b->used += p->caplen;
	b->count++;
	return 0;
}

/* One thread: no copy, unless a stage writes. */
static int
at_once(struct pri_stage_run *run, const struct pr_packet *p, struct pr_error *err)
{
	struct item item = {.in = *p, .p = packet_of(run, p)};

	if (run->gives || run->stage_count > 1)
		item.p.data = memcpy(run->batches[0].bytes, p->data, p->caplen);
	if (work(&run->workers[0], &item, 0, run->stage_count) < 0)
		return pr_error_set(err, "a stage has no memory");
	return put_out(run, &item, err);
}

/* Both directions of a flow are alike. */
static uint64_t
connection_hash(const struct pr_packet *p)
{
	struct pri_flow_packet f;
	struct pr_decoded d;

	if (pri_flow_packet_parse(p, &f))
		return XXH3_64bits(&f.key, sizeof(f.key));
	pr_decode(p->linktype, p->data, p->caplen, &d);
	return pr_flow_hash(&d, p->data, p->caplen, 0);
}

/* xorshift64* (Vigna 2016) */
static uint64_t
next_random(uint64_t *x)
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return *x * 0x2545f4914f6cdd1d;
}

int
pri_stage_packet(struct pri_stage_run *run, const struct pr_packet *p, struct pr_error *err)
{
	bool shards = run->threads > 1 && !run->options.pipeline;
	uint32_t sample = run->options.sample, shard = 0;
	uint64_t hash = 0;

	if (p->caplen > BATCH_BYTES)
		return pr_error_set(
			err, "a packet has %u bytes, more than %d", p->caplen, BATCH_BYTES);
	run->seen++;
	if (run->connections && (shards || sample > 1))
		hash = connection_hash(p);
	if (sample > 1 &&
		(run->connections ? hash >> 16 : next_random(&run->random) >> 16) % sample)
		return 0;
	run->taken++;
	if (run->threads == 1)
		return at_once(run, p, err);
	if (shards)
		shard = run->connections ? (uint32_t)hash % run->threads
					 : (uint32_t)(run->taken % run->threads);
	return put_in(run, p, shard, err);
}

/* ---- begin and end ---- */

struct pri_stage_run *
pri_stage_start(
	const char *names, const struct pri_stage_options *options, struct pr_error *err)
{
	struct pri_stage_run *run = calloc(1, sizeof(*run));

	if (!run)
		return pr_error_null(err, "no memory for stages");
	run->options = *options;
	run->workers[0].run = run; /* of one thread, too */
	run->random = 0x9e3779b97f4a7c15; /* the same sample at each run */
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->changed, NULL);
	int rc = take_names(run, names, err);
	run->threads = run->options.pipeline ? run->stage_count : run->options.shards;
	if (rc == 0 && (run->threads < 1 || run->threads > PRI_STAGE_SHARDS))
		rc = pr_error_set(err, "1 to %d shards", PRI_STAGE_SHARDS);
	run->states = rc < 0 ? 0 : run->threads;
	for (unsigned i = 0; rc == 0 && i < run->stage_count; i++)
		rc = open_states(run, i, err);
	for (unsigned i = 0; rc == 0 && i < (run->threads > 1 ? BATCHES : 1); i++) {
		run->batches[i].items = calloc(BATCH_PACKETS, sizeof(struct item));
		run->batches[i].bytes = malloc(BATCH_BYTES);
		if (!run->batches[i].items || !run->batches[i].bytes)
			rc = pr_error_set(err, "no memory for packets of stages");
	}
	for (; rc == 0 && run->threads > 1 && run->started < run->threads; run->started++) {
		struct worker *w = &run->workers[run->started];

		w->number = run->started;
		w->run = run;
		rc = pr_thread_start(&w->thread, work_thread, w, "a shard of a stage", err);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		pri_stage_end(&run);
	return run;
}

/* One stage's states become the first; its report. */
static json_t *
report_of(struct pri_stage_run *run, unsigned stage)
{
	const struct packrack_stage *s = run->stages[stage];
	unsigned first = run->options.pipeline ? stage : 0;
	void *sum = run->workers[first].state[stage];

	for (unsigned i = 0; i < run->threads; i++) {
		void *state = run->workers[i].state[stage];

		if (run->options.pipeline && i != first)
			continue;
		if ((s->flush && s->flush(state) < 0) ||
			(i != first && s->add(sum, state) < 0))
			return NULL;
	}
	char *text = s->report(sum);
	json_t *report = text ? json_loads(text, 0, NULL) : NULL;
	free(text);
	return report;
}

char *
pri_stage_finish(struct pri_stage_run *run, struct pr_error *err)
{
	json_t *all = json_object();
	char *text = NULL;

	if (pri_stage_pause(run, err) < 0) {
		json_decref(all);
		return NULL;
	}
	json_object_set_new(all, "packets", json_integer((json_int_t)run->seen));
	if (run->options.sample > 1) {
		json_object_set_new(all, "sample", json_integer(run->options.sample));
		json_object_set_new(all, "sampled", json_integer((json_int_t)run->taken));
	}
	for (unsigned i = 0; i < run->stage_count; i++) {
		json_t *report = report_of(run, i);

		if (!report) {
			json_decref(all);
			return pr_error_null(err, "stage %s: no memory for its report",
				run->stages[i]->name);
		}
		json_object_set_new(all, run->stages[i]->name, report);
	}
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text ? text : pr_error_null(err, "no memory for a report");
}

void
pri_stage_end(struct pri_stage_run **at)
{
	struct pri_stage_run *run = PR_TAKE(at);

	if (!run)
		return;
	pthread_mutex_lock(&run->lock);
	run->stop = true;
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->lock);
	for (unsigned i = 0; i < run->started; i++)
		pthread_join(run->workers[i].thread, NULL);
	for (unsigned i = 0; i < run->states; i++)
		for (unsigned j = 0; j < run->stage_count; j++)
			if (run->workers[i].state[j])
				run->stages[j]->close(run->workers[i].state[j]);
	for (size_t i = 0; i < BATCHES; i++) {
		struct batch *b = &run->batches[i];

		for (size_t j = 0; j < b->count; j++)
			free(b->items[j].p.line);
		PR_FREE(b, items, bytes);
	}
	pthread_mutex_destroy(&run->lock);
	pthread_cond_destroy(&run->changed);
	free(run);
}
