/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_PRIORITY_H
#define PR_BASE_PRIORITY_H

/* Who has a CPU first. Each of these does what the process may; without the right to it all is as it was. */

#define PR_NICE_CAPTURE (-15) /* a packet not taken in time is lost */
#define PR_NICE_STORE (-10) /* what was taken waits in a buffer of our own */

/* The nice value of the calling thread, which on Linux each thread has of its own; its children take it over. */
void pr_priority_thread(int nice);
/*
 * What the calling thread does, and threads that it starts from now on, is worth less than what a logger
 * beside it does: for CPU and disk.
 */
void pr_priority_give_way(void);

#endif
