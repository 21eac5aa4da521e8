/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/filter.h"

#include <endian.h>
#include <pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "indexer/filter_split.h"
#include "indexer/filter_time.h"

_Static_assert(
	sizeof(struct pr_insn) == sizeof(struct bpf_insn), "an instruction is 8 bytes");

/* Link types of files that are other numbers inside libpcap on Linux (pcap-common.c). */
static int
dlt_of(uint16_t linktype)
{
	static const struct {
		uint16_t linktype;
		int dlt;
	} different[] = {
		{100, DLT_ATM_RFC1483},
		{101, DLT_RAW},
		{102, DLT_SLIP_BSDOS},
		{103, DLT_PPP_BSDOS},
		{106, DLT_ATM_CLIP},
		{246, DLT_PFSYNC},
	};

	for (size_t i = 0; i < sizeof(different) / sizeof(*different); i++)
		if (different[i].linktype == linktype)
			return different[i].dlt;
	return linktype;
}

/* A filter on its way; words are the text as libpcap is given it. */
struct source {
	uint16_t linktype;
	const char *text;
	char *words;
	struct pr_times times;
};

static struct pr_program *
program_of(const struct source *s, const struct bpf_program *code, struct pr_error *err)
{
	const struct pr_insn *insns = (const struct pr_insn *)code->bf_insns;
	size_t head = 2 * s->times.count, count = head + code->bf_len;
	struct pr_program *program;
	struct pr_insn *all;

	if (!head)
		return pr_program_create(s->linktype, insns, count, err);
	all = malloc(count * sizeof(*all));
	if (!all) {
		pr_error_set(err, "no memory for a filter");
		return NULL;
	}
	for (size_t i = 0; i < s->times.count; i++)
		pr_program_put_time(all + 2 * i, &s->times.items[i]);
	memcpy(all + head, insns, code->bf_len * sizeof(*insns));
	program = pr_program_create(s->linktype, all, count, err);
	free(all);
	return program;
}

/*
 * As if the packets came from a trace file, as tcpdump -r has them: libpcap then refuses what only a
 * live capture knows (`inbound` on Ethernet). A little-endian one: of BSD's loopback, where the family
 * is in the byte order of the machine that captured, others are stored as link type 108.
 */
static pcap_t *
open_as_file(uint16_t linktype, uint32_t snaplen)
{
	const uint32_t words[] = {htole32(0xa1b2c3d4), htole32(4 << 16 | 2), 0, 0,
		htole32(snaplen ? snaplen : PR_FILTER_SNAPLEN), htole32(linktype)};
	char text[PCAP_ERRBUF_SIZE];
	pcap_t *pcap;
	FILE *f = fmemopen(NULL, sizeof(words), "w+");

	if (!f)
		return NULL;
	if (fwrite(words, sizeof(words), 1, f) != 1 || fseek(f, 0, SEEK_SET) != 0) {
		fclose(f);
		return NULL;
	}
	pcap = pcap_fopen_offline(f, text);
	if (!pcap)
		fclose(f);
	return pcap;
}

/* tcpdump -r takes netmask 0 too; so `ip broadcast` means 255.255.255.255 and 0.0.0.0 */
static struct pr_program *
compile_whole(pcap_t *pcap, const struct source *s, struct pr_error *err)
{
	struct bpf_program code;
	struct pr_program *program;

	if (pcap_compile(pcap, &code, s->words, 1, 0) < 0) {
		pr_error_set(err, "filter '%.200s': %s", s->text, pcap_geterr(pcap));
		return NULL;
	}
	program = program_of(s, &code, err);
	pcap_freecode(&code);
	return program;
}

/* Behind the code so far: where it said no, it goes on with this. -1: no memory. */
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

/* NULL: not to be had so; compiled as a whole it may say why, or do (a part alone may be refused). */
static struct pr_program *
compile_parts(pcap_t *pcap, const struct source *s)
{
	struct bpf_program all = {0}, code;
	struct pr_program *program = NULL;
	char **parts = NULL;
	size_t count = pr_filter_split(s->words, &parts), done = 0;

	while (done < count && pcap_compile(pcap, &code, parts[done], 1, 0) == 0) {
		int rc = append_part(&all, &code);

		pcap_freecode(&code);
		if (rc < 0)
			break;
		done++;
	}
	if (count && done == count)
		program = program_of(s, &all, NULL);
	free(all.bf_insns);
	free(parts);
	return program;
}

struct pr_program *
pr_filter_compile(
	uint16_t linktype, uint32_t snaplen, const char *text, struct pr_error *err)
{
	struct source s = {.linktype = linktype, .text = text};
	struct pr_program *program = NULL;
	pcap_t *pcap;

	if (!text[strspn(text, " \t\r\n")])
		return pr_program_create(linktype, NULL, 0, err);
	s.words = pr_filter_take_times(text, &s.times, err);
	pcap = s.words ? open_as_file(linktype, snaplen) : NULL;
	program = pcap ? compile_parts(pcap, &s) : NULL;
	if (pcap && !program)
		program = compile_whole(pcap, &s, err);
	if (pcap)
		pcap_close(pcap);
	else if (s.words)
		pr_error_set(err, "filter: cannot be compiled for link type %u", linktype);
	free(s.words);
	free(s.times.items);
	return program;
}

int
pr_filter_check(
	const uint16_t *linktypes, size_t count, const char *text, struct pr_error *err)
{
	struct pr_error first = {""}, other;
	struct pr_program *program = NULL;

	for (size_t i = 0; i < count && !program; i++)
		program = pr_filter_compile(
			linktypes[i], 0, text, *first.text ? &other : &first);
	if (!program)
		return pr_error_set(err, "%s", first.text);
	pr_program_destroy(&program);
	return 0;
}

int
pr_filter_compile_all(const uint16_t *linktypes, size_t count, const char *text,
	struct pr_programs *out, struct pr_error *err)
{
	struct pr_error first = {""}, other;
	struct pr_program *program;

	for (size_t i = 0; i < count; i++) {
		if (pr_programs_find(out, linktypes[i]))
			continue;
		program = pr_filter_compile(
			linktypes[i], 0, text, *first.text ? &other : &first);
		if (program && pr_programs_add(out, program, err) < 0)
			return -1;
	}
	return out->count || !count ? 0 : pr_error_set(err, "%s", first.text);
}

char *
pr_linktype_name(uint16_t linktype, char *buf, size_t size)
{
	const char *name = pcap_datalink_val_to_name(dlt_of(linktype));

	if (name)
		snprintf(buf, size, "%s", name);
	else
		snprintf(buf, size, "%u", linktype);
	return buf;
}
