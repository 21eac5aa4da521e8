/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRM_MERGER_DAEMON_H
#define PRM_MERGER_DAEMON_H

/* The whole of packrack-merger; returns its exit status. */
int prm_merger_main(int argc, char **argv);

#endif
