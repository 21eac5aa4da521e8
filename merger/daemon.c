/* SPDX-License-Identifier: Apache-2.0 */

#include <unistd.h>

#include "merger/audit.h"
#include "merger/server.h"
#include "proto/base/metrics_server.h"
#include "proto/port/parent.h"
#include "proto/rpc/option_rows.h"

struct values {
	struct pr_string_list listen, peers, dispatchers;
	uint64_t max_queries, max_user_queries, summaries;
	char *name, *metrics, *user, *key_flag; /* as given */
	int log_format, no_canary;
	bool verbose;
	char *anonymize_key, *anonymize_policy, *audit;
	struct pr_string_list limits;
};

#define PR_VALUES struct values

static const struct pr_option options[] = {
	PR_OPT_LIST(listen, "listen", 'l', "ENDPOINT",
		"address to listen on for nodes and users", .def = PR_RPC_ENDPOINT_MERGER),
	PR_OPT_UINT(max_queries, "max-queries", 0, "N", 1, PRM_MERGER_QUERIES_MAX,
		"number of queries answered at the same time"),
	PR_OPT_UINT(max_user_queries, "max-user-queries", 0, "N", 1, PRM_MERGER_QUERIES_MAX,
		"number of queries of one user among them",
		.def_note = "three quarters of --max-queries"),
	PR_OPTION_METRICS(metrics),
	PR_OPT_LIST(peers, "peer", 0, "ENDPOINT",
		"another merger, to share the summaries with"),
	PR_OPT_LIST(dispatchers, "dispatcher", 0, "ENDPOINT",
		"a dispatcher, to change classes and cutoffs through this merger"),
	PR_OPT_STRING(name, "name", 0, "NAME",
		"name of this merger (the machine, and its first endpoint)"),
	PR_OPT_SIZE(summaries, "summaries", 0, "SIZE", 64 * 1024, INT64_MAX,
		"memory for the nodes' summaries"),
	PR_OPTION_KEY(key_flag),
	PR_OPTION_USER(user),
	PR_OPTION_LOG_FORMAT(log_format),
	PR_OPTION_CANARY(
		no_canary, "test the rack with the packets of the dispatcher's --canary"),
	PR_OPT_STRING(anonymize_key, "anonymize-key", 0, "FILE",
		"admit users of the role read-anonymized: addresses are mapped with the "
		"key that `packrack keys anonymize` made"),
	PR_OPT_STRING(anonymize_policy, "anonymize-policy", 0, "FILE",
		"what they get (packrack-stage(1)); default: headers only"),
	PR_OPT_STRING(audit, "audit", 0, "VOLUME",
		"record who asked for what, and got how much, in a volume of its own"),
	PR_OPT_LIST(limits, "limit", 0, "LIMIT",
		"what a user may read at most: \"NAME links=A,B max-age=7d "
		"max-rate=10M\", the rate in bytes a second"),
	PR_OPTION_VERBOSE(verbose),
};

static const struct pr_cmdline program = {.name = "packrack-merger",
	.section = "merger",
	.summary = "Sends queries to all nodes, and merges their answers into one trace.",
	.usage = "[options]",
	PR_OPTIONS(options),
	.footer = "Nodes: packrack-indexer --merger ENDPOINT. Users: packrack query -m "
		  "ENDPOINT ...\n"
		  "Live packets on a TCP port (pcap-over-IP): packrack pcap-over-ip PORT"};

