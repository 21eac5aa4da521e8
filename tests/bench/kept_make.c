/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a volume of many kept flows of the flows of another one: their ports, sizes and times as they are, each seen from
 * other hosts, spread over days with busy hours. Addresses are heavy-tailed: host n comes about 1/n as often as the first.
 *
 *   kept_make FROM TO RECORDS DAYS      the last window ends at 2024-07-01
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"
#include "proto/base/array.h"

#define END ((int64_t)1719792000 * PR_NS_PER_S)
#define WINDOW (3600 * PR_NS_PER_S)
#define INSIDE 4000
#define OUTSIDE 400000

static struct pri_flow *flows;
static size_t flow_count;
static uint64_t state = 88172645463325252u;

static uint64_t
next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double
uniform(void)
{
	return (double)(next_random() >> 11) / 9007199254740992.0;
}

static uint32_t
zipf(uint32_t count)
{
	return (uint32_t)exp(uniform() * log(count));
}

static int
on_flow(void *arg, const struct pri_flow *flow, uint64_t missing, uint64_t row,
	struct pr_error *err)
{
	(void)arg, (void)missing, (void)row;
	if (PR_ARRAY_GROW(flows, flow_count) < 0)
		return pr_error_set(err, "no memory");
	flows[flow_count++] = *flow;
	return 0;
}

static bool
is_inside(const uint8_t *a)
{
	return a[0] == 10 || (a[0] == 192 && a[1] == 168) ||
	       (a[0] == 172 && a[1] >> 4 == 1);
}

/* Another host of the same kind: inside or outside, 4 or 6. */
static void
change_address(uint8_t *a, unsigned len)
{
	bool inside = len == 4 && is_inside(a);
	uint32_t host = zipf(inside ? INSIDE : OUTSIDE), mixed = host * 2654435761u;

	if (len == 4 && inside) {
		a[0] = 10;
		a[1] = (uint8_t)(host % 7);
		a[2] = (uint8_t)(host >> 8);
		a[3] = (uint8_t)host;
	} else if (len == 4) {
		for (int i = 0; i < 4; i++)
			a[i] = (uint8_t)(mixed >> (24 - 8 * i));
		a[0] = a[0] % 200 + 11;
	} else {
		memcpy(a + 12, &mixed, 4);
	}
}

static void
shift(int64_t *time, int64_t by)
{
	if (*time != PRI_FLOW_NEVER && *time != INT64_MIN)
		*time += by;
}

static void
make(struct pri_flow *f, int64_t now)
{
	int64_t by;

	*f = flows[next_random() % flow_count];
	by = now - pri_flow_last(f);
	for (int i = 0; i < 2; i++) {
		struct pri_flow_side *s = &f->side[i];
		uint64_t times = s->packets > 4 ? zipf(200) : 1;

		s->packets *= times;
		s->bytes = s->bytes * times + (s->payload ? next_random() % 97 : 0);
		s->payload *= times;
		change_address(f->key.address[i], f->key.address_len);
		if (f->key.port[i] >= 1024)
			f->key.port[i] = (uint16_t)(1024 + next_random() % 64000);
		shift(&s->first, by);
		shift(&s->last, by);
		shift(&s->syn, by);
		shift(&s->syn_ack, by);
		shift(&s->fin, by);
		shift(&s->rst, by);
	}
	shift(&f->last_syn, by);
}

static int
fill(struct flow_keeper *k, uint64_t count, int64_t days, struct pr_error *err)
{
	int64_t windows = days * 86400 * PR_NS_PER_S / WINDOW, at = END - windows * WINDOW;
	double sum = 0, each;
	struct pri_flow f;

	for (int64_t i = 0; i < windows; i++)
		sum += 1 + 0.7 * sin((double)i * 2 * M_PI * WINDOW / 86400e9);
	for (int64_t i = 0; i < windows; i++, at += WINDOW) {
		each = (double)count *
		       (1 + 0.7 * sin((double)i * 2 * M_PI * WINDOW / 86400e9));
		uint64_t n = (uint64_t)(each / sum);
		struct flow_window w = {
			.since = at, .until = at + WINDOW, .complete = true};

		for (uint64_t j = 0; j < n; j++) {
			int64_t now =
				at + (int64_t)((double)WINDOW * (double)j / (double)n);

			make(&f, now);
			w.packets += f.side[0].packets + f.side[1].packets;
			if (flow_keeper_put(k, &f, 0, now, err) < 0)
				return -1;
		}
		if (flow_keeper_commit(k, &w, NULL, err) < 0)
			return -1;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct query_args all = QUERY_ARGS;
	const struct pr_string_list of = {&argv[1], 1};
	const struct flow_taker taker = {.take = on_flow, .columns = PRI_COLUMNS_ALL};
	struct flow_kept *from = NULL;
	struct flow_keeper *k = NULL;
	struct pr_error err = {.text = "usage: kept_make FROM TO RECORDS DAYS"};
	int rc = 1;

	all.since = PR_TIME_MIN;
	all.until = PR_TIME_MAX;
	all.quiet = true;
	if (argc == 5 && (from = flow_kept_open_all(&of, &all, &err)) &&
		flow_kept_read(from, NULL, &taker, 1, &err) == 0 && flow_count &&
		(k = flow_keeper_open(argv[2], false, &err)) &&
		fill(k, strtoull(argv[3], NULL, 10), atoll(argv[4]), &err) == 0)
		rc = 0;
	if (rc)
		fprintf(stderr, "kept_make: %s\n", err.text);
	flow_keeper_close(&k);
	flow_kept_close(&from);
	free(flows);
	return rc;
}
