/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/clock.h"
#include "proto/base/field_table.h"
#include "proto/wire/timestamps.h"

/*
 * Frames on the rack's switch. All integers big-endian. A control frame is
 *
 *   Ethernet: dst MAC 6, src MAC 6, Ethertype 2
 *    0 version u8        1 type u8          2 flags u16      4 rack u32
 *    8 epoch u64        16 number u64
 *   24 sender nonce u32 28 receiver nonce u32 (0: not known yet)
 *   32 body length u16  34 reserved u16 = 0  36 check u32
 *   40 body ...         then tag, 16 bytes
 *
 * check: low 32 bits of XXH3-64 over both MACs and all of header and body with check = 0, so that a
 * flipped bit is found without a key too. tag: BLAKE2b-128 keyed with the rack's key (libsodium
 * crypto_generichash) over the same bytes with check filled in; zeros without a key.
 * Bytes after the tag are padding of the link and are ignored.
 *
 * A receiver without a key takes zero tags only: a tag that nobody can check is no tag. Flags: of a
 * MARK, the generation of the UNOBSERVED frames that go with it; else ignored. A reserved field that is not 0 is a version that we do not know.
 *
 * Bodies, field by field without gaps, big-endian; names are u8 length (0..64) and bytes, none of
 * them a control byte; bools are u8 0 or 1. A body has exactly its length, nothing behind.
 *
 *   ANN       name (not empty), version name, disk total u64, disk free u64, write rate u64,
 *             buffer size u64, link speed u64, mtu u32
 *   ANN_ACK   node u16, hold ns u64 (at most INT64_MAX / 2), snap length u32
 *   STATUS    state u8 (0..2), buffer fill u8 (0..100), then u64 each: ordinal settled, frames and bytes
 *             received, packets and bytes stored, packets durable, missing, stray, duplicate, pending,
 *             kernel drops, logs received, requested, gone, disk total, disk free, write rate, command;
 *             command type u8 (a frame type, or 0), command result bool
 *   TSLOG     see tslog.h
 *   MARK      said until i64, next ordinal u64, stopping bool, link count u16, count u16 (at most 8 and
 *             link count), then count times:
 *             link u16, link type u16, snap length u32, ended bool, last seq u64, last otime i64, then
 *             u64 each: last log, assigned, dropped by kernel, interface, ring, no node, send, cut,
 *             undelivered first, undelivered last; name
 *   RESEND    link u16, first log u64 (from 1), last log u64 (not below first)
 *   GONE      link u16, first log u64, last log u64 (as RESEND), first seq u64, last seq u64 (both 0, or
 *             1 <= first <= last), first time i64, last time i64, count u64
 *   STOP, QUIT, IDENTIFY, RESET, DISCONNECT, RECONNECT   command u64, seconds u32
 *   PORT      link u16, speed u64 (not 0)
 *   CLASS     number u8 (1..63), guarantee u16 (1/1000 of the volume), keep i64 (ns, 0: no limit), name (not empty)
 *   UNOBSERVED  link u16, generation u16 (not 0), count u8 (at most 16), then count times:
 *             reason u8 (1..4), since i64, until i64 (not before since), by name
 *
 * number counts up per (sender nonce, type); receivers refuse what they have seen or what is older
 * than the replay window (frames may overtake each other a little, see struct pr_replay).
 */
#define PR_FRAME_VERSION 1
#define PR_ETHERTYPE_DEFAULT 0x88B5 /* IEEE 802 local experimental 1 */
/* what a tapped frame of our Ethertype carries on the switch */
#define PR_ETHERTYPE_ESCAPE 0x88B6
#define PR_MAC_LEN 6
#define PR_MAC_FORMAT "%02x:%02x:%02x:%02x:%02x:%02x"
#define PR_MAC_ARGS(m) (m)[0], (m)[1], (m)[2], (m)[3], (m)[4], (m)[5]
#define PR_ETHER_LEN 14
#define PR_FRAME_MIN 60 /* data frames are zero-padded to this, without FCS */
enum { PR_FRAME_HEADER = 40, PR_FRAME_TAG = 16, PR_FRAME_KEY = 32 };
#define PR_FRAME_OVERHEAD (PR_ETHER_LEN + PR_FRAME_HEADER + PR_FRAME_TAG)

