"""Journal entries: many events in one, each under its own number."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.event import EVENTS, Entry, EventRecord, columns, encode_lines
from headrace.model.names import Queue, Shard

SHARD = Shard(Queue("mail", "acme", 3), 2)


def entry(*lines: EventRecord, last_seq: int = 10, worker: str | None = None) -> Entry:
    """An entry of these lines."""
    return Entry(epoch=4, last_seq=last_seq, count=len(lines), at_ms=1_000, worker=worker, lines=encode_lines(lines))


def lines(count: int) -> list[EventRecord]:
    return [EventRecord("enqueued", f"job-{number}") for number in range(count)]


def test_the_events_of_an_entry_are_numbered_up_to_its_last() -> None:
    events = list(entry(*lines(3)).events(SHARD))

    assert [(event.seq, event.line.id) for event in events] == [(8, "job-0"), (9, "job-1"), (10, "job-2")]
    assert {(event.shard, event.epoch, event.at_ms) for event in events} == {(SHARD, 4, 1_000)}


def test_an_entry_is_one_json_object_a_line_with_only_set_fields() -> None:
    """A header and one JSON line per event."""
    text = encode_lines([EventRecord("done", "a", priority=0, run_ms=0), EventRecord("configured", version=3)])

    assert [json.loads(line) for line in text.splitlines()] == [
        {"event": "done", "id": "a", "priority": 0, "run_ms": 0},
        {"event": "configured", "version": 3},
    ]
    assert text.endswith(b"\n")


@given(st.text(), st.text(), st.none() | st.text())
def test_whatever_text_a_line_holds_it_is_one_line_and_comes_back(id: str, message: str, tag: str | None) -> None:
    """KB18: no separator that a caller's text could hold, line ends of every alphabet included."""
    written = [EventRecord("dead", id, tag=tag, error_message=message), EventRecord("done", id)]

    events = list(entry(*written).events(SHARD))

    assert [event.line for event in events] == written


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_line_end_inside_a_text_does_not_cut_the_line(end: str) -> None:
    """KB18."""
    written = [EventRecord("dead", f"a{end}b", error_message=f"x{end}"), *lines(2)]

    whole = entry(*written)

    assert [event.line for event in whole.events(SHARD)] == written
    assert [event.line for event in whole.within(8, 10).events(SHARD)] == written[1:]


@given(st.integers(1, 8), st.integers(0, 30), st.integers(0, 30))
def test_a_part_of_an_entry_has_the_events_of_its_range_under_their_own_numbers(
    count: int, after: int, upto: int
) -> None:
    """A reader asks for (from, to] and gets the same events again."""
    whole = entry(*lines(count), last_seq=15)
    wanted = [event for event in whole.events(SHARD) if after < event.seq <= upto]

    if wanted:
        part = whole.within(after, upto)

        assert list(part.events(SHARD)) == wanted
        assert (part.first_seq, part.last_seq, part.count) == (wanted[0].seq, wanted[-1].seq, len(wanted))
        assert (part.epoch, part.at_ms, part.worker) == (whole.epoch, whole.at_ms, whole.worker)


def test_an_entry_that_is_wholly_in_range_is_left_as_it_is() -> None:
    whole = entry(*lines(3))

    assert whole.within(7, 10) is whole
    assert whole.within(0, 99) is whole


def test_the_worker_of_an_entry_is_that_of_its_deliveries_unless_a_line_names_another() -> None:
    """Written once in the header; an event without a delivery has no worker."""
    written = [
        EventRecord("claimed", "a", fence=1),
        EventRecord("done", "b", fence=2, worker="worker-2"),
        EventRecord("unblocked", "b"),
    ]

    events = list(entry(*written, worker="worker-1").events(SHARD))

    assert [event.line.worker for event in events] == ["worker-1", "worker-2", None]


def test_without_a_worker_in_the_header_a_line_speaks_for_itself() -> None:
    events = list(
        entry(EventRecord("stalled", "a", fence=1, worker="w"), EventRecord("stalled", "b", fence=2)).events(SHARD)
    )

    assert [event.line.worker for event in events] == ["w", None]


def test_an_event_is_shown_as_one_flat_row() -> None:
    [event] = entry(EventRecord("done", "a", kind="send", fence=7), worker="w").events(SHARD)

    row = columns(event)

    assert (row["tenant"], row["queue"], row["shard"], row["epoch"], row["seq"]) == ("acme", "mail", 2, 4, 10)
    assert (row["event"], row["id"], row["kind"], row["fence"], row["worker"]) == ("done", "a", "send", 7, "w")
    assert row["reason"] is None


def test_the_events_have_their_documented_words() -> None:
    beginnings, ends = "enqueued updated blocked claimed replayed", "done retried released stalled dead cancelled"
    named = f"{beginnings} {ends} removed purged configured"

    assert set(named.split()) <= set(EVENTS)
    assert "extended" not in EVENTS
