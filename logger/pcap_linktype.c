/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/pcap_linktype.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>

#define LINKTYPE_LOOP 108

static bool
big_endian(pcap_t *pcap)
{
	bool big_here = htobe16(1) == 1;

	return (pcap_is_swapped(pcap) == 1) != big_here;
}

int
prl_linktype_of_pcap(pcap_t *pcap)
{
	int dlt = pcap_datalink(pcap);

	static const int differ[][2] = {
		{DLT_ATM_RFC1483, 100},
		{DLT_RAW, 101},
		{DLT_SLIP_BSDOS, 102},
		{DLT_PPP_BSDOS, 103},
		{DLT_ATM_CLIP, 106},
		{DLT_PFSYNC, 246},
	};

	if (dlt == DLT_NULL && big_endian(pcap))
		return LINKTYPE_LOOP;
	for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
		if (differ[i][0] == dlt)
			return differ[i][1];
	}
	return dlt;
}
