/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <inttypes.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include "indexer/flows/flow_export.h"
#include "merger/cli/cli.h"
#include "merger/cli/flows/flow_file.h"
#include "merger/cli/flows/flow_keep.h"
#include "merger/cli/flows/flow_record.h"
#include "proto/base/array.h"
#include "proto/base/loop.h"
#include "proto/base/tcp.h"
#include "proto/base/units.h"

/*
 * `packrack collect`: flow records that routers and other exporters send (NetFlow, IPFIX, sFlow over UDP; IPFIX over
 * TCP), into a volume that keeps flows.
 */

struct collect_args {
	struct pr_string_list listen, tcp, from, read;
	char *keep;
	int64_t every, idle;
	bool exporters, json, keyvalue;
};

#define PR_VALUES struct collect_args

static const struct pr_option options[] = {
	PR_OPT_LIST(listen, "listen", 'l', "[ADDRESS:]PORT",
		"take NetFlow (5, 9), IPFIX and sFlow (5) at this UDP port; [ADDRESS]:PORT "
		"of IPv6"),
	PR_OPT_LIST(tcp, "listen-tcp", 0, "[ADDRESS:]PORT",
		"take IPFIX of connections to this TCP port"),
	PR_OPT_DURATION(idle, "idle", 0, "DURATION", PR_NS_PER_S, 24 * 3600 * PR_NS_PER_S,
		"close a connection that sends no message for so long", .def = "10m"),
	PR_OPT_LIST(from, "from", 0, "NETWORK",
		"only of exporters in this network, as in 192.0.2.0/24"),
	PR_OPT_LIST(read, "read", 'r', "FILE",
		"take the flows of this file: IPFIX, nfdump's, conn.log, EVE, JSON, CSV, "
		"Parquet"),
	PR_OPT_STRING(
		keep, "keep", 0, "VOLUME", "store the flows in this volume of their own"),
	PR_OPT_DURATION(every, "every", 0, "DURATION", PR_NS_PER_S, 3600 * PR_NS_PER_S,
		"the time between two times at which flows are durable", .def = "10s"),
	PR_OPT_FLAG(exporters, "exporters", 0,
		"show the exporters of the volume, and what was lost of each"),
	CLI_FORM_OPTIONS()};

#define NAME "packrack collect"
#define IDLE_NS (60 * PR_NS_PER_S) /* windows without a flow are put together for so long */
/* Of sampled packets few are seen: their flows end soon. */
static const struct pri_flow_limits sample_limits = {.idle_tcp = 30 * PR_NS_PER_S,
	.idle = 30 * PR_NS_PER_S,
	.active = 60 * PR_NS_PER_S,
	.flows = 250000};
/* Datagrams have 64 KiB and a bit: batches at one distance push each other out of the cache. */
enum { SOCKETS_MAX = 16, BATCH = 64, DATAGRAM = 65536 + 1536, RECEIVE_BUFFER = 32 << 20 };
#define NAP_NS (4 * PR_NS_PER_MS)
enum { STREAMS_MAX = 64, INPUT_MAX = 2 * 65536 };

struct socket {
	struct collect *collect;
	struct event *event;
	bool udp;
	bool patient; /* its buffer is as large as RECEIVE_BUFFER: it can wait */
	uint32_t overflows; /* of UDP, by the kernel's count */
};

/* A connection of an exporter. */
struct stream {
	struct collect *collect;
	struct bufferevent *io; /* NULL: the slot is free */
	struct pri_export_from from;
	int64_t heard; /* its last whole message, or since when it is there; monotonic */
	uint64_t messages;
};

struct collect {
	const struct collect_args *args;
	struct pr_error *err;
	bool failed; /* err says why */
	struct pr_loop *loop;
	struct networks from;
	struct flow_keeper *keeper;
	struct pri_exporters *exporters;
	struct pri_flow_table *samples; /* flows of sampled packets */
	struct socket sockets[SOCKETS_MAX];
	size_t count;
	struct stream streams[STREAMS_MAX];
	uint64_t connections; /* until now */
	/* in this window: by us; with a message that is not whole */
	uint64_t closed, broken;
	uint8_t (*datagrams)[DATAGRAM];
	struct flow_window window;
	uint64_t lost[PRI_EXPORTERS_MAX]; /* of each until the last window, by its link */
	/* sets without a template, bad and refused messages */
	uint64_t unread, unread_before;
	uint64_t messages; /* in this window */
	uint64_t foreign, dropped;
	int64_t now;
};

