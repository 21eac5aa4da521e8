/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/faulty_rules.h"

/* A port of the faulty switch: its socket, the frames that leave it later or in line, and what it counts. */
#define HELD_MAX 65536
#define LAST_HOLD_NS                                                                       \
	1500000000 /* shorter than the silence that nodes and dispatcher bear */
#define FLUSH_NS 200000000 /* a reordered frame that nothing follows goes after all */

enum tally {
	T_IN,
	T_SENT,
	T_LOST,
	T_DUP,
	T_REORDERED,
	T_DELAYED,
	T_CORRUPTED,
	T_PADDED,
	TALLIES
};
static const char *const tally_names[] = {
	"in", "sent", "lost", "duplicated", "reordered", "delayed", "corrupted", "padded"};

struct held {
	struct held *next;
	uint64_t after; /* goes when the port has passed so many frames ... */
	int64_t due; /* ... or at this time, whichever the verdict set; ns, monotonic */
	int class;
	size_t len;
	uint8_t bytes[];
};

struct port {
	char name[IFNAMSIZ];
	int fd;
	uint64_t passed, kernel_drops, send_errors;
	uint64_t tally[FR_CLASSES][TALLIES];
	struct held *held, *line,
		**line_end; /* delayed or reordered; waiting behind a "last" */
	unsigned held_count;
	struct fr_rule *line_rule;
	int64_t line_due;
};

static inline void __attribute__((noreturn, format(printf, 2, 3)))
die(int status, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	fprintf(stderr, "faulty_switch: ");
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(status);
}

static inline int64_t
now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- ports ---------------------------------------------------------------- */

static inline void
port_open(struct port *p, const char *name)
{
	unsigned index = if_nametoindex(name);
	int one = 1, room = 64 << 20;
	if (!index || strlen(name) >= IFNAMSIZ)
		die(1, "no interface '%s'", name);
	strcpy(p->name, name);
	p->line_end = &p->line;
	p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->fd < 0)
		die(1, "packet socket: %s", strerror(errno));
	struct sockaddr_ll at = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)index};
	setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	if (setsockopt(p->fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
		setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
		bind(p->fd, (struct sockaddr *)&at, sizeof(at)))
		die(1, "%s: %s", name, strerror(errno));
}

static inline void
port_send(struct port *p, int class, const uint8_t *frame, size_t len)
{
	struct pollfd room = {.fd = p->fd, .events = POLLOUT};
	for (int tries = 0; tries < 100; tries++) {
		if (send(p->fd, frame, len, 0) == (ssize_t)len) {
			p->tally[class][T_SENT]++;
			return;
		}
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
			break;
		poll(&room, 1, 1);
	}
	if (p->send_errors++ == 0)
		fprintf(stderr, "faulty_switch: %s: send of %zu bytes: %s\n", p->name, len,
			strerror(errno));
}

/* ---- frames that go later --------------------------------------------------- */

static inline struct held *
held_make(int class, const uint8_t *frame, size_t len)
{
	struct held *h = malloc(sizeof(*h) + len);
	if (!h)
		die(1, "out of memory");
	*h = (struct held){.class = class, .len = len};
	memcpy(h->bytes, frame, len);
	return h;
}

static inline void
held_keep(struct port *p, int class, const uint8_t *frame, size_t len,
	const struct fr_verdict *v)
{
	struct held *h = held_make(class, frame, len);
	h->after = v->later_frames ? p->passed + v->later_frames : UINT64_MAX;
	h->due = now_ns() + (v->later_ms ? (int64_t)v->later_ms * 1000000 : FLUSH_NS);
	h->next = p->held;
	p->held = h;
	p->held_count++;
}

static inline void
held_release(struct port *p, int64_t now)
{
	struct held **at = &p->held, *h;
	while ((h = *at)) {
		if (h->after > p->passed && h->due > now) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		p->held_count--;
		port_send(p, h->class, h->bytes, h->len);
		free(h);
	}
}

static inline void
pass(struct port *p, int class, const uint8_t *frame, size_t len)
{
	port_send(p, class, frame, len);
	p->passed++;
	if (p->held)
		held_release(p, now_ns());
}

/*
 * "The last X before Y": an X waits until it is known whether another X or a Y comes first, and all
 * that follows waits in line behind it, so that nothing is reordered.
 */
static inline void
line_begin(struct port *p, struct fr_rule *rule)
{
	p->line_rule = rule;
	p->line_due = now_ns() + LAST_HOLD_NS;
}

static inline void
line_add(struct port *p, int class, const uint8_t *frame, size_t len)
{
	struct held *h = held_make(class, frame, len);
	*p->line_end = h;
	p->line_end = &h->next;
}

static inline void
line_end(struct port *p, bool drop_first)
{
	struct held *h = p->line, *next;
	p->line = NULL;
	p->line_end = &p->line;
	p->line_rule = NULL;
	for (; h; h = next, drop_first = false) {
		next = h->next;
		if (drop_first)
			p->tally[h->class][T_LOST]++;
		else
			pass(p, h->class, h->bytes, h->len);
		free(h);
	}
}

static inline void
line_see(struct port *p, int index, int class)
{
	struct fr_rule *rule = p->line_rule;
	if (!rule)
		return;
	if (class == rule->last_before) {
		rule->spent[index] = true;
		line_end(p, true);
	} else if (class == rule->class) {
		line_end(p, false);
	}
}

/* ---- counts --------------------------------------------------------------- */

static inline void
print_class(FILE *f, const struct port *p, int class, bool *first)
{
	const uint64_t *t = p->tally[class];
	if (!t[T_IN] && !t[T_SENT])
		return;
	fprintf(f, "%s\n   \"%s\": {", *first ? "" : ",", fr_classes[class]);
	for (int i = 0; i < TALLIES; i++)
		fprintf(f, "%s\"%s\": %llu", i ? ", " : "", tally_names[i],
			(unsigned long long)t[i]);
	fprintf(f, "}");
	*first = false;
}

static inline void
print_port(FILE *f, struct port *p)
{
	struct tpacket_stats st = {0};
	socklen_t len = sizeof(st);
	if (getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len) == 0)
		p->kernel_drops += st.tp_drops; /* reading clears it */
	bool first = true;
	fprintf(f, " \"%s\": {\"kernel_drops\": %llu, \"send_errors\": %llu, \"to\": {",
		p->name, (unsigned long long)p->kernel_drops,
		(unsigned long long)p->send_errors);
	for (int class = 0; class < FR_CLASSES; class ++)
		print_class(f, p, class, &first);
	fprintf(f, "}}");
}
