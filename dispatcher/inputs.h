/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_INPUTS_H
#define PR_DISPATCHER_INPUTS_H

#include <stdbool.h>

#include "dispatcher/capture.h"
#include "dispatcher/file.h"
#include "dispatcher/link.h"
#include "dispatcher/options.h"

/* All that packets come from: i-ports with a ring each, or files with one ring for all. */
struct prd_inputs {
	struct prd_link *links;
	unsigned link_count;
	struct pr_ring *rings[PRD_LINKS_MAX];
	unsigned ring_count;
	struct prd_capture *captures[PRD_LINKS_MAX]; /* live */
	struct prd_files *files; /* or this */
};

/* Opens everything; nothing runs yet. o must outlive it. */
int prd_inputs_open(struct prd_inputs *in, const struct prd_options *o,
	enum prd_fault *fault, struct pr_error *err);
int prd_inputs_start_threads(struct prd_inputs *in, struct pr_error *err);
void prd_inputs_close(struct prd_inputs *in);

/* Any thread, see capture.h and file.h. */
void prd_inputs_turn(struct prd_inputs *in, bool on);
bool prd_inputs_quiet(const struct prd_inputs *in);
bool prd_inputs_at_end(const struct prd_inputs *in); /* never with i-ports */

static inline bool
prd_inputs_live(const struct prd_inputs *in)
{
	return !in->files;
}

#endif
