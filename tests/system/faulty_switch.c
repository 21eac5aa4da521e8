/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A learning bridge in user space that does wrong on purpose, by rule and seed (faulty_rules.h), and
 * says exactly what it did: tests hold that against what the rack reports.
 *
 *   faulty_switch [--seed N] [--ethertype N] [--stats FILE] [--rule RULE]... IFACE...
 *
 * Prints "ready" once it forwards. Writes the counts to FILE on SIGUSR1 and at the end. Stations are
 * learned from control frames only, so that no data frame can move one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/faulty_rules.h"

#define FRAME_MAX (65535 + 64)
#define BATCH 32
#define HELD_MAX 65536
#define STATIONS 256
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

struct station {
	uint8_t mac[6];
	int port;
};

static struct port ports[FR_PORTS];
static int port_count;
static struct fr_rule rules[FR_RULES];
static int rule_count;
static struct station stations[STATIONS];
static int station_count;
static unsigned ethertype = 0x88B5;
static uint64_t flooded;
static const char *stats_path;

static void __attribute__((noreturn, format(printf, 2, 3)))
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

static int64_t
now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- ports ---------------------------------------------------------------- */

static void
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

static void
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

static struct held *
held_make(int class, const uint8_t *frame, size_t len)
{
	struct held *h = malloc(sizeof(*h) + len);
	if (!h)
		die(1, "out of memory");
	*h = (struct held){.class = class, .len = len};
	memcpy(h->bytes, frame, len);
	return h;
}

static void
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

static void
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

static void
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
static void
line_begin(struct port *p, struct fr_rule *rule)
{
	p->line_rule = rule;
	p->line_due = now_ns() + LAST_HOLD_NS;
}

static void
line_add(struct port *p, int class, const uint8_t *frame, size_t len)
{
	struct held *h = held_make(class, frame, len);
	*p->line_end = h;
	p->line_end = &h->next;
}

static void
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

static void
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

/* ---- forwarding ----------------------------------------------------------- */

static struct fr_verdict
judge(int from, int to, int class)
{
	struct fr_verdict v = {0};
	for (int i = 0; i < rule_count && !v.lost; i++)
		if (fr_matches(&rules[i], class, ports[from].name, ports[to].name))
			fr_apply(&rules[i], to, &v);
	return v;
}

static void
tally(struct port *p, int class, const struct fr_verdict *v)
{
	uint64_t *t = p->tally[class];
	t[T_IN]++;
	t[T_LOST] += v->lost;
	if (v->lost)
		return;
	t[T_DUP] += v->twice;
	t[T_REORDERED] += v->later_frames != 0;
	t[T_DELAYED] += v->later_ms != 0;
	t[T_CORRUPTED] += v->corrupt != 0;
	t[T_PADDED] += v->pad != 0;
}

/* frame has room for padding; it is changed, and changed back where it must go elsewhere too. */
static void
forward_to(int from, int to, uint8_t *frame, size_t len)
{
	struct port *p = &ports[to];
	int class = fr_classify(frame, len, ethertype);
	line_see(p, to, class);
	struct fr_verdict v = judge(from, to, class);
	uint64_t bit = v.corrupt ? v.corrupt % (len * 8) : 0;
	uint8_t flip = (uint8_t)(v.corrupt ? 1 << bit % 8 : 0);
	tally(p, class, &v);
	if (v.lost)
		return;
	if (v.last && !p->line_rule)
		line_begin(p, v.last);
	if (v.pad > FRAME_MAX - len)
		v.pad = 0;
	memset(frame + len, 0, v.pad);
	frame[bit / 8] ^= flip;
	for (int copy = 0, copies = v.twice ? 2 : 1; copy < copies; copy++) {
		if (p->line_rule)
			line_add(p, class, frame, len + v.pad);
		else if ((v.later_frames || v.later_ms) && copy == 0 &&
			 p->held_count < HELD_MAX)
			held_keep(p, class, frame, len + v.pad, &v);
		else
			pass(p, class, frame, len + v.pad);
	}
	frame[bit / 8] ^= flip;
}

static int
station_find(const uint8_t *mac)
{
	for (int i = 0; i < station_count; i++)
		if (memcmp(stations[i].mac, mac, 6) == 0)
			return i;
	return -1;
}

static void
learn(int from, const uint8_t *mac)
{
	int i = station_find(mac);
	if (i < 0 && station_count < STATIONS) {
		i = station_count++;
		memcpy(stations[i].mac, mac, 6);
	}
	if (i >= 0)
		stations[i].port = from;
}

static void
forward(int from, uint8_t *frame, size_t len)
{
	if (len < 14)
		return;
	if (fr_classify(frame, len, ethertype) != FR_DATA)
		learn(from, frame + 6);
	int known = frame[0] & 1 ? -1 : station_find(frame);
	if (known >= 0) {
		if (stations[known].port != from)
			forward_to(from, stations[known].port, frame, len);
		return;
	}
	flooded++;
	for (int to = 0; to < port_count; to++)
		if (to != from)
			forward_to(from, to, frame, len);
}

