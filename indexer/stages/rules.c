/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/stages/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/text.h"
#include "proto/base/units.h"

#define LINE_MAX_BYTES 65536

static int
parse_number(const char *text, uint32_t most, uint32_t *out, struct pr_error *err)
{
	char *end;

	errno = 0;
	unsigned long n = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || n > most)
		return pr_error_set(err, "%s is not a number up to %u", text, most);
	*out = (uint32_t)n;
	return 0;
}

/* ---- header: addresses and ports ---- */

static int
parse_address(struct pri_rule_part *p, char *text, struct pr_error *err)
{
	char *slash = strchr(text, '/');

	if (slash)
		*slash++ = '\0';
	p->address_len = pr_parse_address(text, p->address);
	if (!p->address_len)
		return pr_error_set(err, "%s is no address", text);
	uint32_t bits = 8 * p->address_len;
	if (slash && parse_number(slash, bits, &bits, err) < 0)
		return -1;
	p->bits = (uint8_t)bits;
	return 0;
}

static int
parse_port(struct pri_rule_part *p, char *text, struct pr_error *err)
{
	char *colon = strchr(text, ':');
	uint32_t low = 0, high = 65535;

	if (colon)
		*colon++ = '\0';
	if ((*text || !colon) && parse_number(text, 65535, &low, err) < 0)
		return -1;
	if (!colon)
		high = low;
	else if (*colon && parse_number(colon, 65535, &high, err) < 0)
		return -1;
	if (low > high)
		return pr_error_set(err, "ports %u:%u", low, high);
	p->low = (uint16_t)low;
	p->high = (uint16_t)high;
	return 0;
}

/* The value of $NAME, from malloc. */
static char *
variable(const char *vars, const char *name, struct pr_error *err)
{
	size_t len = strlen(name);

	for (const char *at = vars; at && *at; at += strcspn(at, ";"), at += *at == ';')
		if (!strncmp(at, name, len) && at[len] == '=')
			return strndup(at + len + 1, strcspn(at + len + 1, ";"));
	return pr_error_null(err, "$%s is not known: -o vars=%s=...", name, name);
}

/* negated: of all of it. depth: of lists and variables. */
static int
parse_list(struct pri_rule_list *list, char *text, bool ports, bool negated,
	const char *vars, int depth, struct pr_error *err)
{
	struct pri_rule_part part = {.negated = false};
	int rc = 0;

	text = pr_text_trim(text);
	while (*text == '!') {
		negated = !negated;
		text = pr_text_trim(text + 1);
	}
	if (depth > 8)
		return pr_error_set(err, "lists in lists in lists");
	if (*text == '$') {
		char *value = variable(vars, text + 1, err);

		rc = value ? parse_list(list, value, ports, negated, vars, depth + 1, err)
			   : -1;
		free(value);
		return rc;
	}
	if (*text == '[') {
		char *item = text + 1, *at;
		int inner = 0;

		if (text[strlen(text) - 1] != ']')
			return pr_error_set(err, "a list without its end: %s", text);
		text[strlen(text) - 1] = '\0';
		for (at = item;; at++) {
			inner += (*at == '[') - (*at == ']');
			if (*at && (*at != ',' || inner))
				continue;
			bool more = *at == ',';
			*at = '\0';
			if (parse_list(list, item, ports, negated, vars, depth + 1, err) <
				0)
				return -1;
			if (!more)
				return 0;
			item = at + 1;
		}
	}
	if (!strcmp(text, "any"))
		return negated ? pr_error_set(err, "!any is nothing") : 0;
	part.negated = negated;
	if ((ports ? parse_port(&part, text, err) : parse_address(&part, text, err)) < 0)
		return -1;
	if (list->count == PRI_RULE_PARTS)
		return pr_error_set(err, "a list of more than %d", PRI_RULE_PARTS);
	return PR_ARRAY_ADD(list->parts, list->count, part) < 0
		       ? pr_error_set(err, "no memory for a rule")
		       : 0;
}

/* The next word, or list in brackets, which may have spaces. NULL: none. */
static char *
take_word(char **at)
{
	char *s = pr_text_trim(*at), *word = s;
	int inner = 0;

	if (!*s)
		return NULL;
	for (; *s && (inner || !isspace((unsigned char)*s)); s++)
		inner += (*s == '[') - (*s == ']');
	*at = s + (*s != '\0');
	*s = '\0';
	return word;
}

