/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter/filter.h"

#include <endian.h>
#include <inttypes.h>
#include <pcap.h>
#include <pthread.h>
#include <stdio.h>

#include "proto/base/array.h"
#include "proto/port/trace.h"

const uint16_t pri_linktypes[PRI_LINKTYPES] = {
	PR_LINKTYPE_ETHERNET, 127, 113, 101, 9, 105, 100, 0, 117, 123, 140, 276, 108};

/*
 * Terms `after @SECONDS` and `before @SECONDS` of a filter; both include that moment. The
 * language of pcap-filter has no times. So libpcap gets, instead of each term, the test of
 * a load at an offset where no packet has bytes, another offset for each term. The terms
 * are written at the head of the compiled program (bpf.h). So they may stand wherever any
 * other term may.
 */

/* A filter that is being compiled. */
struct source {
	uint16_t linktype;
	const char *text;
	char *words; /* the text that libpcap gets */
	const char *part; /* of it */
	struct pr_bpf_time *times;
	size_t time_count;
	pcap_t *pcap;
	struct bpf_program code;
	int rc; /* of libpcap */
	bool tagged; /* also behind VLAN tags */
	bool too_much; /* libpcap takes it, and we do not */
};

/* ---- terms of time ---- */

static bool
is_space(char c)
{
	return c && strchr(" \t\n\r\v\f", c);
}

/*
 * The length of a term of time at `at`; 0: there is none. *number: the position of its @.
 */
static size_t
term_len(const char *text, const char *at, const char **number)
{
	size_t n = !strncmp(at, "after", 5) ? 5 : !strncmp(at, "before", 6) ? 6 : 0;

	if (!n || !is_space(at[n]) ||
		(at != text && !is_space(at[-1]) && !strchr("(!&|", at[-1])))
		return 0;
	while (is_space(at[n]))
		n++;
	*number = at + n;
	return at[n] == '@' ? n + 1 + strspn(at + n + 1, "-.0123456789") : 0;
}

static int
add_time(struct source *s, bool after, const char *number, size_t len, struct pr_error *err)
{
	char text[64];

	if (s->time_count == PR_TIMES_MAX)
		return pr_error_set(
			err, "filter with more than %d times: use fewer", PR_TIMES_MAX);
	if (len >= sizeof(text))
		return pr_error_set(err, "filter: '%.60s' is no time", number);
	if (PR_ARRAY_GROW(s->times, s->time_count) < 0)
		return pr_error_set(err, "no memory for the filter");
	struct pr_bpf_time *t = &s->times[s->time_count++];
	t->after = after;
	memcpy(text, number, len);
	text[len] = 0;
	return pr_time_parse(text, 0, &t->time, err) < 0 ? pr_error_prefix(err, "filter")
							 : 0;
}

static int
take_times(struct source *s, struct pr_error *err)
{
	const char *at = s->text, *number;
	size_t size, len;
	FILE *to = open_memstream(&s->words, &size);
	int rc = 0;

	if (!to)
		return pr_error_set(err, "no memory for the filter");
	for (; rc == 0 && *at; at += len) {
		len = term_len(s->text, at, &number);
		if (len) {
			fprintf(to, "link[%" PRIu32 ":4] = 1",
				PR_TIMES_AT + PR_TIMES_APART * (uint32_t)s->time_count);
			rc = add_time(s, *at == 'a', number, len - (number - at), err);
		} else {
			fputc(*at, to);
			len = 1;
		}
	}
	if (fclose(to) != 0 && rc == 0)
		rc = pr_error_set(err, "no memory for the filter");
	return rc;
}

/* ---- compiling ---- */

_Static_assert(
	sizeof(struct pr_insn) == sizeof(struct bpf_insn), "an instruction is 8 bytes");

