/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dispatcher/cutoff.h"

#include <errno.h>
#include <sodium.h>
#include <netinet/in.h>
#include <sys/mman.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "proto/base/cursor.h"
#include "proto/base/options.h"
#include "proto/base/units.h"
#include "proto/port/trace.h"
#include "proto/wire/decode.h"

/* ---- a table of a fixed size: hash chains, and all entries in the order in which they were touched ---- */

struct key {
	struct pr_connection of;
	uint16_t link;
};
#define KEY_BYTES (offsetof(struct key, link) + sizeof(uint16_t))

/* FIN or RST was seen; a packet was beyond the cutoff; a packet's IP header was behind more than one tag; the XDP program drops its packets */
enum { CLOSED = 1, CUT = 2, ENCAPSULATED = 4, SHUNTED = 8 };

/* What each packet needs: one cache line. */
struct entry {
	struct key key;
	uint8_t class, flags;
	uint32_t next; /* of its bucket, or of the free ones */
	int64_t last;
	uint64_t bytes;
};
_Static_assert(sizeof(struct entry) == 64, "an entry is a cache line");

struct rest {
	uint64_t number; /* 0: free. Of a fragment: its connection's */
	uint32_t newer, older;
	uint32_t at
		[2]; /* places of the sums of both directions. Of a fragment: slot of the connection, its sender's end */
};

/* Slots are numbered from 1; slot 0 joins the ends of the order: its newer is the oldest. */
struct table {
	struct entry *entries;
	struct rest *rests;
	uint32_t *buckets;
	uint32_t room, used, count, free;
	uint64_t seed;
};
/* for each slot: a full table has its entry first in its bucket in four of five cases */
enum { BUCKETS = 2 };
#define SLOT_BYTES (sizeof(struct entry) + sizeof(struct rest) + BUCKETS * sizeof(uint32_t))

static uint32_t *
bucket_of(const struct table *t, const struct key *key)
{
	uint64_t hash = XXH3_64bits_withSeed(key, KEY_BYTES, t->seed);

	return &t->buckets[(hash >> 32) * BUCKETS * t->room >> 32];
}

static inline bool
same(const struct key *a, const struct key *b)
{
	const uint8_t *x = (const uint8_t *)a, *y = (const uint8_t *)b;
	uint64_t differ = pr_get_le16(x + 40) ^ pr_get_le16(y + 40);

	_Static_assert(KEY_BYTES == 42, "compared by 8 bytes, and 2");
	for (size_t i = 0; i < 40; i += 8)
		differ |= pr_get_le64(x + i) ^ pr_get_le64(y + i);
	return !differ;
}

static uint32_t
find_in(const struct table *t, const uint32_t *bucket, const struct key *key)
{
	uint32_t i = *bucket;

	while (i && !same(&t->entries[i].key, key))
		i = t->entries[i].next;
	return i;
}

static uint32_t
find(const struct table *t, const struct key *key)
{
	return find_in(t, bucket_of(t, key), key);
}

static void
unlink_slot(struct table *t, uint32_t i)
{
	struct rest *r = &t->rests[i];

	t->rests[r->older].newer = r->newer;
	t->rests[r->newer].older = r->older;
}

static void
link_newest(struct table *t, uint32_t i)
{
	struct rest *r = &t->rests[i];

	r->older = t->rests[0].older;
	r->newer = 0;
	t->rests[r->older].newer = i;
	t->rests[0].older = i;
}

static void
touch(struct table *t, uint32_t i)
{
	unlink_slot(t, i);
	link_newest(t, i);
}

static void
drop(struct table *t, uint32_t i)
{
	uint32_t *at = bucket_of(t, &t->entries[i].key);

	while (*at != i)
		at = &t->entries[*at].next;
	*at = t->entries[i].next;
	unlink_slot(t, i);
	t->rests[i].number = 0;
	t->entries[i].next = t->free;
	t->free = i;
	t->count--;
}

/* There is room. */
static uint32_t
add(struct table *t, const struct key *key)
{
	uint32_t *bucket = bucket_of(t, key), i = t->free ? t->free : ++t->used;
	struct entry *e = &t->entries[i];

	if (t->free)
		t->free = e->next;
	e->key = *key;
	e->next = *bucket;
	*bucket = i;
	link_newest(t, i);
	t->count++;
	return i;
}

/* ---- classes ---- */

struct class
{
	char name[PR_NAME_MAX + 1];
	struct pr_packet_filter *filter;
	int64_t precedence;
	uint64_t cutoff;
	uint32_t snaplen;
	bool full; /* what is beyond the cutoff is sent, too */
	/* How nodes keep it, and its copies of shorter degrees, by enum pr_degree. Number 0: as all else; no such copy */
	struct pr_class stored[PR_DEGREES];
};

struct packet {
	struct key key;
	uint8_t from; /* which end of its key sends */
	uint8_t tcp_flags;
	bool plain; /* as read_plain has it */
};

static struct packet
no_packet(unsigned link)
{
	return (struct packet){
		.key = {.of = {.vlan = PR_UNTAGGED}, .link = (uint16_t)link}};
}

/* A packet that comes soon. bucket NULL: it is not plain. */
struct looked {
	const uint8_t *data;
	const uint32_t *bucket;
	struct packet p;
};
enum { LOOKED = 16 };
_Static_assert(LOOKED > PRD_CUTOFF_AHEAD, "also that which is passed");

struct link {
	int64_t latest, begin, end; /* time, and its second: first and last ns */
	struct sum *sums; /* a ring */
	uint32_t oldest, count;
	int64_t collected; /* of shunted connections, all before this time came into sums */
	uint64_t shunted_packets, shunted_bytes; /* since they were asked for */
	uint32_t looks, passed; /* packets looked at; of these, those that came */
	struct looked looked[LOOKED];
};

struct active_rule {
	struct prd_rule rule;
	UT_hash_handle hh; /* by connection or address, and kind */
};
#define RULE_KEY (offsetof(struct prd_rule, kind) + sizeof(uint8_t))

