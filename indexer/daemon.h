/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* packrack-indexer. Returns the exit status: 0, 1 failed, 2 bad usage; prints what went wrong. */
int pri_indexer_main(int argc, char **argv);
