/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_filter.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter/filter.h"
#include "indexer/filter/plan.h"
#include "indexer/flows/flow_columns.h"
#include "indexer/index/packet_fields.h"
#include "proto/base/array.h"
#include "proto/base/units.h"
#include "proto/wire/beyond.h"

#define TERMS_MAX 32
#define TERMS_AT 200 /* in the packet that is tested, behind all headers */
#define FRAME (TERMS_AT + TERMS_MAX)
#define LOAD_LENGTH 0x80 /* instruction: BPF_LD | BPF_LEN */

enum { SENT = 1, RECEIVED = 2, BOTH = SENT | RECEIVED };
#define AT(member) offsetof(struct pri_flow_side, member)
static const struct attribute {
	const char *name;
	unsigned sides; /* 0: not a sum of sides' */
	size_t field; /* of a side */
} attributes[] = {{"bytes", BOTH, AT(bytes)}, {"packets", BOTH, AT(packets)},
	{"payload", BOTH, AT(payload)}, {"bytes_sent", SENT, AT(bytes)},
	{"bytes_recv", RECEIVED, AT(bytes)}, {"packets_sent", SENT, AT(packets)},
	{"packets_recv", RECEIVED, AT(packets)}, {"duration", 0, 0}, {"state", 0, 0}};
#define DURATION (&attributes[PR_COUNT(attributes) - 2])
#define STATE (&attributes[PR_COUNT(attributes) - 1])

enum { LESS = 1, EQUAL = 2, MORE = 4 };
static const struct comparison {
	const char *text;
	unsigned holds; /* if the value is this to what is given */
} comparisons[] = {{">=", MORE | EQUAL}, {"<=", LESS | EQUAL}, {"!=", LESS | MORE},
	{"==", EQUAL}, {"=", EQUAL}, {">", MORE}, {"<", LESS}};

struct term {
	const struct attribute *attribute;
	unsigned holds;
	uint64_t value;
};

struct pri_flow_filter {
	struct term terms[TERMS_MAX];
	size_t count;
	struct pr_bpf *program;
};

/* ---- attributes in the text ---- */

#define VALUE_MAX 64

/* An attribute, a comparison and a value ("": none) at `p`, which end after *len bytes. False: there is none. */
static bool
term_read(const char *p, struct term *out, char value[VALUE_MAX], int *len)
{
	char name[16], comparison[3];

	*value = '\0';
	*out = (struct term){.attribute = NULL};
	if (sscanf(p, "%15[a-z_] %2[<>!=] %63[^ \t\n()&|]%n", name, comparison, value,
		    len) < 2)
		return false;
	for (size_t i = 0; i < PR_COUNT(attributes); i++)
		if (!strcmp(attributes[i].name, name))
			out->attribute = &attributes[i];
	for (size_t i = 0; i < PR_COUNT(comparisons); i++)
		if (!strcmp(comparisons[i].text, comparison))
			out->holds = comparisons[i].holds;
	return out->attribute && out->holds;
}

static int
value_parse(struct term *t, const char *text, struct pr_error *err)
{
	bool duration = t->attribute == DURATION;

	if (t->attribute == STATE) {
		if (t->holds != EQUAL && t->holds != (LESS | MORE))
			return pr_error_set(err, "state is compared by = or !=");
		t->value = pri_flow_state_find(text);
		if (t->value < PRI_FLOW_STATES)
			return 0;
		return pr_error_set(err,
			"state '%s': there are S0, S1, S2, S3, SF, REJ, RSTO, RSTR, "
			"RSTOS0, RSTRH, SH, SHR and OTH",
			text);
	}
	if (duration ? pr_parse_duration(text, (int64_t *)&t->value) < 0
		     : pr_parse_count(text, &t->value) < 0)
		return pr_error_set(err, "%s: '%s' is not a %s", t->attribute->name, text,
			duration ? "duration, as in 10s or 5m"
				 : "number, as in 1500 or 1M");
	return 0;
}

/* Writes the text with `ether[N] = 1` in the place of each attribute. */
static int
terms_take(struct pri_flow_filter *f, const char *text, FILE *to, struct pr_error *err)
{
	bool word = false; /* the character before is one of a word */
	int depth = 0; /* in [], where names are offsets' */

	for (const char *p = text; *p;) {
		bool begins = !word && depth == 0;
		char value[VALUE_MAX];
		struct term t;
		int len = 0;

		/* it moves the place from which bytes count; no flow has it */
		if (begins && !strncmp(p, "pppoes", 6))
			return pr_error_set(err, "pppoes: a flow does not say what carried "
						 "it; filter packets by it");
		word = isalnum((unsigned char)*p) || strchr("_-.:", *p);
		depth += (*p == '[') - (*p == ']');
		if (!begins || !term_read(p, &t, value, &len)) {
			fputc(*p++, to);
			continue;
		}
		if (f->count == TERMS_MAX)
			return pr_error_set(err, "at most %d attributes", TERMS_MAX);
		if (value_parse(&t, value, err) < 0)
			return -1;
		f->terms[f->count] = t;
		fprintf(to, "(ether[%zu] = 1)", TERMS_AT + f->count++);
		p += len;
		word = true;
	}
	return 0;
}

