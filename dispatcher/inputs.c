/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/port/netdev.h"

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void
link_name(struct prd_link *link, unsigned number, const char *name)
{
	link->number = (uint16_t)number;
	for (size_t i = 0; i < PR_NAME_MAX && name[i]; i++) /* as frames demand it */
		link->name[i] =
			(unsigned char)name[i] < ' ' || name[i] == 0x7f ? '_' : name[i];
}

static int
add_ring(struct prd_inputs *in, size_t size, struct pr_error *err)
{
	struct pr_ring *ring = pr_ring_create(size, err);

	if (!ring)
		return -1;
	in->rings[in->ring_count++] = ring;
	return 0;
}

static int
open_live(struct prd_inputs *in, const struct prd_options *o, unsigned i,
	enum prd_fault *fault, struct pr_error *err)
{
	struct prd_capture_config config = {.ifname = o->in.items[i],
		.filter = o->filter,
		.snaplen = (uint32_t)o->snaplen,
		.kernel_ring = o->ring_size};
	struct pr_netdev dev;

	if (pr_netdev_open(&dev, config.ifname, err) < 0)
		return pr_error_prefix(err, "--in");
	in->links[i].live = true;
	in->links[i].mtu = dev.mtu;
	in->links[i].speed = dev.speed;
	if (add_ring(in, o->buffer_size, err) < 0)
		return -1;
	in->captures[i] =
		prd_capture_open(&config, &in->links[i], in->rings[i], fault, err);
	return in->captures[i] ? 0 : -1;
}

static int
open_files(struct prd_inputs *in, const struct prd_options *o, enum prd_fault *fault,
	struct pr_error *err)
{
	struct prd_files_config config = {.filter = o->filter,
		.snaplen = (uint32_t)o->snaplen,
		.recorded = o->pace == PRD_PACE_RECORDED};

	if (add_ring(in, o->buffer_size, err) < 0)
		return -1;
	in->files = prd_files_open(o->read.items, in->link_count, &config, in->links,
		in->rings[0], fault, err);
	return in->files ? 0 : -1;
}

int
prd_inputs_open(struct prd_inputs *in, const struct prd_options *o, enum prd_fault *fault,
	struct pr_error *err)
{
	bool live = o->in.count > 0;
	unsigned count = (unsigned)(live ? o->in.count : o->read.count);

	*fault = PRD_FAULT_RUN;
	memset(in, 0, sizeof *in);
	in->links = aligned_alloc(alignof(struct prd_link), count * sizeof *in->links);
	if (!in->links)
		return pr_error_set(err, "no memory for %u links", count);
	memset(in->links, 0, count * sizeof *in->links);
	in->link_count = count;
	for (unsigned i = 0; i < count; i++) {
		link_name(&in->links[i], i,
			live ? o->in.items[i] : base_name(o->read.items[i]));
		if (live && open_live(in, o, i, fault, err) < 0)
			return -1;
	}
	return live ? 0 : open_files(in, o, fault, err);
}

int
prd_inputs_start_threads(struct prd_inputs *in, struct pr_error *err)
{
	if (in->files)
		return prd_files_start_thread(in->files, err);
	for (unsigned i = 0; i < in->link_count; i++)
		if (prd_capture_start_thread(in->captures[i], err) < 0)
			return -1;
	return 0;
}

void
prd_inputs_close(struct prd_inputs *in)
{
	prd_files_destroy(&in->files);
	for (unsigned i = 0; i < in->link_count; i++)
		prd_capture_destroy(&in->captures[i]);
	for (unsigned i = 0; i < in->ring_count; i++)
		pr_ring_destroy(&in->rings[i]);
	free(in->links);
	memset(in, 0, sizeof *in);
}

void
prd_inputs_turn(struct prd_inputs *in, bool on)
{
	if (in->files)
		prd_files_turn(in->files, on);
	for (unsigned i = 0; !in->files && i < in->link_count; i++)
		prd_capture_turn(in->captures[i], on);
}

bool
prd_inputs_quiet(const struct prd_inputs *in)
{
	if (in->files)
		return prd_files_is_quiet(in->files);
	for (unsigned i = 0; i < in->link_count; i++)
		if (!prd_capture_is_quiet(in->captures[i]))
			return false;
	return true;
}

bool
prd_inputs_at_end(const struct prd_inputs *in)
{
	return in->files && prd_files_at_end(in->files);
}
