#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Windows of kept flows that are made together are those that are made alone: watch_together.py PACKRACK KEPT BEGIN UNTIL WATCH..."""
import importlib.machinery
import importlib.util
import os
import sys

PACKRACK, KEPT, BEGIN, UNTIL = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.environ["PACKRACK_COMMAND"] = PACKRACK
loader = importlib.machinery.SourceFileLoader("packrack_watch", os.path.dirname(PACKRACK) + "/packrack-watch")
watches = importlib.util.module_from_spec(importlib.util.spec_from_loader("packrack_watch", loader))
loader.exec_module(watches)
NS = 10**9


def reports(path, together, most):
    """Without how long they took, and how many were made at once."""
    watch = watches.Watch(path)
    server = watches.Server(watches.Asker([], 1))
    analysis, made, at = watches.Analysis(watch, server), [], BEGIN * NS
    while at + watch.window <= UNTIL * NS:
        analysis.together = min(analysis.together, most) if together else 0
        got = analysis.windows(at, (UNTIL * NS - at - watch.window) // watch.slide + 1)
        made += got
        at += len(got) * watch.slide
    server.close()
    at_once = sum("together" in r for r in made)
    assert (analysis.together > 0) is together, "windows could not be made together"
    for r in made:
        r.pop("together", None)
        for part in [r, r["live"]] + r["history"]:
            part.pop("took")
        r["live"].pop("said")  # of all of them
        for told in r["history"] if watch.by else []:  # together all keys are asked for at once
            told.pop("rows"), told.pop("again", None)
    return made, at_once


for name in sys.argv[5:]:
    alone, none = reports(name, False, 0)
    assert none == 0
    for most in (7,):
        made, at_once = reports(name, True, most)
        for a, b in zip(alone, made):
            assert a == b, "%s: alone %s\ntogether %s" % (name, str(a)[:1500], str(b)[:1500])
        assert len(alone) == len(made)
        print("%s: %d windows, %d of them made together, %d rows" % (
            os.path.basename(name), len(made), at_once, sum(len(r["rows"]) for r in made)))
