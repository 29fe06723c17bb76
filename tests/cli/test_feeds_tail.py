"""Promises of `headrace feeds tail`: what is there, then what changes, and from where one was."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from headrace.model.feed import FeedName, Publication
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store
from tests.cli.job_states import finish_all, job
from tests.cli.support import COLUMNS, RUN_S, run, start, with_store

NEWS = FeedName("news")
ODD = "odd\n:{}\x07"


async def create_feed(store: Store) -> None:
    """A feed with one item that keeps two changes."""
    await store.feeds.create(NEWS, "feed", {"changes_keep_max": 2}, instance="test")
    await store.items.publish(NEWS, [Publication(b'{"a":1}', "one")], instance="test")


def published(url: str, *ids: str) -> None:
    publications = [Publication(json.dumps(f"about {id}").encode(), id) for id in ids]
    with_store(url, lambda store: store.items.publish(NEWS, publications, instance="test"))


def read_lines(tail: "subprocess.Popen[str]", count: int) -> list[str]:
    """The next lines that are printed, without their time."""
    assert tail.stdout is not None
    return [tail.stdout.readline().rstrip("\n")[26:] for _ in range(count)]


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_tail_prints_what_is_there_then_what_changes_and_says_how_to_go_on(file_url: str) -> None:
    """T36: an interrupt ends it with 130, and who goes on misses nothing and sees nothing twice."""
    with_store(file_url, create_feed)

    with start("feeds", "tail", "news", url=file_url) as tail:
        first_lines = read_lines(tail, 2)
        published(file_url, ODD)
        changed = read_lines(tail, 1)
        tail.send_signal(signal.SIGINT)
        _, err = tail.communicate(timeout=RUN_S)
    published(file_url, "two", "three")
    words = err.removeprefix("continue with: headrace ").split()
    resumed = run(*words, "--limit", "2", "--json", url=file_url)

    assert (tail.returncode, words[:4]) == (130, ["feeds", "tail", "news", "--cursor"])
    assert first_lines == ['present     one  {"a":1}', "live        changes follow"]
    assert changed == [
        'published   odd\\n:{}\\x07  "about odd\\n:{}\\u0007"  test'.replace("odd\\n:{}\\u", "odd\\n:{}\\u")
    ]
    assert [(each["event"], each["id"], each["item"]) for each in objects(resumed.out)] == [
        ("published", "two", "about two"),
        ("published", "three", "about three"),
    ]
    assert (resumed.code, resumed.err) == (0, "")


def test_a_cursor_file_goes_on_where_the_tail_before_ended(file_url: str, tmp_path: Path) -> None:
    with_store(file_url, create_feed)
    kept = tmp_path / "cursor"
    words = ("feeds", "tail", "news", "--new", "--cursor-file", str(kept), "--json")

    before = run(*words, "--for", "1ms", url=file_url)
    published(file_url, "two", "three")
    [first] = objects(run(*words, "--limit", "1", url=file_url).out)
    written = kept.read_text()
    [second] = objects(run(*words, "--limit", "1", url=file_url).out)

    assert (before.code, before.out, before.err) == (0, "", "")
    assert (first["id"], second["id"]) == ("two", "three")
    assert (written, kept.read_text()) == (f"{first['cursor']}\n", f"{second['cursor']}\n")
    assert [*tmp_path.glob(".cursor*")] == []


def test_a_tail_too_far_behind_shows_the_gap_and_then_the_items(file_url: str) -> None:
    with_store(file_url, create_feed)
    state = with_store(file_url, lambda store: store.feeds.describe(NEWS))
    assert state is not None
    published(file_url, "two", "three", "four")

    ran = run("feeds", "tail", "news", "--cursor", str(state.cursor), "--limit", "5", url=file_url)

    assert ran.lines[0].strip() == "gap         changes were missed: discard earlier items; the current ones follow"
    assert [line.split()[1:3] for line in ran.lines[1:]] == [["present", id] for id in ("one", "two", "three", "four")]


def test_in_a_terminal_every_change_is_one_line_that_fits(file_url: str) -> None:
    """Of a long item as much as leaves room for who published it."""
    with_store(file_url, create_feed)
    state = with_store(file_url, lambda store: store.feeds.describe(NEWS))
    assert state is not None
    long = Publication(json.dumps("x" * 500).encode(), ODD)
    with_store(file_url, lambda store: store.items.publish(NEWS, [long], instance="test"))

    ran = run("feeds", "tail", "news", "--cursor", str(state.cursor), "--limit", "1", url=file_url, terminal=True)

    line, hint = ran.lines
    assert (len(line), line[12], line[-8:]) == (COLUMNS, "Z", "x…  test")
    assert line[13:].startswith('  published   odd\\n:{}\\x07  "xxx')
    assert hint.startswith("continue with: headrace feeds tail news --cursor ")


def test_a_reader_that_has_seen_enough_ends_the_tail_before_anything_changes(file_url: str) -> None:
    with_store(file_url, create_feed)

    with start("feeds", "tail", "news", url=file_url) as tail:
        first_lines = read_lines(tail, 2)
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stdout.close()
        code = tail.wait(RUN_S)
        err = tail.stderr.read()

    assert (len(first_lines), code, err) == (2, 0, "")


def test_a_tail_ends_with_its_feed(file_url: str, tmp_path: Path) -> None:
    """The directory tells of it as well; what was kept to go on from is forgotten."""
    with_store(file_url, create_feed)
    kept = tmp_path / "cursor"

    with (
        start("feeds", "tail", "news", "--cursor-file", str(kept), url=file_url) as tail,
        start("feeds", "tail", "--all", "--limit", "2", url=file_url) as directory,
    ):
        first_lines, listed = read_lines(tail, 2), read_lines(directory, 2)
        with_store(file_url, lambda store: store.feeds.delete(NEWS, instance="test"))
        finished_job, _ = tail.communicate(timeout=RUN_S)
        listing, _ = directory.communicate(timeout=RUN_S)

    assert (tail.returncode, directory.returncode, kept.exists()) == (0, 0, False)
    assert (first_lines[0][:7], listed[0][:17]) == ("present", "present     news ")
    assert (finished_job[26:], listing[26:]) == ("deleted     test\n", "deleted     news  test\n")


def test_the_events_of_a_job_queue_are_shown_in_order(file_url: str) -> None:
    with_store(file_url, lambda store: finish_all(store, [job("one")], Done(b"1")))

    ran = run("feeds", "tail", "--queue", "mail", "--beginning", "--limit", "3", "--json", url=file_url)

    found = [(each["event"], each["id"]) for each in objects(ran.out) if each["event"] != "live"]
    assert (ran.code, found) == (0, [("enqueued", "one"), ("claimed", "one"), ("done", "one")])
