/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/trace_file.h"

#include <pcap.h>
#include <stdlib.h>
#include <string.h>

#include "logger/pcap_linktype.h"
#include "proto/base/clock.h"

struct trace_file {
	pcap_t *pcap;
	const char *path;
	uint16_t linktype;
};

struct trace_file *
trace_file_open(const char *path, struct pr_error *err)
{
	struct trace_file *f = calloc(1, sizeof(*f));
	char text[PCAP_ERRBUF_SIZE] = "no memory";

	if (f)
		f->pcap = pcap_open_offline_with_tstamp_precision(
			path, PCAP_TSTAMP_PRECISION_NANO, text);
	if (!f || !f->pcap) {
		pr_error_set(err, strstr(text, path) ? "%.0s%s" : "%s: %s", path, text);
		free(f);
		return NULL;
	}
	f->path = path;
	f->linktype = (uint16_t)prl_linktype_of_pcap(f->pcap);
	return f;
}

void
trace_file_close(struct trace_file **fp)
{
	struct trace_file *f = *fp;

	*fp = NULL;
	if (!f)
		return;
	pcap_close(f->pcap);
	free(f);
}

int
trace_file_next(struct trace_file *f, struct pr_packet *out, struct pr_error *err)
{
	struct pcap_pkthdr *head;
	const u_char *bytes;
	int got = pcap_next_ex(f->pcap, &head, &bytes);

	if (got == PCAP_ERROR_BREAK)
		return PR_SOURCE_END;
	if (got != 1) {
		pr_error_set(err, "%s: %s", f->path, pcap_geterr(f->pcap));
		return PR_SOURCE_ERROR;
	}
	*out = (struct pr_packet){
		.time = pr_time_from_pcap(head->ts.tv_sec, head->ts.tv_usec),
		.caplen = head->caplen,
		.len = head->len,
		.linktype = f->linktype,
		.data = bytes};
	return PR_SOURCE_PACKET;
}
