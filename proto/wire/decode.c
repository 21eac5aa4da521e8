/* SPDX-License-Identifier: Apache-2.0 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/wire/decode.h"

#include "proto/base/cursor.h"
#include "proto/wire/source.h"

/*
 * Each layer is a function that reads its header at the cursor and names the next one, so that no nesting of
 * headers makes a deep call; pr_decode bounds their number.
 */
enum layer {
	LAYER_DONE,
	LAYER_ETHERNET,
	LAYER_ETHERTYPE, /* walk.type says what comes */
	LAYER_IP, /* version by the first nibble */
	LAYER_IP4,
	LAYER_IP6,
	LAYER_TRANSPORT, /* headers.protocol says what comes */
};

struct walk {
	struct pr_cursor c;
	const uint8_t *start;
	uint16_t type;
	/*
	 * Flag for a header that reaches beyond the cursor's end: TRUNCATED if that is the
	 * end of the captured bytes, MALFORMED if it is the end of an IP packet (padding
	 * follows).
	 */
	uint16_t short_flag;
	struct pr_headers *h; /* of out: outer or inner */
	struct pr_decoded *out;
};

static size_t
offset_of(const struct walk *w)
{
	return w->c.at - w->start;
}

/* The next len bytes; NULL, and the flag set, when there are fewer. */
static const uint8_t *
take(struct walk *w, size_t len)
{
	const uint8_t *p;
	if (pr_load_bytes(&w->c, &p, len))
		return p;
	w->h->flags |= w->short_flag;
	return NULL;
}

static enum layer
malformed(struct walk *w)
{
	w->h->flags |= PR_DECODE_MALFORMED;
	return LAYER_DONE;
}

#define PR_DECODE_TUNNELS 4
/* Opens a tunnel: what follows goes to inner. DONE when too many are open already. */
static enum layer
open_tunnel(struct walk *w, enum layer next)
{
	if (w->out->tunnels == PR_DECODE_TUNNELS)
		return LAYER_DONE;
	w->out->tunnels++;
	w->out->outer.flags |= PR_DECODE_TUNNEL;
	w->h = &w->out->inner;
	memset(w->h, 0, sizeof *w->h);
	return next;
}

/* ---- IP and what is in it ---- */

#define EXTENSIONS_MAX 16 /* RFC 8200 allows each once, destination options twice */
#define VXLAN_PORT 4789

/* Ends the packet after `left` bytes; what follows is padding of the link. */
static void
end_packet(struct walk *w, size_t left)
{
	if (left < pr_cursor_left(&w->c)) {
		w->c.end = w->c.at + left;
		w->short_flag = PR_DECODE_MALFORMED;
	}
}

static enum layer
ip4(struct walk *w)
{
	struct pr_headers *h = w->h;
	size_t offset = offset_of(w);
	const uint8_t *p = take(w, 20);
	if (!p)
		return LAYER_DONE;

	size_t header = (size_t)(p[0] & 0x0f) * 4, total = pr_get_be16(p + 2);
	/*
	 * Length 0: the network card sets it (segmentation offload); all captured bytes
	 * count.
	 */
	if (p[0] >> 4 != 4 || header < 20 || (total && total < header))
		return malformed(w);
	h->flags |= PR_DECODE_IP4;
	h->ip_offset = offset;
	h->ip_length = total;
	h->ttl = p[8];
	h->protocol = p[9];
	memcpy(h->src, p + 12, 4);
	memcpy(h->dst, p + 16, 4);
	uint16_t fragment = pr_get_be16(p + 6);
	h->fragment_id = pr_get_be16(p + 4);
	if (fragment & 0x3fff) /* more to come, or an offset */
		h->flags |= PR_DECODE_FRAGMENT;
	if (fragment & 0x1fff)
		h->flags |= PR_DECODE_FRAGMENT_LATER;
	if (total)
		end_packet(w, total - 20);
	if (!take(w, header - 20))
		return LAYER_DONE;
	h->l4_offset = offset_of(w);
	return h->flags & PR_DECODE_FRAGMENT_LATER ? LAYER_DONE : LAYER_TRANSPORT;
}

static bool
is_extension(uint8_t protocol)
{
	return protocol == PR_IP_HOP_BY_HOP || protocol == PR_IP_ROUTING ||
	       protocol == PR_IP_FRAGMENT || protocol == PR_IP_AH ||
	       protocol == PR_IP_DESTINATION || protocol == PR_IP_MOBILITY;
}