struct pri_flow_filter *
pri_flow_filter_create(const char *text, struct pr_error *err)
{
	struct pri_flow_filter *f = calloc(1, sizeof(*f));
	char *packets = NULL;
	size_t size;
	FILE *to = open_memstream(&packets, &size);
	int rc = -1;

	if (!f || !to)
		pr_error_set(err, "no memory for the filter");
	else
		rc = terms_take(f, text, to, err);
	if (to && fclose(to) != 0)
		rc = -1;
	if (rc == 0 &&
		!(f->program = pri_filter_compile(PR_LINKTYPE_ETHERNET, packets, err)))
		rc = -1;
	for (size_t i = 0; rc == 0 && i < f->program->count; i++)
		if (f->program->insns[i].code == LOAD_LENGTH)
			rc = pr_error_set(err,
				"less, greater and len are tests of a packet: of a flow, "
				"use bytes, as in bytes > 1M");
	free(packets);
	if (rc < 0)
		pri_flow_filter_destroy(&f);
	return f;
}

void
pri_flow_filter_destroy(struct pri_flow_filter **filter)
{
	if (*filter)
		pr_bpf_destroy(&(*filter)->program);
	free(PR_TAKE(filter));
}

/* ---- a flow ---- */

static uint64_t
value_of(const struct pri_flow *flow, const struct attribute *a)
{
	uint64_t sum = 0;

	if (a == STATE)
		return pri_flow_state(flow);
	if (a == DURATION)
		return (uint64_t)pri_flow_last(flow) - (uint64_t)pri_flow_first(flow);
	for (unsigned i = 0; i < 2; i++) {
		const struct pri_flow_side *s = &flow->side[flow->originator ^ i];

		if (a->sides >> i & 1)
			sum += *(const uint64_t *)((const char *)s + a->field);
	}
	return sum;
}

/*
 * Ethernet, IP and 20 bytes of the transport header, of a packet from who began the flow, with the TCP flags of all its
 * packets (ICMP: type and code). The frame is zero.
 */
static void
put_headers(const struct pri_flow *flow, uint8_t *frame)
{
	const struct pri_flow_key *k = &flow->key;
	bool ports = pri_has_ports(k->protocol);
	unsigned o = flow->originator;
	struct pr_connection c = {
		.vlan = k->vlan, .protocol = k->protocol, .address_len = k->address_len};

	for (unsigned i = 0; i < 2; i++) {
		memcpy(c.address[i], k->address[o ^ i], k->address_len);
		c.port[i] = ports ? k->port[o ^ i] : 0;
	}
	uint8_t *at = frame + pr_headers_put(&c, frame);
	if (ports) {
		at[12] = 0x50;
		at[13] = flow->side[0].flags | flow->side[1].flags;
	} else {
		pri_flow_icmp(flow, &at[0], &at[1]);
	}
}

bool
pri_flow_filter_match(const struct pri_flow_filter *f, const struct pri_flow *flow)
{
	uint8_t frame[FRAME] = {0};
	const struct pr_packet packet = {.linktype = PR_LINKTYPE_ETHERNET,
		.link = flow->key.link,
		.caplen = FRAME,
		.len = FRAME,
		.time = pri_flow_first(flow),
		.otime = pri_flow_first(flow),
		.data = frame};

	put_headers(flow, frame);
	for (size_t i = 0; i < f->count; i++) {
		const struct term *t = &f->terms[i];
		uint64_t v = value_of(flow, t->attribute);

		frame[TERMS_AT + i] = (t->holds & (v < t->value          ? LESS
							  : v > t->value ? MORE
									 : EQUAL)) != 0;
	}
	return pr_bpf_run(f->program, &packet) != 0;
}

uint64_t
pri_flow_filter_columns(const struct pri_flow_filter *f)
{
	uint64_t out = PRI_COLUMNS_KEY | PRI_COLUMN_OF_SIDES(PRI_SIDE_FLAGS) |
		       PRI_COLUMN_OF_SIDES(PRI_SIDE_ICMP);

	for (size_t i = 0; i < f->count; i++)
		out |= f->terms[i].attribute == STATE ? PRI_COLUMN(PRI_COL_STATE)
						      : PRI_COLUMNS_SUMS;
	return out;
}

struct pri_plan *
pri_flow_filter_plan(const struct pri_flow_filter *f, struct pr_error *err)
{
	return pri_plan_create(f->program, NULL, err);
}
