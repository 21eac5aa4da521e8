/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/trace_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define LINKS_MAX                                                                          \
	65536 /* an interface's number is 32 bits; more links come from no honest node */

struct prm_trace_writer *
prm_trace_create(struct prm_output *out, const struct prm_trace_options *options,
	struct pr_error *err)
{
	struct prm_trace_writer *w = calloc(1, sizeof(*w));

	if (w) {
		w->out = out;
		w->format = options->format;
		w->snaplen = PRM_TRACE_SNAPLEN;
		w->comment = strdup(options->comment ? options->comment : "");
		w->filter = strdup(options->filter ? options->filter : "");
	}
	if (w && w->comment && w->filter && (w->hash = prm_trace_hash_create(err)))
		return w;
	prm_trace_destroy(&w);
	pr_error_set(err, "no memory for writing a trace");
	return NULL;
}

void
prm_trace_destroy(struct prm_trace_writer **wp)
{
	struct prm_trace_writer *w = *wp;

	*wp = NULL;
	if (!w)
		return;
	for (size_t i = 0; i < w->interface_count; i++)
		free(w->interfaces[i].name);
	free(w->interfaces);
	prm_trace_hash_destroy(&w->hash);
	free(w->links);
	free(w->comment);
	free(w->filter);
	free(w);
}

int
prm_trace_interface(struct prm_trace_writer *w, const char *name, uint16_t link,
	uint16_t linktype, size_t *out, struct pr_error *err)
{
	struct trace_interface *grown;
	char made_up[24];

	if (!name || !name[0]) {
		snprintf(made_up, sizeof(made_up), "link %u", link);
		name = made_up;
	}
	for (*out = 0; *out < w->interface_count; ++*out)
		if (w->interfaces[*out].linktype == linktype &&
			!strcmp(w->interfaces[*out].name, name))
			return 0;
	grown = reallocarray(w->interfaces, w->interface_count + 1, sizeof(*grown));
	if (!grown)
		return pr_error_set(err, "no memory for another interface");
	w->interfaces = grown;
	grown[*out] = (struct trace_interface){.name = strdup(name),
		.linktype = linktype,
		.number = UINT32_MAX,
		.ancient = UINT32_MAX};
	if (!grown[*out].name)
		return pr_error_set(err, "no memory for another interface");
	w->interface_count++;
	return 0;
}

static size_t
cache_slot(uint64_t epoch, uint16_t link)
{
	return (size_t)((epoch ^ epoch >> 32) * 0x9E3779B1u + link) % TRACE_CACHE;
}

static int
link_add(struct prm_trace_writer *w, const struct prm_trace_link *link, size_t *index,
	struct pr_error *err)
{
	struct trace_link *grown;
	size_t interface;

	if (w->link_count >= LINKS_MAX)
		return pr_error_set(err, "more than %d links in one answer", LINKS_MAX);
	if (prm_trace_interface(
		    w, link->name, link->link, link->linktype, &interface, err) < 0)
		return -1;
	grown = reallocarray(w->links, w->link_count + 1, sizeof(*grown));
	if (!grown)
		return pr_error_set(err, "no memory for another link");
	w->links = grown;
	*index = w->link_count++;
	grown[*index] =
		(struct trace_link){link->epoch, link->link, link->linktype, interface};
	return 0;
}

static bool
link_is(const struct trace_link *l, uint64_t epoch, uint16_t link, uint16_t linktype)
{
	return l->epoch == epoch && l->link == link && l->linktype == linktype;
}

static bool
link_find(const struct prm_trace_writer *w, uint64_t epoch, uint16_t link,
	uint16_t linktype, size_t *index)
{
	for (*index = 0; *index < w->link_count; ++*index)
		if (link_is(&w->links[*index], epoch, link, linktype))
			return true;
	return false;
}

static void
learn_speed(struct trace_interface *interface, uint64_t speed)
{
	if (speed && interface->speed && speed != interface->speed)
		interface->speeds_differ = true;
	if (speed)
		interface->speed = speed;
}

int
prm_trace_link(
	struct prm_trace_writer *w, const struct prm_trace_link *link, struct pr_error *err)
{
	size_t index;

	if (!w->begun && link->snaplen > w->snaplen && link->snaplen <= INT32_MAX)
		w->snaplen = link->snaplen;
	if (!link_find(w, link->epoch, link->link, link->linktype, &index) &&
		link_add(w, link, &index, err) < 0)
		return -1;
	learn_speed(&w->interfaces[w->links[index].interface], link->speed);
	return 0;
}

static struct trace_interface *
interface_of(struct prm_trace_writer *w, const struct pr_packet *p, struct pr_error *err)
{
	size_t slot = cache_slot(p->epoch, p->link), index = w->cache[slot];

	if (index && link_is(&w->links[index - 1], p->epoch, p->link, p->linktype))
		return &w->interfaces[w->links[index - 1].interface];
	if (!link_find(w, p->epoch, p->link, p->linktype, &index)) {
		struct prm_trace_link link = {
			.epoch = p->epoch, .link = p->link, .linktype = p->linktype};

		if (link_add(w, &link, &index, err) < 0)
			return NULL;
	}
	w->cache[slot] = index + 1;
	return &w->interfaces[w->links[index].interface];
}

int
prm_trace_begin(struct prm_trace_writer *w, struct pr_error *err)
{
	if (w->begun)
		return 0;
	w->begun = true;
	return w->format == PRM_TRACE_PCAPNG ? prm_pcapng_begin(w, err)
					     : prm_pcap_begin(w, err);
}

int
prm_trace_packet(
	struct prm_trace_writer *w, const struct pr_packet *p, struct pr_error *err)
{
	struct trace_interface *interface = interface_of(w, p, err);

	if (!interface)
		return -1;
	if (!interface->packets || p->time < interface->first)
		interface->first = p->time;
	if (!interface->packets || p->time > interface->last)
		interface->last = p->time;
	interface->packets++;
	w->packets++;
	prm_trace_hash_add(w->hash, p);
	if (!w->begun && prm_trace_begin(w, err) < 0)
		return -1;
	return w->format == PRM_TRACE_PCAPNG ? prm_pcapng_packet(w, p, interface, err)
					     : prm_pcap_packet(w, p, interface, err);
}

int
prm_trace_finish(struct prm_trace_writer *w, const struct prm_trace_statistics *statistics,
	size_t statistic_count, const char *const *comments, size_t comment_count,
	struct pr_error *err)
{
	if (prm_trace_begin(w, err) < 0)
		return -1;
	if (w->format == PRM_TRACE_PCAPNG &&
		prm_pcapng_finish(
			w, statistics, statistic_count, comments, comment_count, err) < 0)
		return -1;
	return prm_output_sync(w->out, err);
}

char *
prm_trace_hash_of(const struct prm_trace_writer *w, char out[PRM_TRACE_HASH_TEXT])
{
	return prm_trace_hash_text(w->hash, out);
}

uint64_t
prm_trace_packets(const struct prm_trace_writer *w)
{
	return w->packets;
}

uint64_t
prm_trace_clamped(const struct prm_trace_writer *w)
{
	return w->clamped;
}
