"""`headrace feeds tail`: what is in a feed, then what changes in it, live and from where one was."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.feeds.cursor_file import CursorFile
from headrace.cli.feeds.following import FeedTail, Start, Subject
from headrace.cli.feeds.options import Tenant
from headrace.cli.feeds.render import Screen
from headrace.cli.options import TENANT, Url
from headrace.cli.output import Output
from headrace.cli.parse import written
from headrace.cli.store_access import with_store
from headrace.model.errors import BadConfig
from headrace.model.feed import DIRECTORY
from headrace.model.times import duration_ms

Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The feed; '*' is the directory of all feeds.", show_default=False),
]
# Not from HEADRACE_QUEUE: who always works on one queue may still follow a feed.
JobQueue = Annotated[
    str | None, typer.Option("--queue", "-q", metavar="NAME", help="Follow this queue of jobs instead.")
]
Everything = Annotated[bool, typer.Option("--all", help="Follow the directory: feeds that come, change and go.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on behind this change, as an earlier tail told it.")]
Keep = Annotated[
    Path | None,
    typer.Option("--cursor-file", metavar="FILE", help="Keep the cursor there while printing, and go on from it."),
]
New = Annotated[bool, typer.Option("--new", help="Only what changes from now on.")]
Beginning = Annotated[bool, typer.Option("--beginning", help="With --queue: from the oldest event that is kept.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="End after so many lines.")]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="End after this time: 30s, 5m.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line instead of text, each with its cursor.")]


def tail(
    name: Name = None,
    job_queue: JobQueue = None,
    everything: Everything = False,
    cursor: Cursor = None,
    cursor_file: Keep = None,
    new: New = False,
    beginning: Beginning = False,
    limit: Limit = None,
    duration: For = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    json: Json = False,
) -> None:
    """Print what is in a feed, then what changes in it, until Ctrl-C or until the feed is deleted.

    When it ends it says with which --cursor to go on: nothing is missed and nothing comes twice. Where too much has
    changed meanwhile, a line "gap" says so, and what is there comes anew.
    """
    output = Output(json=json)
    subject = _subject(name, job_queue, everything, tenant)
    file = None if cursor_file is None else CursorFile(cursor_file)
    start = _start(cursor, file, new, beginning, subject)
    for_s = None if duration is None else duration_ms("for", written(duration)) / 1_000
    following = FeedTail(Screen(json=json), file, limit)
    try:
        with_store(url, lambda store: following.run(store, subject, start, for_s))
    except BrokenPipeError:  # nobody reads any longer, so nobody is told anything
        raise
    except BaseException:
        _tell(output, following, subject, file)
        raise
    _tell(output, following, subject, file)


def _tell(output: Output, following: FeedTail, subject: Subject, file: CursorFile | None) -> None:
    if following.cursor is not None and file is None:
        output.hint(f"go on with: headrace feeds tail {subject.words} --cursor {following.cursor}")


def _subject(name: str | None, queue: str | None, everything: bool, tenant: str) -> Subject:
    given = [option for option, found in (("NAME", name), ("--queue", queue), ("--all", everything)) if found]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise BadConfig(f"one thing is followed: a feed by its NAME, --queue NAME, or --all; found {found}")
    return Subject(tenant=tenant, feed=DIRECTORY if everything else name, queue=queue)


def _start(cursor: str | None, file: CursorFile | None, new: bool, beginning: bool, subject: Subject) -> Start:
    places = (("--cursor", cursor), ("--cursor-file", cursor and file), ("--new", new), ("--beginning", beginning))
    given = [option for option, found in places if found]
    if len(given) > 1:
        raise BadConfig(f"it starts in one place; found {' and '.join(given)}; give one of them")
    if beginning and subject.queue is None:
        raise BadConfig("--beginning is for --queue; a feed begins with what is in it")
    kept = cursor if file is None else file.read()
    return Start(kept, new and kept is None, beginning and kept is None)
