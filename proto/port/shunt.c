/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/shunt.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/base/clock.h"
#include "proto/port/shunt.skel.h"

struct pr_shunts {
	struct pr_shunt_bpf *bpf;
	struct pr_shunt_state *state; /* the program's variables */
	struct pr_shunt_set *sets; /* the program's array */
	int links[PR_SHUNT_LINKS]; /* of the kernel: descriptors */
	bool generic;
};

static struct pr_shunt *
at(const struct pr_shunts *s, int number)
{
	return &s->sets[number / PR_SHUNT_PLACES].place[number % PR_SHUNT_PLACES];
}

static int
attach(struct pr_shunts *s, unsigned i, const char *ifname)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = XDP_FLAGS_DRV_MODE);
	int program = bpf_program__fd(s->bpf->progs.shunt),
	    index = (int)if_nametoindex(ifname);

	s->state->ifindex[i] = (uint32_t)index;
	s->links[i] = bpf_link_create(program, index, BPF_XDP, &o);
	if (s->links[i] < 0) {
		s->generic = true;
		o.flags = XDP_FLAGS_SKB_MODE;
		s->links[i] = bpf_link_create(program, index, BPF_XDP, &o);
	}
	return s->links[i] < 0 ? -1 : 0;
}

struct pr_shunts *
pr_shunts_open(const char *const *ifnames, unsigned count, struct pr_error *err)
{
	struct pr_shunts *s = calloc(1, sizeof *s);

	if (!s || count > PR_SHUNT_LINKS) {
		free(s);
		return pr_error_null(err, "no memory for shunting");
	}
	memset(s->links, 0xff, sizeof s->links);
	libbpf_set_print(NULL);
	s->bpf = pr_shunt_bpf__open_and_load();
	void *map = !s->bpf ? MAP_FAILED
			    : mmap(NULL, PR_SHUNT_SETS * sizeof *s->sets,
				      PROT_READ | PROT_WRITE, MAP_SHARED,
				      bpf_map__fd(s->bpf->maps.sets), 0);
	if (map == MAP_FAILED) {
		pr_error_errno(err,
			"the XDP program cannot be loaded (needs root, and Linux 6.1)");
		pr_shunts_close(&s);
		return NULL;
	}
	s->sets = map;
	s->state = &s->bpf->bss->shunt_state;
	randombytes_buf(&s->state->seed, sizeof s->state->seed);
	pr_shunts_read_clock(s);
	for (unsigned i = 0; i < count; i++)
		if (attach(s, i, ifnames[i]) < 0) {
			pr_error_errno(err, "%s: XDP cannot be attached", ifnames[i]);
			pr_shunts_close(&s);
			return NULL;
		}
	return s;
}

void
pr_shunts_close(struct pr_shunts **shunts)
{
	struct pr_shunts *s = PR_TAKE(shunts);

	if (!s)
		return;
	for (unsigned i = 0; i < PR_SHUNT_LINKS; i++)
		pr_close(s->links[i]);
	if (s->sets)
		munmap(s->sets, PR_SHUNT_SETS * sizeof *s->sets);
	pr_shunt_bpf__destroy(s->bpf);
	free(s);
}

const char *
pr_shunts_mode(const struct pr_shunts *s)
{
	return s->generic ? "generic" : "native";
}

void
pr_shunts_set_running(struct pr_shunts *s, bool running)
{
	__atomic_store_n(&s->state->running, running, __ATOMIC_RELEASE);
}

void
pr_shunts_read_clock(struct pr_shunts *s)
{
	s->state->tai_ahead = pr_tai_ahead();
}

/* ---- connections ---- */

int
pr_shunt_add(struct pr_shunts *s, const struct pr_shunt_key *key, int64_t now)
{
	uint64_t tag = pr_shunt_hash(key, s->state->seed);
	unsigned set = (unsigned)(tag >> 32) & (PR_SHUNT_SETS - 1);

	for (unsigned i = 0; i < PR_SHUNT_PLACES; i++) {
		struct pr_shunt *p = &s->sets[set].place[i];

		if (p->state != PR_SHUNT_FREE)
			continue;
		*p = (struct pr_shunt){.key = *key, .last = now};
		s->sets[set].tag[i] = tag;
		__atomic_store_n(&p->state, PR_SHUNT_ON, __ATOMIC_RELEASE);
		return (int)(set * PR_SHUNT_PLACES + i);
	}
	return -1;
}

void
pr_shunt_end(struct pr_shunts *s, int number)
{
	__atomic_store_n(&at(s, number)->state, PR_SHUNT_ENDED, __ATOMIC_RELEASE);
}

bool
pr_shunt_ended(const struct pr_shunts *s, int number)
{
	return __atomic_load_n(&at(s, number)->state, __ATOMIC_ACQUIRE) != PR_SHUNT_ON;
}

void
pr_shunt_free(struct pr_shunts *s, int number)
{
	s->sets[number / PR_SHUNT_PLACES].tag[number % PR_SHUNT_PLACES] = 0;
	__atomic_store_n(&at(s, number)->state, PR_SHUNT_FREE, __ATOMIC_RELEASE);
}

bool
pr_shunt_take(struct pr_shunts *s, int number, unsigned from, uint64_t second,
	struct pr_shunt_sum *sum)
{
	for (unsigned i = 0; i < 2; i++) {
		struct pr_shunt_sum *of = &at(s, number)->sums[i][from];
		uint64_t packets = __atomic_load_n(&of->packets, __ATOMIC_ACQUIRE);

		if (packets == 0 || of->second >= second)
			continue;
		*sum = *of;
		/* one that the program is adding yet comes in the next sum; its bytes come before its packet */
		sum->packets = packets;
		sum->bytes = __atomic_exchange_n(&of->bytes, 0, __ATOMIC_ACQ_REL);
		__atomic_sub_fetch(&of->packets, packets, __ATOMIC_ACQ_REL);
		return true;
	}
	return false;
}