/* A connection that is shunted. */
struct shunted {
	struct key key;
	uint8_t class;
	bool ended; /* when its sums were taken before */
	int place; /* in the program's array */
	uint32_t slot; /* of the connection, if its number is the same yet */
	uint64_t number;
};

struct prd_cutoff {
	struct pr_shunts *shunts; /* or NULL */
	struct shunted *shunted;
	uint32_t shunted_count;
	struct active_rule *rules;
	struct prd_classes *classes;
	struct table connections, fragments;
	struct link *links;
	uint32_t sums_room; /* of each link */
	uint64_t numbers;
	const struct class *kept; /* of the last packet */
	bool kept_beyond; /* of the last packet: only a full degree has it */
	struct prd_cutoff_figures figures;
	void *memory;
	size_t memory_bytes;
};

/* A slot is of one name for good: connections know their class by it. The last slot is of no class. */
struct prd_classes {
	struct class slots[PRD_CLASSES_MAX + 1];
	uint8_t order
		[PRD_CLASSES_MAX]; /* slots of the classes that there are, as they are tested */
	unsigned count; /* of them */
	unsigned used; /* slots */
};

enum { GUARANTEE_MAX = 950 }; /* in 1/1000 of a volume */

#define PR_VALUES struct class_values
struct class_values {
	char *filter, *precedence, *cutoff, *guarantee, *memory, *degrees;
	uint64_t snaplen;
	int64_t keep;
};
static const struct pr_option class_keys[] = {
	PR_OPT_STRING(filter, "filter", 0, "FILTER", "connections by their first packet"),
	PR_OPT_STRING(precedence, "precedence", 0, "N", "the highest counts", .def = "0"),
	PR_OPT_STRING(cutoff, "cutoff", 0, "SIZE", "bytes kept", .def = "none"),
	PR_OPT_UINT(snaplen, "snaplen", 0, "BYTES", 1, 262144, "kept of a packet"),
	PR_OPT_STRING(guarantee, "guarantee", 0, "PERCENT", "of each node's volume"),
	PR_OPT_STRING(memory, "memory", 0, "PERCENT", "of each node's shared memory"),
	PR_OPT_DURATION(keep, "keep", 0, "DURATION", PR_NS_PER_S,
		36500 * UINT64_C(86400) * PR_NS_PER_S, "remove what is older"),
	PR_OPT_STRING(degrees, "degrees", 0, "LIST", "full 3d, cut 30d, headers 180d"),
};
static const struct pr_cmdline class_text = {
	.name = "packrack-dispatcher", .section = "class NAME", PR_OPTIONS(class_keys)};

static int
set_percent(uint16_t *to, const char *key, const char *text, struct pr_error *err)
{
	double percent;

	if (pr_parse_percent(text, &percent) < 0 || percent > GUARANTEE_MAX / 10)
		return pr_error_set(err, "%s: '%s' is not a percentage up to %d%%", key,
			text, GUARANTEE_MAX / 10);
	*to = (uint16_t)(percent * 10);
	return 0;
}

/* `full 3d 20%`: what is written, how long it is kept, and what part of the volume it has at least. */
static int
set_degree(struct class *class, char *text, int64_t *longest, struct pr_error *err)
{
	static const char *const names[] = {"full", "cut", "headers"};
	char *rest, *words[4] = {NULL};
	unsigned count = 0, i = 0;
	bool first = *longest == 0;

	for (char *word = strtok_r(text, " \t", &rest); word && count < PR_COUNT(words);
		word = strtok_r(NULL, " \t", &rest))
		words[count++] = word;
	while (count && i < PR_COUNT(names) && strcmp(words[0], names[i]) != 0)
		i++;
	if (count < 2 || count > 3 || i == PR_COUNT(names))
		return pr_error_set(err, "degrees: each is 'full', 'cut' or 'headers', a "
					 "duration, and perhaps "
					 "a guarantee: 'full 3d 20%%, headers 180d'");
	struct pr_class *to =
		&class->stored[first ? PR_DEGREE_NONE : PR_DEGREE_CUT + i - 1];
	if ((first && i == 2) || (!first && (i == 0 || to->keep)))
		return pr_error_set(err,
			"degrees: '%s' is out of order: full or cut first, then what is "
			"shorter",
			names[i]);
	if (pr_parse_duration(words[1], &to->keep) < 0 || to->keep <= *longest)
		return pr_error_set(err,
			"degrees: %s '%s' is not a duration longer than that of the degree "
			"before it",
			names[i], words[1]);
	*longest = to->keep;
	class->full |= i == 0;
	return words[2] ? set_percent(&to->guarantee, "guarantee", words[2], err) : 0;
}

static int
set_degrees(struct class *class, char *text, struct pr_error *err)
{
	int64_t longest = 0;
	char *rest;

	for (char *part = strtok_r(text, ",", &rest); part;
		part = strtok_r(NULL, ",", &rest))
		if (set_degree(class, part, &longest, err) < 0)
			return -1;
	return longest ? 0 : pr_error_set(err, "degrees: the list is empty");
}

static int
set_class(struct class *class, const struct class_values *v, struct pr_error *err)
{
	struct pr_class *stored = &class->stored[PR_DEGREE_NONE];
	char *end = v->precedence;

	errno = 0;
	class->precedence = v->precedence ? strtoll(v->precedence, &end, 10) : 0;
	if (v->precedence && (errno || *end || end == v->precedence))
		return pr_error_set(err,
			"precedence: '%s' is not a whole number (like 10 or -1)",
			v->precedence);
	class->cutoff = PRD_CUTOFF_NONE;
	if (v->cutoff && strcmp(v->cutoff, "none") != 0 &&
		pr_parse_size(v->cutoff, &class->cutoff) < 0)
		return pr_error_set(err,
			"cutoff: '%s' is neither a size (like 15K) nor none", v->cutoff);
	if (v->degrees && (v->guarantee || v->keep))
		return pr_error_set(err, "degrees: they have `keep` and `guarantee` "
					 "themselves: 'full 3d 20%%'");
	stored->keep = v->keep;
	if ((v->degrees && set_degrees(class, v->degrees, err) < 0) ||
		(v->guarantee && set_percent(&stored->guarantee, "guarantee", v->guarantee,
					 err) < 0) ||
		(v->memory && set_percent(&stored->memory, "memory", v->memory, err) < 0))
		return -1;
	class->snaplen = v->snaplen ? (uint32_t)v->snaplen : UINT32_MAX;
	class->filter = pr_packet_filter_create(v->filter ? v->filter : "", err);
	return class->filter ? 0 : -1;
}

