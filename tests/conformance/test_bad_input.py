"""Bad input: refused with a sentence a person can act on, and nothing is changed."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.model.claim import ClaimRequest, Lease, Settlement
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetterKey
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, JobError, Released, Retried
from headrace.model.policy import Policy
from tests.support.play import BOOM, Play

Call = Callable[[], Awaitable[object]]
YEAR_MS = 366 * 24 * 3_600_000


async def refusals(play: Play, calls: Mapping[str, Call]) -> dict[str, Refused]:
    """What each of the calls is refused with; every one must be, in a sentence, and change nothing."""
    await play.start("active")
    await play.enqueue("waiting", delay_ms=1_000)
    before = await play.snapshot()
    refused: dict[str, Refused] = {}
    for name, call in calls.items():
        with pytest.raises(Refused) as raised:
            pytest.fail(f"{name}: was granted: {await call()}")
        refused[name] = raised.value
        assert len(str(raised.value).split()) > 3, f"{name}: not a sentence: {raised.value}"
        assert await play.snapshot() == before, f"{name}: something was changed"
    assert len((await play.store.queues.names("acme")).rows) == 1
    return refused


def reasons(refused: dict[str, Refused]) -> set[str]:
    """The short names of refusals."""
    return {each.reason for each in refused.values()}


async def test_names_of_tenants_that_are_none_are_refused(play: Play) -> None:
    """T9: what names a queue is checked first."""
    names: list[Any] = ["", "Acme", "1acme", "acme_1", "ac me", "a" * 64, "acme\n", "ácme", "../etc", None, 7]

    async def use(tenant: Any) -> object:
        return await Play(play.store, play.queue.shards, tenant=tenant).enqueue("a")

    refused = await refusals(play, {repr(name): partial(use, name) for name in names})

    assert reasons(refused) == {"bad_tenant"}


async def test_names_of_queues_that_are_none_are_refused(play: Play) -> None:
    """T9: an empty name, a space, the ending of a fail queue."""
    names: list[Any] = ["", "mail box", "-mail", ".mail", "mail/x", "m" * 121, "mail\n", "mail.fail", "{mail}", None, 7]

    async def use(name: Any) -> object:
        return await Play(play.store, play.queue.shards, name=name).enqueue("a")

    refused = await refusals(play, {repr(name): partial(use, name) for name in names})

    assert reasons(refused) == {"bad_queue"}


async def test_numbers_of_shards_that_are_none_are_refused(play: Play) -> None:
    numbers: list[Any] = [0, -1, 257, 1.0, "1", None, True]

    async def use(shards: Any) -> object:
        return await Play(play.store, shards).enqueue("a")

    async def use_shard(index: Any) -> object:
        return await play.store.journal.bounds(Shard(play.queue, index))

    calls = {f"{number!r} shards": partial(use, number) for number in numbers}
    for index in (-1, play.queue.shards, "0"):
        calls[f"shard {index!r}"] = partial(use_shard, index)
    refused = await refusals(play, calls)

    assert reasons(refused) == {"bad_shards", "bad_shard"}


async def test_the_longest_names_and_ids_are_taken(play: Play) -> None:
    longest = Play(play.store, play.queue.shards, name="m" * 120, tenant="a" * 63)

    answer = await longest.enqueue("i" * 256)
    odd = await longest.enqueue('a:b/{c}#d "e" \\ ü 🙂')

    assert (answer.status, odd.status) == ("created", "created")
    assert len(await longest.claim(10)) == 2


async def test_ids_that_are_none_are_refused_by_every_call_that_takes_ids(play: Play) -> None:
    """T9: an id that is empty, too long, or not printable."""
    bad: list[Any] = ["", "i" * 257, "a\nb", "a\0b", "\ud800", None, 7, b"a"]
    takers: dict[str, Callable[[Any], Awaitable[object]]] = {
        "cancel": play.cancel,
        "remove": play.remove,
        "find": play.find,
        "replay": play.replay,
        "finished_job": lambda id: play.store.reads.finished_job(play.queue, id, now_ms=play.now_ms),
    }

    async def enqueue(id: Any) -> object:
        return await play.enqueue_all(replace(play.job("a"), id=id))

    takers["enqueue"] = enqueue
    refused = await refusals(
        play,
        {f"{name} {id!r}": partial(take, id) for name, take in takers.items() for id in bad},
    )

    assert reasons(refused) == {"bad_id", "bad_dead_letter"}


async def test_one_bad_id_refuses_the_whole_call(play: Play) -> None:
    ids = ["waiting", "active", ""]

    refused = await refusals(
        play,
        {
            "cancel": lambda: play.store.jobs.cancel(play.queue, ids, running=True, now_ms=play.now_ms),
            "remove": lambda: play.store.jobs.remove(play.queue, ids, now_ms=play.now_ms),
            "replay": lambda: play.store.dead.replay(play.queue, ids, now_ms=play.now_ms),
        },
    )

    assert reasons(refused) == {"bad_id"}


async def test_an_invalid_job_is_refused(play: Play) -> None:
    """T7, T9: kinds, tags, keys, headers and payloads out of bounds."""
    bad: dict[str, dict[str, Any]] = {
        "no kind": {"kind": ""},
        "a blank kind": {"kind": "\t"},
        "a long kind": {"kind": "k" * 129},
        "a kind of another type": {"kind": 7},
        "a long tag": {"tag": "t" * 129},
        "an empty tag": {"tag": ""},
        "an empty key": {"idempotency_key": ""},
        "a long key": {"idempotency_key": "k" * 257},
        "a key that cannot be printed": {"idempotency_key": "a\nb"},
        "a key with half a character": {"idempotency_key": "a\udcff"},
        "a key kept for no time": {"idempotency_ttl_ms": 0},
        "a key kept for too long": {"idempotency_ttl_ms": YEAR_MS + 1},
        "a large payload": {"payload": b"x" * (256 * 1024 + 1)},
        "a payload that is not encoded": {"payload": {"x": 1}},
        "a payload of text": {"payload": "{}"},
        "many headers": {"headers": {str(number): "" for number in range(33)}},
        "large headers": {"headers": {"trace": "x" * 4_097}},
        "headers of another type": {"headers": {"trace": 7}},
        "headers that are a list": {"headers": ["trace"]},
        "headers that are None": {"headers": None},
        "headers that cannot be stored": {"headers": {"trace": "\ud800"}},
        "a policy of another type": {"policy": {"priority": 3}},
        "no policy at all": {"policy": None},
        "a flag of another type": {"update_payload": "false"},
        "another flag of another type": {"reset_counts": 1},
        "an unknown rule for the time": {"update_run_at": "sometimes"},
        "a rule for the time that is a bool": {"update_run_at": True},
        "a queue of another type": {"queue": "mail"},
    }

    async def enqueue(fields: dict[str, Any]) -> object:
        return await play.enqueue_all(play.job("fine"), replace(play.job("waiting"), **fields))

    refused = await refusals(play, {name: partial(enqueue, fields) for name, fields in bad.items()})

    assert refused["a large payload"].reason == "payload_too_large"
    assert "262,144" in str(refused["a large payload"])
    assert {refused[name].reason for name in ("many headers", "large headers")} == {"headers_too_large"}


async def test_the_largest_payload_reaches_the_claim_unchanged(play: Play) -> None:
    payload = b"x" * (256 * 1024)

    await play.enqueue("a", payload=payload)

    assert (await play.claim_one()).record.payload == payload


async def test_times_that_are_none_are_refused_by_enqueue(play: Play) -> None:
    """T7, T9: a negative delay, an instant before 1970 or after 9999, both at once."""
    bad: dict[str, dict[str, Any]] = {
        "a negative time": {"run_at_ms": -1},
        "a time too late": {"run_at_ms": 253_402_300_800_000},
        "a time with a fraction": {"run_at_ms": 1.5},
        "a negative delay": {"delay_ms": -1},
        "a delay of more than a year": {"delay_ms": YEAR_MS + 1},
        "a delay of text": {"delay_ms": "5s"},
        "a time and a delay": {"run_at_ms": 5, "delay_ms": 5},
    }

    async def enqueue(fields: dict[str, Any]) -> object:
        return await play.enqueue("waiting", **fields)

    refused = await refusals(play, {name: partial(enqueue, fields) for name, fields in bad.items()})

    assert reasons(refused) == {"bad_run_at_ms", "bad_delay_ms", "bad_time"}


async def test_policies_out_of_bounds_are_refused(play: Play) -> None:
    """T7, T9, C6: priorities beyond 0..9, budgets below 1, negative durations; nothing is clamped in silence."""
    bad: list[dict[str, Any]] = [
        {"priority": 10},
        {"priority": -1},
        {"priority": 5.0},
        {"priority": True},
        {"timeout_ms": -1},
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 1_000_001},
        {"max_stalls": 0},
        {"backoff_ms": -1},
        {"backoff_ms_max": -1},
        {"result_ttl_ms": -1},
        {"result_ttl_ms": YEAR_MS + 1},
        {"expires_at_ms": -1},
        {"expires_at_ms": "tomorrow"},
    ]

    async def enqueue(fields: dict[str, Any]) -> object:
        return await play.enqueue("waiting", policy=Policy(**fields))

    refused = await refusals(play, {str(fields): partial(enqueue, fields) for fields in bad})

    assert {"bad_priority", "bad_max_attempts", "bad_timeout_ms", "bad_expires_at_ms"} <= reasons(refused)


async def test_a_claim_that_can_never_be_right_is_refused(play: Play) -> None:
    """T13: a lease of no length, a limit of none, a nonce that could be guessed, no queue."""
    bad: dict[str, dict[str, Any]] = {
        "a lease of no length": {"lease_ms": 0},
        "a negative lease": {"lease_ms": -1},
        "a lease of more than a year": {"lease_ms": YEAR_MS + 1},
        "a lease with a fraction": {"lease_ms": 0.5},
        "a limit of none": {"limit": 0},
        "a negative limit": {"limit": -1},
        "a limit too large": {"limit": 1_001},
        "no queue": {"queues": []},
        "too many queues": {"queues": [Queue(f"mail-{number}", "acme") for number in range(65)]},
        "no worker": {"worker": ""},
        "a long worker": {"worker": "w" * 129},
        "a short nonce": {"nonce": "1234567"},
        "a long nonce": {"nonce": "n" * 65},
        "a nonce that cannot be printed": {"nonce": "12345678\n"},
    }

    async def claim(fields: dict[str, Any]) -> object:
        request = ClaimRequest(
            **{"queues": [play.queue], "worker": "worker-1", "nonce": "nonce-of-mine", "limit": 1, **fields}
        )
        return await play.store.jobs.claim(request, now_ms=play.now_ms)

    refused = await refusals(play, {name: partial(claim, fields) for name, fields in bad.items()})

    assert refused["too many queues"].reason == "batch_too_large"
    assert reasons(refused) == {
        *("bad_lease_ms", "bad_limit", "bad_queue", "batch_too_large", "bad_worker", "bad_nonce")
    }


async def test_outcomes_that_are_none_are_refused(play: Play) -> None:
    claim = await play.start("a")
    bad: dict[str, Callable[[], Any]] = {
        "an unknown outcome": lambda: "finished",
        "no outcome": lambda: None,
        "the class of an outcome": lambda: Done,
        "a large result": lambda: Done(b"x" * (256 * 1024 + 1)),
        "a result that is not encoded": lambda: Done("text"),  # type: ignore[arg-type]
        "a negative delay": lambda: Retried(BOOM, -1),
        "a delay of more than a year": lambda: Retried(BOOM, YEAR_MS + 1),
        "a negative jitter": lambda: Retried(BOOM, jitter_ppm=-1),
        "a jitter of more than all": lambda: Retried(BOOM, jitter_ppm=1_000_001),
        "a release into the past": lambda: Released(-1),
        "a long error": lambda: Failed(JobError("Boom", "x" * 1_025)),
        "a long class": lambda: Failed(JobError("B" * 129)),
        "an error that cannot be stored": lambda: Failed(JobError("Boom", "\ud800")),
        "an error that is text": lambda: Failed("it broke"),  # type: ignore[arg-type]
        "a retry without an error": lambda: Retried(None),  # type: ignore[arg-type]
    }

    async def settle(outcome: Callable[[], Any]) -> object:
        settlements = [claim.settle(Done()), claim.settle(outcome())]
        return await play.store.jobs.settle(settlements, now_ms=play.now_ms)

    refused = await refusals(play, {name: partial(settle, fields) for name, fields in bad.items()})

    assert refused["an unknown outcome"].reason == "bad_outcome"
    assert "Done" in str(refused["an unknown outcome"])
    assert (await play.settle(claim)).status == "done"


async def test_the_largest_result_is_kept_unchanged(play: Play) -> None:
    result = b"x" * (256 * 1024)

    await play.settle(await play.start("a"), Done(result))

    finished_job = await play.store.reads.finished_job(play.queue, "a", now_ms=play.now_ms)
    assert finished_job is not None
    assert finished_job.result == result


async def test_a_batch_of_more_than_a_thousand_is_refused_by_every_call_that_takes_one(play: Play) -> None:
    claim = await play.start("a")
    ids = [f"job-{number}" for number in range(1_001)]
    settlements = [claim.settle(Done())] * 1_001
    request = ClaimRequest(queues=[play.queue], worker="worker-1", nonce="nonce-of-mine")
    store, now_ms = play.store, play.now_ms

    refused = await refusals(
        play,
        {
            "enqueue": lambda: store.jobs.enqueue([play.job(id) for id in ids], now_ms=now_ms),
            "extend": lambda: store.jobs.extend([claim.lease] * 1_001, lease_ms=1, now_ms=now_ms),
            "settle": lambda: store.jobs.settle(settlements, now_ms=now_ms),
            "turn": lambda: store.jobs.turn(settlements, request, now_ms=now_ms),
            "cancel": lambda: store.jobs.cancel(play.queue, ids, now_ms=now_ms),
            "remove": lambda: store.jobs.remove(play.queue, ids, now_ms=now_ms),
            "find": lambda: store.reads.find(play.queue, ids, now_ms=now_ms),
            "replay": lambda: store.dead.replay(play.queue, ids, now_ms=now_ms),
            "purge": lambda: store.dead.purge(play.queue, [DeadLetterKey(0, 1)] * 1_001, now_ms=now_ms),
        },
    )

    assert reasons(refused) == {"batch_too_large"}
    assert all("1,001" in str(each) for each in refused.values())


async def test_a_batch_of_exactly_a_thousand_is_taken(play: Play) -> None:
    answers = await play.enqueue_all(*[play.job(f"job-{number}") for number in range(1_000)])
    claims = await play.claim(1_000)
    settled = await play.store.jobs.settle([claim.settle(Done()) for claim in claims], now_ms=play.now_ms)

    assert {answer.status for answer in answers} == {"created"}
    assert (len(claims), {answer.status for answer in settled}) == (1_000, {"done"})


async def test_limits_out_of_bounds_are_refused(play: Play) -> None:
    store, queue, now_ms = play.store, play.queue, play.now_ms
    shard = Shard(queue, 0)
    takers: dict[str, Callable[[Any], Awaitable[object]]] = {
        "repair": lambda limit: store.jobs.repair(queue, limit=limit, now_ms=now_ms),
        "dead.list": lambda limit: store.dead.list(queue, limit=limit, now_ms=now_ms),
        "names": lambda limit: store.queues.names("acme", limit=limit),
        "tenants": lambda limit: store.queues.tenants(limit=limit),
        "purge": lambda limit: store.queues.purge(queue, limit=limit, now_ms=now_ms),
        "delete": lambda limit: store.queues.delete(queue, limit=limit),
        "list": lambda limit: store.reads.list(queue, State.WAITING, limit=limit, now_ms=now_ms),
        "journal.read": lambda limit: store.journal.read(shard, 0, 9, limit=10_001 if limit == 1_001 else limit),
        "journal.trim": lambda limit: store.journal.trim(shard, limit=limit, now_ms=now_ms),
    }
    bad: list[Any] = [0, -1, 1_001, 1.0, None]

    refused = await refusals(
        play,
        {f"{name} {limit}": partial(take, limit) for name, take in takers.items() for limit in bad},
    )

    assert reasons(refused) == {"bad_limit"}


async def test_instants_that_are_none_are_refused_by_every_call_that_takes_one(play: Play) -> None:
    claim = await play.start("a")
    store, queue = play.store, play.queue
    shard = Shard(queue, 0)
    request = ClaimRequest(queues=[queue], worker="worker-1", nonce="nonce-of-mine")
    takers: dict[str, Callable[[Any], Awaitable[object]]] = {
        "enqueue": lambda now: store.jobs.enqueue([play.job("b")], now_ms=now),
        "claim": lambda now: store.jobs.claim(request, now_ms=now),
        "extend": lambda now: store.jobs.extend([claim.lease], lease_ms=1, now_ms=now),
        "settle": lambda now: store.jobs.settle([claim.settle(Done())], now_ms=now),
        "turn": lambda now: store.jobs.turn([claim.settle(Done())], request, now_ms=now),
        "repair": lambda now: store.jobs.repair(queue, now_ms=now),
        "cancel": lambda now: store.jobs.cancel(queue, ["a"], now_ms=now),
        "remove": lambda now: store.jobs.remove(queue, ["a"], now_ms=now),
        "dead.list": lambda now: store.dead.list(queue, now_ms=now),
        "replay": lambda now: store.dead.replay(queue, ["a"], now_ms=now),
        "dead.purge": lambda now: store.dead.purge(queue, [], now_ms=now),
        "configure": lambda now: store.queues.configure(queue, {"paused": True}, now_ms=now),
        "counts": lambda now: store.queues.counts(queue, now_ms=now),
        "purge": lambda now: store.queues.purge(queue, now_ms=now),
        "find": lambda now: store.reads.find(queue, ["a"], now_ms=now),
        "list": lambda now: store.reads.list(queue, State.WAITING, now_ms=now),
        "finished_job": lambda now: store.reads.finished_job(queue, "a", now_ms=now),
        "snapshot": lambda now: store.reads.snapshot(shard, now_ms=now),
        "scan": lambda now: store.reads.scan(shard, "alive", now_ms=now),
        "workers": lambda now: store.reads.workers(queue, now_ms=now),
        "register": lambda now: store.journal.register(shard, "history", now_ms=now),
        "advance": lambda now: store.journal.advance(shard, "history", 0, now_ms=now),
        "trim": lambda now: store.journal.trim(shard, now_ms=now),
    }
    bad: list[Any] = [-1, 1.5, "now", 253_402_300_800_000]

    refused = await refusals(
        play,
        {f"{name} {now}": partial(take, now) for name, take in takers.items() for now in bad},
    )

    assert reasons(refused) == {"bad_now_ms"}


async def test_durations_that_are_none_are_refused(play: Play) -> None:
    """T13: an extension of no length."""
    claim = await play.start("a")
    store, now_ms = play.store, play.now_ms

    refused = await refusals(
        play,
        {
            "an extension of no length": lambda: play.extend(claim.lease, 0),
            "a negative extension": lambda: play.extend(claim.lease, -5),
            "an extension of more than a year": lambda: play.extend(claim.lease, YEAR_MS + 1),
            "a negative delay": lambda: store.dead.replay(play.queue, ["a"], delay_ms=-1, now_ms=now_ms),
            "a negative spread": lambda: store.dead.replay(play.queue, ["a"], spread_ms=-1, now_ms=now_ms),
            "a spread of more than a year": lambda: store.dead.replay(
                play.queue, ["a"], spread_ms=YEAR_MS + 1, now_ms=now_ms
            ),
            "a negative wait": lambda: store.signals.wait([play.queue], -1),
        },
    )

    assert reasons(refused) == {"bad_delay_ms", "bad_lease_ms", "bad_spread_ms", "bad_timeout_ms"}


async def test_invalid_picks_of_dead_letters_are_refused(play: Play) -> None:
    bad: list[Any] = [
        DeadLetterKey(play.queue.shards, 1),
        DeadLetterKey(-1, 1),
        DeadLetterKey(0, 0),
        DeadLetterKey(0, 2**63),
        7,
        None,
    ]

    def replay(pick: Any) -> Call:
        return lambda: play.store.dead.replay(play.queue, ["waiting", pick], now_ms=play.now_ms)

    def purge(pick: Any) -> Call:
        return lambda: play.store.dead.purge(play.queue, [pick], now_ms=play.now_ms)

    refused = await refusals(
        play,
        {f"replay {pick!r}": replay(pick) for pick in bad} | {f"purge {pick!r}": purge(pick) for pick in bad},
    )

    assert reasons(refused) == {"bad_shard", "bad_dead_letter"}


async def test_bad_offsets_and_consumers_are_refused(play: Play) -> None:
    shard = Shard(play.queue, 0)
    journal = play.store.journal

    refused = await refusals(
        play,
        {
            "a negative after": lambda: journal.read(shard, -1, 5),
            "a negative upto": lambda: journal.read(shard, 0, -5),
            "an after of text": lambda: journal.read(shard, "0", 5),  # type: ignore[arg-type]
            "a place too large": lambda: journal.read(shard, 0, 2**63),
            "a negative place": lambda: journal.register(shard, "history", seq=-1),
            "no name": lambda: journal.register(shard, ""),
            "a long name": lambda: journal.register(shard, "c" * 129),
            "a name that cannot be printed": lambda: journal.register(shard, "a\nb"),
            "a negative move": lambda: journal.advance(shard, "history", -1),
        },
    )

    assert reasons(refused) == {"bad_after", "bad_upto", "bad_seq", "bad_consumer"}


async def test_states_that_cannot_be_listed_are_refused(play: Play) -> None:
    bad: list[Any] = [State.DEAD, "dead", "waiting", "asleep", None]

    refused = await refusals(
        play,
        {repr(state): partial(play.store.reads.list, play.queue, state) for state in bad},
    )

    assert reasons(refused) == {"bad_state"}


async def test_a_token_of_another_queue_settles_and_extends_nothing(play: Play) -> None:
    """KB5, T17: a lease belongs to the queue it was claimed from."""
    other = Play(play.store, play.queue.shards, name="other")
    other.nonce()
    mine = await play.start("a")
    theirs = await other.start("a")
    before = (await play.snapshot(), await other.snapshot())

    foreign = replace(mine, lease=replace(theirs.lease, queue=play.queue))
    nowhere = replace(mine, lease=replace(mine.lease, queue=Queue("nowhere", "acme")))
    settled = [(await play.settle(claim)).status for claim in (foreign, nowhere)]
    extended = [(await play.extend(claim.lease)).status for claim in (foreign, nowhere)]

    assert settled == ["lease_mismatch", "not_active"]
    assert extended == ["lease_mismatch", "not_active"]
    assert (await play.snapshot(), await other.snapshot()) == before


async def test_an_invented_token_settles_and_extends_nothing(play: Play) -> None:
    """KB5, T17: knowing the id, the fence and the worker is not enough."""
    claim = await play.start("a")
    before = await play.snapshot()
    fence = claim.lease.fence
    tokens = ["", ".", f".{fence}", str(fence), f"worker-1.{fence}", claim.lease.token + " ", claim.lease.token[:-1]]

    leases = [replace(claim.lease, token=token) for token in tokens]
    settled = await play.store.jobs.settle(
        [Settlement(lease, Done(), claim.settle(Done()).facts) for lease in leases], now_ms=play.now_ms
    )
    extended = await play.store.jobs.extend(leases, lease_ms=1_000, now_ms=play.now_ms)

    assert {answer.status for answer in settled} == {"lease_mismatch"}
    assert {answer.status for answer in extended} == {"lease_mismatch"}
    assert await play.snapshot() == before


async def test_a_lease_of_an_unknown_job_is_not_active(play: Play) -> None:
    """QB9: settling what is not there is an answer, not an error."""
    claim = await play.start("a")
    before = await play.snapshot()

    unknown = replace(claim, lease=Lease(play.queue, "nobody", claim.lease.token, 1, play.now_ms + 1))
    answers = [
        (await play.settle(unknown, outcome)).status for outcome in (Done(), Retried(BOOM), Failed(BOOM), Released())
    ]

    assert answers == ["not_active"] * 4
    assert await play.snapshot() == before


async def test_an_empty_batch_is_granted_and_changes_nothing(play: Play) -> None:
    await play.start("a")
    before = await play.snapshot()

    answers = [
        await play.store.jobs.enqueue([], now_ms=play.now_ms),
        await play.store.jobs.extend([], lease_ms=1, now_ms=play.now_ms),
        await play.store.jobs.settle([], now_ms=play.now_ms),
        await play.store.jobs.cancel(play.queue, [], now_ms=play.now_ms),
        await play.store.jobs.remove(play.queue, [], now_ms=play.now_ms),
        await play.store.dead.replay(play.queue, [], now_ms=play.now_ms),
        await play.store.reads.find(play.queue, [], now_ms=play.now_ms),
    ]

    assert all(answer == [] for answer in answers)
    assert await play.store.dead.purge(play.queue, [], now_ms=play.now_ms) == 0
    assert await play.snapshot() == before


async def test_a_lease_built_by_hand_is_refused_where_it_is_none(play: Play) -> None:
    claim = await play.start("mine")
    lease, settlement = claim.lease, claim.settle(Done())
    bad: dict[str, Any] = {
        "an id with half a character": replace(lease, id="x\ud800"),
        "an id with a character that ends texts": replace(lease, id="x\0"),
        "an id that is a number": replace(lease, id=7),
        "a token with half a character": replace(lease, token="x\ud800"),  # noqa: S106 - no password
        "a token that is a number": replace(lease, token=7),
        "a long token": replace(lease, token="x" * 2_000_000),
        "a queue that is a text": replace(lease, queue="mail"),
        "no lease": None,
        "a text": "lease",
    }
    store, now_ms = play.store, play.now_ms

    async def settle(lease: Any) -> object:
        return await store.jobs.settle([replace(settlement, lease=lease)], now_ms=now_ms)

    async def extend(lease: Any) -> object:
        return await store.jobs.extend([lease], lease_ms=1_000, now_ms=now_ms)

    refused = await refusals(
        play,
        {f"{name}: settle": partial(settle, lease) for name, lease in bad.items()}
        | {f"{name}: extend": partial(extend, lease) for name, lease in bad.items()},
    )

    assert reasons(refused) == {"bad_id", "bad_token", "bad_queue", "bad_lease"}


async def test_facts_that_no_journal_can_hold_are_refused(play: Play) -> None:
    """The facts of a settlement are written into the journal, for all later readers."""
    claim, other = await play.start("a"), await play.start("b")
    settlement = claim.settle(Done(), 3)
    numbers: list[Any] = ["x", [1], -5, 2**63, 2**70, 10**30, float("nan"), 1.5, True, None]
    texts: list[Any] = ["", "x" * 2_000_000, "a\nb", "\ud800", b"x", 7, ["x"]]
    names = ("run_ms", "wait_ms", "enqueued_at_ms", "payload_bytes", "priority")
    bad: dict[str, dict[str, Any]] = {f"{name} {number!r}": {name: number} for name in names for number in numbers} | {
        f"{name} {text!r:.20}": {name: text} for name in ("kind", "tag", "worker") for text in texts
    }

    async def settle(fields: dict[str, Any]) -> object:
        spoilt = replace(settlement, facts=replace(settlement.facts, **fields))
        return await play.store.jobs.settle([other.settle(Done()), spoilt], now_ms=play.now_ms)

    async def settle_after(run_ms: Any) -> object:
        return await play.store.jobs.settle([claim.settle(Done(), run_ms)], now_ms=play.now_ms)

    async def settle_with(facts: Any) -> object:
        return await play.store.jobs.settle([replace(settlement, facts=facts)], now_ms=play.now_ms)

    calls: dict[str, Call] = {name: partial(settle, fields) for name, fields in bad.items()}
    calls |= {f"settle({number!r})": partial(settle_after, number) for number in numbers}
    calls |= {f"facts {facts!r}": partial(settle_with, facts) for facts in (None, {"kind": "send"})}
    calls["a text"] = lambda: play.store.jobs.settle(["done"], now_ms=play.now_ms)  # type: ignore[list-item]

    refused = await refusals(play, calls)

    assert {"bad_run_ms", "bad_kind", "bad_worker", "bad_facts", "bad_settlement"} <= reasons(refused)
    assert (await play.settle(claim)).status == "done"
    assert [event.flaw for event in await play.events() if event.flaw] == []
