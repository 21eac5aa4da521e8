/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/pcap_over_ip.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "merger/trace_writer.h"
#include "proto/base/log.h"
#include "proto/base/tcp.h"
#include "proto/base/text.h"
#include "proto/wire/segment.h"

struct pcap_reader;

struct prm_pcap_over_ip {
	struct prm_merger *merger;
	const struct prm_registry *registry;
	struct pcap_port *ports;
	struct pcap_reader *readers;
	struct prm_pcap_over_ip_figures figures;
};

#define CREDIT 4 /* batches under way to a reader */
/* From one tick to the next, on a port: each begins a query on every node. */
#define ACCEPTED_MOST 4
#define LINKS_NS PR_NS_PER_S /* between two checks for new links */

struct pcap_reader {
	struct pcap_reader *next;
	struct prm_pcap_over_ip *all;
	struct bufferevent *io;
	struct prm_fanout *fanout; /* NULL: it has ended; else the merger's */
	struct prm_output out;
	struct prm_trace_writer *trace;
	uint32_t owed; /* batches that it may still get */
	/* monotonic; moved: last time it took data, or had all */
	int64_t links_known, moved;
	uint64_t taken; /* bytes taken at that time */
	bool stalled, gone, closing;
	char name[PR_TCP_TEXT];
};

/* ---- what goes to a reader ---- */

static size_t
waiting(const struct pcap_reader *r)
{
	return evbuffer_get_length(bufferevent_get_output(r->io));
}

static int
take_bytes(void *arg, const void *data, size_t len)
{
	struct pcap_reader *r = arg;

	r->all->figures.bytes += len;
	return bufferevent_write(r->io, data, len) == 0 ? 0 : ENOMEM;
}

/*
 * Takes the names of links from the nodes. Links that no node reported get made-up names.
 */
static void
learn_links(struct pcap_reader *r)
{
	const struct prm_registry *nodes = r->all->registry;
	int64_t now = pr_now_mono();

	if (r->links_known && now - r->links_known < LINKS_NS)
		return;
	r->links_known = now;
	for (size_t i = 0; i < nodes->count; i++)
		for (size_t j = 0; j < nodes->nodes[i]->hello->n_links; j++)
			prm_trace_link(r->trace, nodes->nodes[i]->hello->links[j], NULL);
}

static int
write_batch(struct pcap_reader *r, const Packrack__Batch *batch, struct pr_error *err)
{
	struct pr_segment_reader segment;
	struct pr_packet p;
	int got;

	learn_links(r);
	if (pr_segment_open(&segment, batch->packets.data, batch->packets.len, err) < 0)
		return -1;
	while ((got = pr_segment_next(&segment, &p, err)) > 0) {
		if (prm_trace_packet(r->trace, &p, err) < 0)
			return -1;
		r->all->figures.packets++;
	}
	return got < 0 ? -1 : prm_output_flush(&r->out, err);
}

static void
write_end(struct pcap_reader *r, const char *why)
{
	struct pr_error err;

	if (r->closing)
		return;
	if (r->trace && prm_trace_finish(r->trace, NULL, 0, &why, why ? 1 : 0, &err) < 0)
		pr_log_warning("pcap-over-IP to %s: %s", r->name, err.text);
}

