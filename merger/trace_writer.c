/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/trace_writer.h"

#include <xxhash.h>

#include "proto/base/array.h"
#include "proto/base/cursor.h"
#include "proto/base/text.h"
#include "proto/wire/relation.h"

enum { CLOCK_TEXT = 144 };

/*
 * An interface of the file: a name and a link type. Links of several epochs may share it.
 */
struct trace_interface {
	char *name;
	uint16_t linktype;
	uint64_t packets;
	int64_t first, last; /* times of its packets */
	uint32_t number; /* in the file; UINT32_MAX: not written yet */
	uint32_t ancient; /* number of the interface for times before 1970 */
	uint64_t speed; /* 0 unknown */
	char clock[CLOCK_TEXT]; /* of the last link that told of it */
	bool speeds_differ, told; /* told: received and dropped_* are known */
	uint64_t received, dropped_kernel, dropped_interface;
};

struct trace_link {
	uint64_t epoch;
	uint16_t link, linktype;
	size_t interface;
};

#define TRACE_CACHE 64

struct prm_trace_writer {
	struct prm_output *out;
	enum prm_trace_format format;
	char *comment;
	char *filter; /* if_filter: a byte 0 (the code for text), then the text */
	size_t filter_len; /* including that byte; 0: no filter */
	struct trace_interface *interfaces;
	size_t interface_count;
	struct trace_link *links;
	size_t link_count;
	size_t cache[TRACE_CACHE]; /* link index + 1, by a hash of (epoch, link) */
	uint32_t snaplen, written_interfaces;
	uint16_t linktype; /* pcap: the one of the file */
	bool begun; /* the file's header is written */
	uint64_t clamped;
	struct prm_trace_hash *hash;
};

/* struct prm_trace_hash is XXH3's state. */
struct prm_trace_hash *
prm_trace_hash_create(struct pr_error *err)
{
	XXH3_state_t *state = XXH3_createState();

	if (state && XXH3_128bits_reset(state) == XXH_OK)
		return (struct prm_trace_hash *)state;
	XXH3_freeState(state);
	return pr_error_null(err, "no memory for the hash of a trace");
}

void
prm_trace_hash_destroy(struct prm_trace_hash **hash)
{
	XXH3_freeState((XXH3_state_t *)*hash);
	*hash = NULL;
}

void
prm_trace_head(const struct pr_packet *p, uint8_t head[PRM_TRACE_HEAD])
{
	pr_put_le64(head, p->time);
	pr_put_le32(head + 8, p->caplen);
	pr_put_le32(head + 12, p->len);
	pr_put_le32(head + 16, p->linktype);
	pr_put_le32(head + 20, 0);
}

void
prm_trace_hash_add(struct prm_trace_hash *hash, const struct pr_packet *p)
{
	XXH3_state_t *state = (XXH3_state_t *)hash;
	uint8_t head[PRM_TRACE_HEAD];

	prm_trace_head(p, head);
	XXH3_128bits_update(state, head, sizeof(head));
	XXH3_128bits_update(state, p->data, p->caplen);
}

char *
prm_trace_hash_text(const struct prm_trace_hash *h, char out[PRM_TRACE_HASH_TEXT])
{
	XXH128_hash_t sum = XXH3_128bits_digest((const XXH3_state_t *)h);

	snprintf(out, PRM_TRACE_HASH_TEXT, "xxh3-128/1:%016llx%016llx",
		(unsigned long long)sum.high64, (unsigned long long)sum.low64);
	return out;
}

#define PCAP_MAGIC_US 0xA1B2C3D4u
#define PCAP_MAGIC_NS 0xA1B23C4Du
enum { PCAP_HEADER = 24, PCAP_RECORD = 16 };
#define SECONDS_MIN (-INT64_C(0x80000000))
#define SECONDS_MAX INT64_C(0xffffffff)

