/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_DISPATCHER_FILE_H
#define PR_DISPATCHER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatcher/capture.h"

/*
 * Trace files as links: one thread reads them all into one cyclic buffer, and waits for room in
 * it: a file loses nothing. The stamps are the files' own.
 */
struct prd_files;

struct prd_files_config {
	const char *filter; /* or NULL */
	uint32_t snaplen;
	bool recorded; /* pace: by the stamps, counted from each file's first; else as fast as it goes */
};

/* paths[i] becomes links[i]. Errors as in prd_capture_open. */
struct prd_files *prd_files_open(char *const *paths, unsigned count,
	const struct prd_files_config *config, struct prd_link *links, struct pr_ring *ring,
	enum prd_fault *fault, struct pr_error *err);
int prd_files_start_thread(struct prd_files *files, struct pr_error *err);
void prd_files_destroy(struct prd_files **files);

/* Any thread. Reading starts off. */
void prd_files_turn(struct prd_files *files, bool on);
bool prd_files_is_quiet(const struct prd_files *files);
/* At their ends, or where they are broken, and all published. */
bool prd_files_at_end(const struct prd_files *files);
/* After the end: true and err when a file was broken (what came before has been delivered). */
bool prd_files_broken(const struct prd_files *files, struct pr_error *err);

#endif
