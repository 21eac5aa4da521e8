# SPDX-License-Identifier: Apache-2.0
# One Makefile: every folder becomes an archive, every program links a few of them.
#   make            programs in build/            make check      all tests
#   make SAN=address,undefined check              make lint       format, cppcheck, includes
#   make fuzz [SECONDS=60]                        make bench[-NAME]
#   make install DESTDIR=                         V=1 shows the commands

SAN ?=
comma := ,
BUILD ?= $(if $(SAN),build/san-$(subst $(comma),-,$(SAN)),build)
# One name for one folder: .d files name targets, and would say nothing of the same by another name.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
CC ?= gcc
V ?= 0
.DEFAULT_GOAL := all
ifeq ($(V),0)
Q := @
say = @printf '  %-7s %s\n' $(1) $(2)
else
say = @:
endif

PKGS := libpcap libzmq libsodium libprotobuf-c libevent_core libevent_extra libevent_pthreads inih jansson libxxhash liburing libmd zlib libzstd libseccomp
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) $(shell libnet-config --libs 2>/dev/null) -lpthread -lm
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)

VERSION := 0.1.0
CPPFLAGS += -D_GNU_SOURCE -DPACKRACK_VERSION='"$(VERSION)"' -I. -I$(BUILD)
CFLAGS ?= -O2 -g
# Hardening, whatever CFLAGS are: tests/system/25_install.t reads it in the programs. `make HARDEN_CFLAGS= HARDEN_LDFLAGS=`
# builds without. Checked copies need an optimizer, and sanitizers have their own.
MACHINE := $(shell $(CC) -dumpmachine)
HARDEN_CFLAGS := -fPIE -fstack-protector-strong \
	$(if $(filter x86_64-% i%86-%,$(MACHINE)),-fcf-protection)$(if $(filter aarch64-%,$(MACHINE)),-mbranch-protection=standard) \
	$(if $(SAN)$(filter -O0 -Og,$(CFLAGS)),,$(if $(filter -O%,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3))
HARDEN_LDFLAGS := -pie -Wl,-z,relro,-z,now
ALL_CFLAGS := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror \
	-fno-omit-frame-pointer $(CFLAGS) $(HARDEN_CFLAGS) $(PKG_CFLAGS)
ifneq ($(SAN),)
ALL_CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SAN)
endif
# It does not know fences; what they keep in order are atomic words, of which it has nothing to say.
ifneq ($(findstring thread,$(SAN)),)
ALL_CFLAGS += -Wno-tsan
endif

# folder -> archive, lowest layer first
base_DIR := proto/base
wire_DIR := proto/wire
rpc_DIR := proto/rpc
port_DIR := proto/port
streamfs_DIR := logger/streamfs
dispatcher_DIR := dispatcher
logger_DIR := logger
indexer_DIR := indexer indexer/index indexer/filter indexer/query indexer/flows
stages_DIR := indexer/stages
merger_DIR := merger
cli_DIR := merger/cli $(addprefix merger/cli/,query volume flows rack trace stage)
MODULES := base wire rpc port streamfs dispatcher logger indexer stages merger cli