static void
fail(struct collect *c)
{
	c->failed = true;
	pr_loop_break(c->loop);
}

/* ---- sockets ---- */

/* The sender; false: not of --from. */
static bool
sender(const struct collect *c, const void *from, struct pri_export_from *id)
{
	const struct sockaddr_in6 *six = from;
	const struct sockaddr_in *four = from;

	/* the port is at the same place in both */
	*id = (struct pri_export_from){.address_len = 4, .port = ntohs(four->sin_port)};
	if (four->sin_family == AF_INET) {
		memcpy(id->address, &four->sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(id->address, six->sin6_addr.s6_addr + 12, 4);
	} else {
		memcpy(id->address, &six->sin6_addr, 16);
		id->address_len = 16;
	}
	return !c->from.count || networks_have(&c->from, id->address, id->address_len);
}

/* What has come to one socket, up to a batch. */
static void
on_datagrams(evutil_socket_t fd, PR_UNUSED short what, void *arg)
{
	struct socket *s = arg;
	struct collect *c = s->collect;
	struct sockaddr_storage from[BATCH];
	struct mmsghdr messages[BATCH];
	struct iovec bytes[BATCH];
	int got, rc = 0;

	for (int i = 0; i < BATCH; i++) {
		bytes[i] = (struct iovec){c->datagrams[i], DATAGRAM};
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &from[i],
						       .msg_namelen = sizeof(from[i]),
						       .msg_iov = &bytes[i],
						       .msg_iovlen = 1}};
	}
	got = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
		rc = pr_error_errno(c->err, "cannot receive");
	c->now = PR_MAX(c->now, pr_now_real());
	c->messages += got > 0 ? (uint64_t)got : 0;
	for (int i = 0; i < got && rc == 0; i++) {
		struct pri_export_from id;

		if (sender(c, &from[i], &id))
			rc = pri_exporters_take(c->exporters, &id, c->datagrams[i],
				messages[i].msg_len, c->now, c->err);
		else
			c->foreign++;
	}
	if (rc < 0)
		fail(c);
	/* to be woken costs as much as several datagrams: those of a moment are taken together, if nobody else waits for it */
	if (got < BATCH / 4 && s->patient && c->count == 1)
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* ---- connections: messages of IPFIX, one behind the other ---- */

/* Of those that we close in a window the first is named, with why; the others are counted. */
static void
stream_close(struct stream *s, const char *why)
{
	struct collect *c = s->collect;
	char name[PR_TCP_TEXT];

	if (why && !c->closed++)
		fprintf(stderr, NAME ": connection of %s closed: %s\n",
			pr_tcp_name(bufferevent_getfd(s->io), true, name), why);
	c->broken += evbuffer_get_length(bufferevent_get_input(s->io)) > 0;
	pri_exporters_end(c->exporters, s->from.connection);
	bufferevent_free(s->io);
	s->io = NULL;
}

static void
on_bytes(struct bufferevent *io, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(io);
	struct stream *s = arg;
	struct collect *c = s->collect;
	uint8_t head[4];

	c->now = PR_MAX(c->now, pr_now_real());
	while (evbuffer_copyout(in, head, sizeof(head)) == sizeof(head)) {
		size_t len = pri_ipfix_length(head);
		const uint8_t *message;

		if (!len)
			return stream_close(s, "it sends what is no message of IPFIX");
		if (evbuffer_get_length(in) < len)
			return;
		message = evbuffer_pullup(in, (ev_ssize_t)len);
		if (!message)
			return stream_close(s, "no memory for a message");
		if (pri_exporters_take(
			    c->exporters, &s->from, message, len, c->now, c->err) < 0)
			return fail(c);
		evbuffer_drain(in, len);
		s->heard = pr_now_mono();
		s->messages++;
		c->messages++;
	}
}

static void
on_end(struct bufferevent *io, PR_UNUSED short what, void *arg)
{
	bool broken = evbuffer_get_length(bufferevent_get_input(io)) > 0;

	stream_close(arg, broken ? "it ended within a message" : NULL);
}

