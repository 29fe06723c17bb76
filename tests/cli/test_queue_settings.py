"""Promises of a queue's settings on the command line: read as people write them, shown as they can be read."""

import time

import pytest

from headrace.cli.parse import value_text
from headrace.cli.queues.configure import read_changes
from headrace.inspect.queues import settings_of
from headrace.model.errors import Refused
from headrace.model.names import Queue
from headrace.model.policy import SETTABLE, QueueConfig
from headrace.stores.contract.store import Store
from tests.cli.job_states import MAIL, job
from tests.cli.support import run, with_store


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        (["timeout=30s"], {"timeout_ms": 30_000}),
        (["timeout_ms=30000"], {"timeout_ms": 30_000}),
        (["timeout_ms=1.5m"], {"timeout_ms": 90_000}),
        (["timeout=0", "backoff_max=2h"], {"timeout_ms": 0, "backoff_ms_max": 7_200_000}),
        (["paused=true", "fail-handler=No"], {"paused": True, "fail_handler": False}),
        (["priority=9", " keep_done_max = 10 "], {"priority": 9, "keep_done_max": 10}),
    ],
)
def test_settings_are_read_as_people_write_them(written: list[str], changes: dict[str, object]) -> None:
    assert read_changes(written) == changes


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["timeout"], "a setting must be key=value, as in timeout=30s; found 'timeout'"),
        (["timout=3s"], "queues have no setting 'timout'; did you mean 'timeout'?"),
        (
            ["colour=red"],
            "queues have no setting 'colour'; known settings: paused, fail_handler, journal_payloads, priority",
        ),
        (["version=3"], "queues have no setting 'version'"),
        (["timeout=30"], "timeout=30 has no unit; write timeout=30s, or timeout_ms=30 for milliseconds"),
        (["timeout=soon"], "timeout_ms 'soon' is not a valid duration"),
        (["timeout=1s", "timeout_ms=2"], "timeout_ms is given twice; give it once"),
        (["paused=maybe"], "paused must be true or false; found 'maybe'"),
        (["priority=high"], "priority must be a whole number; found 'high'"),
        (["priority=²"], "priority must be a whole number; found '²'"),
        (["priority=--5"], "priority must be a whole number; found '--5'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_to_write(written: list[str], message: str) -> None:
    with pytest.raises(Refused) as caught:
        read_changes(written)

    assert str(caught.value).startswith(message)


async def one_queue(store: Store) -> None:
    """A queue of one job."""
    await store.jobs.enqueue([job("a", queue=MAIL)])


HUGE = "X" * 100_000


@pytest.mark.parametrize(
    "words",
    [
        ("queues", "configure", "mail", HUGE),
        ("queues", "configure", "mail", f"{HUGE}=1"),
        ("queues", "configure", "mail", f"priority={HUGE}"),
        ("queues", "configure", HUGE, "priority=1"),
        ("feeds", "configure", "news", f"{HUGE}=1"),
        ("jobs", "list", "--state", HUGE),
        ("jobs", "list", "--limit", HUGE),
        ("jobs", HUGE),
        (HUGE,),
    ],
    ids=lambda words: " ".join(word[:20] for word in words),
)
def test_what_is_far_too_long_is_refused_soon_and_in_short(words: tuple[str, ...], file_url: str) -> None:
    with_store(file_url, one_queue)
    started_at = time.monotonic()

    ran = run(*words, url=file_url)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("headrace: ")
    assert len(ran.err) < 700
    assert time.monotonic() - started_at < 10


def test_every_setting_is_shown_in_a_form_that_configure_takes() -> None:
    odd = QueueConfig(timeout_ms=61_001, backoff_ms=60_000, paused=True, keep_dead_ms=0)

    shown = settings_of(Queue("mail"), odd)

    assert [setting.name for setting in shown] == [*SETTABLE]
    assert read_changes([f"{setting.name}={value_text(setting.name, setting.value)}" for setting in shown]) == {
        name: getattr(odd, name) for name in SETTABLE
    }
