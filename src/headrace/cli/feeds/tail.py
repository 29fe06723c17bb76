"""`headrace feeds tail`: prints the items of a feed, then its changes live, and continues from a cursor."""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from headrace.cli.feeds.render import ChangePrinter
from headrace.cli.options import TENANT, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.cli.store_access import with_store
from headrace.inspect.feeds import feed_of
from headrace.inspect.lookup import queue_of
from headrace.model.errors import BadConfig
from headrace.model.feed import DIRECTORY, FeedName
from headrace.model.limits import CURSOR_CHARS_MAX
from headrace.model.times import duration_ms
from headrace.model.validate import check_path, shown_path
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from headrace.feeds.change import Change
    from headrace.feeds.subscription import ChangeStream

Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Feed to follow; '*' is the directory of all feeds.", show_default=False),
]
# Not from HEADRACE_QUEUE: a shell set up for one queue may still follow a feed.
JobQueue = Annotated[
    str | None, typer.Option("--queue", "-q", metavar="NAME", help="Follow this queue of jobs instead.")
]
Everything = Annotated[
    bool, typer.Option("--all", help="Follow the directory: feeds that are created, changed and deleted.")
]
TailCursor = Annotated[
    str | None, typer.Option("--cursor", help="Continue after this change, as printed by an earlier tail.")
]
KeepCursor = Annotated[
    Path | None,
    typer.Option("--cursor-file", metavar="FILE", help="Save the cursor to this file, and continue from it."),
]
New = Annotated[bool, typer.Option("--new", help="Print only changes from now on.")]
Beginning = Annotated[bool, typer.Option("--beginning", help="With --queue: start at the oldest event kept.")]
LineLimit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Exit after this many lines.")]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Exit after this time: 30s, 5m.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line, each with its cursor.")]
UNCOUNTED = ("live", "heartbeat")
"""Events without an item, which --limit does not count."""


def tail(
    name: Name = None,
    job_queue: JobQueue = None,
    everything: Everything = False,
    cursor: TailCursor = None,
    cursor_file: KeepCursor = None,
    new: New = False,
    beginning: Beginning = False,
    limit: LineLimit = None,
    duration: For = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    json: JsonLines = False,
) -> None:
    """Print the items of a feed, then its changes live.

    Ends with Ctrl-C or when the feed is deleted, and prints the --cursor to continue with: no change is missed or
    repeated. If too much changed meanwhile, a line "gap" is printed, and all items again.

    Example: headrace feeds tail news --cursor-file news.cursor
    """
    output = Output(json=json)
    source = _source(name, job_queue, everything, tenant)
    file = None if cursor_file is None else CursorFile(cursor_file)
    start = _start(cursor, file, new, beginning, source)
    for_s = None if duration is None else duration_ms("for", typed_duration(duration)) / 1_000
    feed_tail = FeedTail(ChangePrinter(json=json), file, limit)
    try:
        with_store(url, lambda store: feed_tail.run(store, source, start, for_s))
    except BrokenPipeError:  # the reader is gone
        raise
    except BaseException:
        _hint_cursor(output, feed_tail, source, file)
        raise
    _hint_cursor(output, feed_tail, source, file)


class TailSource(Struct, frozen=True):
    """The source to follow: a feed or a queue of jobs."""

    tenant: str
    feed: str | None
    queue: str | None

    @property
    def words(self) -> str:
        """The source as arguments of the command."""
        name = f"--queue {self.queue}" if self.feed is None else "--all" if self.feed == DIRECTORY else self.feed
        return name if self.tenant == TENANT else f"{name} --tenant {self.tenant}"


class TailStart(Struct, frozen=True):
    """The start: after a cursor, now, or at the oldest event kept; by default with the items."""

    cursor: str | None
    new: bool
    beginning: bool


