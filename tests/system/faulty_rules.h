/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What the faulty switch does to a frame: pure, no I/O, all chance from the seed. Shares no code
 * with the programs under test; frames are told apart by Ethertype and type byte alone.
 *
 * A rule: CLASS[@FROM>TO]:ACTION[,ACTION...], FROM and TO interfaces or *. Actions:
 *   loss=P             P percent are lost
 *   burst=N/M          of every M frames the last N are lost
 *   drop-nth=N         the Nth is lost, once
 *   drop-last-before=C the last one before a frame of class C comes, once
 *   dup=P              P percent go twice
 *   reorder=P/W        P percent go 1 to W frames later than they came
 *   delay=P/MS         P percent go up to MS milliseconds later
 *   corrupt=P          in P percent one bit is turned, anywhere in the frame
 *   pad=P/N            P percent grow by N zero bytes
 * Chance and counts are kept for each rule and destination apart, so what happens to a frame does
 * not depend on what else the switch carries.
 */
#define FR_PORTS 65
#define FR_RULES 32

static const char *const fr_classes[] = {"data", "ANN", "ANN_ACK", "STATUS", "TSLOG",
	"MARK", "RESEND", "GONE", "STOP", "QUIT", "IDENTIFY", "RESET", "DISCONNECT",
	"RECONNECT", "other", "any", "control"};
enum {
	FR_DATA = 0,
	FR_OTHER = 14,
	FR_CLASSES = 15,
	FR_ANY = 15,
	FR_CONTROL = 16,
	FR_NAMES = 17
};

enum fr_action {
	FR_LOSS,
	FR_BURST,
	FR_NTH,
	FR_LAST,
	FR_DUP,
	FR_REORDER,
	FR_DELAY,
	FR_CORRUPT,
	FR_PAD,
	FR_ACTIONS
};
static const char *const fr_actions[] = {"loss", "burst", "drop-nth", "drop-last-before",
	"dup", "reorder", "delay", "corrupt", "pad"};

struct fr_param {
	bool on;
	double a, b; /* as in the list above */
};

struct fr_rule {
	int class, last_before;
	char from[16], to[16];
	struct fr_param action[FR_ACTIONS];
	uint64_t random[FR_PORTS], count[FR_PORTS];
	bool spent[FR_PORTS];
};

/* What shall become of one frame on its way to one port. */
struct fr_verdict {
	bool lost, twice;
	struct fr_rule *last; /* it may be the last one that this rule shall lose */
	unsigned later_frames, later_ms, pad;
	uint64_t corrupt; /* 0, or a random number that says which bit */
};

static inline uint64_t
fr_random(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static inline bool
fr_chance(uint64_t *state, double percent)
{
	return (double)(fr_random(state) >> 11) * 0x1p-53 * 100.0 < percent;
}

static inline int
fr_class_by_name(const char *name)
{
	for (int i = 0; i < FR_NAMES; i++)
		if (strcmp(fr_classes[i], name) == 0)
			return i;
	return -1;
}

static inline int
fr_classify(const uint8_t *frame, size_t len, unsigned ethertype)
{
	if (len < 16 || (unsigned)(frame[12] << 8 | frame[13]) != ethertype)
		return FR_DATA;
	return frame[15] >= 1 && frame[15] < FR_OTHER ? frame[15] : FR_OTHER;
}

static inline bool
fr_parse_action(struct fr_rule *rule, const char *text)
{
	const char *value = strchr(text, '=');
	char *end;
	for (int i = 0; value && i < FR_ACTIONS; i++) {
		struct fr_param *p = &rule->action[i];
		if (strlen(fr_actions[i]) != (size_t)(value - text) ||
			strncmp(text, fr_actions[i], (size_t)(value - text)) != 0)
			continue;
		p->on = true;
		if (i == FR_LAST)
			return (rule->last_before = fr_class_by_name(value + 1)) >= 0;
		p->a = strtod(value + 1, &end);
		bool two = i == FR_BURST || i == FR_REORDER || i == FR_DELAY || i == FR_PAD;
		if (two && *end == '/')
			p->b = strtod(end + 1, &end);
		return *end == '\0' && p->a > 0 && (!two || p->b >= 1);
	}
	return false;
}

static inline bool
fr_parse_ports(struct fr_rule *rule, char *text)
{
	char *to = strchr(text, '>');
	if (!to)
		return false;
	*to++ = '\0';
	snprintf(rule->from, sizeof(rule->from), "%s", text);
	snprintf(rule->to, sizeof(rule->to), "%s", to);
	return true;
}

/* Changes text. false: not a rule. */
static inline bool
fr_parse(struct fr_rule *rule, char *text, uint64_t seed)
{
	memset(rule, 0, sizeof(*rule));
	strcpy(rule->from, "*");
	strcpy(rule->to, "*");
	for (unsigned port = 0; port < FR_PORTS; port++) {
		rule->random[port] = seed * 1000003u + port;
		fr_random(&rule->random[port]);
	}
	char *actions = strchr(text, ':'), *save = NULL;
	if (!actions)
		return false;
	*actions++ = '\0';
	char *ports = strchr(text, '@');
	if (ports) {
		*ports++ = '\0';
		if (!fr_parse_ports(rule, ports))
			return false;
	}
	rule->class = fr_class_by_name(text);
	if (rule->class < 0 || !*actions)
		return false;
	for (char *a = strtok_r(actions, ",", &save); a; a = strtok_r(NULL, ",", &save))
		if (!fr_parse_action(rule, a))
			return false;
	return true;
}

static inline bool
fr_matches(const struct fr_rule *rule, int class, const char *from, const char *to)
{
	bool is = rule->class == class || rule->class == FR_ANY ||
		  (rule->class == FR_CONTROL && class != FR_DATA);
	return is && (rule->from[0] == '*' || strcmp(rule->from, from) == 0) &&
	       (rule->to[0] == '*' || strcmp(rule->to, to) == 0);
}

static inline bool
fr_loses(struct fr_rule *rule, int port)
{
	const struct fr_param *burst = &rule->action[FR_BURST],
			      *nth = &rule->action[FR_NTH];
	uint64_t n = rule->count[port]++;
	if (burst->on && n % (uint64_t)burst->b >= (uint64_t)(burst->b - burst->a))
		return true;
	if (nth->on && n + 1 == (uint64_t)nth->a)
		return true;
	return rule->action[FR_LOSS].on &&
	       fr_chance(&rule->random[port], rule->action[FR_LOSS].a);
}

static inline void
fr_apply(struct fr_rule *rule, int port, struct fr_verdict *v)
{
	uint64_t *random = &rule->random[port];
	const struct fr_param *a = rule->action;
	if (fr_loses(rule, port)) {
		v->lost = true;
		return;
	}
	if (a[FR_LAST].on && !rule->spent[port])
		v->last = rule;
	if (a[FR_DUP].on && fr_chance(random, a[FR_DUP].a))
		v->twice = true;
	if (a[FR_REORDER].on && fr_chance(random, a[FR_REORDER].a))
		v->later_frames =
			1 + (unsigned)(fr_random(random) % (uint64_t)a[FR_REORDER].b);
	if (a[FR_DELAY].on && fr_chance(random, a[FR_DELAY].a))
		v->later_ms = 1 + (unsigned)(fr_random(random) % (uint64_t)a[FR_DELAY].b);
	if (a[FR_CORRUPT].on && fr_chance(random, a[FR_CORRUPT].a))
		v->corrupt = fr_random(random) | 1;
	if (a[FR_PAD].on && fr_chance(random, a[FR_PAD].a))
		v->pad = (unsigned)a[FR_PAD].b;
}
