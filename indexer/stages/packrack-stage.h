/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * A stage takes packets in their order and gives packets, lines of text, or a report (the applications of PacketBench:
 * Bunga and Wolf, "A characterization of high-performance network monitoring systems and workloads").
 *
 * A stage of your own is a shared object with the symbol `packrack_stage`: cc -shared -fPIC -o mine.so mine.c, then
 * `packrack stage ./mine.so ...`. Each shard has a state of its own, and one thread.
 */
#define PACKRACK_STAGE_VERSION 1

struct packrack_packet {
	int64_t time; /* ns since 1970 UTC */
	uint64_t seq; /* its number on the link, from 1 */
	uint8_t *
		data; /* caplen bytes. A stage that GIVES may change them, and make caplen less */
	uint32_t caplen, len; /* captured; on the wire */
	uint16_t linktype, link; /* LINKTYPE_ as in pcap files */
	uint32_t
		scale; /* packets that this one stands for, if only a sample is taken; else 1 */
	char *line; /* NULL; or a text from malloc, ended by a newline: printed in the packets' order, and freed */
};

enum {
	PACKRACK_STAGE_CONNECTIONS =
		1, /* it keeps state: a connection's packets all go to one shard */
	PACKRACK_STAGE_GIVES = 2, /* packets */
	PACKRACK_STAGE_PRINTS = 8, /* lines: reports go to standard error */
	PACKRACK_STAGE_BARE = 4, /* a trace of them has no names and comments of the rack */
};

struct packrack_stage {
	uint32_t version, flags;
	const char *name, *summary;
	const char *const *options; /* "KEY: what it is", NULL at the end; or NULL */
	/* options: "KEY=VALUE", only such that are listed, NULL at the end. NULL: error has one line. */
	void *(*open)(const char *const *options, char *error, size_t size);
	int (*packet)(void *state,
		struct packrack_packet *p); /* 1: give it, 0: do not; -1: no memory */
	int (*flush)(void *state); /* nothing more comes; -1: no memory. NULL: none */
	int (*add)(void *state,
		void *other); /* what another shard has; -1: no memory. NULL: one shard only */
	char *(*report)(void *state); /* an object of JSON, from malloc; NULL: no memory */
	void (*close)(void *state);
};
extern const struct packrack_stage packrack_stage;
