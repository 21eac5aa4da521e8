/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "indexer/flows/flow_parts.h"
#include "indexer/query/tally_key.h"
#include "proto/base/tcp.h"
#include "proto/base/units.h"
#include "proto/wire/decode.h"

struct line {
	char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void
put(struct line *l, const char *fmt, ...)
{
	size_t room = l->end - l->at;
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(l->at, room, fmt, args);
	va_end(args);
	if (n > 0)
		l->at += (size_t)n < room ? (size_t)n : room - 1;
}

static void
put_end(struct line *l, const struct pr_headers *h, const uint8_t *address, uint16_t port)
{
	char text[PR_ADDRESS_TEXT];

	put(l, "%s", pr_format_address(address, h->flags & PR_DECODE_IP4 ? 4 : 16, text));
	if (h->flags & PR_DECODE_PORTS)
		put(l, ".%u", port);
}

static void
put_ip(struct line *l, const struct pr_headers *h)
{
	static const char letters[] = "FSRP.UEW"; /* of TCP flags, as tcpdump has them */
	const char *name = pri_protocol_name(h->protocol);

	put(l, "%s ", h->flags & PR_DECODE_IP4 ? "IP" : "IP6");
	put_end(l, h, h->src, h->src_port);
	put(l, " > ");
	put_end(l, h, h->dst, h->dst_port);
	if (name)
		put(l, ": %s", name);
	else
		put(l, ": proto %u", h->protocol);
	if (h->protocol == 6 && h->flags & PR_DECODE_PORTS) {
		put(l, " [");
		for (int bit = 0; bit < 8; bit++)
			if (h->tcp_flags & 1 << bit)
				put(l, "%c", letters[bit]);
		put(l, h->tcp_flags ? "]" : "none]");
	}
	if ((h->protocol == 1 || h->protocol == 58) && h->l4_offset)
		put(l, " type %u code %u", h->icmp_type, h->icmp_code);
	if (h->flags & PR_DECODE_FRAGMENT)
		put(l, " frag");
}

size_t
packet_line(const struct pr_packet *p, char *buf, size_t size)
{
	struct line l = {buf, buf + size - 1};
	const uint8_t *m = p->data;
	struct pr_decoded d;
	char time[PR_TIME_TEXT];

	pr_decode(p->linktype, p->data, p->caplen, &d);
	put(&l, "%s ", pr_time_local(p->time, time, sizeof(time)));
	for (unsigned i = 0; i < d.outer.vlan_count && i < 4; i++)
		put(&l, "vlan %u ", d.outer.vlan[i]);
	if (d.outer.flags & (PR_DECODE_IP4 | PR_DECODE_IP6))
		put_ip(&l, &d.outer);
	else if (p->linktype != PR_LINKTYPE_ETHERNET || p->caplen < 14)
		put(&l, "link type %u", p->linktype);
	else {
		put(&l, "%02x:%02x:%02x:%02x:%02x:%02x > %02x:%02x:%02x:%02x:%02x:%02x",
			m[6], m[7], m[8], m[9], m[10], m[11], m[0], m[1], m[2], m[3], m[4],
			m[5]);
		if (d.outer.ethertype == 0x0806)
			put(&l, " ARP");
		else if (d.outer.ethertype)
			put(&l, " ethertype 0x%04x", d.outer.ethertype);
		else
			put(&l, " 802.3");
	}
	if (d.outer.flags & PR_DECODE_TUNNEL &&
		d.inner.flags & (PR_DECODE_IP4 | PR_DECODE_IP6)) {
		put(&l, " | ");
		put_ip(&l, &d.inner);
	}
	put(&l, ", len %u", p->len);
	if (p->caplen < p->len)
		put(&l, " (%u captured)", p->caplen);
	if (p->flags & PR_PACKET_CUT)
		put(&l, " truncated");
	if (p->flags & PR_PACKET_STRAY)
		put(&l, " stray");
	if (p->flags & PR_PACKET_RELATED)
		put(&l, " (%s)", pr_relation_text(p->flags));
	*l.at++ = '\n';
	return l.at - buf;
}

#define TCP_LISTEN "tcp-listen:"

/* The first client that connects receives all packets; packrack-pcap-over-ip serves any number. */
static int
open_tcp(const char *place, struct pr_error *err)
{
	int fd, listener = pr_listen(place, SOCK_STREAM, false, err);
	char name[PR_TCP_TEXT];

	if (listener < 0)
		return -1;
	fprintf(stderr, "packrack: waiting for a reader on %s\n",
		pr_tcp_name(listener, false, name));
	do
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		pr_error_errno(err, "accepting a reader on %s", place);
	close(listener);
	return fd;
}

/* An existing file is emptied, but not if it is one that is read. */
static int
open_file(struct sink *s, struct pr_error *err)
{
	const struct pr_string_list *read = &s->args->files;
	int fd = open(s->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	struct stat st, in;

	if (fd < 0 || fstat(fd, &st) < 0)
		return pr_error_errno(err, "cannot write %s", s->path);
	s->opened = true;
	s->out.fd = fd;
	s->regular = S_ISREG(st.st_mode);
	for (size_t i = 0; i < read->count; i++)
		if (stat(read->items[i], &in) == 0 && in.st_ino == st.st_ino &&
			in.st_dev == st.st_dev)
			return pr_error_set(err,
				"%s is read and written: give another name to -w", s->path);
	return s->regular && ftruncate(fd, 0) < 0
		       ? pr_error_errno(err, "cannot empty %s", s->path)
		       : 0;
}

static int
open_output(struct sink *s, struct pr_error *err)
{
	const char *path = s->args->write;
	int rc = 0;

	s->to_stdout = !path || !strcmp(path, "-");
	s->out.fd = STDOUT_FILENO;
	if (s->to_stdout && path && isatty(STDOUT_FILENO))
		return pr_error_set(err, "refusing to write a binary trace to a terminal: "
					 "give -w FILE, or redirect standard output");
	if (!s->to_stdout && !strncmp(path, TCP_LISTEN, strlen(TCP_LISTEN))) {
		rc = s->out.fd = open_tcp(path + strlen(TCP_LISTEN), err);
		s->opened = rc >= 0;
	} else if (!s->to_stdout) {
		rc = open_file(s, err);
	}
	s->terminal = !path && isatty(STDOUT_FILENO);
	if (rc < 0 || prm_output_init(&s->out, s->out.fd, path, err) < 0)
		return -1;
	s->out.name = s->to_stdout ? "standard output" : s->path;
	s->out.ahead = s->regular;
	return 0;
}

/* ---- several files, as tcpdump rotates them ---- */

/* The name that tcpdump would give: strftime(3) with -G, a number behind it with -C. */
static int
name_file(struct sink *s, bool late, struct pr_error *err)
{
	const struct query_args *a = s->args;
	time_t seconds = (time_t)(s->begun / PR_NS_PER_S);
	char stamp[PATH_MAX], digits[PATH_MAX + 16] = "";
	int width = 0, len = snprintf(stamp, sizeof(stamp), "%s", a->write);
	struct tm tm;

	if (a->rotate_ns && localtime_r(&seconds, &tm))
		len = strftime(stamp, sizeof(stamp), a->write, &tm);
	for (uint64_t n = a->rotate_count ? a->rotate_count - 1 : 0; n; n /= 10)
		width++;
	if (a->rotate_bytes && (width || s->number))
		PR_PRINT(digits, "%0*u", width, s->number);
	if (len <= 0 || len + strlen(digits) >= sizeof(s->path))
		return pr_error_set(err, "the name of a file is too long: %s", a->write);
	if (late && !strncmp(stamp, s->path, len))
		return pr_error_set(err,
			"%s would overwrite itself: files of -G need names with a finer "
			"time",
			stamp);
	strcpy(s->path, stamp);
	strcat(s->path, digits);
	return 0;
}

static int
close_part(struct sink *s, struct pr_error *err)
{
	static const char *const comment[] = {
		"a part of an answer; the last part has the completeness report"};

	if (prm_trace_finish(s->trace, NULL, 0, comment, 1, err) < 0)
		return -1;
	prm_output_free(&s->out);
	close(s->out.fd);
	s->opened = false;
	prm_trace_again(s->trace);
	return 0;
}

/* Before this packet: opens the first file of -G, or the next one of -C or -G if it is due. */
static int
rotate(struct sink *s, const struct pr_packet *p, struct pr_error *err)
{
	const struct query_args *a = s->args;
	bool late = a->rotate_ns &&
		    (!s->opened || (p->time >= s->begun &&
					   (uint64_t)p->time - (uint64_t)s->begun >=
						   (uint64_t)a->rotate_ns));

	if (!late && !(a->rotate_bytes && s->out.written > a->rotate_bytes))
		return 0;
	if (s->opened && close_part(s, err) < 0)
		return -1;
	s->written_files++;
	if (late)
		s->begun = p->time;
	s->number = late ? 0 : s->number + 1;
	if (a->rotate_count && s->number >= a->rotate_count)
		s->number = 0;
	if (late && !a->rotate_bytes && a->rotate_count &&
		s->written_files > a->rotate_count) {
		fprintf(stderr,
			"packrack: %" PRIu64 " files are written, the limit of -W\n",
			a->rotate_count);
		s->out.closed = true; /* as if nobody read on */
		return -1;
	}
	return name_file(s, late, err) < 0 ? -1 : open_output(s, err);
}

void
sink_init(struct sink *s, const struct query_args *a)
{
	*s = (struct sink){.args = a,
		.out = {.fd = -1},
		.last_time = PR_TIME_MIN,
		.held_first = PR_TIME_MAX,
		.held_last = PR_TIME_MIN};
	progress_begin(&s->progress);
	s->none = a->count || a->tally.group || a->note ||
		  (!a->write && (a->json || a->keyvalue));
	if (!s->none && !a->write && isatty(STDOUT_FILENO))
		/* no progress line: the packets' lines show it */
		s->progress.terminal = false;
}

int
sink_recount(struct sink *s, struct pr_error *err)
{
	s->packets = 0;
	packrack__end__free_unpacked(s->end, NULL);
	s->end = NULL;
	pr_tally_destroy(&s->tally);
	s->tally = pri_tally_key_tally(&s->args->tally, err);
	return s->tally ? 0 : -1;
}

int
sink_tally(struct sink *s, const Packrack__Tally *part, struct pr_error *err)
{
	return s->tally ? pr_tally_take(s->tally, part, err) : 0;
}

int
sink_open(struct sink *s, Packrack__LinkInfo *const *links, size_t count,
	struct pr_error *err)
{
	const struct query_args *a = s->args;
	struct prm_trace_options o = {
		.format = a->format, .filter = s->bare ? NULL : a->filter};

	if (a->tally.group && sink_recount(s, err) < 0)
		return -1;
	if (s->none || (s->take && !s->through))
		return 0;
	if (a->write && !a->rotate_ns && name_file(s, false, err) < 0)
		return -1;
	if (!a->rotate_ns && open_output(s, err) < 0)
		return -1;
	if (!a->write)
		return 0;
	s->trace = prm_trace_create(&s->out, &o, err);
	if (!s->trace)
		return -1;
	for (size_t i = 0; !s->bare && i < count; i++)
		if (prm_trace_link(s->trace, links[i], err) < 0)
			return -1;
	/* write the header now: a program that reads the growing file waits for it */
	if (!a->follow || a->format != PRM_TRACE_PCAPNG || a->rotate_ns)
		return 0;
	return prm_trace_begin(s->trace, err) < 0 ? -1 : prm_output_flush(&s->out, err);
}

/* Counts as those packets do that they were made of. */
static int
take_parts(struct sink *s, const struct pr_packet *p, struct pr_error *err)
{
	struct pri_flow_parts_reader r;

	if (!s->args->parts || !pri_flow_parts_open(&r, p))
		return pr_error_set(err, "a node's parts of flows are damaged");
	s->packets += r.head.packets;
	s->last_time = p->time;
	PR_ADD(s, &r.head, unsure, related, truncated);
	return s->take(s->take_arg, p, err);
}

int
sink_packet(struct sink *s, const struct pr_packet *p, struct pr_error *err)
{
	if (p->flags & PR_PACKET_PARTS)
		return take_parts(s, p, err);
	bool sum = pr_link_is_beyond(p->link) && query_takes_sums(s->args);
	if (sum && !s->tally)
		return s->take(s->take_arg, p, err);
	if (s->wanted && !s->wanted(s->wanted_arg, p))
		return 0;
	s->packets += !sum;
	s->last_time = p->time;
	s->unsure += (p->flags & PR_PACKET_MATCH_UNSURE) != 0;
	s->related += (p->flags & PR_PACKET_RELATED) != 0;
	s->truncated += !s->tally && (p->flags & PR_PACKET_CUT);
	s->from_cut += (p->flags & PR_PACKET_FROM_CUT) != 0;
	s->from_headers += (p->flags & PR_PACKET_FROM_HEADERS) != 0;
	if (s->args->note)
		return pr_relations_note(s->args->note, p, err);
	if (s->tally)
		return pri_tally_key_count(
			s->tally, s->args->tally.group, s->args->tally.step, p, err);
	if (s->take)
		return s->take(s->take_arg, p, err);
	return s->none ? 0 : sink_write(s, p, err);
}

int
sink_write(struct sink *s, const struct pr_packet *p, struct pr_error *err)
{
	char line[PACKET_LINE];

	if (s->trace)
		return rotate(s, p, err) < 0 ? -1 : prm_trace_packet(s->trace, p, err);
	return prm_output_write(&s->out, line, packet_line(p, line, sizeof(line)), err);
}

void
sink_reaches(struct sink *s, int64_t first, int64_t last)
{
	pr_time_widen(&s->held_first, &s->held_last, first, last);
}

/* The merger is asked only once a line is due. */
static void
ask_times(struct sink *s)
{
	Packrack__Envelope *reply;
	struct pr_error err;

	if (s->held_last != PR_TIME_MIN || s->args->volumes.count || s->args->files.count ||
		cli_ask_status(&s->args->merger, &cli_merger, &reply, &err) != CLI_OK)
		return;
	for (size_t i = 0; i < reply->status->n_nodes; i++)
		if (reply->status->nodes[i]->packets)
			sink_reaches(s, reply->status->nodes[i]->first_time,
				reply->status->nodes[i]->last_time);
	pr_message_free(&reply);
}

static void
show_progress(struct sink *s)
{
	const struct query_args *a = s->args;
	char time[PR_TIME_TEXT] = "so far";
	struct progress_state state = {time, "packets", .count = s->packets};

	ask_times(s);
	if (s->packets)
		pr_time_local(s->last_time, time, sizeof(time));
	int64_t since = PR_MAX(a->since, s->held_first);
	int64_t until = PR_MIN(a->until, s->held_last);
	if (s->packets && until > since) {
		state.total = until - since;
		state.done = s->last_time > since ? (uint64_t)(s->last_time - since) : 0;
	}
	progress_show(&s->progress, &state);
}

int
sink_pause(struct sink *s, struct pr_error *err)
{
	if (progress_due(&s->progress))
		show_progress(s);
	if (s->pause && s->pause(s->take_arg, err) < 0)
		return -1;
	if (s->none || (s->take && !s->through) || !(s->terminal || s->args->follow))
		return 0;
	return prm_output_flush(&s->out, err);
}

int
sink_failure(const struct sink *s)
{
	return s->out.closed ? ASK_CLOSED : CLI_FAILED;
}

int
sink_finish(struct sink *s, struct pr_error *err)
{
	const Packrack__Completeness *c = s->end ? s->end->completeness : NULL;
	char hash[sizeof("trace hash ") + PRM_TRACE_HASH_TEXT] = "trace hash ";
	const char *comments[2] = {NULL, hash};

	progress_end(&s->progress);
	if (!s->out.buf)
		return 0;
	if (!s->trace)
		return prm_output_sync(&s->out, err);
	if (s->bare)
		return prm_trace_finish(s->trace, NULL, 0, NULL, 0, err) < 0
			       ? -1
			       : prm_output_sync(&s->out, err);
	char *comment = c ? report_comment(s) : strdup("the answer was broken off");
	prm_trace_hash_of(s->trace, hash + strlen(hash));
	comments[0] = comment;
	int rc = comment ? prm_trace_finish(s->trace, c ? c->ledgers : NULL,
				   c ? c->n_ledgers : 0, comments, 2, err)
			 : pr_error_set(err, "no memory for the end of the trace");
	free(comment);
	return rc < 0 ? -1 : prm_output_sync(&s->out, err);
}

void
sink_close(struct sink *s)
{
	progress_end(&s->progress);
	prm_trace_destroy(&s->trace);
	pr_tally_destroy(&s->tally);
	prm_output_free(&s->out);
	if (s->opened)
		close(s->out.fd);
	packrack__end__free_unpacked(s->end, NULL);
	pri_plans_free(&s->plans);
}