/* A free slot; or that of the oldest connection without a message, read or to be read: anybody can open those. */
static struct stream *
stream_slot(struct collect *c)
{
	struct stream *oldest = NULL;
	char byte;

	for (size_t i = 0; i < STREAMS_MAX; i++) {
		struct stream *s = &c->streams[i];

		if (!s->io)
			return s;
		if (!s->messages && (!oldest || s->heard < oldest->heard) &&
			recv(bufferevent_getfd(s->io), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <
				1)
			oldest = s;
	}
	if (oldest)
		stream_close(oldest, "it has sent nothing, and others come");
	else if (!c->closed++)
		fprintf(stderr, NAME ": a connection refused: there are %d\n", STREAMS_MAX);
	return oldest;
}

static void
on_connection(evutil_socket_t listener, PR_UNUSED short what, void *arg)
{
	struct collect *c = ((struct socket *)arg)->collect;
	struct sockaddr_storage from = {0};
	socklen_t len = sizeof(from);
	int fd = accept4(
		listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct pri_export_from id;

	if (fd < 0)
		return;
	bool known = sender(c, &from, &id);
	struct stream *s = known ? stream_slot(c) : NULL;
	struct bufferevent *io =
		s ? bufferevent_socket_new(pr_loop_base(c->loop), fd, BEV_OPT_CLOSE_ON_FREE)
		  : NULL;
	c->foreign += !known;
	if (!io)
		return pr_close(fd);
	id.connection = ++c->connections;
	*s = (struct stream){.collect = c, .io = io, .from = id, .heard = pr_now_mono()};
	bufferevent_setcb(io, on_bytes, NULL, on_end, s);
	bufferevent_setwatermark(io, EV_READ, 0, INPUT_MAX);
	bufferevent_enable(io, EV_READ);
}

static void
on_sweep(void *arg)
{
	struct collect *c = arg;

	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (c->streams[i].io && pr_now_mono() - c->streams[i].heard > c->args->idle)
			stream_close(&c->streams[i], "it has sent no message for --idle");
}

/* Of SOCK_DGRAM, or SOCK_STREAM. */
static int
socket_open(struct collect *c, const char *text, int type, struct pr_error *err)
{
	const char *colon = strrchr(text, ':');
	struct socket *s = &c->sockets[c->count];
	int size = RECEIVE_BUFFER;
	char four[32];

	if (c->count == SOCKETS_MAX)
		return pr_error_set(err, "--listen %s: 16 at most", text);
	if (colon == text || atol(colon ? colon + 1 : text) == 0)
		return pr_error_set(err, "'%s' is not an address with a port", text);
	errno = 0;
	int fd = pr_listen(text, type, true, err);
	if (fd < 0 && !colon && errno == EAFNOSUPPORT) { /* there is no IPv6 */
		PR_PRINT(four, "0.0.0.0:%s", text);
		fd = pr_listen(four, type, true, err);
	}
	if (fd < 0)
		return -1;
	evutil_make_socket_nonblocking(fd);
	s->collect = c;
	s->udp = type == SOCK_DGRAM;
	if (s->udp) {
		s->patient = setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size,
				     sizeof(size)) == 0;
		if (!s->patient)
			setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	}
	s->event = event_new(pr_loop_base(c->loop), fd, EV_READ | EV_PERSIST,
		s->udp ? on_datagrams : on_connection, s);
	c->count += s->event != NULL; /* which has it closed */
	return s->event && event_add(s->event, NULL) == 0
		       ? 0
		       : pr_error_set(err, "no memory to listen on %s", text);
}

static int
on_record(void *arg, const struct pri_flow *flow, struct pr_error *err)
{
	struct collect *c = arg;

	/* ahead of its arrival; the keeper sees to the others */
	int64_t reach = pr_time_minus(pri_flow_last(flow), c->now);
	c->window.reach = PR_MAX(c->window.reach, reach);
	c->window.packets += pri_flow_packets(flow);
	return flow_keeper_put(c->keeper, flow, 0, c->now, err);
}

static int
on_sample(void *arg, const struct pri_flow *part, struct pr_error *err)
{
	const struct collect *c = arg;

	return pri_flow_table_part(c->samples, part, err);
}

/* ---- windows ---- */

/* Fills in what was lost of whom since the last window. Returns how many exporters there are. */
static size_t
account(struct collect *c, struct pri_exporter all[PRI_EXPORTERS_MAX])
{
	const struct pri_exporter *x;
	size_t count = 0;

	c->unread = pri_exporters_refused(c->exporters);
	memset(all, 0, PRI_EXPORTERS_MAX * sizeof(*all));
	while ((x = pri_exporters_get(c->exporters, count))) {
		uint64_t *before = &c->lost[x->link];

		all[count++] = *x;
		c->unread += x->no_template + x->bad;
		c->window.missing += x->lost > *before ? x->lost - *before : 0;
		*before = x->lost;
	}
	for (size_t i = 0; i < c->count; i++) {
		struct socket *s = &c->sockets[i];
		uint32_t now[SK_MEMINFO_VARS] = {0};
		socklen_t len = sizeof(now);

		if (!s->udp || getsockopt(event_get_fd(s->event), SOL_SOCKET, SO_MEMINFO,
				       now, &len) < 0)
			continue;
		c->dropped += now[SK_MEMINFO_DROPS] - s->overflows;
		s->overflows = now[SK_MEMINFO_DROPS];
	}
	c->window.complete = c->window.missing == 0 && c->unread == c->unread_before &&
			     !c->dropped && !c->broken;
	return count;
}

static void
say_lost(struct collect *c)
{
	const struct {
		uint64_t count;
		const char *what;
	} says[] = {{c->window.missing,
			    "records or messages of exporters are lost: packrack collect "
			    "--exporters shows whose"},
		{c->unread - c->unread_before,
			"sets or messages cannot be read: their template has not come yet, "
			"they break their format, or there are too many exporters"},
		{c->dropped,
			"datagrams dropped by the kernel: sysctl net.core.rmem_max bounds "
			"the buffer"},
		{c->foreign, "datagrams or connections from elsewhere than --from"},
		{c->closed > 1 ? c->closed - 1 : 0,
			"more connections closed or refused, as the one before"}};

	for (size_t i = 0; i < PR_COUNT(says); i++)
		if (says[i].count)
			fprintf(stderr, NAME ": %" PRIu64 " %s\n", says[i].count,
				says[i].what);
}

/* Makes the window durable, with all that there is to know of exporters, and the flows of samples that go on. */
static int
store(struct collect *c, struct pr_error *err)
{
	static const struct flow_losses none;
	const struct flow_keep_open open = {.table = c->samples, .losses = &none};
	struct pri_exporter all[PRI_EXPORTERS_MAX];
	size_t count = account(c, all);

	if (flow_keeper_state(c->keeper, pr_now_real(), all, sizeof(all[0]), count, err) <
		0)
		return -1;
	return flow_keeper_commit(c->keeper, &c->window, &open, err);
}

static int
commit(struct collect *c, int64_t until, struct pr_error *err)
{
	c->window.until = until;
	/* the second that is under way ends with the window: what comes in it still is only late */
	if (pri_flow_table_advance(c->samples, until + PRI_FLOW_SLICE_NS, err) < 0 ||
		store(c, err) < 0)
		return -1;
	say_lost(c);
	c->unread_before = c->unread;
	c->messages = c->dropped = c->foreign = c->closed = c->broken = 0;
	c->window = (struct flow_window){.since = until, .reach = c->window.reach};
	return 0;
}

/* What has come until now; for a second at most. */
static void
drain(struct collect *c)
{
	int64_t end = pr_now_mono() + PR_NS_PER_S;
	uint64_t before = UINT64_MAX;

	while (!c->failed && c->messages != before && pr_now_mono() < end) {
		before = c->messages;
		event_base_loop(pr_loop_base(c->loop), EVLOOP_NONBLOCK);
	}
}

/* Begins to write the volume, with the flows of samples that it has. */
static int
begin(struct collect *c, struct pr_error *err)
{
	struct flow_window last;

	c->samples = pri_flow_table_create(&sample_limits, on_record, c, err);
	c->keeper = c->samples ? flow_keeper_open(c->args->keep, true, err) : NULL;
	int rc = c->keeper ? flow_keeper_resume(c->keeper, c->samples, &last, err) : -1;
	if (rc > 0 && !last.complete)
		fprintf(stderr, NAME ": %" PRIu64 " flows of samples are lost\n",
			last.open);
	return rc < 0 ? -1 : 0;
}

static void
on_due(void *arg)
{
	struct collect *c = arg;

	c->now = pr_now_real() > c->now ? pr_now_real() : c->now + 1;
	if ((c->messages || c->now - c->window.since >= IDLE_NS) &&
		commit(c, c->now, c->err) < 0)
		fail(c);
}

static int
serve(struct collect *c, struct pr_error *err)
{
	c->window.since = c->now = pr_now_real();
	struct pr_timer *due = pr_timer_create(c->loop, c->args->every, on_due, c, err);
	struct pr_timer *sweep = pr_timer_create(c->loop, PR_NS_PER_S, on_sweep, c, err);
	if (!due || !sweep || pr_loop_run(c->loop, err) < 0)
		c->failed = true;
	drain(c);
	pr_timer_destroy(&due);
	pr_timer_destroy(&sweep);
	c->now++;
	return c->failed ? -1 : commit(c, c->now, err);
}

/* ---- files ---- */

/* A file's flows are stored at their ends, or where the one before was. */
static int
on_file_flow(void *arg, const struct pri_flow *flow, uint64_t missing, struct pr_error *err)
{
	struct collect *c = arg;

	pr_time_widen(&c->window.since, &c->now, pri_flow_first(flow), pri_flow_last(flow));
	c->window.until = pr_time_minus(c->now, -1);
	c->window.packets += pri_flow_packets(flow);
	return flow_keeper_put(c->keeper, flow, missing, c->now, err);
}

/* All of the file is one window. What a keeper was given without one is nobody's. */
static int
read_file(struct collect *c, const char *path, struct pr_error *err)
{
	static struct flow_file file; /* with room for what it begins with */
	struct flow_file *f = &file;

	c->now = PR_TIME_MIN;
	c->window = (struct flow_window){.since = PR_TIME_MAX};
	int rc = flow_file_open(f, path, err);
	if (rc == 0)
		rc = flow_keeper_file(c->keeper, f->hash, err);
	if (rc == 0)
		rc = flow_file_read(f, on_file_flow, c, err);
	c->window.missing = f->lost;
	if (rc == 0 && f->records)
		rc = store(c, err);
	if (rc < 0)
		pr_error_prefix(err, "%s", path);
	else
		fprintf(stderr, "%s: %" PRIu64 " flow%s kept\n", path, f->records,
			pr_plural(f->records));
	flow_file_close(f);
	return rc;
}

/* One that is damaged, or is there already, does not keep others out. */
static int
read_files(struct collect *c, struct pr_error *err)
{
	const struct pr_string_list *files = &c->args->read;
	size_t taken = 0;

	for (size_t i = 0; i < files->count; i++) {
		if (read_file(c, files->items[i], err) == 0)
			taken++;
		else if (i + 1 < files->count || taken)
			fprintf(stderr, NAME ": %s\n", err->text);
	}
	return taken == files->count ? CLI_OK : taken ? CLI_PARTIAL : CLI_FAILED;
}

/* ---- exporters ---- */

static int
on_known(void *arg, const void *item, struct pr_error *err)
{
	struct collect *c = arg;
	struct pri_exporter x;

	memcpy(&x, item, sizeof(x));
	if ((x.id.address_len != 4 && x.id.address_len != 16) ||
		x.link >= PRI_EXPORTERS_MAX)
		return pr_error_set(err, "an exporter is damaged");
	c->lost[x.link] = x.lost;
	c->unread_before += x.no_template + x.bad;
	return pri_exporters_restore(c->exporters, &x, err);
}

static const char *
protocol(const struct pri_exporter *x)
{
	return x->id.version == PRI_EXPORT_SFLOW ? "sflow"
	       : x->id.stream                    ? "ipfix/tcp"
	       : x->id.version == 10             ? "ipfix"
	       : x->id.version == 9              ? "netflow 9"
						 : "netflow 5";
}

static int
show(const struct collect *c)
{
	struct render *r = cli_render(c->args->json, c->args->keyvalue, "exporters");
	const struct pri_exporter *x;
	char address[PR_ADDRESS_TEXT], time[PR_TIME_TEXT];

	if (!r)
		printf("%-24s %9s %10s %7s %5s %8s %12s %12s %8s %6s %5s  %s\n", "exporter",
			"protocol", "domain", "source", "link", "sampling", "messages",
			"flows", "lost", "late", "bad", "last heard");
	for (size_t i = 0; (x = pri_exporters_get(c->exporters, i)); i++) {
		pr_format_address(x->id.address, x->id.address_len, address);
		if (!r) {
			printf("%-24s %9s %10u %7u %5u %8u %12" PRIu64 " %12" PRIu64
			       " %8" PRIu64 " %6" PRIu64 " %5" PRIu64 "  %s\n",
				address, protocol(x), x->id.domain, x->id.source, x->link,
				x->sampling, x->messages, x->flows, x->lost, x->late,
				x->bad + x->no_template,
				pr_time_format(x->heard, time, sizeof(time)));
			continue;
		}
		render_object(r, NULL);
		render_string(r, "address", address);
		render_string(r, "protocol", protocol(x));
		RENDER_UINTS(r, {"version", x->id.version & 127}, {"domain", x->id.domain},
			{"source", x->id.source}, {"source_class", x->id.source_class},
			{"link", x->link}, {"sampling", x->sampling},
			{"messages", x->messages}, {"flows", x->flows}, {"lost", x->lost},
			{"late", x->late}, {"restarts", x->restarts},
			{"without_template", x->no_template}, {"bad", x->bad},
			{"skipped", x->skipped}, {"dropped", x->dropped});
		render_time(r, "last_heard", x->heard);
		render_close(r);
	}
	return render_end(&r) < 0 ? pr_error_set(c->err, "cannot print") : 0;
}

/* ---- the command ---- */

/* An exit status, or -1: failed. */
static int
collect(struct collect *c, struct pr_error *err)
{
	const struct collect_args *a = c->args;
	int rc = 0;

	c->exporters = pri_exporters_create(on_record, on_sample, c, err);
	if (!c->exporters ||
		flow_state_each(a->keep, sizeof(struct pri_exporter), on_known, c, err) < 0)
		return -1;
	if (a->exporters)
		return show(c);
	if (begin(c, err) < 0)
		return -1;
	if (a->read.count)
		return read_files(c, err);
	c->loop = pr_loop_create(&(const struct pr_loop_calls){0}, err);
	if (!c->loop)
		return -1;
	for (size_t i = 0; rc == 0 && i < a->listen.count; i++)
		rc = socket_open(c, a->listen.items[i], SOCK_DGRAM, err);
	for (size_t i = 0; rc == 0 && i < a->tcp.count; i++)
		rc = socket_open(c, a->tcp.items[i], SOCK_STREAM, err);
	c->datagrams = malloc(BATCH * sizeof(*c->datagrams));
	if (rc == 0 && !c->datagrams)
		rc = pr_error_set(err, "no memory for datagrams");
	return rc < 0 ? -1 : serve(c, err);
}

static int
run(const struct cli_call *call, struct pr_error *err)
{
	struct collect_args *a = call->values;
	struct collect c = {.args = a, .err = err};
	int status = CLI_USAGE;

	if (!a->keep)
		pr_error_set(err, "no volume given: use --keep VOLUME");
	else if (a->exporters + (a->listen.count || a->tcp.count) + !!a->read.count != 1)
		pr_error_set(err, "--listen [ADDRESS:]PORT, --read FILE, or --exporters");
	else if (networks_parse(&c.from, "--from", &a->from, err) == 0)
		status = collect(&c, err);
	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (c.streams[i].io)
			stream_close(&c.streams[i], NULL);
	for (size_t i = 0; i < c.count; i++) {
		close(event_get_fd(c.sockets[i].event));
		event_free(c.sockets[i].event);
	}
	pr_loop_destroy(&c.loop);
	flow_keeper_close(&c.keeper);
	pri_exporters_destroy(&c.exporters);
	pri_flow_table_destroy(&c.samples);
	networks_free(&c.from);
	free(c.datagrams);
	return status;
}

const struct cli_command collect_command = {"collect",
	"store flow records that routers send (NetFlow, IPFIX)",
	.summary =
		"Stores flow records that exporters send: NetFlow version 5 and 9, IPFIX, "
		"and sFlow version 5.",
	.usage = "--keep VOLUME {--listen|--listen-tcp} [ADDRESS:]PORT... | "
		 "--keep VOLUME --read FILE... | --keep VOLUME --exporters",
	PR_OPTIONS(options),
	.footer = "  packrack volume create flows.vol --size 16G\n"
		  "  packrack collect --listen 2055 --listen 4739 --from 192.0.2.0/24 "
		  "--keep flows.vol\n"
		  "  packrack collect --read conn.log --read nfcapd.202401010000 --keep "
		  "flows.vol\n"
		  "  packrack flows --kept flows.vol --since \"1h ago\" --by src --top 10",
	.call = run, .values = &(struct collect_args){.keep = NULL}};
