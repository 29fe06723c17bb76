"""Counts the files of Headrace that one operation enters: how much a reader opens to follow it from beginning to end.

python -m tools.walks             an enqueue up to its Redis call, a claim up to the answer of its settlement, a list of
                                  jobs on SQLite from the command's words to its table, and a journal on SQLite from
                                  the options of format("headrace") to its rows in Arrow, as Spark's processes read it
python -m tools.walks --spark     a run of `headrace pipeline history` as well, which starts Spark twice
python -m tools.walks --files     name the files, in the order in which they are entered first

Calls are counted once everything is warm, in all threads, on stores of their own. A file of which only constructors run
is not opened by a reader: it is counted apart, as are those of model. Rooms and sizes come with them.
"""

import ast
import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from headrace import App
from headrace.worker.events import JobsFinished
from tests.support.redis_servers import RedisServer

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headrace"
WARM_CALLS = 20


Files = dict[str, set[str]]
"""Files of Headrace in the order in which they are entered first, each with the functions that were called in it."""


@contextmanager
def entered_files(files: Files) -> Iterator[None]:
    """Note the files of Headrace whose functions are called meanwhile."""

    def on_event(frame: FrameType, event: str, argument: Any) -> None:  # noqa: ARG001 - the interpreter gives three
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            name = Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()
            files.setdefault(name, set()).add(frame.f_code.co_name)

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def walk_enqueue(url: str) -> Files:
    """The files of one awaited enqueue of a job function."""
    app = App(url)

    @app.job
    def send(to: str) -> None: ...

    for number in range(WARM_CALLS):
        await send.enqueue(to=str(number))
    files: Files = {}
    with entered_files(files):
        await send.enqueue(to="last")
    await app.close()
    return files


async def walk_job(url: str) -> Files:
    """The files of one job in a worker that waits: heard of, claimed, run, settled."""
    app = App(url, tenant="worked")  # jobs of its own
    started: list[str] = []
    settled: list[str] = []
    changed = asyncio.Event()

    @app.job
    async def send(to: str) -> None:
        started.append(to)

    def listen(notice: object) -> None:
        if isinstance(notice, JobsFinished):
            settled.extend(started[len(settled) :])
            changed.set()

    async def until_settled(to: str) -> None:
        while to not in settled:
            await changed.wait()
            changed.clear()

    async with app.worker(listeners=[listen]):
        for number in range(WARM_CALLS):
            await send.enqueue(to=str(number))
            await until_settled(str(number))
        files: Files = {}
        await send.options(delay="200ms").enqueue(to="last")
        with entered_files(files):
            await until_settled("last")
    await app.close()
    return files


def walk_jobs_list(folder: Path) -> Files:
    """The files of `headrace jobs list` in a folder of a project with jobs."""
    from headrace.cli.main import main as headrace

    with chdir(folder), redirect_stdout(StringIO()):
        for number in range(3):
            headrace(["enqueue", "send", f"to={number}", "--url", "sqlite:///headrace.db"])
        headrace(["jobs", "list"])
        files: Files = {}
        with entered_files(files):
            headrace(["jobs", "list"])
    return files


def walk_spark_read(url: str) -> Files:
    """The files of a batch of `format("headrace")`, planned and read."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    from pyspark_headrace import DefaultSource

    def read() -> None:
        source = DefaultSource(CaseInsensitiveDict({"url": url}))
        reader = source.reader(source.schema())
        for part in reader.partitions():
            for _ in reader.read(part):
                pass

    read()
    files: Files = {}
    with entered_files(files):
        read()
    return files


def walk_history(folder: Path) -> Files:
    """The files of `headrace pipeline history --once` on Spark's driver, in a folder of a project with a new event."""
    from headrace.cli.main import main as headrace

    command = ["pipeline", "history", "--once", "--master", "local[1]"]
    with chdir(folder), redirect_stdout(StringIO()):
        headrace(["enqueue", "send", "to=1", "--url", "sqlite:///headrace.db"])
        headrace(command)
        headrace(["enqueue", "send", "to=2", "--url", "sqlite:///headrace.db"])
        files: Files = {}
        with entered_files(files):
            headrace(command)
    return files


def code_lines(path: Path) -> int:
    """Lines of a module that hold code: no blank lines, comments or docstrings."""
    text = path.read_text("utf-8")
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def rooms() -> list[tuple[str, int, int]]:
    """Each room with its modules, `__init__` left out, and their lines of code."""
    found = []
    for room in sorted(each for each in SOURCE.iterdir() if each.is_dir() and each.name != "__pycache__"):
        modules = [each for each in room.rglob("*.py") if each.name != "__init__.py"]
        found.append((room.name, len(modules), sum(code_lines(each) for each in modules)))
    return found


async def main(arguments: list[str]) -> None:
    server = RedisServer()
    server.start()
    try:
        walks = {
            "enqueue → Redis": await walk_enqueue(server.url),
            "claim → settled": await walk_job(server.url),
        }
    finally:
        server.stop()
    with TemporaryDirectory() as folder:
        walks["jobs list"] = await asyncio.to_thread(walk_jobs_list, Path(folder))
        walks["spark.read"] = await asyncio.to_thread(walk_spark_read, f"sqlite:///{folder}/headrace.db")
    if "--spark" in arguments:
        with TemporaryDirectory() as folder:
            walks["pipeline history"] = await asyncio.to_thread(walk_history, Path(folder))
    for name, files in walks.items():
        opened = [each for each in files if not each.startswith("model/") and files[each] != {"__init__"}]
        print(f"{name}: {len(files)} files, {len(opened)} without model and those with constructors only")
        if "--files" in arguments:
            print(*(f"  {each}" if each in opened else f"  ({each})" for each in files), sep="\n")
    for room, modules, lines in rooms():
        print(f"{room}: {modules} modules, {lines:,} lines of code")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
