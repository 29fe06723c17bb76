"""`headrace demo`: runs jobs for some seconds, then reports on them with the pipeline; exits with 1 if it does not add
up."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.console import Console
from rich.status import Status

from headrace.cli.demo.app import KINDS, TENANTS
from headrace.cli.demo.pipeline import DemoReport, read
from headrace.cli.demo.render import close, played_text, show, step_text, view_text
from headrace.cli.demo.scenario import Played, play, quiet
from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json
from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.validate import check_path
from headrace.pipeline.java import find_java, packaged_java
from headrace.pipeline.packages import check_packages

JOBS_DEFAULT = 1_500
JOBS_MIN, JOBS_MAX = 100, 10_000
"""Fewer jobs would not show each kind; more would not end within the demo's seconds."""
WIDTH = 120
"""Without a terminal."""


def command(
    jobs: Annotated[int, typer.Option("--jobs", help="Jobs to send.")] = JOBS_DEFAULT,
    dir: Annotated[  # noqa: A002 - the option's name
        Path | None, typer.Option("--dir", help="Folder for the files; a temporary one by default.")
    ] = None,
    json: Json = False,
) -> int:
    """Run sample jobs on SQLite, kill a worker, and report with Spark.

    Takes about a minute. Exits with 1 if the audit finds that the store and its journal disagree.

    Example: headrace demo --jobs 500
    """
    if not JOBS_MIN <= jobs <= JOBS_MAX:
        raise BadConfig(f"--jobs must be from {JOBS_MIN:,} to {JOBS_MAX:,}; found {jobs:,}")
    check_packages()
    find_java(os.environ, packaged_java())
    begun_ms, folder = monotonic_ms(), _folder(dir)
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(quiet=json, highlight=False, soft_wrap=True, width=width)
    # In this folder, commands find the store and the tables under these names.
    url = f"sqlite:///{quote(str(folder / 'headrace.db'))}?profile=fast"
    console.print(f"[bold]1. Jobs[/]   {len(KINDS)} kinds, tenants {' and '.join(TENANTS)}, into a SQLite file:")
    for kind, what in KINDS.items():
        console.print(f"     {kind:<14}[dim]{what}[/]")
    played = asyncio.run(_play(url, jobs, console))
    console.print(played_text(played))
    console.print("\n[bold]2. Spark[/]  from the journal of every job")
    from headrace.pipeline.data_dir import DataDir

    demo = read(
        url,
        DataDir(folder / "headrace-data"),
        played.killed.jobs[0],
        going=lambda name: _going(console, name),
        done=lambda name, demo: console.print(step_text(name, demo)),
    )
    seconds = (monotonic_ms() - begun_ms) / 1_000
    assert demo.audit is not None
    if json:
        print(document(folder, url, played, demo, seconds).decode())
    else:
        show(console, played, demo)
        console.print()
        close(console, folder, demo, demo.audit, seconds)
    return OK if demo.audit.ok else NO


def document(folder: Path, url: str, played: Played, demo: DemoReport, seconds: float) -> bytes:
    """The whole demo as one JSON document."""
    facts = {"ok": demo.audit is not None and demo.audit.ok, "seconds": seconds, "url": url, "folder": str(folder)}
    return msgspec.json.encode(
        {**msgspec.structs.asdict(demo), **facts, "steps": demo.seconds, "played": played},
        enc_hook=str,
    )


def _going(console: Console, name: str) -> Status:
    if name == "map":
        console.print("\n[bold]3. Rows through jobs[/]  a DataFrame of orders, each a job for a fleet of this Spark")
    return console.status(f"{name} …")


async def _play(url: str, jobs: int, console: Console) -> Played:
    with console.status("starting workers") as status:
        async with quiet():
            try:
                return await play(url, jobs, lambda view: status.update(view_text(view)))
            except ExceptionGroup as several:  # tasks raise in groups; only the first error is shown
                raise several.exceptions[0] from several


def _folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    check_path("--dir", str(given))
    folder = given.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadConfig(f"--dir {given} exists and is not an empty folder; name a new one, or leave it out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
