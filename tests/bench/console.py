#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU that `packrack console` takes at one refresh a second of 200x60, with a simulated rack of 64 nodes."""
import os
import subprocess
import tempfile
import time

import benchlib

BUILD = os.environ.get("PACKRACK_BUILD", "build")
NODES = 64
SECONDS = 20


def main():
    table = benchlib.Table("console")
    with tempfile.TemporaryDirectory(prefix="prc") as at:
        endpoint = f"ipc://{at}/d.sock"
        tmux = ["tmux", "-S", f"{at}/t", "-f", "/dev/null"]
        sim = subprocess.Popen([f"{BUILD}/tests/bench/rack_sim", endpoint, str(NODES)])
        try:
            subprocess.run([*tmux, "new-session", "-d", "-s", "c", "-x", "200", "-y", "60",
                            f"exec env LC_ALL=C.UTF-8 {BUILD}/packrack console -d {endpoint}"], check=True)
            pid = int(subprocess.run([*tmux, "list-panes", "-t", "c", "-F", "#{pane_pid}"], check=True,
                                     capture_output=True, text=True).stdout)
            for key, screen in (("1", "METRICS"), ("3", "NODES"), ("7", "RACK")):
                subprocess.run([*tmux, "send-keys", "-t", "c", key], check=True)
                time.sleep(2)
                text = subprocess.run([*tmux, "capture-pane", "-p", "-t", "c"], check=True,
                                      capture_output=True, text=True).stdout
                if f"[{key} {screen}]" not in text or "capturing" not in text:
                    raise SystemExit(f"the console does not show {screen}:\n{text}")
                before = benchlib.cpu_seconds(pid)
                time.sleep(SECONDS)
                used = benchlib.cpu_seconds(pid) - before
                table.row(f"{screen}, {NODES} nodes, 1 refresh a second", "% of a CPU",
                          round(100 * used / SECONDS, 2), less_is_better=True)
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
            sim.terminate()
            sim.wait()
    table.write()


if __name__ == "__main__":
    main()
