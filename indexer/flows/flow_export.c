/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/flows/flow_export.h"

#include <stdlib.h>
#include <string.h>

#include "indexer/flows/flow_told.h"
#include "proto/base/array.h"
#include "proto/base/cursor.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define REVERSE_PEN 29305
#define NTP_EPOCH 2208988800u /* 1970, in seconds since 1900 */
#define VARIABLE 65535
#define FIELD_MOST 8 /* bytes of a field in a template */
#define QUIET (3600 * PR_NS_PER_S) /* who was not heard for so long makes room */

/*
 * Elements of both (iana.org/assignments/ipfix; RFC 3954, section 8), how each is read, and which member of struct
 * pri_told it becomes, of each direction.
 */
enum how {
	SKIP,
	U8, /* numbers, of `numbers` below: */
	U16,
	U32,
	U64,
	SECONDS,
	MILLISECONDS,
	ADDRESS4,
	ADDRESS16,
	ICMP, /* type << 8 | code, or 0 */
	ICMP_TYPE,
	ICMP_CODE,
	NTP,
	BEFORE /* us before the message was sent */
};

/* Times beyond the year 2200 are none. */
#define MS_MOST ((uint64_t)(INT64_MAX / PR_NS_PER_MS * 4 / 5) - 1)
static const struct number {
	uint64_t most, times; /* a greater one is 0 */
} numbers[] = {[U8] = {UINT8_MAX, 1},
	[U16] = {UINT16_MAX, 1},
	[U32] = {UINT32_MAX, 1},
	[U64] = {UINT64_MAX, 1},
	[SECONDS] = {MS_MOST / 1000, PR_NS_PER_S},
	[MILLISECONDS] = {MS_MOST, PR_NS_PER_MS}};
#define AT(member) offsetof(struct pri_told, member)
#define ROW(id, how, member) [id] = {how, {AT(member)}, 0}
#define ROW_BOTH(id, how, member) [id] = {how, {AT(member[0]), AT(member[1])}, 0}
#define ROW_ALSO(id, how, member, also) [id] = {how, {AT(member)}, AT(also)}

static const struct element {
	enum how how;
	uint16_t to[2]; /* [1] 0: none */
	uint16_t also; /* a bool that it sets; 0: none */
} elements[] = {
	/* delta, total, of initiator and responder, as they left */
	ROW_BOTH(1, U64, bytes), ROW_BOTH(2, U64, packets), ROW_BOTH(85, U64, bytes),
	ROW_BOTH(86, U64, packets), ROW(231, U64, bytes[0]), ROW(232, U64, bytes[1]),
	ROW(298, U64, packets[0]), ROW(299, U64, packets[1]),
	ROW_ALSO(23, U64, bytes[1], out), ROW_ALSO(24, U64, packets[1], out),
	/* ends */
	ROW(4, U8, protocol), ROW_BOTH(6, U8, flags), ROW(7, U16, port[0]),
	ROW(11, U16, port[1]), ROW(8, ADDRESS4, address[0]), ROW(12, ADDRESS4, address[1]),
	ROW(27, ADDRESS16, address[0]), ROW(28, ADDRESS16, address[1]), ROW(58, U16, vlan),
	ROW(243, U16, vlan),
	/* of IPv4 and IPv6 */
	ROW(32, ICMP, icmp), ROW(139, ICMP, icmp), ROW_ALSO(176, ICMP_TYPE, icmp, has_icmp),
	ROW_ALSO(177, ICMP_CODE, icmp, has_icmp), ROW_ALSO(178, ICMP_TYPE, icmp, has_icmp),
	ROW_ALSO(179, ICMP_CODE, icmp, has_icmp),
	/* times: of the uptime; 154, 156: us and ns, in the form of NTP */
	ROW_ALSO(21, U32, up_last, has_up), ROW_ALSO(22, U32, up_first, has_up),
	ROW_BOTH(150, SECONDS, first), ROW_BOTH(151, SECONDS, last),
	ROW_BOTH(152, MILLISECONDS, first), ROW_BOTH(153, MILLISECONDS, last),
	ROW_BOTH(154, NTP, first), ROW_BOTH(155, NTP, last), ROW_BOTH(156, NTP, first),
	ROW_BOTH(157, NTP, last), ROW_BOTH(158, BEFORE, first), ROW_BOTH(159, BEFORE, last),
	ROW(160, MILLISECONDS, init), ROW(161, MILLISECONDS, duration),
	/* one packet of so many; the sampler or selector; packets in turn */
	ROW(34, U32, sampling), ROW(50, U32, sampling),
	ROW_ALSO(48, U32, sampler, has_sampler), ROW_ALSO(302, U32, sampler, has_sampler),
	ROW(305, U64, sampled), ROW(306, U64, skipped)};

