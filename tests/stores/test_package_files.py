"""SQL as files of named statements: what a driver gets of them, and what is refused."""

import sys
from pathlib import Path

import pytest

from headrace.stores.package_files import SqlFiles, split_statements

JOB = """-- The statements on jobs.

-- name: job_load
-- The jobs of a batch.
--
-- args     shard_id
SELECT id
FROM job WHERE shard_id = ?;

-- name: job_drop
-- Drop a job.
DELETE FROM job WHERE id = ?;
"""
FIRST = """-- name: job
-- Jobs.
CREATE TABLE job (id TEXT);

-- name: job_by_id
-- One job per id.
CREATE INDEX job_by_id ON job (id);
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A package whose SQL a test may write."""
    name = f"driver_of_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    (folder / "sql/migrations").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "sql/job.sql").write_text(JOB)
    (folder / "sql/migrations/0001_initial.sql").write_text(FIRST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name, folder / "sql"


def test_a_statement_is_sent_without_its_comments(package: tuple[str, Path]) -> None:
    sql = SqlFiles(package[0])

    assert sql.statement("job_load") == "SELECT id\nFROM job WHERE shard_id = ?;"
    assert sql.statement_names() == ["job_load", "job_drop"]


def test_a_step_of_the_schema_has_a_number_a_name_and_several_statements(package: tuple[str, Path]) -> None:
    (package[1] / "migrations/0002_later.sql").write_text("-- name: more\n-- More.\nALTER TABLE job ADD b TEXT;\n")

    sql = SqlFiles(package[0])

    assert sql.migration_names() == ["0001_initial", "0002_later"]
    assert sql.migrations() == [
        (1, ["CREATE TABLE job (id TEXT);", "CREATE INDEX job_by_id ON job (id);"]),
        (2, ["ALTER TABLE job ADD b TEXT;"]),
    ]


def test_files_are_read_once(package: tuple[str, Path]) -> None:
    sql = SqlFiles(package[0])
    (package[1] / "job.sql").unlink()

    assert sql.statement("job_drop") == "DELETE FROM job WHERE id = ?;"


def test_an_edit_changes_statements_and_steps_by_name(package: tuple[str, Path]) -> None:
    sql = SqlFiles(package[0])

    sql.edit(lambda name, text: text.replace("id", "no") if name in ("job_drop", "migrations/job") else text)

    assert sql.statement("job_drop") == "DELETE FROM job WHERE no = ?;"
    assert sql.statement("job_load").startswith("SELECT id")
    assert sql.migrations() == [(1, ["CREATE TABLE job (no TEXT);", "CREATE INDEX job_by_id ON job (id);"])]


def test_a_name_in_two_files_is_refused(package: tuple[str, Path]) -> None:
    (package[1] / "key.sql").write_text("-- name: job_drop\n-- Drop a job again.\nSELECT 1;\n")

    with pytest.raises(ValueError, match="'job_drop'"):
        SqlFiles(package[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- name: a\n-- One.\nSELECT 1;\n-- name: a\n-- Two.\nSELECT 2;\n", "two SQL statements are named 'a'"),
        ("-- name: a\nSELECT 1;\n", "'a' has no purpose"),
        ("-- name: a\n\n-- One.\nSELECT 1;\n", "'a' has no purpose"),
        ("-- Only a comment.\nSELECT 1;\n", "before the first name"),
    ],
)
def test_a_file_that_is_not_named_statements_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_statements(text)
