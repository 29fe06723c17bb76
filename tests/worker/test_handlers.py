"""Handlers: the function for each kind, and its mode."""

from functools import partial
from typing import Any

import pytest

from headrace.model.errors import BadConfig, Refused
from headrace.model.names import FAIL_KIND, Queue
from headrace.stores.contract.store import Store
from headrace.worker.handlers import Handlers, handler_of
from tests.worker import process_handlers
from tests.worker.support import MAIL, build_handlers, find, job, run_until_idle


async def coroutine() -> None:
    """A coroutine function."""


def plain() -> None:
    """A plain function."""


class Callable:
    """An object that is called like a coroutine function."""

    async def __call__(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("function", "is_process", "mode"),
    [
        (coroutine, False, "async"),
        (partial(coroutine), False, "async"),
        (Callable(), False, "async"),
        (plain, False, "thread"),
        (partial(plain), False, "thread"),
        (plain, True, "process"),
        (coroutine, True, "process"),
    ],
)
def test_a_function_says_where_it_runs(function: Any, is_process: bool, mode: str) -> None:
    """T1, Q33: a coroutine function on the loop, a plain one in a thread, either in a process if so wished."""
    assert handler_of("work", function, process=is_process).mode == mode


@pytest.mark.parametrize(
    ("kind", "function", "message"),
    [
        ("", plain, "kind"),
        ("x" * 129, plain, "kind"),
        ("work", None, "must be a function; found None"),
        ("work", "plain", "must be a function; found 'plain'"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(kind: str, function: Any, message: str) -> None:
    """T2, Q33: a kind must have a name, and a handler must be a function."""
    with pytest.raises(Refused, match=message):
        handler_of(kind, function)


def _takes_anything(*things: int) -> None:
    """Cannot be called by name."""


def test_a_function_whose_arguments_cannot_be_sent_is_refused() -> None:
    """Q33: found when it is registered, not when the first job comes."""
    with pytest.raises(BadConfig, match=r"\*things"):
        handler_of("work", _takes_anything)


def test_a_function_that_another_process_cannot_find_is_refused() -> None:
    """Q33: the error says what to do."""

    def inside() -> None:
        return

    with pytest.raises(BadConfig, match="define it at the top of a module"):
        handler_of("work", inside, process=True)
    with pytest.raises(BadConfig, match="cannot find"):
        handler_of("work", lambda: None, process=True)

    assert handler_of("work", process_handlers.name, process=True).target == "tests.worker.process_handlers:name"


@pytest.mark.parametrize("weight", [0, -1, 1.5, 10_001])
def test_a_weight_that_makes_no_sense_is_refused(weight: Any) -> None:
    """Q35: units are whole, and at least one."""
    with pytest.raises(Refused, match="weight"):
        handler_of("work", plain, weight=weight)


async def test_registering_a_kind_again_replaces_its_handler(store: Store) -> None:
    """T2: the last one holds, also where it came from."""

    async def first() -> str:
        return "first"

    async def second() -> str:
        return "second"

    handlers = build_handlers(work=first)
    handlers.register(handler_of("work", second), MAIL)
    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, handlers)

    finished_job = (await find(store, "a")).finished_job
    assert finished_job is not None
    assert finished_job.result == b'"second"'
    assert len(handlers) == 1


def test_handlers_know_their_queues_in_order_and_their_fail_queues() -> None:
    handlers = build_handlers(Queue("b"), Queue("a"), work=coroutine, plain=plain)
    handlers.register_fail(handler_of(FAIL_KIND, _told, style="listed"), Queue("b"))

    assert handlers.queues == [Queue("b"), Queue("a")]
    assert handlers.fail_queues == [Queue("b").fail_queue]
    assert [handler.kind for handler in handlers.of_queue(Queue("a"))] == ["work", "plain"]
    assert [handler.kind for handler in handlers.of_queue(Queue("elsewhere"))] == ["work", "plain"]
    assert [handler.kind for handler in handlers.of_queue(Queue("b").fail_queue)] == [FAIL_KIND]


def _told(_: str, __: object, ___: object) -> None:
    """Take note of a death."""


def test_the_error_for_an_unknown_kind_names_the_most_similar_and_not_all() -> None:
    """T26: a long list is cut."""
    handlers = Handlers()
    for number in range(20):
        handlers.register(handler_of(f"kind-{number:02}", plain))

    message = handlers.describe_unknown("kimd-07")

    assert message.startswith("no handler for kind 'kimd-07'; did you mean 'kind-07'? Known kinds: kind-00, kind-01")
    assert message.endswith("kind-11 and 8 more")
    assert Handlers().describe_unknown("work") == "no handler for kind 'work'; Known kinds: none"
