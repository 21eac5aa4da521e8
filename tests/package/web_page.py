#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of packrack web in headless Chromium, by WebDriver (w3.org/TR/webdriver2), light and dark.

usage: web_page.py ADDRESS      as packrack web printed it; the volume has mix-gateway-hdr96-a.pcap
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

KEYS = {"right": "\ue014", "escape": "\ue00c", "enter": "\ue007"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    def __init__(self, folder):
        self.driver = subprocess.Popen(["chromedriver", "--port=9515"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = "http://127.0.0.1:9515/session"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1000", "--user-data-dir=" + folder]
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL"}}}}
        self.until(lambda: self.open(wanted), 60)

    def open(self, wanted):
        try:
            self.base += "/" + self.call("POST", "", wanted)["sessionId"]
        except OSError:
            return False
        return True

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, json.dumps(body or {}).encode() if method == "POST" else None,
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    @staticmethod
    def until(done, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = done()
            if found:
                return found
            time.sleep(0.1)
        raise SystemExit("not within %d s: %s" % (seconds, done))

    def js(self, text):
        return self.call("POST", "/execute/sync", {"script": text, "args": []})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def press(self, selector, keys):
        self.call("POST", "/element/%s/value" % self.find(selector), {"text": keys})

    def drag(self, selector, begin, end):
        box = self.js("const r = document.querySelector('%s').getBoundingClientRect(); return [r.left, r.top, r.width]" % selector)
        move = lambda at: {"type": "pointerMove", "duration": 50, "x": round(box[0] + at * box[2]), "y": round(box[1] + 20)}
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            move(begin), {"type": "pointerDown", "button": 0}, move((begin + end) / 2), move(end), {"type": "pointerUp", "button": 0}]}]})

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def settled(b):
    """The text of the report, when the page has all of its answers."""
    b.until(lambda: b.js("return document.body.getAttribute('aria-busy')") == "false")
    return b.js("return document.getElementById('said').textContent")


def matched(b):
    """Packets, when the page has all of its answers; 0: it has none."""
    settled(b)
    text = b.js("return document.getElementById('range').textContent")
    return int(text.split("; ")[1].split()[0]) if text else 0


def same(what, got, want):
    if got != want:
        raise SystemExit("%s: %r, not %r" % (what, got, want))
    print(what, got)


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        b = Browser(folder)
        try:
            b.call("POST", "/url", {"url": sys.argv[1]})
            assert settled(b).startswith("complete")
            same("the token is not in the address", "token" in b.js("return location.href"), False)
            same("packets of all times", matched(b), 130930)
            same("bars", b.js("return document.querySelectorAll('svg .bar').length") > 200, True)
            b.drag(".links svg", 0.25, 0.5)
            b.until(lambda: "since=" in b.js("return location.hash") and 0 < matched(b) < 130930)
            some = b.until(lambda: settled(b) and matched(b))
            same("a range, dragged", 10000 < some < 100000, True)
            b.press(".links svg", KEYS["right"])
            b.until(lambda: matched(b) not in (0, some))
            same("the key moved it, and the time line keeps the focus", b.until(
                lambda: settled(b) and b.js("return document.activeElement.tagName") == "svg"), True)
            b.press(".links svg", KEYS["escape"])
            b.until(lambda: matched(b) == 130930)
            settled(b)
            b.press("#filter", "udp port 53")
            same("what a search would read, while it is written", b.until(lambda: b.js("return document.getElementById('plan').textContent")).split(" packets")[0],
                 "looks for all of protocol UDP port 53: reads 128503")
            same("and nothing was asked yet", matched(b), 130930)
            b.press("#filter", KEYS["enter"])
            b.until(lambda: 0 < matched(b) < 10000)
            settled(b)
            same("protocols of the flows", b.js("return [...new Set([...document.querySelectorAll('#flows tbody tr td:nth-child(7)')].map(e => e.textContent))].join()"), "udp")
            before = matched(b)
            b.press("#talkers tbody tr", KEYS["enter"])
            b.until(lambda: 0 < matched(b) < before and b.js("return document.getElementById('filter').value").startswith("(udp port 53) and host "))
            settled(b)
            b.js("document.getElementById('filter').value = ''")
            b.press("#filter", "portt 53" + KEYS["enter"])
            b.until(lambda: "portt" in b.js("return document.getElementById('said').textContent") and
                    b.js("return document.getElementById('said').className") == "bad")
            b.js("history.back()")
            b.until(lambda: b.js("return document.getElementById('filter').value").startswith("(udp port 53)"))
            colours = {}
            for scheme in ("light", "dark"):
                b.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-color-scheme", "value": scheme}]}})
                colours[scheme] = b.js("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).map(Number))")
            for scheme, (ink, paper) in colours.items():
                bright = [sum(c) / 3 for c in (ink, paper)]
                same("%s has contrast" % scheme, (bright[1] - bright[0] if scheme == "light" else bright[0] - bright[1]) > 150, True)
            wrong = [m["message"] for m in b.call("POST", "/se/log", {"type": "browser"}) if m["level"] == "SEVERE" and "favicon" not in m["message"] and
                     "400 (Bad Request)" not in m["message"]]
            same("errors that the browser logged", wrong, [])
        finally:
            b.close()


if __name__ == "__main__":
    os.environ.setdefault("HOME", "/root")
    main()
