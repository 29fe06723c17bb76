"""Promises of `headrace feeds`: what it shows is so, what it changes is changed, and a refusal changes nothing."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.model.feed import DIRECTORY, FeedName, Publication
from headrace.model.results import FeedState
from headrace.stores.contract.store import Store
from tests.cli.support import COLUMNS, run, with_store
from tests.support.stores import sqlite_url

NEWS, BOARD, INBOX = FeedName("news"), FeedName("board"), FeedName("inbox")
ODD = "odd\n:{}\x07\N{GRINNING FACE}"
"""An id that would break a table and ring a terminal's bell."""


async def three_feeds(store: Store) -> None:
    """A feed with three items, one of which was edited, a sorted feed with two, and an empty item queue."""
    await store.feeds.create(NEWS, "feed", {"items_max": 3}, instance="test")
    await store.feeds.create(BOARD, "sorted", instance="test")
    await store.feeds.create(INBOX, "queue", {"items_max": 1}, instance="test")
    long = json.dumps("x" * 500).encode()
    news = [Publication(b'{"a":1}', "one"), Publication(long, ODD), Publication(b"\xff\x00", "bytes")]
    await store.items.publish(NEWS, [*news, Publication(b'{"a":2}', "one")], instance="test")
    await store.items.publish(BOARD, [Publication(b'"one"'), Publication(b'"two"')], instance="test")


