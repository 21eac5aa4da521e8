/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/capture.h"

#include <pcap/pcap.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/port/trace.h"

struct pr_capture {
	pcap_t *pcap;
	const char *ifname;
	pr_capture_call call; /* of the take that is under way */
	void *arg;
	uint64_t kernel_drops, interface_drops; /* when last read */
	uint8_t timestamps;
	uint64_t unstamped;
	/* not of PR_TIMESTAMP_HOST: begin of the take; how far the source is behind, in this take and at most; confirmed */
	int64_t now, behind, lag, confirmed;
};

static int
choose_timestamps(pcap_t *pcap, const struct pr_capture_options *o, struct pr_error *err)
{
	bool unsynced = o->timestamps == PR_TIMESTAMP_ADAPTER_UNSYNCED;
	int wanted = unsynced ? PCAP_TSTAMP_ADAPTER_UNSYNCED : PCAP_TSTAMP_ADAPTER;
	int *types = NULL;
	bool found = false, other = false;

	if (o->timestamps == PR_TIMESTAMP_HOST || o->timestamps == PR_TIMESTAMP_TRAILER)
		return 0;
	int count = pcap_list_tstamp_types(pcap, &types);
	for (int i = 0; i < count; i++) {
		found |= types[i] == wanted;
		other |= types[i] != wanted &&
			 (types[i] == PCAP_TSTAMP_ADAPTER ||
				 types[i] == PCAP_TSTAMP_ADAPTER_UNSYNCED);
	}
	if (types)
		pcap_free_tstamp_types(types);
	if (!found)
		return pr_error_set(err,
			"--timestamp %s: %s has no such timestamps; it has host%s, and "
			"trailer "
			"is for any",
			pr_timestamp_names[o->timestamps], o->ifname,
			!other     ? ""
			: unsynced ? ", adapter"
				   : ", adapter-unsynced");
	return pcap_set_tstamp_type(pcap, wanted)
		       ? pr_error_set(err, "--timestamp %s: %s refuses it",
				 pr_timestamp_names[o->timestamps], o->ifname)
		       : 0;
}

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
	if (choose_timestamps(pcap, o, err) < 0)
		return -1;
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
		PR_COPY(c, options, ifname, timestamps);
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

static int64_t
better_time(
	struct pr_capture *c, int64_t time, const u_char *data, const struct pcap_pkthdr *h)
{
	const int64_t kernel = c->timestamps == PR_TIMESTAMP_TRAILER ? time : c->now;
	bool found = c->timestamps != PR_TIMESTAMP_TRAILER ||
		     (h->caplen == h->len && pr_trailer_time(data, h->len, kernel, &time));
	int64_t age = pr_time_minus(c->now, time);

	if (found && age < PR_CAPTURE_LATE_NS && age > -PR_CAPTURE_EARLY_NS) {
		int64_t behind = kernel - time;

		/* of an adapter: what came last in a take has waited least */
		c->behind = c->timestamps == PR_TIMESTAMP_TRAILER
				    ? PR_MAX(c->behind, behind)
				    : behind;
		if (time >= c->confirmed)
			return time;
	}
	c->unstamped++;
	return PR_MAX(kernel, c->confirmed);
}

static void
on_packet(u_char *arg, const struct pcap_pkthdr *h, const u_char *data)
{
	struct pr_capture *c = (struct pr_capture *)(void *)arg;

	/* with nanosecond precision, tv_usec holds nanoseconds */
	int64_t time = pr_time_make(h->ts.tv_sec, h->ts.tv_usec);

	if (c->timestamps != PR_TIMESTAMP_HOST)
		time = better_time(c, time, data, h);
	c->call(c->arg, time, data, h->caplen, h->len);
}

int
pr_capture_take(struct pr_capture *c, int most, pr_capture_call call, void *arg,
	struct pr_error *err)
{
	c->call = call;
	c->arg = arg;
	c->behind = 0;
	if (c->timestamps != PR_TIMESTAMP_HOST)
		c->now = pr_now_real();
	if (c->confirmed > c->now + PR_CAPTURE_EARLY_NS)
		c->confirmed = 0; /* the clock was set back */
	int n = pcap_dispatch(c->pcap, most, on_packet, (u_char *)c);
	/* of an adapter, only where frames have not waited for their turn */
	if (c->timestamps == PR_TIMESTAMP_TRAILER || n < most)
		c->lag = PR_MAX(c->lag, c->behind);
	return n >= 0 ? n : pr_error_set(err, "%s: %s", c->ifname, pcap_geterr(c->pcap));
}

uint64_t
pr_capture_unstamped(const struct pr_capture *c)
{
	return c->unstamped;
}

int64_t
pr_capture_confirm(struct pr_capture *c, int64_t time)
{
	if (c->timestamps == PR_TIMESTAMP_HOST)
		return time;
	c->confirmed = PR_MAX(c->confirmed, time - c->lag);
	return time - c->lag;
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