class CursorFile:
    """The file of a cursor; refuses an unusable file before anything is printed."""

    def __init__(self, path: Path) -> None:
        check_path("--cursor-file", "" if path == Path() else str(path))
        self._path = path
        if not path.name:
            raise self._error("kept", IsADirectoryError(EISDIR, os.strerror(EISDIR)))
        self._beside = path.with_name(f".{path.name}.{os.getpid()}")
        check_path("the temporary file beside --cursor-file", str(self._beside))
        self._written: str | None = None

    def read(self) -> str | None:
        """The cursor in the file; None if there is none yet."""
        try:
            with self._path.open(encoding="utf-8") as file:
                text = file.read(8 * CURSOR_CHARS_MAX).strip()
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeError) as error:
            raise self._error("read", error) from error
        self._written = text or None
        if not os.access(self._path.parent, os.W_OK):
            raise BadConfig(
                f"the cursor cannot be kept in {shown_path(self._path)}: its folder is not writable; use another file"
            )
        return self._written

    def write(self, cursor: str) -> None:
        """Replace the cursor atomically."""
        if cursor == self._written:
            return
        try:
            self._beside.write_text(f"{cursor}\n", encoding="utf-8")
            self._beside.replace(self._path)
        except OSError as error:
            raise self._error("kept", error) from error
        self._written = cursor

    def delete(self) -> None:
        """Delete the file."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error("deleted", error) from error
        self._written = None

    def _error(self, what: str, error: Exception) -> BadConfig:
        cause = getattr(error, "strerror", None) or error
        return BadConfig(f"the cursor cannot be {what} in {shown_path(self._path)}: {cause}; use another file")


class FeedTail:
    """Prints changes and saves the cursor of the last one."""

    def __init__(self, printer: ChangePrinter, file: CursorFile | None, limit: int | None) -> None:
        self.cursor: str | None = None
        """The cursor of the last printed change; None before the first."""
        self._printer = printer
        self._file = file
        self._left = limit

    async def run(self, store: Store, source: TailSource, start: TailStart, for_s: float | None) -> None:
        """Follow until the feed is deleted, the limit or the time is reached, or the reader is gone."""
        stream = await _open_stream(store, source, start)
        self._keep(stream.cursor)
        scope = asyncio.timeout(for_s)
        try:
            with _until_reader_ends():
                async with scope, stream:
                    while self._print(await stream.batch()):
                        pass
        except TimeoutError:
            if not scope.expired():
                raise

    def _print(self, changes: "Sequence[Change]") -> bool:
        """Print changes and keep the cursor; returns whether to continue."""
        more, cursor = bool(changes), self.cursor
        for change in changes:
            if change.event == "heartbeat":
                continue
            self._printer.show(change)
            cursor = change.cursor
            if change.event == "deleted" and self._file is not None:
                self._file.delete()  # a new feed of this name has other cursors
            more = change.event != "deleted"
            if self._left is not None and change.event not in UNCOUNTED:
                self._left -= 1
                more = more and self._left > 0
            if not more:
                break
        self._printer.flush()
        self._keep(cursor)
        return more

    def _keep(self, cursor: str | None) -> None:
        self.cursor = cursor
        if self._file is not None and cursor is not None:
            self._file.write(cursor)


async def _open_stream(store: Store, source: TailSource, start: TailStart) -> "ChangeStream":
    """The changes; refuses an unknown feed or queue."""
    if source.queue is not None:
        from headrace.feeds.queue_events import QueueEvents

        queue = await queue_of(store, source.tenant, source.queue)
        return QueueEvents(store, queue).subscribe(cursor=start.cursor, beginning=start.beginning)
    from headrace.client.codec import RAW
    from headrace.feeds.subscription import Subscription

    assert source.feed is not None  # the source is a queue or a feed
    feed, cursor = FeedName(source.feed, source.tenant), start.cursor
    # The directory may not exist yet: the first feed creates it.
    state = await store.feeds.describe(feed) if feed.is_directory else await feed_of(store, feed.tenant, feed.name)
    if start.new and state is not None:
        cursor = str(state.cursor)
    return Subscription(store, feed, RAW, cursor=cursor)


@contextmanager
def _until_reader_ends() -> Iterator[None]:
    """Within this block, a reader that closes the pipe ends it at once instead of with the next change."""
    output = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    closed = False

    def end() -> None:
        nonlocal closed
        closed = True
        loop.remove_reader(output)
        if task is not None:
            task.cancel()

    # The writing end of a pipe is never readable, so this event means that the other end is gone.
    loop.add_reader(output, end)
    try:
        yield
    except asyncio.CancelledError:
        if closed:
            raise BrokenPipeError from None
        raise
    finally:
        with suppress(ValueError):
            loop.remove_reader(output)


def _hint_cursor(output: Output, feed_tail: FeedTail, source: TailSource, file: CursorFile | None) -> None:
    if feed_tail.cursor is not None and file is None:
        output.hint(f"continue with: headrace feeds tail {source.words} --cursor {feed_tail.cursor}")


def _source(name: str | None, queue: str | None, everything: bool, tenant: str) -> TailSource:
    sources = [option for option, value in (("NAME", name), ("--queue", queue), ("--all", everything)) if value]
    if len(sources) != 1:
        found = " and ".join(sources) or "none"
        raise BadConfig(f"give one source: a feed by its NAME, --queue NAME, or --all; found {found}")
    return TailSource(tenant=tenant, feed=DIRECTORY if everything else name, queue=queue)


def _start(cursor: str | None, file: CursorFile | None, new: bool, beginning: bool, source: TailSource) -> TailStart:
    options = (("--cursor", cursor), ("--cursor-file", cursor and file), ("--new", new), ("--beginning", beginning))
    starts = [option for option, value in options if value]
    if len(starts) > 1:
        raise BadConfig(f"a tail has one start; found {' and '.join(starts)}; give one of them")
    if beginning and source.queue is None:
        raise BadConfig("--beginning is for --queue; a feed starts with its items")
    kept = cursor if file is None else file.read()
    return TailStart(kept, new and kept is None, beginning and kept is None)
