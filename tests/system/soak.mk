# SPDX-License-Identifier: Apache-2.0
# make soak-filters: 3,650 random filters on every capture and on a rack; about an hour.
# With FILTERS_REFERENCE=FILE (30_filters.t) half of it, when run again.
soak-filters: all
	$(Q)FILTERS=full PACKRACK_BUILD=$(BUILD) prove -v tests/system/30_filters.t
soak: soak-filters
.PHONY: soak soak-filters