static int
parse_header(struct pri_rule *r, char *text, const char *vars, struct pr_error *err)
{
	char *word[7];

	for (int i = 0; i < 7; i++)
		if (!(word[i] = take_word(&text)))
			return pr_error_set(err,
				"the header has %d words, not seven: ACTION PROTO "
				"ADDRESS PORT -> ADDRESS PORT",
				i);
	if (*pr_text_trim(text))
		return pr_error_set(err, "too many words in the header: %s", text);
	if (strcmp(word[0], "alert") != 0)
		return pr_error_set(
			err, "action %s: only alert, packets are past", word[0]);
	r->protocol = !strcmp(word[1], "tcp")    ? 't'
		      : !strcmp(word[1], "udp")  ? 'u'
		      : !strcmp(word[1], "icmp") ? 'i'
						 : 0;
	if (!r->protocol && strcmp(word[1], "ip") != 0)
		return pr_error_set(err, "protocol %s: tcp, udp, icmp or ip", word[1]);
	r->both = !strcmp(word[4], "<>");
	if (!r->both && strcmp(word[4], "->") != 0)
		return pr_error_set(err, "direction %s: -> or <>", word[4]);
	for (int end = 0; end < 2; end++)
		if (parse_list(&r->address[end], word[2 + 3 * end], false, false, vars, 0,
			    err) < 0 ||
			parse_list(&r->port[end], word[3 + 3 * end], true, false, vars, 0,
				err) < 0)
			return -1;
	return 0;
}

/* ---- options ---- */

int
pri_rule_bytes(const char *text, uint8_t **bytes, uint32_t *len, struct pr_error *err)
{
	uint8_t *out = malloc(strlen(text) + 1);
	bool hex = false;
	unsigned byte;
	int used;

	*bytes = out;
	*len = 0;
	if (!out)
		return pr_error_set(err, "no memory for a pattern");
	for (const char *s = text; *s; s++) {
		if (*s == '|') {
			hex = !hex;
		} else if (hex && !isspace((unsigned char)*s)) {
			used = 0;
			if (!isxdigit((unsigned char)s[0]) ||
				sscanf(s, "%2x%n", &byte, &used) != 1 || used != 2)
				return pr_error_set(
					err, "no hex between | and |: %.20s", s);
			out[(*len)++] = (uint8_t)byte;
			s++;
		} else if (!hex) {
			s += *s == '\\' && s[1];
			out[(*len)++] = (uint8_t)*s;
		}
	}
	if (hex || !*len)
		return pr_error_set(
			err, hex ? "hex without its second |" : "an empty pattern");
	return 0;
}

char *
pri_rule_regex(const uint8_t *bytes, uint32_t len)
{
	char *out = malloc(4 * (size_t)len + 1);

	for (uint32_t i = 0; out && i < len; i++)
		sprintf(out + 4 * (size_t)i, "\\x%02x", bytes[i]);
	return out;
}

int
pri_rule_pcre(char *text, unsigned *flags, struct pr_error *err)
{
	char *end = strrchr(text, '/');

	*flags = HS_FLAG_ALLOWEMPTY;
	if (!end)
		return pr_error_set(err, "a regular expression stands between slashes");
	*end = '\0';
	for (const char *f = end + 1; *f; f++) {
		if (!strchr("ism", *f))
			return pr_error_set(
				err, "flag %c of a regular expression: only i, s, m", *f);
		*flags |= *f == 'i'   ? HS_FLAG_CASELESS
			  : *f == 's' ? HS_FLAG_DOTALL
				      : HS_FLAG_MULTILINE;
	}
	return 0;
}

static int
parse_range(struct pri_rule_range *r, char *v, uint32_t most, struct pr_error *err)
{
	char *between = strstr(v, "<>");

	if (between) {
		*between = '\0';
		r->kind = PRI_RANGE_BETWEEN;
		return parse_number(pr_text_trim(v), most, &r->low, err) < 0
			       ? -1
			       : parse_number(
					 pr_text_trim(between + 2), most, &r->high, err);
	}
	r->kind = *v == '<' ? PRI_RANGE_LESS : *v == '>' ? PRI_RANGE_MORE : PRI_RANGE_IS;
	return parse_number(
		pr_text_trim(v + (r->kind != PRI_RANGE_IS)), most, &r->low, err);
}

