# SPDX-License-Identifier: Apache-2.0
# make bench runs every benchmark, make bench-NAME one: tests/bench/NAME.py or .sh. A benchmark is
# what can be executed there; adding one means adding the file (with its programs beside it as .c).

BENCHES := $(sort $(basename $(notdir $(shell find tests/bench -maxdepth 1 -name '*.py' -o -name '*.sh'))))
# what the benchmarks share
BENCHES := $(filter-out %lib grow,$(BENCHES))
# only by name: they need hours, or tens of GB
LONG_BENCHES := index-26gb

bench: $(addprefix bench-,$(filter-out $(LONG_BENCHES),$(BENCHES)))

# One at a time even with -j: they measure.
$(addprefix bench-,$(BENCHES)): bench-%: all $(TOOLS) $(BUILD)/tests/bench/live.bpf.o
	$(call say,BENCH,$*)
	$(Q)flock $(BUILD) env PACKRACK_BUILD=$(BUILD) \
		$(firstword $(wildcard tests/bench/$*.py tests/bench/$*.sh))

bench-%:
	@echo "make: no benchmark '$*': there are $(BENCHES)" >&2; exit 2

.PHONY: $(addprefix bench-,$(BENCHES))
