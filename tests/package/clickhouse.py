#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packrack flows --to and Debian's clickhouse-server: each flow is there once although both are killed, and the queries of
packrack-flows-to(1) give what the flows say.

usage: clickhouse.py DIR CAPTURE... [--kills N] [--page FILE]    in DIR, which is made; ends what it starts
PACKRACK_COMMAND is the command [packrack]. The server listens on loopback only.
"""
import argparse
import collections
import ipaddress
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

PACKRACK = os.environ.get("PACKRACK_COMMAND", "packrack")
CONFIG = """<?xml version="1.0"?>
<yandex>
 <logger><level>warning</level><log>{dir}/server.log</log><errorlog>{dir}/errors.log</errorlog></logger>
 <http_port>{port}</http_port><listen_host>127.0.0.1</listen_host>
 <path>{dir}/data/</path><tmp_path>{dir}/tmp/</tmp_path><format_schema_path>{dir}/format/</format_schema_path>
 <users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
 <mark_cache_size>104857600</mark_cache_size>
</yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex>
 <profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles>
 <users><packrack><password>secret of {dir}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></packrack></users>
 <quotas><default/></quotas>
</yandex>
"""
FAILED = {"S0", "REJ", "RSTOS0", "RSTRH", "SH", "SHR"}


class Server:
    def __init__(self, folder):
        self.folder = folder
        for name in ("data", "tmp", "format"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text.format(dir=folder, port=self.port))
        self.process = None
        self.start()

    def start(self):
        with open(os.path.join(self.folder, "output"), "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(["clickhouse-server", "--config-file=%s/config.xml" % self.folder], cwd=self.folder,
                                            stdout=output, stderr=output)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, query):
        """Waits until it is there."""
        headers = {"X-ClickHouse-User": "packrack", "X-ClickHouse-Key": "secret of " + self.folder}
        for _ in range(600):
            try:
                url = "http://127.0.0.1:%d/?output_format_json_quote_64bit_integers=0" % self.port
                with urllib.request.urlopen(urllib.request.Request(url, query.encode(), headers), timeout=60) as reply:
                    return [json.loads(line) for line in reply] if "JSONEachRow" in query else reply.read().decode()
            except urllib.error.HTTPError as e:
                sys.exit("%s: %s" % (query, e.read().decode()))
            except OSError:
                time.sleep(0.1)
        sys.exit("clickhouse-server does not start: " + self.folder)


def kept(volume):
    """Records by (window, row), and heads of windows."""
    words = [PACKRACK, "flows", "--kept", volume, "--from-window", "1", "--format", "json"]
    objects = [json.loads(line) for line in subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.splitlines()]
    return {(o["window"], o["row"]): o for o in objects if "row" in o}, [o for o in objects if "row" not in o]


def compare(server, want, heads):
    columns = sorted(set().union(*want.values()) - {"window"})
    rows = server.ask("SELECT batch AS window, %s FROM rack.flows FORMAT JSONEachRow" % ", ".join(columns + ["vlan", "sampling", "outgoing"] if "vlan" not in columns else columns))
    have = {(r["window"], r["row"]): {k: v for k, v in r.items() if v is not None} for r in rows}
    batches = server.ask("SELECT batch, records, lost FROM rack.flows_windows ORDER BY batch FORMAT JSONEachRow")
    return len(rows) == len(have) and have == want and batches == [{"batch": h["window"], "records": h["records"], "lost": 0} for h in heads]


def killed(server, sender, kills, want, heads):
    """Both, at random moments; True if all was equal in the end, each time."""
    good = done = rounds = 0
    while done < kills:
        server.ask("DROP TABLE IF EXISTS rack.flows")
        server.ask("DROP TABLE IF EXISTS rack.flows_windows")
        process = sender()
        for what in random.sample(["sender", "server", "sender"], 3):
            time.sleep(random.uniform(0.05, 1))
            if process.poll() is not None:
                break
            done += 1
            if what == "server":
                server.kill()
                server.start()
            else:
                process.kill()
                process.wait()
                process = sender()
        rounds += 1
        good += process.wait() == 0 and compare(server, want, heads)
    print("killed at %d moments, in %d rounds: %d equal" % (done, rounds, good), flush=True)
    return good == rounds


def queries(server, page, flows):
    """Those of the page; their times are those of the flows."""
    with open(page, encoding="utf-8") as f:
        texts = [re.sub(r"now\(\) - \d+", "toDateTime(0)", t.replace("toUnixTimestamp(now()) - 86400", "0")) for t in re.findall(r"^\.Bd -literal.*?\n(SELECT.*?)^\.Ed", f.read(), re.M | re.S)]
    talkers, minutes, failed, known = [server.ask(t + " FORMAT JSONEachRow") for t in texts]
    want = collections.Counter()
    for r in flows:
        want[r["src_ip"]] += r["bytes_sent"]
    good = [r["bytes"] for r in talkers] == [n for _, n in want.most_common(10)] and all(want[r["src_ip"]] == r["bytes"] for r in talkers)
    want = collections.Counter()
    for r in flows:
        want[time.strftime("%Y-%m-%d %H:%M:00", time.gmtime(r["tcqtime"] // 10**9)), r["link"]] += r["bytes_sent"] + r["bytes_recv"]
    good = good and want == {(r["minute"], r["link"]): r["bytes"] for r in minutes}
    want, targets = collections.Counter(), collections.defaultdict(set)
    for r in flows:
        if r["protocol"] == 6 and r["state"] in FAILED and ":" not in r["src_ip"]:
            net = str(ipaddress.ip_network(r["src_ip"] + "/24", strict=False).network_address)
            want[net] += 1
            targets[net].add((r["dst_ip"], r["dst_port"]))
    good = good and [r["failed"] for r in failed] == [n for _, n in want.most_common(10)] and all(want[r["net24"]] == r["failed"] and len(targets[r["net24"]]) == r["targets"] for r in failed)
    print("top talkers %d, minutes %d, networks %d; %s: %s" % (len(talkers), len(minutes), len(failed), known, "equal" if good else "DIFFERENT"))
    return good and len(talkers) == 10 and len(minutes) > 3 and len(failed) > 3 and known[0]["windows"] > 0 and known[0]["partial"] == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--page", default=os.path.join(os.path.dirname(__file__), "../../merger/cli/packrack-flows-to.1"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = os.path.abspath(args.folder)
    os.makedirs(folder)
    volume = folder + "/flows"
    subprocess.run([PACKRACK, "volume", "create", volume, "--size", "1G"], check=True)
    for capture in args.captures:
        subprocess.run([PACKRACK, "flows", "-r", capture, "--keep", volume], check=True, stderr=subprocess.DEVNULL)
    want, heads = kept(volume)
    server = Server(folder)
    try:
        server.ask("CREATE DATABASE rack")
        with open(folder + "/password", "w", encoding="utf-8") as f:
            f.write("secret of " + folder)
        words = [PACKRACK, "flows", "--kept", volume, "--to", "clickhouse://packrack@127.0.0.1:%d/rack.flows" % server.port, "--password-file", folder + "/password"]
        begun = time.monotonic()
        good = subprocess.run(words, check=False).returncode == 0 and compare(server, want, heads)
        print("%d flows of %d windows, %.0f a second with comparing: %s" % (len(want), len(heads), len(want) / (time.monotonic() - begun), "equal" if good else "DIFFERENT"), flush=True)
        good = good and queries(server, args.page, list(want.values()))
        with open(folder + "/sender.log", "a", encoding="utf-8") as log:
            good = killed(server, lambda: subprocess.Popen(words, stderr=log), args.kills, want, heads) and good
        return 0 if good else 1
    finally:
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
