"""The docs are true where a program can tell: links, code, limits, defaults; and they name no machine."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.model import limits
from headrace.model.job import UNBOUNDED_HI_MS, UNBOUNDED_LO_MS, BlockedJob, Job, UpdateRunAt, block
from headrace.model.limits import PRIORITY_DEFAULT
from headrace.model.names import Queue
from headrace.model.policy import SETTABLE, Policy, QueueConfig

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tutorials", "how-to", "reference", "explanation")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob(".github/**/*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
NEEDS_SPARK = "headrace.pipeline"
"""Code that imports it needs a Java machine; tests/pipeline makes the same calls."""
BLOCK = re.compile(r"^(?P<mark><!-- not run -->\n\n?)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(text: str) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The names under which the headings of a page can be linked."""
    headings = re.findall(r"^#+ (.*)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)

    assert broken == []


@every_page
def test_a_page_names_no_machine_no_registry_and_nothing_outside(page: Path) -> None:
    telling = re.compile(
        r"/(work|home|root|Users|mnt)/|\.\./shared|localhost|127\.0\.0\.1:\d|\b(pypi|npmjs|ghcr|docker)\.(org|com|io)\b|index-url"
    )

    assert telling.findall(page.read_text("utf-8")) == []


@every_page
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top to bottom as one program, in a folder of its own, with await at the top level."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}

    with asyncio.Runner() as runner:
        for code in [] if page.name == "spark.md" else to_run(page.read_text("utf-8")):
            running = eval(compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307 - ours
            if inspect.iscoroutine(running):
                runner.run(running)
        for value in names.values():
            if hasattr(value, "jobs") and hasattr(value, "close"):
                runner.run(value.close())


def to_run(text: str) -> list[str]:
    """The blocks of Python that are not only shown."""
    blocks = [match["code"] for match in BLOCK.finditer(text) if not match["mark"]]
    return [code for code in blocks if NEEDS_SPARK not in code]


def test_the_programs_of_the_readme_print_what_their_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "".join(to_run((ROOT / "README.md").read_text("utf-8")))
    names: dict[str, object] = {"__name__": "__docs__"}

    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - ours

    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", code)


def test_the_readme_has_no_word_that_only_this_project_uses() -> None:
    private = re.compile(r"\b(?:rooms?|floors?|doors?|twins?|(?<!dead )letters?)\b", re.IGNORECASE)

    assert private.findall((ROOT / "README.md").read_text("utf-8")) == []


@every_page
def test_only_the_page_whose_code_is_run_with_spark_uses_it_without_saying_so(page: Path) -> None:
    """tests/pipeline runs that one."""
    shown = [code for code in to_run(page.read_text("utf-8")) if "spark." in code]

    assert shown == [] or page.name == "spark.md"


def test_code_behind_the_mark_is_not_run_and_other_code_is() -> None:
    block = "```python\n{}\n```\n\n"
    mark = "<!-- not run -->\n"
    page = mark + block.format("shown") + block.format("run") + mark + "\n" + block.format("shown")

    assert to_run(page) == ["run\n"]


@every_page
def test_every_limit_that_is_quoted_is_the_one_that_holds(page: Path) -> None:
    quoted = re.findall(r"`([A-Z][A-Z0-9_]+)`\s\(([\d,]+)\)", page.read_text("utf-8"))

    assert [(name, value) for name, value in quoted if f"{getattr(limits, name, None):,}" != value] == []


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table under a header row."""
    text = (ROOT / page).read_text("utf-8")
    assert text.count(f"\n{header}\n") == 1, f"{page} has no table {header!r}"
    body = text.partition(f"\n{header}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def test_the_limits_that_users_meet_are_quoted() -> None:
    text = (ROOT / "docs/reference/semantics.md").read_text("utf-8")
    wanted = {"TENANT", "QUEUE", "ID", "KIND", "TAG", "KEY", "PAYLOAD", "RESULT", "HEADERS", "BATCH", "CLAIM", "SHARDS"}

    assert {name for name in wanted if not re.search(rf"`{name}_\w*MAX`\s\(", text)} == set()


def test_every_field_of_a_job_and_of_a_policy_is_described() -> None:
    fields = [row[0].strip("`") for row in rows("docs/reference/semantics.md", "| field | default | limit | meaning |")]
    policy = [
        row[0].strip("`") for row in rows("docs/reference/semantics.md", "| policy field | from | to | meaning |")
    ]

    assert fields == list(Job.__struct_fields__)
    assert policy == list(Policy.__struct_fields__)


def test_every_setting_of_a_queue_is_described_with_its_default() -> None:
    shown = {
        row[0].strip("`"): row[1] for row in rows("docs/reference/semantics.md", "| setting | default | meaning |")
    }
    defaults = {name: getattr(QueueConfig(), name) for name in SETTABLE}

    assert shown == {
        name: str(value).lower() if isinstance(value, bool) else f"{value:,}" for name, value in defaults.items()
    }
    assert defaults["priority"] == PRIORITY_DEFAULT


ENQUEUED = "| enqueued while it ran | lo | hi | would wait at 100 | would wait at 250 | freed, it waits at |"


@pytest.mark.parametrize("row", rows("docs/reference/semantics.md", ENQUEUED), ids=lambda row: row[0])
def test_the_worked_table_of_blocked_jobs_is_right(row: list[str]) -> None:
    enqueues, *expected = row
    blocked_job: BlockedJob | None = None
    for text in re.findall(r"`([^`]+)`", enqueues):
        flag, _, time = text.partition(" ")
        job = Job(
            queue=Queue("q"), id="a", kind="k", update_run_at=UpdateRunAt(flag), run_at_ms=int(time) if time else None
        )
        blocked_job = block(blocked_job, job, 0)

    assert blocked_job is not None
    back = [blocked_job.applied(replace(blocked_job.record, run_at_ms=run_at_ms)).run_at_ms for run_at_ms in (100, 250)]
    lo = "–" if blocked_job.lo_ms == UNBOUNDED_LO_MS else str(blocked_job.lo_ms)
    hi = "–" if blocked_job.hi_ms == UNBOUNDED_HI_MS else str(blocked_job.hi_ms)
    assert [lo, hi, *map(str, back), str(blocked_job.freed().run_at_ms)] == expected


def test_the_index_names_every_page_under_its_part() -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    listed = {part: re.findall(r"\]\(([^)]+)\)", section(index, part)) for part in PARTS}

    pages = {part: sorted(f"{part}/{page.name}" for page in (ROOT / "docs" / part).glob("*.md")) for part in PARTS}

    assert {part: sorted(link for link in links if link.startswith(part)) for part, links in listed.items()} == pages
    assert [page.name for page in (ROOT / "docs").glob("*.md")] == ["README.md"]


def section(text: str, part: str) -> str:
    """The index under the heading of a part, up to the next heading."""
    return text.partition(f"\n## {part.capitalize()}")[2].partition("\n## ")[0]