/* One step of reading a record: an element that is needed, or has its length before it. */
struct field {
	uint32_t end; /* where it ends in the shortest record */
	uint16_t len, to;
	uint8_t how; /* enum how */
	uint8_t before; /* bits of 8 bytes that are not its own */
	bool variable; /* its length comes before it */
	bool plain; /* a number, and not variable */
};

struct template
{
	uint16_t id, fields, steps;
	size_t shortest; /* bytes of a record; of a variable field 1 */
	bool options;
	struct pri_told start; /* what each record tells already */
	UT_hash_handle hh;
	size_t said_len;
	uint8_t *said; /* as it came, behind the fields */
	struct field field[];
};

struct exporter {
	struct pri_exporter public; /* its id is the key */
	struct template *templates;
	uint64_t connection; /* that it has now; 0: none */
	UT_hash_handle hh;
};

struct pri_exporters {
	pri_flow_sink sink, samples;
	void *arg;
	struct exporter *all; /* in the order in which they came */
	size_t templates; /* of all */
	uint64_t refused, sampled;
};

/* One that has come. */
struct message {
	struct pri_exporters *e;
	struct pr_error *err;
	struct exporter *of;
	struct pri_exporter *x; /* of `of` */
	int64_t now, sent; /* sent: as it says, ns since 1970 */
	uint32_t uptime; /* ms, of version 9 */
	uint32_t records; /* of data */
	bool v9;
};

struct pri_exporters *
pri_exporters_create(
	pri_flow_sink sink, pri_flow_sink samples, void *arg, struct pr_error *err)
{
	struct pri_exporters *e = calloc(1, sizeof(*e));

	if (!e)
		return pr_error_null(err, "no memory for exporters");
	e->sink = sink;
	e->samples = samples;
	e->arg = arg;
	return e;
}

static void
template_forget(struct pri_exporters *e, struct exporter *of, struct template *t)
{
	HASH_DEL(of->templates, t);
	free(t);
	e->templates--;
}

static void
templates_forget(struct pri_exporters *e, struct exporter *of)
{
	struct template *t, *next;

	HASH_ITER(hh, of->templates, t, next)
	template_forget(e, of, t);
}

static void
exporter_forget(struct pri_exporters *e, struct exporter *of)
{
	templates_forget(e, of);
	HASH_DEL(e->all, of);
	free(of);
}

void
pri_exporters_destroy(struct pri_exporters **exporters)
{
	struct pri_exporters *e = PR_TAKE(exporters);
	struct exporter *of, *next;

	if (!e)
		return;
	HASH_ITER(hh, e->all, of, next)
	exporter_forget(e, of);
	free(e);
}

const struct pri_exporter *
pri_exporters_get(const struct pri_exporters *e, size_t i)
{
	const struct exporter *of = e->all;

	for (; of && i > 0; i--)
		of = of->hh.next;
	return of ? &of->public : NULL;
}

uint64_t
pri_exporters_refused(const struct pri_exporters *e)
{
	return e->refused;
}

static struct exporter *
exporter_add(struct pri_exporters *e, const struct pri_exporter *as, struct pr_error *err)
{
	struct exporter *of = calloc(1, sizeof(*of));

	if (of) {
		of->public = *as;
		HASH_ADD(hh, e->all, public.id, sizeof(of->public.id), of);
	}
	if (!of || !of->hh.tbl) {
		free(of);
		return pr_error_null(err, "no memory for an exporter");
	}
	return of;
}

int
pri_exporters_restore(
	struct pri_exporters *e, const struct pri_exporter *exporter, struct pr_error *err)
{
	struct exporter *of;

	HASH_FIND(hh, e->all, &exporter->id, sizeof(exporter->id), of);
	if (of || HASH_COUNT(e->all) >= PRI_EXPORTERS_MAX)
		return pr_error_set(
			err, of ? "an exporter is there twice" : "too many exporters");
	return exporter_add(e, exporter, err) ? 0 : -1;
}

/* ---- sequence numbers ---- */

/* Notes that numbers from..to - 1 have not come; the oldest gap goes. */
static void
gap_note(struct pri_exporter *x, uint32_t from, uint32_t to)
{
	memmove(x->gaps + 1, x->gaps, sizeof(x->gaps) - sizeof(x->gaps[0]));
	x->gaps[0].from = from;
	x->gaps[0].to = to;
}

static void
gap_add(struct pri_exporter *x, uint32_t from, uint32_t to)
{
	gap_note(x, from, to);
	x->lost += to - from;
}

