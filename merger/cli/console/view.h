/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_CONSOLE_VIEW_H
#define PR_CLI_CONSOLE_VIEW_H

#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"
#include "merger/cli/console/ui.h"

/*
 * Draws the whole screen from the model. No I/O. Cursors and scroll positions of ui are
 * corrected to what there is.
 */

/* The last lines of a log file that others write, shorten or replace. */
#define LOGTAIL_BYTES 65536
struct logtail {
	const char *path; /* borrowed */
	char text[LOGTAIL_BYTES + 2]; /* whole lines, NUL-terminated */
	char error[256]; /* "" when text is good */
};

/* log: that of ui->log, unused when it is 0. c has been reset to its size. */
void view_draw(
	struct canvas *c, const struct model *m, struct ui *ui, const struct logtail *log);

#endif
