/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/packet_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"

/* A frame lies in one block: none is longer than this. */
#define BLOCK ((size_t)256 << 10)
#define BLOCKS_MIN 2
#define BLOCKS_MAX 8192
/* Given at a time: their headers and what is made of them stay in the first cache. */
#define SOME 32
/* What follows a packet was written by another core: it is called for in time. */
#define LINE 64
#define AHEAD 2048
/* Where the tag goes, behind both addresses. */
#define TAG_AT 12
#define TAG 4

struct prl_packet_ring {
	int fd, index;
	int lo; /* of the loopback device; its frames come twice, as sent and as received; -1: it is not that */
	bool both;
	bool down; /* when last heard of */
	uint32_t snaplen;
	uint8_t *map;
	size_t blocks, block; /* block: the next to be read, or that is being read */
	uint32_t left; /* frames of it */
	uint8_t *next; /* of them the first */
	uintptr_t fetched; /* up to there */
	uint64_t drops;
	int stat[2]; /* the device's own counters; -1: it has none */
	uint64_t missed; /* what they said at first */
};

/* ---- opening ---- */

static int
option(const struct prl_packet_ring *r, int name, const void *value, socklen_t len)
{
	return setsockopt(r->fd, SOL_PACKET, name, value, len);
}

static int
map_blocks(struct prl_packet_ring *r, const struct prl_packet_ring_options *o)
{
	size_t blocks = o->size / BLOCK;
	struct tpacket_req3 req = {.tp_block_size = BLOCK,
		.tp_frame_size = BLOCK,
		.tp_retire_blk_tov = o->block_ms};

	blocks = blocks < BLOCKS_MIN   ? BLOCKS_MIN
		 : blocks > BLOCKS_MAX ? BLOCKS_MAX
				       : blocks;
	for (;; blocks -= (blocks + 19) / 20) {
		req.tp_block_nr = req.tp_frame_nr = (unsigned)blocks;
		if (option(r, PACKET_RX_RING, &req, sizeof(req)) == 0)
			break;
		if (errno != ENOMEM || blocks <= BLOCKS_MIN)
			return -1;
	}
	r->map = mmap(NULL, blocks * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->map == MAP_FAILED) {
		r->map = NULL;
		return -1;
	}
	r->blocks = blocks;
	return 0;
}

/* The filter is there before the first frame is. */
static int
set_filter(const struct prl_packet_ring *r, const struct prl_packet_ring_options *o)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, o->snaplen);
	struct sock_fprog program = {.len = 1, .filter = &all};

	if (o->filter)
		program = (struct sock_fprog){
			.len = o->filter_len, .filter = (struct sock_filter *)o->filter};
	return setsockopt(r->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int
set_up(struct prl_packet_ring *r, const struct prl_packet_ring_options *o)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq mreq = {.mr_type = PACKET_MR_PROMISC};
	int version = TPACKET_V3, tag = TAG;

	at.sll_ifindex = mreq.mr_ifindex = r->index;
	r->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (r->fd < 0 || option(r, PACKET_VERSION, &version, sizeof(version)) ||
		option(r, PACKET_RESERVE, &tag, sizeof(tag)) || map_blocks(r, o) ||
		set_filter(r, o))
		return -1;
	if (o->promiscuous && option(r, PACKET_ADD_MEMBERSHIP, &mreq, sizeof(mreq)))
		return -1;
	return bind(r->fd, (struct sockaddr *)&at, sizeof(at));
}

static int
open_stat(const char *ifname, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", ifname, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static uint64_t
read_stats(const struct prl_packet_ring *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < 2; i++) {
		char text[32];
		ssize_t n =
			r->stat[i] < 0 ? -1 : pread(r->stat[i], text, sizeof(text) - 1, 0);

		text[n > 0 ? n : 0] = 0;
		sum += strtoull(text, NULL, 10);
	}
	return sum;
}

struct prl_packet_ring *
prl_packet_ring_open(const struct prl_packet_ring_options *o, struct pr_error *err)
{
	struct prl_packet_ring *r = calloc(1, sizeof(*r));

	if (!r) {
		pr_error_set(err, "no memory for receiving");
		return NULL;
	}
	r->fd = r->stat[0] = r->stat[1] = -1;
	r->both = o->both;
	r->snaplen = o->snaplen;
	r->index = (int)if_nametoindex(o->ifname);
	r->lo = (int)if_nametoindex("lo");
	if (r->index == 0 || set_up(r, o)) {
		pr_error_errno(err, "%s: no ring of a packet socket", o->ifname);
		prl_packet_ring_close(&r);
		return NULL;
	}
	r->stat[0] = open_stat(o->ifname, "rx_missed_errors");
	r->stat[1] = open_stat(o->ifname, "rx_fifo_errors");
	r->missed = read_stats(r);
	return r;
}