int
prd_class_name(const char *text, char name[PR_NAME_MAX + 1], struct pr_error *err)
{
	text += strspn(text, " ");
	size_t len = strcspn(text, ";\n"), plain;

	while (len && text[len - 1] == ' ')
		len--;
	if (!len || memchr(text, '=', len))
		return pr_error_set(err,
			"class '%.*s': it begins with its name: 'NAME; "
			"cutoff = 15K; filter = tcp'",
			(int)PR_MIN(len, PR_NAME_MAX), text);
	if (len > PR_NAME_MAX)
		return pr_error_set(err,
			"class '%.*s...': the name is longer than %d bytes", PR_NAME_MAX,
			text, PR_NAME_MAX);
	if (memchr(text, ' ', len))
		return pr_error_set(
			err, "class '%.*s': a class's name has no blanks", (int)len, text);
	memcpy(name, text, len);
	name[len] = 0;
	for (size_t i = 0; i < len; i += plain)
		if (!(plain = pr_text_plain(name + i)))
			return pr_error_set(err, "the name of a class is not plain text");
	if (pr_class_degree(name))
		return pr_error_set(err,
			"class %s: names that begin with " PR_CLASS_HOLD
			" or end with " PR_CLASS_CUT " or " PR_CLASS_HEADERS
			" are those of copies",
			name);
	return 0;
}

/*
 * Gives the class, which comes into a slot, and its copies names and numbers. A number is by its name, so that it is the same when
 * other classes come and go: nodes know streams of classes by it.
 */
static int
name_stored(const struct prd_classes *c, unsigned slot, struct class *class,
	struct pr_error *err)
{
	enum { NUMBERS = PR_CLASS_HOLDS - 1 };
	bool used[PR_CLASS_HOLDS] = {false};
	unsigned left = NUMBERS;

	for (unsigned i = 0; i < c->used * PR_DEGREES; i++) {
		unsigned number = c->slots[i / PR_DEGREES].stored[i % PR_DEGREES].number;

		if (i / PR_DEGREES == slot)
			continue;
		used[number] = true;
		left -= number > 0;
	}
	for (unsigned i = 0; i < PR_DEGREES; i++) {
		struct pr_class *s = &class->stored[i];

		if (!s->guarantee && !s->keep && !s->memory)
			continue;
		if (snprintf(s->name, sizeof s->name, "%s%s", class->name,
			    pr_degree_suffixes[i]) >= (int)sizeof s->name)
			return pr_error_set(
				err, "the name is too long for one with degrees");
		if (left-- == 0)
			return pr_error_set(err,
				"%d classes and degrees are kept in a way of their own "
				"already",
				NUMBERS);
		unsigned number = XXH32(s->name, strlen(s->name), 0) % NUMBERS + 1;
		if (slot < c->used && c->slots[slot].stored[i].number)
			number = c->slots[slot].stored[i].number;
		while (used[number])
			number = number % NUMBERS + 1;
		used[number] = true;
		s->number = (uint8_t)number;
	}
	return 0;
}

/* The slot of this name, or the next one that is free. */
static unsigned
slot_named(const struct prd_classes *c, const char *name)
{
	unsigned i = 0;

	while (i < c->used && strcmp(c->slots[i].name, name) != 0)
		i++;
	return i;
}

static unsigned
class_named(const struct prd_classes *c, const char *name)
{
	unsigned i = slot_named(c, name);

	return i < c->used && c->slots[i].filter ? i : PRD_CLASSES_MAX;
}

bool
prd_classes_have(const struct prd_classes *c, const char *name)
{
	return class_named(c, name) < PRD_CLASSES_MAX;
}

/* Takes a slot out of the order. */
static void
take_out(struct prd_classes *c, unsigned slot)
{
	unsigned left = 0;

	for (unsigned i = 0; i < c->count; i++)
		if (c->order[i] != slot)
			c->order[left++] = c->order[i];
	c->count = left;
}

/* Puts a class in its place: behind those of the same precedence. One of its name is replaced, or refused. */
static int
add_class(struct prd_classes *c, const char *text, bool replaces, struct pr_error *err)
{
	struct class class = {.filter = NULL};
	struct class_values v = {.filter = NULL};
	unsigned at;

	if (prd_class_name(text, class.name, err) < 0)
		return -1;
	unsigned slot = slot_named(c, class.name);
	if (slot < c->used && !replaces)
		return pr_error_set(
			err, "class %s: there are two of this name", class.name);
	if (slot == PRD_CLASSES_MAX)
		return pr_error_set(err,
			"more than %d classes (one that was removed counts until the "
			"dispatcher is restarted)",
			PRD_CLASSES_MAX);
	bool good =
		pr_options_text(&class_text, &v, text + strcspn(text, ";\n"), err) == 0 &&
		set_class(&class, &v, err) == 0 && name_stored(c, slot, &class, err) == 0;
	pr_options_free(&class_text, &v);
	if (!good) {
		pr_packet_filter_destroy(&class.filter);
		return pr_error_prefix(err, "class %s", class.name);
	}
	if (slot == c->used)
		c->used++;
	take_out(c, slot);
	for (at = c->count++;
		at && c->slots[c->order[at - 1]].precedence < class.precedence; at--)
		c->order[at] = c->order[at - 1];
	c->order[at] = (uint8_t)slot;
	c->slots[slot] = class;
	return 0;
}

struct prd_classes *
prd_classes_change(const struct prd_classes *classes, const char *removed, const char *text,
	struct pr_error *err)
{
	struct prd_classes *c = malloc(sizeof *c);