/* Reads an extension header of this protocol; h->protocol becomes the next one. */
static bool
extension(struct walk *w, uint8_t protocol)
{
	struct pr_headers *h = w->h;
	const uint8_t *p = take(w, 8);
	if (!p)
		return false;
	h->protocol = p[0];
	if (protocol == PR_IP_FRAGMENT) {
		uint16_t fragment = pr_get_be16(p + 2);
		h->fragment_id = pr_get_be32(p + 4);
		if (fragment & 0xfff9)
			h->flags |= PR_DECODE_FRAGMENT;
		if (fragment & 0xfff8)
			h->flags |= PR_DECODE_FRAGMENT_LATER;
		return true;
	}
	/* AH counts in words of 4 bytes less two, the others in words of 8 less one. */
	size_t more = protocol == PR_IP_AH ? (size_t)p[1] * 4 : (size_t)p[1] * 8;
	return take(w, more) != NULL;
}

static enum layer
ip6(struct walk *w)
{
	struct pr_headers *h = w->h;
	size_t offset = offset_of(w);
	const uint8_t *p = take(w, 40);
	if (!p)
		return LAYER_DONE;

	if (p[0] >> 4 != 6)
		return malformed(w);
	size_t payload = pr_get_be16(p + 4);
	h->flags |= PR_DECODE_IP6;
	h->ip_offset = offset;
	h->ip_length = payload + 40;
	h->protocol = p[6];
	h->ttl = p[7];
	memcpy(h->src, p + 8, 16);
	memcpy(h->dst, p + 24, 16);
	if (payload) /* 0: a jumbogram, or segmentation offload */
		end_packet(w, payload);
	for (int i = 0; is_extension(h->protocol); i++) {
		if (h->flags & PR_DECODE_FRAGMENT_LATER)
			break;
		if (i == EXTENSIONS_MAX)
			return malformed(w);
		if (!extension(w, h->protocol))
			return LAYER_DONE;
	}
	h->l4_offset = offset_of(w);
	return h->flags & PR_DECODE_FRAGMENT_LATER ? LAYER_DONE : LAYER_TRANSPORT;
}

/* GRE's optional words by its flags, and what is inside by its type (RFC 2784, 2890, 7637). */
static enum layer
gre(struct walk *w)
{
	const uint8_t *p = take(w, 4);
	if (!p)
		return LAYER_DONE;
	uint16_t flags = pr_get_be16(p), type = pr_get_be16(p + 2);
	if (flags & 0x4007) /* source routing, or PPTP's version 1: not opened */
		return LAYER_DONE;
	size_t options = (flags & 0x8000 ? 4 : 0) + (flags & 0x2000 ? 4 : 0) +
			 (flags & 0x1000 ? 4 : 0);
	if (type == 0x88be && flags & 0x1000) /* ERSPAN II has a header, I has none */
		options += 8;
	if (type == 0x22eb) /* ERSPAN III */
		options += 12;
	if (!take(w, options))
		return LAYER_DONE;
	w->h->payload_offset = offset_of(w);
	if (type == 0x22eb && p[4 + options - 1] & 1 && !take(w, 8))
		return LAYER_DONE; /* its platform subheader */
	w->type = type;
	bool frame = type == 0x6558 || type == 0x88be || type == 0x22eb;
	return open_tunnel(w, frame ? LAYER_ETHERNET : LAYER_ETHERTYPE);
}

/* TCP, UDP, SCTP and their kin begin with the ports; header is at least 4 bytes long. */
static const uint8_t *
ports(struct walk *w, size_t header)
{
	struct pr_headers *h = w->h;
	const uint8_t *p = take(w, 4);
	if (!p)
		return NULL;
	h->src_port = pr_get_be16(p);
	h->dst_port = pr_get_be16(p + 2);
	h->flags |= PR_DECODE_PORTS;
	if (!take(w, header - 4))
		return NULL;
	h->payload_offset = offset_of(w);
	return p;
}

static enum layer
tcp(struct walk *w)
{
	const uint8_t *p = ports(w, 20);
	if (!p)
		return LAYER_DONE;
	w->h->payload_offset = 0;
	w->h->tcp_flags = p[13];
	size_t header = (size_t)(p[12] >> 4) * 4;
	if (header < 20)
		return malformed(w);
	if (take(w, header - 20))
		w->h->payload_offset = offset_of(w);
	return LAYER_DONE;
}

