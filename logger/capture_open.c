/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "logger/capture_private.h"
#include "logger/pcap_linktype.h"

/* How long the kernel may keep a block that is not full: each wakes us. */
#define BLOCK_MS 10
/* Of libpcap's ring, where it is not used. */
#define ASKED_BYTES (1 << 20)

static uint64_t
kernel_ring(const struct prl_capture *c)
{
	uint64_t want = c->o.buffer_size + (c->o.direct ? 4 * c->o.ring_size : 0);

	return want < INT32_MAX ? want : INT32_MAX;
}

static int
set_options(struct prl_capture *c, uint64_t buffer, struct pr_error *err)
{
	pcap_t *p = c->pcap;

	if (pcap_set_snaplen(p, (int)c->o.snaplen) ||
		pcap_set_buffer_size(p, (int)buffer) || pcap_set_timeout(p, BLOCK_MS) ||
		pcap_set_promisc(p, c->o.promiscuous))
		return pr_error_set(err, "%s: libpcap refuses its settings", c->o.ifname);
	if (pcap_set_tstamp_precision(p, PCAP_TSTAMP_PRECISION_NANO))
		return pr_error_set(
			err, "%s: no stamps of nanosecond precision", c->o.ifname);
	return 0;
}

static int
activate(struct prl_capture *c, struct pr_error *err)
{
	int result = pcap_activate(c->pcap);
	char text[PCAP_ERRBUF_SIZE] = "";

	if (result < 0)
		return pr_error_set(err, "cannot receive on %s: %s: %s", c->o.ifname,
			pcap_statustostr(result), pcap_geterr(c->pcap));
	c->activated = true;
	if (!c->o.both && pcap_setdirection(c->pcap, PCAP_D_IN))
		return pr_error_set(err, "%s: %s", c->o.ifname, pcap_geterr(c->pcap));
	if (c->o.direct && pcap_setnonblock(c->pcap, 1, text))
		return pr_error_set(err, "%s: %s", c->o.ifname, text);
	return 0;
}

/* A switch that floods must not cost us a copy of each frame of other nodes. */
static void
rack_filter(const struct prl_capture *c, char *text, size_t size)
{
	const uint8_t *m = c->o.mac;

	snprintf(text, size,
		"ether dst %02x:%02x:%02x:%02x:%02x:%02x or (ether broadcast and "
		"ether[12:2] = %u)",
		m[0], m[1], m[2], m[3], m[4], m[5], c->o.ethertype);
}

/* 1: there is a filter; 0: none. */
static int
compile(struct prl_capture *c, struct bpf_program *program, struct pr_error *err)
{
	const char *text = c->o.filter;
	char rack[160];

	if (c->o.rack) {
		rack_filter(c, rack, sizeof(rack));
		text = rack;
	}
	if (!text)
		return 0;
	if (pcap_compile(c->pcap, program, text, 1, PCAP_NETMASK_UNKNOWN))
		return pr_error_set(err, "filter \"%s\": %s", text, pcap_geterr(c->pcap));
	return 1;
}

static int
set_filter(struct prl_capture *c, struct pr_error *err)
{
	struct bpf_program program;
	int result = compile(c, &program, err);

	if (result <= 0)
		return result;
	result = pcap_setfilter(c->pcap, &program);
	pcap_freecode(&program);
	if (result)
		return pr_error_set(
			err, "%s: the filter: %s", c->o.ifname, pcap_geterr(c->pcap));
	return 0;
}

static int
open_pcap(struct prl_capture *c, uint64_t buffer, struct pr_error *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";

	c->pcap = pcap_create(c->o.ifname, text);
	if (!c->pcap)
		return pr_error_set(err, "cannot receive on %s: %s", c->o.ifname, text);
	if (set_options(c, buffer, err) || activate(c, err))
		return -1;
	c->linktype = prl_linktype_of_pcap(c->pcap);
	c->snaplen = (uint32_t)pcap_snapshot(c->pcap);
	return 0;
}

void
prl_capture_close_pcap(struct prl_capture *c)
{
	if (c->pcap)
		pcap_close(c->pcap);
	c->pcap = NULL;
	c->activated = false;
}

/* Its program in the kernel's words; what it accepts has the snap length at most. */
static void
translate(const struct prl_capture *c, const struct bpf_program *program,
	struct sock_filter *to)
{
	for (unsigned i = 0; i < program->bf_len; i++) {
		const struct bpf_insn *in = &program->bf_insns[i];

		to[i] = (struct sock_filter){in->code, in->jt, in->jf, in->k};
		if (in->code == (BPF_RET | BPF_K) && in->k)
			to[i].k = c->snaplen;
	}
}

/* A ring of our own, with what libpcap says of the device; false: libpcap's will have to do. */
static bool
open_packets(struct prl_capture *c)
{
	struct sock_filter filter[BPF_MAXINSNS];
	struct prl_packet_ring_options o = {.ifname = c->o.ifname,
		.size = kernel_ring(c),
		.snaplen = c->snaplen,
		.block_ms = BLOCK_MS,
		.promiscuous = c->o.promiscuous,
		.both = c->o.both};
	struct bpf_program program = {0};
	int filtered = compile(c, &program, NULL);

	if (filtered > 0 && program.bf_len <= BPF_MAXINSNS) {
		translate(c, &program, filter);
		o.filter = filter;
		o.filter_len = (uint16_t)program.bf_len;
	}
	if (pcap_datalink(c->pcap) == DLT_EN10MB && filtered == (o.filter != NULL))
		c->packets = prl_packet_ring_open(&o, NULL);
	if (filtered > 0)
		pcap_freecode(&program);
	return c->packets != NULL;
}

int
prl_capture_open_direct(struct prl_capture *c, struct pr_error *err)
{
	if (open_pcap(c, ASKED_BYTES, err))
		return -1;
	if (open_packets(c)) {
		prl_capture_close_pcap(c);
		return 0;
	}
	prl_capture_close_pcap(c);
	return open_pcap(c, kernel_ring(c), err) || set_filter(c, err) ? -1 : 0;
}

int
prl_capture_open_buffered(struct prl_capture *c, struct pr_error *err)
{
	c->ring = pr_ring_create(c->o.ring_size, err);
	return !c->ring || open_pcap(c, kernel_ring(c), err) || set_filter(c, err) ? -1 : 0;
}