/* Numbers at..at + count - 1 come late: true if they were noted as a gap, which becomes smaller. */
static bool
gap_fill(struct pri_exporter *x, uint32_t at, uint32_t count)
{
	for (size_t i = 0; i < PRI_EXPORT_GAPS_MAX; i++) {
		uint32_t from = x->gaps[i].from, to = x->gaps[i].to;

		if (at - from >= to - from || count > to - at)
			continue;
		x->gaps[i].from = at + count;
		if (at != from)
			gap_note(x, from, at);
		x->lost -= count;
		return true;
	}
	return false;
}

static void
sequence_begin(struct pri_exporter *x, uint32_t next)
{
	x->next_sequence = next;
	x->sequence_known = true;
	x->behind_known = false;
	memset(x->gaps, 0, sizeof(x->gaps));
}

/* The message begins with number `at`, and `count` are in it. */
static void
follow_sequence(struct pri_exporter *x, uint32_t at, uint32_t count)
{
	int32_t ahead = (int32_t)(at - x->next_sequence);

	if (!x->sequence_known) {
		sequence_begin(x, at + count);
	} else if (ahead >= 0 && ahead < INT32_MAX / 4) {
		if (ahead > 0)
			gap_add(x, x->next_sequence, at);
		x->next_sequence = at + count;
		x->behind_known = false;
	} else if (ahead < 0 && gap_fill(x, at, count)) {
		x->late += count;
	} else if (ahead < -INT32_MAX / 4 || ahead > 0 ||
		   (x->behind_known && (int32_t)(at - x->behind) >= 0)) {
		/* far off; or one behind the other, where nothing is late: it has begun anew */
		uint32_t from = x->behind_known && ahead < 0 ? x->behind : at;

		x->restarts++;
		sequence_begin(x, at + count);
		if (at != from && at - from < INT32_MAX / 4)
			gap_add(x, from, at);
	} else {
		x->late += count; /* or sent twice */
		x->behind = at + count;
		x->behind_known = true;
	}
}

/* ---- a record ---- */

/* The exporter's uptime turns over each 49.7 days: it is told by the message's own. */
static int64_t
uptime_ns(const struct pri_told *r, uint64_t up)
{
	if (r->sent)
		return r->sent + (int64_t)(int32_t)(up - r->uptime) * PR_NS_PER_MS;
	return r->init + (int64_t)up * PR_NS_PER_MS;
}

/* When it began and ended, as well as the record tells; now: it does not. */
static void
settle_times(struct pri_told *r, int64_t now)
{
	if (!r->first[0] && r->has_up && (r->sent || r->init)) {
		r->first[0] = uptime_ns(r, r->up_first);
		r->last[0] = uptime_ns(r, r->up_last);
	}
	if (r->duration && r->first[0] && !r->last[0])
		r->last[0] = r->first[0] + r->duration;
	if (r->duration && r->last[0] && !r->first[0])
		r->first[0] = r->last[0] - r->duration;
	for (int i = 0; i < 2; i++) {
		if (!r->last[i])
			r->last[i] = r->first[i] ? r->first[i] : i ? r->last[0] : now;
		if (!r->first[i] || r->first[i] > r->last[i])
			r->first[i] = i && !r->first[i] && r->first[0] <= r->last[i]
					      ? r->first[0]
					      : r->last[i];
	}
}

static uint32_t
sampling_of(const struct pri_exporter *x, const struct pri_told *r)
{
	if (r->sampling)
		return (uint32_t)r->sampling;
	for (size_t i = 0; r->has_sampler && i < PRI_EXPORT_SAMPLERS_MAX; i++)
		if (x->samplers[i].rate && x->samplers[i].id == r->sampler)
			return x->samplers[i].rate;
	return r->has_sampler && (!r->sampler || x->samplers[0].rate) ? 0 : x->sampling;
}

static int
put_record(struct message *m, struct pri_told *r)
{
	struct pri_flow flow;

	settle_times(r, m->now);
	r->sampling = sampling_of(m->x, r);
	if (!pri_told_flow(r, m->x->link, &flow)) {
		m->x->bad++;
		return 0;
	}
	m->x->flows++;
	return m->e->sink(m->e->arg, &flow, m->err);
}

/* ---- version 5 (24 bytes, then 48 of each record) ---- */

enum { V5_HEADER = 24, V5_RECORD = 48, V5_MOST = 30 };

