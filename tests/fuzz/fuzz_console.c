/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console's screens of whatever programs answer. Covers merger/cli/console/view.c
 * merger/cli/console/model.c
 * Options -max_len=4096
 *
 * The input is rows and columns, a number of keys and the keys, and an envelope with a status, which comes twice
 * from the dispatcher and from a merger. What is drawn has no byte that a terminal must not get.
 */
#include <string.h>

#include "merger/cli/console/ui.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/rpc/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/canvas_row.h"

static void
draw(const struct model *m, struct ui *ui, int rows, int cols)
{
	static char line[CONSOLE_COLS_MAX * 4 + 1];
	static struct canvas canvas;

	canvas_reset(&canvas, rows, cols, NULL);
	view_draw(&canvas, m, ui, NULL);
	for (int row = 0; row < rows; row++) {
		const char *s = canvas_row(&canvas, row, line, sizeof line);

		for (; *s; s += pr_text_plain(s))
			MUST(pr_text_plain(s) > 0);
	}
}

static int
key_of(uint8_t byte)
{
	static const int others[] = {KEY_IS_UP, KEY_IS_DOWN, KEY_IS_LEFT, KEY_IS_RIGHT,
		KEY_IS_PAGE_UP, KEY_IS_PAGE_DOWN, KEY_IS_HOME, KEY_IS_END, KEY_IS_RUBOUT,
		KEY_IS_ESC, KEY_IS_ROW, KEY_IS_ROW + 3};

	return byte < 0x80 ? byte : others[byte % (sizeof(others) / sizeof(*others))];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model *model;
	int64_t now = INT64_C(1700000000000000000);
	struct console_order order;
	struct ui ui = {0};
	Packrack__Envelope *env;
	uint8_t keys;
	int rows, cols;

	if (size < 3 || (size_t)(data[2] & 15) + 3 > size)
		return -1;
	rows = 1 + data[0] % 80;
	cols = 1 + data[1] % 200;
	keys = data[2] & 15;
	env = pr_message_unpack(data + 3 + keys, size - 3 - keys, NULL);
	if (!env || env->body_case != PACKRACK__ENVELOPE__BODY_STATUS) {
		pr_message_free(&env);
		return -1;
	}
	model = model_create(NULL);
	MUST(model);
	model->merger_count = 1;
	for (int i = 0; i < 2; i++, now += PR_NS_PER_S) {
		model_take_dispatcher(model, env->status, now);
		model_take_merger(model, 0, env->status, now);
	}
	ui.screen = data[2] >> 4 & 7;
	draw(model, &ui, rows, cols);
	for (unsigned i = 0; i < keys; i++)
		ui_key(&ui, model, key_of(data[3 + i]), &order);
	draw(model, &ui, rows, cols);
	model_silent(model, &model->dispatcher, "the dispatcher", "no answer", now);
	draw(model, &ui, rows, cols);
	pr_message_free(&env);
	model_destroy(&model);
	return 0;
}
