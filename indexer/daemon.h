/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_INDEXER_DAEMON_H
#define PR_INDEXER_DAEMON_H

/* packrack-indexer. Returns the exit status: 0, 1 failed, 2 bad usage; prints what went wrong. */
int pr_indexer_main(int argc, char **argv);

#endif