void
prl_packet_ring_close(struct prl_packet_ring **ring)
{
	struct prl_packet_ring *r = *ring;

	*ring = NULL;
	if (!r)
		return;
	if (r->map)
		munmap(r->map, r->blocks * BLOCK);
	for (size_t i = 0; i < 2; i++)
		if (r->stat[i] >= 0)
			close(r->stat[i]);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

void
prl_packet_ring_drops(struct prl_packet_ring *r, uint64_t *kernel, uint64_t *interface)
{
	struct tpacket_stats_v3 stats;
	socklen_t len = sizeof(stats);
	uint64_t missed = read_stats(r);

	/* it counts from the last look on */
	if (getsockopt(r->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0)
		r->drops += stats.tp_drops;
	*kernel = r->drops;
	*interface = missed > r->missed ? missed - r->missed : 0;
}

/* ---- reading ---- */

static struct tpacket_hdr_v1 *
block_of(const struct prl_packet_ring *r)
{
	struct tpacket_block_desc *d =
		(struct tpacket_block_desc *)(void *)(r->map + r->block * BLOCK);

	return &d->hdr.bh1;
}

static bool
block_begin(struct prl_packet_ring *r)
{
	struct tpacket_hdr_v1 *h = block_of(r);

	if (!(__atomic_load_n(&h->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
		return false;
	r->left = h->num_pkts;
	r->next = r->map + r->block * BLOCK + h->offset_to_first_pkt;
	return true;
}

static void
block_end(struct prl_packet_ring *r)
{
	__atomic_store_n(&block_of(r)->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	r->block = r->block + 1 == r->blocks ? 0 : r->block + 1;
}

static inline void
fetch_ahead(struct prl_packet_ring *r, const uint8_t *data, uint32_t caplen)
{
	uintptr_t end = (uintptr_t)data + caplen, at = r->fetched;

	if (at < end || at > end + AHEAD)
		at = end;
	for (; at < end + AHEAD; at += LINE)
		__builtin_prefetch((const void *)at);
	r->fetched = at;
}

/* The kernel has taken the tag out, and left room for it. */
static void
put_tag(struct pr_packet *p, const struct tpacket3_hdr *h, uint8_t *data)
{
	bool known = h->hv1.tp_vlan_tpid || h->tp_status & TP_STATUS_VLAN_TPID_VALID;
	uint16_t tag[2] = {htons(known ? h->hv1.tp_vlan_tpid : ETH_P_8021Q),
		htons((uint16_t)h->hv1.tp_vlan_tci)};

	if (p->caplen < TAG_AT)
		return;
	memmove(data - TAG, data, TAG_AT);
	memcpy(data - TAG + TAG_AT, tag, sizeof(tag));
	p->data = data - TAG;
	p->caplen += TAG;
	p->len += TAG;
}

static inline bool
wanted(const struct prl_packet_ring *r, const uint8_t *frame)
{
	const struct sockaddr_ll *from =
		(const struct sockaddr_ll *)(const void *)(frame +
							   TPACKET_ALIGN(sizeof(
								   struct tpacket3_hdr)));

	return from->sll_pkttype != PACKET_OUTGOING || (r->both && r->index != r->lo);
}

/* The block's next frames. Returns how many are wanted of them. */
static size_t
read_some(struct prl_packet_ring *r, struct pr_packet *packets, uint32_t some)
{
	size_t count = 0;

	for (uint32_t i = 0; i < some; i++) {
		uint8_t *frame = r->next;
		const struct tpacket3_hdr *h = (const struct tpacket3_hdr *)(void *)frame;
		struct pr_packet *p = &packets[count];

		p->data = frame + h->tp_mac;
		p->caplen = h->tp_snaplen;
		p->len = h->tp_len;
		p->time = h->tp_sec * PR_NS_PER_S + h->tp_nsec;
		fetch_ahead(r, p->data, p->caplen);
		if (h->hv1.tp_vlan_tci || h->tp_status & TP_STATUS_VLAN_VALID)
			put_tag(p, h, frame + h->tp_mac);
		if (p->caplen > r->snaplen)
			p->caplen = r->snaplen;
		count += wanted(r, frame);
		r->next = frame + h->tp_next_offset;
	}
	return count;
}

/* While it is down, nothing comes; it may come up again, or be gone for good. */
static int
look_at_device(struct prl_packet_ring *r, struct pr_error *err)
{
	char name[IF_NAMESIZE];
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ENETDOWN)
		r->down = true;
	if (r->down && !if_indextoname((unsigned)r->index, name))
		return pr_error_set(err, "The interface disappeared");
	if (error == 0 || error == ENETDOWN)
		return 0;
	errno = error;
	return pr_error_errno(err, "the packet socket failed");
}

int
prl_packet_ring_take(struct prl_packet_ring *r, int most, prl_packet_ring_call call,
	void *arg, struct pr_error *err)
{
	struct pr_packet packets[SOME];
	uint32_t wish = (uint32_t)most, done = 0;

	while (done < wish) {
		uint32_t some = wish - done < SOME ? wish - done : SOME;
		size_t count;

		if (r->left == 0 && !block_begin(r))
			break;
		some = some < r->left ? some : r->left;
		count = read_some(r, packets, some);
		if (count)
			call(arg, packets, count);
		r->left -= some;
		done += some;
		if (r->left == 0)
			block_end(r);
	}
	if (done == 0)
		return look_at_device(r, err);
	r->down = false;
	return (int)done;
}