static int
interface_find_or_add(struct prm_trace_writer *w, const char *name, uint32_t link,
	uint32_t linktype, size_t *out, struct pr_error *err)
{
	char made_up[24];

	if (!name[0]) {
		PR_PRINT(made_up, "link %u", link);
		name = link == PR_LINK_CANARY ? PR_LINK_CANARY_NAME : made_up;
	}
	for (*out = 0; *out < w->interface_count; ++*out)
		if (w->interfaces[*out].linktype == linktype &&
			!strcmp(w->interfaces[*out].name, name))
			return 0;
	struct trace_interface added = {.name = strdup(name),
		.linktype = linktype,
		.number = UINT32_MAX,
		.ancient = UINT32_MAX};
	if (added.name && PR_ARRAY_ADD(w->interfaces, w->interface_count, added) == 0)
		return 0;
	free(added.name);
	return pr_error_set(err, "no memory for another interface");
}

static int
pcap_begin(struct prm_trace_writer *w, struct pr_error *err)
{
	uint8_t *at = prm_output_room(w->out, PCAP_HEADER, err);
	size_t i = 0;

	if (!at)
		return -1;
	/* a file without packets takes the first link's type */
	while (i < w->interface_count && !w->interfaces[i].packets)
		i++;
	if (i == w->interface_count)
		i = 0;
	w->linktype = w->interface_count ? w->interfaces[i].linktype : PR_LINKTYPE_ETHERNET;
	memset(at, 0, PCAP_HEADER);
	pr_put_le32(at, w->format == PRM_TRACE_PCAP ? PCAP_MAGIC_US : PCAP_MAGIC_NS);
	pr_put_le16(at + 4, 2); /* version 2.4 */
	pr_put_le16(at + 6, 4);
	pr_put_le32(at + 16, w->snaplen);
	pr_put_le32(at + 20, w->linktype);
	return 0;
}

static int
pcap_packet(struct prm_trace_writer *w, const struct pr_packet *p,
	const struct trace_interface *interface, struct pr_error *err)
{
	int64_t sec = p->time / 1000000000, ns = p->time % 1000000000;

	if (interface->linktype != w->linktype)
		return pr_error_set(err,
			"the answer has link types %u and %u, and a pcap file holds one: "
			"choose one with --link, or use --format pcapng",
			w->linktype, interface->linktype);
	uint8_t *at = prm_output_room(w->out, PCAP_RECORD, err);
	if (!at)
		return -1;
	if (ns < 0) {
		ns += 1000000000;
		sec--;
	}
	if (sec < SECONDS_MIN || sec > SECONDS_MAX) {
		w->clamped++;
		ns = sec < SECONDS_MIN ? 0 : 999999999;
		sec = sec < SECONDS_MIN ? SECONDS_MIN : SECONDS_MAX;
	}
	pr_put_le32(at, sec);
	pr_put_le32(at + 4, w->format == PRM_TRACE_PCAP ? ns / 1000 : ns);
	pr_put_le32(at + 8, p->caplen);
	pr_put_le32(at + 12, p->len);
	return prm_output_write(w->out, p->data, p->caplen, err);
}

/* draft-ietf-opsawg-pcapng, little-endian */
#define BLOCK_SECTION 0x0A0D0D0Au
#define BYTE_ORDER_MAGIC 0x1A2B3C4Du
enum {
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_ENHANCED = 6, /* a packet */
};

/* Options; each kind of block has its own numbers. */
enum {
	OPT_COMMENT = 1, /* of any block */
	SHB_USERAPPL = 4,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_SPEED = 8, /* bits/s */
	IF_TSRESOL = 9, /* a tick is 10 to the minus this, in seconds */
	IF_FILTER = 11,
	IF_TSOFFSET = 14, /* s, added to each time */
	ISB_STARTTIME = 2,
	ISB_ENDTIME = 3,
	ISB_IFRECV = 4, /* packets received */
	ISB_IFDROP = 5, /* dropped for want of room in the interface */
	ISB_FILTERACCEPT = 6, /* packets that the filter accepted */
	ISB_OSDROP = 7, /* dropped by the operating system */
};
#define OPTION_MAX 65535 /* bytes */

/*
 * Offset in s of the interface for times before 1970: the whole second at or below the
 * least time that int64_t ns can hold, so that its ticks are never negative.
 */
#define ANCIENT_OFFSET (-INT64_C(9223372037))
#define NS UINT64_C(1000000000)

/* An option of a block. len 0: it is not written. */
struct option {
	uint16_t code;
	size_t len;
	const void *data; /* NULL: bytes */
	uint8_t bytes[8];
};

