"""Feeds: names, settings, positions, publications and cursors that can be, and those that cannot."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refused
from headrace.model.feed import (
    DIRECTORY_CONFIG,
    FEED_SETTABLE,
    FIRST,
    LAST,
    Changed,
    FeedConfig,
    FeedCursor,
    FeedName,
    FeedType,
    ItemPosition,
    Move,
    Publication,
    Where,
    check_instance,
    check_item_id,
    check_writable,
    first_feed_config,
)
from headrace.model.limits import DURATION_MS_MAX, ID_CHARS_MAX, ITEM_BYTES_MAX, RETENTION_MAX


def reason_of(make: Any, *args: Any, **options: Any) -> str:
    """The short name of the refusal that a call must end with, in a sentence."""
    with pytest.raises(Refused) as refused:
        make(*args, **options)
    assert len(str(refused.value).split()) > 3
    assert len(str(refused.value)) < 300
    return refused.value.reason


# Names.


@pytest.mark.parametrize("name", ["news", "N", "0", "a.b-c_d", "a" * 120, "mail.fail", "*"])
def test_a_feed_name_is_letters_digits_dots_dashes_and_underscores_or_the_directory(name: str) -> None:
    assert str(FeedName(name, "acme")) == f"acme/{name}"


@pytest.mark.parametrize(
    "name", ["", ".a", "-a", "_a", "a b", "a" * 121, "a/b", "a:b", "{a}", "**", "a*", "é", "a\n", "a\0", "*\n", None, 5]
)
def test_a_feed_name_of_another_form_is_refused(name: Any) -> None:
    assert reason_of(FeedName, name) == "bad_feed"


@pytest.mark.parametrize("tenant", ["", "A", "1a", "a_b", "a" * 64, "{a}", "*", None])
def test_a_tenant_of_another_form_is_refused(tenant: Any) -> None:
    assert reason_of(FeedName, "news", tenant) == "bad_tenant"


def test_every_feed_has_the_directory_of_its_tenant_which_may_only_be_read() -> None:
    feed = FeedName("news", "acme")

    assert (feed.is_directory, feed.directory.is_directory) == (False, True)
    assert feed.directory == FeedName("*", "acme") == feed.directory.directory
    assert reason_of(check_writable, feed.directory) == "read_only"
    check_writable(feed)


# Settings.


def test_a_new_feed_has_version_zero_and_only_a_feed_is_bounded_by_itself() -> None:
    found = {type: first_feed_config(type) for type in get_args(FeedType)}

    assert {config.version for config in found.values()} == {0}
    assert {type: config.type for type, config in found.items()} == {type: type for type in found}
    assert [config.items_max for config in found.values()] == [10_000, RETENTION_MAX, RETENTION_MAX]
    assert DIRECTORY_CONFIG.items_max == RETENTION_MAX


def test_a_change_raises_the_version_by_one_and_keeps_the_rest() -> None:
    first = first_feed_config("sorted", {"items_max": 5})

    second = first.changed({"changes_keep_ms": 9})

    assert (second.version, second.items_max, second.changes_keep_ms) == (1, 5, 9)
    assert second.changed({}).version == 2


LEAST = {"items_max": 1, "items_keep_ms": 0, "changes_keep_max": 1, "changes_keep_ms": 1, "changes_bytes_max": 2**20}
MOST = {
    "items_max": RETENTION_MAX,
    "items_keep_ms": DURATION_MS_MAX,
    "changes_keep_max": RETENTION_MAX,
    "changes_keep_ms": DURATION_MS_MAX,
    "changes_bytes_max": 2**40,
}


@pytest.mark.parametrize("field", FEED_SETTABLE)
def test_a_setting_is_taken_up_to_its_bounds_and_refused_beyond_them(field: str) -> None:
    config = FeedConfig()

    assert getattr(config.changed({field: LEAST[field]}), field) == LEAST[field]
    assert getattr(config.changed({field: MOST[field]}), field) == MOST[field]
    for bad in (LEAST[field] - 1, MOST[field] + 1, 1.5, "7", None, True):
        assert reason_of(config.changed, {field: bad}) == f"bad_{field}"


@pytest.mark.parametrize("field", ["type", "version", "colour", "", "__class__"])
def test_an_unknown_setting_is_refused(field: str) -> None:
    assert reason_of(FeedConfig().changed, {field: 1}) == "bad_config"
    assert reason_of(first_feed_config, "feed", {field: 1}) == "bad_config"


@pytest.mark.parametrize("type", ["sorted", "queue"])
def test_only_items_of_a_feed_have_an_age(type: FeedType) -> None:
    assert reason_of(first_feed_config, type, {"items_keep_ms": 1}) == "bad_config"
    assert first_feed_config(type, {"items_keep_ms": 0}).items_keep_ms == 0


@pytest.mark.parametrize("type", ["deck", "", None, "Feed", ["feed"]])
def test_an_unknown_type_is_refused(type: Any) -> None:
    assert reason_of(first_feed_config, type) == "bad_type"


# Places, publications, moves.


@pytest.mark.parametrize(
    "args", [("before",), ("after", None), ("first", "a"), ("last", "a"), ("between", "a"), ("", None), (None, "a")]
)
def test_a_position_names_a_neighbour_exactly_when_it_is_next_to_one(args: tuple[Any, ...]) -> None:
    """K15: a malformed position is refused."""
    assert reason_of(ItemPosition, *args) == "bad_position"


def test_there_are_four_positions() -> None:
    """K11, K12, K14."""
    assert [(position.where, position.id) for position in (FIRST, LAST)] == [("first", None), ("last", None)]
    assert get_args(Where) == ("first", "last", "before", "after")
    assert [ItemPosition(where, "a").id for where in ("before", "after")] == ["a", "a"]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=ID_CHARS_MAX))
def test_every_text_is_an_id(id: str) -> None:
    """KB18: no character is special."""
    check_item_id(id)

    assert (Publication(b"", id).id, Move(id, FIRST).id, ItemPosition("after", id).id) == (id, id, id)


@pytest.mark.parametrize("id", ["", "i" * (ID_CHARS_MAX + 1), "\ud800", "a\udfffb", 7, b"a", ["a"]])
def test_an_invalid_id_is_refused_everywhere(id: Any) -> None:
    reasons = [
        reason_of(check_item_id, id),
        reason_of(Publication, b"", id),
        reason_of(Move, id, FIRST),
        reason_of(ItemPosition, "before", id),
    ]

    assert set(reasons) == {"bad_id"}


def test_an_item_is_bytes_up_to_a_bound() -> None:
    """KB16: nothing else is stored."""
    assert Publication(bytes(ITEM_BYTES_MAX)).id is None
    assert reason_of(Publication, bytes(ITEM_BYTES_MAX + 1)) == "item_too_large"
    for item in (None, "text", 7, bytearray(b"a")):
        assert reason_of(Publication, item) == "bad_item"


def test_an_edit_names_an_item_and_no_position() -> None:
    assert Publication(b"", "a", edit=True).edit
    assert reason_of(Publication, b"", None, edit=True) == "bad_position"
    assert reason_of(Publication, b"", "a", FIRST, edit=True) == "bad_position"


@pytest.mark.parametrize("instance", ["host:1:abc", "ü 🙂", "i" * 128])
def test_an_instance_is_a_printable_text(instance: str) -> None:
    check_instance(instance)


@pytest.mark.parametrize("instance", ["", "i" * 129, "a\nb", "a\0", "\ud800", None, 7])
def test_an_invalid_instance_is_refused(instance: Any) -> None:
    assert reason_of(check_instance, instance) == "bad_instance"


# Cursors and changes.


@given(st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1))
def test_a_cursor_is_read_back_from_its_text(at_ms: int, number: int, epoch: int, seq: int) -> None:
    cursor = FeedCursor(f"{at_ms}.{number}", epoch, seq)

    assert FeedCursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text",
    [
        *["", "1", "1.1", "1.1-1", "1-1-1", "1.1-1-", "1.1-1-1-1", " 1.1-1-1", "1.1-1-1\n", "1.1--1-1", "-1.1-1-1"],
        *["a.1-1-1", "1.1-1-1x", "1.1-1-" + "9" * 16, "1" * 5_000, None, 7, b"1.1-1-1"],
    ],
)
def test_a_text_that_is_no_cursor_is_refused(text: Any) -> None:
    assert reason_of(FeedCursor.parse, text) == "bad_cursor"


def test_a_change_counts_for_the_bytes_of_its_id_and_its_item() -> None:
    change = Changed(seq=1, epoch=1, at_ms=1, event="published", instance="me", id="🙂a", item=b"123")

    assert change.size == 8
