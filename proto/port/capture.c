/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/capture.h"

#include <pcap/pcap.h>
#include <stdlib.h>

#include "proto/port/trace.h"

struct pr_capture {
	pcap_t *pcap;
	const char *ifname;
	pr_capture_call call; /* of the take that is under way */
	void *arg;
	uint64_t kernel_drops, interface_drops; /* when last read */
};

static int
activate(pcap_t *pcap, const struct pr_capture_options *o, struct pr_error *err)
{
	uint64_t size = PR_MIN(o->buffer_size, INT32_MAX);
	char text[PCAP_ERRBUF_SIZE] = "";

	if (pcap_set_snaplen(pcap, o->snaplen) || pcap_set_promisc(pcap, o->promiscuous) ||
		pcap_set_timeout(pcap, PR_CAPTURE_BLOCK_MS) ||
		pcap_set_buffer_size(pcap, size))
		return pr_error_set(err, "%s: libpcap refuses its settings", o->ifname);
	if (pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO))
		return pr_error_set(err,
			"%s: libpcap gives no nanosecond timestamps on this interface",
			o->ifname);
	int rc = pcap_activate(pcap);
	if (rc < 0)
		return pr_error_set(err, "cannot capture on %s: %s (%s)", o->ifname,
			pcap_statustostr(rc), pcap_geterr(pcap));
	if (!o->both && pcap_setdirection(pcap, PCAP_D_IN) < 0)
		return pr_error_set(err,
			"%s: cannot restrict the capture to incoming packets: %s",
			o->ifname, pcap_geterr(pcap));
	if (pcap_setnonblock(pcap, 1, text) < 0)
		return pr_error_set(err, "%s: %s", o->ifname, text);
	return 0;
}

struct pr_capture *
pr_capture_open(const struct pr_capture_options *options, struct pr_error *err)
{
	struct pr_capture *c = calloc(1, sizeof *c);
	char text[PCAP_ERRBUF_SIZE] = "no memory";

	if (c) {
		c->ifname = options->ifname;
		c->pcap = pcap_create(options->ifname, text);
	}
	if (!c || !c->pcap)
		pr_error_set(err, "cannot capture on %s: %s", options->ifname, text);
	else if (activate(c->pcap, options, err) == 0)
		return c;
	pr_capture_close(&c);
	return NULL;
}

void
pr_capture_close(struct pr_capture **capture)
{
	struct pr_capture *c = PR_TAKE(capture);

	if (c && c->pcap)
		pcap_close(c->pcap);
	free(c);
}

int
pr_capture_filter(struct pr_capture *c, const char *filter, struct pr_error *err)
{
	struct bpf_program program;

	if (pr_filter_of_pcap(c->pcap, filter, &program, err) < 0)
		return -1;
	int rc = pcap_setfilter(c->pcap, &program);
	pcap_freecode(&program);
	return rc < 0 ? pr_error_set(err, "%s: cannot set the filter: %s", c->ifname,
				pcap_geterr(c->pcap))
		      : 0;
}

static void
on_packet(u_char *arg, const struct pcap_pkthdr *h, const u_char *data)
{
	struct pr_capture *c = (struct pr_capture *)(void *)arg;

	/* with nanosecond precision, tv_usec holds nanoseconds */
	c->call(c->arg, pr_time_make(h->ts.tv_sec, h->ts.tv_usec), data, h->caplen, h->len);
}

int
pr_capture_take(struct pr_capture *c, int most, pr_capture_call call, void *arg,
	struct pr_error *err)
{
	c->call = call;
	c->arg = arg;
	int n = pcap_dispatch(c->pcap, most, on_packet, (u_char *)c);
	return n >= 0 ? n : pr_error_set(err, "%s: %s", c->ifname, pcap_geterr(c->pcap));
}

int
pr_capture_fd(const struct pr_capture *c)
{
	return pcap_get_selectable_fd(c->pcap);
}

int
pr_capture_linktype(const struct pr_capture *c)
{
	return pr_linktype_of_pcap(c->pcap);
}

uint32_t
pr_capture_snaplen(const struct pr_capture *c)
{
	return pcap_snapshot(c->pcap);
}

void
pr_capture_drops(struct pr_capture *c, uint64_t *kernel, uint64_t *interface)
{
	struct pcap_stat stat;

	if (pcap_stats(c->pcap, &stat) == 0) {
		c->kernel_drops = stat.ps_drop;
		c->interface_drops = stat.ps_ifdrop;
	}
	*kernel = c->kernel_drops;
	*interface = c->interface_drops;
}
