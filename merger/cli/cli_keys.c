/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "merger/cli/cli.h"

/* The user's own, whether it is there or not; NULL without a home. */
static const char *
of_user(void)
{
	static char path[PATH_MAX];
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int len;

	if (config && *config == '/')
		len = snprintf(path, sizeof(path), "%s/packrack/keys", config);
	else if (home && *home == '/')
		len = snprintf(path, sizeof(path), "%s/.config/packrack/keys", home);
	else
		return NULL;
	return len < (int)sizeof(path) ? path : NULL;
}

static bool
has_secret(const char *dir, int mode)
{
	char path[PATH_MAX + sizeof("/secret")];

	snprintf(path, sizeof(path), "%s/secret", dir);
	return access(path, mode) == 0;
}

static const char *
said(const char *flag)
{
	const char *from = getenv("PACKRACK_KEY");

	return flag ? flag : from && *from ? from : NULL;
}

/* What is said must be there: using it tells. What is found may be another user's: not for us. */
const struct pr_rpc_keys *
cli_keys(const struct cli_connection *c, struct pr_rpc_keys *room)
{
	const char *dir = said(c->key), *own = of_user();

	if (!dir && own && has_secret(own, F_OK))
		dir = own;
	if (!dir && has_secret(PR_KEYS_DIR, R_OK))
		dir = PR_KEYS_DIR;
	if (!dir || !strcmp(dir, PR_KEYS_NONE))
		return NULL;
	*room = (struct pr_rpc_keys){dir};
	return room;
}

const char *
cli_keys_home(const char *flag, struct pr_error *err)
{
	const char *dir = said(flag);

	if (!dir)
		dir = geteuid() == 0 ? PR_KEYS_DIR : of_user();
	if (dir && strcmp(dir, PR_KEYS_NONE) != 0)
		return dir;
	pr_error_set(err, "which key directory? Give --key DIR");
	return NULL;
}