@pytest.fixture(scope="module")
def filled_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with three feeds, for all tests that change nothing."""
    url = sqlite_url(tmp_path_factory.mktemp("feeds"))
    with_store(url, three_feeds)
    return url


async def ids(store: Store, feed: FeedName = BOARD) -> list[str]:
    return [row.id for row in (await store.items.list(feed)).rows]


async def described(store: Store, feed: FeedName = NEWS) -> FeedState | None:
    return await store.feeds.describe(feed)


def test_feeds_are_listed_with_what_they_hold_and_when_they_changed(filled_url: str) -> None:
    """T36: for people and for programs."""
    ran, document = run("feeds", url=filled_url), run("feeds", "list", "--json", url=filled_url).document

    head, _, board, inbox, news, total = ran.lines
    assert (ran.code, ran.err, document["more"]) == (0, "", False)
    assert " ".join(head.split()) == "feed type items total kept changes last change"
    assert board.split()[:5] == ["board", "sorted", "2", "2", "3"]
    assert inbox.split()[:5] == ["inbox", "queue", "0", "0", "1"]
    assert (news.split()[:5], news.split()[-1]) == (["news", "feed", "3", "4", "5"], "ago")
    assert total == "3 feeds with 5 items"
    assert [each["feed"] for each in document["feeds"]] == ["board", "inbox", "news"]
    facts = {"type": "feed", "items": 3, "total": 4, "changes": 5, "items_max": 3}
    assert {name: document["feeds"][2][name] for name in facts} == facts


def test_settings_of_a_feed_are_taken_as_people_write_them(file_url: str) -> None:
    options = ("--items-max", "50", "--items-keep", "1h", "--changes-keep", "2d")

    created = run("feeds", "create", "news", *options, url=file_url)
    done = run("feeds", "configure", "news", "items_keep=0", "changes-keep-max=500", url=file_url)

    state = with_store(file_url, described)
    assert (created.code, created.out) == (0, "feed 'news' of tenant 'default' was created\n")
    assert (done.code, done.lines[0]) == (0, "items_keep_ms: 1h → 0")
    assert done.lines[2] == "feed 'news' has version 1 of its configuration"
    assert state is not None
    assert (state.config.items_max, state.config.items_keep_ms) == (50, 0)
    assert (state.config.changes_keep_ms, state.config.changes_keep_max) == (2 * 86_400_000, 500)


def test_a_feed_is_deleted_only_after_a_confirmation(file_url: str) -> None:
    with_store(file_url, three_feeds)

    alone = run("feeds", "delete", "news", url=file_url)
    declined = run("feeds", "delete", "news", url=file_url, terminal=True, input="n\n")
    kept = with_store(file_url, described)
    agreed = run("feeds", "delete", "news", url=file_url, terminal=True, input="y\n")

    assert (alone.code, declined.code, kept is not None) == (2, 130, True)
    assert "Delete feed 'news' of tenant 'default' for good, with 3 items and 5 changes? [y/N]: " in declined.out
    assert (agreed.code, agreed.out.endswith("feed 'news' was deleted\n")) == (0, True)
    assert with_store(file_url, lambda store: ids(store, FeedName(DIRECTORY))) == ["board", "inbox"]


def test_items_go_where_they_are_put(file_url: str) -> None:
    with_store(file_url, three_feeds)

    first = run("feeds", "publish", "board", '"three"', "--first", url=file_url)
    before = run("feeds", "publish", "board", "user_id=42", "--id", "x", "--before", "2", "--json", url=file_url)
    edited = run("feeds", "publish", "board", '{"user_id": 43}', "--id", "x", "--edit", url=file_url)
    moved = run("feeds", "move", "board", "1", "--after", "2", "--json", url=file_url)
    again = run("feeds", "move", "board", "1", "--last", url=file_url)

    shown = run("feeds", "items", "board", "--json", url=file_url).document
    assert (first.code, first.out) == (0, "item 3 was published in 'board', first\n")
    assert before.document == {"feed": "board", "tenant": "default", "id": "x", "status": "published"}
    assert (edited.code, edited.out) == (0, "item x was edited in 'board'\n")
    assert (moved.document["status"], again.out) == ("moved", "item 1 is already there: last\n")
    assert [(each["id"], each["item"]) for each in shown["items"]] == [
        *(("3", "three"), ("x", {"user_id": 43})),
        *(("2", "two"), ("1", "one")),
    ]


def test_items_are_whole_for_programs_and_one_line_each_in_a_terminal(filled_url: str) -> None:
    """An id or an item that holds control characters changes nothing but its own cell."""
    piped, document = (
        run("feeds", "items", "news", url=filled_url),
        run("feeds", "items", "news", "--json", url=filled_url),
    )
    watched = run("feeds", "items", "news", url=filled_url, terminal=True)

    assert [line.split()[0] for line in watched.lines[2:]] == ["odd\\n:{}\\x07\N{GRINNING FACE}", "bytes", "one"]
    assert max(map(len, watched.lines)) <= COLUMNS
    assert watched.lines[2].endswith("…")
    assert piped.lines[2].endswith(json.dumps("x" * 500))
    assert piped.lines[3].endswith("2 bytes that are not text: b'\\xff\\x00'")
    found = document.document["items"]
    assert [each["id"] for each in found] == [ODD, "bytes", "one"]
    assert [each["item"] for each in found] == ["x" * 500, {"base64": "/wA="}, {"a": 2}]


def test_items_are_listed_page_by_page_or_by_name(filled_url: str) -> None:
    page = run("feeds", "items", "news", "--limit", "2", "--json", url=filled_url).document
    rest = run("feeds", "items", "news", "--cursor", page["cursor"], "--json", url=filled_url).document
    named = run("feeds", "items", "news", "one", "none", url=filled_url)

    assert [each["id"] for each in page["items"] + rest["items"]] == [ODD, "bytes", "one"]
    assert rest["cursor"] is None
    assert (named.code, named.err) == (1, "there is no item 'none'\n")
    assert [line.split()[0] for line in named.lines[2:]] == ["one"]


def test_what_is_not_there_cannot_be_retracted_and_is_exit_code_1(file_url: str) -> None:
    with_store(file_url, three_feeds)

    ran = run("feeds", "retract", "news", ODD, "none", "--json", url=file_url)

    assert (ran.code, ran.document["statuses"]) == (1, {"retracted": 1, "not_found": 1})
    assert with_store(file_url, lambda store: ids(store, NEWS)) == ["bytes", "one"]


def test_the_items_of_a_file_are_published_in_order(file_url: str, tmp_path: Path) -> None:
    """In calls of a thousand; a line that the feed would not have is told, and the others are in it."""
    with_store(file_url, three_feeds)
    lines = [{"item": number, "id": f"n{number}"} for number in range(1_200)]
    lines += [{"item": None, "after": "n0"}, {"item": 1, "before": "nothing"}]
    (tmp_path / "items.jsonl").write_text("\n\n".join(map(json.dumps, lines)))

    ran = run("feeds", "publish", "board", "--from", "items.jsonl", "--json", url=file_url, cwd=tmp_path)

    [refused] = ran.document["refused"]
    assert (ran.code, ran.document["published"]) == (1, 1_201)
    assert (refused["line"], refused["status"]) == (2_403, "unknown_neighbour")
    assert with_store(file_url, described_board_order) == ["1", "2", "n0", "3", "n1"]


async def described_board_order(store: Store) -> list[str]:
    return (await ids(store))[:5]


def test_a_wrong_line_of_a_file_leaves_nothing_behind(file_url: str) -> None:
    with_store(file_url, three_feeds)

    ran = run("feeds", "publish", "board", "--from", "-", url=file_url, input='{"item": 1}\n{"itm": 2}\n')

    assert (ran.code, ran.out) == (2, "")
    assert "line 2 is wrong: a line has no 'itm'; did you mean 'item'?" in ran.err
    assert ran.err.endswith("; nothing was published\n")
    assert with_store(file_url, ids) == ["1", "2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["publish", "nws", "1"], "tenant 'default' has no feed 'nws'; did you mean 'news'?"),
        (["items", "zzz"], "tenant 'default' has no feed 'zzz'; its feeds: board, inbox, news"),
        (["items", "news", "--tenant", "acme"], "tenant 'acme' has no feed 'news'; it has none yet"),
        (["create", "no name"], "feed name 'no name' is not a name"),
        (["create", "news"], "there is a feed 'default/news' already"),
        (["create", "new", "--items-keep", "soon"], "items_keep 'soon' is not a valid duration"),
        (["create", "new", "--type", "sorted", "--items-keep", "1h"], "items of a sorted feed have no age"),
        (["configure", "news", "item_max=1"], "feeds have no setting 'item_max'; did you mean 'items_max'?"),
        (["configure", "news", "items_max=1", "--if-version", "7"], "was to be at version 7 and is at 0"),
        (["delete", "*"], "the feed directory is read-only"),
        (["publish", "news", "{"], "the item '{' is not valid JSON"),
        (["publish", "news"], "the item is missing; give it as in: headrace feeds publish news user_id=42"),
        (["publish", "news", json.dumps("x" * 262_144)], "item has 262,146 bytes; at most 262,144 are kept"),
        (["publish", "news", "1", "--id", "x" * 257], "the id of an item must have 1 to 256 characters; found 257"),
        (["publish", "news", "1", "--first"], "'default/news' is of type 'feed' and cannot publish 'first'"),
        (["publish", "board", "1", "--first", "--after", "2"], "an item has one position; found --after and --first"),
        (["publish", "board", "1", "--before", "9"], "'board' has no item '9' to place another before"),
        (["publish", "board", "1", "--edit", "--id", "9"], "'board' has no item '9'"),
        (["publish", "board", "1", "--edit"], "an edit names an item and no position"),
        (["publish", "board", "--from", "none.jsonl"], "the items cannot be read from none.jsonl"),
        (["publish", "board", "--from", "-", "--first"], "a position applies to one item, and --from publishes many"),
        (["move", "board", "1"], "the position is missing; give --before ID, --after ID, --first or --last"),
        (["move", "board", "9", "--first"], "'board' has no item '9'"),
        (["move", "board", "1", "--after", "9"], "'board' has no item '9' to place another after"),
        (["move", "news", "one", "--first"], "'default/news' is of type 'feed' and cannot move items"),
        (["items", "news", "--cursor", "gibberish"], "the cursor is not from a list of this feed"),
        (["tail"], "give one source: a feed by its NAME, --queue NAME, or --all; found none"),
        (["tail", "nws"], "tenant 'default' has no feed 'nws'; did you mean 'news'?"),
        (["tail", "--queue", "mail"], "tenant 'default' has no queue 'mail'"),
        (["tail", "news", "--cursor", "gibberish"], "'gibberish' is not a cursor"),
        (["tail", "news", "--cursor", "x", "--new"], "a tail has one start; found --cursor and --new"),
        (["tail", "news", "--cursor-file", "no/such/folder"], "the cursor cannot be kept in no/such/folder"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_and_changes_nothing(
    words: list[str],
    message: str,
    filled_url: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = with_store(filled_url, everything)
    monkeypatch.setenv("HEADRACE_URL", filled_url)

    code, output = main(["feeds", *words]), capfd.readouterr()

    assert (code, output.out, output.err.count("\n")) == (2, "", 1)
    assert message in output.err
    assert with_store(filled_url, everything) == before


async def everything(store: Store) -> list[object]:
    found: list[object] = []
    for feed in (FeedName(DIRECTORY), NEWS, BOARD, INBOX):
        state = await store.feeds.describe(feed)
        assert state is not None
        found += [state.config, state.cursor, await ids(store, feed)]
    return found
