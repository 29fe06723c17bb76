"""Promises of the files of statistics: every backlog is true, whatever comes late, and nothing is lost on the way."""

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import BadConfig
from headrace.pipeline.stats.columns import ROW, Row
from headrace.pipeline.stats.files import Files
from headrace.pipeline.stats.merge import Visited, merge
from headrace.pipeline.stats.state import StatsState, check_folder, load, save
from headrace.pipeline.stats.touched import ranges

MINUTE = 60_000
DAY = 1_440 * MINUTE
NOON = 19_700 * DAY + DAY // 2


def row(opened: int, closed: int = 0, *, kind: str | None = "k", queue: str = "mail", events: int = 1) -> Row:
    blank: Row = dict.fromkeys(ROW.names, 0)
    return blank | {
        "tenant": "acme",
        "queue": queue,
        "kind": kind,
        "opened": opened,
        "closed": closed,
        "events": events,
    }


class Folder:
    """A folder that is opened anew for each merge, as after a restart."""

    def __init__(self, path: Path) -> None:
        self.path = check_folder(path, MINUTE)

    def merge(self, *fresh: tuple[int, list[Row]], is_killed: bool = False, **options: Any) -> list[Visited]:
        state = load(self.path, MINUTE)
        for _, rows in fresh:
            for each in rows:
                state.queues.setdefault(f"acme/{each['queue']}", None)
        files = Files(self.path, MINUTE)
        visited = list(merge(self.path, state, files, min(start for start, _ in fresh), fresh, **options))
        if not is_killed:
            save(self.path, state)
        return visited

    def backlogs(self) -> dict[int, list[int | None]]:
        files = Files(self.path, MINUTE)
        return {start: [each["backlog"] for each in files.read(start)] for start in files.starts()}