static struct pr_bpf *
program_of(struct source *s, const struct bpf_program *code, struct pr_error *err)
{
	size_t head = 2 * s->time_count, count = head + code->bf_len;
	struct pr_insn *all = malloc(count * sizeof(*all));
	struct pr_bpf *program = NULL;
	char name[PR_LINKTYPE_TEXT];

	if (all) {
		for (size_t i = 0; i < s->time_count; i++)
			pr_bpf_put_time(all + 2 * i, &s->times[i]);
		memcpy(all + head, code->bf_insns, code->bf_len * sizeof(*all));
		program = pr_bpf_create(s->linktype, all, count, err);
		free(all);
	} else {
		pr_error_set(err, "no memory for a filter");
	}
	s->too_much = !program;
	if (!program)
		pr_error_prefix(err, "filter '%.200s' for %s", s->text,
			pr_linktype_name(s->linktype, name));
	return program;
}

#define SNAPLEN 262144
/*
 * Opens libpcap as if the packets came from a trace file, as tcpdump -r does: libpcap then
 * refuses tests that only a live capture can answer (`inbound` on Ethernet). The file is
 * little-endian: for BSD's loopback the family is in the byte order of the capturing
 * machine, and files of the other order are stored as link type 108.
 */
static pcap_t *
open_as_file(uint16_t linktype)
{
	const uint32_t words[] = {htole32(0xa1b2c3d4), htole32(4 << 16 | 2), 0, 0,
		htole32(SNAPLEN), htole32(linktype)};
	char text[PCAP_ERRBUF_SIZE];
	FILE *f = fmemopen(NULL, sizeof(words), "w+");

	if (!f)
		return NULL;
	if (fwrite(words, sizeof(words), 1, f) != 1 || fseek(f, 0, SEEK_SET) != 0) {
		fclose(f);
		return NULL;
	}
	pcap_t *pcap = pcap_fopen_offline(f, text);
	if (!pcap)
		fclose(f);
	return pcap;
}

/* tcpdump -r takes netmask 0 too; so `ip broadcast` means 255.255.255.255 and 0.0.0.0 */
static void *
run_libpcap(void *arg)
{
	struct source *s = arg;

	s->rc = pcap_compile(s->pcap, &s->code, s->part, 1, 0);
	return NULL;
}

/*
 * libpcap recurses for each jump of the program, and a long filter overflows a thread's
 * stack. So it runs in a thread whose stack grows with the text. Texts above WHOLE_MAX are
 * refused: libpcap would take hours.
 */
#define STACK_LEAST ((size_t)1 << 20)
#define STACK_A_BYTE ((size_t)2048) /* of text; 802.11 takes 400 */
#define WHOLE_MAX ((size_t)256 << 10) /* bytes of text */

/* -1: err */
static int
compile_text(struct source *s, const char *text, struct pr_error *err)
{
	size_t len = strlen(text);
	pthread_attr_t attr;
	pthread_t thread;
	int rc = -1;

	s->part = text;
	if (len <= WHOLE_MAX && pthread_attr_init(&attr) == 0) {
		if (pthread_attr_setstacksize(&attr, STACK_LEAST + STACK_A_BYTE * len) == 0)
			rc = pthread_create(&thread, &attr, run_libpcap, s);
		pthread_attr_destroy(&attr);
	}
	s->too_much = rc != 0;
	if (len > WHOLE_MAX)
		return pr_error_set(err,
			"filter '%.200s': %zu bytes are too many, unless as `host A or "
			"host B or ...`",
			text, len);
	if (rc != 0)
		return pr_error_set(err, "no memory to compile a filter of %zu bytes", len);
	pthread_join(thread, NULL);
	return s->rc < 0 ? pr_error_set(err, "filter '%.200s': %s", s->text,
				   pcap_geterr(s->pcap))
			 : 0;
}

/*
 * Appends a part to the code: where the code so far rejects, it continues with this part.
 * -1: no memory.
 */
