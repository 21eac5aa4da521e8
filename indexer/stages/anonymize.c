/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/anonymize.h"
#include "indexer/stages/stage_common.h"

/* Anonymization (proto/wire/anonymize.h) as a stage. */

struct anonymize {
	struct pr_anonymizer *anonymizer;
	struct pr_anonymize_figures figures;
};

static void
anonymize_close(void *state)
{
	struct anonymize *a = state;

	pr_anonymizer_destroy(&a->anonymizer);
	free(a);
}

/* The file's text, from malloc. */
static char *
read_text(const char *path, struct pr_error *err)
{
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 65536);

	if (f && text && fread(text, 1, 65535, f) < 65535 && !ferror(f)) {
		fclose(f);
		return text;
	}
	pr_error_errno(err, "cannot read the policy %s", path);
	if (f)
		fclose(f);
	free(text);
	return NULL;
}

static void *
anonymize_open(const char *const *options, char *error, size_t size)
{
	const char *key_path = pri_stage_option(options, "key");
	const char *path = pri_stage_option(options, "policy");
	struct pr_anonymize_policy policy = {.shift_text = NULL};
	struct anonymize *a = calloc(1, sizeof(*a));
	struct pr_error err = {"no memory for the policy"};
	char *text = path ? read_text(path, &err) : strdup("");
	uint8_t key[PR_ADDRESS_KEY];
	int rc = a && text ? 0 : -1;

	if (rc == 0 && !key_path)
		rc = pr_error_set(&err, "-o key=FILE: `packrack keys anonymize` makes one");
	if (rc == 0 && (pr_anonymize_policy_parse(
				&policy, text, path ? path : "policy", &err) < 0 ||
			       pr_anonymize_key_read(key_path, key, &err) < 0 ||
			       !(a->anonymizer = pr_anonymizer_create(&policy, key, &err))))
		rc = -1;
	pr_anonymize_policy_free(&policy);
	explicit_bzero(key, sizeof(key));
	free(text);
	if (rc == 0)
		return a;
	snprintf(error, size, "%s", err.text);
	free(a);
	return NULL;
}

static int
anonymize_packet(void *state, struct packrack_packet *p)
{
	struct anonymize *a = state;
	struct pr_packet packet = pri_stage_packet_of(p);

	pr_anonymize(a->anonymizer, &packet, p->data);
	PR_COPY(p, &packet, caplen, time);
	return 1;
}

static int
anonymize_flush(void *state)
{
	struct anonymize *a = state;

	a->figures = *pr_anonymizer_figures(a->anonymizer);
	return 0;
}

static int
anonymize_add(void *state, void *other)
{
	struct anonymize *a = state, *o = other;

	PR_ADD(&a->figures, &o->figures, packets, addresses, macs, payload_bytes,
		blanked_packets, blanked_bytes);
	return 0;
}

static char *
anonymize_report(void *state)
{
	const struct pr_anonymize_figures *f = &((struct anonymize *)state)->figures;

	return pri_stage_text(json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "packets",
		(json_int_t)f->packets, "addresses", (json_int_t)f->addresses, "macs",
		(json_int_t)f->macs, "payload_bytes", (json_int_t)f->payload_bytes,
		"blanked_packets", (json_int_t)f->blanked_packets, "blanked_bytes",
		(json_int_t)f->blanked_bytes));
}

static const char *const options[] = {"key: a file that `packrack keys anonymize` made",
	"policy: a file; default: headers only, addresses mapped (packrack-stage(1))",
	NULL};

const struct packrack_stage pri_stage_anonymize = {PACKRACK_STAGE_VERSION,
	PACKRACK_STAGE_GIVES | PACKRACK_STAGE_BARE, "anonymize",
	"packets without addresses, names and payload: prefix-preserving, Crypto-PAn",
	options, anonymize_open, anonymize_packet, anonymize_flush, anonymize_add,
	anonymize_report, anonymize_close};
