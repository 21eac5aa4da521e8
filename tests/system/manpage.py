#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a man page (mdoc) describe the options that --help lists, and no others?

usage: COMMAND --help | tests/system/manpage.py PAGE [SUBSECTION...]

With SUBSECTIONs only the options under `.Ss SUBSECTION` count. Names, letters, arguments and
defaults must agree. Prints each difference; exit 1 if there is any.
"""
import re
import sys

BUILT_IN = {"help", "version", "config"}


def of_help(text):
    """name -> (letter, argument, default)"""
    options, name = {}, None
    for line in text.splitlines():
        start = re.match(r" {2}(?:-(\w), | {4})--([\w-]+)(?: (\S+))?(?: +(.*))?$", line)
        if start:
            letter, name, argument, rest = start.groups()
            options[name] = [letter, argument, rest or ""]
        elif name and line.startswith(" " * 20):
            options[name][2] += " " + line.strip()
        else:
            name = None
    for option in options.values():
        default = re.search(r"\[default: ([^\]]+)\]$", option[2])
        option[2] = default.group(1) if default else None
    return options


def within(text, subsection):
    found = re.search(r"^\.Ss %s\n(.*?)(?=^\.S[sh] |\Z)" % re.escape(subsection), text,
                      re.M | re.S)
    return found.group(1) if found else sys.exit("manpage: no .Ss %s" % subsection)


def of_page(text):
    options = {}
    for head, body in re.findall(r"^\.It (Fl [^\n]*)\n(.*?)(?=^\.It |^\.El)", text, re.M | re.S):
        start = re.match(r"Fl (?:(\w) , Fl )?-([\w-]+)(?: Ar (\S+))?", head)
        if not start:
            sys.exit("manpage: cannot read: .It %s" % head)
        letter, name, argument = start.groups()
        plain = re.sub(r"^\.\w+ ", "", re.sub(r"\\&", "", body), flags=re.M).replace("\n", " ")
        default = re.search(r"The default is (.+?)(?:[.:]? |[.:]$)", plain)
        options[name] = [letter, argument, default.group(1) if default else None]
    return options


def differences(shown, written):
    for name in sorted(shown.keys() | written.keys()):
        if name in BUILT_IN and (name in written) != (name in shown):
            continue  # said once for all commands of a page
        if name not in written:
            yield "--%s is not in the page" % name
        elif name not in shown:
            yield "--%s is in the page and not in --help" % name
        elif name not in BUILT_IN:
            (letter, argument, default), (l, a, d) = shown[name], written[name]
            if letter != l:
                yield "--%s is -%s in --help, -%s in the page" % (name, letter, l)
            if (argument or "").split("[")[0] != (a or ""):
                yield "--%s takes %s in --help, %s in the page" % (name, argument, a)
            if default and " " not in default and default != d:
                yield "--%s: the default is %s in --help, %s in the page" % (name, default, d)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        page = f.read()
    if len(sys.argv) > 2:
        page = "".join(within(page, name) for name in sys.argv[2:])
    shown = of_help(sys.stdin.read())
    found = list(differences(shown, of_page(page)))
    for line in found:
        print("%s: %s" % (sys.argv[1], line))
    if not shown:
        sys.exit("manpage: no options in the help")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
