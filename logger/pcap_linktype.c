/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/pcap_linktype.h"

#include <pcap/dlt.h>
#include <stddef.h>

int
pr_linktype_of_dlt(int dlt)
{
	static const int differ[][2] = {
		{DLT_ATM_RFC1483, 100},
		{DLT_RAW, 101},
		{DLT_SLIP_BSDOS, 102},
		{DLT_PPP_BSDOS, 103},
		{DLT_ATM_CLIP, 106},
		{DLT_PFSYNC, 246},
	};

	for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
		if (differ[i][0] == dlt)
			return differ[i][1];
	}
	return dlt;
}