static struct option
data_option(uint16_t code, const void *data, size_t len)
{
	return (struct option){code, len > OPTION_MAX ? OPTION_MAX : len, data, {0}};
}

static struct option
text_option(uint16_t code, const char *text)
{
	return data_option(code, text, strlen(text));
}

static struct option
number_option(uint16_t code, uint64_t number, bool known)
{
	struct option o = {.code = code, .len = known ? sizeof(o.bytes) : 0};

	pr_put_le64(o.bytes, number);
	return o;
}

static size_t
padded(size_t len)
{
	return (len + 3) / 4 * 4;
}

static size_t
option_cost(const struct option *o)
{
	return o->len ? 4 + padded(o->len) : 0;
}

/* Writes an option. The block is zeroed already, so the padding needs no code. */
static void
put_option(uint8_t *at, const struct option *o)
{
	if (!o->len)
		return;
	pr_put_le16(at, o->code);
	pr_put_le16(at + 2, o->len);
	memcpy(at + 4, o->data ? o->data : o->bytes, o->len);
}

/* Writes a block. words: the fixed fields before the options. */
static int
write_block(struct prm_trace_writer *w, uint32_t type, const uint32_t *words,
	size_t word_count, const struct option *options, size_t option_count,
	struct pr_error *err)
{
	size_t len = 16 + 4 * word_count; /* including the end-of-options, which is zeros */

	for (size_t i = 0; i < option_count; i++)
		len += option_cost(&options[i]);
	uint8_t *block = calloc(1, len);
	if (!block)
		return pr_error_set(err, "no memory for a block of a trace");
	pr_put_le32(block, type);
	pr_put_le32(block + 4, len);
	uint8_t *at = block + 8;
	for (size_t i = 0; i < word_count; i++, at += 4)
		pr_put_le32(at, words[i]);
	for (size_t i = 0; i < option_count; i++) {
		put_option(at, &options[i]);
		at += option_cost(&options[i]);
	}
	pr_put_le32(block + len - 4, len);
	int result = prm_output_write(w->out, block, len, err);
	free(block);
	return result;
}

/*
 * ---- section and interfaces ----
 *
 * An interface is written before its first packet, or at the end if it has none.
 */

enum { EPOCHS_NAMED = 4 };

static int
write_interface(struct prm_trace_writer *w, const struct trace_interface *interface,
	bool ancient, uint32_t *number, struct pr_error *err)
{
	const uint32_t words[] = {interface->linktype, w->snaplen};
	char text[160 + CLOCK_TEXT] = "";
	size_t used = 0, epochs = 0;

	/* names the link and epoch: (epoch, link, seq) identifies a packet forever; 0: of a trace file */
	for (size_t i = 0; i < w->link_count; i++) {
		const struct trace_link *l = &w->links[i];

		if (l->epoch && &w->interfaces[l->interface] == interface &&
			epochs++ < EPOCHS_NAMED)
			used += snprintf(text + used, sizeof(text) - used,
				epochs == 1 ? "packrack link %u of epoch %016llx"
					    : ", %u of %016llx",
				l->link, (unsigned long long)l->epoch);
	}
	if (epochs > EPOCHS_NAMED)
		used += snprintf(text + used, sizeof(text) - used, " and of %zu more",
			epochs - EPOCHS_NAMED);
	snprintf(text + used, sizeof(text) - used, "%s", interface->clock);
	const struct option options[] = {text_option(IF_NAME, interface->name),
		text_option(IF_DESCRIPTION, text),
		number_option(IF_SPEED, interface->speed,
			interface->speed && !interface->speeds_differ),
		text_option(IF_TSRESOL, "\x09"), /* nanoseconds */
		data_option(IF_FILTER, w->filter, w->filter_len),
		number_option(IF_TSOFFSET, ANCIENT_OFFSET, ancient)};

	*number = w->written_interfaces++;
	return write_block(w, BLOCK_INTERFACE, words, PR_COUNT(words), options,
		PR_COUNT(options), err);
}

/* ---- packets ---- */