	if (!c)
		return pr_error_null(err, "no memory for classes");
	*c = *classes;
	unsigned slot = removed ? class_named(c, removed) : PRD_CLASSES_MAX;
	if (slot < PRD_CLASSES_MAX) {
		take_out(c, slot);
		c->slots[slot].filter = NULL;
	}
	if (text && add_class(c, text, true, err) < 0) {
		free(c);
		return NULL;
	}
	return c;
}

static unsigned
guaranteed(const struct prd_classes *c)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < c->used * PR_DEGREES; i++)
		if (c->slots[i / PR_DEGREES].filter)
			sum += c->slots[i / PR_DEGREES].stored[i % PR_DEGREES].guarantee;
	return sum;
}

int
prd_classes_check(
	const struct prd_classes *c, const struct prd_classes *before, struct pr_error *err)
{
	unsigned sum = guaranteed(c);

	if (sum <= GUARANTEE_MAX || (before && sum <= guaranteed(before)))
		return 0;
	return pr_error_set(err,
		"the guarantees of all classes and degrees are %u.%u%% together: nodes can "
		"give %d%% at most",
		sum / 10, sum % 10, GUARANTEE_MAX / 10);
}

/* Frees the filters that `next` has not, and the rest. */
void
prd_classes_free(struct prd_classes *c, const struct prd_classes *next)
{
	for (unsigned i = 0; c && i < c->used; i++)
		if (!next || c->slots[i].filter != next->slots[i].filter)
			pr_packet_filter_destroy(&c->slots[i].filter);
	free(c);
}

/* ---- rules ---- */

static struct active_rule *
find_rule(const struct prd_cutoff *c, const struct prd_rule *key)
{
	struct active_rule *found;

	HASH_FIND(hh, c->rules, key, RULE_KEY, found);
	return found;
}

static bool
is_suspended(const struct prd_cutoff *c, const struct key *key)
{
	struct prd_rule rule = {.of = key->of, .kind = PRD_RULE_SUSPEND};

	rule.of.vlan = 0; /* its ends are in order */
	return find_rule(c, &rule) != NULL;
}

/* The class of the rule about an end of a connection's first packet, or NULL. */
static const char *
moved_to(const struct prd_cutoff *c, const struct key *key, unsigned from)
{
	for (unsigned i = 0; i < 2; i++) {
		struct prd_rule want = {
			.kind = PRD_RULE_MOVE, .of.address_len = key->of.address_len};

		memcpy(want.of.address[0], key->of.address[from ^ i],
			sizeof want.of.address[0]);
		const struct active_rule *found = find_rule(c, &want);
		if (found && found->rule.sides & (i ? PRD_RULE_DST : PRD_RULE_SRC))
			return found->rule.class;
	}
	return NULL;
}

/* Of the connection of a rule, or of all (NULL). */
static void
end_shunting(struct prd_cutoff *c, const struct pr_connection *of)
{
	for (uint32_t i = 0; i < c->shunted_count; i++) {
		struct pr_connection is = c->shunted[i].key.of;

		is.vlan = 0;
		if (!of || !memcmp(&is, of, sizeof is))
			pr_shunt_end(c->shunts, c->shunted[i].place);
	}
}

void
prd_cutoff_set_classes(struct prd_cutoff *c, struct prd_classes *classes)
{
	end_shunting(c, NULL);
	prd_classes_free(c->classes, classes);
	c->classes = classes;
}

const struct prd_classes *
prd_cutoff_classes(const struct prd_cutoff *c)
{
	return c->classes;
}

int
prd_cutoff_rule(
	struct prd_cutoff *c, const struct prd_rule *rule, bool comes, struct pr_error *err)
{
	struct active_rule *found = find_rule(c, rule);

	if (rule->kind == PRD_RULE_SUSPEND)
		end_shunting(c, &rule->of);
	if (found) {
		HASH_DEL(c->rules, found);
		free(found);
	}
	if (!comes)
		return 0;
	if (HASH_COUNT(c->rules) == PRD_RULES_MAX)
		return pr_error_set(err, "there are %d rules already", PRD_RULES_MAX);
	if ((found = calloc(1, sizeof *found))) {
		found->rule = *rule;
		HASH_ADD(hh, c->rules, rule, RULE_KEY, found);
	}
	if (!found || !found->hh.tbl) {
		free(found);
		return pr_error_set(err, "no memory for a rule");
	}
	return 0;
}

static uint8_t
class_of(const struct prd_cutoff *c, const uint8_t *data, uint32_t caplen, uint32_t len)
{
	const struct prd_classes *k = c->classes;

	for (unsigned i = 0; i < k->count; i++)
		if (pr_packet_filter_match(k->slots[k->order[i]].filter, data, caplen, len))
			return k->order[i];
	return PRD_CLASSES_MAX;
}

/* ---- time ---- */

/* The last ns of the second of a time; *begin is the first one. */
static int64_t
second_of(int64_t time, int64_t *begin)
{
	int64_t in = time % PR_NS_PER_S, end;

	in += in < 0 ? PR_NS_PER_S : 0;
	*begin = pr_time_minus(time, in);
	/* PR_TIME_MAX means that there is none */
	return __builtin_add_overflow(time, PR_NS_PER_S - 1 - in, &end) ? PR_TIME_MAX - 1
									: end;
}

static void
advance(struct link *l, int64_t time)
{
	if (time > l->latest)
		l->latest = time;
	if (time > l->end)
		l->end = second_of(time, &l->begin);
}

static bool
is_idle(const struct prd_cutoff *c, const struct entry *e)
{
	int64_t idle =
		e->key.of.protocol == IPPROTO_TCP ? PRD_CUTOFF_IDLE_TCP : PRD_CUTOFF_IDLE;

	return pr_time_minus(c->links[e->key.link].latest, e->last) > idle;
}

/* ---- a packet ---- */

enum { FIN = 1, SYN = 2, RST = 4 };
enum { ETHER = 14, TAG = 4, IP4 = 20, IP6 = 40, TCP_MIN = 20, UDP_MIN = 8 };

