/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/manifest.h"

#include <jansson.h>
#include <sodium.h>
#include <string.h>

#include "merger/trace_writer.h"
#include "proto/rpc/admission.h"

void
prm_chain_add(struct prm_chain *c, const struct pr_packet *p)
{
	crypto_generichash_state s;
	uint8_t head[PRM_TRACE_HEAD];

	prm_trace_head(p, head);
	crypto_generichash_init(&s, NULL, 0, sizeof(c->value));
	crypto_generichash_update(&s, c->value, sizeof(c->value));
	crypto_generichash_update(&s, head, sizeof(head));
	crypto_generichash_update(&s, p->data, p->caplen);
	crypto_generichash_final(&s, c->value, sizeof(c->value));
	c->packets++;
	c->bytes += p->caplen;
}

void
prm_signer_make(struct prm_signer *s, const struct pr_key_pair *pair)
{
	static const uint8_t what[] = "packrack manifest";
	uint8_t seed[crypto_sign_SEEDBYTES];

	crypto_generichash(seed, sizeof(seed), (const uint8_t *)pair->secret,
		strlen(pair->secret), what, sizeof(what));
	crypto_sign_seed_keypair(s->public, s->secret, seed);
	sodium_memzero(seed, sizeof(seed));
}

char *
prm_manifest_make(const struct prm_signer *s, const struct prm_chain *c,
	const struct prm_given *given)
{
	char chain[65], key[65], signature[129], role[PR_ROLE_TEXT], now[PR_TIME_TEXT],
		since[PR_TIME_TEXT] = "", until[PR_TIME_TEXT] = "";
	uint8_t bytes[crypto_sign_BYTES];
	char *text = NULL, *out = NULL;

	if (given->since != PR_TIME_MIN)
		pr_time_local(given->since, since, sizeof(since));
	if (given->until != PR_TIME_MAX)
		pr_time_local(given->until, until, sizeof(until));
	json_t *o = json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:s,s:b,s:I}",
		"packrack_manifest", 1, "given",
		pr_time_local(pr_now_real(), now, sizeof(now)), "user",
		given->user->user[0] ? given->user->user : given->user->who, "role",
		pr_role_text(given->user->role, role), "filter", given->filter, "link",
		given->link, "since", since, "until", until, "packets",
		(json_int_t)c->packets, "bytes", (json_int_t)c->bytes, "chain",
		sodium_bin2hex(chain, sizeof(chain), c->value, sizeof(c->value)),
		"complete", given->complete, "missing", (json_int_t)given->missing);
	if (o)
		text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(o);
	if (!text)
		return NULL;
	crypto_sign_detached(bytes, NULL, (const uint8_t *)text, strlen(text), s->secret);
	sodium_bin2hex(key, sizeof(key), s->public, sizeof(s->public));
	sodium_bin2hex(signature, sizeof(signature), bytes, sizeof(bytes));
	if (asprintf(&out, "%s\ned25519 %s %s\n", text, key, signature) < 0)
		out = NULL;
	free(text);
	return out;
}

static bool
from_hex(uint8_t *out, size_t len, const char *hex)
{
	size_t n;

	return sodium_hex2bin(out, len, hex, 2 * len, NULL, &n, NULL) == 0 && n == len;
}

int
prm_manifest_check(const char *text, const struct prm_chain *c,
	char key_hex[PRM_MANIFEST_KEY], struct pr_error *err)
{
	size_t len = strcspn(text, "\n");
	const char *sign = text[len] ? text + len + 1 : "";
	uint8_t key[32], signature[crypto_sign_BYTES], chain[32];
	int rc = -1;

	if (strncmp(sign, "ed25519 ", 8) != 0 || strlen(sign) != 8 + 64 + 1 + 128 + 1 ||
		!from_hex(key, sizeof(key), sign + 8) || sign[72] != ' ' ||
		!from_hex(signature, sizeof(signature), sign + 73) || sign[201] != '\n')
		return pr_error_set(err, "no signature of a manifest in its second line");
	if (crypto_sign_verify_detached(signature, (const uint8_t *)text, len, key) != 0)
		return pr_error_set(
			err, "the manifest was changed: its signature is of another text");
	memcpy(key_hex, sign + 8, 64);
	key_hex[64] = '\0';
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *chain_hex = json_string_value(json_object_get(o, "chain"));
	if (!chain_hex || strlen(chain_hex) != 64 ||
		!from_hex(chain, sizeof(chain), chain_hex) ||
		json_integer_value(json_object_get(o, "packrack_manifest")) != 1)
		pr_error_set(
			err, "it is signed, but no manifest of a kind that is known here");
	else if ((uint64_t)json_integer_value(json_object_get(o, "packets")) != c->packets)
		pr_error_set(err, "the trace has %llu packets, the manifest %lld",
			(unsigned long long)c->packets,
			(long long)json_integer_value(json_object_get(o, "packets")));
	else if (memcmp(chain, c->value, sizeof(chain)) != 0)
		pr_error_set(
			err, "the trace was changed: as many packets, but not the same");
	else
		rc = 0;
	json_decref(o);
	return rc;
}
