# SPDX-License-Identifier: Apache-2.0
# make fuzz [SECONDS=60] [FUZZ=NAME]: each target for so long, then findings and the lines reached.
# Adding a target means adding tests/fuzz/fuzz_NAME.c (its first comment says which files it covers)
# and its first inputs in make_corpus.c or a corpus_NAME.c. A short run with a fixed seed is part of `make check`.

FUZZ_CC := $(firstword $(shell command -v clang-14 clang 2>/dev/null))
FUZZ_DIR := build/fuzz
FUZZ ?= $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
SECONDS ?= 60
# the parsers of hostile bytes, and what they stand on
FUZZ_SRCS := dispatcher/cutoff.c dispatcher/rules.c $(filter-out %/main.c %.bpf.c proto/port/fast.c,$(wildcard $(foreach d,$(base_DIR) $(wire_DIR) $(rpc_DIR) $(port_DIR) $(streamfs_DIR) \
	$(logger_DIR) $(indexer_DIR) $(stages_DIR) $(merger_DIR) $(cli_DIR),$(addsuffix /*.c,$(d)))))
libfuzzed_OBJS := $(patsubst %.c,$(FUZZ_DIR)/%.o,$(FUZZ_SRCS)) $(FUZZ_DIR)/packrack.pb-c.o
CORPUS_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/fuzz/*corpus*.c))
FUZZ_BINS := $(FUZZ:%=$(FUZZ_DIR)/fuzz_%)
# One build both for the sanitizers and for the count of lines reached. Volumes have small roots, maps and blocks:
# clearing, copying and checking large ones took most of a run.
FUZZ_CFLAGS := -DSFS_MAP_INTERVAL=4u -DSFS_ROOT_BYTES=32768u -DSFS_STREAMS_MAX=64u -DSFS_BLOCK_MIN=32768u -DROOT_STILL=0 -std=c11 -Wall -Wextra -O1 -g -fno-omit-frame-pointer $(PKG_CFLAGS) \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
	-fprofile-instr-generate -fcoverage-mapping

$(FUZZ_DIR)/%.o: %.c | $(BUILD)/proto/rpc/packrack.pb-c.h
	$(call say,FUZZCC,$<)
	$(Q)mkdir -p $(@D) && $(FUZZ_CC) $(CPPFLAGS) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<
$(FUZZ_DIR)/proto/port/shunt.o: | $(BUILD)/proto/port/shunt.skel.h
$(FUZZ_DIR)/packrack.pb-c.o: $(BUILD)/proto/rpc/packrack.pb-c.c
	$(call say,FUZZCC,$<)
	$(Q)mkdir -p $(@D) && $(FUZZ_CC) $(CPPFLAGS) $(FUZZ_CFLAGS) -w -c -o $@ $<
$(FUZZ_DIR)/libfuzzed.a: $(libfuzzed_OBJS) $(FUZZ_DIR)/libfuzzed.members
$(FUZZ_BINS): $(FUZZ_DIR)/fuzz_%: $(FUZZ_DIR)/tests/fuzz/fuzz_%.o $(FUZZ_DIR)/libfuzzed.a
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -fprofile-instr-generate -o $@ $^ $(PKG_LIBS) -lbpf $(packrack-stage_PKGS)
$(BUILD)/tests/fuzz/make_corpus: $(CORPUS_OBJS) $(ALL_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(CORPUS_OBJS) -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(PKG_LIBS) $(packrack-stage_PKGS)

fuzz: all $(FUZZ_BINS) $(BUILD)/tests/fuzz/make_corpus
	$(Q)$(BUILD)/tests/fuzz/make_corpus $(FUZZ_DIR)/seeds
	$(Q)tests/tidy tests/fuzz/run --seconds $(SECONDS) $(FUZZ)
	$(Q)PACKRACK_BUILD=$(BUILD) tests/tidy tests/fuzz/texts.py --seconds $(SECONDS)

ifeq ($(FUZZ_CC),)
check-fuzz:
	@echo "no clang here: fuzzing is left out (scripts/install-deps installs it)"
else
check-fuzz: $(FUZZ_BINS) $(BUILD)/tests/fuzz/make_corpus
	$(Q)$(BUILD)/tests/fuzz/make_corpus $(FUZZ_DIR)/seeds
	$(Q)tests/tidy tests/fuzz/run --runs 20000 $(FUZZ)
endif
check-texts: all
	$(Q)PACKRACK_BUILD=$(BUILD) tests/tidy tests/fuzz/texts.py --runs 400
# the fuzzers bring sanitizers of their own
ifeq ($(SAN),)
check: check-fuzz check-texts
ifneq ($(FUZZ_CC),)
check-build: $(FUZZ_BINS) $(BUILD)/tests/fuzz/make_corpus
endif
endif
.PHONY: check-fuzz check-texts
-include $(shell find $(FUZZ_DIR) -name '*.d' 2>/dev/null)