/* Both ends in canonical order, so that both directions are one. Inlined with a constant len, the copies are moves. */
static inline __attribute__((always_inline)) void
set_ends(struct packet *p, const uint8_t *src, const uint8_t *dst, size_t len,
	uint16_t src_port, uint16_t dst_port)
{
	struct pr_connection *of = &p->key.of;
	int order = memcmp(src, dst, len);

	p->from = order > 0 || (order == 0 && src_port > dst_port);
	memcpy(of->address[p->from], src, len);
	memcpy(of->address[!p->from], dst, len);
	of->port[p->from] = src_port;
	of->port[!p->from] = dst_port;
	of->address_len = (uint8_t)len;
}

/*
 * The short path of nearly all packets: at most one tag, IP without options or extension headers, no fragment, whole
 * TCP and UDP headers. False: pr_decode tells what it is, and would tell the same of these.
 */
static bool
read_plain(struct packet *p, const uint8_t *data, uint32_t caplen)
{
	if (caplen < ETHER + TAG + IP4 + UDP_MIN)
		return false;
	uint16_t type = pr_get_be16(data + 12);
	const uint8_t *ip = data + ETHER;
	if (type == 0x8100) {
		p->key.of.vlan = pr_get_be16(ip) & 0x0fff;
		type = pr_get_be16(ip + 2);
		ip += TAG;
	}
	size_t left = (size_t)(data + caplen - ip), header = type == 0x0800 ? IP4 : IP6,
	       total;
	if (type == 0x0800) {
		total = pr_get_be16(ip + 2);
		p->key.of.protocol = ip[9];
		if (ip[0] != 0x45 || pr_get_be16(ip + 6) & 0x3fff)
			return false;
	} else if (type == 0x86dd && left >= IP6 && ip[0] >> 4 == 6) {
		total = pr_get_be16(ip + 4);
		total += total ? IP6 : 0;
		p->key.of.protocol = ip[6];
	} else {
		return false;
	}
	bool tcp = p->key.of.protocol == IPPROTO_TCP;
	size_t need = header + (tcp ? TCP_MIN : UDP_MIN);
	if ((!tcp && p->key.of.protocol != IPPROTO_UDP) || left < need ||
		(total && total < need))
		return false;
	const uint8_t *l4 = ip + header;
	p->tcp_flags = tcp ? l4[13] : 0;
	if (header == IP4)
		set_ends(p, ip + 12, ip + 16, 4, pr_get_be16(l4), pr_get_be16(l4 + 2));
	else
		set_ends(p, ip + 8, ip + 24, 16, pr_get_be16(l4), pr_get_be16(l4 + 2));
	return p->plain = true;
}

/* False: it is not IP. */
static bool
read_headers(struct packet *p, const struct pr_headers *h)
{
	if (!(h->flags & (PR_DECODE_IP4 | PR_DECODE_IP6)))
		return false;
	p->key.of.protocol = h->protocol;
	p->tcp_flags = h->tcp_flags;
	set_ends(p, h->src, h->dst, h->flags & PR_DECODE_IP4 ? 4 : 16, h->src_port,
		h->dst_port);
	return true;
}

/* A fragment's own key, from sender to receiver. In IPv6 only the first fragment tells the protocol for sure. */
static struct key
fragment_key(const struct packet *p, const struct pr_headers *h)
{
	struct key key = {.link = p->key.link};

	PR_COPY(&key.of, &p->key.of, vlan, address_len);
	memcpy(key.of.address[0], h->src, sizeof h->src);
	memcpy(key.of.address[1], h->dst, sizeof h->dst);
	key.of.port[0] = (uint16_t)(h->fragment_id >> 16);
	key.of.port[1] = (uint16_t)h->fragment_id;
	key.of.protocol = h->flags & PR_DECODE_IP4 ? h->protocol : 0;
	return key;
}

static void
note_fragment(struct prd_cutoff *c, const struct packet *p, const struct pr_headers *h,
	uint32_t slot)
{
	struct table *t = &c->fragments;
	struct key key = fragment_key(p, h);
	uint32_t i = find(t, &key);

	if (i)
		touch(t, i);
	else if (t->count == t->room)
		drop(t, t->rests[0].newer);
	i = i ? i : add(t, &key);
	t->entries[i].last = c->links[key.link].latest;
	t->rests[i].number = c->connections.rests[slot].number;
	t->rests[i].at[0] = slot;
	t->rests[i].at[1] = p->from;
}

/* The connection of a later fragment's first one, if it is there still; 0: none. */
static uint32_t
find_fragment(const struct prd_cutoff *c, struct packet *p, const struct pr_headers *h)
{
	const struct table *t = &c->fragments;
	const struct key key = fragment_key(p, h);
	uint32_t i = find(t, &key), slot = t->rests[i].at[0];

	if (!i ||
		pr_time_minus(c->links[key.link].latest, t->entries[i].last) >
			PRD_CUTOFF_IDLE ||
		c->connections.rests[slot].number != t->rests[i].number ||
		is_idle(c, &c->connections.entries[slot]))
		return 0;
	p->from = (uint8_t)t->rests[i].at[1];
	return slot;
}

/* The connection that an ICMP error is about, of the direction to which it is an answer; 0: none. */
static uint32_t
find_quoted(const struct prd_cutoff *c, struct packet *p, const struct pr_headers *h)
{
	struct packet q = {.key = {.of = {.vlan = p->key.of.vlan}, .link = p->key.link}};

	if (!read_headers(&q, h))
		return 0;
	uint32_t slot = h->flags & PR_DECODE_FRAGMENT_LATER ? find_fragment(c, &q, h)
							    : find(&c->connections, &q.key);
	if (!slot || is_idle(c, &c->connections.entries[slot]))
		return 0;
	p->from = !q.from;
	return slot;
}

