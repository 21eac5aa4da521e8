/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/pcap_over_ip_internal.h"

#include <event2/event.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/server_internal.h"
#include "proto/base/log.h"
#include "proto/base/tcp.h"

struct pcap_port {
	struct pcap_port *next;
	struct prm_pcap_over_ip *all;
	struct evconnlistener *listener;
	char *link; /* "": all */
};

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
	int len, void *arg)
{
	struct pcap_port *port = arg;
	struct bufferevent *io = bufferevent_socket_new(
		evconnlistener_get_base(listener), fd, BEV_OPT_CLOSE_ON_FREE);
	struct pr_error err = {"no memory for a reader"};

	(void)address;
	(void)len;
	if (!io)
		close(fd);
	if (io && prm_pcap_reader_create(port->all, io, port->link, &err) == 0) {
		port->all->figures.accepted++;
		return;
	}
	port->all->figures.refused++;
	pr_log_warning("pcap-over-IP: a reader is refused: %s", err.text);
}

/* ---- ports ---- */

/* The place without /LINK; link: where the link's name begins in text, or its end. */
static int
split(const char *text, char place[PR_TCP_TEXT], const char **link, struct pr_error *err)
{
	size_t len = strcspn(text, "/");

	if (len >= PR_TCP_TEXT)
		return pr_error_set(err, "'%.100s' is no place to listen", text);
	memcpy(place, text, len);
	place[len] = '\0';
	*link = text + len + (text[len] == '/');
	return 0;
}

int
prm_pcap_over_ip_check(const char *text, bool *loopback, struct pr_error *err)
{
	char place[PR_TCP_TEXT];
	const char *link;

	return split(text, place, &link, err) < 0 ? -1 : pr_tcp_check(place, loopback, err);
}

static struct prm_pcap_over_ip *
all_of(struct prm_merger *m)
{
	if (!m->pcap_over_ip)
		m->pcap_over_ip = calloc(1, sizeof(*m->pcap_over_ip));
	if (m->pcap_over_ip)
		m->pcap_over_ip->merger = m;
	return m->pcap_over_ip;
}

static int
port_open(struct pcap_port *port, int fd, struct pr_error *err)
{
	port->listener = evconnlistener_new(pr_loop_base(port->all->merger->loop),
		on_accept, port, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	return port->listener ? 0 : pr_error_set(err, "no memory for a port");
}

int
prm_pcap_over_ip_add(struct prm_merger *m, const char *text, struct pr_error *err)
{
	struct prm_pcap_over_ip *all = all_of(m);
	struct pcap_port *port = calloc(1, sizeof(*port));
	char place[PR_TCP_TEXT];
	const char *link;
	int fd;

	if (!all || !port || split(text, place, &link, err) < 0 ||
		!(port->link = strdup(link))) {
		free(port);
		return pr_error_set(err, "no memory for listening on %s", text);
	}
	port->all = all;
	fd = pr_tcp_listen(place, err);
	if (fd < 0 || evutil_make_socket_nonblocking(fd) < 0 ||
		port_open(port, fd, err) < 0) {
		if (fd >= 0)
			close(fd);
		free(port->link);
		free(port);
		return -1;
	}
	port->next = all->ports;
	all->ports = port;
	pr_log_info("pcap-over-IP on %s: %s%s", pr_tcp_name(fd, false, place),
		*link ? "link " : "all links", link);
	return 0;
}

void
prm_pcap_over_ip_free(struct prm_pcap_over_ip **pp)
{
	struct prm_pcap_over_ip *all = *pp;

	*pp = NULL;
	if (all)
		prm_pcap_readers_free(all);
	while (all && all->ports) {
		struct pcap_port *port = all->ports;

		all->ports = port->next;
		evconnlistener_free(port->listener);
		free(port->link);
		free(port);
	}
	free(all);
}

struct prm_pcap_over_ip_figures
prm_pcap_over_ip_figures(const struct prm_pcap_over_ip *all)
{
	return all ? all->figures : (struct prm_pcap_over_ip_figures){0};
}
