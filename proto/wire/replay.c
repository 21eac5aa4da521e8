/* SPDX-License-Identifier: Apache-2.0 */
#include <sodium.h>
#include <string.h>

#include "proto/wire/frame.h"

#define NS_PER_S 1000000000

static uint64_t *
word_of(struct pr_replay *replay, uint64_t number)
{
	return &replay->seen[number % PR_REPLAY_WINDOW / 64];
}

/* Moves the window's head to number; what it passes over has not been seen. */
static void
advance(struct pr_replay *replay, uint64_t number)
{
	if (number - replay->highest >= PR_REPLAY_WINDOW) {
		memset(replay->seen, 0, sizeof replay->seen);
	} else {
		for (uint64_t n = replay->highest + 1; n <= number; n++)
			*word_of(replay, n) &= ~(UINT64_C(1) << n % 64);
	}
	replay->highest = number;
}

bool
pr_replay_check(struct pr_replay *replay, uint32_t nonce, uint64_t number)
{
	uint64_t bit = UINT64_C(1) << number % 64;

	if (number ==
		UINT64_MAX) /* nobody counts this far, and the head must stay below it */
		return false;
	if (!replay->any || replay->nonce != nonce) {
		memset(replay, 0, sizeof *replay);
		replay->any = true;
		replay->nonce = nonce;
		replay->highest = number;
	}
	if (number > replay->highest)
		advance(replay, number);
	else if (replay->highest - number >= PR_REPLAY_WINDOW ||
		 *word_of(replay, number) & bit)
		return false;
	*word_of(replay, number) |= bit;
	return true;
}

/*
 * 0 means "not known yet" on the wire, for nonces and epochs alike. Nonces are made while a program
 * starts, before its threads: so libsodium may set itself up in the first call.
 */
static uint32_t
random_nonzero(void)
{
	uint32_t v;
	do
		v = randombytes_random();
	while (v == 0);
	return v;
}

uint32_t
pr_nonce_make(void)
{
	return random_nonzero();
}

uint64_t
pr_epoch_make(int64_t now)
{
	return (uint64_t)(uint32_t)(now / NS_PER_S) << 32 | random_nonzero();
}