static int
take_v5(struct message *m, const uint8_t *d, size_t len)
{
	unsigned count = len >= V5_HEADER ? pr_get_be16(d + 2) : 0;
	int rc = 0;

	if (!count || count > V5_MOST || len < V5_HEADER + (size_t)count * V5_RECORD)
		return 1;
	int64_t sent = (int64_t)pr_get_be32(d + 8) * PR_NS_PER_S +
		       pr_get_be32(d + 12) % PR_NS_PER_S;
	if (pr_get_be16(d + 22) >> 14)
		m->x->sampling = pr_get_be16(d + 22) & 0x3fff;
	follow_sequence(m->x, pr_get_be32(d + 16), count);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		const uint8_t *p = d + V5_HEADER + (size_t)i * V5_RECORD;
		struct pri_told r = {.address_len = 4,
			.packets = {pr_get_be32(p + 16)},
			.bytes = {pr_get_be32(p + 20)},
			.sent = sent,
			.uptime = pr_get_be32(d + 4),
			.has_up = true,
			.up_first = pr_get_be32(p + 24),
			.up_last = pr_get_be32(p + 28),
			.port = {pr_get_be16(p + 32), pr_get_be16(p + 34)},
			.flags = {p[37]},
			.protocol = p[38]};

		memcpy(r.address[0], p, 4);
		memcpy(r.address[1], p + 4, 4);
		rc = put_record(m, &r);
	}
	return rc;
}

/* ---- templates ---- */

static uint8_t
bits_before(size_t len)
{
	return len < 8 ? (uint8_t)(64 - 8 * len) : 0;
}

/* What to do with an element; of IPFIX those that left are the same packets once more. */
static struct field
field_of(struct template *t, uint16_t id, uint32_t pen, uint16_t len, bool v9)
{
	struct field f = {.len = len, .variable = !v9 && len == VARIABLE};
	const struct element *e = &elements[id < PR_COUNT(elements) ? id : 0];
	bool reverse = pen == REVERSE_PEN;

	if (!len || (pen && !(reverse && e->to[1])) || (e->also == AT(out) && !v9))
		return f;
	f.how = (uint8_t)e->how;
	f.before = bits_before(len);
	if (e->how >= U8 && e->how < U64) /* of a longer one the last bytes */
		f.before = PR_MAX(f.before, bits_before(1u << (e->how - U8)));
	f.plain = e->how >= U8 && e->how <= MILLISECONDS && !f.variable;
	f.to = e->to[reverse];
	if (e->also)
		*((bool *)&t->start + e->also) = true;
	return f;
}

/* Reads fields of a template; false: it breaks off. */
static bool
load_fields(struct pr_cursor *c, struct template *t, bool v9)
{
	for (unsigned i = 0; i < t->fields; i++) {
		struct field *f = &t->field[t->steps];
		uint16_t id, len;
		uint32_t pen = 0;

		if (!pr_load_be16(c, &id) || !pr_load_be16(c, &len) ||
			(!v9 && id & 0x8000 && !pr_load_be32(c, &pen)))
			return false;
		*f = field_of(t, v9 ? id : id & 0x7fff, pen, len, v9);
		t->shortest += f->variable ? 1 : len;
		f->end = (uint32_t)t->shortest;
		t->steps += f->variable || f->how != SKIP;
	}
	return true;
}

static int
keep_template(struct message *m, struct template *t, struct template *old)
{
	if (old)
		template_forget(m->e, m->of, old);
	/* a record takes a byte at least, or a set would have them without end */
	if (!t->fields || !t->shortest || m->e->templates >= PRI_EXPORT_TEMPLATES_MAX ||
		HASH_COUNT(m->of->templates) >= PRI_EXPORT_OWN_TEMPLATES_MAX) {
		m->x->bad += t->fields != 0;
		free(t);
		return 0;
	}
	HASH_ADD(hh, m->of->templates, id, sizeof(t->id), t);
	if (!t->hh.tbl) {
		free(t);
		return pr_error_set(m->err, "no memory for a template");
	}
	m->e->templates++;
	return 0;
}

/* A set of templates, or of options templates. 1: it breaks its format */
static int
take_templates(struct message *m, struct pr_cursor c, bool options)
{
	while (pr_cursor_left(&c) >= 4) {
		uint16_t id, fields, scopes = 0;
		struct template *t, *old;

		if (!pr_load_be16(&c, &id) || !pr_load_be16(&c, &fields))
			return 1;
		if (m->v9 && id == 0)
			return 0; /* the rest fills up to a word */
		if (!m->v9 && !fields && id == (options ? 3 : 2)) {
			/* withdrawn; who has others, sends them */
			templates_forget(m->e, m->of);
			continue;
		}
		if (options && m->v9) { /* bytes of scopes, and of others */
			uint16_t scope_len = fields;
			if (!pr_load_be16(&c, &fields))
				return 1;
			scopes = scope_len / 4;
			fields = (uint16_t)(scopes + fields / 4);
		} else if (options && fields && !pr_load_be16(&c, &scopes)) {
			return 1;
		}
		if (id < 256 || fields > PRI_EXPORT_FIELDS_MAX || scopes > fields)
			return 1;
		const uint8_t *said = c.at;
		HASH_FIND(hh, m->of->templates, &id, sizeof(id), old);
		if (old && old->fields == fields && old->options == options &&
			old->said_len <= pr_cursor_left(&c) &&
			memcmp(old->said, said, old->said_len) == 0) {
			c.at += old->said_len; /* many say the same in each message */
			continue;
		}
		t = calloc(1, sizeof(*t) + fields * (sizeof(t->field[0]) + FIELD_MOST));
		if (!t)
			return pr_error_set(m->err, "no memory for a template");
		t->id = id;
		t->fields = fields;
		t->options = options;
		if (!load_fields(&c, t, m->v9)) {
			free(t);
			return 1;
		}
		t->said = (uint8_t *)&t->field[fields];
		t->said_len = (size_t)(c.at - said);
		memcpy(t->said, said, t->said_len);
		if (keep_template(m, t, old) < 0)
			return -1;
	}
	return 0;
}