static int
pcapng_packet(struct prm_trace_writer *w, const struct pr_packet *p,
	struct trace_interface *interface, struct pr_error *err)
{
	bool ancient = p->time < 0;
	uint32_t *number = ancient ? &interface->ancient : &interface->number;
	uint64_t ticks = (uint64_t)p->time - (ancient ? (uint64_t)ANCIENT_OFFSET * NS : 0);
	uint32_t pad = padded(p->caplen) - p->caplen;
	const char *text = pr_relation_text(p->flags);
	const struct option related = text_option(OPT_COMMENT, text ? text : "");
	const struct option truncated = text_option(OPT_COMMENT,
		p->flags & PR_PACKET_CUT ? "truncated to the MTU of the rack interface"
					 : "");
	size_t costs = option_cost(&related) + option_cost(&truncated);
	size_t options = costs ? costs + 4 : 0; /* including the end-of-options */
	uint32_t total = 32 + p->caplen + pad + options;

	if (p->caplen > UINT32_MAX - 1024)
		return pr_error_set(
			err, "a packet of %u bytes fits no pcapng block", p->caplen);
	if (*number == UINT32_MAX &&
		write_interface(w, interface, ancient, number, err) < 0)
		return -1;
	uint8_t *at = prm_output_room(w->out, 28, err);
	if (!at)
		return -1;
	pr_put_le32(at, BLOCK_ENHANCED);
	pr_put_le32(at + 4, total);
	pr_put_le32(at + 8, *number);
	pr_put_le32(at + 12, ticks >> 32);
	pr_put_le32(at + 16, ticks);
	pr_put_le32(at + 20, p->caplen);
	pr_put_le32(at + 24, p->len);
	if (prm_output_write(w->out, p->data, p->caplen, err) < 0)
		return -1;
	at = prm_output_room(w->out, pad + options + 4, err);
	if (!at)
		return -1;
	memset(at, 0, pad + options);
	put_option(at + pad, &related);
	put_option(at + pad + option_cost(&related), &truncated);
	pr_put_le32(at + pad + options, total);
	return 0;
}

/* ---- the end ---- */

/* A time in a block: the high 32 bits first. */
static uint64_t
block_time(int64_t time)
{
	uint64_t ticks = PR_MAX(time, 0);

	return ticks >> 32 | ticks << 32;
}

static int
write_statistics(struct prm_trace_writer *w, const struct trace_interface *interface,
	const char *const *comments, size_t comment_count, struct pr_error *err)
{
	uint64_t first = block_time(interface->first), last = block_time(interface->last);
	bool told = interface->told;
	/* the block's own time is that of its last packet, or 0 */
	const uint32_t words[] = {
		interface->number != UINT32_MAX ? interface->number : interface->ancient,
		last, last >> 32};
	struct option *options = calloc(comment_count + 6, sizeof(*options));
	size_t count = 0;

	if (!options)
		return pr_error_set(err, "no memory for a block of a trace");
	options[count++] = number_option(ISB_ENDTIME, last, interface->packets > 0);
	options[count++] = number_option(ISB_STARTTIME, first, interface->packets > 0);
	for (size_t i = 0; i < comment_count; i++)
		options[count++] = text_option(OPT_COMMENT, comments[i]);
	options[count++] = number_option(ISB_FILTERACCEPT, interface->packets, true);
	options[count++] = number_option(ISB_IFRECV, interface->received, told);
	options[count++] = number_option(ISB_IFDROP, interface->dropped_interface, told);
	options[count++] = number_option(ISB_OSDROP, interface->dropped_kernel, told);
	int result = write_block(
		w, BLOCK_STATISTICS, words, PR_COUNT(words), options, count, err);
	free(options);
	return result;
}

static bool
is_written(const struct trace_interface *interface)
{
	return interface->number != UINT32_MAX || interface->ancient != UINT32_MAX;
}

/*
 * Readers that take one link type only (libpcap) refuse a file with an interface of another
 * type, even one without packets. So an interface without packets is written only if its
 * link type is that of the interfaces already written.
 */