enum pr_frame_type {
	PR_FRAME_ANN = 1,
	PR_FRAME_ANN_ACK = 2,
	PR_FRAME_STATUS = 3,
	PR_FRAME_TSLOG = 4,
	PR_FRAME_MARK = 5,
	PR_FRAME_RESEND = 6,
	PR_FRAME_GONE = 7,
	PR_FRAME_STOP = 8,
	PR_FRAME_QUIT = 9,
	PR_FRAME_IDENTIFY = 10,
	PR_FRAME_RESET = 11,
	PR_FRAME_DISCONNECT = 12,
	PR_FRAME_RECONNECT = 13,
	PR_FRAME_PORT = 14, /* an older node counts it as bad, and goes on */
	PR_FRAME_UNOBSERVED = 15, /* likewise */
	PR_FRAME_CLASS = 16, /* likewise */
	PR_FRAME_TYPES = 17
};

/*
 * The rack key of frames' tags. While a rack's key is changed there are two: outgoing frames are tagged with
 * `active`, incoming ones may carry the tag of either (proto/wire/rack_key.h).
 */
struct pr_frame_key {
	bool set, alternate_set;
	bool alternate_is_newer; /* active is the key to be retired */
	uint8_t active[PR_FRAME_KEY], alternate[PR_FRAME_KEY];
};

struct pr_frame_header {
	uint8_t type;
	uint16_t flags;
	uint32_t rack;
	uint64_t epoch; /* the dispatcher's; 0 in frames of a node that knows none */
	uint64_t number;
	uint32_t sender_nonce, receiver_nonce;
};

/* ANN: from a node, broadcast each second until acknowledged. */
struct pr_ann {
	char name[PR_NAME_MAX + 1];
	char version[PR_NAME_MAX + 1];
	uint64_t disk_total, disk_free; /* bytes of the volume */
	uint64_t write_rate; /* bytes/s measured; 0 unknown */
	uint64_t buffer_size; /* bytes of frames the node can hold back */
	uint64_t link_speed; /* bits/s; 0 unknown */
	uint32_t mtu;
};

/* ANN_ACK */
struct pr_ann_ack {
	uint16_t node; /* number, given by the dispatcher, stable within an epoch */
	uint64_t hold_ns;
	uint32_t snaplen;
};

enum pr_node_state {
	PR_NODE_RUNNING = 0,
	/* all that came before STOP is flushed: this acknowledges it */
	PR_NODE_STOPPED = 1,
	PR_NODE_SUSPENDED = 2, /* cannot write */
};

/* STATUS: every 500 ms and at each quarter of the buffer. Counters since the epoch's ANN_ACK. */
struct pr_status {
	uint8_t state; /* enum pr_node_state */
	uint8_t buffer_fill; /* percent */
	/* frames of lower ordinal are all stored, lost or given up */
	uint64_t ordinal_settled;
	uint64_t frames_received; /* data frames, and their bytes */
	uint64_t bytes_received;
	uint64_t packets_stored, bytes_stored;
	uint64_t packets_durable; /* of those stored: flushed to the device */
	uint64_t missing, stray, duplicate, pending;
	uint64_t kernel_drops;
	uint64_t logs_received, logs_requested, logs_gone;
	uint64_t disk_total, disk_free;
	uint64_t write_rate;
	uint64_t command; /* number of the last STOP/IDENTIFY/RESET/... frame carried out */
	uint8_t command_type;
	uint8_t command_result; /* 0 done, 1 failed (reason in the node's log) */
};

