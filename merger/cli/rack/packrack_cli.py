# SPDX-License-Identifier: Apache-2.0
"""The command line of packrack's commands that are Python programs: options, their values, --help, output, exit status.

Names, errors and --help have the form of the commands that are of C (proto/base/options.h).
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any, Callable, NamedTuple, Optional

DONE, FAILED, USAGE, PARTLY = 0, 1, 2, 3
NS = 10**9
HELP_WIDTH, FLAGS_WIDTH = 80, 28
ERROR_MAX, WORD_MAX = 511, 64  # as struct pr_error, options.c
STATUSES = "Exit status: 0 done and complete, 1 failed, 2 bad usage, 3 done in part or needs attention."


class Mistake(Exception):
    """Bad usage: one line."""


class Failure(Exception):
    """It was not done: one line."""


class Option(NamedTuple):
    name: str  # without dashes
    letter: str  # "": none
    arg: str  # name of the value in the help; "": a flag
    help: str
    value: Callable[[str], Any] = str  # of the text; ValueError: what is wrong with it
    default: Optional[str] = None  # as a user would write it
    required: bool = False
    repeatable: bool = False
    alias: str = ""  # an older name, not in the help


class Command(NamedTuple):
    name: str  # "packrack setup"
    usage: str
    summary: str
    options: list
    footer: str
    # values of the options -> exit status, text; ends with Mistake, Failure, OSError. None: the packrack of C has this command
    run: Optional[Callable[[dict], tuple]]
    mistaken: int = USAGE  # exit status of bad usage
    operands: int = 0  # how many it takes, which are values["operands"]; -1: any number
    help: str = ""  # in the list of its group
    commands: tuple = ()  # of a group


def group(name, summary, *commands):
    """Of commands whose names begin with name."""
    lines = ["Commands:"] + ["  %-12s %s" % (c.name.split()[-1], c.help) for c in commands]
    footer = "\n".join(lines + ["'%s help COMMAND' describes one. %s" % (name, STATUSES)])
    return Command(name, "COMMAND ...", summary, [], footer, None, operands=-1, commands=commands)


FORM_OPTIONS = [Option("json", "", "", "print JSON"), Option("keyvalue", "", "", "print lines of key=value")]
TIMES = '2026-11-21T09:30:00Z, "2026-11-21 09:30", 09:30, yesterday, "yesterday 10:30", 5m, "5 min ago", -3h, +1h, @1700000000.5, ' \
        "now (local time, by TZ, if without a zone)"
KEY = Option("key-dir", "", "DIR", "your key directory, or none [default: $PACKRACK_KEY, ~/.config/packrack/keys or /etc/packrack/keys]",
                 alias="key")
HELP = Option("help", "h", "", "show this and exit")
VERSION = Option("version", "", "", "show the version and exit")


# ---- values: numbers with units, as proto/base/units.h has them; ValueError: it is not one ----

PREFIXES = "KMGTPE"
DURATIONS = {"": NS, "ns": 1, "us": 1000, "ms": NS // 1000, "s": NS, "m": 60 * NS, "h": 3600 * NS, "d": 86400 * NS}
DURATIONS.update({word + s: DURATIONS[word[0]] for word in ("sec", "second", "min", "minute", "hour", "day") for s in ("", "s")})
RATES = {"bit": 1, "bit/s": 1, "bps": 1, "B": 8, "B/s": 8}


def number(text):
    """The number before the unit, in billionths, and the unit."""
    found = re.fullmatch(r"([0-9]{1,20})(?:\.([0-9]+))?(|[^0-9.].*)", text, re.S)
    if not found or int(found[1]) >> 64:
        raise ValueError
    return int(found[1] + (found[2] or "")[:9].ljust(9, "0")), found[3]


def prefix(unit, base):
    """The factor of the unit's prefix, and what is behind it."""
    power = PREFIXES.find(unit[:1].upper()) + 1 if unit else 0
    return base**power, unit[1:] if power else unit


def product(billionths, factor, bits=64):
    result = billionths * factor // NS
    if result >> bits:
        raise ValueError
    return result


def size(text):
    billionths, unit = number(text)
    factor, unit = prefix(unit, 1000 if unit[1:].upper() == "B" else 1024)
    if unit.upper() not in ("", "B") and (factor == 1 or unit.upper() != "IB"):
        raise ValueError
    return product(billionths, factor)


def count(text):
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    billionths, unit = number(text)
    factor, unit = prefix(unit, 1000)
    if unit or (factor == 1 and billionths % NS):
        raise ValueError
    return product(billionths, factor)


def duration(text):
    """In ns."""
    billionths, unit = number(text)
    if unit not in DURATIONS:
        raise ValueError
    return product(billionths, DURATIONS[unit], 63)


