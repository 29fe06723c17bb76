"""Transcripts in the docs: commands and what they print, to be played again and compared, or written anew."""

import re
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.model.clock import monotonic_ms
from headrace.model.times import instant_text, read_instant_ms
from tests.cli.support import environment, in_terminal

COLUMNS = 170
"""The width of the terminal: no table of the page is folded."""
FOLDER = "/first"
"""How the page calls the folder in which it was played."""
BEGIN_AT_MS = 1_896_091_200_000
"""When the page says that it was played: written anew, its times stay the same but for their distances."""
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}(?:-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b|[0-9a-f-]*…)")
"""A generated id, or its first part as a table shows it."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_DIFFERING = {
    # A hint, and on a machine that is slow enough it comes once more.
    re.compile(r"^no worker has polled .*$\n?", re.MULTILINE): "",
    _ID: "ID",
    _TIME: "TIME",
    re.compile(r"\S+:\d+:[0-9a-f]{6}\b"): "WORKER",
    re.compile(r"\b\d+(\.\d+)? (ms|s|m|h|d)( \d+ (s|m|h))?\b"): "LONG",
    re.compile(r"(?<=_ms=)\d+"): "LONG",
    re.compile(r"\bin \d+\.\d+s\b"): "in LONG",
    re.compile(r"\b\d+(\.\d+)+\b|(?<=schema )\d+ of \d+"): "VERSION",
    re.compile(r"─+"): "─",
    re.compile(r"[ \t]+"): " ",
}
"""What is not the same twice, and the room it takes."""


class Step(NamedTuple):
    """A command, and what it printed."""

    command: str
    output: str


class Played(NamedTuple):
    """A step as it went here."""

    step: Step
    code: int
    seconds: float
    cpu_seconds: float
    """What a machine that does other things as well cannot make longer."""


def steps(page: str) -> list[Step]:
    """The steps of a page, in order: a line that begins with `$` is a command, what follows is its output."""
    found = []
    for block in _BLOCK.findall(page):
        assert block.startswith("$ "), f"a transcript begins with a command; found {block[:40]!r}"
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Step(command, output.rstrip()))
    return found


def play(page: Iterable[Step], folder: Path) -> list[Played]:
    """Run the commands in a terminal, one after the other; an id on the page stands for the id in this run."""
    programs = str(Path(sys.executable).parent)
    # A plain terminal: what would be drawn and wiped out again is not drawn.
    env = environment(more={"TERM": "dumb", "COLUMNS": str(COLUMNS), "LINES": "40", "PYTHONDONTWRITEBYTECODE": "1"})
    env["PATH"] = f"{programs}:{env['PATH']}"
    names: dict[str, str] = {}
    played = []
    for step in page:
        command = _renamed(step.command, names)
        started_ms, cpu_before = monotonic_ms(), _cpu_seconds()
        ran = in_terminal(["bash", "-c", command], folder, env, "")
        took = (monotonic_ms() - started_ms) / 1_000, _cpu_seconds() - cpu_before
        output = "\n".join(line.rstrip() for line in ran.out.replace(str(folder), FOLDER).splitlines()).strip("\n")
        played.append(Played(Step(command, output), ran.code, *took))
        for shown, here in zip(_ID.findall(step.output), _ID.findall(output), strict=False):
            names.setdefault(shown, here)
    return played


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _renamed(command: str, names: dict[str, str]) -> str:
    for shown, here in names.items():
        command = command.replace(shown, here)
    return command


def plain(output: str) -> list[str]:
    """The lines of an output with everything that differs from run to run replaced."""
    for pattern, word in _DIFFERING.items():
        output = pattern.sub(word, output)
    return [line.strip() for line in output.splitlines()]


def rewritten(page: str, played: Sequence[Played]) -> str:
    """The page with what the commands print now."""
    left = iter(played)
    times = _TIME.findall("".join(each.step.output for each in played))
    ahead_ms = BEGIN_AT_MS - read_instant_ms("begin", times[0]) if times else 0

    def block(match: re.Match[str]) -> str:
        text = ""
        for _ in range(match[1].count("\n$ ") + 1):
            step = next(left).step
            text += f"$ {step.command}\n" + (f"{_moved(step.output, ahead_ms)}\n" if step.output else "")
        return f"```console\n{text}```"

    return _BLOCK.sub(block, page)


def _moved(output: str, ms: int) -> str:
    return _TIME.sub(lambda time: instant_text(read_instant_ms("time", time[0]) + ms), output)
