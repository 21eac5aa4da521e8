/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets and policies that are hostile. Covers proto/wire/anonymize.c proto/wire/address_map.c
 * Options -max_len=512
 *
 * The first byte chooses the link type, the next two the policy; or, with 255 first, the rest is a policy's text.
 */
#include <string.h>

#include "proto/wire/anonymize.h"
#include "tests/fuzz/fuzz.h"

static void
check_policy(const uint8_t *data, size_t size)
{
	struct pr_anonymize_policy policy;
	struct pr_error err;
	char text[512];

	size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	err.text[0] = '\0';
	if (pr_anonymize_policy_parse(&policy, text, "policy", &err) < 0)
		MUST(err.text[0]);
	pr_anonymize_policy_free(&policy);
}

/* What is in the packet now, and how much. */
static size_t
check_packet(struct pr_anonymizer *a, uint16_t linktype, const uint8_t *data, size_t size,
	uint8_t out[512])
{
	uint8_t *copy = malloc(size + 1); /* an address sanitizer watches its end */
	struct pr_packet p = {
		.linktype = linktype, .caplen = (uint32_t)size, .len = (uint32_t)size};

	memcpy(copy, data, size);
	pr_anonymize(a, &p, copy);
	MUST(p.caplen <= size && p.len == size && p.data == copy);
	memcpy(out, copy, p.caplen);
	free(copy);
	return p.caplen;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t linktypes[] = {1, 0, 101, 108, 113, 228, 229, 276, 147};
	struct pr_anonymize_policy policy = {.shift_text = NULL};
	static const uint8_t key[PR_ADDRESS_KEY] = "a key of thirty-two bytes......";
	uint8_t one[512], two[512];

	if (size < 3 || size > 512)
		return -1;
	if (data[0] == 255) {
		check_policy(data + 1, size - 1);
		return 0;
	}
	policy.payload = data[1] & 3;
	policy.ports = data[1] >> 2 & 1;
	policy.checksums = data[1] >> 3 & 1;
	policy.tunnels = data[1] >> 4 & 1;
	policy.dns = data[1] >> 5 & 1;
	policy.quotes = data[1] >> 6 & 1;
	policy.nd = data[1] >> 7;
	policy.macs = data[2] & 1;
	policy.arp = data[2] >> 1 & 1;
	policy.dhcp = data[2] >> 2 & 1;
	uint16_t linktype = linktypes[data[0] % (sizeof linktypes / sizeof *linktypes)];
	struct pr_anonymizer *a = pr_anonymizer_create(&policy, key, NULL);
	size_t len = check_packet(a, linktype, data + 3, size - 3, one);
	MUST(len == check_packet(a, linktype, data + 3, size - 3, two) &&
		!memcmp(one, two, len));
	pr_anonymizer_destroy(&a);
	if (linktype == 147) /* not known */
		for (size_t i = 0; i < len; i++)
			MUST(one[i] == 0);
	return 0;
}