static enum layer
transport(struct walk *w)
{
	const uint8_t *p;

	switch (w->h->protocol) {
	case PR_IP_TCP:
		return tcp(w);
	case PR_IP_UDP:
		if (!ports(w, 8) || w->h->dst_port != VXLAN_PORT)
			return LAYER_DONE;
		p = take(w, 8);
		/* no network identifier: not VXLAN */
		return p && p[0] & 0x08 ? open_tunnel(w, LAYER_ETHERNET) : LAYER_DONE;
	case PR_IP_UDPLITE:
		ports(w, 8);
		return LAYER_DONE;
	case PR_IP_SCTP:
	case PR_IP_DCCP:
		ports(w, 12);
		return LAYER_DONE;
	case PR_IP_ICMP:
	case PR_IP_ICMP6:
		p = take(w, 4);
		if (!p)
			return LAYER_DONE;
		w->h->icmp_type = p[0];
		w->h->icmp_code = p[1];
		if (take(w, 4))
			w->h->payload_offset = offset_of(w);
		return LAYER_DONE;
	case PR_IP_GRE:
		return gre(w);
	case PR_IP_IN_IP:
		return open_tunnel(w, LAYER_IP4);
	case PR_IP_IN_IP6:
		return open_tunnel(w, LAYER_IP6);
	}
	return LAYER_DONE;
}

/* ---- links ---- */

#define LAYERS_MAX 32 /* a packet with more headers is an attack */
enum { LABELS_MAX = 16, PPP_IP4 = 0x0021, PPP_IP6 = 0x0057 };

/* A header of len bytes with the Ethertype of what follows at `at`. */
static enum layer
before_ethertype(struct walk *w, size_t len, size_t at)
{
	const uint8_t *p = take(w, len);

	if (!p)
		return LAYER_DONE;
	w->type = pr_get_be16(p + at);
	return LAYER_ETHERTYPE;
}

static enum layer
ethernet(struct walk *w)
{
	return before_ethertype(w, 14, 12);
}

/* Labels to the bottom of the stack. What is below has no type: 4 and 6 look like IP. */
static enum layer
mpls(struct walk *w)
{
	for (int i = 0; i < LABELS_MAX; i++) {
		const uint8_t *p = take(w, 4);
		if (!p)
			return LAYER_DONE;
		uint32_t entry = pr_get_be32(p);
		if (w->h->mpls_count < sizeof w->h->mpls / sizeof w->h->mpls[0])
			w->h->mpls[w->h->mpls_count++] = entry >> 12;
		if (entry & 0x100)
			return LAYER_IP;
	}
	return malformed(w);
}

static enum layer
ethertype(struct walk *w)
{
	const uint8_t *p;

	w->h->ethertype = w->type < PR_ETHERTYPE_LENGTHS ? 0 : w->type;
	switch (w->type) {
	case PR_ETHERTYPE_VLAN:
	case PR_ETHERTYPE_STAG:
	case PR_ETHERTYPE_OLD_STAG:
		p = take(w, 4);
		if (!p)
			return LAYER_DONE;
		if (w->h->vlan_count < sizeof w->h->vlan / sizeof w->h->vlan[0])
			w->h->vlan[w->h->vlan_count++] = pr_get_be16(p) & 0x0fff;
		w->type = pr_get_be16(p + 2);
		return LAYER_ETHERTYPE;
	case PR_ETHERTYPE_MPLS:
	case PR_ETHERTYPE_MPLS_UPSTREAM:
		return mpls(w);
	case PR_ETHERTYPE_PPPOE:
		p = take(w, 8);
		if (p && p[0] != 0x11)
			return malformed(w);
		if (!p || p[1] != 0) /* no session data */
			return LAYER_DONE;
		if (pr_get_be16(p + 6) == PPP_IP4)
			return LAYER_IP4;
		return pr_get_be16(p + 6) == PPP_IP6 ? LAYER_IP6 : LAYER_DONE;
	case PR_ETHERTYPE_IP4:
		return LAYER_IP4;
	case PR_ETHERTYPE_IP6:
		return LAYER_IP6;
	}
	return LAYER_DONE;
}

static enum layer
ip(struct walk *w)
{
	if (pr_cursor_left(&w->c) == 0) {
		w->h->flags |= w->short_flag;
		return LAYER_DONE;
	}
	uint8_t version = *w->c.at >> 4;
	if (version == 4)
		return LAYER_IP4;
	return version == 6 ? LAYER_IP6 : LAYER_DONE;
}

