/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRI_INDEXER_DAEMON_H
#define PRI_INDEXER_DAEMON_H

/* packrack-indexer. Returns the exit status: 0, 1 failed, 2 bad usage; prints what went wrong. */
int pri_indexer_main(int argc, char **argv);

#endif
