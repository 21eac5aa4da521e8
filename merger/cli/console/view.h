/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CLI_CONSOLE_VIEW_H
#define PR_CLI_CONSOLE_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "merger/cli/console/model.h"
#include "merger/cli/console/terminal.h"
#include "merger/cli/console/ui.h"

/*
 * Draws the whole screen from the model. No I/O. Cursors and scroll positions of ui are
 * corrected to what there is.
 */

/* Lines of a log that is open; NULL text: there is none. */
struct view_log {
	const char *name;
	const char *text; /* NUL-terminated lines */
	const char *error; /* or why it cannot be read */
};

/* log: that of ui->log, unused when it is 0. c has been reset to its size. */
void view_draw(
	struct canvas *c, const struct model *m, struct ui *ui, const struct view_log *log);

#endif
