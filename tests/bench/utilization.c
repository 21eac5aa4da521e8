/* SPDX-License-Identifier: Apache-2.0 */
/* utilization KIND PERCENT BLOCKS SEED: prints the part of the throughput that guarantees cost. */
#include <stdio.h>

#include "tests/unit/streamfs_laps.h"

int
main(int argc, char **argv)
{
	struct pr_error err = {0};
	struct laps l;
	if (argc != 5) {
		fprintf(stderr, "usage: utilization KIND PERCENT BLOCKS SEED\n");
		return 2;
	}
	if (laps_make(&l, (enum laps_kind)atoi(argv[1]), strtoull(argv[3], NULL, 0),
		    (unsigned)atoi(argv[2]), strtoull(argv[4], NULL, 0), &err) < 0) {
		fprintf(stderr, "utilization: %s\n", err.text);
		return 1;
	}
	double loss = laps_loss(&l, 5);
	laps_free(&l);
	printf("%.5f\n", loss);
	return loss < 0;
}
