/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets into the cutoff. Covers dispatcher/cutoff.c dispatcher/rules.c proto/wire/beyond.c
 * Options -max_len=2048
 *
 * The input is a rule up to a zero byte, and packets: link, step of time, original length, length, bytes.
 */
#include <string.h>

#include "dispatcher/cutoff.h"
#include "tests/fuzz/fuzz.h"

enum { LINKS = 2, MEMORY = 24 << 10, HEAD = 4, RULE_MAX = 200 };

static struct prd_cutoff *
make(void)
{
	static char *texts[] = {(char *)"dns; filter = udp port 53; cutoff = 200; "
					"precedence = 1; snaplen = 60",
		(char *)"rest; cutoff = 100; keep = 1d"};
	const struct pr_string_list classes = {texts, 2};
	struct pr_error err;
	struct prd_cutoff *c = prd_cutoff_create(
		&(struct prd_cutoff_options){
			.classes = &classes, .memory = MEMORY, .links = LINKS},
		&err);

	MUST(c);
	return c;
}

static void
set_rule(struct prd_cutoff *c, const char *text)
{
	struct prd_rule rule;
	struct pr_error err;
	char key[129];

	for (int kind = PRD_RULE_SUSPEND; kind <= PRD_RULE_MOVE; kind++)
		if (prd_rule_parse(&rule, (enum prd_rule_kind)kind, text, &err) == 0) {
			MUST(memchr(rule.class, 0, sizeof rule.class));
			prd_rule_key(&rule, key, sizeof key);
			MUST(strlen(key) < sizeof key - 1);
			MUST(prd_cutoff_rule(c, &rule, true, &err) == 0);
		}
}

/* The same bytes as a class that comes, or goes, while connections are there. */
static void
set_class(struct prd_cutoff *c, const char *text)
{
	struct pr_error err;
	struct prd_classes *next =
		prd_classes_change(prd_cutoff_classes(c), text, text, &err);

	if (next)
		prd_cutoff_set_classes(c, next);
	next = prd_classes_change(prd_cutoff_classes(c), "rest", NULL, &err);
	MUST(next && !prd_classes_have(next, "rest"));
	prd_cutoff_set_classes(c, next);
}

static uint64_t cut_packets, cut_bytes;

/* Each sum is taken once, and can be read. */
static void
take(struct prd_cutoff *c, unsigned link, int64_t until)
{
	uint8_t frame[PR_BEYOND_MAX];
	struct pr_packet p = {.data = frame};
	struct pr_beyond b;
	int64_t time;

	while ((p.caplen = (uint32_t)prd_cutoff_take(c, link, until, frame, &time))) {
		MUST(pr_beyond_load(&p, &b));
		MUST(b.packets > 0 && b.number > 0 && b.first <= b.last);
		/* the last second of all ends before PR_TIME_MAX, which means that there is none */
		MUST(time == PR_TIME_MAX - 1 ||
			(pr_beyond_last(b.first) == time && b.last <= time));
		cut_packets -= b.packets;
		cut_bytes -= b.bytes;
	}
}

/* Any bytes as a sum: what is loaded is the same when it was stored. */
static void
load(const uint8_t *data, size_t len)
{
	struct pr_packet p = {.data = data, .caplen = (uint32_t)len};
	struct pr_beyond b = {.connection.address_len = 4}, again = b;
	uint8_t frame[PR_BEYOND_MAX];

	if (!pr_beyond_load(&p, &b))
		return;
	MUST(pr_beyond_store(&b, frame) == len);
	p.data = frame;
	p.caplen = (uint32_t)len;
	/* a name that is not plain text became one */
	MUST(pr_beyond_load(&p, &again) && !memcmp(&again, &b, sizeof b));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, 0, size < RULE_MAX ? size : RULE_MAX);
	int64_t time[LINKS] = {0, 0};
	struct prd_cutoff *c;
	size_t at;

	load(data, size);
	if (!end)
		return 0;
	c = make();
	set_rule(c, (const char *)data);
	cut_packets = cut_bytes = 0;
	for (at = (size_t)(end - data) + 1; at + HEAD <= size;) {
		unsigned link = data[at] & 1;
		uint32_t len = data[at + 3], caplen;
		uint8_t class;

		if (len > size - at - HEAD)
			len = (uint32_t)(size - at - HEAD);
		/* a little back, or on by up to a minute, or to the ends of time */
		time[link] = pr_time_minus(
			time[link], (data[at + 1] & 0x40 ? 1 : -1) *
					    (int64_t)(data[at + 1] & 0x3f) * PR_NS_PER_S);
		if (data[at + 1] >= 0xfe)
			time[link] = data[at + 1] == 0xff ? PR_TIME_MAX : PR_TIME_MIN;
		const uint32_t original = len + data[at + 2];
		if (data[at] & 4)
			prd_cutoff_look(c, link, data + at + HEAD, len);
		if (!prd_cutoff_keeps(
			    c, link, time[link], data + at + HEAD, len, original)) {
			cut_packets++;
			cut_bytes += original;
		}
		caplen = len;
		prd_cutoff_kept(c, &caplen, &class);
		MUST(caplen <= len && (class & ~PR_CLASS_BEYOND) <= PR_CLASS_MAX);
		if (data[at] & 8)
			set_class(c, (const char *)data);
		if (data[at] & 2)
			take(c, link, time[link]);
		at += HEAD + len;
	}
	for (unsigned i = 0; i < LINKS; i++) {
		take(c, i, PR_TIME_MAX);
		MUST(prd_cutoff_oldest(c, i) == PR_TIME_MAX);
	}
	MUST(cut_packets == 0 && cut_bytes == 0);
	MUST(prd_cutoff_figures(c)->connections <=
		prd_cutoff_figures(c)->connections_begun);
	prd_cutoff_destroy(&c);
	return 0;
}