static int
write_silent(struct prm_trace_writer *w, struct pr_error *err)
{
	for (size_t i = 0; i < w->interface_count; i++) {
		struct trace_interface *interface = &w->interfaces[i];
		bool fits = !w->written_interfaces;

		for (size_t j = 0; !fits && j < w->interface_count; j++)
			fits = is_written(&w->interfaces[j]) &&
			       w->interfaces[j].linktype == interface->linktype;
		if (interface->told && !is_written(interface) && fits &&
			write_interface(w, interface, false, &interface->number, err) < 0)
			return -1;
	}
	return 0;
}

static int
pcapng_finish(struct prm_trace_writer *w, Packrack__Ledger *const *ledgers,
	size_t ledger_count, const char *const *comments, size_t comment_count,
	struct pr_error *err)
{
	struct trace_interface none = {.name = "none", .linktype = PR_LINKTYPE_ETHERNET};
	struct trace_interface *interface;

	/* sums for each interface, over the epochs of its link */
	for (size_t i = 0, at; i < ledger_count; i++) {
		const Packrack__Ledger *l = ledgers[i];

		if (interface_find_or_add(w, l->name, l->link, l->linktype, &at, err) < 0)
			return -1;
		interface = &w->interfaces[at];
		interface->told = true;
		interface->received += l->last_seq;
		interface->dropped_kernel += l->dropped_kernel + l->dropped_ring;
		interface->dropped_interface += l->dropped_interface;
	}
	if (write_silent(w, err) < 0)
		return -1;
	/*
	 * libpcap refuses a file without interfaces, so an empty answer gets one without
	 * packets
	 */
	interface = w->interface_count ? w->interfaces : &none;
	if (!w->written_interfaces &&
		write_interface(w, interface, false, &interface->number, err) < 0)
		return -1;
	if (!w->interface_count)
		return write_statistics(w, &none, comments, comment_count, err);
	for (size_t i = 0; i < w->interface_count; i++) {
		if (!is_written(&w->interfaces[i]))
			continue;
		if (write_statistics(w, &w->interfaces[i], comments, comment_count, err) <
			0)
			return -1;
		comment_count = 0; /* comments on the whole answer are written once */
	}
	return 0;
}

/* an interface's number is 32 bits; more links come from no honest node */
#define LINKS_MAX 65536

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
		if (options->filter && options->filter[0])
			w->filter_len = strlen(options->filter) + 1;
		w->filter = calloc(1, w->filter_len + 1);
	}
	if (w && w->filter && w->filter_len)
		memcpy(w->filter + 1, options->filter, w->filter_len - 1);
	if (w && w->comment && w->filter && (w->hash = prm_trace_hash_create(err)))
		return w;
	prm_trace_destroy(&w);
	return pr_error_null(err, "no memory for writing a trace");
}

void
prm_trace_destroy(struct prm_trace_writer **wp)
{
	struct prm_trace_writer *w = PR_TAKE(wp);

	if (!w)
		return;
	for (size_t i = 0; i < w->interface_count; i++)
		free(w->interfaces[i].name);
	free(w->interfaces);
	prm_trace_hash_destroy(&w->hash);
	PR_FREE(w, links, comment, filter);
	free(w);
}

static bool
link_is(const struct trace_link *l, uint64_t epoch, uint32_t link, uint32_t linktype)
{
	return l->epoch == epoch && l->link == link && l->linktype == linktype;
}

static int
link_find_or_add(struct prm_trace_writer *w, uint64_t epoch, uint32_t link,
	uint32_t linktype, const char *name, size_t *index, struct pr_error *err)
{
	size_t interface;

	for (*index = 0; *index < w->link_count; ++*index)
		if (link_is(&w->links[*index], epoch, link, linktype))
			return 0;
	if (w->link_count >= LINKS_MAX)
		return pr_error_set(err, "more than %d links in one answer", LINKS_MAX);
	if (interface_find_or_add(w, name, link, linktype, &interface, err) < 0)
		return -1;
	if (PR_ARRAY_ADD(w->links, w->link_count,
		    (struct trace_link){epoch, link, linktype, interface}) < 0)
		return pr_error_set(err, "no memory for another link");
	return 0;
}