static const char flag_letters[] = "FSRPAUEC";

static int
take_flags(const char *s, size_t len, uint8_t *out, struct pr_error *err)
{
	for (size_t i = 0; i < len; i++) {
		char c = s[i] == '1' ? 'C' : s[i] == '2' ? 'E' : s[i];
		const char *at = c ? strchr(flag_letters, c) : NULL;

		if (!at && c != '0')
			return pr_error_set(
				err, "flag %c is none of F S R P A U E C 0", s[i]);
		*out |= at ? 1u << (at - flag_letters) : 0;
	}
	return 0;
}

static int
parse_flags(struct pri_rule *r, char *v, struct pr_error *err)
{
	char *ignored = strchr(v, ',');
	uint8_t mask = 0;

	if (ignored) {
		*ignored++ = '\0';
		ignored = pr_text_trim(ignored);
		if (take_flags(ignored, strlen(ignored), &mask, err) < 0)
			return -1;
	}
	v = pr_text_trim(v);
	if (*v && strchr("+*!", *v))
		r->flags_way = *v++;
	if (*v && strchr("+*!", v[strlen(v) - 1])) {
		r->flags_way = v[strlen(v) - 1];
		v[strlen(v) - 1] = '\0';
	}
	r->has_flags = true;
	r->flags_mask = (uint8_t)~mask;
	return *v ? take_flags(v, strlen(v), &r->flags, err)
		  : pr_error_set(err, "which flags?");
}

/* Removes quotes, and a ! before them. */
static int
unquote(char **v, bool *negated, struct pr_error *err)
{
	*negated = **v == '!';
	*v = pr_text_trim(*v + *negated);
	size_t len = strlen(*v);
	if (len < 2 || **v != '"' || (*v)[len - 1] != '"')
		return pr_error_set(err, "no quotes: %s", *v);
	(*v)[len - 1] = '\0';
	(*v)++;
	return 0;
}

static int
add_content(struct pri_rule *r, char *v, struct pr_error *err)
{
	struct pri_rule_content *c = &r->content[r->contents];

	if (r->contents == PRI_RULE_CONTENTS)
		return pr_error_set(err, "more than %d contents", PRI_RULE_CONTENTS);
	if (unquote(&v, &c->negated, err) < 0)
		return -1;
	r->contents++;
	return pri_rule_bytes(v, &c->bytes, &c->len, err);
}

/* nocase, depth, offset, distance, within: of the content before. */
static int
modify(struct pri_rule *r, const char *key, char *v, struct pr_error *err)
{
	bool relative = !strcmp(key, "distance") || !strcmp(key, "within"), negative;
	uint32_t n;

	if (!r->contents)
		return pr_error_set(err, "%s without a content before it", key);
	struct pri_rule_content *c = &r->content[r->contents - 1];
	if (!strcmp(key, "nocase")) {
		c->nocase = true;
		return *v ? pr_error_set(err, "nocase has no value") : 0;
	}
	negative = *v == '-' && (!strcmp(key, "distance"));
	if (parse_number(v + negative, 65535, &n, err) < 0)
		return -1;
	if (relative && r->contents < 2)
		return pr_error_set(err, "%s: of the first content", key);
	if ((c->relative || c->has_depth || c->offset) && c->relative != relative)
		return pr_error_set(err,
			"%s: either from the begin (offset, depth), or from "
			"the content before (distance, within)",
			key);
	c->relative = relative;
	if (!strcmp(key, "offset") || !strcmp(key, "distance")) {
		c->offset = negative ? -(int32_t)n : (int32_t)n;
		return 0;
	}
	c->has_depth = true;
	c->depth = n;
	return n >= c->len ? 0
			   : pr_error_set(err, "%s:%u is less than its content", key, n);
}

