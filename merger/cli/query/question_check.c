/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/query/question.h"

static void *
run(void *arg)
{
	struct question_check *c = arg;

	c->rc = question_check(c->args, &c->err);
	return NULL;
}

void
question_check_begin(struct question_check *c, const struct query_args *args)
{
	*c = (struct question_check){.args = args};
	c->running = pthread_create(&c->thread, NULL, run, c) == 0;
	if (!c->running)
		run(c);
}

int
question_check_end(struct question_check *c, struct pr_error *err)
{
	if (c->running)
		pthread_join(c->thread, NULL);
	if (c->rc < 0)
		*err = c->err;
	return c->rc;
}
