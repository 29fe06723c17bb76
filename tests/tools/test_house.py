"""House rules of the tree, so that a reader finds a file by the word in mind; an exception is a line in this file."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "headrace"

ROOMS = (
    "app",
    "cli",
    "client",
    "feeds",
    "inspect",
    "model",
    "pipeline/audit",
    "pipeline/flows",
    "pipeline/history",
    "pipeline/report",
    "pipeline/source",
    "pipeline/stats",
    "pipeline/storage",
    "pipeline/tables",
    "service",
    "stores",
    "testing",
    "wire",
    "worker",
)
"""Rooms whose files, functions and variables are held to all of these rules."""

FLAT_ROOMS = ("pipeline",)
"""Rooms of which only the modules that lie in no further room are held to all of these rules."""

NOUNS_IN_ING = frozenset(
    {
        "batching",
        "blocking",
        "logging",
        "mapping",
        "packing",
        "partitioning",
        "pickling",
        "sharding",
        "testing",
        "tracing",
    }
)
"""Words of the field that end like a gerund."""

PAIRS = frozenset({("feed", "feeds"), ("worker", "workers")})
"""Modules of one room that differ by an ending, and mean what it says: one of them, and all of a tenant."""

ROOM_MODULES_MAX = 25
FILE_LINES = range(40, 401)

SHORT_FILES = {
    "cli/exit_codes.py": "what main and all commands end with",
    "cli/workers.py": "one command",
    "model/clock.py": "the door of the system clock",
    "model/redact.py": "what every room calls before a text is shown",
    "pipeline/spark_errors.py": "what every part of the pipeline calls around Spark",
    "service/cors.py": "one class of its own",
    "service/table.py": "the list of all operations, which every reader of the service looks for",
    "service/systemd.py": "the door to the socket of systemd",
    "stores/sqlite/sql.py": "the door of the SQL files",
}
"""Files below 40 lines, with the reason; `__init__` and the contract need none."""

LONG_FILES = {
    "model/limits.py": "all limits in one list, each with its reason",
    "stores/sqlite/job_rows.py": "one class, which has the 50 methods of a shard's rows",
}
"""Files above 400 lines, with the reason."""

PRIVATE_WORDS = frozenset(
    {"aloft", "amiss", "cargo", "companion", "crew", "desk", "flights", "lake", "letter", "letters", "patience", "said"}
    | {"squad", "told", "twin", "upkeep", "verdict"}
)
"""Words that no reader would look for: the field has others for each. A letter is a dead letter here."""

RIDDLES = frozenset({"asked", "built", "given", "held", "made", "meant", "said", "told", "wrapping"})
"""Participles that say nothing as the name of a function."""


def modules(*rooms: str) -> list[Path]:
    """The modules of some rooms and of the flat ones, or of all."""
    if not rooms:
        return sorted(SOURCE.rglob("*.py"))
    found = [file for room in rooms for file in (SOURCE / room).rglob("*.py")]
    return sorted(found + [file for room in FLAT_ROOMS for file in (SOURCE / room).glob("*.py")])


def named(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def lines_of(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module gives: of classes, functions, arguments, fields and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def words(name: str) -> set[str]:
    """The words of a name in snake case or camel case, `dead_letter` being one."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return set(re.sub(r"dead_letters?", "", snake).split("_"))


def test_no_module_is_named_by_a_gerund() -> None:
    found = [named(file) for file in modules(*ROOMS) if file.stem.endswith("ing")]

    assert [name for name in found if Path(name).stem not in NOUNS_IN_ING] == []


def test_no_two_modules_of_a_room_differ_by_an_ending_only() -> None:
    rooms: dict[Path, list[str]] = defaultdict(list)
    for file in modules(*ROOMS):
        rooms[file.parent].append(file.stem)

    alike = [
        (named(room), *pair)
        for room, stems in rooms.items()
        for pair in combinations(sorted(stems), 2)
        if re.fullmatch(f"{pair[0]}(s|ed|ing)", pair[1]) and pair not in PAIRS
    ]

    assert alike == []


def test_no_class_name_exists_twice() -> None:
    count: Counter[str] = Counter()
    for file in modules():
        tree = ast.parse(file.read_text("utf-8"))
        count.update(node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")

    assert [name for name, number in count.items() if number > 1] == []


def test_a_room_has_at_most_25_modules() -> None:
    count = Counter(file.parent for file in modules(*ROOMS) if file.stem != "__init__")

    assert {named(room): number for room, number in count.items() if number > ROOM_MODULES_MAX} == {}


@pytest.mark.parametrize("are_long", [False, True], ids=["short", "long"])
def test_a_file_has_40_to_400_lines_or_its_reason(are_long: bool) -> None:
    sizes = {named(file): lines_of(file) for file in modules(*ROOMS) if file.stem != "__init__"}
    if are_long:
        found, excepted = {name for name, size in sizes.items() if size >= FILE_LINES.stop}, set(LONG_FILES)
    else:
        small = {name for name, size in sizes.items() if size < FILE_LINES.start}
        found, excepted = {name for name in small if "/contract/" not in name}, set(SHORT_FILES)

    assert found == excepted


def test_names_are_made_of_words_of_the_field() -> None:
    found = [
        f"{named(file)}:{line} {name}"
        for file in modules(*ROOMS)
        for line, name in identifiers(ast.parse(file.read_text("utf-8")))
        if words(name) & PRIVATE_WORDS
    ]

    assert found == []


def test_a_function_says_what_it_does_or_returns() -> None:
    found = [
        f"{named(file)}:{node.lineno} {node.name}"
        for file in modules(*ROOMS)
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in RIDDLES
    ]

    assert found == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dead_letter_ids", {"", "ids"}),
        ("DeadLetterKey", {"", "key"}),
        ("letter_of", {"letter", "of"}),
        ("toldAgain", {"told", "again"}),
    ],
)
def test_a_name_is_cut_into_its_words(name: str, expected: set[str]) -> None:
    assert words(name) == expected
