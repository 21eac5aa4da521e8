/* SPDX-License-Identifier: Apache-2.0 */
#include "indexer/stages/stage_common.h"
#include "proto/wire/decode.h"

/* Packets and bytes: in all, by link, Ethertype, protocol and size (the buckets of RMON, RFC 2819). */

enum { NUMBERS = 65536, PROTOCOLS = 256, SIZES = 8 };
static const char *const sizes[SIZES] = {"under 64", "64", "65 to 127", "128 to 255",
	"256 to 511", "512 to 1023", "1024 to 1518", "over 1518"};

struct count {
	uint32_t scale;
	struct pri_stage_tally all, size[SIZES], protocol[PROTOCOLS + 1], link[NUMBERS],
		ethertype[NUMBERS]; /* calloc: pages that are not used cost nothing */
};

static void *
count_open(
	PR_UNUSED const char *const *options, PR_UNUSED char *error, PR_UNUSED size_t size)
{
	return calloc(1, sizeof(struct count));
}

static inline void
tally(struct pri_stage_tally *t, uint32_t len)
{
	t->packets++;
	t->bytes += len;
}

static int
count_packet(void *state, struct packrack_packet *p)
{
	static const uint16_t bound[SIZES - 1] = {63, 64, 127, 255, 511, 1023, 1518};
	struct count *c = state;
	struct pr_decoded d;
	unsigned size = 0;

	pr_decode(p->linktype, p->data, p->caplen, &d);
	bool ip = d.outer.flags & (PR_DECODE_IP4 | PR_DECODE_IP6);
	while (size < SIZES - 1 && p->len > bound[size])
		size++;
	c->scale = p->scale;
	tally(&c->all, p->len);
	tally(&c->size[size], p->len);
	tally(&c->link[p->link], p->len);
	tally(&c->ethertype[d.outer.ethertype], p->len);
	tally(&c->protocol[ip ? d.outer.protocol : PROTOCOLS], p->len);
	return 0;
}

static int
count_add(void *state, void *other)
{
	struct count *c = state, *o = other;

	c->scale = c->scale ? c->scale : o->scale;
	pri_stage_add(&c->all, &o->all, 1);
	pri_stage_add(c->size, o->size, SIZES);
	pri_stage_add(c->protocol, o->protocol, PROTOCOLS + 1);
	pri_stage_add(c->link, o->link, NUMBERS);
	pri_stage_add(c->ethertype, o->ethertype, NUMBERS);
	return 0;
}

static void
rows(json_t *to, const char *name, const struct count *c, const struct pri_stage_tally *t,
	size_t count)
{
	json_t *list = json_object();
	char key[24];

	for (size_t i = 0; i < count; i++) {
		PR_PRINT(key, t == c->ethertype ? "0x%04zx" : "%zu", i);
		if (t[i].packets)
			pri_stage_put_tally(list,
				t == c->size && i < SIZES            ? sizes[i]
				: t == c->protocol && i == PROTOCOLS ? "not IP"
				: t == c->ethertype && !i            ? "none"
								     : key,
				&t[i], c->scale);
	}
	json_object_set_new(to, name, list);
}

static char *
count_report(void *state)
{
	const struct count *c = state;
	json_t *r = json_object();

	pri_stage_put_tally(r, NULL, &c->all, c->scale);
	rows(r, "link", c, c->link, NUMBERS);
	rows(r, "ethertype", c, c->ethertype, NUMBERS);
	rows(r, "protocol", c, c->protocol, PROTOCOLS + 1);
	rows(r, "size", c, c->size, SIZES);
	return pri_stage_text(r);
}

const struct packrack_stage pri_stage_count = {PACKRACK_STAGE_VERSION, 0, "count",
	"packets and bytes by link, Ethertype, protocol and size", NULL, count_open,
	count_packet, NULL, count_add, count_report, free};
