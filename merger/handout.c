/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/handout.h"

#include "proto/base/array.h"
#include "proto/base/keyfile.h"
#include "proto/base/options.h"
#include "proto/rpc/admission.h"
#include "proto/rpc/message.h"
#include "proto/wire/anonymize.h"

struct limits {
	char *user; /* the option's first word */
	char *links; /* with commas; NULL: all */
	int64_t max_age;
	uint64_t max_rate;
};

struct prm_handout {
	struct pr_anonymizer *anonymizer; /* NULL: nobody may read anonymized */
	struct limits *limits;
	size_t count;
};

struct prm_gate {
	struct pr_anonymizer *anonymizer; /* NULL: packets go as they are */
	const struct limits *limits; /* or NULL */
	struct pr_bpf_set programs; /* behind the policy */
	uint8_t *data;
	size_t room;
	bool failed;
	int64_t began; /* monotonic; of the rate */
};

/* ---- options ---- */

#define PR_VALUES struct limits
static const struct pr_option limit_options[] = {
	PR_OPT_STRING(links, "links", 0, "NAMES", ""),
	PR_OPT_DURATION(max_age, "max-age", 0, "DURATION", 1, 0, ""),
	PR_OPT_SIZE(max_rate, "max-rate", 0, "SIZE", 1, 0, ""),
};
static const struct pr_cmdline limit_program = {
	.name = "limit", .section = "limit", PR_OPTIONS(limit_options)};

static int
take_limits(struct prm_handout *h, const char *text, struct pr_error *err)
{
	struct limits limits = {.user = strdup(text)};
	char *rest = limits.user ? strchr(limits.user, ' ') : NULL;

	if (!limits.user || PR_ARRAY_ADD(h->limits, h->count, limits) < 0) {
		free(limits.user);
		return pr_error_set(err, "no memory for limits");
	}
	if (!rest)
		return pr_error_set(
			err, "limit = %s: USER links=A,B max-age=7d max-rate=10M", text);
	for (*rest++ = '\0', text = rest; *rest; rest++)
		if (*rest == ' ')
			*rest = ';';
	return pr_options_text(&limit_program, &h->limits[h->count - 1], text, err) < 0
		       ? pr_error_prefix(err, "limit of %s", limits.user)
		       : 0;
}

static int
take_policy(
	struct prm_handout *h, const char *path, const char *key_path, struct pr_error *err)
{
	struct pr_anonymize_policy policy = {.shift_text = NULL};
	char *text = path ? pr_keyfile_read(path, false, NULL, err) : NULL;
	uint8_t key[PR_ADDRESS_KEY];
	int rc = path && !text ? -1 : 0;

	if (rc == 0 && (pr_anonymize_policy_parse(&policy, text ? text : "",
				path ? path : "policy", err) < 0 ||
			       pr_anonymize_key_read(key_path, key, err) < 0))
		rc = -1;
	if (rc == 0 && policy.shift)
		rc = pr_error_set(err,
			"%s: shift: only for packrack stage; answers have the times that "
			"were asked for",
			path);
	if (rc == 0 && !(h->anonymizer = pr_anonymizer_create(&policy, key, err)))
		rc = -1;
	explicit_bzero(key, sizeof(key));
	pr_anonymize_policy_free(&policy);
	pr_keyfile_free(text);
	return rc;
}

struct prm_handout *
prm_handout_create(const struct prm_handout_options *o, struct pr_error *err)
{
	struct prm_handout *h = calloc(1, sizeof(*h));
	int rc = h ? 0 : pr_error_set(err, "no memory for policies");

	if (rc == 0 && o->policy && !o->key)
		rc = pr_error_set(err, "anonymize-policy without anonymize-key");
	if (rc == 0 && o->key)
		rc = take_policy(h, o->policy, o->key, err);
	for (size_t i = 0; rc == 0 && i < o->limits->count; i++)
		rc = take_limits(h, o->limits->items[i], err);
	if (rc < 0)
		prm_handout_destroy(&h);
	return h;
}

void
prm_handout_destroy(struct prm_handout **at)
{
	struct prm_handout *h = PR_TAKE(at);

	if (!h)
		return;
	for (size_t i = 0; i < h->count; i++) {
		free(h->limits[i].user);
		pr_options_free(&limit_program, &h->limits[i]);
	}
	free(h->limits);
	pr_anonymizer_destroy(&h->anonymizer);
	free(h);
}

/* ---- users ---- */

bool
prm_handout_anonymizes(const struct pr_rpc_peer *peer)
{
	return peer->role & PR_ROLE_ANONYMIZED &&
	       !(peer->role & (PR_ROLE_READ | PR_ROLE_OPERATE));
}

