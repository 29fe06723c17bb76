"""Turns the facts of a store into checks: each is in order, or says what to do."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from headrace.cli.doctor.facts import QueueFacts, StoreFacts
from headrace.cli.output import counted
from headrace.model.integrity import FLAWS, Flaw
from headrace.model.limits import (
    CLOCK_SKEW_MS_MAX,
    CONSUMER_QUIET_MS,
    LATE_MS,
    NEARLY_FULL_PERCENT,
    QUEUES_LISTED_MAX,
    WORKER_LATELY_MS,
)
from headrace.model.results import Health
from headrace.model.times import duration_text, instant_text

REPAIR = "headrace doctor --repair"


class Check(Struct, frozen=True):
    """A check with its status, its finding, and what to do."""

    check: str
    status: Literal["ok", "look", "wrong"]
    found: str
    todo: str | None = None


def ok(check: str, found: str) -> Check:
    """A check without a problem."""
    return Check(check, "ok", found)


def look(check: str, found: str, todo: str) -> Check:
    """A check for a person to look at, which may be on purpose."""
    return Check(check, "look", found, todo or None)


def wrong(check: str, found: str, todo: str) -> Check:
    """A check with something to fix."""
    return Check(check, "wrong", found, todo)


def together(found: Sequence[tuple[str, Check]], words: str) -> list[Check]:
    """The checks of a few queues, each with the queue's name, or one check that counts many queues.

    `words` describe several queues as the checks describe one.
    """
    if len(found) <= QUEUES_LISTED_MAX:
        return [check for _, check in found]
    names, (_, first) = [repr(name) for name, _ in found[:3]], found[0]
    text = f"{len(found):,} queues {words}: {', '.join(names)} and {len(found) - len(names):,} more"
    return [Check(first.check, first.status, text, None if first.todo is None else f"for each, as in: {first.todo}")]


class Versions(Struct, frozen=True):
    """The versions that this command runs on."""

    headrace: str
    python: str
    driver: str | None


def run_checks(facts: StoreFacts, versions: Versions) -> list[Check]:
    """All checks, in the order of the table."""
    return [
        *_store(facts),
        _versions(facts.health, versions),
        _epochs(facts),
        *_queues(facts),
        *_readers(facts),
        *_quarantine(facts),
        *_damage(facts),
    ]


def worst(checks: list[Check]) -> Literal["ok", "look", "wrong"]:
    """The worst status of the checks."""
    found = {each.status for each in checks}
    return "wrong" if "wrong" in found else "look" if "look" in found else "ok"


def _store(facts: StoreFacts) -> list[Check]:
    health, skew_ms = facts.health, facts.health.clock_skew_ms
    checks = [
        ok("store", f"{health.store} answers within {max(facts.round_trip_ms, 1)} ms"),
        ok("durability", f"{health.profile}: {health.promise}"),
    ]
    for note in health.notes:
        found, _, todo = note.rpartition("; ")
        checks.append(look("durability", found or todo, todo if found else ""))
    text = f"the store's clock is {duration_text(abs(skew_ms))} {'ahead' if skew_ms > 0 else 'behind'}"
    if abs(skew_ms) > CLOCK_SKEW_MS_MAX:
        checks.append(look("clock", text, "let NTP set the clocks of both machines"))
    else:
        checks.append(ok("clock", f"the clocks of the store and this machine differ by {abs(skew_ms)} ms"))
    return checks


def _versions(health: Health, versions: Versions) -> Check:
    schema = health.schema
    parts = [f"headrace {versions.headrace}", f"Python {versions.python}", health.server]
    parts += [versions.driver] if versions.driver else []
    if schema is not None:
        parts.append(schema.library or f"schema {schema.found} of {schema.known}")
    return ok("versions", ", ".join(parts))


def _epochs(facts: StoreFacts) -> Check:
    highest = max((parts[0].epoch for queue in facts.queues for parts in queue.shards), default=1)
    if highest <= 1:
        return ok("epochs", "the store never lost the end of its journal")
    text = f"the last epoch began at {instant_text(highest)}: a start or failover may have lost the moments before it"
    if facts.health.profile == "fast":
        return look("epochs", text, "compare the last jobs you sent with the store; choose a durable profile")
    return ok("epochs", f"{text}; its profile is {facts.health.profile}, so nothing answered was lost")


def _queues(facts: StoreFacts) -> list[Check]:
    checks = queue_checks(facts.queues, facts.now_ms)
    if checks:
        return checks
    waiting = sum(each.counts.waiting for each in facts.queues)
    active = sum(each.counts.active for each in facts.queues)
    return [
        ok("queues", f"{counted(len(facts.queues), 'queue')}, {counted(waiting, 'job')} waiting, {active:,} running")
    ]


def _readers(facts: StoreFacts) -> list[Check]:
    checks: list[Check] = []
    for name in dict.fromkeys(each.consumer.name for queue in facts.queues for each in queue.readers):
        own = [queue for queue in facts.queues if any(each.consumer.name == name for each in queue.readers)]
        found = [(queue.name, _reader(queue, name, facts.now_ms)) for queue in own]
        checks += together(
            [each for each in found if each[1].status != "ok"], f"are held back by the absent consumer {name!r}"
        )
        checks += together([each for each in found if each[1].status == "ok"], f"are read by {name!r}")
    return checks or [ok("journal", "no consumer is registered")]


def _reader(queue: QueueFacts, name: str, now_ms: int) -> Check:
    own = [each for each in queue.readers if each.consumer.name == name]
    holds = any(each.consumer.hold for each in own)
    quiet_ms = max(now_ms - min(each.consumer.seen_at_ms for each in own), 0)
    text = (
        f"{name!r} reads {queue.name!r}: {counted(sum(each.lag for each in own), 'event')} behind, seen"
        f" {duration_text(quiet_ms)} ago{', holds retention back' if holds else ''}"
    )
    if holds and quiet_ms > CONSUMER_QUIET_MS:
        return look("journal", text, "restart it, or release its hold with store.journal.forget")
    return ok("journal", text)


def _quarantine(facts: StoreFacts) -> list[Check]:
    found: list[tuple[str, Check]] = []
    for queue in facts.queues:
        total = sum(parts[0].quarantined for parts in queue.shards)
        if total:
            newest = [item for parts in queue.shards for item in parts[0].quarantine][:3]
            named = ", ".join(f"the {each.what} of {each.id!r}" for each in newest)
            text = f"{queue.name!r}: calls skipped {counted(total, 'missing record')} (the latest: {named})"
            found.append((queue.name, wrong("quarantine", text, REPAIR)))
    return together(found, "have missing records that calls skipped") or [
        ok("quarantine", "no call skipped a missing record")
    ]


def _broken(queue: QueueFacts) -> list[Check]:
    checks: list[Check] = []
    for index, parts in enumerate(queue.shards):
        breaks = [each for part in parts for each in part.breaks]
        if breaks:
            others = f", and {len(breaks) - 1:,} similar places" if len(breaks) > 1 else ""
            text = f"{queue.name!r}: in the journal of shard {index} {breaks[0]}{others}"
            checks.append(
                wrong(
                    "damage", text, "headrace pipeline audit shows what readers miss; restore a backup if there is one"
                )
            )
    return checks


def _unreadable(queue: QueueFacts) -> list[Check]:
    checks: list[Check] = []
    for index, parts in enumerate(queue.shards):
        lines = [line for part in parts for line in part.unreadable]
        if lines:
            others = f" and {len(lines) - 1:,} others" if len(lines) > 1 else ""
            text = f"{queue.name!r}: the journal of shard {index} cannot be read at seq {lines[0].seq:,}{others}"
            hint = "readers skip them; check the store's disk, and restore a backup if there is one"
            checks.append(wrong("damage", f"{text}: {lines[0].why}", hint))
    return checks


def _damage(facts: StoreFacts) -> list[Check]:
    found: dict[str, list[tuple[str, Check]]] = defaultdict(list)
    for queue in facts.queues:
        damages = queue.problems
        flaws: Counter[Flaw] = Counter(each.flaw for each in damages)
        for flaw, number in flaws.items():
            first = next(each.id for each in damages if each.flaw == flaw)
            meaning, _, healing = FLAWS[flaw].partition("; ")
            text = f"{queue.name!r}: {number:,} {flaw} ({first!r}{' and others' if number > 1 else ''}): {meaning}"
            found[f"have {flaw} records"].append((queue.name, wrong("damage", text, f"{REPAIR}: {healing}")))
        for each in queue.count_mismatches:
            text = f"{queue.name!r}: counter {each.counter} is {each.kept:,}, but {each.counted:,} were counted"
            found[f"have a wrong counter {each.counter}"].append((queue.name, wrong("damage", text, REPAIR)))
        found["have a journal whose entries do not follow each other"] += [
            (queue.name, each) for each in _broken(queue)
        ]
        found["have a journal with lines that cannot be read"] += [(queue.name, each) for each in _unreadable(queue)]
    checks = [check for words, each in found.items() for check in together(each, words)]
    partly = [queue.name for queue in facts.queues if not queue.is_whole]
    if partly:
        others = f" and {len(partly) - 3} others" if len(partly) > 3 else ""
        text = f"only part of {', '.join(partly[:3])}{others} was checked"
        checks.append(ok("damage", f"{text}; --full checks every record"))
    return checks or [ok("damage", "every record and every counter is in order")]


def queue_checks(queues: Sequence[QueueFacts], now_ms: int) -> list[Check]:
    """The problems of queues, finding by finding."""
    checks: list[Check] = []
    for examine, words in FINDINGS:
        found = [(queue.name, check) for queue in queues if (check := examine(queue, now_ms)) is not None]
        checks += together(found, words)
    return checks


def _paused(queue: QueueFacts, _: int) -> Check | None:
    if not queue.config.paused or not queue.counts.waiting:
        return None
    text = f"{queue.name!r} is paused with {counted(queue.counts.waiting, 'job')} waiting"
    return look("queues", text, f"headrace queues resume {_named(queue)}")


def _forsaken(queue: QueueFacts, now_ms: int) -> Check | None:
    due_ms, seen_ms = queue.counts.oldest_due_ms, queue.seen_at_ms
    if queue.config.paused or due_ms is None or now_ms - due_ms <= LATE_MS:
        return None
    if seen_ms is not None and now_ms - seen_ms <= WORKER_LATELY_MS:
        return None
    seen = "no worker was seen" if seen_ms is None else f"no worker was seen for {duration_text(now_ms - seen_ms)}"
    text = f"{queue.name!r} has had jobs due for {duration_text(now_ms - due_ms)} and {seen}"
    return wrong("queues", text, f"start one: headrace worker --queues {_named(queue)}")


def _leases(queue: QueueFacts, _: int) -> Check | None:
    over = sum(parts[0].leases_over for parts in queue.shards)
    if not over:
        return None
    text = f"{queue.name!r} has {counted(over, 'lease')} that ran out more than {duration_text(LATE_MS)} ago"
    return wrong("leases", text, "start a worker, or headrace doctor --repair")


def _dead_letters(queue: QueueFacts, _: int) -> Check | None:
    most = queue.config.keep_dead_max * queue.queue.shards
    if not queue.counts.dead or queue.counts.dead * 100 < most * NEARLY_FULL_PERCENT:
        return None
    text = f"{queue.name!r} has {queue.counts.dead:,} of {most:,} dead letters; beyond that the oldest are dropped"
    return look("queues", text, f"replay or purge them with headrace dead, or raise keep_dead_max of {_named(queue)}")


def _waiting(queue: QueueFacts, _: int) -> Check | None:
    held, most = queue.counts.waiting + queue.counts.blocked, queue.config.waiting_max * queue.queue.shards
    if not held or held * 100 < most * NEARLY_FULL_PERCENT:
        return None
    text = f"{queue.name!r} has {held:,} of {most:,} waiting jobs; beyond that new ones are refused as full"
    return look("queues", text, f"start more workers, or raise waiting_max of {_named(queue)}")


def _named(queue: QueueFacts) -> str:
    name, tenant = queue.queue.full_name, queue.queue.tenant
    return name if queue.name == name else f"{name} --tenant {tenant}"


FINDINGS: tuple[tuple[Callable[[QueueFacts, int], Check | None], str], ...] = (
    (_paused, "are paused with jobs waiting"),
    (_forsaken, f"have had jobs due for more than {duration_text(LATE_MS)} and no worker was seen"),
    (_leases, f"have leases that ran out more than {duration_text(LATE_MS)} ago"),
    (_dead_letters, "have nearly as many dead letters as they keep; beyond that the oldest are dropped"),
    (_waiting, "have nearly as many waiting jobs as they take; beyond that new ones are refused as full"),
)
"""The checks of a queue, each with the words for many queues."""
