/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A learning bridge in user space that does wrong on purpose, by rule and seed (faulty_rules.h), and
 * says exactly what it did: tests hold that against what the rack reports. Its ports: faulty_port.h.
 *
 *   faulty_switch [--seed N] [--ethertype N] [--stats FILE] [--rule RULE]... IFACE...
 *
 * Prints "ready" once it forwards. Writes the counts to FILE on SIGUSR1 and at the end. Stations are
 * learned from control frames only, so that no data frame can move one.
 */
#include <getopt.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "tests/system/faulty_port.h"

#define FRAME_MAX (65535 + 64)
#define BATCH 32
#define STATIONS 256

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
