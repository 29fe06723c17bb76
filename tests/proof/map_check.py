"""Checks the results of a map: a row for each number, with its square or an error."""

from pathlib import Path

import duckdb
from msgspec import Struct

from tests.proof.fleet_app import is_hopeless
from tests.proof.fleet_driver import RESULTS


class ResultCheck(Struct):
    """The results, compared with the expected ones."""

    rows: int = 0
    done: int = 0
    dead: int = 0
    missing: int = 0
    duplicate: int = 0
    wrong: int = 0
    """Rows with another result, outcome or error than expected."""

    @property
    def is_right(self) -> bool:
        """Whether each row has its result, once."""
        return self.rows > 0 == self.missing + self.duplicate + self.wrong

    def __str__(self) -> str:
        return (
            f"rows {self.rows:,} (done {self.done:,}, dead {self.dead:,}), missing {self.missing}, duplicate"
            f" {self.duplicate}, wrong {self.wrong}"
        )


def check_results(folder: Path, rows: int) -> ResultCheck:
    """Read the results with DuckDB, and compare each with the expected one."""
    files = f"{folder / RESULTS}/*.parquet"
    query = "SELECT n, outcome, result.square, error_class, error_message FROM read_parquet($files)"
    found = duckdb.execute(query, {"files": files}).fetchall()
    numbers = [row[0] for row in found]
    return ResultCheck(
        rows=len(found),
        done=sum(row[1] == "done" for row in found),
        dead=sum(row[1] == "dead" for row in found),
        missing=len(set(range(rows)) - set(numbers)),
        duplicate=len(numbers) - len(set(numbers)),
        wrong=sum(row != _expected(row[0]) for row in found),
    )


def _expected(n: int) -> tuple[int, str, int | None, str | None, str | None]:
    if is_hopeless(n):
        return n, "dead", None, "Fail", f"{n} is hopeless"
    return n, "done", n * n, None, None