/* Calls the write callback in the loop's next turn, as if the reader had taken bytes. */
static void
wake(struct pcap_reader *r)
{
	bufferevent_trigger(
		r->io, EV_WRITE, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* The fan-out's deliver function; it must not call the fan-out. */
static int
deliver(void *arg, const Packrack__Envelope *env)
{
	struct pcap_reader *r = arg;
	struct pr_error text;

	if (env->body_case == PACKRACK__ENVELOPE__BODY_BATCH) {
		r->owed--;
		if (write_batch(r, env->batch, &text) == 0) {
			wake(r);
			return 0;
		}
		pr_log_warning("pcap-over-IP to %s: %s", r->name, text.text);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_FAILURE) {
		pr_log_warning("pcap-over-IP to %s: %s", r->name, env->failure->text);
		write_end(r, env->failure->text);
	} else if (env->body_case == PACKRACK__ENVELOPE__BODY_END) {
		const Packrack__Completeness *c = env->end->completeness;
		uint64_t missing = c ? c->missing_packets + c->pending_packets : 0;

		pr_error_set(&text,
			"ended by the rack after %llu packets, %llu missing, %zu ranges "
			"overwritten before they were read",
			(unsigned long long)env->end->matched, (unsigned long long)missing,
			c ? c->n_evicted : 0);
		write_end(r, text.text);
	}
	r->fanout = NULL; /* the query ends, and the merger frees it */
	r->gone = true;
	wake(r);
	return -1;
}

/* ---- a reader's life ---- */

static void
reader_free(struct pcap_reader *r)
{
	LL_DELETE(r->all->readers, r);
	r->all->figures.readers--;
	r->closing = true;
	if (r->fanout)
		prm_fanout_cancel_by_other(r->fanout);
	prm_trace_destroy(&r->trace);
	prm_output_free(&r->out);
	bufferevent_free(r->io);
	free(r);
}

/* The reader has room again; or its query has ended, and the rest was sent. */
static void
grant(PR_UNUSED struct bufferevent *io, void *arg)
{
	struct pcap_reader *r = arg;
	bool full = waiting(r) > PRM_PCAP_OVER_IP_BUFFER;
	uint32_t more = CREDIT - r->owed;

	if (r->gone) {
		if (!waiting(r)) {
			pr_log_info("pcap-over-IP: %s is done", r->name);
			reader_free(r);
		}
		return;
	}
	if (full && !r->stalled)
		r->all->figures.stalls++;
	r->stalled = full;
	if (full || !more)
		return;
	r->owed += more;
	prm_fanout_credit(r->fanout, 0, more);
}

/* Discards what the reader sends: the protocol has no requests. */
static void
on_read(struct bufferevent *io, PR_UNUSED void *arg)
{
	evbuffer_drain(
		bufferevent_get_input(io), evbuffer_get_length(bufferevent_get_input(io)));
}

static void
on_event(PR_UNUSED struct bufferevent *io, short what, void *arg)
{
	struct pcap_reader *r = arg;

	if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
		return;
	pr_log_info("pcap-over-IP: %s has gone", r->name);
	reader_free(r);
}

/* io is taken over in any case. */
static struct pcap_reader *
reader_create(struct prm_pcap_over_ip *all, struct bufferevent *io, struct pr_error *err)
{
	struct pcap_reader *r = calloc(1, sizeof(*r));

	if (!r || prm_output_init(&r->out, -1, false, err) < 0) {
		free(r);
		bufferevent_free(io);
		return pr_error_null(err, "no memory for a reader");
	}
	r->out.take = take_bytes;
	r->out.take_arg = r;
	r->all = all;
	r->io = io;
	r->moved = pr_now_mono();
	LL_PREPEND(all->readers, r);
	all->figures.readers++;
	return r;
}

static int
reader_start(struct prm_pcap_over_ip *all, struct bufferevent *io, const char *link,
	struct pr_error *err)
{
	static const struct prm_trace_options options = {
		.format = PRM_TRACE_PCAPNG, .comment = "live, from a rack of packrack"};
	struct pcap_reader *r = reader_create(all, io, err);
	Packrack__Query query = PACKRACK__QUERY__INIT;
	char text[PR_TCP_TEXT + 32];

	if (!r)
		return -1;
	pr_tcp_name(bufferevent_getfd(io), true, r->name);
	PR_PRINT(text, "(pcap-over-IP to %s)", r->name);
	query.since = pr_now_real();
	query.until = PR_TIME_MAX;
	query.follow = true;
	query.link = (char *)link;
	query.text = text;
	r->trace = prm_trace_create(&r->out, &options, err);
	if (r->trace)
		learn_links(r);
	/* the header goes out at once: a reader waits for it before it shows anything */
	if (!r->trace || prm_trace_begin(r->trace, err) < 0 ||
		prm_output_flush(&r->out, err) < 0 ||
		!(r->fanout = prm_merger_ask(all->merger, &query, deliver, r, err))) {
		reader_free(r);
		return -1;
	}
	pr_log_info("pcap-over-IP: %s reads", r->name);
	bufferevent_setcb(r->io, on_read, grant, on_event, r);
	bufferevent_setwatermark(r->io, EV_WRITE, PRM_PCAP_OVER_IP_BUFFER / 2, 0);
	bufferevent_enable(r->io, EV_READ | EV_WRITE);
	grant(r->io, r);
	return 0;
}

struct pcap_port {
	struct pcap_port *next;
	struct prm_pcap_over_ip *all;
	struct evconnlistener *listener;
	char *link; /* "": all */
	unsigned accepted; /* since the last tick */
};

void
prm_pcap_over_ip_tick(struct prm_pcap_over_ip *all, int64_t mono)
{
	struct pcap_reader *next;

	for (struct pcap_port *p = all ? all->ports : NULL; p; p = p->next) {
		p->accepted = 0;
		evconnlistener_enable(p->listener);
	}
	for (struct pcap_reader *r = all ? all->readers : NULL; r; r = next) {
		uint64_t taken = r->out.written - waiting(r);

		next = r->next;
		if (!waiting(r) || taken != r->taken)
			r->moved = mono;
		r->taken = taken;
		if (mono - r->moved < PRM_PCAP_OVER_IP_STUCK_NS)
			continue;
		pr_log_warning("pcap-over-IP: %s read nothing for %lld s: closed", r->name,
			(long long)(PRM_PCAP_OVER_IP_STUCK_NS / PR_NS_PER_S));
		all->figures.dropped++;
		reader_free(r);
	}
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd,
	PR_UNUSED struct sockaddr *address, PR_UNUSED int len, void *arg)
{
	struct pcap_port *port = arg;
	struct bufferevent *io = bufferevent_socket_new(
		evconnlistener_get_base(listener), fd, BEV_OPT_CLOSE_ON_FREE);
	struct pr_error err = {"no memory for a reader"};

	if (++port->accepted == ACCEPTED_MOST)
		evconnlistener_disable(listener);
	if (!io)
		close(fd);
	if (io && reader_start(port->all, io, port->link, &err) == 0) {
		port->all->figures.accepted++;
		return;
	}
	port->all->figures.refused++;
	pr_log_warning("pcap-over-IP: a reader is refused: %s", err.text);
}

/* ---- ports ---- */

/* The place without /LINK; link: where the link's name begins in text, or its end. */
static int
split(const char *text, char place[PR_TCP_TEXT], const char **link, struct pr_error *err)
{
	size_t len = strcspn(text, "/");

	if (len >= PR_TCP_TEXT)
		return pr_error_set(err, "'%.100s' is too long for [ADDRESS:]PORT", text);
	memcpy(place, text, len);
	place[len] = '\0';
	*link = text + len + (text[len] == '/');
	return 0;
}

int
prm_pcap_over_ip_check(const char *text, bool *loopback, struct pr_error *err)
{
	char place[PR_TCP_TEXT];
	const char *link;

	return split(text, place, &link, err) < 0 ? -1 : pr_tcp_check(place, loopback, err);
}

int
prm_pcap_over_ip_add(struct prm_pcap_over_ip **allp, struct pr_loop *loop,
	struct prm_merger *merger, const struct prm_registry *registry, const char *text,
	struct pr_error *err)
{
	struct prm_pcap_over_ip *all = *allp ? *allp : calloc(1, sizeof(*all));
	struct pcap_port *port = calloc(1, sizeof(*port));
	char place[PR_TCP_TEXT];
	const char *link;

	*allp = all;
	if (!all || !port || split(text, place, &link, err) < 0 ||
		!(port->link = strdup(link))) {
		free(port);
		return pr_error_set(err, "no memory for listening on %s", text);
	}
	all->merger = merger;
	all->registry = registry;
	port->all = all;
	port->listener = pr_tcp_serve(pr_loop_base(loop), place, on_accept, port, err);
	if (!port->listener) {
		free(port->link);
		free(port);
		return -1;
	}
	LL_PREPEND(all->ports, port);
	pr_tcp_name(evconnlistener_get_fd(port->listener), false, place);
	pr_log_info("pcap-over-IP on %s: %s%s", place, *link ? "link " : "all links", link);
	return 0;
}

void
prm_pcap_over_ip_free(struct prm_pcap_over_ip **pp)
{
	struct prm_pcap_over_ip *all = PR_TAKE(pp);

	if (!all)
		return;
	while (all->readers) {
		struct bufferevent *io = all->readers->io;

		evbuffer_write(bufferevent_get_output(io), bufferevent_getfd(io));
		reader_free(all->readers);
	}
	for (struct pcap_port *port; (port = all->ports);) {
		LL_DELETE(all->ports, port);
		evconnlistener_free(port->listener);
		free(port->link);
		free(port);
	}
	free(all);
}

struct prm_pcap_over_ip_figures
prm_pcap_over_ip_figures(const struct prm_pcap_over_ip *all)
{
	return all ? all->figures : (struct prm_pcap_over_ip_figures){0};
}