/* The connection to which a packet belongs that is not of a connection by its own key. */
static uint32_t
find_other(struct prd_cutoff *c, struct packet *p, const struct pr_headers *h,
	const uint8_t *data, uint32_t caplen)
{
	struct pr_decoded quoted;
	uint32_t slot = 0;

	if (h->flags & PR_DECODE_FRAGMENT_LATER) {
		slot = find_fragment(c, p, h);
		c->figures.fragments_unknown += !slot;
	} else if (pr_decode_quoted(h, data, caplen, &quoted)) {
		slot = find_quoted(c, p, &quoted.outer);
	}
	return slot;
}

/* ---- sums ---- */

struct sum {
	struct key key;
	uint8_t class, from;
	bool encapsulated;
	uint64_t number, packets, bytes;
	int64_t first, last;
};

/* NULL: there is no room. */
static struct sum *
add_sum(const struct prd_cutoff *c, struct link *l)
{
	return l->count == c->sums_room ? NULL
					: &l->sums[(l->oldest + l->count++) % c->sums_room];
}

/* False: there is no room. */
static bool
count(struct prd_cutoff *c, const struct packet *p, uint32_t slot, uint32_t len)
{
	const struct entry *e = &c->connections.entries[slot];
	struct rest *r = &c->connections.rests[slot];
	struct link *l = &c->links[p->key.link];
	struct sum *s = &l->sums[r->at[p->from]];

	/* of another connection, taken since, or of a second that is over */
	if (s->number != r->number || s->from != p->from || s->first < l->begin) {
		if (!(s = add_sum(c, l)))
			return false;
		r->at[p->from] = (uint32_t)(s - l->sums);
		*s = (struct sum){.from = p->from, .number = r->number, .first = l->latest};
		PR_COPY(s, e, key, class);
	}
	s->encapsulated |= (e->flags & ENCAPSULATED) != 0;
	s->packets++;
	s->bytes += len;
	s->last = l->latest;
	return true;
}

/* ---- shunting ---- */

/* The packets of a connection that is beyond its cutoff need not come here any more. */
static void
shunt(struct prd_cutoff *c, const struct packet *p, uint32_t slot)
{
	struct entry *e = &c->connections.entries[slot];
	struct pr_shunt_key key = {.link = p->key.link};

	_Static_assert(sizeof e->key.of == offsetof(struct pr_shunt_key, link),
		"the program's key begins with ours");
	memcpy(&key, &e->key.of, sizeof e->key.of);
	int place = pr_shunt_add(c->shunts, &key, c->links[p->key.link].latest);
	if (place < 0)
		return;
	c->shunted[c->shunted_count++] = (struct shunted){.key = e->key,
		.class = e->class,
		.place = place,
		.slot = slot,
		.number = c->connections.rests[slot].number};
	e->flags |= SHUNTED;
}

/* NULL: it was forgotten, or has begun anew. */
static struct entry *
entry_of(const struct prd_cutoff *c, const struct shunted *s)
{
	return c->connections.rests[s->slot].number == s->number
		       ? &c->connections.entries[s->slot]
		       : NULL;
}

/* What the program counted in earlier seconds, in one direction. False: there is no room for sums. */
static bool
collect_sums(struct prd_cutoff *c, const struct shunted *is, unsigned from, int64_t begin)
{
	struct link *l = &c->links[is->key.link];
	struct entry *e = entry_of(c, is);
	struct pr_shunt_sum of;

	while (l->count < c->sums_room && pr_shunt_take(c->shunts, is->place, from,
						  (uint64_t)(begin / PR_NS_PER_S), &of)) {
		struct sum *s = add_sum(c, l);

		/* one that was late counts in the next second: that before was told */
		*s = (struct sum){.from = (uint8_t)from,
			.first = PR_MAX(of.first, l->collected),
			.last = PR_MAX(of.last, l->collected)};
		PR_COPY(s, is, key, class, number);
		PR_COPY(s, &of, packets, bytes);
		advance(l, of.last);
		l->shunted_packets += of.packets;
		l->shunted_bytes += of.bytes;
		if (!e)
			continue;
		s->encapsulated = (e->flags & ENCAPSULATED) != 0;
		e->bytes += of.bytes;
		e->last = PR_MAX(e->last, of.last);
		touch(&c->connections, is->slot);
	}
	return l->count < c->sums_room;
}

/* All of the link that was shunted in seconds that are over at `time`. */
static void
collect(struct prd_cutoff *c, unsigned link, int64_t time)
{
	struct link *l = &c->links[link];
	int64_t begin;

	if (!c->shunts || time == PR_TIME_MIN ||
		pr_time_minus(time, l->collected) < PR_NS_PER_S)
		return;
	second_of(time, &begin);
	for (uint32_t i = c->shunted_count; i-- > 0;) {
		struct shunted *s = &c->shunted[i];
		struct entry *e = entry_of(c, s);
		bool ended = pr_shunt_ended(c->shunts, s->place);

		if (s->key.link != link || !collect_sums(c, s, 0, begin) ||
			!collect_sums(c, s, 1, begin))
			continue;
		if (!e)
			pr_shunt_end(c->shunts, s->place);
		if (e && s->ended)
			e->flags &= (uint8_t)~SHUNTED;
		if (s->ended) { /* for a second at least */
			pr_shunt_free(c->shunts, s->place);
			*s = c->shunted[--c->shunted_count];
		} else {
			s->ended = ended;
		}
	}
	/* at the end of the capture, which may begin again */
	l->collected = time == PR_TIME_MAX ? PR_MIN(begin, l->end + 1) : begin;
	pr_shunts_read_clock(c->shunts);
}

void
prd_cutoff_shunted(struct prd_cutoff *c, unsigned link, uint64_t *packets, uint64_t *bytes)
{
	struct link *l = &c->links[link];

	*packets = l->shunted_packets;
	*bytes = l->shunted_bytes;
	l->shunted_packets = l->shunted_bytes = 0;
}

int64_t
prd_cutoff_oldest(const struct prd_cutoff *c, unsigned link)
{
	const struct link *l = &c->links[link];
	int64_t begin, oldest = PR_TIME_MAX;

	if (l->count)
		oldest = second_of(l->sums[l->oldest].first, &begin);
	if (c->shunted_count && l->collected != PR_TIME_MIN)
		oldest = PR_MIN(oldest, second_of(l->collected, &begin));
	return oldest;
}