static int
keep_text(char **to, char *v, struct pr_error *err)
{
	bool negated;

	if (*v == '"' && unquote(&v, &negated, err) < 0)
		return -1;
	free(*to);
	*to = strdup(v);
	if (*to)
		pr_text_clean(*to, "");
	return *to ? 0 : pr_error_set(err, "no memory for a rule");
}

static int
parse_pcre(struct pri_rule *r, char *v, struct pr_error *err)
{
	if (r->pcre)
		return pr_error_set(err, "more than one pcre");
	if (unquote(&v, &r->pcre_not, err) < 0)
		return -1;
	if (*v++ != '/')
		return pr_error_set(err, "a regular expression stands between slashes");
	return pri_rule_pcre(v, &r->pcre_flags, err) < 0 ? -1 : keep_text(&r->pcre, v, err);
}

static int
parse_option(struct pri_rule *r, const char *key, char *v, struct pr_error *err)
{
	static const char *const of_content[] = {
		"nocase", "depth", "offset", "distance", "within"};
	static const char *const silent[] = {"reference", "metadata", "gid", "target"};

	for (size_t i = 0; i < PR_COUNT(of_content); i++)
		if (!strcmp(key, of_content[i]))
			return modify(r, key, v, err);
	for (size_t i = 0; i < PR_COUNT(silent); i++)
		if (!strcmp(key, silent[i]))
			return 0;
	if (!strcmp(key, "content"))
		return add_content(r, v, err);
	if (!strcmp(key, "pcre"))
		return parse_pcre(r, v, err);
	if (!strcmp(key, "msg"))
		return keep_text(&r->message, v, err);
	if (!strcmp(key, "classtype"))
		return keep_text(&r->class, v, err);
	if (!strcmp(key, "sid"))
		return parse_number(v, UINT32_MAX, &r->sid, err);
	if (!strcmp(key, "rev"))
		return parse_number(v, UINT32_MAX, &r->rev, err);
	if (!strcmp(key, "priority"))
		return parse_number(v, 255, &r->priority, err);
	if (!strcmp(key, "dsize"))
		return parse_range(&r->dsize, v, 65535, err);
	if (!strcmp(key, "itype"))
		return r->protocol == 'i' ? parse_range(&r->itype, v, 255, err)
					  : pr_error_set(err, "itype: of icmp");
	if (!strcmp(key, "flags"))
		return r->protocol == 't' ? parse_flags(r, v, err)
					  : pr_error_set(err, "flags: of tcp");
	return pr_error_set(err, "option %s is not supported", key);
}

/* KEY:VALUE; ... each ended by a semicolon that is not in quotes or behind a backslash. */
static int
parse_options(struct pri_rule *r, char *text, struct pr_error *err)
{
	while (*(text = pr_text_trim(text))) {
		char *at = text;
		bool quoted = false;

		for (; *at && (*at != ';' || quoted); at++) {
			if (*at == '\\' && at[1])
				at++;
			else if (*at == '"')
				quoted = !quoted;
		}
		if (!*at)
			return pr_error_set(err, "no ; at the end of %.40s", text);
		*at = '\0';
		char *value = strchr(text, ':');
		if (value)
			*value++ = '\0';
		if (parse_option(r, pr_text_trim(text), value ? pr_text_trim(value) : "",
			    err) < 0)
			return -1;
		text = at + 1;
	}
	return 0;
}

static void
rule_free(struct pri_rule *r)
{
	for (size_t i = 0; i < r->contents; i++)
		free(r->content[i].bytes);
	for (int i = 0; i < 2; i++) {
		free(r->address[i].parts);
		free(r->port[i].parts);
	}
	PR_FREE(r, pcre, message, class);
}

int
pri_rule_parse(struct pri_rule *r, char *text, const char *vars, struct pr_error *err)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')');

	*r = (struct pri_rule){.priority = 3};
	if (!open || !close || close < open || *pr_text_trim(close + 1))
		return pr_error_set(err, "no options in parentheses");
	*open = *close = '\0';
	int rc =
		parse_header(r, text, vars, err) < 0 ? -1 : parse_options(r, open + 1, err);
	if (rc == 0 && !r->sid)
		rc = pr_error_set(err, "no sid");
	if (rc == 0 && !r->message)
		rc = keep_text(&r->message, "", err);
	if (rc < 0)
		rule_free(r);
	return rc;
}

