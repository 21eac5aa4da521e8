# SPDX-License-Identifier: Apache-2.0
# make install DESTDIR= PREFIX=/usr: programs, libraries, man pages, units, completions, the lab; make uninstall.
# make deb: Debian packages, in build/deb. make check-package: both, in a fresh Debian 12.

PREFIX ?= /usr
SYSCONFDIR ?= /etc
MULTIARCH = $(shell $(CC) -print-multiarch)
LIBDIR ?= $(PREFIX)/lib/$(MULTIARCH)
INCLUDEDIR ?= $(PREFIX)/include
# where wireshark looks for programs that it captures from
EXTCAPDIR ?= $(LIBDIR)/wireshark/extcap
UNITDIR ?= $(PREFIX)/lib/systemd/system
# Debian's Python looks here; /usr has one folder for all versions
PYTHONDIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell \
	python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])'))/dist-packages
# Debian's zsh looks here; who installs below /usr/local has the folder that every zsh looks at
ZSHDIR ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
DOCDIR := $(PREFIX)/share/doc/packrack
SHAREDIR := $(PREFIX)/share/packrack
SBIN_PROGRAMS := packrack-dispatcher packrack-logger packrack-indexer packrack-merger
MAN_PAGES := $(wildcard $(foreach s,1 3 5 7 8,*/*.$(s) */*/*.$(s)))
COMPLETED := packrack $(SBIN_PROGRAMS)
into = $(DESTDIR)$(1)
# $(call put,MODE,FILES,FOLDER)
put = $(Q)install -d $(call into,$(3)) && install -m $(1) $(2) $(call into,$(3))

install: install-programs install-system install-lab install-streamfs install-python
	$(Q)for page in $(MAN_PAGES); do \
		install -D -m 644 $$page $(call into,$(PREFIX)/share/man/man)$${page##*.}/$${page##*/} || exit; done
	$(Q)for name in packrack-console packrack-extcap packrack-flows-form packrack-node packrack-pcap-over-ip packrack-replay packrack-setup packrack-sizing packrack-status; do \
		ln -sfn packrack.1 $(call into,$(PREFIX)/share/man/man1)/$$name.1 || exit; done
	$(Q)ln -sfn ../man7/packrack-keys.7 $(call into,$(PREFIX)/share/man/man1)/packrack-keys.1

install-programs: all
	$(call put,755,$(addprefix $(BUILD)/,packrack packrack-console packrack-stage packrack-watch packrack-web packrack-flows-form packrack-flows-to packrack-pivot packrack-setup packrack-sizing packrack-status packrack-node packrack-keys packrack-extcap packrack-pcap-over-ip packrack-replay),$(PREFIX)/bin)
	$(call put,644,$(BUILD)/packrack_cli.py,$(SHAREDIR))
	$(call put,644,$(BUILD)/page.html,$(SHAREDIR)/web)
	$(call put,644,$(wildcard $(BUILD)/watch.d/*.watch),$(SHAREDIR)/watch.d)
	$(call put,755,$(addprefix $(BUILD)/,$(SBIN_PROGRAMS)),$(PREFIX)/sbin)
	$(Q)install -d $(call into,$(EXTCAPDIR)) && ln -sfn $(PREFIX)/bin/packrack-extcap $(call into,$(EXTCAPDIR))/packrack-extcap
	$(Q)install -d $(call into,$(PREFIX)/share/bash-completion/completions)
	$(Q)for name in $(COMPLETED); do \
		install -m 644 scripts/completion/packrack.bash $(call into,$(PREFIX)/share/bash-completion/completions)/$$name || exit; done
	$(call put,644,scripts/completion/_packrack,$(ZSHDIR))

# Users, folders, units, and what to begin a configuration with.
install-system:
	$(Q)install -d $(call into,$(UNITDIR))
	$(Q)for unit in scripts/systemd/*.service; do \
		sed 's|/usr/\(s*bin\)/|$(PREFIX)/\1/|' $$unit > $(call into,$(UNITDIR))/$${unit##*/} || exit; done
	$(Q)install -D -m 644 scripts/systemd/packrack.sysusers $(call into,$(PREFIX)/lib/sysusers.d/packrack.conf)
	$(Q)install -D -m 644 scripts/systemd/packrack.tmpfiles $(call into,$(PREFIX)/lib/tmpfiles.d/packrack.conf)
	$(Q)install -D -m 640 scripts/packrack.conf $(call into,$(SYSCONFDIR)/packrack/packrack.conf.example)
	$(call put,644,scripts/grafana/packrack.json scripts/grafana/alerts.yaml,$(DOCDIR)/examples/grafana)

# A whole rack in network namespaces, of the installed programs: packrack-lab(8).
install-lab:
	$(call put,755,scripts/rack,$(SHAREDIR)/scripts)
	$(call put,644,$(wildcard scripts/lab/*.sh),$(SHAREDIR)/scripts/lab)
	$(call put,755,$(wildcard scripts/lab/*.py),$(SHAREDIR)/scripts/lab)
	$(call put,644,$(BUILD)/scripts/lab/pass.bpf.o,$(SHAREDIR)/scripts/lab)
	$(Q)install -d $(call into,$(PREFIX)/sbin) && ln -sfn ../share/packrack/scripts/rack $(call into,$(PREFIX)/sbin)/packrack-lab

# The store by itself: streamfs(3), pkg-config streamfs.
install-streamfs: all
	$(call put,644,$(BUILD)/libstreamfs.a,$(LIBDIR))
	$(Q)for header in $(STREAMFS_HEADERS); do \
		install -D -m 644 $(BUILD)/include/$$header $(call into,$(INCLUDEDIR)/streamfs)/$$header || exit; done
	$(Q)install -d $(call into,$(LIBDIR)/pkgconfig)
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
		logger/streamfs/streamfs.pc.in > $(call into,$(LIBDIR)/pkgconfig/streamfs.pc)
	$(call put,644,tests/examples/streamfs_example.c tests/examples/stage_example.c,$(DOCDIR)/examples)
	$(call put,644,indexer/stages/packrack-stage.h,$(INCLUDEDIR))

install-python: all
	$(call put,644,$(wildcard $(BUILD)/python/packrack/*.py),$(PYTHONDIR)/packrack)
	$(call put,644,merger/python/README.md $(wildcard merger/python/examples/*.py),$(DOCDIR)/examples/python)

# Away goes what this tree installs there, folders that are then empty too; configuration and volumes stay.
uninstall:
	$(Q)set -e; list=$$(mktemp -d); trap 'rm -rf "$$list"' EXIT; \
	$(MAKE) -s install DESTDIR="$$list"; cd "$$list"; \
	find . ! -type d -print0 | (cd "$(or $(DESTDIR),/)" && xargs -0 rm -f --); \
	find . -depth -mindepth 1 -type d -print0 | \
		(cd "$(or $(DESTDIR),/)" && xargs -0 rmdir --ignore-fail-on-non-empty 2> /dev/null) || :

# dpkg-buildpackage wants debian/ at the top of a tree of its own. All that it makes lies in build/deb/all;
# build/deb/*.deb is what one installs (not the symbols for debuggers).
DEB := $(BUILD)/deb
DEB_TREE := $(DEB)/all/packrack-$(VERSION)
deb:
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB_TREE)
	$(Q)if [ -e .git ]; then git ls-files -z; else find . -path ./build -prune -o -type f -print0; fi | \
		tar -c --null -T - | tar -x -C $(DEB_TREE)
	$(Q)cp -r scripts/debian $(DEB_TREE)/debian
	$(Q)cd $(DEB_TREE) && dpkg-buildpackage -us -uc $(DEB_FLAGS)
	$(Q)for package in $(DEB)/all/*.deb; do \
		case $$package in *-dbgsym_*) ;; *) ln $$package $(DEB)/ || exit ;; esac; done

check-package:
	$(Q)tests/package/fresh

.PHONY: uninstall deb check-package $(addprefix install-,programs system lab streamfs python)
