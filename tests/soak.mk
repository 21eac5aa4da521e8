# SPDX-License-Identifier: Apache-2.0
# make soak [CASES=1000000] [SEED=1]: StreamFS's model test for as long as it takes, then kills and mutants.
#   A case that fails tells its seed: SFS_SEED=n build/tests/unit/test_streamfs_model runs it alone.
# make mutants [MUTANTS="name ..."] [CASES=10000]: the model test against StreamFS with one fault each.
# The quicker ones, the faults that it must find in any case, are a part of make check.

SEED ?= 1
MUTANTS_QUICK := no-sync no-root-sync root-before-data evicted-early header-again scan-any-generation \
	late-any-generation map-over-headers hash-without-times no-proof
run_mutants = PACKRACK_BUILD=$(BUILD) COMPILE='$(CC) $(CPPFLAGS) $(ALL_CFLAGS)' \
	LIBRARIES='$(LDFLAGS) -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(PKG_LIBS)' tests/mutants/streamfs.py

soak: $(BUILD)/tests/unit/test_streamfs_model $(BUILD)/tests/unit/test_streamfs_kill
	$(Q)SFS_SEED=$(SEED) SFS_CASES=$(or $(CASES),1000000) $(BUILD)/tests/unit/test_streamfs_model
	$(Q)SFS_SEED=$(SEED) SFS_KILLS=500 $(BUILD)/tests/unit/test_streamfs_kill
	$(Q)$(run_mutants)
mutants: $(BUILD)/tests/unit/test_streamfs_model
	$(Q)CASES=$(CASES) $(run_mutants) $(MUTANTS)
check-mutants: $(BUILD)/tests/unit/test_streamfs_model
	$(Q)$(run_mutants) $(MUTANTS_QUICK)
# sanitizers slow the search down, and have nothing to add to it
ifeq ($(SAN),)
check: check-mutants
endif
.PHONY: soak mutants check-mutants