/* MARK: the ledger, to each node every 100 ms. Several frames when there are many links. */
struct pr_mark_link {
	uint16_t link;
	uint16_t linktype; /* as in pcap files: 1 is Ethernet */
	uint32_t snaplen;
	uint8_t ended; /* the trace file is at its end, or capture has stopped */
	uint64_t last_seq; /* last seq given on this link; 0 none (seqs start at 1) */
	int64_t last_otime; /* of last_seq */
	/* last TSLOG number for this node and link; 0 none (they start at 1) */
	uint64_t last_log;
	uint64_t assigned; /* entries logged for this node on this link, primaries */
	uint64_t dropped_kernel, dropped_interface; /* packets that never got a seq */
	uint64_t dropped_ring; /* no room in the cyclic buffer: no seq either */
	uint64_t dropped_no_node; /* got a seq, and no node to go to */
	uint64_t dropped_send; /* got a seq, and the rack interface refused them */
	uint64_t cut; /* sent truncated, see PR_ENTRY_CUT */
	/* seqs of the last range of no_node/send drops; 0 none */
	uint64_t undelivered_first, undelivered_last;
	char name[PR_NAME_MAX + 1];
};

struct pr_mark {
	int64_t said_until; /* ns UTC: every packet captured earlier is in a log already sent to this node */
	/* of the next data frame to this node; all lower ones were sent */
	uint64_t next_ordinal;
	uint8_t stopping;
	/* links of the dispatcher, over all MARK frames of this round */
	uint16_t link_count;
	uint16_t count; /* links in this frame */
	const struct pr_mark_link *links;
};
/* Links of a MARK, alike in frames and in the ledger (struct pr_mark_link). */
extern const struct pr_field_table pr_mark_link_fields;
/* of struct pr_unobserved, likewise */
extern const struct pr_field_table pr_unobserved_fields;
#define PR_MARK_LINKS_MAX 8 /* in one frame, so that it fits 1500 bytes */

/* RESEND: logs first..last of a link that the node misses. GONE: they are no longer kept. */
struct pr_resend {
	uint16_t link;
	uint64_t first_log, last_log;
};

struct pr_gone {
	uint16_t link;
	uint64_t first_log, last_log;
	uint64_t first_seq, last_seq; /* 0, 0: not known */
	int64_t first_time, last_time;
	uint64_t count; /* entries they held; 0 not known */
};

/* STOP, QUIT, IDENTIFY, RESET, DISCONNECT, RECONNECT */
struct pr_command {
	uint64_t command; /* number that STATUS gives back */
	uint32_t seconds; /* IDENTIFY: how long; else 0 */
};

/* PORT: what the dispatcher knows of a link's capture interface; sent now and then after a MARK. */
struct pr_port {
	uint16_t link;
	uint64_t speed; /* bits/s, when the capture began; 0 unknown */
	struct pr_clock clock; /* older versions have none */
};

/*
 * CLASS: how the packets of a class are kept; sent now and then after a MARK. The name tells what a class is: packets of class
 * NAME are also written to the streams of NAME.cut (if they are within the cutoff) and NAME.headers (up to the end of the transport
 * header), if there are classes of these names; hold.NAME is of a case.
 */
#define PR_CLASS_MAX 63
#define PR_CLASS_HOLDS                                                                     \
	48 /* the numbers from here on are those of holds, and each node's own */
