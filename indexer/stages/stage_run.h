/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "indexer/stages/packrack-stage.h"
#include "proto/base/text.h"
#include "proto/wire/source.h"

/*
 * Runs stages over packets that come in order, on several cores: sharded (each shard does all stages on its packets) or as
 * a pipeline (a thread for each stage), the two ways of the paper. What comes out is in the order of what went in.
 */
#define PRI_STAGE_SHARDS 64
#define PRI_STAGE_MOST 8 /* stages in a row */

/* By name, or by the path of a shared object (it has a slash). NULL: err. */
const struct packrack_stage *pri_stage_find(const char *name, struct pr_error *err);
/* Those that packrack has; NULL at the end. */
extern const struct packrack_stage *const pri_stages[];

struct pri_stage_options {
	unsigned shards; /* threads; 1: the caller's alone */
	bool pipeline;
	uint32_t
		sample; /* 1 in so many packets; of stages that keep state, of connections. 0, 1: all */
	struct pr_string_list
		set; /* KEY=VALUE, to the stages that have KEY, or STAGE.KEY=VALUE */
	/* Take what comes out; p is valid during the call. NULL: nobody wants it. -1: err. */
	int (*give)(void *arg, const struct pr_packet *p, struct pr_error *err);
	int (*print)(void *arg, const char *line, struct pr_error *err);
	void *arg;
};

struct pri_stage_run;
/* names: separated by commas. options are copied, their strings not. */
struct pri_stage_run *pri_stage_start(
	const char *names, const struct pri_stage_options *options, struct pr_error *err);
/* Packets are copied unless one thread does it all. -1: err, also if a packet before failed. */
int pri_stage_packet(
	struct pri_stage_run *run, const struct pr_packet *p, struct pr_error *err);
/* Gives what is complete, as the source pauses. */
int pri_stage_pause(struct pri_stage_run *run, struct pr_error *err);
/*
 * All have been taken: the report of each stage, an object of JSON with the stages' names, to be freed. Also what was
 * sampled, and with how many shards. NULL: err.
 */
char *pri_stage_finish(struct pri_stage_run *run, struct pr_error *err);
/* Has one of them this flag? */
bool pri_stage_any(const struct pri_stage_run *run, uint32_t flag);
void pri_stage_end(struct pri_stage_run **run);
