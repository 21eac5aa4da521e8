/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRL_LOGGER_LOGGER_H
#define PRL_LOGGER_LOGGER_H

#include "logger/options.h"
#include "logger/streamfs/streamfs.h"

/* The program packrack-logger; returns its exit status. */
int prl_logger_main(int argc, char **argv);

/* The three ways to run: 0, or -1 and err. sfs: the volume, opened as its writer. */
int prl_logger_rack(
	struct sfs *sfs, const struct prl_logger_options *o, struct pr_error *err);
int prl_logger_tap(
	struct sfs *sfs, const struct prl_logger_options *o, struct pr_error *err);
int prl_logger_read(
	struct sfs *sfs, const struct prl_logger_options *o, struct pr_error *err);

#endif