static enum layer
first_layer(struct walk *w, uint16_t linktype)
{
	uint32_t be, le, family;
	const uint8_t *p;

	switch (linktype) {
	case PR_LINKTYPE_ETHERNET:
		return LAYER_ETHERNET;
	case PR_LINKTYPE_RAW:
		return LAYER_IP;
	case PR_LINKTYPE_IP4:
		return LAYER_IP4;
	case PR_LINKTYPE_IP6:
		return LAYER_IP6;
	case PR_LINKTYPE_NULL:
	case PR_LINKTYPE_LOOP:
		/*
		 * BSD's loopback has an address family before the packet, in the byte order
		 * of the capturing machine, so either order. IPv6 has a different number on
		 * each system; so only the range is checked, and the packet's own version
		 * counts.
		 */
		p = take(w, 4);
		if (!p)
			return LAYER_DONE;
		be = pr_get_be32(p);
		le = pr_get_le32(p);
		family = be < le ? be : le;
		return family == 2 || family == 10 || (family >= 24 && family <= 30)
			       ? LAYER_IP
			       : LAYER_DONE;
	case PR_LINKTYPE_SLL: /* Linux "any" captures: an Ethertype, if of an Ethernet kind */
		return before_ethertype(w, 16, 14);
	case PR_LINKTYPE_SLL2:
		return before_ethertype(w, 20, 0);
	}
	return LAYER_DONE;
}

void
pr_decode(uint16_t linktype, const uint8_t *data, size_t caplen, struct pr_decoded *out)
{
	static enum layer (*const layers[])(struct walk *) = {[LAYER_ETHERNET] = ethernet,
		[LAYER_ETHERTYPE] = ethertype,
		[LAYER_IP] = ip,
		[LAYER_IP4] = ip4,
		[LAYER_IP6] = ip6,
		[LAYER_TRANSPORT] = transport};
	struct walk w = {.c = pr_cursor_make(data, caplen),
		.start = data,
		.short_flag = PR_DECODE_TRUNCATED,
		.h = &out->outer,
		.out = out};

	memset(out, 0, sizeof *out);
	enum layer layer = first_layer(&w, linktype);
	for (int i = 0; layer != LAYER_DONE; i++) {
		if (i == LAYERS_MAX) {
			malformed(&w);
			return;
		}
		layer = layers[layer](&w);
	}
}

bool
pr_decode_quoted(const struct pr_headers *h, const uint8_t *data, size_t caplen,
	struct pr_decoded *out)
{
	uint8_t type = h->icmp_type;

	if (!(h->flags & (PR_DECODE_IP4 | PR_DECODE_IP6)) || !h->payload_offset ||
		h->payload_offset >= caplen)
		return false;
	if (h->protocol == PR_IP_ICMP6 ? type < 1 || type > 4
				       : h->protocol != PR_IP_ICMP ||
						 (type != 3 && type != 4 && type != 5 &&
							 type != 11 && type != 12))
		return false;
	pr_decode(
		PR_LINKTYPE_RAW, data + h->payload_offset, caplen - h->payload_offset, out);
	return true;
}

/* ---- flows ---- */

enum { MAC_LEN = 6, ETHER_LEN = 14 };

/*
 * Hashes both ends in sorted order, so that both directions give the same bytes. Inlined
 * with a constant len, the copies are moves.
 */
static inline __attribute__((always_inline)) uint64_t
hash_ends(const uint8_t *a, const uint8_t *b, size_t len, uint32_t kind, uint64_t seed)
{
	uint8_t key[2 * 18 + 4];
	bool swap = memcmp(a, b, len) > 0;
	memcpy(key, swap ? b : a, len);
	memcpy(key + len, swap ? a : b, len);
	pr_put_le32(key + 2 * len, kind);
	return XXH3_64bits_withSeed(key, 2 * len + 4, seed);
}

/* len: of an address, constant. */
static inline __attribute__((always_inline)) uint64_t
hash_ip(const struct pr_headers *h, size_t len, uint64_t seed)
{
	uint8_t src[18], dst[18];
	bool has_ports = h->flags & PR_DECODE_PORTS;

	/*
	 * Later fragments have no ports, and in IPv6 only the next header, not the protocol
	 * behind it: so fragments are hashed by their addresses alone.
	 */
	if (h->flags & PR_DECODE_FRAGMENT)
		return hash_ends(h->src, h->dst, len, UINT32_MAX, seed);
	memcpy(src, h->src, len);
	memcpy(dst, h->dst, len);
	pr_put_be16(src + len, has_ports ? h->src_port : 0);
	pr_put_be16(dst + len, has_ports ? h->dst_port : 0);
	return hash_ends(src, dst, len + 2, h->protocol, seed);
}

uint64_t
pr_flow_hash(const struct pr_decoded *d, const uint8_t *data, size_t caplen, uint64_t seed)
{
	const struct pr_headers *h = &d->outer;

	if (h->flags & PR_DECODE_IP4)
		return hash_ip(h, 4, seed);
	if (h->flags & PR_DECODE_IP6)
		return hash_ip(h, 16, seed);
	if (caplen < ETHER_LEN)
		return XXH3_64bits_withSeed(data, caplen, seed);
	return hash_ends(data, data + MAC_LEN, MAC_LEN, h->ethertype, seed);
}
