"""Payloads in the journal: with `journal_payloads`, what opens or changes a job carries what it holds."""

import pytest

from headrace.model.event import Event, encode_lines
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.outcome import Done, Retried
from tests.support.play import BOOM, Play

ODD: dict[str, bytes] = {
    "empty": b"",
    "newlines": b'{\n  "n": 1\r\n}\r',
    "quotes": b'"a\\"b\\\\c\\/d</script>"',
    "unicode": '"Grüße, 世界 😀 \u2028\u2029\x85 \ufeff"'.encode(),
    "controls": bytes(range(32)) + b"\x7f",
    "line": b'{"event":"dead","run_at_ms":-1,"payload":"x"}',
    "escapes": b'"\\ud83d\\ude00 \\u0000"',
}

NO_TEXT = [
    b"\xff\xfe",
    b'"\xc3"',  # cut
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"\xc0\xaf",  # longer than it needs to be
    b"\xf4\x90\x80\x80",  # beyond the last character
    b"\xe2\x82",
    b"a\x80",
]


def payloads(events: list[Event]) -> list[tuple[str, str | None]]:
    return [(event.line.event, event.line.payload) for event in events if event.line.event != "configured"]


async def carried(play: Play, id: str) -> str | None:
    """The payload that the last event of an id carries."""
    return (await play.events(id=id))[-1].line.payload


async def test_events_that_open_a_job_or_change_it_carry_its_payload_and_no_others(play: Play) -> None:
    await play.configure(journal_payloads=True)
    await play.enqueue("a", payload=b'{"n":1}', delay_ms=10)
    await play.enqueue("a", payload=b'{"n":2}', delay_ms=10)
    await play.enqueue("a", payload=b'{"n":3}', update_payload=False)
    play.advance(10)
    claim = await play.claim_one()
    await play.enqueue("a", payload=b'{"n":4}')
    await play.settle(claim, Done(b"7"))
    await play.cancel("a")

    key = await play.die("b", payload=b'{"n":5}')
    await play.replay(key)
    claim = await play.claim_one()
    await play.enqueue("b", payload=b'{"n":6}')
    await play.settle(claim, Retried(BOOM))

    assert payloads(await play.events(id="a")) == [
        ("enqueued", '{"n":1}'),
        ("updated", '{"n":2}'),
        ("updated", '{"n":2}'),
        ("claimed", None),
        ("blocked", None),
        ("done", None),
        ("unblocked", '{"n":4}'),
        ("cancelled", None),
    ]
    assert payloads(await play.events(id="b")) == [
        ("enqueued", '{"n":5}'),
        ("claimed", None),
        ("dead", None),
        ("replayed", '{"n":5}'),
        ("claimed", None),
        ("blocked", None),
        ("retried", None),
        ("merged", '{"n":6}'),
    ]


async def test_payloads_are_carried_from_the_switch_on_and_not_after_it_is_off(play: Play) -> None:
    before, on, later, off = play.ids(4)
    await play.enqueue(before)
    await play.configure(journal_payloads=True)
    await play.enqueue(on)
    await play.enqueue(before, delay_ms=5)
    await play.configure(max_attempts=3)
    await play.enqueue(later)
    await play.configure(journal_payloads=False)
    await play.enqueue(off)
    await play.enqueue(on)

    assert payloads(await play.events()) == [
        ("enqueued", None),
        ("enqueued", '{"n":1}'),
        ("updated", '{"n":1}'),
        ("enqueued", '{"n":1}'),
        ("enqueued", None),
        ("updated", None),
    ]


@pytest.mark.parametrize("given", [{}, {"delay_ms": 50}, {"idempotency_key": "k"}], ids=["now", "later", "key"])
async def test_a_payload_is_carried_character_for_character_on_one_line(play: Play, given: dict[str, object]) -> None:
    """In batches, as a store takes in many at once, and twice: it may remember of the first what the queue wants."""
    await play.configure(journal_payloads=True)
    sent = {f"{time}-{id}": payload for time in ("1", "2") for id, payload in ODD.items()}

    for time in ("1", "2"):
        jobs = [play.job(id, payload=payload, **given) for id, payload in sent.items() if id.startswith(time)]
        await play.enqueue_all(*jobs)

    assert {id: await carried(play, id) for id in sent} == {id: payload.decode() for id, payload in sent.items()}
    for shard in play.queue.all_shards():
        entries = await play.store.journal.read(shard, 0, 2**62)
        assert [entry.lines.count(b"\n") for entry in entries] == [entry.count for entry in entries]
        lines = [encode_lines([event.line for event in entry.events(shard)]) for entry in entries]
        assert [len(entry.lines) for entry in entries] == list(map(len, lines)), "every store counts the same bytes"


async def test_a_payload_that_is_not_text_is_left_out_of_the_journal(play: Play) -> None:
    await play.configure(journal_payloads=True)
    *ids, good, first = play.ids(len(NO_TEXT) + 2)
    await play.enqueue(first)

    odd = [play.job(id, payload=payload) for id, payload in zip(ids, NO_TEXT, strict=True)]
    await play.enqueue_all(*odd, play.job(good))
    await play.enqueue(ids[0], payload=NO_TEXT[0], delay_ms=5)

    assert payloads(await play.events())[1:] == [
        *[("enqueued", None)] * len(NO_TEXT),
        ("enqueued", '{"n":1}'),
        ("updated", None),
    ]
    assert [(await play.record(id)).payload for id in ids] == NO_TEXT


@pytest.mark.parametrize("char", [b"\0", "世".encode()], ids=["escaped", "wide"])
async def test_the_largest_payload_is_written_completely(play: Play, char: bytes) -> None:
    await play.configure(journal_payloads=True)
    payload = char * (PAYLOAD_BYTES_MAX // len(char))

    await play.die("a", payload=payload)
    await play.replay("a")

    assert [payload and len(payload) for _, payload in payloads(await play.events())] == [
        *(len(payload.decode()), None, None, len(payload.decode()))
    ]
    assert await carried(play, "a") == payload.decode()


async def test_payloads_count_for_the_bytes_that_a_journal_may_hold(play: Play) -> None:
    ids = play.ids(6)
    shard = play.queue.shard_of(ids[0])
    await play.configure(journal_payloads=True, journal_bytes_max=35_000)

    for id in ids:
        await play.enqueue(id, payload=b'"' + b"x" * 10_000 + b'"')

    entries = await play.store.journal.read(shard, 0, 2**62)
    assert [entry.last_seq for entry in entries] == [5, 6, 7]
    assert (await play.store.journal.bounds(shard)).bytes == sum(len(entry.lines) for entry in entries) > 30_000


async def test_a_fail_queue_has_a_setting_of_its_own(play: Play) -> None:
    await play.configure(journal_payloads=True, fail_handler=True)
    await play.die("a")
    await play.store.queues.configure(play.queue.fail_queue, {"journal_payloads": True}, now_ms=play.now_ms)
    await play.die("a")

    bare, carrying = [event.line.payload for event in await play.events(play.queue.fail_queue) if event.line.id]
    assert bare is None
    assert carrying is not None
    assert carrying.startswith('["a",{"n":1},{"class"')