/* ---- data ---- */

/* From seconds and 2^-32 seconds since 1900. */
static int64_t
ntp_ns(uint64_t v)
{
	return ((int64_t)(v >> 32) - NTP_EPOCH) * PR_NS_PER_S +
	       (int64_t)(((v & UINT32_MAX) * PR_NS_PER_S + UINT32_MAX) >> 32);
}

/* The message's header is before it, so 8 bytes can be read. */
static inline uint64_t
number(const uint8_t *end, unsigned before)
{
	return pr_get_be64(end - 8) << before >> before;
}

static inline uint64_t
of_number(unsigned how, uint64_t v)
{
	const struct number *n = &numbers[how];

	return v <= n->most ? v * n->times : 0;
}

/* What ends there. sent: of the message. Inlined its copies would be checked as they are made */
static __attribute__((noinline)) void
take_field(struct pri_told *r, const struct field *f, const uint8_t *end, size_t len,
	unsigned before, int64_t sent)
{
	uint64_t v = number(end, before);
	void *to = (uint8_t *)r + f->to;

	switch ((enum how)f->how) {
	case ADDRESS4:
	case ADDRESS16:
		/* of both families, the one that says something */
		if (len != (f->how == ADDRESS4 ? 4 : 16) ||
			(r->address_len && r->address_len != len && v == 0))
			break;
		r->address_len = (uint8_t)len;
		if (len == 4)
			return pr_put_be32(to, (uint32_t)v);
		memcpy(to, end - 16, 16);
		break;
	case ICMP:
		r->has_icmp = r->has_icmp || v;
		r->icmp = v ? (uint16_t)v : r->icmp;
		break;
	case ICMP_TYPE:
		r->icmp = (uint16_t)((r->icmp & 0xff) | v << 8);
		break;
	case ICMP_CODE:
		r->icmp = (uint16_t)((r->icmp & 0xff00) | (v & 0xff));
		break;
	case NTP:
		*(int64_t *)to = v ? ntp_ns(v) : 0;
		break;
	case BEFORE:
		*(int64_t *)to = sent - (int64_t)(v & UINT32_MAX) * 1000;
		break;
	case SKIP:
		break;
	default:
		*(uint64_t *)to = of_number(f->how, v);
	}
}

/* What an exporter says of itself. */
static void
take_options(struct pri_exporter *x, const struct pri_told *r)
{
	size_t i = 0;

	if (r->init)
		x->init = r->init;
	if (!r->sampling)
		return;
	if (!r->has_sampler) {
		x->sampling = (uint32_t)r->sampling;
		return;
	}
	while (i < PRI_EXPORT_SAMPLERS_MAX - 1 && x->samplers[i].rate &&
		x->samplers[i].id != r->sampler)
		i++;
	x->samplers[i].id = (uint32_t)r->sampler;
	x->samplers[i].rate = (uint32_t)r->sampling;
}

/* One record, of which the shortest is there. 1: it breaks off */
static int
take_record(struct message *m, const struct template *t, struct pr_cursor *c)
{
	const struct field *end = t->field + t->steps;
	struct pri_told r = t->start;
	struct pr_cursor in = *c;

	r.init = m->x->init;
	r.sent = m->v9 ? m->sent : 0;
	r.uptime = m->uptime;
	for (const struct field *f = t->field; f < end; f++) {
		unsigned before = f->before;
		size_t len = f->len;

		if (f->plain) {
			*(uint64_t *)((uint8_t *)&r + f->to) =
				of_number(f->how, number(in.at + f->end, before));
			continue;
		}
		if (f->variable) { /* in.at moves on by what makes the record longer */
			len = in.at[f->end - 1];
			if (len == 255) {
				if (pr_cursor_left(&in) < t->shortest + 2)
					return 1;
				in.at += 2;
				len = pr_get_be16(in.at + f->end - 2);
			}
			if (pr_cursor_left(&in) < t->shortest + len)
				return 1;
			in.at += len;
			before = PR_MAX(before, bits_before(len));
		}
		if (len)
			take_field(&r, f, in.at + f->end, len, before, m->sent);
	}
	c->at = in.at + t->shortest;
	m->records++;
	if (r.sampled && r.sampled < UINT16_MAX && r.skipped < UINT32_MAX / 2)
		r.sampling = (uint32_t)((r.sampled + r.skipped) / r.sampled);
	if (t->options) {
		take_options(m->x, &r);
		return 0;
	}
	/* counted only where they left the router */
	if (r.out && !r.packets[0] && r.packets[1]) {
		r.packets[0] = r.packets[1];
		r.bytes[0] = r.bytes[1];
		r.packets[1] = 0;
	}
	return put_record(m, &r);
}

