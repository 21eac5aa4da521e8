/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_TRACE_WATCH_H
#define PRL_LOGGER_TRACE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/error.h"

/*
 * Sees the bytes of a trace file go by and notes what libpcap passes over without a word: blocks of
 * decryption secrets in a pcapng. Takes bytes in pieces of any size; one thread.
 */
struct prl_trace_watch {
	uint64_t bytes; /* seen */
	uint64_t secrets; /* blocks of decryption secrets */
	/* of the block that is going by */
	uint8_t head[12];
	uint32_t have, skip;
	bool begun, big_endian;
	bool over; /* no pcapng, or damaged: libpcap says so */
	/* Set once it is open, if at all: called while a pipe gives nothing, every 10 ms. False: as if it had ended. */
	bool (*idle)(void *arg);
	void *arg;
};

void prl_trace_watch_feed(struct prl_trace_watch *w, const void *data, size_t len);

/*
 * The file ("-": standard input) as a stream whose bytes w sees; w must outlive it. NULL: err. Closing the
 * stream closes the file.
 */
FILE *prl_trace_watch_open(
	struct prl_trace_watch *w, const char *path, struct pr_error *err);

#endif