#define PR_CLASS_CUT ".cut"
#define PR_CLASS_HEADERS ".headers"
#define PR_CLASS_HOLD "hold."
/* In a timestamp log, with the number: the packet is beyond the cutoff, and is sent as the class has a full degree. */
#define PR_CLASS_BEYOND 0x80
struct pr_class {
	uint8_t number; /* as in timestamp logs */
	uint16_t guarantee; /* of the volume, in 1/1000; of each link */
	int64_t keep; /* ns; older ones are removed. 0: no limit */
	char name[PR_NAME_MAX + 1];
	uint16_t
		memory; /* of the node's shared memory, in 1/1000; of each link. 0: no share of its own; older versions have none */
};
bool pr_class_valid(const struct pr_class *c);
/* What the packets of a class of this name are copies of; the longer copies come first. */
enum pr_degree {
	PR_DEGREE_NONE,
	PR_DEGREE_HOLD,
	PR_DEGREE_CUT,
	PR_DEGREE_HEADERS,
	PR_DEGREES
};
extern const char *const pr_degree_suffixes[PR_DEGREES]; /* of names; "" of those without */
enum pr_degree pr_class_degree(const char *name);
/* Is `name` that degree of class `of`? */
bool pr_class_is_degree(const char *name, const char *of, enum pr_degree degree);
extern const struct pr_field_table pr_class_fields; /* alike in frames and in the ledger */

/*
 * UNOBSERVED: the times at which a link was not observed, in this epoch. Sent before a MARK, for a second
 * after each change and now and then. The generation counts the changes on all links of a dispatcher; it is never
 * 0, which stands for a dispatcher that has no such frames. A node takes a MARK only with the facts of the MARK's
 * generation: what the MARK confirms is true only with them.
 */
enum pr_unobserved_reason {
	PR_UNOBSERVED_BEGIN = 1, /* the capture began at `until`; not yet: PR_TIME_MAX */
	/* a trace file, whose earliest packet is of `until`; it observes up to its last */
	PR_UNOBSERVED_FILE = 2,
	PR_UNOBSERVED_NO_CARRIER = 3, /* the capture interface had none, or was down */
	PR_UNOBSERVED_STOPPED = 4, /* a user has stopped the capture */
	PR_UNOBSERVED_REASONS
};
struct pr_unobserved {
	uint8_t reason; /* enum pr_unobserved_reason */
	/* ns UTC; since PR_TIME_MIN: from ever; until PR_TIME_MAX: still */
	int64_t since, until;
	/* who has stopped it; of a BEGIN or FILE: the node that records it by itself */
	char by[PR_NAME_MAX + 1];
};
#define PR_UNOBSERVED_MAX 16
struct pr_observation {
	uint16_t link;
	uint16_t generation;
	uint8_t count;
	/* first BEGIN or FILE, then in order of time */
	struct pr_unobserved items[PR_UNOBSERVED_MAX];
};

bool pr_unobserved_valid(const struct pr_unobserved *u);
/* Sets when the observation begins, or the earliest packet of a trace file (reason FILE). Once, or to change it. */
void pr_observation_begin(struct pr_observation *o, enum pr_unobserved_reason reason,
	int64_t until, const char *by);
/*
 * A time without observation begins; one that is still open ends there. If the list is full, the oldest one goes, which
 * nodes have kept; or, if it ended just now, the two oldest become one that covers both: what is confirmed becomes less,
 * never more. pr_observation_again ends the open one; false: there is none.
 */
#define PR_OBSERVATION_TOLD_NS (60 * PR_NS_PER_S)
void pr_observation_lost(struct pr_observation *o, enum pr_unobserved_reason reason,
	int64_t since, const char *by);
bool pr_observation_again(struct pr_observation *o, int64_t until);

struct pr_frame {
	uint8_t dst[PR_MAC_LEN], src[PR_MAC_LEN];
	struct pr_frame_header header;
	bool by_alternate; /* decoded: its tag was made with the alternate key */
	union {
		struct pr_ann ann;
		struct pr_ann_ack ann_ack;
		struct pr_status status;
		struct pr_mark mark; /* links points into link_room when decoded */
		struct pr_resend resend;
		struct pr_gone gone;
		struct pr_command command;
		struct pr_port port;
		struct pr_class class;
		struct pr_observation observation;
		struct {
			/* TSLOG body, see tslog.h; points into the frame */
			const uint8_t *data;
			size_t len;
		} raw;
	} body;
	struct pr_mark_link link_room[PR_MARK_LINKS_MAX];
};