/* The kernel takes the outermost VLAN tag off and tells of it aside: put it back. */
static size_t
untag_undo(struct msghdr *msg, uint8_t *frame, size_t len)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct tpacket_auxdata aux;
		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || len < 12)
			continue;
		unsigned tpid = aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid
									  : 0x8100;
		memmove(frame + 16, frame + 12, len - 12);
		frame[12] = (uint8_t)(tpid >> 8);
		frame[13] = (uint8_t)tpid;
		frame[14] = (uint8_t)(aux.tp_vlan_tci >> 8);
		frame[15] = (uint8_t)aux.tp_vlan_tci;
		return len + 4;
	}
	return len;
}

static void
receive(int from)
{
	static uint8_t room[FRAME_MAX + 4];
	char control[256];
	for (int i = 0; i < BATCH; i++) {
		struct iovec iov = {.iov_base = room, .iov_len = FRAME_MAX};
		struct msghdr msg = {.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control)};
		ssize_t len = recvmsg(ports[from].fd, &msg, 0);
		if (len < 0)
			return;
		forward(from, room, untag_undo(&msg, room, (size_t)len));
	}
}

/* ---- counts --------------------------------------------------------------- */

static void
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

static void
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

static void
stats_write(void)
{
	char temporary[4096];
	if (!stats_path)
		return;
	snprintf(temporary, sizeof(temporary), "%s.new", stats_path);
	FILE *f = fopen(temporary, "w");
	if (!f) {
		fprintf(stderr, "faulty_switch: %s: %s\n", temporary, strerror(errno));
		return;
	}
	fprintf(f, "{\"flooded\": %llu, \"ports\": {\n", (unsigned long long)flooded);
	for (int i = 0; i < port_count; i++) {
		print_port(f, &ports[i]);
		fprintf(f, "%s\n", i + 1 < port_count ? "," : "");
	}
	fprintf(f, "}}\n");
	if (fclose(f) || rename(temporary, stats_path))
		fprintf(stderr, "faulty_switch: %s: %s\n", stats_path, strerror(errno));
}

/* ---- the loop ------------------------------------------------------------- */

static int
signals_open(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool
signal_ends(int fd)
{
	struct signalfd_siginfo info;
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGUSR1)
			return true;
		stats_write();
	}
	return false;
}

static bool
on_time(void)
{
	int64_t now = now_ns();
	bool waiting = false;
	for (int i = 0; i < port_count; i++) {
		if (ports[i].held)
			held_release(&ports[i], now);
		if (ports[i].line_rule && ports[i].line_due <= now)
			line_end(&ports[i], false);
		waiting |= ports[i].held || ports[i].line_rule;
	}
	return waiting;
}

static void
loop(int signals)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = FR_PORTS}, ready[16];
	int ep = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(ep, EPOLL_CTL_ADD, signals, &e);
	for (int i = 0; i < port_count; i++) {
		e.data.u32 = (uint32_t)i;
		epoll_ctl(ep, EPOLL_CTL_ADD, ports[i].fd, &e);
	}
	printf("ready\n");
	fflush(stdout);
	for (bool waiting = false;; waiting = on_time()) {
		int n = epoll_wait(ep, ready, 16, waiting ? 1 : -1);
		for (int i = 0; i < n; i++) {
			if (ready[i].data.u32 < FR_PORTS)
				receive((int)ready[i].data.u32);
			else if (signal_ends(signals))
				return;
		}
	}
}

static void
add_rule(const char *text, uint64_t seed)
{
	char copy[256];
	if (rule_count == FR_RULES)
		die(2, "more than %d rules", FR_RULES);
	snprintf(copy, sizeof(copy), "%s", text);
	if (!fr_parse(&rules[rule_count], copy, seed * FR_RULES + (uint64_t)rule_count))
		die(2, "'%s' is no rule: CLASS[@FROM>TO]:ACTION=VALUE[,...]", text);
	rule_count++;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"seed", 1, NULL, 's'},
		{"stats", 1, NULL, 'f'}, {"rule", 1, NULL, 'r'},
		{"ethertype", 1, NULL, 'e'}, {NULL, 0, NULL, 0}};
	uint64_t seed = 1;
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			stats_path = optarg;
			break;
		case 'r':
			add_rule(optarg, seed);
			break;
		case 'e':
			ethertype = (unsigned)strtoul(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind < 2 || argc - optind > FR_PORTS)
		die(2, "from 2 to %d interfaces are wanted", FR_PORTS);
	while (optind < argc)
		port_open(&ports[port_count++], argv[optind++]);
	int signals = signals_open();
	if (signals < 0)
		die(1, "signalfd: %s", strerror(errno));
	loop(signals);
	for (int i = 0; i < port_count; i++) {
		line_end(&ports[i], false);
		held_release(&ports[i], INT64_MAX);
	}
	stats_write();
	return 0;
}
