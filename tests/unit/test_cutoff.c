/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cutoff_model.h"

/* ---- classes ---- */

static const struct {
	const char *text, *want;
} bad_classes[] = {
	{"bulk; cutof = 15K",
		"class bulk: unknown key 'cutof' in [class NAME]; did you mean 'cutoff'?"},
	{"bulk; zzzzzz = 15K", "class bulk: unknown key 'zzzzzz' in [class NAME]; "
			       "'packrack-dispatcher --help' lists them"},
	{"bulk; cutoff = 15X",
		"class bulk: cutoff: '15X' is neither a size (like 15K) nor none"},
	{"bulk\nprecedence = 1.5",
		"class bulk: precedence: '1.5' is not a whole number (like 10 or -1)"},
	{"bulk\nprecedence = 99999999999999999999", "class bulk: precedence: "
						    "'99999999999999999999' is not a whole "
						    "number (like 10 or -1)"},
	{"bulk\nprecedence =",
		"class bulk: precedence: '' is not a whole number (like 10 or -1)"},
	{"bulk; filter = tcp prt 80",
		"class bulk: filter 'tcp prt 80': can't parse filter expression: syntax "
		"error"},
	{"bulk; 15K", "class bulk: '15K' is not 'key = value'"},
	{"ok", "class ok: there are two of this name"},
	{"  ok ; cutoff=1", "class ok: there are two of this name"},
	{"", "class '': it begins with its name: 'NAME; cutoff = 15K; filter = tcp'"},
	{"cutoff = 15K",
		"class 'cutoff = 15K': it begins with its name: 'NAME; cutoff = 15K; "
		"filter = tcp'"},
	{"a\x1b[31m; cutoff = 1K", "the name of a class is not plain text"},
	{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"class 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"...': the name is longer than 64 bytes"},
};

START_TEST(bad_class)
{
	ck_assert_ptr_null(CREATE(1 << 20, 1, "ok; cutoff=1K", bad_classes[_i].text));
	ck_assert_str_eq(err.text, bad_classes[_i].want);
}
END_TEST

START_TEST(class_count)
{
	struct pr_string_list list = {NULL, 0};
	struct prd_cutoff_options o = {.classes = &list, .memory = 1 << 20, .links = 1};

	for (int i = 0; i <= PRD_CLASSES_MAX; i++) {
		char name[32];

		PR_PRINT(name, "c%d\ncutoff = none", i);
		ck_assert_int_eq(pr_string_list_add(&list, name, strlen(name), NULL), 0);
		struct prd_cutoff *c = prd_cutoff_create(&o, &err);
		ck_assert_int_eq(c != NULL, i < PRD_CLASSES_MAX);
		prd_cutoff_destroy(&c);
	}
	ck_assert_ptr_nonnull(strstr(err.text, "more than 63 classes"));
	pr_string_list_clear(&list);
	ck_assert_ptr_null(CREATE(2000, 1, "a; cutoff=1K"));
	ck_assert_str_eq(err.text, "2000 bytes are too few for connections of 1 links");
}
END_TEST

/* ---- single rules ---- */

START_TEST(the_rule)
{
	struct prd_cutoff *c = CREATE(1 << 20, 1, "low; cutoff=0; precedence=-1",
		"dns ;filter=udp port 53;cutoff=250");
	uint8_t frame[PR_BEYOND_MAX];
	int64_t time;

	ck_assert_ptr_nonnull(c);
	/* 0, 100, 200 bytes before it are fewer than 250; both directions count */
	ck_assert(keeps(c, udp));
	ck_assert(keeps(c, WITH(udp, turn(s))));
	ck_assert(keeps(c, udp));
	ck_assert_int_eq(prd_cutoff_oldest(c, 0), PR_TIME_MAX);
	ck_assert(!keeps(c, udp));
	ck_assert(!keeps(c, WITH(udp, turn(s); s->time += 5; s->len = 1000)));
	ck_assert(!keeps(c, WITH(udp, turn(s); s->time += 9; s->len = 1)));
	ck_assert_int_eq(prd_cutoff_oldest(c, 0), BEGIN + PR_NS_PER_S - 1);
	/* the second is not over */
	ck_assert_uint_eq(prd_cutoff_take(c, 0, BEGIN + PR_NS_PER_S - 1, frame, &time), 0);
	struct pr_beyond b;
	for (int i = 0; i < 2; i++) {
		struct pr_packet p = {.data = frame};

		p.caplen =
			(uint32_t)prd_cutoff_take(c, 0, BEGIN + PR_NS_PER_S, frame, &time);
		ck_assert(pr_beyond_load(&p, &b));
		ck_assert_int_eq(time, BEGIN + PR_NS_PER_S - 1);
		ck_assert_str_eq(b.name, "dns");
		ck_assert_uint_eq(b.number, 1);
		ck_assert_uint_eq(b.packets, i ? 2 : 1);
		ck_assert_uint_eq(b.bytes, i ? 1001 : 100);
		ck_assert_int_eq(b.first, BEGIN + (i ? 5 : 0));
		ck_assert_int_eq(b.last, BEGIN + (i ? 9 : 0));
		/* 10.1.0.1 sends the first one, 10.2.0.2 the other */
		ck_assert_uint_eq(frame[27], i ? 2 : 1);
		ck_assert_uint_eq(pr_get_be16(frame + 34), i ? 53 : 1000);
	}
	ck_assert_uint_eq(prd_cutoff_take(c, 0, PR_TIME_MAX, frame, &time), 0);
	/* all else is of the class of lower precedence, that keeps only SYN, FIN, RST */
	ck_assert(!keeps(c, tcp));
	ck_assert(keeps(c, WITH(tcp, s->flags = SYN)));
	ck_assert(keeps(c, WITH(tcp, s->flags = ACK | FIN)));
	ck_assert(keeps(c, WITH(tcp, s->flags = RST)));
	ck_assert(!keeps(c, tcp));
	ck_assert(keeps(c, WITH(tcp, s->kind = NOT_IP)));
	ck_assert_uint_eq(prd_cutoff_figures(c)->connections, 2);
	prd_cutoff_destroy(&c);
}
END_TEST

/* Idle times, and a SYN after a FIN, begin a connection; times step back. */
START_TEST(begins)
{
	struct prd_cutoff *c = CREATE(1 << 20, 2, "all; cutoff=1");

	ck_assert_ptr_nonnull(c);
	ck_assert(keeps(c, udp));
	ck_assert(!keeps(c, WITH(udp, s->time += PRD_CUTOFF_IDLE)));
	ck_assert(!keeps(c, WITH(udp, s->time -= 1000 * PR_NS_PER_S)));
	ck_assert(keeps(c, WITH(udp, s->time += 2 * PRD_CUTOFF_IDLE + 1)));
	ck_assert(keeps(c, tcp));
	ck_assert(!keeps(c, WITH(tcp, s->time += PRD_CUTOFF_IDLE_TCP)));
	ck_assert(keeps(c, WITH(tcp, s->time += 2 * PRD_CUTOFF_IDLE_TCP + 2)));
	ck_assert(!keeps(c, tcp));
	ck_assert_uint_eq(prd_cutoff_figures(c)->connections_begun, 4);
	ck_assert(keeps(c, WITH(tcp, s->flags = SYN)));
	ck_assert(!keeps(c, tcp));
	ck_assert(keeps(c, WITH(tcp, s->flags = FIN)));
	ck_assert(!keeps(c, tcp));
	ck_assert_uint_eq(prd_cutoff_figures(c)->connections_begun, 4);
	ck_assert(keeps(c, WITH(tcp, s->flags = SYN)));
	ck_assert_uint_eq(prd_cutoff_figures(c)->connections_begun, 5);
	/* the time of the other link is another */
	ck_assert(keeps(c, WITH(udp, s->link = 1; s->time = PR_TIME_MIN)));
	ck_assert(!keeps(c, WITH(udp, s->link = 1; s->time = PR_TIME_MIN)));
	ck_assert(keeps(c, WITH(udp, s->link = 1; s->time = PR_TIME_MAX)));
	ck_assert(!keeps(c, WITH(udp, s->link = 1)));
	uint8_t frame[PR_BEYOND_MAX];
	int64_t time;
	ck_assert_uint_gt(prd_cutoff_take(c, 1, 0, frame, &time), 0);
	ck_assert_uint_eq(prd_cutoff_take(c, 1, 0, frame, &time), 0);
	ck_assert_int_eq(prd_cutoff_oldest(c, 1), PR_TIME_MAX - 1);
	ck_assert_uint_gt(prd_cutoff_take(c, 1, PR_TIME_MAX, frame, &time), 0);
	prd_cutoff_destroy(&c);
}
END_TEST

/* Headers that end too early, and bytes that are not a packet. */
START_TEST(short_packets)
{
	struct prd_cutoff *c = CREATE(1 << 20, 1, "all; cutoff=0");
	const struct shape shapes[] = {
		udp,
		tcp,
		WITH(tcp, s->six = true),
		WITH(udp, s->kind = ERROR_OF),
		WITH(udp, s->kind = LATER; s->six = true)
	};

	ck_assert_ptr_nonnull(c);
	for (size_t i = 0; i < PR_COUNT(shapes); i++) {
		struct frame f = frame_of(&shapes[i]);

		for (uint32_t len = 0; len <= f.caplen; len++) {
			uint8_t *copy = malloc(len ? len : 1);

			memcpy(copy, f.data, len);
			bool kept = prd_cutoff_keeps(c, 0, BEGIN, copy, len, f.caplen);
			/* an IP header is enough for an address pair */
			ck_assert_int_eq(kept, len < 14u + (shapes[i].six ? 40 : 20));
			free(copy);
		}
	}
	/* a TCP header that ends before its flags: a connection by ports, without flags */
	struct shape syn = WITH(tcp, s->flags = SYN);
	struct frame f = frame_of(&syn);
	ck_assert(prd_cutoff_keeps(c, 0, BEGIN, f.data, f.caplen, 60));
	ck_assert(!prd_cutoff_keeps(c, 0, BEGIN, f.data, 14 + 20 + 8, 60));
	prd_cutoff_destroy(&c);
}
END_TEST

/* ---- the model ---- */

/* In the order of their precedence; with the precedence of each. */
static const struct {
	const char *name, *filter, *cutoff;
	uint64_t bytes;
} classes[CLASSES] = {
	{"first", "host 10.1.0.1 and udp", "none", PRD_CUTOFF_NONE},
	{"second", "tcp port 2", "1K", 1024},
	{"third", "tcp or ip6", "700", 700},
	{"fourth", "ip", "0", 0},
	{"", "", "", PRD_CUTOFF_NONE},
};

static struct prd_cutoff *
create_classes(uint64_t memory)
{
	char text[CLASSES - 1][128];
	const char *list[CLASSES - 1];

	for (int i = 0; i < CLASSES - 1; i++) {
		int from = (i + 2) % (CLASSES - 1); /* they come in another order */

		PR_PRINT(text[i], "%s\nprecedence = %d\nfilter = %s;cutoff=%s",
			classes[from].name, 2 - from, classes[from].filter,
			classes[from].cutoff);
		list[i] = text[i];
	}
	return create(memory, LINKS, CLASSES - 1, list);
}

/* What fits into so much memory, by trying. */
static void
measure(struct model *m, uint64_t memory)
{
	struct prd_cutoff *c = create_classes(memory);
	struct shape of = udp;

	ck_assert_msg(c != NULL, "%s", err.text);
	of.host[0] = 3;
	for (of.port[0] = 0; !prd_cutoff_figures(c)->evicted; of.port[0]++)
		keeps(c, of);
	m->connections_max = prd_cutoff_figures(c)->connections;
	/* udp of host 3 is of a class that keeps nothing */
	m->sums_max = 0;
	while (prd_cutoff_oldest(c, 0) != PR_TIME_MAX) {
		uint8_t frame[PR_BEYOND_MAX];
		int64_t time;

		prd_cutoff_take(c, 0, PR_TIME_MAX, frame, &time);
		m->sums_max++;
	}
	of.kind = FIRST;
	for (m->fragments_max = 0;; m->fragments_max++) {
		of.time += 100 * PR_NS_PER_S;
		for (of.id = 0; of.id <= m->fragments_max; of.id++)
			keeps(c, of);
		of.id = 0;
		uint64_t unknown = prd_cutoff_figures(c)->fragments_unknown;
		keeps(c, WITH(of, s->kind = LATER));
		if (prd_cutoff_figures(c)->fragments_unknown != unknown)
			break;
	}
	ck_assert_uint_gt(m->connections_max, 10);
	ck_assert_uint_gt(m->sums_max, 3);
	ck_assert_uint_gt(m->fragments_max, 1);
	prd_cutoff_destroy(&c);
}

static unsigned
below(unsigned n)
{
	return (unsigned)rand() % n;
}

static struct shape
random_shape(const int64_t *now, unsigned hosts)
{
	static const uint8_t protocols[] = {TCP, TCP, TCP, UDP, UDP, ICMP, 47};
	static const uint8_t flags[] = {
		ACK, ACK, ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, SYN | FIN, 0};
	static const enum kind kinds[] = {WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, FIRST, LATER,
		LATER, ERROR_OF, ERROR_OF_LATER, NOT_IP};
	struct shape s = {.kind = kinds[below(11)],
		.link = below(4) ? 0 : below(LINKS),
		.vlan = below(5) ? PR_UNTAGGED : below(2),
		.six = below(4) == 0,
		.options = below(6) == 0,
		.protocol = protocols[below(7)],
		.flags = flags[below(11)],
		.host = {(uint8_t)(1 + below(hosts)), (uint8_t)(1 + below(hosts))},
		.port = {(uint16_t)(1 + below(3)), (uint16_t)(1 + below(3))},
		.id = below(12),
		.router = (uint8_t)(1 + below(hosts)),
		.len = 60 + below(300)};

	if (s.six && s.protocol == ICMP)
		s.protocol = ICMP6;
	if (s.protocol == 47) /* of the packets that begin as GRE, none is a tunnel */
		s.protocol = 103;
	if (s.protocol != TCP && s.protocol != UDP)
		s.port[0] = s.port[1] = 0;
	/* of a host that talks to itself, the direction of an answer is not known */
	if ((s.kind == ERROR_OF || s.kind == ERROR_OF_LATER) && s.host[0] == s.host[1])
		s.kind = WHOLE;
	s.time = now[s.link] + (int64_t)below(200) * PR_NS_PER_MS - 50 * PR_NS_PER_MS;
	if (below(300) == 0)
		s.time += (int64_t)below(70) * PR_NS_PER_S;
	return s;
}

static uint64_t taken_packets, taken_bytes;

/* The next sum of both; false: there is none. */
static bool
take(struct prd_cutoff *c, struct model *m, unsigned link, int64_t until)
{
	uint8_t frame[PR_BEYOND_MAX], headers[PR_BEYOND_MAX] = {0};
	struct model_sum *s = m->sums[link];
	int64_t time, end = s->second * PR_NS_PER_S + (PR_NS_PER_S - 1);
	struct pr_beyond b;

	unit_must(prd_cutoff_oldest(c, link) == (m->sum_count[link] ? end : PR_TIME_MAX));
	struct pr_packet p = {.data = frame};
	p.caplen = (uint32_t)prd_cutoff_take(c, link, until, frame, &time);
	if (!m->sum_count[link] ||
		(end >= until && m->sum_count[link] <= m->sums_max / 4 * 3)) {
		unit_must(p.caplen == 0);
		return false;
	}
	unit_must(pr_beyond_load(&p, &b));
	unit_must(time == end);
	unit_must(!strcmp(b.name, s->b.name));
	unit_must(b.number == s->b.number);
	unit_must(b.packets == s->b.packets);
	unit_must(b.bytes == s->b.bytes);
	unit_must(b.first == s->b.first);
	unit_must(b.last == s->b.last);
	pr_headers_put(&s->b.connection, headers);
	unit_must(!memcmp(frame, headers, PR_HEADERS_MAX));
	taken_packets += b.packets;
	taken_bytes += b.bytes;
	memmove(s, s + 1, --m->sum_count[link] * sizeof *s);
	return true;
}

static void
check_figures(const struct prd_cutoff_figures *f, const struct prd_cutoff_figures *want)
{
	ck_assert_uint_eq(f->connections_begun, want->connections_begun);
	ck_assert_uint_eq(f->connections_cut, want->connections_cut);
	ck_assert_uint_eq(f->evicted, want->evicted);
	ck_assert_uint_eq(f->fragments_unknown, want->fragments_unknown);
	ck_assert_uint_eq(f->uncounted, want->uncounted);
}

/* Packets that come, in their order; of each link some are looked at before. */
struct coming {
	struct shape shape;
	struct frame frame;
	uint8_t *copy; /* as keeps() has it */
	bool looked;
};
enum { COMING = 18 };
static struct coming coming[COMING];
static unsigned first_coming, end_coming, not_looked[LINKS];

static void
let_come(struct prd_cutoff *c, const int64_t *now, unsigned hosts)
{
	struct coming *p = &coming[end_coming++ % COMING];
	unsigned *others;

	p->shape = random_shape(now, hosts);
	p->frame = frame_of(&p->shape);
	p->copy = malloc(p->frame.caplen);
	memcpy(p->copy, p->frame.data, p->frame.caplen);
	others = &not_looked[p->shape.link];
	p->looked = !*others && below(30) && prd_cutoff_looks(c, p->shape.link);
	if (p->looked)
		prd_cutoff_look(c, p->shape.link, p->copy, p->frame.caplen);
	*others += !p->looked;
}

static void
run_model(struct model *m, uint64_t memory, unsigned hosts, unsigned packets)
{
	struct prd_cutoff *c = create_classes(memory);
	uint64_t kept = 0, kept_bytes = 0, bytes = 0, looked = 0;

	ck_assert_msg(c != NULL, "%s", err.text);
	taken_packets = taken_bytes = 0;
	for (int i = 0; i < CLASSES; i++)
		m->classes[i] = (struct model_class){
			pr_packet_filter_create(classes[i].filter, NULL), classes[i].name,
			classes[i].bytes};
	for (unsigned i = 0; i < LINKS; i++)
		m->latest[i] = BEGIN + (int64_t)i * 1000 * PR_NS_PER_S;
	int64_t now[LINKS];
	memcpy(now, m->latest, sizeof now);
	for (unsigned i = 0; i < LINKS; i++)
		m->latest[i] = PR_TIME_MIN;
	for (unsigned i = 0; i < packets; i++) {
		unsigned ahead = first_coming + 1 + below(COMING);

		while (end_coming < ahead)
			let_come(c, now, hosts);
		struct coming *p = &coming[first_coming++ % COMING];
		struct shape s = p->shape;
		struct frame f = p->frame;
		bool want = model_keeps(m, &s, &f);
		bool is = prd_cutoff_keeps(c, s.link, s.time, p->copy, f.caplen, s.len);

		free(p->copy);
		not_looked[s.link] -= !p->looked;
		looked += p->looked;
		now[s.link] = m->latest[s.link];
		if (want != is)
			ck_abort_msg(
				"packet %u of kind %d: the model says %d", i, s.kind, want);
		bytes += s.len;
		kept += is;
		kept_bytes += is ? s.len : 0;
		unsigned link = below(LINKS);
		if (below(40) == 0)
			while (take(c, m, link, now[link]))
				;
	}
	for (unsigned i = 0; i < LINKS; i++)
		while (take(c, m, i, PR_TIME_MAX))
			;
	for (; first_coming < end_coming; first_coming++)
		free(coming[first_coming % COMING].copy);
	memset(not_looked, 0, sizeof not_looked);
	ck_assert_uint_gt(looked, packets / 10);
	ck_assert_uint_lt(looked, packets / 10 * 9);
	ck_assert_uint_eq(kept + taken_packets, packets);
	ck_assert_uint_eq(kept_bytes + taken_bytes, bytes);
	check_figures(prd_cutoff_figures(c), &m->figures);
	for (int i = 0; i < CLASSES; i++)
		pr_packet_filter_destroy(&m->classes[i].filter);
	prd_cutoff_destroy(&c);
}

/* Bytes of memory, hosts: tables that are far too small up to one in which all have room. */
static const struct {
	unsigned memory, hosts;
} runs[] = {{13000, 12}, {13000, 4}, {16000, 6}, {24000, 8}, {40000, 9}, {1 << 20, 6}};

START_TEST(as_the_model)
{
	static struct model m;
	struct prd_cutoff_figures sum = {.connections = 0};

	for (unsigned round = 0; round < 4; round++) {
		srand(1 + _i * 100 + round);
		memset(&m, 0, sizeof m);
		measure(&m, runs[_i].memory);
		run_model(&m, runs[_i].memory, runs[_i].hosts, 30000);
		PR_ADD(&sum, &m.figures, connections_begun, connections_cut, evicted,
			fragments_unknown, uncounted);
	}
	/* each happened */
	ck_assert_uint_gt(sum.connections_cut, 100);
	ck_assert_uint_gt(sum.fragments_unknown, 100);
	if (_i == 0) {
		ck_assert_uint_gt(sum.evicted, 1000);
		ck_assert_uint_gt(sum.uncounted, 10);
	}
	if (runs[_i].memory == 1 << 20)
		ck_assert_uint_eq(sum.evicted, 0);
}
END_TEST

static void
fill(TCase *t)
{
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, bad_class, 0, PR_COUNT(bad_classes));
	tcase_add_test(t, class_count);
	tcase_add_test(t, the_rule);
	tcase_add_test(t, begins);
	tcase_add_test(t, short_packets);
	tcase_add_loop_test(t, as_the_model, 0, PR_COUNT(runs));
}

int
main(void)
{
	return unit_run("cutoff", fill);
}
