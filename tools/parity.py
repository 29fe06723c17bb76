"""Keep the proofs in docs/explanation/parity.md in step with the tests: a test proves the lines its docstring names.

tools/parity.py            say what differs; ends with 1 if anything does
tools/parity.py --write    write the column anew
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/explanation/parity.md"
NONE_YET = "none yet"
ID = re.compile(r"(?<![\w-])(?:(?:Q|T|C|K)B?[1-9]\d*|v1-[a-e])(?!\w)")
_ROW = re.compile(rf"\| (?P<id>{ID.pattern}) \| (?P<holds>.*?) \|(?P<proof>.*)\|")
_LATER = re.compile(r"later: \w+")


def proofs(tests: Path) -> dict[str, list[str]]:
    """The tests that name each line in their docstring, by file, then place."""
    found: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for function, docstring in _tests_in(file):
            for id in dict.fromkeys(ID.findall(docstring)):
                found.setdefault(id, []).append(f"{file.relative_to(tests.parent).as_posix()}::{function}")
    return found


def _tests_in(file: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def shown(text: str) -> dict[str, list[str]]:
    """The lines of the page that have a proof column, each with the tests in it."""
    return {row["id"]: re.findall(r"`([^`]+::[^`]+)`", row["proof"]) for row in _rows(text)}


def rewritten(text: str, known: Mapping[str, Sequence[str]]) -> str:
    """The page with the proof column that follows from the docstrings. A line for later stays one, and shows what is
    proven of it so far."""
    for row in _rows(text):
        names = "<br>".join(f"`{name}`" for name in known.get(row["id"], ()))
        later = _LATER.search(row["proof"])
        cell = (f"{later[0]}; so far: {names}" if names else later[0]) if later else names or NONE_YET
        text = text.replace(row[0] + "\n", f"| {row['id']} | {row['holds']} | {cell} |\n", 1)
    return text


def _rows(text: str) -> list[re.Match[str]]:
    return [row for line in text.splitlines() if (row := _ROW.fullmatch(line))]


def main(arguments: Sequence[str]) -> int:
    text, known = PAGE.read_text("utf-8"), proofs(ROOT / "tests")
    new = rewritten(text, known)
    if "--write" in arguments:
        PAGE.write_text(new, "utf-8")
        text = new
    for old_line, new_line in zip(text.splitlines(), new.splitlines(), strict=True):
        if old_line != new_line:
            print(f"parity: {new_line.split(' | ')[0].strip('| ')} has other proofs than the page says; use --write")
    for line in new.splitlines():
        if line.endswith(f"| {NONE_YET} |"):
            print(f"parity: no test names {line.split(' | ')[0].strip('| ')}")
    unknown = sorted(set(known) - set(shown(new)))
    if unknown:
        print(f"parity: tests name {', '.join(unknown)}, for which the page has no line with a proof")
    return int(new != text or bool(unknown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