size_t
prd_cutoff_take(struct prd_cutoff *c, unsigned link, int64_t until,
	uint8_t frame[PR_BEYOND_MAX], int64_t *time)
{
	struct link *l = &c->links[link];
	struct sum *s = &l->sums[l->oldest];
	struct pr_beyond b = {.connection = s->key.of};
	int64_t begin;

	collect(c, link, until);
	*time = second_of(s->first, &begin);
	if (!l->count || (*time >= until && l->count <= c->sums_room / 4 * 3))
		return 0;
	if (s->from)
		prd_turn(&b.connection);
	PR_COPY(&b, s, number, packets, bytes, first, last, encapsulated);
	memcpy(b.name, c->classes->slots[s->class].name, sizeof b.name);
	s->number = 0;
	l->oldest = (l->oldest + 1) % c->sums_room;
	l->count--;
	return pr_beyond_store(&b, frame);
}

/* ---- a packet's way ---- */

static uint32_t
add_connection(struct prd_cutoff *c, const struct key *key)
{
	struct table *t = &c->connections;

	/* What is idle goes before there is need, a little at a time. */
	for (int i = 0; i < 2 && t->count && is_idle(c, &t->entries[t->rests[0].newer]);
		i++)
		drop(t, t->rests[0].newer);
	if (t->count == t->room) {
		c->figures.evicted++;
		drop(t, t->rests[0].newer);
	}
	return add(t, key);
}

/*
 * In three steps, each a third of PRD_CUTOFF_AHEAD packets after the one before, when its lines have come: the bucket, its entry, and
 * the neighbours of the entry in the chain and in the order.
 */
void
prd_cutoff_look(struct prd_cutoff *c, unsigned link, const uint8_t *data, uint32_t caplen)
{
	struct link *l = &c->links[link];
	const struct table *t = &c->connections;
	struct looked *at = &l->looked[l->looks % LOOKED];

	l->looks++;
	at->data = data;
	at->p = no_packet(link);
	at->bucket = read_plain(&at->p, data, caplen) ? bucket_of(t, &at->p.key) : NULL;
	__builtin_prefetch(at->bucket);
	at = &l->looked[(l->looks - PRD_CUTOFF_AHEAD / 3) % LOOKED];
	if (at->bucket) {
		__builtin_prefetch(&t->entries[*at->bucket]);
		__builtin_prefetch(&t->rests[*at->bucket]);
	}
	at = &l->looked[(l->looks - PRD_CUTOFF_AHEAD / 3 * 2) % LOOKED];
	if (at->bucket) {
		uint32_t slot = *at->bucket;

		__builtin_prefetch(&t->entries[t->entries[slot].next]);
		__builtin_prefetch(&t->rests[t->entries[slot].next]);
		__builtin_prefetch(&t->rests[t->rests[slot].older]);
		__builtin_prefetch(&t->rests[t->rests[slot].newer]);
	}
}

bool
prd_cutoff_looks(const struct prd_cutoff *c, unsigned link)
{
	return c->links[link].looks - c->links[link].passed < PRD_CUTOFF_AHEAD;
}

/* What was found when the packet was looked at; NULL: it was not, or is not plain. */
static const struct looked *
looked_at(struct link *l, const uint8_t *data)
{
	const struct looked *at = &l->looked[l->passed % LOOKED];

	if (l->passed == l->looks)
		return NULL;
	l->passed++;
	return at->bucket && at->data == data ? at : NULL;
}

/* Is a packet of the connection in this slot kept? If not, it is counted. */
static bool
decide(struct prd_cutoff *c, const struct packet *p, uint32_t slot, uint32_t len)
{
	struct entry *e = &c->connections.entries[slot];
	const struct class *class = &c->classes->slots[e->class];

	if (e->bytes < class->cutoff || p->tcp_flags & (SYN | FIN | RST))
		return true;
	if (c->rules && is_suspended(c, &e->key)) {
		c->figures.suspended++;
		return true;
	}
	c->kept_beyond = class->full;
	if (class->full)
		return true;
	if (!count(c, p, slot, len)) {
		c->figures.uncounted++;
		return true;
	}
	c->figures.connections_cut += !(e->flags & CUT);
	e->flags |= CUT;
	if (c->shunts && p->plain && !(e->flags & SHUNTED))
		shunt(c, p, slot);
	return false;
}

bool
prd_cutoff_keeps(struct prd_cutoff *c, unsigned link, int64_t time, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	struct link *l = &c->links[link];
	const struct looked *before = looked_at(l, data);
	struct packet p = before ? before->p : no_packet(link);
	struct table *t = &c->connections;
	struct pr_decoded d;
	uint32_t slot = 0;

	advance(l, time);
	collect(c, link, l->latest);
	c->kept = &c->classes->slots[PRD_CLASSES_MAX];
	c->kept_beyond = false;
	bool plain = before || read_plain(&p, data, caplen);
	if (!plain) {
		pr_decode(PR_LINKTYPE_ETHERNET, data, caplen, &d);
		p.key.of.vlan = d.outer.vlan_count ? d.outer.vlan[0] : PR_UNTAGGED;
		if (!read_headers(&p, &d.outer))
			return true;
		slot = find_other(c, &p, &d.outer, data, caplen);
	}
	if (!slot)
		slot = find_in(t, before ? before->bucket : bucket_of(t, &p.key), &p.key);
	bool begins = !slot || is_idle(c, &t->entries[slot]) ||
		      (p.tcp_flags & SYN && t->entries[slot].flags & CLOSED);
	if (!slot)
		slot = add_connection(c, &p.key);
	struct entry *e = &t->entries[slot];
	if (begins) {
		const char *name = c->rules ? moved_to(c, &p.key, p.from) : NULL;

		e->class = name ? (uint8_t)class_named(c->classes, name)
				: class_of(c, data, caplen, len);
		e->flags = 0;
		e->bytes = 0;
		t->rests[slot].number = ++c->numbers;
	}
	/* The order is by seconds: a connection moves once in each. */
	if (begins || e->last < l->begin)
		touch(t, slot);
	e->last = l->latest;
	if (!plain && d.outer.ip_offset != ETHER + (p.key.of.vlan == PR_UNTAGGED ? 0 : TAG))
		e->flags |= ENCAPSULATED;
	if (!plain && (d.outer.flags & (PR_DECODE_FRAGMENT | PR_DECODE_FRAGMENT_LATER)) ==
			      PR_DECODE_FRAGMENT)
		note_fragment(c, &p, &d.outer, slot);

	bool keeps = decide(c, &p, slot, len);
	if (p.tcp_flags & (FIN | RST))
		e->flags |= CLOSED;
	e->bytes += len;
	c->kept = &c->classes->slots[e->class];
	return keeps;
}

