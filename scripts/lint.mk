# SPDX-License-Identifier: Apache-2.0
# make lint: format, static checks, shell scripts, direction of includes.

LINT_C := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
LINT_SH := $(shell git grep -lE '^\#!/bin/(ba)?sh' -- scripts tests .ci 2>/dev/null) \
	$(shell git ls-files 'scripts/lab/*.sh' 'tests/*/*.sh' 2>/dev/null)

lint: lint-includes lint-format lint-shell lint-cppcheck
lint-includes:
	$(Q)tests/lint_includes
lint-format:
	$(call say,FORMAT,$(words $(LINT_C)) files)
	$(Q)$(if $(LINT_C),clang-format --dry-run -Werror $(LINT_C),true)
lint-shell:
	$(call say,SHELL,$(words $(LINT_SH)) files)
	$(Q)shellcheck -x $(sort $(LINT_SH))
# The generated code is not there to be looked into; unknown macros only cost false alarms.
lint-cppcheck:
	$(call say,CPPCHECK,$(words $(LINT_C)) files)
	$(Q)$(if $(LINT_C),cppcheck -q -j2 --std=c11 --enable=warning,portability --inline-suppr \
		--error-exitcode=1 --suppress=missingInclude --suppress=unknownMacro \
		--suppress=normalCheckLevelMaxBranches -I. $(filter %.c,$(LINT_C)),true)

.PHONY: lint-includes lint-format lint-shell lint-cppcheck
