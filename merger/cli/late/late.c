/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/late/late.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *
load(struct late *late)
{
	pthread_mutex_lock(&late->lock);
	for (int i = 0; i < 2 && !late->handle && late->names[i]; i++)
		late->handle = dlopen(late->names[i], RTLD_LAZY | RTLD_GLOBAL);
	pthread_mutex_unlock(&late->lock);
	return late->handle;
}

void *
late_find(struct late *late, const char *name)
{
	void *handle = load(late);
	void *symbol = handle ? dlsym(handle, name) : NULL;

	if (symbol)
		return symbol;
	fprintf(stderr, "packrack: %s\n", dlerror());
	exit(1);
}
