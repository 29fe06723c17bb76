"""Sends the jobs of a file: one JSON object a line, checked in parts before anything of the part is sent."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct, field

from headrace.cli.parse import STDIN
from headrace.cli.send import OPTIONS, Making, option_fields
from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.limits import (
    LINE_BYTES_MAX,
    LINES_CHECKED_BYTES_MAX,
    LINES_CHECKED_MAX,
    LINES_REFUSED_SHOWN_MAX,
    PAUSED_LOOKS_MAX,
)
from headrace.model.names import Queue
from headrace.model.times import read_instant_ms
from headrace.model.validate import bounded_repr, check_path, nearest, shown_path

if TYPE_CHECKING:
    from headrace.client.client import Client
    from headrace.client.handle import Handle
    from headrace.model.job import Job

KNOWN = ("kind", "payload", *OPTIONS)
INSTANTS = ("run_at", "expires_at")


class RefusedLine(Struct, frozen=True):
    """A job that the store would not have."""

    line: int
    id: str
    status: str
    error: str | None = None


class LineTally(Struct):
    """What became of the lines so far."""

    lines: int = 0
    """All lines up to this one were sent."""
    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedLine] = field(default_factory=list)
    """The first of them."""
    queues: set[Queue] = field(default_factory=set)
    """Where they went, up to a limit."""

    def count(self, part: "LinePart", handles: "list[Handle[Any]]") -> None:
        """Take in the answers to a part."""
        self.sent += len(handles)
        if len(self.queues) < PAUSED_LOOKS_MAX:
            self.queues.update(islice({job.queue for job in part.jobs}, PAUSED_LOOKS_MAX))
        self.lines = part.last
        for line, handle in zip(part.numbers, handles, strict=True):
            self.statuses[handle.status] += 1
            if not handle.ok and len(self.refused) < LINES_REFUSED_SHOWN_MAX:
                told = None if handle.error is None else str(handle.error)
                self.refused.append(RefusedLine(line, handle.id, handle.status, told))

    @property
    def refusals(self) -> int:
        """How many jobs the store would not have."""
        from headrace.client.handle import REFUSALS

        return sum(self.statuses[status] for status in REFUSALS)

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses.items())) or "nothing"


class LinePart(NamedTuple):
    """Lines that were checked, and are sent together."""

    jobs: "list[Job]"
    numbers: list[int]
    last: int


async def send_lines(
    client: "Client", making: Making, kind: str | None, file: BinaryIO, tally: LineTally, advance: Callable[[int], None]
) -> None:
    """Send all jobs of a file and count them; stops at the first line that is wrong, or when the store is away.

    Raises an error that says which lines were sent: all up to a line, and none behind it.
    """
    parts = _parts(making, kind, file)
    while True:
        try:
            part = next(parts, None)
        except Refused as refused:
            told = f"{refused}; {_so_far(tally)}"
            # Once something was sent, asking again is not harmless any more.
            raise OutcomeUnknown(told) if tally.lines else Refused(refused.reason, told) from refused
        if part is None:
            return
        try:
            handles = await client.enqueue_many(part.jobs)
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise _stopped(error, tally, part) from error
        tally.count(part, handles)
        advance(len(handles))


def _parts(making: Making, kind: str | None, file: BinaryIO) -> Iterator[LinePart]:
    jobs: list[Job] = []
    numbers: list[int] = []
    size = last = 0
    for last, line in enumerate(lines_of(file), 1):
        if not line.strip():
            continue
        try:
            jobs.append(job_of(making, kind, line))
        except Refused as refused:
            raise Refused(refused.reason, f"line {last:,} is wrong: {refused}") from refused
        numbers.append(last)
        size += len(line)
        if len(jobs) == LINES_CHECKED_MAX or size > LINES_CHECKED_BYTES_MAX:
            yield LinePart(jobs, numbers, last)
            jobs, numbers, size = [], [], 0
    if jobs:
        yield LinePart(jobs, numbers, last)


def opened(stack: ExitStack, source: str, what: str) -> BinaryIO:
    """The file of that name for as long as the stack holds it, or what is piped in; a refusal says `what` it is for."""
    if source == STDIN:
        return sys.stdin.buffer
    check_path(f"the file of the {what}", source)
    try:
        return stack.enter_context(Path(source).open("rb"))
    except OSError as error:
        raise BadConfig(f"the {what} cannot be read from {shown_path(source)}: {error.strerror or error}") from error


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; refuses one that is too long to be held."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise Refused(
                "bad_line", f"line {number:,} has more than {LINE_BYTES_MAX:,} bytes; one JSON object a line is wanted"
            )
        yield line


def job_of(making: Making, kind: str | None, line: bytes) -> "Job":
    """The job of a line; raises `Refused` for a line that is none."""
    try:
        found = msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Refused(
            "bad_line", f'a JSON object was wanted, such as {{"kind": "greet", "payload": {{}}}} ({error})'
        ) from error
    for name in found:
        if name not in KNOWN:
            near = nearest(name, KNOWN)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(KNOWN)}"
            raise Refused("bad_line", f"a job has no {bounded_repr(name)}; {hint}")
    if not isinstance(named := found.pop("kind", kind), str):
        raise Refused("bad_kind", 'it has no kind; add one ("kind": "greet"), or name one for all lines')
    payload = found.pop("payload", None)
    for name in INSTANTS:
        if isinstance(found.get(name), str):
            found[name] = read_instant_ms(name, found[name])
    return making.job(named, payload, option_fields(found))


def _so_far(tally: LineTally) -> str:
    if not tally.lines:
        return "nothing was sent"
    return f"lines 1 to {tally.lines:,} were sent ({tally}) and none behind them; go on from line {tally.lines + 1:,}"


def _stopped(error: HeadraceError, tally: LineTally, part: LinePart) -> HeadraceError:
    """The error with what was sent."""
    if isinstance(error, StoreUnavailable):
        return OutcomeUnknown(f"{error}; {_so_far(tally)}") if tally.lines else error
    before = f"lines 1 to {tally.lines:,} were sent ({tally}), and " if tally.lines else ""
    return OutcomeUnknown(
        f"{error}; {before}of lines {part.numbers[0]:,} to {part.last:,} some may have been: look with"
        " headrace jobs list before you send them again"
    )
