/* SPDX-License-Identifier: Apache-2.0 */
#include "logger/device.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/log.h"

#define SECONDS_DEFAULT 10
#define SECONDS_MAX 3600

struct blink {
	struct ethtool_value value;
	struct ifreq ifr;
	int fd;
};

static atomic_bool blinking;

/* The call lasts as long as the LED blinks. */
static void *
blink_run(void *arg)
{
	struct blink *b = arg;

	if (ioctl(b->fd, SIOCETHTOOL, &b->ifr))
		pr_log_warning("%s: cannot blink its LED: %m", b->ifr.ifr_name);
	close(b->fd);
	free(b);
	atomic_store(&blinking, false);
	return NULL;
}

/* Drivers without an LED refuse at once, and say so by a driver's information without `identify`. */
static int
can_blink(struct blink *b)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq ifr = b->ifr;

	ifr.ifr_data = (void *)&info;
	if (ioctl(b->fd, SIOCETHTOOL, &ifr))
		return 0;
	return strcmp(info.driver, "veth") && strcmp(info.driver, "bridge") &&
	       strcmp(info.driver, "tun");
}

static int
blink_start(struct blink *b, struct pr_error *err)
{
	pthread_t thread;
	int result;

	if (!can_blink(b))
		return pr_error_set(
			err, "%s: the card has no LED to blink", b->ifr.ifr_name);
	if (atomic_exchange(&blinking, true))
		return pr_error_set(err, "%s: blinks already", b->ifr.ifr_name);
	result = pthread_create(&thread, NULL, blink_run, b);
	if (result) {
		atomic_store(&blinking, false);
		return pr_error_set(err, "cannot start a thread: %s", strerror(result));
	}
	pthread_detach(thread);
	return 0;
}

int
prl_device_identify(const char *ifname, uint32_t seconds, struct pr_error *err)
{
	struct blink *b = calloc(1, sizeof(*b));

	if (!b)
		return pr_error_set(err, "no memory");
	if (seconds == 0)
		seconds = SECONDS_DEFAULT;
	b->value.cmd = ETHTOOL_PHYS_ID;
	b->value.data = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
	snprintf(b->ifr.ifr_name, sizeof(b->ifr.ifr_name), "%s", ifname);
	b->ifr.ifr_data = (void *)&b->value;
	b->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (b->fd < 0)
		pr_error_errno(err, "%s", ifname);
	else if (blink_start(b, err) == 0)
		return 0;
	if (b->fd >= 0)
		close(b->fd);
	free(b);
	return -1;
}
