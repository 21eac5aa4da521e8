/* SPDX-License-Identifier: Apache-2.0 */
#include "merger/cli/volume/volume.h"

static const char *const states[] = {"there", "missing", "lost"};

void
volume_render_devices(struct render *r, struct sfs *sfs)
{
	struct sfs_device_info d;
	struct pr_error err;

	render_list(r, "device_list");
	for (size_t i = 0; sfs_device_info(sfs, i, &d, &err) == 0; i++) {
		render_object(r, NULL);
		render_string(r, "path", d.path);
		render_string(r, "state", states[d.state]);
		if (d.state != SFS_DEVICE_IS_THERE)
			render_string(r, "why", d.why);
		render_uint(r, "blocks", d.blocks);
		render_uint(r, "lost_records", d.lost_records);
		render_close(r);
	}
	render_close(r);
}

void
volume_warn_degraded(const struct pr_cmdline *program, struct sfs *sfs)
{
	char text[400];

	if (sfs_degraded(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", program->name, text);
	if (sfs_losses(sfs, text, sizeof(text)))
		fprintf(stderr, "%s: %s\n", program->name, text);
}
