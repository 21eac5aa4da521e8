#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""interrupts.py PROGRAM FIRST LAST STEP ARGUMENT...: runs a Python program again and again, and sends it SIGTERM before the Nth line
that it runs, once it catches SIGTERM: N is FIRST, FIRST + STEP, ... LAST. Each time it has to end within 10 s. Prints how often it did
with which status; fails if one is not 0, 1 or 3."""
import collections
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time

PATIENCE = 10  # seconds


def run(program, at, arguments):
    loader = importlib.machinery.SourceFileLoader("program", program)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
    loader.exec_module(module)
    lines = 0

    def trace(frame, event, _argument):
        nonlocal lines
        if frame.f_code.co_filename != program:
            return None
        if event == "line" and signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            lines += 1
            if lines == at:
                os.kill(os.getpid(), signal.SIGTERM)
        return trace
    sys.argv = [program, *arguments]
    sys.settrace(trace)
    status = module.main()
    return status if lines >= at else 99  # it ended before its Nth line


def main():
    program, first, last, step = os.path.realpath(sys.argv[1]), *map(int, sys.argv[2:5])
    ends = collections.Counter()
    for at in range(first, last + 1, step):
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os._exit(run(program, at, sys.argv[5:]))
        end, pid = time.monotonic() + PATIENCE, 0
        while not pid and time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.002)
        if not pid:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            sys.exit("interrupted at line %d that it ran, it did not end" % at)
        ends[os.waitstatus_to_exitcode(status)] += 1
    print(dict(ends))
    sys.exit(bool(set(ends) - {0, 1, 3}))


if __name__ == "__main__":
    main()
