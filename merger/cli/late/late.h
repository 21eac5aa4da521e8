/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_LATE_H
#define PR_CLI_LATE_H

#include <pthread.h>

/*
 * Libraries of the command line that are loaded when they are first needed, as most commands do without
 * them. Linked into `packrack` alone; the daemons have the libraries themselves. Any thread.
 */
struct late {
	const char *names[2]; /* sonames to try, in this order; the second may be NULL */
	pthread_mutex_t lock; /* PTHREAD_MUTEX_INITIALIZER */
	void *handle; /* NULL: not yet loaded */
};

/* A function of the library, which is loaded if need be; ends the program if there is none. */
void *late_find(struct late *late, const char *name);

/* A function that is the library's own of the same name, `library` being a struct late. */
#define LATE(result, name, parameters, arguments)                                          \
	result name parameters                                                             \
	{                                                                                  \
		static __typeof__(&(name)) _Atomic real;                                   \
		if (!real)                                                                 \
			real = (__typeof__(&(name)))late_find(&library, #name);            \
		return real arguments;                                                     \
	}

#endif
