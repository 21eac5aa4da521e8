/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_MERGER_DAEMON_H
#define PR_MERGER_DAEMON_H

/* The whole of packrack-merger; returns its exit status. */
int pr_merger_main(int argc, char **argv);

#endif
