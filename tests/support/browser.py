"""A headless browser: opens a page, and reports its content, requests and errors."""

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from tests.support.process import as_user, new_folder
from tools.servers import browser_program

ANSWER_S = 30.0
"""How long the browser may take to answer: a loaded machine needs seconds, and one that never will must not hang."""
ABOUT_BLANK = "about:blank"
# The browser is spoken to over the descriptors 3 and 4: no port, and it ends by itself when this process does.
# They are moved there by a Python of its own, since a process with threads must not run code between fork and exec.
_STARTER = """
import os, sys
import fcntl
reading, writing = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])
os.dup2(reading, 3); os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserFailed(Exception):
    """The browser refused something, or did not answer."""


class Browser:
    """Chromium, driven by its DevTools protocol; a page at a time. Close it, or use it in a `with`."""

    def __init__(self) -> None:
        program = browser_program()
        assert program is not None, "there is no Chromium; make servers installs it"
        self._folder = new_folder("browser")
        self._sent = 0
        self._kept = b""
        self._events: list[dict[str, Any]] = []
        theirs_in, self._writing = os.pipe()
        self._reading, theirs_out = os.pipe()
        words = [*as_user(None, "KILL"), program, *_options(self._folder)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _STARTER, str(theirs_in), str(theirs_out), *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for the tests, which then close it
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.ask("Target.createTarget", url=ABOUT_BLANK)["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def open(self, address: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file or an address, and wait until it is loaded; forgets the previous page's requests and messages."""
        url = address.resolve().as_uri() if isinstance(address, Path) else address
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        answer = self.ask("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserFailed(f"{url} did not open: {answer['errorText']}")
        self._wait("Page.loadEventFired")

    def resize(self, width: int, height: int) -> None:
        """Give the page so many pixels."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is awaited."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserFailed(f"the page raised: {json.dumps(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def move_mouse(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press a key by its name, such as ArrowRight."""
        for type in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=type, key=key, code=key)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like as PNG: all of it, or what the window shows."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self, path: Path) -> None:
        """Save the page as PDF, as printed."""
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", printBackground=False)["data"]))

    @property
    def requests(self) -> list[str]:
        """The addresses that the page requested, its own included."""
        self.run("0")  # an answer comes behind all that was told before it
        return [event["params"]["request"]["url"] for event in self._of("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[str]:
        """Messages on the console, uncaught errors, and complaints of the browser."""
        self.run("0")
        said = [" ".join(_shown(value) for value in event["params"]["args"]) for event in self._of(_CONSOLE)]
        raised = [json.dumps(event["params"]["exceptionDetails"]) for event in self._of("Runtime.exceptionThrown")]
        logged = [event["params"]["entry"]["text"] for event in self._of("Log.entryAdded")]
        return said + raised + logged

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its answer."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while (answer := self._next(method)).get("id") != self._sent:
            self._events.append(answer)
        if "error" in answer:
            raise BrowserFailed(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._writing)
        os.close(self._reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self._events if event["method"] == method]

    def _wait(self, method: str) -> None:
        while not self._of(method):
            self._events.append(self._next(method))

    def _next(self, what: str) -> dict[str, Any]:
        end = time.monotonic() + ANSWER_S
        while b"\0" not in self._kept:
            if not select.select([self._reading], [], [], max(end - time.monotonic(), 0))[0]:
                raise BrowserFailed(f"Chromium gave no answer to {what} in {ANSWER_S:.0f} s")
            part = os.read(self._reading, 1 << 20)
            if not part:
                raise BrowserFailed(f"Chromium ended at {what} with {self._process.wait()}")
            self._kept += part
        message, _, self._kept = self._kept.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed


_CONSOLE = "Runtime.consoleAPICalled"


def _shown(value: dict[str, Any]) -> str:
    return str(value.get("value", value.get("description", value["type"])))


def _options(folder: Path) -> list[str]:
    options = ["--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-gpu", "--no-first-run", "--headless"]
    options += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--mute-audio"]
    options += ["--disable-dev-shm-usage"]  # a container's /dev/shm is often too small for a page
    # Chromium refuses to sandbox what root runs; the pages of tests are our own.
    return [*options, "--no-sandbox"] if os.geteuid() == 0 else options