static void
tell_clock(const Packrack__LinkInfo *link, char text[CLOCK_TEXT])
{
	char at[PR_TIME_TEXT];
	int used = snprintf(text, CLOCK_TEXT, "; timestamps: %.20s, clock %.20s",
		link->timestamps, link->clock);

	if (link->clock_steps)
		snprintf(text + used, (size_t)(CLOCK_TEXT - used),
			", set %u times, last by %+.9f s at %s", link->clock_steps,
			(double)link->clock_step_ns / 1e9,
			pr_time_format(link->clock_stepped_time, at, sizeof(at)));
}

int
prm_trace_link(
	struct prm_trace_writer *w, const Packrack__LinkInfo *link, struct pr_error *err)
{
	size_t index;

	if (!w->begun && link->snaplen > w->snaplen && link->snaplen <= INT32_MAX)
		w->snaplen = link->snaplen;
	if (link_find_or_add(w, link->epoch, link->link, link->linktype, link->name, &index,
		    err) < 0)
		return -1;
	struct trace_interface *interface = &w->interfaces[w->links[index].interface];
	if (link->speed && interface->speed && link->speed != interface->speed)
		interface->speeds_differ = true;
	if (link->speed)
		interface->speed = link->speed;
	if (link->timestamps && link->timestamps[0])
		tell_clock(link, interface->clock);
	return 0;
}

int
prm_trace_begin(struct prm_trace_writer *w, struct pr_error *err)
{
	/* version 1.0; section length not specified, as the file is streamed */
	static const uint32_t words[] = {BYTE_ORDER_MAGIC, 1, UINT32_MAX, UINT32_MAX};
	const struct option options[] = {text_option(OPT_COMMENT, w->comment),
		text_option(SHB_USERAPPL, "packrack " PACKRACK_VERSION)};

	if (w->begun)
		return 0;
	w->begun = true;
	return w->format == PRM_TRACE_PCAPNG
		       ? write_block(w, BLOCK_SECTION, words, PR_COUNT(words), options,
				 PR_COUNT(options), err)
		       : pcap_begin(w, err);
}

int
prm_trace_packet(
	struct prm_trace_writer *w, const struct pr_packet *p, struct pr_error *err)
{
	size_t *cached = &w->cache[((p->epoch ^ p->epoch >> 32) * 0x9E3779B1u + p->link) %
				   TRACE_CACHE];
	size_t index = *cached - 1;

	if (!*cached || !link_is(&w->links[index], p->epoch, p->link, p->linktype)) {
		if (link_find_or_add(w, p->epoch, p->link, p->linktype, "", &index, err) <
			0)
			return -1;
		*cached = index + 1;
	}
	struct trace_interface *interface = &w->interfaces[w->links[index].interface];
	if (interface->packets++ == 0)
		interface->first = interface->last = p->time;
	pr_time_widen(&interface->first, &interface->last, p->time, p->time);
	prm_trace_hash_add(w->hash, p);
	if (!w->begun && prm_trace_begin(w, err) < 0)
		return -1;
	return w->format == PRM_TRACE_PCAPNG ? pcapng_packet(w, p, interface, err)
					     : pcap_packet(w, p, interface, err);
}

int
prm_trace_finish(struct prm_trace_writer *w, Packrack__Ledger *const *ledgers,
	size_t ledger_count, const char *const *comments, size_t comment_count,
	struct pr_error *err)
{
	if (prm_trace_begin(w, err) < 0)
		return -1;
	if (w->format == PRM_TRACE_PCAPNG &&
		pcapng_finish(w, ledgers, ledger_count, comments, comment_count, err) < 0)
		return -1;
	return prm_output_sync(w->out, err);
}

void
prm_trace_again(struct prm_trace_writer *w)
{
	for (size_t i = 0; i < w->interface_count; i++) {
		w->interfaces[i].packets = 0;
		w->interfaces[i].number = w->interfaces[i].ancient = UINT32_MAX;
	}
	w->written_interfaces = 0;
	w->begun = false;
	XXH3_128bits_reset((XXH3_state_t *)w->hash);
}

char *
prm_trace_hash_of(const struct prm_trace_writer *w, char out[PRM_TRACE_HASH_TEXT])
{
	return prm_trace_hash_text(w->hash, out);
}

uint64_t
prm_trace_clamped(const struct prm_trace_writer *w)
{
	return w->clamped;
}
