/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/port/packet_filter.h"

#include <pcap/pcap.h>
#include <stdlib.h>

enum { SNAPLEN = 262144 };

struct pr_packet_filter {
	struct bpf_program program;
};

struct pr_packet_filter *
pr_packet_filter_create(const char *filter, struct pr_error *err)
{
	struct pr_packet_filter *f = calloc(1, sizeof *f);
	pcap_t *pcap = pcap_open_dead(DLT_EN10MB, SNAPLEN);

	if (!f || !pcap)
		pr_error_set(err, "filter '%s': no memory", filter);
	if (f && pcap &&
		pcap_compile(pcap, &f->program, filter, 1, PCAP_NETMASK_UNKNOWN) < 0) {
		pr_error_set(err, "filter '%s': %s", filter, pcap_geterr(pcap));
		free(PR_TAKE(&f));
	}
	if (pcap)
		pcap_close(pcap);
	else
		free(PR_TAKE(&f));
	return f;
}

void
pr_packet_filter_destroy(struct pr_packet_filter **filter)
{
	struct pr_packet_filter *f = PR_TAKE(filter);

	if (f)
		pcap_freecode(&f->program);
	free(f);
}

bool
pr_packet_filter_match(const struct pr_packet_filter *f, const uint8_t *data,
	uint32_t caplen, uint32_t len)
{
	return bpf_filter(f->program.bf_insns, data, len, caplen) != 0;
}
