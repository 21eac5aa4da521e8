/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First inputs of fuzz_keys: the files secret, public, enrolled and rack, with a NUL behind each; then the
 * frames of a request for admission, each with its length before it.
 */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz.h"

#define SPLIT "\001" /* becomes a NUL */

void
corpus_keys(void)
{
#define KEY_A "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define KEY_B "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"
	static const char *const texts[] = {
		"secret-key " KEY_B "\n" SPLIT "public-key " KEY_A "\n" SPLIT
		"# who may come in\n"
		"log1 node " KEY_A "\nuser steer " KEY_B "\n" SPLIT "server-key " KEY_A "\n"
		"server-key tcp://rack:7100 " KEY_B "\nframe-key "
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
		"frame-key "
		"ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n",
		KEY_B SPLIT KEY_A SPLIT "fuzz-new read " FUZZ_NEW_KEY "\n\n" SPLIT
					"frame-key 12\n",
		SPLIT SPLIT "a.b_c-d read " KEY_A SPLIT "server-key tcp://else:1 " KEY_A,
		SPLIT SPLIT "two words node\n" SPLIT "frame-key",
		SPLIT SPLIT "x nobody " KEY_A SPLIT "server-key short"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		char name[16], text[1024];
		size_t len = strlen(texts[i]);

		memcpy(text, texts[i], len);
		for (size_t j = 0; j < len; j++)
			text[j] = text[j] == *SPLIT ? 0 : text[j];
		snprintf(name, sizeof name, "keys-%zu", i);
		corpus_put("keys", name, text, len, END);
	}

	/* admitted: no files, the empty domain and identity, the key's 32 bytes */
	static const char request[] = "\0\0\0\0\0031.0\0017\0\011127.0.0.1\0\005CURVE\040";
	uint8_t key[32], far[280] = {0};

	zmq_z85_decode(key, FUZZ_NEW_KEY);
	corpus_put("keys", "request", request, sizeof request - 1, key, sizeof key, END);
	corpus_put("keys", "request-other", request, sizeof request - 1, "not this key",
		(size_t)12, END);
	/* its number is all that follows, and too long */
	corpus_put("keys", "request-long", request, (size_t)8, "\377", (size_t)1, far,
		sizeof far, END);
}