static const struct limits *
limits_of(const struct prm_handout *h, const struct pr_rpc_peer *peer)
{
	for (size_t i = 0;
		h && peer->user[0] && !(peer->role & PR_ROLE_OPERATE) && i < h->count; i++)
		if (!strcmp(h->limits[i].user, peer->user))
			return &h->limits[i];
	return NULL;
}

bool
prm_handout_limits(const struct prm_handout *h, const struct pr_rpc_peer *peer)
{
	return prm_handout_anonymizes(peer) || limits_of(h, peer);
}

/* ---- a query ---- */

/* of a limit's age, so that it may be said as it is: --since "7d ago" */
#define AGE_GRACE (60 * PR_NS_PER_S)
/* in one go, of the merger's one thread: packets, and steps of their filter */
#define GO_PACKETS 20000
#define GO_STEPS 10000000

/* NAME is one of the list with commas. */
static bool
is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	return false;
}

static int
limit_query(const struct limits *l, Packrack__Query *q, int64_t now, struct pr_error *err)
{
	int64_t oldest = l->max_age ? pr_time_minus(now, l->max_age) : PR_TIME_MIN;

	/* a question that is narrowed would have an answer that says it is complete */
	if (q->since < pr_time_minus(oldest, AGE_GRACE))
		return pr_error_set(err,
			"you may read packets of the last %lld s: ask for those, by "
			"--since",
			(long long)(l->max_age / PR_NS_PER_S));
	return !l->links || is_listed(l->links, q->link)
		       ? 0
		       : pr_error_set(err, "you may read %s: choose one of %s by --link",
				 strchr(l->links, ',') ? "some links" : "one link",
				 l->links);
}

struct prm_gate *
prm_gate_create(struct prm_handout *h, const struct pr_rpc_peer *peer, Packrack__Query *q,
	int64_t now, struct pr_error *err)
{
	struct prm_gate *g = calloc(1, sizeof(*g));
	int rc = g ? 0 : pr_error_set(err, "no memory for a query");

	if (rc == 0) {
		g->limits = limits_of(h, peer);
		g->began = pr_now_mono();
	}
	if (rc == 0 && g->limits)
		rc = limit_query(g->limits, q, now, err);
	if (rc == 0 && prm_handout_anonymizes(peer)) {
		g->anonymizer = h ? h->anonymizer : NULL;
		if (!g->anonymizer)
			rc = pr_error_set(err, "this merger has no policy for the role "
					       "read-anonymized (anonymize-key)");
		else if (q->related)
			rc = pr_error_set(err, "--related looks at packets before they are "
					       "anonymized: not for read-anonymized");
		else
			rc = pr_bpf_set_from_message(
				q->programs, q->n_programs, &g->programs, err);
		/* all that nodes could tell of a packet beyond its time */
		q->n_programs = q->n_lookups = 0;
		q->tally = NULL;
		q->flow_parts = q->sums = q->estimate = false;
		q->share = q->shares = 0;
	}
	q->merges = false;
	if (rc < 0)
		prm_gate_destroy(&g);
	return g;
}

void
prm_gate_destroy(struct prm_gate **at)
{
	struct prm_gate *g = PR_TAKE(at);

	if (!g)
		return;
	pr_bpf_set_free(&g->programs);
	free(g->data);
	free(g);
}

bool
prm_gate_passes(struct prm_gate *g, struct pr_packet *p)
{
	if (!g->anonymizer)
		return true;
	if (pr_link_is_beyond(p->link))
		return false;
	g->failed |= PR_ARRAY_RESERVE(g->data, g->room, p->caplen + 1) < 0;
	if (g->failed)
		return false;
	memcpy(g->data, p->data, p->caplen);
	pr_anonymize(g->anonymizer, p, g->data);
	return pr_bpf_set_match(&g->programs, p);
}

uint32_t
prm_gate_go(const struct prm_gate *g)
{
	return PR_MIN(GO_PACKETS, pr_bpf_set_packets(&g->programs, GO_STEPS));
}

bool
prm_gate_failed(const struct prm_gate *g)
{
	return g->failed;
}

uint64_t
prm_gate_allowed(const struct prm_gate *g, int64_t mono)
{
	if (!g->limits || !g->limits->max_rate)
		return UINT64_MAX;
	/* a second's worth at once, then at that rate */
	return (uint64_t)((double)g->limits->max_rate *
			  (1 + (double)(mono - g->began) / PR_NS_PER_S));
}
