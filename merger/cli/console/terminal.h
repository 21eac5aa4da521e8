/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PR_CONSOLE_TERMINAL_H
#define PR_CONSOLE_TERMINAL_H

#include <stdbool.h>

#include "merger/cli/console/canvas.h"
#include "proto/base/error.h"

/* The terminal, by curses: paints a canvas and reads keys. One at a time. */

int terminal_open(bool colour, struct pr_error *err);
void terminal_close(void);
bool terminal_is_utf8(void);
/* The size as the kernel has it now; curses is told. */
void terminal_size(int *rows, int *cols);
void terminal_paint(const struct canvas *c);
void terminal_redraw(void); /* all of it, whatever it thinks is there */
/*
 * The next key without waiting, as ui.h names them; 0: there is none; -1: the terminal has gone. A
 * press of the mouse is the key that the canvas has there.
 */
int terminal_key(const struct canvas *c);

#endif