static int
take_data(struct message *m, uint16_t id, struct pr_cursor c)
{
	struct template *t;
	int rc = 0;

	HASH_FIND(hh, m->of->templates, &id, sizeof(id), t);
	if (!t) {
		m->x->no_template++;
		return 0;
	}
	while (rc == 0 && pr_cursor_left(&c) >= t->shortest)
		rc = take_record(m, t, &c);
	return rc;
}

/* Version 9: sets 0, 1; IPFIX: 2, 3. */
static int
take_sets(struct message *m, struct pr_cursor c)
{
	unsigned first = m->v9 ? 0 : 2;
	int rc = 0;

	while (rc == 0 && pr_cursor_left(&c) >= 4) {
		const uint8_t *body;
		uint16_t id, len;

		if (!pr_load_be16(&c, &id) || !pr_load_be16(&c, &len) || len < 4 ||
			!pr_load_bytes(&c, &body, len - 4u))
			return 1;
		struct pr_cursor set = pr_cursor_make(body, len - 4u);
		if (id == first || id == first + 1)
			rc = take_templates(m, set, id != first);
		else if (id >= 256)
			rc = take_data(m, id, set);
	}
	return rc;
}

enum { V9_HEADER = 20 };

size_t
pri_ipfix_length(const uint8_t *head)
{
	size_t len = pr_get_be16(head) == 10 ? pr_get_be16(head + 2) : 0;

	return len >= PRI_IPFIX_HEADER ? len : 0;
}

static int
take_v9(struct message *m, const uint8_t *d, size_t len)
{
	m->v9 = true;
	m->uptime = pr_get_be32(d + 4);
	m->sent = (int64_t)pr_get_be32(d + 8) * PR_NS_PER_S;
	follow_sequence(m->x, pr_get_be32(d + 12), 1);
	return take_sets(m, pr_cursor_make(d + V9_HEADER, len - V9_HEADER));
}

static int
take_ipfix(struct message *m, const uint8_t *d, size_t len)
{
	size_t said = pri_ipfix_length(d);

	m->sent = (int64_t)pr_get_be32(d + 4) * PR_NS_PER_S;
	if (!said || said > len)
		return 1;
	int rc =
		take_sets(m, pr_cursor_make(d + PRI_IPFIX_HEADER, said - PRI_IPFIX_HEADER));
	/* of records without a template, the next number says how many there were */
	if (rc >= 0)
		follow_sequence(m->x, pr_get_be32(d + 8), m->records);
	return rc;
}

/*
 * Forgets the one that was heard least recently, of those without a flow (anybody can send junk), else of those that
 * are quiet. Its link is free.
 */
static bool
make_room(struct pri_exporters *e, int64_t now, uint16_t *link)
{
	struct exporter *oldest = NULL;

	for (struct exporter *of = e->all; of; of = of->hh.next)
		if ((!of->public.flows || now - of->public.heard > QUIET) &&
			(!oldest || !of->public.flows > !oldest->public.flows ||
				(!of->public.flows == !oldest->public.flows &&
					of->public.heard < oldest->public.heard)))
			oldest = of;
	if (!oldest)
		return false;
	*link = oldest->public.link;
	exporter_forget(e, oldest);
	return true;
}

/* Whose message it is. False: refused, or (*rc is -1) no memory. */
static bool
exporter_heard(struct message *m, const struct pri_exporter_id *id, uint16_t port, int *rc)
{
	struct pri_exporters *e = m->e;
	uint16_t link = (uint16_t)HASH_COUNT(e->all);

	HASH_FIND(hh, e->all, id, sizeof(*id), m->of);
	if (!m->of && HASH_COUNT(e->all) >= PRI_EXPORTERS_MAX &&
		!make_room(e, m->now, &link)) {
		e->refused++;
		return false;
	}
	if (!m->of)
		m->of = exporter_add(
			e, &(const struct pri_exporter){.id = *id, .link = link}, m->err);
	if (!m->of) {
		*rc = -1;
		return false;
	}
	m->x = &m->of->public;
	if (m->x->port != port && m->x->messages) {
		m->x->restarts++;
		m->x->sequence_known = false;
	}
	m->x->port = port;
	m->x->messages++;
	m->x->heard = m->now;
	return true;
}

