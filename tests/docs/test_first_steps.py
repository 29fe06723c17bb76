"""docs/tutorials/first-steps.md is true: its commands print what it shows.

`python -m tests.docs.test_first_steps --write` plays the page and writes what they print now.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.transcript import Played, Step, plain, play, rewritten, steps

PAGE = Path(__file__).resolve().parents[2] / "docs/tutorials/first-steps.md"
CPU_SECONDS_MAX = 60
"""All commands together, of the five minutes that a newcomer has; the rest is for reading and typing."""


def test_the_first_steps_lead_where_the_page_says_and_in_time(tmp_path: Path) -> None:
    """C38, T36: from an empty folder to a job that was done, seen, died, replayed and done."""
    page = steps(PAGE.read_text("utf-8"))

    played = play(page, tmp_path)

    for shown, here in zip(page, played, strict=True):
        assert plain(here.step.output) == plain(shown.output), f"$ {shown.command}: run {__name__} --write"
        assert here.code == 0, here.step.command
    assert sum(each.cpu_seconds for each in played) < CPU_SECONDS_MAX


def test_a_transcript_is_read_and_written_again_as_it_was() -> None:
    page = "text\n```console\n$ a b\nout\n\nmore\n$ c\n```\n\n```sh\n$ not this\n```\n```console\n$ d\ne\n```\n"

    found = steps(page)

    assert found == [Step("a b", "out\n\nmore"), Step("c", ""), Step("d", "e")]
    assert rewritten(page, [Played(step, 0, 0.0, 0.0) for step in found]) == page


def test_what_differs_from_run_to_run_is_alike_and_what_does_not_is_not() -> None:
    text = "job {} ended {} ago  by {} at {} run_ms={}"
    one = text.format("01a1e32c-1f23-7bc7-84b2-79477a3c0eea", "854 ms", "vm:1:b94b5c", "2026-11-16T07:11:09.393Z", 7)
    two = text.format("02a1e32c-1f23-7bc7-84b2-79477a3c0eea", "1 m 3 s", "w:22:b94b5d", "2027-01-16T07:11:09.000Z", 12)

    assert plain(one) == plain(two) == ["job ID ended LONG ago by WORKER at TIME run_ms=LONG"]
    assert plain("2 claimed: 1 done") != plain("2 claimed: 2 done")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        played = play(steps(PAGE.read_text("utf-8")), Path(folder))
    for each in played:
        print(f"{each.seconds:6.1f} s  {each.cpu_seconds:6.1f} s of CPU  exit {each.code}  {each.step.command}")
    print(f"{sum(each.seconds for each in played):6.1f} s together")
    if "--write" in sys.argv:
        PAGE.write_text(rewritten(PAGE.read_text("utf-8"), played), "utf-8")
