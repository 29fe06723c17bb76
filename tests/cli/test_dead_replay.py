"""`headrace dead replay` and `dead purge`: dead letters by name, by filter and all, in steps, over time."""

from collections import Counter
from collections.abc import Sequence

from headrace.cli.bulk import Apply, BulkAction, act_on_matches
from headrace.cli.dead.options import DeadLetterSelection
from headrace.model.clock import SystemClock
from headrace.model.finished import DeadLetter
from headrace.model.job import Job, State
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError, Retried
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from tests.cli.job_states import BOOM, MAIL, claim_all, dead_letters, finish_all, job, kill_all, list_state
from tests.cli.support import Ran, run, with_store

OTHER = Queue("other")
MINUTES = 10
"""Over which dead letters are spread."""


def replaying(apply: Apply[DeadLetter]) -> BulkAction[DeadLetter]:
    """A replay by a function of the test's own."""
    return BulkAction(
        verb="replay",
        noun="dead letter",
        apply=apply,
        foresee=apply,
        dry_label="would be",
        succeeded=frozenset(("replayed",)),
    )


def every(kind: str | None = None) -> DeadLetterSelection:
    """The dead letters of all queues that match."""
    return DeadLetterSelection(kind=kind)


async def many_deaths(store: Store) -> None:
    """2,500 dead letters of one kind, and one of another; the ids of ten wait again."""
    for start in (0, 1_000, 2_000):
        await kill_all(store, [job(f"{number:04}") for number in range(start, min(start + 1_000, 2_500))])
    await kill_all(store, [job("odd", kind="resize")])
    await store.jobs.enqueue([Job(queue=MAIL, id=f"{number:04}", kind="new", delay_ms=1) for number in range(10)])


