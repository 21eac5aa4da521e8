/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stage of one's own: packets that are larger than a size, and how many there were.
 *
 *	cc -shared -fPIC -o large.so stage_example.c
 *	packrack stage ./large.so -o than=1000 -r trace.pcap
 */
#include <packrack-stage.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct large {
	unsigned long than, found;
};

static void *
large_open(const char *const *options, char *error, size_t size)
{
	struct large *l = calloc(1, sizeof(*l));

	for (; l && *options; options++) /* only such as are listed below */
		l->than = strtoul(*options + strlen("than="), NULL, 10);
	if (!l)
		snprintf(error, size, "no memory");
	return l;
}

static int
large_packet(void *state, struct packrack_packet *p)
{
	struct large *l = state;
	int large = p->len > l->than;

	l->found += large;
	return large;
}

static int
large_add(void *state, void *other)
{
	((struct large *)state)->found += ((struct large *)other)->found;
	return 0;
}

static char *
large_report(void *state)
{
	char *text = malloc(64);

	if (text)
		snprintf(text, 64, "{\"found\": %lu}", ((struct large *)state)->found);
	return text;
}

static const char *const options[] = {"than: bytes", NULL};

const struct packrack_stage packrack_stage = {PACKRACK_STAGE_VERSION, PACKRACK_STAGE_GIVES,
	"large", "packets larger than a size", options, large_open, large_packet, NULL,
	large_add, large_report, free};
