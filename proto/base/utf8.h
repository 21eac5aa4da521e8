/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_BASE_UTF8_H
#define PR_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at s (RFC 3629: no overlong forms, no surrogates); 0: there is none. */
static inline size_t
pr_utf8_length(const char *s)
{
	const unsigned char *b = (const unsigned char *)s;
	size_t n = b[0] < 0x80   ? 1
		   : b[0] < 0xc2 ? 0
		   : b[0] < 0xe0 ? 2
		   : b[0] < 0xf0 ? 3
		   : b[0] < 0xf5 ? 4
				 : 0;

	if (b[0] == 0)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((b[i] & 0xc0) != 0x80)
			return 0;
	if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
		(b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
		return 0;
	return n;
}

#endif
