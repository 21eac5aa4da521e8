/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdalign.h>

#include "dispatcher/dispatcher.h"
#include "proto/base/counter.h"
#include "proto/base/ring.h"
#include "proto/port/fast.h"
#include "proto/port/shunt.h"
#include "proto/wire/frame.h"

/*
 * One monitored link: a capture interface or a trace file. Shared by the thread that captures it and
 * the thread that sends. Each counter has one writer, and each writer has cache lines of its own.
 */
#define PRD_LINKS_MAX 64

/* What was dropped before it got a seq, as it was read at `until`; 0: not read. */
struct prd_drops {
	uint64_t kernel, interface, ring;
	int64_t until;
};

struct prd_link {
	uint16_t number, linktype;
	uint32_t snaplen;
	uint32_t mtu; /* of the interface; 0: a file, whose packets may have any length */
	uint64_t speed; /* of the interface, bits/s; 0 unknown */
	char name[PR_NAME_MAX + 1];

	/* written by the capture thread */
	alignas(64) pr_counter captured_packets;
	pr_counter captured_bytes;
	pr_counter dropped_kernel; /* the kernel's ring was full */
	pr_counter dropped_interface; /* the card, or the kernel's backlog */
	pr_counter dropped_ring; /* the cyclic buffer was full */
	pr_counter unstamped; /* pr_capture_unstamped */
	/* ns: all packets stamped earlier have been published */
	_Atomic int64_t captured_until;
	/* of observation; taken ten times a second, and when it changes */
	pthread_mutex_t lock;
	struct pr_observation observation; /* its generation: see prd_inputs_observation */
	/* under lock: what MARKs tell, and what is told once they reach the time at which it was read */
	struct prd_drops told, next;

	/* written by the send thread */
	alignas(64) pr_counter last_seq;
	/* of the last packet: running maximum, its own */
	_Atomic int64_t last_otime, last_time;
	pr_counter sent_packets, sent_bytes; /* primaries, as sent */
	pr_counter dropped_no_node, dropped_send;
	pr_counter cut, escaped, runts;
	pr_counter beyond_packets,
		beyond_bytes, /* kept back by a cutoff: they have no seq */
		shunted_packets; /* of these, that the XDP program dropped */
	pr_counter undelivered_first, undelivered_last;
	_Atomic bool ended;
};

/*
 * A captured packet in the cyclic buffer, which the send thread rewrites in place. data has room
 * for at least PR_FRAME_MIN bytes, so that short frames can be padded in place.
 */
struct prd_record {
	int64_t time;
	uint32_t caplen, len;
	uint16_t link;
	uint8_t class; /* as in timestamp logs */
	uint8_t reserved[5];
	uint8_t data[];
};

static inline size_t
prd_record_size(uint32_t caplen)
{
	return sizeof(struct prd_record) + (caplen < PR_FRAME_MIN ? PR_FRAME_MIN : caplen);
}

/*
 * All that packets come from. A capture interface has a thread and a cyclic buffer (ring) of its own; the
 * thread moves packets from the kernel's ring into it (CLog section 3.1) and never waits: a full buffer is
 * a counted drop. Trace files share one thread and one ring; the thread waits for room, so a file loses
 * nothing. Times are the kernel's or the file's own.
 */
struct prd_reader;

struct prd_inputs {
	struct prd_link *links;
	unsigned link_count;
	/* if there is a cutoff: link i + link_count has the sums of what it kept back of link i (proto/wire/beyond.h) */
	bool beyond;
	unsigned all_links; /* with these, and the canary as the last, if there is one */
	struct pr_ring *rings[PRD_LINKS_MAX];
	unsigned ring_count;
	_Atomic uint32_t changes; /* of all links' observations */
	bool live; /* from interfaces: ring i is of link i; else files, all in ring 0 */
	/* or NULL: the XDP program captures, and the rings stay empty. The options' */
	struct pr_fast *fast;
	struct pr_packet_filter
		*filter; /* of the XDP path, or NULL: all. Elsewhere the capture has it */
	struct pr_shunts *shunts; /* or NULL; the options' */
	struct prd_reader *readers[PRD_LINKS_MAX]; /* one a ring */
};

/*
 * Opens everything, so that errors show before anything starts. No thread runs yet, and
 * capture is off. o must outlive it. 0, or an exit status (enum prd_exit_status) and err.
 */
int prd_inputs_open(
	struct prd_inputs *in, const struct prd_options *o, struct pr_error *err);
int prd_inputs_start_threads(struct prd_inputs *in, struct pr_error *err);
void prd_inputs_close(struct prd_inputs *in);
/*
 * What the thread of a capture interface does again and again. Returns how long it may sleep; 0: not at all. When told to
 * stop, it delivers what was captured before, then closes the capture.
 */
int64_t prd_capture_round(struct prd_reader *reader);

/*
 * Any thread may call these, up to prd_inputs_observation. After "off", packets in the kernel are still delivered; then
 * prd_inputs_quiet is true.
 */
void prd_inputs_set_running(struct prd_inputs *in, bool running);
/* A user stops the capture (by, may be ""): from now on the links are not observed. */
void prd_inputs_stop(struct prd_inputs *in, const char *by);
/*
 * The generation of the links' observations (struct pr_observation). What captured_until confirmed before this call
 * is true with the observations that are read after it.
 */
uint16_t prd_inputs_generation(const struct prd_inputs *in);
void prd_inputs_observation(
	struct prd_inputs *in, unsigned link, struct pr_observation *out);
bool prd_inputs_quiet(const struct prd_inputs *in);
/* How far a MARK up to `said` may reach with what it tells of the link's drops. tell: it is sent, and tells. */
int64_t prd_link_drops_until(struct prd_link *link, int64_t said, bool tell);
/* True if all files were read to the end, or to where they are broken, and published. */
bool prd_inputs_at_end(const struct prd_inputs *in);
/* After the end: true and err if a file was broken. What came before has been delivered. */
bool prd_inputs_broken(const struct prd_inputs *in, struct pr_error *err);
