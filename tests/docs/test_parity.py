"""docs/explanation/parity.md is true: it has every line of the four origins once, and every proof names its line."""

import re
from pathlib import Path

import pytest

from tools.parity import ID, NONE_YET, proofs, rewritten, shown

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/explanation/parity.md").read_text("utf-8")
PROOFS = proofs(ROOT / "tests")
ROOMS = {"app", "cli", "client", "feeds", "postgres", "proof", "redis", "schedules", "service", "worker"}


def ids(prefix: str, *numbers: int | range) -> set[str]:
    """`prefix` with each number."""
    return {f"{prefix}{each}" for number in numbers for each in (number if isinstance(number, range) else (number,))}


EVERY_LINE = (
    ids("Q", range(1, 42))
    | ids("QB", range(1, 18))
    | {f"v1-{letter}" for letter in "abcde"}
    | ids("T", range(1, 40))
    | ids("TB", range(1, 17))
    | ids("C", range(1, 40))
    | ids("CB", range(1, 20))
    | ids("K", range(1, 36))
    | ids("KB", range(1, 19))
)
IN_SCOPE = (
    ids("Q", range(3, 14), range(15, 19), range(20, 28))
    | ids("QB", range(1, 11))
    | {f"v1-{letter}" for letter in "abcde"}
    | ids("T", range(3, 9), 11, 12, 14, 15, range(17, 22), 28, 32)
    | ids("TB", 1, 2, 4, range(8, 14))
    | ids("C", 1, 3, 5, 8, 10, 11, 12, 17, 18, 19)
    | ids("CB", range(1, 11), range(13, 16))
    | ids("K", range(20, 30))
    | ids("KB", range(1, 7))
)


def section(title: str) -> str:
    """The text under a heading, up to the next one of its rank."""
    assert f"## {title}\n" in TEXT
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The rows of a section that are about a line."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in section(title).splitlines()]
    return [row for row in cells if ID.fullmatch(row[0])]


def test_every_line_stands_on_the_page_exactly_once() -> None:
    found = [row[0] for title in ("Met", "Later", "Refused") for row in rows(title)]

    assert sorted(found) == sorted(EVERY_LINE)


def test_the_proofs_are_the_tests_that_name_the_line() -> None:
    """Both ways: no test that is not on the page, and none on the page that does not exist or does not say so."""
    assert {id: names for id, names in shown(TEXT).items() if names} == PROOFS, "run tools/parity.py --write"


def test_no_line_in_scope_lacks_a_proof() -> None:
    missing = sorted(IN_SCOPE - set(PROOFS))

    assert missing == [], f"no test names {', '.join(missing)} in its docstring"


def test_a_line_in_scope_is_held_today_and_one_that_is_held_has_a_proof() -> None:
    met = {row[0]: row[2] for row in rows("Met")}

    assert set(met) >= IN_SCOPE
    assert [id for id, proof in met.items() if "::" not in proof] == []


def test_a_line_for_later_names_the_room_it_comes_with() -> None:
    named = [row[2].partition(";")[0].removeprefix("later: ") for row in rows("Later")]

    assert set(named) <= ROOMS


def test_what_is_not_wanted_has_a_reason() -> None:
    assert [row for row in rows("Refused") if not re.search(r"\w{3}.*\.", row[1])] == []


PAGE = """
| id | behaviour | proof |
|---|---|---|
| Q1 | One | `tests/test_old.py::test_gone` |
| Q12 | Two | |
| Q2 | Three | later: worker |
| Q3 | Four | later: client; so far: `tests/test_old.py::test_gone` |

Q1 in a sentence is left alone.
"""
KNOWN = {"Q1": ["tests/test_a.py::test_x", "tests/test_b.py::test_y"], "Q2": ["tests/test_a.py::test_x"]}


def test_rewriting_changes_the_proofs_and_nothing_else() -> None:
    new = rewritten(PAGE, KNOWN)

    assert shown(new) == {**KNOWN, "Q12": [], "Q3": []}
    assert f"| Q12 | Two | {NONE_YET} |" in new
    assert "| Q2 | Three | later: worker; so far: `tests/test_a.py::test_x` |" in new
    assert "| Q3 | Four | later: client |" in new
    assert new.splitlines()[:3] + new.splitlines()[7:] == PAGE.splitlines()[:3] + PAGE.splitlines()[7:]
    assert rewritten(new, KNOWN) == new


@pytest.mark.parametrize(
    ("docstring", "named"),
    [
        ("Q9, QB10: both.", ["Q9", "QB10"]),
        ("v1-a and CB13.", ["v1-a", "CB13"]),
        ("a claim of 4 MiB, K8s, XQ1, Q0, utf8, v1-f, job-T1", []),
    ],
)
def test_ids_are_found_in_prose(docstring: str, named: list[str], tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(f'async def test_one():\n    """{docstring}"""\n')

    assert proofs(tests) == {id: ["tests/test_it.py::test_one"] for id in named}