def test_replay_goes_in_steps_spreads_evenly_and_spares_ids_in_use(url: str) -> None:
    """T35, T36: `dlq requeue`, of more dead letters than one call takes; a dry run before changes nothing."""
    with_store(url, many_deaths)
    words = ("dead", "replay", "--kind", "send", "--spread", f"{MINUTES}m")

    dry = run(*words, "--dry-run", url=url)
    unanswered = run(*words, url=url)
    untouched = with_store(url, lambda store: store.queues.counts(MAIL))
    done = run(*words, "--yes", "--json", url=url)

    assert dry == Ran(0, "would be: 10 id in use, 2,490 replayed\n", "")
    assert unanswered == Ran(
        2,
        "",
        "headrace: Replay 2,500 dead letters of all queues of tenant default "
        "(kind send)? There is no terminal to answer in; add --yes"
        " to confirm\n",
    )
    assert (untouched.dead, untouched.waiting) == (2_501, 10)
    assert done.document == {
        "action": "replay",
        "dry_run": False,
        "matched": 2_500,
        "statuses": {"id_in_use": 10, "replayed": 2_490},
    }
    kept = with_store(url, dead_letters)
    assert [dead_letter.record.id for dead_letter in kept] == [*(f"{number:04}" for number in range(10)), "odd"]
    waiting = with_store(url, lambda store: list_state(store, State.WAITING))
    replayed = [found.record.run_at_ms for found in waiting if found.record is not None and found.record.kind == "send"]
    assert len(replayed) == 2_490
    per_minute = Counter((run_at_ms - min(replayed)) // 60_000 for run_at_ms in replayed)
    # The steps begin some milliseconds apart, so a job or two may fall into the next minute, or the eleventh.
    assert all(abs(per_minute[minute] - 2_500 // MINUTES) <= 15 for minute in range(MINUTES))
    assert per_minute.total() - sum(per_minute[minute] for minute in range(MINUTES)) <= 5


def test_replay_by_id_takes_the_newest_dead_letter_and_by_key_exactly_one(url: str) -> None:
    """T35, T36: `dlq requeue` and `job retry` of one job; what is not dead, and another queue, are told."""

    async def prepare(store: Store) -> None:
        await kill_all(store, [job("a", payload=b"1")])
        await kill_all(store, [job("a", payload=b"2"), job("b")])
        await kill_all(store, [job("c", queue=OTHER)])

    with_store(url, prepare)

    dry = run("dead", "replay", "a", "--dry-run", "--json", url=url)
    text = run("dead", "replay", "a", "c", "nobody", url=url)
    guarded = run("dead", "replay", "b", "--queue", "other", "--json", url=url)
    again = run("dead", "replay", "0:1", "--queue", "mail", "--json", url=url)

    assert dry.document["dead_letters"] == [
        {"name": "a", "queue": "mail", "dead_letter": "0:2", "id": "a", "status": "replayed"}
    ]
    assert (text.code, text.err) == (1, "")
    assert [line.split() for line in text.lines[2:]] == [
        ["a", "0:2", "mail", "replayed"],
        ["c", "0:1", "other", "replayed"],
        ["nobody", "–", "–", "not", "found"],
    ]
    assert (guarded.code, guarded.document["statuses"]) == (1, {"not_found": 1})
    assert (again.code, again.document["statuses"]) == (1, {"id_in_use": 1})
    [found] = with_store(url, lambda store: list_state(store, State.WAITING))
    assert found.record is not None
    assert (found.id, found.record.payload, found.record.attempts, found.record.error) == ("a", b"2", 0, None)


def test_replay_may_be_for_later(file_url: str) -> None:
    """T35, T36: `dlq requeue --run-at`."""
    with_store(file_url, lambda store: kill_all(store, [job("a"), job("b")]))

    delayed = run("dead", "replay", "a", "--delay", "2h", url=file_url)
    far = run("dead", "replay", "b", "--run-at", "2100-01-31T12:00:00Z", url=file_url)
    both = run("dead", "replay", "b", "--run-at", "2100-01-31T12:00:00Z", "--delay", "1s", url=file_url)
    soon_ms = SystemClock().now_ms() + 3_600_000
    timed = run("dead", "replay", "b", "--run-at", str(soon_ms), url=file_url)

    assert (delayed.code, timed.code, far.code, both.code) == (0, 0, 2, 2)
    assert "at most a year from now" in far.err
    assert "give one" in both.err
    [a, b] = with_store(file_url, lambda store: list_state(store, State.WAITING))
    assert a.record is not None
    assert b.record is not None
    assert 0 <= a.record.run_at_ms - a.record.enqueued_at_ms - 7_200_000 < 60_000
    assert 0 <= b.record.run_at_ms - soon_ms < 60_000


def test_replay_keeps_counts_when_asked_and_asks_a_person(file_url: str) -> None:
    """T35: attempts and the last error are cleared unless they are to be kept."""
    with_store(file_url, lambda store: kill_all(store, [job("a"), job("b")]))

    no = run("dead", "replay", "--all", url=file_url, terminal=True, input="n\n")
    yes = run("dead", "replay", "--all", "--keep-counts", url=file_url, terminal=True, input="y\n")

    assert (no.code, "Replay 2 dead letters of all queues of tenant default? [y/N]" in no.out) == (130, True)
    assert (yes.code, yes.lines[-1]) == (0, "2 replayed")
    found = with_store(file_url, lambda store: list_state(store, State.WAITING))
    assert [(each.record.attempts, each.record.error) for each in found if each.record] == [(1, BOOM), (1, BOOM)]


def test_replay_and_purge_take_exactly_the_dead_letters_of_their_filter(file_url: str) -> None:
    async def prepare(store: Store) -> None:
        await kill_all(store, [job("a"), job("b", tag="red")])
        await finish_all(store, [Job(queue=MAIL, id="c", kind="send", policy=Policy(max_attempts=1))], Retried(BOOM))
        await kill_all(store, [job("d")], JobError("KeyError"))
        await kill_all(store, [job("e", queue=OTHER)])

    with_store(file_url, prepare)

    old = run("dead", "purge", "--until", "1h", "--yes", url=file_url)
    by_class = run("dead", "replay", "--error-class", "KeyError", "--yes", url=file_url)
    by_reason = run("dead", "replay", "--reason", "attempts", "--yes", url=file_url)
    dry = run("dead", "purge", "--tag", "red", "--dry-run", url=file_url)
    by_tag = run("dead", "purge", "--tag", "red", "--yes", "--json", url=file_url)
    named = run("dead", "purge", "a", "z", url=file_url)

    assert old == Ran(0, "no dead letter matches\n", "")
    assert by_class == by_reason == Ran(0, "1 replayed\n", "")
    assert dry == Ran(0, "would be: 1 purged\n", "")
    assert by_tag.document == {"action": "purge", "dry_run": False, "matched": 1, "statuses": {"purged": 1}}
    assert (named.code, [line.split()[-1] for line in named.lines[2:]]) == (1, ["purged", "found"])
    assert [found.id for found in with_store(file_url, lambda store: list_state(store, State.WAITING))] == ["c", "d"]
    assert with_store(file_url, dead_letters) == []
    assert [
        dead_letter.record.id for dead_letter in with_store(file_url, lambda store: dead_letters(store, OTHER))
    ] == ["e"]


def test_what_says_nothing_or_two_things_is_refused(file_url: str) -> None:
    with_store(file_url, lambda store: kill_all(store, [job("a")]))

    nothing = run("dead", "replay", "--queue", "mail", "--yes", url=file_url)
    both = run("dead", "purge", "a", "--all", "--yes", "--json", url=file_url)
    spread = run("dead", "replay", "a", "--spread", "soon", url=file_url)

    assert nothing.err == (
        "headrace: no dead letters to replay were selected; give ids or keys, a filter such as --kind, --reason or"
        " --since, or --all\n"
    )
    assert "purge takes names or a filter, not both" in both.err
    assert spread.err.startswith("headrace: spread 'soon' is not a valid duration")
    assert {ran.code for ran in (nothing, both, spread)} == {2}
    assert len(with_store(file_url, dead_letters)) == 1


async def test_a_job_that_dies_again_while_others_are_replayed_is_not_replayed_twice() -> None:
    """A worker is as fast as can be: whatever is replayed has died again before the next step."""
    store, past_ms = MemoryStore(), SystemClock().now_ms() - 60_000
    for start in (0, 1_000):
        await kill_all(store, [job(f"{number:04}") for number in range(start, start + 1_000)], now_ms=past_ms)
    replayed: Counter[int] = Counter()

    async def apply(_: Store, queue: Queue, dead_letters: Sequence[DeadLetter]) -> list[str]:
        keys = [dead_letter.key for dead_letter in dead_letters]
        replayed.update(key.number for key in keys)
        assert len(replayed) <= 2_000  # or it would go on for ever
        answers = await store.dead.replay(queue, keys)
        again = await claim_all(store)
        await store.jobs.settle([claim.settle(Failed(BOOM)) for claim in again])
        return [answer.status for answer in answers]

    tally = await act_on_matches(store, replaying(apply), every(), dry_run=False, advance=lambda count: None)

    assert tally.statuses == {"replayed": 2_000}
    assert sorted(replayed) == list(range(1, 2_001))
    assert len(await dead_letters(store)) == 2_000


async def test_dead_letters_of_a_sparse_filter_are_gathered_so_that_they_spread_together() -> None:
    """One dead letter in a thousand: replayed one by one, each would be the first of its step and due at once."""
    store, past_ms = MemoryStore(), SystemClock().now_ms() - 60_000
    for number in range(3):
        rows = [job(f"{number}-{each:03}", kind="odd" if each == 0 else "send") for each in range(1_000)]
        await kill_all(store, rows, now_ms=past_ms)
    steps: list[int] = []

    async def apply(_: Store, queue: Queue, keys: Sequence[DeadLetter]) -> list[str]:
        steps.append(len(keys))
        return ["replayed"] * len(keys)

    await act_on_matches(store, replaying(apply), every(kind="odd"), dry_run=False, advance=lambda count: None)

    assert steps == [3]
