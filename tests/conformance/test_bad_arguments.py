"""Every whole number and every flag that a call of the contract takes is checked before it reaches a driver."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import Refused
from headrace.model.event import Span
from headrace.model.feed import FIRST, FeedCursor, Move, Publication
from headrace.model.finished import DeadLetterKey
from headrace.model.job import State
from headrace.model.names import Shard
from headrace.model.outcome import Done
from headrace.stores.contract.dead_letters import DeadLetterFilter, DeadLetters
from headrace.stores.contract.feeds import FeedStore, Items
from headrace.stores.contract.integrity import Integrity
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.signals import Signals
from headrace.stores.contract.store import Store
from tests.support.feed_play import FeedPlay
from tests.support.play import Play

NUMBERS: list[Any] = [2**63, 2**70, -1, -(2**63) - 1, True, 1.5, "x", b"1", [1]]
FLAGS: list[Any] = [5, 0, 2**70, "x", b"1", None, [True]]
PARTS: dict[str, type] = {
    "jobs": Jobs,
    "dead": DeadLetters,
    "queues": Queues,
    "reads": Reads,
    "journal": Journal,
    "feeds": FeedStore,
    "items": Items,
    "signals": Signals,
    "integrity": Integrity,
}
Take = Callable[..., Awaitable[object]]


def arguments(kind: str) -> list[tuple[str, str, str]]:
    """All arguments of the contract of a type: part, method and name."""
    return [
        (part, method, name)
        for part, protocol in PARTS.items()
        for method, function in inspect.getmembers(protocol, inspect.isfunction)
        if not method.startswith("_")
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if str(parameter.annotation) in (kind, f"<class '{kind}'>", f"{kind} | None")
    ]


async def known_calls(play: Play) -> dict[str, Callable[..., Awaitable[object]]]:
    """Each call of the contract that takes a number or a flag, with all that it needs besides."""
    store, queue, feed = play.store, play.queue, FeedPlay(play.store)
    shard, name, instance = Shard(queue, 0), feed.name, feed.instance
    claim = await play.start("active")
    await play.enqueue("waiting", delay_ms=1_000)
    await feed.create("sorted")
    await feed.publish("a")
    request = ClaimRequest(queues=[queue], worker="worker-1", nonce="nonce-of-mine")
    done = claim.settle(Done())
    return {
        "jobs.enqueue": partial(store.jobs.enqueue, [play.job("b")]),
        "jobs.claim": partial(store.jobs.claim, request),
        "jobs.extend": lambda **fields: store.jobs.extend([claim.lease], **{"lease_ms": 5, **fields}),
        "jobs.settle": partial(store.jobs.settle, [done]),
        "jobs.turn": partial(store.jobs.turn, [done], request),
        "jobs.repair": partial(store.jobs.repair, queue),
        "jobs.cancel": partial(store.jobs.cancel, queue, ["waiting"]),
        "jobs.remove": partial(store.jobs.remove, queue, ["waiting"]),
        "dead.list": partial(store.dead.list, queue),
        "dead.replay": partial(store.dead.replay, queue, ["waiting"]),
        "dead.purge": partial(store.dead.purge, queue, [DeadLetterKey(0, 1)]),
        "queues.configure": partial(store.queues.configure, queue, {"paused": True}),
        "queues.counts": partial(store.queues.counts, queue),
        "queues.names": partial(store.queues.names, "acme"),
        "queues.overview": partial(store.queues.overview, "acme"),
        "queues.tenants": store.queues.tenants,
        "queues.purge": partial(store.queues.purge, queue),
        "queues.delete": partial(store.queues.delete, queue),
        "reads.find": partial(store.reads.find, queue, ["waiting"]),
        "reads.browse": partial(store.reads.browse, queue, "next"),
        "reads.list": partial(store.reads.list, queue, State.WAITING),
        "reads.finished_job": partial(store.reads.finished_job, queue, "waiting"),
        "reads.snapshot": partial(store.reads.snapshot, shard),
        "reads.scan": partial(store.reads.scan, shard, "alive"),
        "reads.split_ids": lambda **fields: store.reads.split_ids(shard, **{"parts": 2, **fields}),
        "reads.workers": partial(store.reads.workers, queue),
        "journal.read": lambda **fields: store.journal.read(**{"shard": shard, "after": 0, "upto": 5, **fields}),
        "journal.reached": partial(store.journal.reached, [Span(shard, 0, 1)]),
        "journal.register": partial(store.journal.register, shard, "history"),
        "journal.advance": lambda **fields: store.journal.advance(shard, "history", **{"seq": 0, **fields}),
        "journal.trim": partial(store.journal.trim, shard),
        "feeds.create": partial(store.feeds.create, name, instance=instance),
        "feeds.configure": partial(store.feeds.configure, name, {"items_max": 5}, instance=instance),
        "feeds.delete": partial(store.feeds.delete, name, instance=instance),
        "feeds.changes": partial(store.feeds.changes, name),
        "feeds.sweep": partial(store.feeds.sweep, name),
        "items.publish": partial(store.items.publish, name, [Publication(b"1", "b")], instance=instance),
        "items.retract": partial(store.items.retract, name, ["a"], instance=instance),
        "items.move": partial(store.items.move, name, [Move("a", FIRST)], instance=instance),
        "items.take": partial(store.items.take, name),
        "items.find": partial(store.items.find, name, ["a"]),
        "items.list": partial(store.items.list, name),
        "items.snapshot": partial(store.items.snapshot, name),
        "signals.wait": partial(store.signals.wait, [queue]),
        "signals.ended": partial(store.signals.ended, queue, ["waiting"]),
        "signals.changed": partial(store.signals.changed, name, None),
        "integrity.check": partial(store.integrity.check, shard),
        "integrity.repair": partial(store.integrity.repair, shard),
    }


async def granted(take: Take, name: str, values: list[Any]) -> list[str]:
    """The values that a call does not refuse, with what it does instead."""
    found: list[str] = []
    for value in values:
        try:
            answer = await take(**{name: value})
        except Refused:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal
            answer = repr(error)
        found.append(f"{name}={value!r}: {str(answer)[:200]}")
    return found


@pytest.mark.parametrize(("kind", "values"), [("int", NUMBERS), ("bool", FLAGS)])
async def test_every_number_and_flag_of_every_call_is_checked(play: Play, kind: str, values: list[Any]) -> None:
    calls = await known_calls(play)
    before = await play.snapshot()

    found = [
        f"{part}.{method}: {wrong}"
        for part, method, name in arguments(kind)
        for wrong in await granted(calls[f"{part}.{method}"], name, values)
    ]

    assert found == []
    assert await play.snapshot() == before


async def test_numbers_within_arguments_are_checked(play: Play) -> None:
    calls = await known_calls(play)
    store, queue, name = play.store, play.queue, FeedPlay(play.store).name
    shard = Shard(queue, 0)
    takers: dict[str, Take] = {
        "Span.after": lambda it: store.journal.reached([Span(shard, it, 5)], 1),
        "Span.upto": lambda it: store.journal.reached([Span(shard, 0, it)], 1),
        "DeadLetterKey.shard": lambda it: store.dead.purge(queue, [DeadLetterKey(it, 1)]),
        "DeadLetterKey.number": lambda it: store.dead.replay(queue, [DeadLetterKey(0, it)]),
        "FeedCursor.epoch": lambda it: store.feeds.changes(name, FeedCursor("1.1", it, 1)),
        "FeedCursor.seq": lambda it: store.feeds.changes(name, FeedCursor("1.1", 1, it)),
        "FeedCursor.seq of a wait": lambda it: store.signals.changed(name, FeedCursor("1.1", 1, it), 0),
        "FeedCursor.birth": lambda it: store.feeds.changes(name, FeedCursor(it, 1, 1)),
        "a cursor": lambda it: store.feeds.changes(name, it),
        "died_after_ms": lambda it: store.dead.list(queue, where=DeadLetterFilter(died_after_ms=it)),
        "died_before_ms": lambda it: store.dead.list(queue, where=DeadLetterFilter(died_before_ms=it)),
        "Shard.index": lambda it: store.journal.bounds(Shard(queue, it)),
        "ClaimRequest.limit": lambda it: calls["jobs.claim"](
            request=ClaimRequest(queues=[queue], worker="w", nonce="nonce-of-mine", limit=it)
        ),
    }

    async def publish(edit: Any) -> object:
        return await store.items.publish(name, [Publication(b"1", "a", edit=edit)], instance="me")

    texts = {"FeedCursor.birth": [*NUMBERS, "\ud800", "1" * 2_000]}
    texts["FeedCursor.birth"].remove("x")  # of no feed, which is an answer
    found = [
        f"{each}: {wrong}"
        for each, take in takers.items()
        for wrong in await granted(take, "it", texts.get(each, NUMBERS))
    ]
    found += await granted(publish, "edit", FLAGS)

    assert found == []


async def test_idempotency_keys_with_half_a_character_are_refused(play: Play) -> None:
    before = await play.snapshot()

    found = await granted(lambda it: play.enqueue(idempotency_key=it), "it", ["\ud800", "a\udfffb"])
    found += await granted(lambda it: play.enqueue("a", idempotency_key=it), "it", ["\ud800", "a\udfffb"])

    assert found == []
    assert await play.snapshot() == before


def test_every_protocol_of_the_contract_is_covered() -> None:
    protocols = {name for name, value in inspect.getmembers(Store) if isinstance(value, property)} - {"is_remote"}

    assert protocols == set(PARTS)
    assert len(arguments("int")) > 50
    assert {name for _, _, name in arguments("bool")} == {"ahead", "running", "keep_counts", "hold", "payloads"}
