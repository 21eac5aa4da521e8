/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

#include "proto/base/error.h"

/*
 * Sends by an AF_XDP socket in copy mode, which works on any interface and needs no BPF
 * program. The kernel makes each packet from memory that is registered, so it need not read
 * a message header, vector or Ethernet header. Measured on a veth pair: 500 to 620 ns a
 * frame, 690 to 730 by sendmmsg. The kernel works only within pr_xdp_send, so frames keep
 * their order. One thread.
 */

/* Frames up to here: a page, the largest piece that the kernel takes. */
#define PR_XDP_FRAME_MAX 4096

/*
 * Opens a socket and binds it to queue 0 of the interface. A queue has only one such
 * socket: if a program has just ended, waits up to a second until its socket is gone.
 */
struct pr_xdp *pr_xdp_open(
	int ifindex, const char *ifname, int send_buffer, struct pr_error *err);
void pr_xdp_close(struct pr_xdp **xdp);

/*
 * As sendmmsg: how many frames went out, from the first on, or -1 with errno. ENOBUFS: the
 * interface's queue is full. Frames that were not sent are removed from the ring; the
 * caller may give them again.
 */
int pr_xdp_send(struct pr_xdp *xdp, struct mmsghdr *msgs, unsigned count);
