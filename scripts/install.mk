# SPDX-License-Identifier: Apache-2.0
# make install DESTDIR= PREFIX=/usr: programs, man pages, units, completions. make deb: Debian packages, in build/deb.

PREFIX ?= /usr
SYSCONFDIR ?= /etc
# where wireshark looks for programs that it captures from
EXTCAPDIR ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch)/wireshark/extcap
UNITDIR ?= $(PREFIX)/lib/systemd/system
SBIN_PROGRAMS := packrack-dispatcher packrack-logger packrack-indexer packrack-merger
MAN_PAGES := $(wildcard $(foreach s,1 3 5 7 8,*/*.$(s) */*/*.$(s)))
COMPLETED := packrack $(SBIN_PROGRAMS)
into = $(DESTDIR)$(1)

install: all
	$(Q)install -d $(call into,$(PREFIX)/bin) $(call into,$(PREFIX)/sbin) $(call into,$(UNITDIR)) \
		$(call into,$(PREFIX)/lib/sysusers.d) $(call into,$(PREFIX)/lib/tmpfiles.d) $(call into,$(SYSCONFDIR)/packrack) \
		$(call into,$(PREFIX)/share/bash-completion/completions) $(call into,$(PREFIX)/share/zsh/site-functions)
	$(Q)install -m 755 $(BUILD)/packrack $(call into,$(PREFIX)/bin)
	$(Q)install -d $(call into,$(EXTCAPDIR)) && ln -sfn $(PREFIX)/bin/packrack $(call into,$(EXTCAPDIR))/packrack-extcap
	$(Q)install -m 755 $(addprefix $(BUILD)/,$(SBIN_PROGRAMS)) $(call into,$(PREFIX)/sbin)
	$(Q)for page in $(MAN_PAGES); do \
		install -D -m 644 $$page $(call into,$(PREFIX)/share/man/man)$${page##*.}/$${page##*/} || exit; done
	$(Q)for unit in scripts/systemd/*.service; do \
		sed 's|/usr/sbin/|$(PREFIX)/sbin/|' $$unit > $(call into,$(UNITDIR))/$${unit##*/} || exit; done
	$(Q)install -m 644 scripts/systemd/packrack.sysusers $(call into,$(PREFIX)/lib/sysusers.d)/packrack.conf
	$(Q)install -m 644 scripts/systemd/packrack.tmpfiles $(call into,$(PREFIX)/lib/tmpfiles.d)/packrack.conf
	$(Q)install -m 640 scripts/packrack.conf $(call into,$(SYSCONFDIR)/packrack)/packrack.conf.example
	$(Q)for name in $(COMPLETED); do \
		install -m 644 scripts/completion/packrack.bash $(call into,$(PREFIX)/share/bash-completion/completions)/$$name || exit; done
	$(Q)install -d $(call into,$(PREFIX)/share/doc/packrack/examples/grafana)
	$(Q)install -m 644 scripts/grafana/packrack.json scripts/grafana/alerts.yaml \
		$(call into,$(PREFIX)/share/doc/packrack/examples/grafana)
	$(Q)install -m 644 scripts/completion/_packrack $(call into,$(PREFIX)/share/zsh/site-functions)/_packrack

# dpkg-buildpackage wants debian/ at the top of a tree of its own.
DEB := $(BUILD)/deb
deb:
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)/packrack-$(VERSION)
	$(Q)git ls-files -z | tar -c --null -T - | tar -x -C $(DEB)/packrack-$(VERSION)
	$(Q)cp -r scripts/debian $(DEB)/packrack-$(VERSION)/debian
	$(Q)cd $(DEB)/packrack-$(VERSION) && dpkg-buildpackage -us -uc $(DEB_FLAGS)

.PHONY: deb