def test_a_late_change_is_carried_to_the_windows_behind_it_and_no_further_than_it_matters(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stats")
    first, second, third, fourth = (NOON + n * DAY // 3 for n in range(4))
    folder.merge((first, [row(5)]), (third, [row(1, 2)]), (fourth, [row(0, 3)]))

    late = folder.merge((second, [row(2)]))
    healed = folder.merge((second, [row(2, 2, events=2)]), (third, [row(1, 2)]))
    equal = folder.merge((second, [row(2, 2, events=2)]))

    assert [each.start_ms for each in late] == [second, third, fourth]
    assert [each.is_changed for each in healed] == [True, True, True]
    assert [(each.start_ms, each.is_changed) for each in equal] == [(second, False)]
    assert folder.backlogs() == {first: [5], second: [5], third: [4], fourth: [1]}


def test_backlogs_add_up_in_whatever_order_windows_come_and_processes_die(tmp_path: Path) -> None:
    folder, chance = Folder(tmp_path / "stats"), random.Random(7)
    nets: dict[int, dict[str, int]] = {}

    for turn in range(20):
        fresh = []
        for start in sorted({NOON + chance.randrange(20) * 5 * 3_600_000 for _ in range(chance.randrange(1, 4))}):
            kinds = {kind: (chance.randrange(5), chance.randrange(5)) for kind in "abc"}
            nets[start] = {kind: opened - closed for kind, (opened, closed) in kinds.items()}
            fresh.append((start, [row(*both, kind=kind, events=turn) for kind, both in kinds.items()]))
        folder.merge(*fresh, is_killed=chance.random() < 0.3)
        # What a process that is killed has not noted, its batch does again.
        folder.merge(*fresh)

    sums = dict.fromkeys("abc", 0)
    right = {}
    for start in sorted(nets):
        for kind, net in nets[start].items():
            sums[kind] += net
        right[start] = list(sums.values())
    assert folder.backlogs() == right


def test_a_writer_with_fewer_events_of_a_window_and_queue_changes_nothing_there(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stats")
    folder.merge((NOON, [row(3, kind="a", events=3), row(4, kind="b", events=4), row(1, queue="news")]))

    folder.merge((NOON, [row(5, kind="a", events=5), row(6, queue="news", events=2)]))

    assert folder.backlogs() == {NOON: [3, 4, 6]}


def test_a_backlog_that_is_not_known_is_null_from_then_on(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stats")
    folder.merge((NOON, [row(3)]), (NOON + MINUTE, [row(1), row(1, queue="news")]))
    state = load(folder.path, MINUTE)

    news = [state.doubt("acme/mail", NOON + MINUTE), state.doubt("acme/mail", NOON + DAY)]
    save(folder.path, state)
    folder.merge((NOON, [row(3)]), to_end=True)

    assert news == [True, False]
    assert folder.backlogs() == {NOON: [3], NOON + MINUTE: [None, 1]}


def test_new_rows_are_reported_and_recorded_as_unpublished_before_their_file_exists(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stats")
    folder.merge((NOON, [row(3)]), (NOON + MINUTE, [row(1)]))
    state = load(folder.path, MINUTE)
    state.feeds = {"stats": None, "behind": NOON}
    save(folder.path, state)

    late = folder.merge((NOON, [row(4, events=2)]))
    changed = load(folder.path, MINUTE).feeds
    killed = folder.merge((NOON + MINUTE, [row(1), row(1, kind="b")]), is_killed=True)

    assert [each.added for each in late] == [frozenset(), frozenset()]
    assert changed == {"stats": None, "behind": NOON}
    assert [each.added for each in killed] == [{("acme", "mail", "b")}]
    assert load(folder.path, MINUTE).feeds == {"stats": NOON + MINUTE, "behind": NOON}


def test_a_folder_with_something_else_or_of_other_windows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious.txt").write_text("mine")
    check_folder(tmp_path / "stats", MINUTE)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "_state.json").write_text("{")

    with pytest.raises(BadConfig, match="holds no statistics of ours; name a folder that is new or empty"):
        check_folder(tmp_path / "home", MINUTE)
    with pytest.raises(BadConfig, match="holds windows of 1 m 0 s, and 1 h 0 m was asked for"):
        check_folder(tmp_path / "stats", 3_600_000)
    with pytest.raises(BadConfig, match="cannot be read"):
        check_folder(tmp_path / "torn", MINUTE)
    with pytest.raises(BadConfig, match="is no folder of this machine; mount it"):
        check_folder("s3a://bucket/stats", MINUTE)
    for window_ms in (500, 1_500, 2 * DAY):
        with pytest.raises(BadConfig, match="give whole seconds, from 1 s to 24 h"):
            check_folder(tmp_path / "new", window_ms)


def test_windows_far_apart_are_read_in_a_bounded_number_of_ranges_with_the_least_between_them() -> None:
    hours = [NOON + hour * 60 * MINUTE for hour in (0, 5, 20, 21, 40)]

    few = ranges([*hours, NOON + MINUTE], MINUTE, most=3)
    one = ranges(hours, MINUTE, most=1)
    enough = ranges(hours[:3], MINUTE, most=3)

    assert few == [(NOON, hours[1] + MINUTE), (hours[2], hours[3] + MINUTE), (hours[4], hours[4] + MINUTE)]
    assert one == [(NOON, hours[-1] + MINUTE)]
    assert enough == [(hour, hour + MINUTE) for hour in hours[:3]]


def test_the_state_of_a_folder_is_kept_as_it_was(tmp_path: Path) -> None:
    state = StatsState(
        window_ms=MINUTE, queues={"acme/mail": None, "acme/news": NOON}, counted={"acme/mail/0": (1, 17)}, late=3
    )
    state.put_sums(NOON, {("acme", "mail", None): -1, ("acme", "mail", "k"): 0})

    save(tmp_path, state)

    assert load(tmp_path, MINUTE) == state
    assert state.totals == [("acme", "mail", None, -1)]
    assert [state.knows("acme/news", NOON - MINUTE), state.knows("acme/news", NOON)] == [True, False]
