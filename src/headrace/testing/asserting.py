"""Says what a test found instead of the job that it wanted, the nearest first."""

from collections.abc import Sequence

from headrace.model.validate import cut
from headrace.testing.matching import Difference, Wanted
from headrace.testing.sent import SentJob

SHOWN_MAX = 5
"""More jobs than these are counted, not shown: the nearest ones come first."""


def wanted_but(wanted: Wanted, sent: Sequence[SentJob], times: int | None) -> str | None:
    """Why an `assert_enqueued` fails, in words; None when it holds."""
    compared = [(wanted.differences(each), each) for each in sent]
    count = sum(not differences for differences, _ in compared)
    if count if times is None else count == times:
        return None
    head = f"{wanted} was enqueued {_times(count)}, wanted {'at least once' if times is None else _times(times)}"
    return f"{head}; {_found(compared)}"


def unwanted_but(wanted: Wanted, sent: Sequence[SentJob]) -> str | None:
    """Why an `assert_not_enqueued` fails, in words; None when it holds."""
    found = [each for each in sent if not wanted.differences(each)]
    if not found:
        return None
    return f"{wanted} was enqueued {_times(len(found))}, wanted never; found:" + "".join(map(_line, found[:SHOWN_MAX]))


def _found(compared: Sequence[tuple[list[Difference], SentJob]]) -> str:
    if not compared:
        return "nothing was enqueued at all"
    ordered = sorted(compared, key=lambda each: (_is_other(each[0]), len(each[0])))
    shown = [_line(sent) + "".join(f"\n      {each}" for each in differences) for differences, sent in ordered]
    left = len(shown) - SHOWN_MAX
    more = f"\n  and {left} more" if left > 0 else ""
    return "found:" + "".join(shown[:SHOWN_MAX]) + more


def _is_other(differences: Sequence[Difference]) -> bool:
    return any(each.what == "kind" for each in differences)


def _line(sent: SentJob) -> str:
    arguments = ", ".join(f"{name}={cut(repr(value))}" for name, value in sent.arguments.items())
    due = f", due after {sent.delay_ms} ms" if sent.delay_ms else ""
    return f"\n  {sent.kind}({arguments}) on queue {sent.queue.full_name!r}, id {sent.id!r}{due}"


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
