/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/duty.h"

#include <string.h>
#include <xxhash.h>

int64_t
prm_duty_interval(int64_t time)
{
	int64_t interval = time / PRM_DUTY_INTERVAL_NS;

	return time < 0 && time % PRM_DUTY_INTERVAL_NS ? interval - 1 : interval;
}

size_t
prm_duty_of(const struct prm_duty *duty, int64_t time)
{
	uint64_t seed = (uint64_t)prm_duty_interval(time), best = 0;
	size_t owner = duty->self;

	for (size_t i = 0; i < duty->count; i++) {
		const struct prm_duty_merger *m = &duty->mergers[i];
		uint64_t score = XXH3_64bits_withSeed(m->name, strlen(m->name), seed);

		if ((i == duty->self || m->alive) && score >= best) {
			best = score;
			owner = i;
		}
	}
	return owner;
}