rpc_GEN := $(BUILD)/proto/rpc/packrack.pb-c.o
define module
lib$(1)_OBJS := $$(patsubst %.c,$(BUILD)/%.o,$$(filter-out %/main.c %.bpf.c,$$(wildcard $$(addsuffix /*.c,$$($(1)_DIR))))) $$($(1)_GEN)
$(1)_LIB := $(BUILD)/lib$(1).a
$(BUILD)/lib$(1).a: $$(lib$(1)_OBJS) $(BUILD)/lib$(1).members
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

# A library by itself, without the rest of packrack: streamfs(3). build/include has its two headers.
libstreamfs_OBJS += $(addprefix $(BUILD)/proto/base/,error.o clock.o runtime_dir.o units.o field_table.o text.o thread.o)
$(BUILD)/libstreamfs.a: $(libstreamfs_OBJS)
STREAMFS_HEADERS := streamfs.h proto/base/error.h
$(BUILD)/include/streamfs.h: logger/streamfs/streamfs.h
	$(Q)mkdir -p $(@D) && cp $< $@
$(BUILD)/include/%.h: %.h
	$(Q)mkdir -p $(@D) && cp $< $@
STREAMFS_LIBS = $(shell pkg-config --libs libxxhash liburing) -lpthread
EXAMPLES := $(BUILD)/tests/examples/streamfs_example
$(EXAMPLES): $(BUILD)/%: %.c $(BUILD)/libstreamfs.a $(addprefix $(BUILD)/include/,$(STREAMFS_HEADERS))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) -std=c11 -Wall -Wextra -Werror $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN)) \
		-I$(BUILD)/include $(LDFLAGS) -o $@ $< $(BUILD)/libstreamfs.a $(STREAMFS_LIBS)

LOW := $(BUILD)/libport.a $(BUILD)/librpc.a $(BUILD)/libwire.a $(BUILD)/libbase.a
packrack-dispatcher_MAIN := dispatcher
packrack-dispatcher_LIBS := $(BUILD)/libdispatcher.a $(LOW)
packrack-dispatcher_PKGS := -lbpf
packrack-logger_MAIN := logger
packrack-logger_LIBS := $(BUILD)/liblogger.a $(BUILD)/libstreamfs.a $(LOW)
packrack-indexer_MAIN := indexer
packrack-indexer_LIBS := $(BUILD)/libindexer.a $(BUILD)/libstreamfs.a $(LOW)
packrack-merger_MAIN := merger
packrack-merger_LIBS := $(BUILD)/libmerger.a $(BUILD)/libstreamfs.a $(LOW)
# addresses are mapped with AES
packrack-merger_PKGS := $(shell pkg-config --libs libcrypto 2>/dev/null)
packrack_MAIN := merger/cli
# the kernel reads around what it starts from the disk: the less debug information lies there, the sooner it runs
COMPRESS_DEBUG ?= zlib
packrack_LDFLAGS := -Wl,--as-needed -Wl,--compress-debug-sections=$(COMPRESS_DEBUG)
packrack_LIBS := $(BUILD)/libcli.a $(BUILD)/libmerger.a $(BUILD)/libindexer.a $(BUILD)/liblogger.a \
	$(BUILD)/libstreamfs.a $(LOW)
# `packrack stage` and `packrack grep` start it: it alone needs a pattern matcher
packrack-stage_MAIN := merger/cli/stage
packrack-stage_LIBS := $(BUILD)/libstages.a $(packrack_LIBS)
packrack-stage_LDFLAGS := $(packrack_LDFLAGS)
packrack-stage_PKGS := $(shell pkg-config --libs libhs libcrypto 2>/dev/null)
PROGRAMS := $(foreach p,packrack-dispatcher packrack-logger packrack-indexer packrack-merger packrack packrack-stage,\
	$(if $(wildcard $($(p)_MAIN)/main.c),$(p)))
ALL_LIBS := $(packrack_LIBS) $(BUILD)/libstages.a $(BUILD)/libdispatcher.a

# The Python package as it can be imported: PYTHONPATH=build/python. Installed by pip, see its README.
PYTHON := $(patsubst merger/python/%,$(BUILD)/python/%,$(wildcard merger/python/packrack/*.py)) \
	$(BUILD)/python/packrack/packrack_pb2.py $(BUILD)/python/packrack/old_names.py
$(BUILD)/python/packrack/packrack_pb2.py: proto/rpc/packrack.proto
	$(call say,PROTOC,$@)
	$(Q)mkdir -p $(@D) && protoc --proto_path=$(<D) --python_out=$(@D) $<
# the names of older programs' counters, as C has them
$(BUILD)/python/packrack/old_names.py: proto/rpc/status.c
	$(Q)mkdir -p $(@D) && (echo 'OLD_NAMES = {' && sed -n '/old_names\[\]/,/};/p' $< | grep -o '"[a-z_]*=[a-z_]*"' | sed 's/=/": "/; s/$$/,/' && echo '}') > $@
$(BUILD)/python/%.py: merger/python/%.py
	$(Q)mkdir -p $(@D) && cp $< $@

# Programs of Python, and what lies beside them: as they are installed.
SCRIPTS := $(patsubst merger/watch/%,$(BUILD)/%,merger/watch/packrack-watch $(wildcard merger/watch/watch.d/*)) \
	$(BUILD)/packrack-web $(BUILD)/page.html $(BUILD)/packrack-flows-form $(BUILD)/packrack-flows-to $(BUILD)/packrack-pivot \
	$(BUILD)/packrack-setup $(BUILD)/packrack-sizing $(BUILD)/packrack-status $(BUILD)/packrack-node $(BUILD)/packrack-keys $(BUILD)/packrack_cli.py $(BUILD)/packrack-console \
	$(BUILD)/packrack-extcap $(BUILD)/packrack-pcap-over-ip $(BUILD)/packrack-replay
$(filter-out %-web %.html %-flows-form %-flows-to %-pivot %-console %-setup %-sizing %-status %-node %-keys %-extcap %-ip %-replay %.py,$(SCRIPTS)): $(BUILD)/%: merger/watch/%
	$(Q)mkdir -p $(@D) && cp -p $< $@
$(BUILD)/packrack-flows-form $(BUILD)/packrack-flows-to: $(BUILD)/%: merger/cli/flows/%
	$(Q)cp -p $< $@
$(BUILD)/packrack-setup $(BUILD)/packrack-sizing $(BUILD)/packrack-status $(BUILD)/packrack-node $(BUILD)/packrack-keys $(BUILD)/packrack_cli.py: $(BUILD)/%: merger/cli/rack/%
	$(Q)mkdir -p $(@D) && cp -p $< $@
$(BUILD)/packrack-pivot: $(BUILD)/%: merger/pivot/%
	$(Q)cp -p $< $@
$(BUILD)/packrack-console: $(BUILD)/%: merger/cli/console/%
	$(Q)cp -p $< $@
$(BUILD)/packrack-extcap $(BUILD)/packrack-pcap-over-ip $(BUILD)/packrack-replay: $(BUILD)/%: merger/cli/trace/%
	$(Q)cp -p $< $@
$(BUILD)/packrack-web $(BUILD)/page.html: $(BUILD)/%: merger/web/%
	$(Q)mkdir -p $(@D) && cp -p $< $@

all: $(BUILD)/scripts/lab/pass.bpf.o $(SCRIPTS) $(addprefix $(BUILD)/,$(PROGRAMS)) $(BUILD)/libstreamfs.a $(addprefix $(BUILD)/include/,$(STREAMFS_HEADERS)) $(PYTHON)

define program
$(BUILD)/$(1): $(BUILD)/$($(1)_MAIN)/main.o $($(1)_OBJS) $($(1)_LIBS)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(HARDEN_LDFLAGS) $$(LDFLAGS) $$($(1)_LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(PKG_LIBS) $$($(1)_PKGS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))

$(BUILD)/%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)
# Its members by name, written when they change: sources come and go that are older than the archive.
$(BUILD)/%.members: FORCE
	@mkdir -p $(@D) && printf '%s\n' $($(notdir $*)_OBJS) | cmp -s - $@ || printf '%s\n' $($(notdir $*)_OBJS) > $@
# What was built with less hardening is built again.
$(BUILD)/hardening: FORCE
	@mkdir -p $(@D) && echo $(HARDEN_CFLAGS) $(HARDEN_LDFLAGS) | cmp -s - $@ || echo $(HARDEN_CFLAGS) $(HARDEN_LDFLAGS) > $@
FORCE:

$(BUILD)/%.o: %.c $(BUILD)/hardening
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The XDP programs, and they as arrays of C with a loader. No header of glibc: they want those of other machines.
BPF_CLANG ?= clang
$(BUILD)/%.bpf.o: %.bpf.c proto/port/ip.bpf.h proto/port/fast_record.h proto/port/shunt_record.h proto/wire/fingerprint.h
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(BPF_CLANG) -target bpf -mcpu=v3 $(if $(filter x86_64-%,$(MACHINE)),-DORDERED_STORES) -O2 -g -ffreestanding -Wall -Werror -I. -I/usr/include/$(MACHINE) -c -o $@ $<
$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(Q)bpftool gen skeleton $< name pr_$(notdir $*)_bpf > $@
$(BUILD)/proto/port/fast.o: | $(BUILD)/proto/port/fast.skel.h
$(BUILD)/proto/port/shunt.o: | $(BUILD)/proto/port/shunt.skel.h
.SECONDARY: $(BUILD)/proto/port/fast.bpf.o $(BUILD)/proto/port/shunt.bpf.o

# SQL as a text of C
$(BUILD)/%.sql.h: %.sql
	$(Q)mkdir -p $(@D) && sed '/^--/d; s/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(BUILD)/merger/cli/flows/flow_file.o: | $(BUILD)/merger/cli/flows/flow_file.sql.h

# generated code is not ours to lint
$(BUILD)/proto/rpc/packrack.pb-c.c: proto/rpc/packrack.proto
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(BUILD) && protoc-c --c_out=$(BUILD) $<
# a recipe, or make thinks that the header is as old as it was before the other was made
$(BUILD)/proto/rpc/packrack.pb-c.h: $(BUILD)/proto/rpc/packrack.pb-c.c
	@:
$(BUILD)/proto/rpc/packrack.pb-c.o: $(BUILD)/proto/rpc/packrack.pb-c.c $(BUILD)/hardening
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -Wno-unused-parameter -Wno-missing-prototypes -c -o $@ $<
$(foreach m,rpc port indexer stages merger cli dispatcher logger,$(filter-out %.pb-c.o,$(lib$(m)_OBJS))) \
$(addsuffix .o,$(addprefix $(BUILD)/,$(basename $(wildcard */main.c merger/cli/main.c merger/cli/stage/main.c tests/*/*.c)))): | $(BUILD)/proto/rpc/packrack.pb-c.h

# unit tests: adding one means adding tests/unit/test_NAME.c
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
wrap = $(foreach f,$(1),-Wl,--wrap=$(f))
WRAP_test_port_xdp := $(call wrap,socket bind setsockopt getsockopt close mmap munmap sendto)
WRAP_test_truth_model := $(call wrap,pr_now_real pr_now_mono pr_nonce_make pr_log_at pr_transmit_add pr_transmit_send \
	pr_transmit_counters pr_transmit_trouble pr_control_add pr_control_flush pr_netdev_open pr_carrier_read \
	pr_netdev_receive_drops pr_capture_open pr_capture_close pr_capture_take pr_capture_linktype pr_capture_drops \
	sfs_open sfs_close sfs_disk_open sfs_open_queue)
$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(ALL_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(WRAP_$*) -o $@ $< -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(CHECK_LIBS) $(PKG_LIBS) -lbpf $(packrack-stage_PKGS)

# test helpers and benchmarks: one program a file
TOOLS := $(patsubst %.c,$(BUILD)/%,$(filter-out %.bpf.c,$(wildcard tests/system/*.c tests/bench/*.c)))
$(TOOLS): $(BUILD)/%: $(BUILD)/%.o $(ALL_LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(ALL_LIBS) -Wl,--end-group $(PKG_LIBS) -lbpf $(packrack-stage_PKGS)

# Suites wait more than they work (deadlines, disks), so several run at once; each one's words stay together.
UNIT_JOBS ?= 4
# A path with a comma cannot be an rpath; the tests find programs by PACKRACK_BUILD.
check-unit: $(UNIT)
	@rm -f $(BUILD)/tests/unit/failed; printf '%s\n' $(UNIT) | CK_DEFAULT_TIMEOUT=120 tests/tidy xargs -n 1 -P $(UNIT_JOBS) \
		sh -c 'said=$$("$$0" 2>&1); rc=$$?; printf "%s\n" "$$said"; [ $$rc = 0 ] || echo "$$0" >> $(BUILD)/tests/unit/failed; exit $$rc' || \
		{ sed 's/^/failed: /' $(BUILD)/tests/unit/failed 2> /dev/null; exit 1; }
# They wait more than they work, so several run at once.
# Those that take longest begin first, so that none of them is left alone at the end.
SYSTEM := $(patsubst %,tests/system/%.t,52_xdp 50_stage)
SYSTEM += $(filter-out $(SYSTEM),$(sort $(wildcard tests/system/*.t)))
SYSTEM_JOBS ?= 2
# No file takes three minutes: one that hangs fails, and the others are run.
check-system: all $(TOOLS) $(EXAMPLES)
	@PACKRACK_BUILD=$(BUILD) prove --timer -j $(SYSTEM_JOBS) --exec 'timeout --foreground -k 60 1200 bash' $(SYSTEM)
# Live packets and what was not observed, by the other path; 52_xdp.t goes by it in any case.
check-xdp: all
	@PACKRACK_PATH=auto PACKRACK_BUILD=$(BUILD) prove --timer -j $(SYSTEM_JOBS) --exec 'timeout --foreground -k 60 1200 bash' \
		tests/system/11_live.t tests/system/17_observed.t
# What check runs, built only: with -j, where check itself does one thing after the other.
check-build: all $(UNIT) $(TOOLS) $(EXAMPLES)
check: all check-unit check-system check-xdp

-include tests/fuzz/fuzz.mk tests/soak.mk tests/system/soak.mk tests/bench/bench.mk scripts/lint.mk scripts/install.mk

clean:
	rm -rf build

.PHONY: all check check-build check-unit check-system check-xdp lint fuzz bench clean install
# objects of a unit test: kept
.SECONDARY: $(addsuffix .o,$(UNIT))
-include $(shell find $(BUILD) -name deb -prune -o -type f -name '*.d' -print 2>/dev/null)