static int
append_part(struct bpf_program *all, const struct bpf_program *part)
{
	static const struct pr_insn mark = PR_INSN_PART;
	u_int at = all->bf_len, add = part->bf_len + (at > 0);
	struct bpf_insn *insns = realloc(all->bf_insns, (at + add) * sizeof(*insns));

	if (!insns)
		return -1;
	all->bf_insns = insns;
	all->bf_len += add;
	for (u_int i = 0; i < at; i++)
		if (insns[i].code == (BPF_RET | BPF_K) && insns[i].k == 0)
			insns[i] = (struct bpf_insn){
				.code = BPF_JMP | BPF_JA, .k = at - i - 1};
	if (at > 0)
		memcpy(&insns[at++], &mark, sizeof(mark));
	memcpy(insns + at, part->bf_insns, part->bf_len * sizeof(*insns));
	return 0;
}

/*
 * Appends a part, and this part behind one and two tags: `vlan` moves the offsets of all that follow, so each is
 * compiled by itself. Link types without VLANs refuse it.
 */
static int
compile_part(
	struct source *s, const char *part, struct bpf_program *all, struct pr_error *err)
{
	char *text = NULL;
	int rc = compile_text(s, part, err);

	for (int tags = 0; rc == 0; tags++) {
		rc = append_part(all, &s->code);
		pcap_freecode(&s->code);
		free(text);
		if (rc < 0 || !s->tagged || tags == 2)
			return rc < 0 ? pr_error_set(err, "no memory for a filter") : 0;
		if (asprintf(&text, "vlan and (%s%s%s)", tags ? "vlan and (" : "", part,
			    tags ? ")" : "") < 0)
			return pr_error_set(err, "no memory for a filter");
		if (compile_text(s, text, NULL) < 0) {
			free(text);
			return s->too_much ? pr_error_set(err, "no memory for a filter")
					   : 0;
		}
	}
	return rc;
}

/*
 * Compiles a filter part by part, or whole if it is not cut. NULL of parts: as a whole it may succeed (a part alone
 * may be refused), or give the error. Exception: too_much is a final error.
 */
static struct pr_bpf *
compile_parts(struct source *s, bool whole, struct pr_error *err)
{
	struct bpf_program all = {0};
	size_t count = 1, done = 0;
	char *parts = whole ? strdup(s->words) : pri_filter_split(s->words, &count);
	char *part = parts;
	int rc = parts ? 0 : -1;

	for (; rc == 0 && done < count; done++, part += strlen(part) + 1)
		rc = compile_part(s, part, &all, err);
	struct pr_bpf *program = rc == 0 ? program_of(s, &all, err) : NULL;
	free(all.bf_insns);
	free(parts);
	return program;
}

/* *too_much: it is a filter for this link type, but there is no program of it. */
static struct pr_bpf *
compile(uint16_t linktype, const char *text, bool tagged, bool *too_much,
	struct pr_error *err)
{
	struct source s = {.linktype = linktype, .text = text, .tagged = tagged};
	struct pr_bpf *program = NULL;

	*too_much = false;
	if (!text[strspn(text, " \t\r\n")])
		return pr_bpf_create(linktype, NULL, 0, err);
	int rc = take_times(&s, err);
	s.pcap = rc == 0 ? open_as_file(linktype) : NULL;
	if (s.pcap) {
		program = compile_parts(&s, false, err);
		if (!program && !s.too_much)
			program = compile_parts(&s, true, err);
		pcap_close(s.pcap);
	} else if (rc == 0) {
		pr_error_set(err, "filter: cannot be compiled for link type %u", linktype);
	}
	PR_FREE(&s, words, times);
	*too_much = s.too_much;
	return program;
}

/* ---- where a filter is wrong ---- */

/*
 * No number, as it has more than 32 bits. libpcap reports it where it reads it, and it reads to the first
 * word that it cannot take, and no further.
 */
#define PROBE "99999999999999999999"
#define PLACE_MAX 4096 /* bytes of text */