/* ---- sFlow version 5 (sflow.org/sflow_version_5.txt): words, and what is told of one packet ---- */

/* samples: of a flow 1, of counters 2; 3 and 4: with longer sources */
enum { SFLOW_SHORTEST = 28, SFLOW_EXPANDED = 3 };
enum { SFLOW_HEADER = 1, SFLOW_IP4 = 3, SFLOW_IP6 = 4 };

static bool
load_words(struct pr_cursor *c, uint32_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!pr_load_be32(c, &out[i]))
			return false;
	return true;
}

/* The first bytes of the packet. */
static bool
take_header(struct pr_cursor c, uint16_t link, struct pri_flow_packet *out)
{
	static const uint16_t linktypes[] = {
		[1] = PR_LINKTYPE_ETHERNET, [7] = 9 /* PPP */, [11] = 101, [12] = 101};
	uint32_t w[4]; /* what begins it; bytes of the packet, left out, here */
	struct pr_packet p = {.link = link};

	if (!load_words(&c, w, PR_COUNT(w)) || w[0] >= PR_COUNT(linktypes) ||
		!linktypes[w[0]] || !pr_load_bytes(&c, &p.data, w[3]))
		return false;
	p.linktype = linktypes[w[0]];
	p.caplen = w[3];
	p.len = w[1] > w[3] ? w[1] : w[3];
	return pri_flow_packet_parse(&p, out);
}

/* What the agent found in the packet. */
static bool
take_ip(struct pr_cursor c, uint8_t address_len, uint16_t link, struct pri_flow_packet *out)
{
	struct pri_told r = {.address_len = address_len};
	uint32_t head[2], tail[3]; /* bytes, protocol; ports, flags */
	const uint8_t *address;

	if (!load_words(&c, head, 2) || !pr_load_bytes(&c, &address, 2u * address_len) ||
		!load_words(&c, tail, 3))
		return false;
	r.protocol = (uint8_t)head[1];
	for (int i = 0; i < 2; i++) {
		memcpy(r.address[i], address + i * address_len, address_len);
		r.port[i] = (uint16_t)tail[i];
	}
	*out = (struct pri_flow_packet){
		.bytes = head[0], .flags = r.protocol == 6 ? (uint8_t)tail[2] : 0};
	out->side = pri_told_key(&r, link, &out->key, &out->icmp_code);
	return true;
}

/* Of several records on one packet, its bytes tell most. count: of records. Was one found? -1: it breaks its format */
static int
find_packet(struct pr_cursor c, uint32_t count, uint16_t link, struct pri_flow_packet *out)
{
	bool header = false, found = false;

	for (; count > 0; count--) {
		struct pri_flow_packet p;
		const uint8_t *body;
		uint32_t w[2]; /* format, length */

		if (!load_words(&c, w, 2) || !pr_load_bytes(&c, &body, w[1]))
			return -1;
		struct pr_cursor record = pr_cursor_make(body, w[1]);
		if (w[0] == SFLOW_HEADER
				? !take_header(record, link, &p)
				: header || (w[0] != SFLOW_IP4 && w[0] != SFLOW_IP6) ||
					  !take_ip(record, w[0] == SFLOW_IP4 ? 4 : 16, link,
						  &p))
			continue;
		header = w[0] == SFLOW_HEADER;
		found = true;
		*out = p;
	}
	return found;
}

static int
put_sample(struct message *m, const struct pri_flow_packet *p)
{
	const uint32_t sampling = m->x->sampling;
	struct pri_flow part;
	struct pri_flow_side *s = &part.side[p->side];

	pri_flow_begin(&part, &p->key);
	pri_flow_add_packet(&part, p, m->now, ++m->e->sampled);
	part.sampling = sampling > 1 ? sampling : 0;
	s->packets = pri_told_times(s->packets, sampling);
	s->bytes = pri_told_times(s->bytes, sampling);
	s->payload = pri_told_times(s->payload, sampling);
	m->x->flows++;
	return m->e->samples(m->e->arg, &part, m->err);
}

static int
take_sample(struct message *m, struct pri_exporter_id *id, uint16_t port, uint32_t format,
	struct pr_cursor c)
{
	bool expanded = format >= SFLOW_EXPANDED;
	/* number, source; rate, packets seen, drops, interfaces, records */
	uint32_t head[3], w[8];
	size_t words = expanded ? 8 : 6;
	struct pri_flow_packet p;
	int rc = 0;

