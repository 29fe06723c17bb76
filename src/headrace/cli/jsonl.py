"""Sends a JSON-lines file in parts, each checked as a whole before any of its lines is sent."""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from headrace.cli.output import Advance
from headrace.cli.parse import STDIN
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.limits import (
    LINE_BYTES_MAX,
    LINES_CHECKED_BYTES_MAX,
    LINES_CHECKED_MAX,
    LINES_REFUSED_SHOWN_MAX,
)
from headrace.model.validate import check_path, shown_path

T = TypeVar("T")


class Line(NamedTuple, Generic[T]):
    """The item of a line."""

    number: int
    item: T


class LineAnswer(Struct, frozen=True):
    """The store's answer to one item."""

    id: str | None
    status: str
    is_refused: bool = False
    error: str | None = None


class RefusedLine(Struct, frozen=True):
    """An item that the store refused."""

    line: int
    id: str | None
    status: str
    error: str | None = None


class LineReport(Struct):
    """The outcome of the lines so far."""

    lines: int = 0
    """The last line that was sent; all before it were, too."""
    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedLine] = field(default_factory=list)
    """The first refusals."""
    refusals: int = 0

    def add(self, call: Sequence[Line[T]], answers: Iterable[LineAnswer]) -> None:
        """Count the answers to one call."""
        self.sent += len(call)
        for (number, _), answer in zip(call, answers, strict=True):
            self.statuses[answer.status] += 1
            if answer.is_refused:
                self.refusals += 1
                if len(self.refused) < LINES_REFUSED_SHOWN_MAX:
                    self.refused.append(RefusedLine(number, answer.id, answer.status, answer.error))

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses.items())) or "nothing"


class LineSender(Struct, Generic[T], frozen=True):
    """Parses and sends the items of a file, with the words for messages."""

    parse: Callable[[bytes], T]
    """Raises `Refused` for a line without a valid item."""
    submit: Callable[[Sequence[T]], Awaitable[Sequence[LineAnswer]]]
    sent: str
    """The past participle for messages: sent, published."""
    look: str
    """The command that lists the sent items."""
    calls: Callable[[Sequence[Line[T]]], Iterable[Sequence[Line[T]]]] = lambda part: [part]
    """Splits a part into calls."""


async def send(file: Iterable[bytes], sender: LineSender[T], report: LineReport, advance: Advance) -> None:
    """Send all lines of a file; stops at the first wrong line, or when the store becomes unavailable.

    The error names the last line that was sent; none after it was.
    """
    try:
        for part, last in _parts(file, sender.parse):
            for call in sender.calls(part):
                await _submit(call, sender, report)
                advance(len(call))
            report.lines = last
    except Refused as refused:
        message = f"{refused}; {_so_far(sender, report)}"
        # After the first sent line, a retry would send lines twice.
        raise OutcomeUnknown(message) if report.lines else Refused(refused.reason, message) from refused


async def _submit(call: Sequence[Line[T]], sender: LineSender[T], report: LineReport) -> None:
    first, end = call[0].number, call[-1].number
    try:
        answers = await sender.submit([line.item for line in call])
    except Refused as refused:  # nothing of this call was sent
        raise Refused(refused.reason, f"lines {first:,} to {end:,} were refused: {refused}") from refused
    except StoreUnavailable as error:
        if not report.lines:
            raise
        raise OutcomeUnknown(f"{error}; {_so_far(sender, report)}") from error
    except OutcomeUnknown as error:
        before = f"lines 1 to {report.lines:,} were {sender.sent} ({report}), and " if report.lines else ""
        raise OutcomeUnknown(
            f"{error}; {before}of lines {first:,} to {end:,} some may have been: check with {sender.look} before you"
            " run it again"
        ) from error
    report.add(call, answers)
    report.lines = end


def _so_far(sender: LineSender[T], report: LineReport) -> str:
    if not report.lines:
        return f"nothing was {sender.sent}"
    return (
        f"lines 1 to {report.lines:,} were {sender.sent} ({report}) and none after them; continue with line"
        f" {report.lines + 1:,}"
    )


def _parts(file: Iterable[bytes], parse: Callable[[bytes], T]) -> Iterator[tuple[list[Line[T]], int]]:
    """The lines with items, in checked parts, each with the number of its last line."""
    part: list[Line[T]] = []
    size = number = 0
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            part.append(Line(number, parse(text)))
        except Refused as refused:
            raise Refused(refused.reason, f"line {number:,} is wrong: {refused}") from refused
        size += len(text)
        if len(part) == LINES_CHECKED_MAX or size > LINES_CHECKED_BYTES_MAX:
            yield part, number
            part, size = [], 0
    if part:
        yield part, number


def open_lines(stack: ExitStack, source: str, what: str) -> Iterator[bytes]:
    """The lines of a file, which the stack closes, or of stdin; errors name the content by `what`."""
    if source == STDIN:
        return read_lines(sys.stdin.buffer)
    check_path(f"the file of the {what}", source)
    try:
        return read_lines(stack.enter_context(Path(source).open("rb")))
    except OSError as error:
        raise BadConfig(f"the {what} cannot be read from {shown_path(source)}: {error.strerror or error}") from error


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; refuses a line that is too long for memory."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise Refused(
                "bad_line",
                f"line {number:,} has more than {LINE_BYTES_MAX:,} bytes; write one JSON object a line",
            )
        yield line