def rate(text):
    """A second: bits and None, or None and packets."""
    billionths, unit = number(text)
    factor, unit = prefix(unit, 1000) if re.match("[kA-Z]", unit) else (1, unit)
    unit = unit[1:] if unit[:1] == " " else unit
    if unit in ("pps", "p/s"):
        return None, billionths / NS * factor
    if unit not in RATES:
        raise ValueError
    return billionths / NS * factor * RATES[unit], None


def percent(text):
    billionths, unit = number(text)
    if unit not in ("", "%"):
        raise ValueError
    return billionths / NS


KINDS = {count: "a whole number (like 500, 10k or 2M)", size: "a size (like 64K, 1M or 2GiB)", duration: "a duration (like 50ms, 2s or 1h)"}


def within(kind, low, high):
    """The parser of such values from low to high, which are written as users write them."""
    def value(text):
        try:
            result = kind(text)
        except ValueError:
            raise ValueError("'%s' is not %s" % (text, KINDS[kind])) from None
        if not kind(low) <= result <= kind(high):
            raise ValueError("%s is out of range: give %s to %s" % (text, low, high))
        return result
    return value


# ---- arguments ----


def distance(a, b):
    """Levenshtein's."""
    row = range(len(b) + 1)
    for i, c in enumerate(a, 1):
        line = [i]
        for j, d in enumerate(b, 1):
            line.append(min(row[j - 1] + (c != d), row[j] + 1, line[-1] + 1))
        row = line
    return row[-1]


def nearest(word, names):
    """What was probably meant, or None."""
    return min((name for name in names if 2 * distance(word, name) <= max(len(word), len(name)) <= WORD_MAX),
               key=lambda name: distance(word, name), default=None)


def named(command, options, word):
    """The name that is meant, of which the beginning is enough, and its option."""
    names = {"--" + name: o for o in options for name in (o.name, o.alias) if name}
    found = [word] if word in names else [name for name in names if name.startswith(word)]
    if len(found) == 1:
        return found[0], names[found[0]]
    near = nearest(word[2:], [o.name for o in options])
    raise Mistake("unknown option %s; %s" % (word[:WORD_MAX + 2], "did you mean --%s?" % near if near else "'%s --help' lists the options" % command.name))


def lettered(command, options, word):
    for option in options:
        if word[1] == option.letter:
            return option
    raise Mistake("unknown option %s; '%s --help' lists the options" % (word[:2], command.name))


def given(command, words):
    """(as it was written, option, text of its value or None) of each option; text: of an operand."""
    options, words = command.options + [HELP, VERSION], list(words)
    while words:
        word = words.pop(0)
        operand = word == "-" or not word.startswith("-")
        if operand:
            yield "", None, word
        if word == "--" or operand and command.commands:
            yield from (("", None, rest) for rest in words)
            return
        if operand:
            continue
        text = None
        if word.startswith("--"):
            word, equals, text = word.partition("=")
            text = text if equals else None
            word, option = named(command, options, word)
        else:
            option = lettered(command, options, word)
            if option.arg:
                text = word[2:] or None
            elif word[2:]:
                words.insert(0, "-" + word[2:])
            word = word[:2]
        if text is not None and option in (HELP, VERSION):
            raise Mistake("--%s takes no value" % option.name)
        if option.arg and text is None:
            if not words:
                raise Mistake("%s needs a value: %s %s" % (word, word, option.arg))
            text = words.pop(0)
        yield word, option, text


def switched(text):
    for words, value in ((("yes", "true", "on", "1"), True), (("no", "false", "off", "0"), False)):
        if text is None or text.lower() in words:
            return value
    raise ValueError("'%s' is neither yes nor no" % text)


def parse(command, words):
    """Values of the options by name; None: the help was asked for, or the version, and is printed."""
    values = {o.name: [] if o.repeatable else False if not o.arg else o.value(o.default) if o.default else None for o in command.options}
    arguments, operands = [], []
    for word, option, text in given(command, words):
        if option in (HELP, VERSION):
            write(help_of(command) if option is HELP else "%s %s\n" % (command.name, version()))
            return None
        if option:
            arguments.append((word, option, text))
        else:
            operands.append(text)
    for word, option, text in arguments:
        try:
            value = option.value(text) if option.arg else switched(text)
        except ValueError as e:
            raise Mistake("%s: %s" % (word, e)) from None
        values[option.name] = values[option.name] + [value] if option.repeatable else value
    if operands and not command.operands:
        raise Mistake("unexpected '%s': only options are taken; see '%s --help'" % (operands[0], command.name))
    for o in command.options:
        if o.required and values[o.name] is None:
            raise Mistake("--%s %s is missing: %s" % (o.name, o.arg, o.help))
    if command.operands > 0 and len(operands) != command.operands:
        raise Mistake("usage: %s %s" % (command.name, command.usage))
    return dict(values, operands=operands)