	if (!load_words(&c, head, expanded ? 3 : 2)) {
		m->e->refused++;
		return 0;
	}
	id->source_class = (uint8_t)(expanded ? head[1] : head[1] >> 24);
	id->source = expanded ? head[2] : head[1] & 0xffffff;
	if (!exporter_heard(m, id, port, &rc))
		return rc;
	struct pri_exporter *x = m->x;
	if (format % 2 == 0) {
		x->skipped++;
		return 0;
	}
	int found =
		load_words(&c, w, words) ? find_packet(c, w[words - 1], x->link, &p) : -1;
	if (found < 0) {
		x->bad++;
		return 0;
	}
	follow_sequence(x, head[0], 1);
	x->sampling = w[0];
	if (x->drops_known) /* it may have begun anew */
		x->dropped += w[2] - (w[2] >= x->drops ? x->drops : 0);
	x->drops = w[2];
	x->drops_known = true;
	x->skipped += !found;
	return found ? put_sample(m, &p) : 0;
}

static int
take_sflow(struct message *m, const struct pri_export_from *sender, const uint8_t *data,
	size_t len)
{
	struct pr_cursor c = pr_cursor_make(data, len);
	struct pri_exporter_id id = {
		.address_len = sender->address_len, .version = PRI_EXPORT_SFLOW};
	/* version, agent's kind; sub-agent, number, uptime, samples */
	uint32_t head[2], tail[4];
	const uint8_t *agent = sender->address;
	int rc = 0;

	if (!load_words(&c, head, 2) || head[1] > 2)
		return 1;
	if (head[1])
		id.address_len = head[1] == 1 ? 4 : 16;
	if ((head[1] && !pr_load_bytes(&c, &agent, id.address_len)) ||
		!load_words(&c, tail, 4) || tail[3] > PRI_EXPORT_SAMPLES_MAX)
		return 1;
	memcpy(id.address, agent, id.address_len);
	id.domain = tail[0];
	for (uint32_t i = 0; i < tail[3] && rc == 0; i++) {
		const uint8_t *body;
		uint32_t w[2]; /* format, length */

		if (!load_words(&c, w, 2) || !pr_load_bytes(&c, &body, w[1]))
			return 1;
		if (w[0] >= 1 && w[0] <= 4)
			rc = take_sample(
				m, &id, sender->port, w[0], pr_cursor_make(body, w[1]));
	}
	return rc;
}

/* Of several connections at once each has templates and numbers of its own; one that ended gives its own to the next. */
static bool
choose_stream(struct pri_exporters *e, struct pri_exporter_id *id, uint64_t connection)
{
	uint8_t unused = 0;

	for (id->stream = 1; id->stream <= PRI_EXPORT_STREAMS_MAX; id->stream++) {
		struct exporter *of;

		HASH_FIND(hh, e->all, id, sizeof(*id), of);
		if (of && of->connection == connection)
			return true;
		if (!unused && !(of && of->connection))
			unused = id->stream;
	}
	id->stream = unused;
	e->refused += unused == 0;
	return unused != 0;
}

void
pri_exporters_end(struct pri_exporters *e, uint64_t connection)
{
	for (struct exporter *of = e->all; of; of = of->hh.next) {
		if (of->connection != connection)
			continue;
		templates_forget(e, of);
		of->connection = 0;
		of->public.sequence_known = false;
	}
}

int
pri_exporters_take(struct pri_exporters *e, const struct pri_export_from *from,
	const uint8_t *data, size_t len, int64_t now, struct pr_error *err)
{
	static int (*const takes[])(struct message *, const uint8_t *, size_t) = {
		[5] = take_v5, [9] = take_v9, [10] = take_ipfix};
	static const uint8_t shortest[] = {
		[5] = 4, [9] = V9_HEADER, [10] = PRI_IPFIX_HEADER};
	unsigned version = len >= 2 ? pr_get_be16(data) : 0;
	struct pri_exporter_id id = {
		.address_len = from->address_len, .version = (uint8_t)version};
	struct message m = {.e = e, .err = err, .now = now};
	int rc = 0;

	if (len >= SFLOW_SHORTEST && pr_get_be32(data) == 5) {
		rc = take_sflow(&m, from, data, len);
		e->refused += rc > 0;
		return rc < 0 ? -1 : 0;
	}
	if (version >= PR_COUNT(takes) || !takes[version] || len < shortest[version]) {
		e->refused++;
		return 0;
	}
	memcpy(id.address, from->address, sizeof(id.address));
	id.domain = version == 5 && len >= V5_HEADER ? pr_get_be16(data + 20)
		    : version == 9                   ? pr_get_be32(data + 16)
		    : version == 10                  ? pr_get_be32(data + 12)
						     : 0;
	if (from->connection && !choose_stream(e, &id, from->connection))
		return 0;
	if (!exporter_heard(&m, &id, from->port, &rc))
		return rc;
	m.of->connection = from->connection;
	rc = takes[version](&m, data, len);
	m.x->bad += rc > 0;
	return rc < 0 ? -1 : 0;
}
