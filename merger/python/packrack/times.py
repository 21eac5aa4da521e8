# SPDX-License-Identifier: Apache-2.0
"""Whatever people call a time, as ns since 1970 UTC."""
import re
import time as clock
from datetime import datetime, timedelta, timezone

from .errors import RequestError

TIME_MIN, TIME_MAX = -2 ** 63, 2 ** 63 - 1
NS = 10 ** 9
UNITS = {"": NS, "ns": 1, "us": 1000, "ms": 10 ** 6, "s": NS, "m": 60 * NS, "h": 3600 * NS, "d": 86400 * NS}
for word, unit in (("sec", "s"), ("second", "s"), ("min", "m"), ("minute", "m"), ("hour", "h"), ("day", "d")):
    UNITS[word] = UNITS[word + "s"] = UNITS[unit]
DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?)?"
                  r"(Z|z|[+-]\d\d:\d\d)?$", re.A)
OFFSET = re.compile(r"([+-]?)(\d+)(?:\.(\d+))? *([a-z]*)( ago)?$", re.A)
DAY = re.compile(r"(yesterday|today|tomorrow)?(?:(^| )(\d?\d:.*))?$", re.A)
UNIX = re.compile(r"@(-?)(\d+)(?:\.(\d+))?$", re.A)
WRONG = ("%r is not a time (like 2026-11-21T00:40:00Z, 09:30, yesterday 10:30, 5m, 5 min ago, -3h, @1700000000.5 "
         "or now; a datetime; a float of seconds; an int of nanoseconds)")


def fraction(digits, worth=NS):
    """'25' of a second as ns; what is finer is dropped."""
    return int(digits or 0) * worth // 10 ** len(digits or "")


def from_datetime(when):
    """To the microsecond. One without a zone is local, as everywhere in Python."""
    since = when.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(microseconds=1) * 1000


def from_date(match):
    date, minutes, seconds, digits, zone = match.groups()
    text = "%s %s:%s" % (date, minutes or "00:00", seconds or "00")
    when = datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
    if zone:
        when = datetime.strptime(text + zone.upper().replace("Z", "+00:00"), "%Y-%m-%d %H:%M:%S%z")
    return from_datetime(when) + fraction(digits)


def from_text(text):
    if text == "now":
        return clock.time_ns()
    match = OFFSET.match(text)
    if match and match[4] in UNITS and (match[1] or match[4] or match[5]) and not (match[1] and match[5]):
        unit = UNITS[match[4]]
        ns = int(match[2]) * unit + fraction(match[3], unit)
        return clock.time_ns() + (ns if match[1] == "+" else -ns)
    match = DAY.match(text)
    if match and text:
        day = datetime.now() + timedelta(days=DAYS.get(match[1], 0))
        hour = match[3] and match[3].zfill(len(match[3]) + (match[3][1] == ":"))
        text = day.strftime("%Y-%m-%d") + ("T" + hour if hour else "")
    match = UNIX.match(text)
    if match:
        ns = int(match[2]) * NS + fraction(match[3])
        return -ns if match[1] else ns
    match = DATE.match(text)
    if not match:
        raise ValueError
    return from_date(match)


def time_ns(when):
    """From RFC 3339 and the other forms that `packrack query --since` takes; a datetime; a float:
    seconds since 1970; an int: nanoseconds, as in Packet.time."""
    try:
        if isinstance(when, bool):
            raise ValueError
        if isinstance(when, int):
            ns = int(when)
        elif isinstance(when, datetime):
            ns = from_datetime(when)
        elif isinstance(when, str):
            ns = from_text(when)
        elif hasattr(when, "__float__"):
            ns = round(float(when) * NS)
        else:
            raise ValueError
    except (ValueError, OverflowError):
        raise RequestError(WRONG % (when,)) from None
    return min(max(ns, TIME_MIN), TIME_MAX)


def format_time(ns):
    """RFC 3339 in UTC with nine digits, as packrack prints times."""
    if ns == TIME_MIN:
        return "the beginning"
    if ns == TIME_MAX:
        return "the end"
    seconds, rest = divmod(ns, NS)
    when = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    return "%s.%09dZ" % (when.strftime("%Y-%m-%dT%H:%M:%S"), rest)
