"""A headless Chromium, driven over a pipe by the DevTools protocol, without a library.

`make browser` puts it into .venv/browser. https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(sys.prefix) / "browser"
PROGRAM = FOLDER / "chromium"
ANSWER_SECONDS = 30.0

FLAGS = ("--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars")
FONTS = '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>{}</dir></fontconfig>'

WITH_PIPES = """
import os, sys
os.dup2(int(sys.argv[1]), 10)
os.dup2(int(sys.argv[2]), 11)
os.dup2(10, 3)
os.dup2(11, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and writes answers to descriptor 4."""


@dataclass(slots=True)
class Browser:
    """One tab. `complaints` are messages, errors and dialogs of the page, and what it loads."""

    commands: int
    answers: int
    session: str = ""
    complaints: list[str] = field(default_factory=list)
    _number: int = 0
    _read: bytes = b""

    def open(self, page: Path, *, width: int, scheme: str, height: int = 900) -> None:
        """Load a page at a width in CSS pixels, with `prefers-color-scheme` light or dark."""
        self.complaints.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page.as_uri())
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        end = time.monotonic() + ANSWER_SECONDS
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"

    def screenshot(self, *, width: int, height: int) -> bytes:
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self.commands, json.dumps(asked | ({"sessionId": self.session} if self.session else {})).encode() + b"\0"
        )
        while True:
            said = self._next(method)
            if said.get("id") == self._number:
                assert "error" not in said, f"{method}: {said['error']}"
                return dict(said["result"])
            self._note(said)

    def _next(self, method: str) -> dict[str, Any]:
        end = time.monotonic() + ANSWER_SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser does not answer {method}"
            got = os.read(self.answers, 1 << 20)
            assert got, f"the browser ended at {method}"
            self._read += got
        said, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(said))

    def _note(self, event: dict[str, Any]) -> None:
        match event["method"], event.get("params", {}):
            case "Network.requestWillBeSent", {"type": kind, "request": {"url": url}} if kind != "Document":
                self.complaints.append(f"loads {url}")
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Page.javascriptDialogOpening", parameters:
                self.complaints.append(f"{event['method']}: {parameters}")
            case "Log.entryAdded", {"entry": entry}:
                self.complaints.append(f"log: {entry['text']}")
            case _:
                pass


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser that keeps its profile in `folder`."""
    (folder / "fonts.conf").write_text(FONTS.format(FOLDER / "fonts"))
    env = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "FONTCONFIG_PATH": str(folder),
        "LD_LIBRARY_PATH": f"{FOLDER / 'lib'}",
    }
    (theirs_in, commands), (answers, theirs_out) = os.pipe(), os.pipe()
    started = [sys.executable, "-S", "-c", WITH_PIPES, str(theirs_in), str(theirs_out)]
    process = subprocess.Popen(
        [*started, str(PROGRAM), *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
        pass_fds=(theirs_in, theirs_out),
        env=env,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    made = Browser(commands, answers)
    try:
        target = made.call("Target.createTarget", url="about:blank")["targetId"]
        made.session = made.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            made.call(f"{domain}.enable")
        yield made
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