/* Does libpcap take the first len bytes, as far as it can know without those that follow? */
static bool
is_good_beginning(uint16_t linktype, const char *text, size_t len)
{
	struct source s = {.linktype = linktype};
	struct pr_error none;
	char *beginning;
	bool good = false;

	if (asprintf(&beginning, "%.*s " PROBE, (int)len, text) < 0)
		return false;
	s.text = beginning;
	s.pcap = take_times(&s, &none) == 0 ? open_as_file(linktype) : NULL;
	if (s.pcap) {
		if (pcap_compile(s.pcap, &s.code, s.words, 0, 0) == 0)
			pcap_freecode(&s.code);
		good = strstr(pcap_geterr(s.pcap), PROBE) != NULL;
		pcap_close(s.pcap);
	}
	free(beginning);
	PR_FREE(&s, words, times);
	return good;
}

/* The end of the word, parenthesis or term of time at `at`. */
static size_t
word_end(const char *text, size_t at)
{
	const char *number;
	size_t len = term_len(text, text + at, &number);

	len = len ? len : strcspn(text + at, " \t\r\n()");
	return at + (len ? len : 1);
}

/* Appends to err which word of the text is the first that libpcap does not take. */
static void
add_place(uint16_t linktype, const char *text, struct pr_error *err)
{
	size_t begins[PLACE_MAX / 2 + 1], count = 0, at;
	const struct pr_error why = *err;

	if (strlen(text) > PLACE_MAX || !is_good_beginning(linktype, "", 0))
		return;
	for (at = strspn(text, " \t\r\n"); text[at] && count < PR_COUNT(begins);
		at += strspn(text + at, " \t\r\n")) {
		begins[count++] = at;
		at = word_end(text, at);
	}
	size_t bad = PR_ARRAY_SEARCH(
		count, is_good_beginning(linktype, text, word_end(text, begins[mid])));
	if (bad < count)
		pr_error_set(err, "%s, at word %zu: %.*s", why.text, bad + 1,
			(int)(word_end(text, begins[bad]) - begins[bad]),
			text + begins[bad]);
	else if (strstr(why.text, "syntax error"))
		pr_error_set(err, "%s, at its end", why.text);
}

/* ---- one filter, or one for several link types ---- */

struct pr_bpf *
pri_filter_compile(uint16_t linktype, const char *text, struct pr_error *err)
{
	bool too_much;

	return compile(linktype, text, false, &too_much, err);
}

int
pri_filter_check(
	const uint16_t *linktypes, size_t count, const char *text, struct pr_error *err)
{
	struct pr_error first = {""}, other;
	struct pr_bpf *program = NULL;

	for (size_t i = 0; i < count && !program; i++)
		program = pri_filter_compile(
			linktypes[i], text, *first.text ? &other : &first);
	if (!program) {
		add_place(linktypes[0], text, &first);
		return pr_error_set(err, "%s", first.text);
	}
	pr_bpf_destroy(&program);
	return 0;
}

int
pri_filter_compile_all(const uint16_t *linktypes, size_t count, const char *text,
	bool tagged, struct pr_bpf_set *out, struct pr_error *err)
{
	struct pr_error first = {""}, other;
	uint16_t refusing = 0;
	bool too_much;

	for (size_t i = 0; i < count; i++) {
		if (pr_bpf_set_find(out, linktypes[i]))
			continue;
		struct pr_bpf *program =
			compile(linktypes[i], text, tagged, &too_much, &other);
		if (too_much)
			return pr_error_set(err, "%s", other.text);
		if (!program && !*first.text) {
			first = other;
			refusing = linktypes[i];
		}
		if (program && pr_bpf_set_add(out, program, err) < 0)
			return -1;
	}
	if (out->count || !count)
		return 0;
	add_place(refusing, text, &first);
	return pr_error_set(err, "%s", first.text);
}