# ---- help ----


def help_of(command):
    lines = ["usage: %s %s" % (command.name, command.usage), "", command.summary, "", "options:"]
    for o in command.options + [HELP, VERSION]:
        flags = "%s--%s%s" % ("  -%s, " % o.letter if o.letter else " " * 6, o.name, " " + o.arg if o.arg else "")
        more = [" [required]"] * o.required + [" [repeatable]"] * o.repeatable + [" [default: %s]" % o.default] * bool(o.default)
        text = textwrap.wrap(o.help + "".join(more), HELP_WIDTH - FLAGS_WIDTH - 2, break_long_words=False, break_on_hyphens=False)
        if len(flags) > FLAGS_WIDTH:
            lines.append(flags)
            flags = ""
        lines.append("%-*s  %s" % (FLAGS_WIDTH, flags, text[0]))
        lines += [" " * (FLAGS_WIDTH + 2) + line for line in text[1:]]
    return "\n".join(lines + ["", command.footer, ""])


def packrack():
    """The path of the packrack beside the program."""
    return os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "packrack")


def find_package():
    """The Python package of packrack can be imported from now on: as it is built, or as it is installed, wherever that is."""
    here = os.path.dirname(packrack())
    if os.path.isdir(here + "/python/packrack"):
        sys.path.insert(0, here + "/python")
    own = map(os.path.realpath, glob.glob(here + "/../lib/python3*/dist-packages"))
    sys.path[1:1] = [path for path in own if path not in sys.path]  # before one that another installation has


def version():
    shown = subprocess.run([packrack(), "--version"], stdout=subprocess.PIPE, check=False).stdout
    return shown.decode().strip().rpartition(" ")[2]


# ---- output ----


NOT_PLAIN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")  # pr_text_plain()


def plain(text, keep=""):
    """As one line that a terminal can show: a ? for each byte that it must not get."""
    return NOT_PLAIN.sub(lambda c: c[0] if c[0] in keep else "?" * len(c[0].encode(errors="replace")), text)


def flat(name, value):
    """As lines of key=value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is not None:
        return "".join(flat("%s.%s" % (name, key), item) for key, item in items)
    return "%s=%s\n" % (name, plain(str(value).lower() if isinstance(value, bool) else str(value)))


def data(values, **fields):
    """The fields as --json or --keyvalue wants them; None: as text for people."""
    if values["json"]:
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    return "".join(flat(*field) for field in fields.items()) if values["keyvalue"] else None


def local_time(at):
    """RFC 3339, of ns since 1970."""
    local = time.localtime(at // NS)
    hours, minutes = divmod(abs(local.tm_gmtoff) // 60, 60)
    zone = "%s%02d:%02d" % ("-" if local.tm_gmtoff < 0 else "+", hours, minutes) if local.tm_gmtoff else "Z"
    return time.strftime("%Y-%m-%dT%H:%M:%S", local) + ".%09d" % (at % NS) + zone


def write(text):
    if not text:
        return
    with open(1, "w", encoding="utf-8", errors="replace", closefd=False) as out:
        out.write(text)


def choose(command, words):
    """Runs the command of the group that the first word names; returns the exit status."""
    if not words:
        print("%s: no command given\n%s" % (command.name, command.footer), file=sys.stderr)
        return USAGE
    wants_help = words[0] == "help"
    if wants_help:  # help COMMAND ... is COMMAND ... --help
        words = words[1:] + ["--help"] if words[1:] else words
    names = {c.name.split()[-1]: c for c in command.commands}
    if words[0] in names:
        return main(names[words[0]], words[1:])
    if wants_help and words[0] == "help":
        write(command.footer + "\n")
        return DONE
    near = nearest(words[0], names)
    raise Mistake("there is no command '%s'; %s" % (words[0], "did you mean '%s %s'?" % (command.name, near) if near else
                                                    "'%s --help' lists them" % command.name))


def main(command, words=None):
    """Runs it with these words, or those of the command line; returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    status = DONE
    try:
        words = sys.argv[1:] if words is None else words
        if not (command.run or command.commands):
            os.execv(packrack(), [*command.name.split(), *words])
        values = parse(command, words)
        if values is not None and command.commands:
            return choose(command, values["operands"])
        if values is not None:
            status, text = command.run(values)
            write(text)
        return status
    except Mistake as e:
        status, why = command.mistaken, str(e)
    except Failure as e:
        status, why = FAILED, str(e)
    except OSError as e:
        status, why = FAILED, "%s: %s" % (e.filename, e.strerror) if e.filename else "cannot write: %s" % e.strerror
    if why:
        print("%s: %s" % (command.name, plain(why)[:ERROR_MAX]), file=sys.stderr)
    return status
