/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_WIRE_DECODE_LAYERS_H
#define PR_WIRE_DECODE_LAYERS_H

#include "proto/base/cursor.h"
#include "proto/wire/decode.h"

/*
 * Within decode.c and decode_ip.c only. Each layer is a function that reads its header at the
 * cursor and names the next one, so that no nesting of headers makes a deep call; pr_decode bounds
 * their number.
 */
enum pr_layer {
	PR_LAYER_DONE,
	PR_LAYER_ETHERNET,
	PR_LAYER_ETHERTYPE, /* walk.type says what comes */
	PR_LAYER_IP, /* version by the first nibble */
	PR_LAYER_IP4,
	PR_LAYER_IP6,
	PR_LAYER_TRANSPORT, /* headers.protocol says what comes */
};

struct pr_walk {
	struct pr_cursor c;
	const uint8_t *start;
	uint16_t type;
	/*
	 * What a header that goes over the cursor's end is: TRUNCATED while the end is that of the
	 * captured bytes, MALFORMED once it is the end of an IP packet (padding follows).
	 */
	uint16_t short_flag;
	struct pr_headers *h; /* of out: outer or inner */
	struct pr_decoded *out;
};

static inline size_t
pr_walk_offset(const struct pr_walk *w)
{
	return (size_t)(w->c.at - w->start);
}

/* The next len bytes, or NULL: what is said is that they are not there. */
static inline const uint8_t *
pr_walk_take(struct pr_walk *w, size_t len)
{
	const uint8_t *p;
	if (pr_load_bytes(&w->c, &p, len))
		return p;
	w->h->flags |= w->short_flag;
	return NULL;
}

static inline enum pr_layer
pr_walk_malformed(struct pr_walk *w)
{
	w->h->flags |= PR_DECODE_MALFORMED;
	return PR_LAYER_DONE;
}

#define PR_DECODE_TUNNELS 4
/* Opens a tunnel: what follows goes to inner. DONE when too many are open already. */
enum pr_layer pr_walk_tunnel(struct pr_walk *w, enum pr_layer next);

enum pr_layer pr_decode_ip4(struct pr_walk *w);
enum pr_layer pr_decode_ip6(struct pr_walk *w);
enum pr_layer pr_decode_transport(struct pr_walk *w);

#endif