/* ---- the matcher ---- */

int
pri_pattern_compile(const char *regex, unsigned flags, hs_database_t **out,
	hs_scratch_t **scratch, struct pr_error *err)
{
	hs_compile_error_t *why = NULL;

	if (hs_compile(regex, flags, HS_MODE_BLOCK, NULL, out, &why) == HS_SUCCESS &&
		hs_alloc_scratch(*out, scratch) == HS_SUCCESS)
		return 0;
	pr_error_set(err, "%s", why ? why->message : "no memory");
	hs_free_compile_error(why);
	return -1;
}

static int
on_match(PR_UNUSED unsigned id, PR_UNUSED unsigned long long from,
	PR_UNUSED unsigned long long to, PR_UNUSED unsigned flags, void *arg)
{
	*(bool *)arg = true;
	return 1;
}

bool
pri_pattern_found(
	const hs_database_t *pattern, hs_scratch_t *scratch, const void *data, size_t len)
{
	bool found = false;

	hs_scan(pattern, data, (unsigned)len, 0, scratch, on_match, &found);
	return found;
}

int
pri_rule_matcher_check(struct pr_error *err)
{
	hs_database_t *db = NULL;
	hs_scratch_t *scratch = NULL;
	size_t found = 0;
	char text[200];

	if (pri_pattern_compile("x", 0, &db, &scratch, NULL) == 0)
		for (size_t i = 0; i < sizeof(text); i++) {
			memset(text, 'y', sizeof(text));
			text[i] = 'x';
			found += pri_pattern_found(db, scratch, text, sizeof(text));
		}
	hs_free_scratch(scratch);
	hs_free_database(db);
	return found == sizeof(text)
		       ? 0
		       : pr_error_set(err,
				 "the pattern matcher %s misses matches on this processor: "
				 "install libhyperscan5 in place of libvectorscan5",
				 hs_version());
}

/* ---- a file of rules ---- */

/* One line with those that continue it. 0: the end; -1: too long. *lines: how many it was. */
static int
take_line(FILE *f, char *out, size_t size, unsigned *lines)
{
	size_t len = 0;

	for (*lines = 0;;) {
		if (!fgets(out + len, (int)(size - len), f))
			return len > 0;
		len += strlen(out + len);
		++*lines;
		if (len + 1 >= size)
			return -1;
		while (len && isspace((unsigned char)out[len - 1]))
			len--;
		out[len] = '\0';
		if (!len || out[len - 1] != '\\')
			return 1;
		out[--len] = '\0';
	}
}

int
pri_rules_read(struct pri_rules *rules, const char *path, const char *vars, FILE *told,
	struct pr_error *err)
{
	FILE *f = fopen(path, "re");
	char *line = malloc(LINE_MAX_BYTES);
	struct pri_rule rule;
	unsigned number = 1, lines = 0;
	int got = 0, rc = 0;

	if (!f || !line)
		rc = pr_error_errno(err, "cannot read the rules %s", path);
	for (; rc == 0 && (got = take_line(f, line, LINE_MAX_BYTES, &lines)) > 0;
		number += lines) {
		char *text = pr_text_trim(line);
		struct pr_error why;

		if (!*text || *text == '#')
			continue;
		if (pri_rule_parse(&rule, text, vars, &why) < 0) {
			if (told && rules->refused++ < 20)
				fprintf(told, "packrack: %s:%u: %s\n", path, number,
					why.text);
			if (!told)
				rc = pr_error_set(err, "%s:%u: %s", path, number, why.text);
		} else if (rules->count == PRI_RULE_MOST ||
			   PR_ARRAY_ADD(rules->items, rules->count, rule) < 0) {
			rule_free(&rule);
			rc = pr_error_set(
				err, "%s: more than %d rules", path, PRI_RULE_MOST);
		}
	}
	if (rc == 0 && got < 0)
		rc = pr_error_set(err, "%s:%u: a line of more than %d bytes", path, number,
			LINE_MAX_BYTES);
	if (f)
		fclose(f);
	free(line);
	return rc;
}

void
pri_rules_free(struct pri_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		rule_free(&rules->items[i]);
	free(rules->items);
	*rules = (struct pri_rules){0};
}