static int
listen_all(struct prm_merger *m, const struct values *v, struct pr_error *err)
{
	const char *keys = pr_keys_dir(v->key_flag);

	for (size_t i = 0; i < v->listen.count; i++) {
		if (!keys)
			pr_log_warning("no keys: everybody who can connect to %s may read, "
				       "and report as a node (packrack-keys(7))",
				v->listen.items[i]);
		if (prm_merger_listen(m, v->listen.items[i], keys, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < v->peers.count; i++)
		if (prm_merger_peer(m, v->peers.items[i], keys, err) < 0)
			return -1;
	for (size_t i = 0; i < v->dispatchers.count; i++)
		if (prm_merger_dispatcher(m, v->dispatchers.items[i], keys, err) < 0)
			return -1;
	return 0;
}

static int
run(const struct values *v, struct prm_handout *handout, struct prm_audit *audit,
	struct pr_error *err)
{
	char name[130], host[65] = "";
	struct pr_loop_calls calls = {0};
	struct pr_metrics_server *metrics = NULL;
	struct prm_signer signer;
	struct pr_key_pair pair;
	struct prm_merger_options o = {.name = v->name ? v->name : name};
	PR_COPY(&o, v, max_queries, max_user_queries, summaries, no_canary);
	o.handout = handout;
	o.audit = audit;
	if (pr_keys_dir(v->key_flag)) {
		if (pr_keys_load_pair(pr_keys_dir(v->key_flag), &pair, err) < 0)
			return -1;
		prm_signer_make(&signer, &pair);
		pr_keys_wipe(&pair);
		o.signer = &signer;
	}
	struct pr_loop *loop = pr_loop_create(&calls, err);
	struct prm_merger *m = loop ? prm_merger_create(loop, &o, err) : NULL;
	int result = -1;

	/* mergers on two machines may well listen on the same local path */
	gethostname(host, sizeof(host) - 1);
	PR_PRINT(name, "%.60s %.60s", host, v->listen.items[0]);
	if (m && v->metrics)
		metrics = pr_metrics_serve(loop, v->metrics, prm_merger_scrape, m, err);
	if (m && (metrics || !v->metrics) && listen_all(m, v, err) == 0 &&
		pr_sandbox_seal(err) == 0) {
		pr_log_info("ready");
		pr_notify("READY=1");
		result = pr_loop_run(loop, err);
		pr_notify("STOPPING=1");
	}
	pr_metrics_stop(&metrics);
	prm_merger_destroy(&m);
	pr_loop_destroy(&loop);
	return result;
}

int
prm_merger_main(int argc, char **argv)
{
	struct values v = {.max_queries = PRM_MERGER_QUERIES_DEFAULT,
		.summaries = PRM_SUMMARIES_MEMORY_DEFAULT};
	struct prm_handout *handout = NULL;
	struct prm_audit *audit = NULL;
	struct pr_error err = {""};
	int status = 2;
	int parsed = pr_options_parse(&program, &v, argc, argv, NULL, &err);
	struct pr_grants g = {.sandbox = {PR_SANDBOX_MERGER, v.user, {0}}};

	for (size_t i = 0; parsed == 0 && i < v.listen.count; i++)
		parsed = pr_rpc_check_endpoint(v.listen.items[i], &err);
	for (size_t i = 0; parsed == 0 && i < v.peers.count; i++)
		parsed = pr_rpc_check_endpoint(v.peers.items[i], &err);
	for (size_t i = 0; parsed == 0 && i < v.dispatchers.count; i++)
		parsed = pr_rpc_check_endpoint(v.dispatchers.items[i], &err);
	if (parsed == 0 && v.name && (!v.name[0] || strlen(v.name) > 64))
		parsed = pr_error_set(&err, "--name: 1 to 64 bytes");
	if (parsed == 0 && v.metrics)
		parsed = pr_metrics_check_address(v.metrics, &err);
	if (parsed == 0) {
		handout =
			prm_handout_create(&(struct prm_handout_options){v.anonymize_policy,
						   v.anonymize_key, &v.limits},
				&err);
		parsed = handout ? 0 : -1;
	}
	if (parsed == 0) {
		pr_log_open("packrack-merger", v.verbose ? PR_LOG_DEBUG : PR_LOG_INFO,
			v.log_format);
		if (v.audit && !(audit = prm_audit_open(v.audit, &err)))
			parsed = -1;
		pr_grant(&g, PR_GRANT_KEYS, pr_keys_dir(v.key_flag));
		pr_grant_all(&g, PR_GRANT_ENDPOINT, &v.listen);
		if (parsed == 0)
			parsed = pr_privilege_drop(&g, &err);
		if (parsed == 0)
			parsed = run(&v, handout, audit, &err);
		pr_privilege_end();
		status = 1;
	}
	if (parsed < 0)
		pr_log_last("packrack-merger", err.text);
	prm_audit_close(&audit);
	prm_handout_destroy(&handout);
	pr_options_free(&program, &v);
	return parsed < 0 ? status : 0;
}
