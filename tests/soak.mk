# SPDX-License-Identifier: Apache-2.0
# make soak [CASES=1000000] [SEED=1]: the models of StreamFS and of completeness for as long as it takes, then kills and mutants.
#   A case that fails tells its seed: SFS_SEED=n build/tests/unit/test_streamfs_model runs it alone.
# make mutants [MUTANTS="name ..."] [CASES=10000]: the model test against StreamFS with one fault each; then the model of
#   truth against the programs with one fault each (alone: make truth-mutants [TRUTH_MUTANTS="name ..."]).
# The quicker ones, the faults that it must find in any case, are a part of make check.
# make attack [SECONDS=60] [ATTACK="silent names"]: each attack that is known on every daemon of a rack that works; as root.
# make soak-chaos [MINUTES=120] [SEED=1]: a real rack under chaos, and an account of every packet; as root. What it finds is
#   kept in build/soak-chaos. PACKRACK_PATH=xdp make soak-chaos: by the XDP path.
# make check-long: what takes longer than make check may, before an issue is called resolved; as root, about an hour.

SEED ?= 1
MUTANTS_QUICK := no-sync no-root-sync root-before-data evicted-early header-again scan-any-generation \
	late-any-generation map-over-headers hash-without-times no-proof
run_mutants = PACKRACK_BUILD=$(BUILD) COMPILE='$(CC) $(CPPFLAGS) $(ALL_CFLAGS)' \
	LIBRARIES='$(LDFLAGS) -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(PKG_LIBS)' tests/mutants/streamfs.py

# those that find a mutant
TRUTH_TESTS := $(addprefix $(BUILD)/tests/unit/test_,truth_model completeness completeness_gone \
	completeness_observed losses match match_calls query_gone)
run_truth_mutants = PACKRACK_BUILD=$(BUILD) COMPILE='$(CC) $(CPPFLAGS) $(ALL_CFLAGS)' \
	WRAP='$(WRAP_test_truth_model)' LIBRARIES='$(LDFLAGS) -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(CHECK_LIBS) $(PKG_LIBS)' \
	tests/mutants/truth.py

soak: $(addprefix $(BUILD)/tests/unit/test_,streamfs_model streamfs_kill retention) $(TRUTH_TESTS)
	$(Q)SFS_SEED=$(SEED) SFS_CASES=$(or $(CASES),1000000) $(BUILD)/tests/unit/test_streamfs_model
	$(Q)RETENTION_SEED=$(SEED) RETENTION_CASES=1000 $(BUILD)/tests/unit/test_retention
	$(Q)TRUTH_SEED=$(SEED) TRUTH_CASES=$(or $(CASES),1000000) $(BUILD)/tests/unit/test_truth_model
	$(Q)SFS_SEED=$(SEED) SFS_KILLS=500 $(BUILD)/tests/unit/test_streamfs_kill
	$(Q)$(run_mutants)
	$(Q)$(run_truth_mutants)
mutants: $(BUILD)/tests/unit/test_streamfs_model $(TRUTH_TESTS)
	$(Q)CASES=$(CASES) $(run_mutants) $(MUTANTS)
	$(Q)CASES=$(CASES) $(run_truth_mutants) $(TRUTH_MUTANTS)
truth-mutants: $(TRUTH_TESTS)
	$(Q)CASES=$(CASES) $(run_truth_mutants) $(TRUTH_MUTANTS)
check-mutants: $(BUILD)/tests/unit/test_streamfs_model
	$(Q)$(run_mutants) $(MUTANTS_QUICK)
# sanitizers slow the search down, and have nothing to add to it
ifeq ($(SAN),)
check: check-mutants
endif

attack: all
	$(Q)PACKRACK_BUILD=$(BUILD) tests/attack/run --seconds $(SECONDS) $(ATTACK)

chaos: all $(BUILD)/tests/system/faulty_switch
soak-chaos: chaos
	$(Q)PACKRACK_BUILD=$(BUILD) tests/soak/run --minutes $(or $(MINUTES),120) --seed $(SEED)

# Each part is a target of its own; another file of make may add its part to check-long.
LONG_FUZZ_SECONDS ?= 120
check-long: lint check-san truth-mutants attack-short chaos-short fuzz-long check-system-long
# PACKRACK_OLD_BUILD=DIR: a build of the version before, for racks of both
check-system-long: all
	$(Q)PACKRACK_BUILD=$(BUILD) prove --timer tests/system/long/*.t
check-san:
	$(Q)$(MAKE) SAN=address,undefined check-unit
attack-short: all
	$(Q)PACKRACK_BUILD=$(BUILD) tests/attack/run --seconds 5
chaos-short: chaos
	$(Q)PACKRACK_BUILD=$(BUILD) tests/soak/run --minutes 1 --seed $(SEED) --path packet
	$(Q)PACKRACK_BUILD=$(BUILD) tests/soak/run --minutes 1 --seed $(SEED) --path xdp --keep $(BUILD)/soak-chaos-xdp
fuzz-long:
	$(Q)$(MAKE) SECONDS=$(LONG_FUZZ_SECONDS) fuzz
.PHONY: soak soak-chaos chaos chaos-short mutants truth-mutants check-mutants attack check-long check-san attack-short fuzz-long check-system-long
