# SPDX-License-Identifier: Apache-2.0
# make lint: format, static checks, shell scripts, direction of includes, size (make -k lint for all at once).

LINT_C := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
LINT_SH := $(sort $(shell git grep -lE '^\#!/bin/(ba)?sh' -- scripts tests .ci 2>/dev/null) \
	$(shell git ls-files 'scripts/lab/*.sh' 'tests/*/*.sh' 2>/dev/null))
# Headers of other packages are not followed, and macros of theirs are unknown: both are no findings.
CPPCHECK := cppcheck -q -j2 --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
	--suppress=missingInclude --suppress=unknownMacro -D_GNU_SOURCE -I. \
	--suppress=internalAstError:merger/cli/flows/flow_file.c # it includes an initializer that the build makes

lint: lint-includes lint-format lint-shell lint-cppcheck lint-size
lint-includes:
	$(Q)tests/lint_includes
lint-format:
	$(call say,FORMAT,"$(words $(LINT_C)) files")
	$(Q)clang-format --dry-run -Werror $(LINT_C)
lint-shell:
	$(call say,SHELL,"$(words $(LINT_SH)) files")
	$(Q)shellcheck $(LINT_SH)
lint-cppcheck:
	$(call say,CPPCHECK,"$(words $(filter %.c,$(LINT_C))) files")
	$(Q)$(CPPCHECK) $(filter %.c,$(LINT_C))
lint-size:
	$(Q)tests/lint_size

.PHONY: lint-size lint-includes lint-format lint-shell lint-cppcheck