/*
 * Encodes header and body of f (from offset 14 of the Ethernet frame on) into buf, for libnet to build the
 * rest; checksum and tag cover dst and src anyway. Returns the length, or 0 when it does not fit or holds
 * what the format cannot (a node without a name, a MARK whose link_count is below count, a fill over
 * 100 %, ...). A TSLOG body may lie within buf. key may be NULL. Any thread.
 */
size_t pr_frame_encode_payload(const struct pr_frame *f, const struct pr_frame_key *key,
	uint8_t *buf, size_t room);

enum pr_frame_result {
	PR_FRAME_OK,
	PR_FRAME_NOT_OURS, /* another Ethertype: a data frame */
	PR_FRAME_BAD_LENGTH,
	PR_FRAME_BAD_VERSION,
	PR_FRAME_BAD_TYPE,
	PR_FRAME_BAD_CHECK,
	PR_FRAME_BAD_TAG,
	PR_FRAME_BAD_BODY,
	PR_FRAME_RESULTS
};
const char *pr_frame_type_name(unsigned type); /* "ANN", ...; "?" */

/*
 * Decodes an Ethernet frame as libpcap gives it. Bytes left over within the body length are
 * an error. *out is written only when checksum and tag are right. Any thread.
 */
enum pr_frame_result pr_frame_decode(const uint8_t *data, size_t len, uint16_t ethertype,
	const struct pr_frame_key *key, struct pr_frame *out);

/* Refuses numbers seen before, or older than a window of 1024 (as IPsec does). One per sender and type. */
#define PR_REPLAY_WINDOW 1024
struct pr_replay {
	uint32_t nonce;
	bool any;
	uint64_t highest;
	uint64_t seen[PR_REPLAY_WINDOW / 64];
};
/* Records the number as seen; false: it was seen before, or is too old. A new nonce starts anew. */
bool pr_replay_accept(struct pr_replay *replay, uint32_t nonce, uint64_t number);

/* A nonce and an epoch (start time in s in the high 32 bits, random bits below), from libsodium. */
uint32_t pr_nonce_make(void);
uint64_t pr_epoch_make(int64_t now);

/*
 * Data frames. Offset of the Ethertype that tells what the frame carries: the one behind
 * any VLAN tags (0x8100, 0x88a8, 0x9100). 0 if the frame is too short to have one.
 */
size_t pr_ethertype_offset(const uint8_t *data, size_t len);
/* Is it a control frame (untagged, our Ethertype at offset 12)? */
static inline bool
pr_is_control(const uint8_t *data, size_t len, uint16_t ethertype)
{
	return len >= PR_ETHER_LEN && data[12] == ethertype >> 8 &&
	       data[13] == (ethertype & 0xff);
}

/*
 * 32-bit fingerprint of a frame's bytes after the MACs, as sent: h(bytes without trailing zeros) +
 * PR_FINGERPRINT_STEP * (length of the frame), h being XXH3-64 with the epoch as seed, low half.
 * A frame that a switch padded with zeros can therefore be recognized: it differs by a multiple of the step
 * (logger/timestamp_align.c).
 */
#define PR_FINGERPRINT_STEP 0x9E3779B1u /* odd; 2^32 over the golden ratio */
uint32_t pr_fingerprint(const uint8_t *frame, size_t len, uint64_t epoch);
/* The second kind (proto/wire/fingerprint.h), of a dispatcher's whole epoch: its ANN_ACKs and timestamp logs say so. */
uint32_t pr_fingerprint_whole(const uint8_t *frame, size_t len, uint64_t epoch);
/* whole: of the second kind. */
uint32_t pr_fingerprint_of(bool whole, const uint8_t *frame, size_t len, uint64_t epoch);
/* of pr_frame_header.flags, in ANN_ACK */
#define PR_FRAME_WHOLE 1
