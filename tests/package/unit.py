#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the command of a systemd unit where no systemd runs, with what the unit grants and no more.

  unit.py UNIT SECONDS [NAMESPACE]    prints "ready PID" when the command has said READY=1, and goes on
                                      until it ends or we get SIGTERM, which it is sent as well

User, groups, ambient and bounding capabilities, NoNewPrivileges, UMask, LimitMEMLOCK and Nice are the
unit's; WatchdogSec is passed on and its keep-alives are demanded.
"""
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time


def settings_of(path):
    """Of [Service]: what is given twice adds up, as systemd has it for the lists that we use."""
    found, section = {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                found[name] = (found.get(name, "") + " " + value).strip()
    return found


def capabilities(text):
    return ",".join("+" + name[4:].lower() for name in text.split())


def command_of(unit, namespace):
    """nsenter into the namespace, then setpriv to what the unit grants."""
    line = ["setpriv", "--reuid", unit["User"], "--regid", unit["Group"]]
    groups = unit.get("SupplementaryGroups", "").split()
    line += ["--groups", ",".join([unit["Group"]] + groups)]
    line += ["--bounding-set", "-all" + ("," + capabilities(unit["CapabilityBoundingSet"])
                                         if unit["CapabilityBoundingSet"] else "")]
    if unit.get("AmbientCapabilities"):
        line += ["--inh-caps", capabilities(unit["AmbientCapabilities"])]
        line += ["--ambient-caps", capabilities(unit["AmbientCapabilities"])]
    if unit.get("NoNewPrivileges") == "yes":
        line += ["--no-new-privs"]
    line += shlex.split(unit["ExecStart"])
    inside = ["nsenter", "--net=/run/netns/" + namespace] if namespace else []
    return inside + ["nice", "-n", unit.get("Nice", "0")] + line


def limit(unit):
    """Only what the unit grants may be locked; a container may not let us grant it."""
    wanted = resource.RLIM_INFINITY if unit.get("LimitMEMLOCK") == "infinity" else 65536
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (wanted, wanted))
    except (PermissionError, ValueError):
        print("LimitMEMLOCK stays", resource.getrlimit(resource.RLIMIT_MEMLOCK), flush=True)


class Supervisor:
    """The socket on which a service says what it does."""

    def __init__(self, unit):
        self.folder = tempfile.mkdtemp(prefix="packrack-unit.")
        os.chmod(self.folder, 0o711)
        self.path = os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)
        self.socket.settimeout(0.1)
        self.watchdog = float(unit.get("WatchdogSec", "0").rstrip("s"))
        self.heard = None

    def environment(self):
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NOTIFY_SOCKET": self.path}
        if self.watchdog:
            env["WATCHDOG_USEC"] = str(int(self.watchdog * 1e6))
        return env

    def listen(self):
        try:
            said = self.socket.recv(4096).decode().split("\n")
        except socket.timeout:
            return []
        self.heard = time.monotonic()
        return said

    def late(self):
        return self.watchdog and self.heard and time.monotonic() - self.heard > self.watchdog

    def close(self):
        self.socket.close()
        os.unlink(self.path)
        os.rmdir(self.folder)


def supervise(child, supervisor, deadline):
    ready = False
    while child.poll() is None:
        if "READY=1" in supervisor.listen() and not ready:
            ready = True
            print("ready", child.pid, flush=True)
        if not ready and time.monotonic() > deadline:
            print("not ready in time", flush=True)
            child.terminate()
            deadline = float("inf")
        if supervisor.late():
            print("no keep-alive for %g s" % supervisor.watchdog, flush=True)
            child.kill()
    return child.returncode


def main(argv):
    if len(argv) not in (3, 4):
        sys.exit(__doc__)
    unit = settings_of(argv[1])
    os.umask(int(unit.get("UMask", "0022"), 8))
    limit(unit)
    supervisor = Supervisor(unit)
    child = subprocess.Popen(command_of(unit, argv[3] if len(argv) == 4 else None),
                             env=supervisor.environment(), stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        status = supervise(child, supervisor, time.monotonic() + float(argv[2]))
    finally:
        supervisor.close()
    print("ended", status, flush=True)
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