void
prd_cutoff_kept(const struct prd_cutoff *c, uint32_t *caplen, uint8_t *class)
{
	*caplen = PR_MIN(*caplen, c->kept->snaplen);
	*class = c->kept->stored[PR_DEGREE_NONE].number;
	if (c->kept_beyond)
		*class |= PR_CLASS_BEYOND;
}

const struct pr_class *
prd_cutoff_class(const struct prd_cutoff *c, unsigned index)
{
	for (unsigned i = 0; i < c->classes->used * PR_DEGREES; i++) {
		const struct pr_class *s =
			&c->classes->slots[i / PR_DEGREES].stored[i % PR_DEGREES];

		if (s->number && index-- == 0)
			return s;
	}
	return NULL;
}

const struct prd_cutoff_figures *
prd_cutoff_figures(struct prd_cutoff *c)
{
	c->figures.connections = c->connections.count;
	c->figures.connections_begun = c->numbers;
	c->figures.shunted = c->shunted_count;
	return &c->figures;
}

/* ---- memory ---- */

enum { FRAGMENTS_MAX = 4096, PAGE = 4096 };

/* Takes bytes from *at on, in whole cache lines. */
static void *
carve(uint8_t **at, size_t bytes)
{
	void *piece = *at;

	*at += (bytes + 63) / 64 * 64;
	return piece;
}

static void
carve_table(struct table *t, uint8_t **at, uint32_t room)
{
	t->room = room;
	t->entries = carve(at, (room + (size_t)1) * sizeof *t->entries);
	t->rests = carve(at, (room + (size_t)1) * sizeof *t->rests);
	t->buckets = carve(at, (size_t)BUCKETS * room * sizeof *t->buckets);
	randombytes_buf(&t->seed, sizeof t->seed);
}

/* One piece of memory for all: an eighth is for sums, and a little for fragments. Pages that nothing touched cost nothing. */
static int
make_tables(struct prd_cutoff *c, const struct prd_cutoff_options *o, struct pr_error *err)
{
	uint64_t sums = o->memory / 8 / o->links / sizeof(struct sum);
	uint64_t fragments = PR_MIN(o->memory / 2048, FRAGMENTS_MAX);
	uint64_t used =
		o->links * (sums * sizeof(struct sum) + 64) + fragments * SLOT_BYTES + 2048;
	uint64_t room = o->memory > used ? (o->memory - used) / SLOT_BYTES : 0;

	if (sums < 4 || !fragments || !room)
		return pr_error_set(err,
			"%llu bytes are too few for connections of %u links",
			(unsigned long long)o->memory, o->links);
	uint8_t *at = mmap(NULL, o->memory, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return pr_error_errno(err, "no memory for connections");
	c->memory = at;
	c->memory_bytes = o->memory;
	madvise(at, o->memory, MADV_HUGEPAGE);
	carve_table(&c->connections, &at, (uint32_t)PR_MIN(room, UINT32_MAX / 2));
	carve_table(&c->fragments, &at, (uint32_t)fragments);
	c->sums_room = (uint32_t)PR_MIN(sums, UINT32_MAX / 2);
	for (unsigned i = 0; i < o->links; i++)
		c->links[i] = (struct link){.latest = PR_TIME_MIN,
			.collected = PR_TIME_MIN,
			.begin = PR_TIME_MIN,
			.end = PR_TIME_MIN,
			.sums = carve(&at, c->sums_room * sizeof(struct sum))};
	return 0;
}

static int
set_up(struct prd_cutoff *c, const struct prd_cutoff_options *o, struct pr_error *err)
{
	c->links = calloc(o->links, sizeof *c->links);
	c->classes = calloc(1, sizeof *c->classes);
	if ((c->shunts = o->shunts))
		c->shunted = calloc(PR_SHUNT_SETS * PR_SHUNT_PLACES, sizeof *c->shunted);
	if (!c->links || !c->classes || (c->shunts && !c->shunted))
		return pr_error_set(err, "no memory for connections");
	c->classes->slots[PRD_CLASSES_MAX] =
		(struct class){.cutoff = PRD_CUTOFF_NONE, .snaplen = UINT32_MAX};
	for (size_t i = 0; i < o->classes->count; i++)
		if (add_class(c->classes, o->classes->items[i], false, err) < 0)
			return -1;
	if (prd_classes_check(c->classes, NULL, err) < 0)
		return -1;
	return make_tables(c, o, err);
}

struct prd_cutoff *
prd_cutoff_create(const struct prd_cutoff_options *options, struct pr_error *err)
{
	struct prd_cutoff *c = calloc(1, sizeof *c);

	if (!c)
		return pr_error_null(err, "no memory for connections");
	if (set_up(c, options, err) < 0)
		prd_cutoff_destroy(&c);
	return c;
}

void
prd_cutoff_destroy(struct prd_cutoff **cutoff)
{
	struct prd_cutoff *c = PR_TAKE(cutoff);

	if (!c)
		return;
	prd_classes_free(c->classes, NULL);
	struct active_rule *rule, *next;
	HASH_ITER(hh, c->rules, rule, next)
	{
		HASH_DEL(c->rules, rule);
		free(rule);
	}
	if (c->memory)
		munmap(c->memory, c->memory_bytes);
	PR_FREE(c, links, shunted);
	free(c);
}
