"""What can be a job function is checked at import, not when the job runs."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace import App, BadConfig, Queue


class Mailer:
    """Has methods, which are no jobs."""

    def send(self, user_id: int) -> None:
        """Not a job."""

    @staticmethod
    def still(user_id: int) -> None:
        """Not one either."""


def yielding(user_id: int) -> Iterator[int]:
    """Returns more than once."""
    yield user_id


async def yielding_slowly(user_id: int) -> AsyncIterator[int]:
    """Returns more than once, and takes its time."""
    yield user_id


def many(*ids: int) -> None:
    """Arguments without names."""


def unsendable(mailer: Mailer) -> None:
    """No JSON for that."""


def fine(user_id: int) -> int:
    """A job."""
    return user_id


NO_JOBS: list[tuple[Any, str]] = [
    (Mailer().send, "Mailer.send is a method"),
    (Mailer.send, "Mailer.send is a method"),
    (Mailer.__dict__["still"], "Mailer.still is a method"),
    (Mailer, "is not a function"),
    (functools.partial(fine, 1), "is not a function"),
    (lambda user_id: None, "a lambda has no name"),
    (yielding, "yielding yields"),
    (yielding_slowly, "yielding_slowly yields"),
    (many, r"many\(\*ids: int\) takes \*ids"),
    (unsendable, "Mailer cannot be written as JSON"),
    (42, "42 is not a function"),
]


@pytest.mark.parametrize(("function", "message"), NO_JOBS)
def test_what_cannot_be_a_job_is_refused_with_a_sentence(app: App, function: Any, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        app.job(function)


def test_a_job_is_no_job_again(app: App) -> None:
    job = app.job(fine)

    with pytest.raises(BadConfig, match="fine is a job already"):
        app.job(job)


def test_a_function_that_another_decorator_wrapped_keeps_its_arguments(app: App) -> None:
    @functools.wraps(fine)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        return fine(*args, **kwargs) + 1

    job = app.job(wrapped)

    assert (job.kind, job.job(user_id=3).payload, job(3)) == ("fine", b'{"user_id":3}', 4)


def test_one_kind_belongs_to_one_function_and_the_message_names_both_places(app: App) -> None:
    app.job(fine)

    @app.job(kind="other")
    def importable_jobs() -> None: ...

    with pytest.raises(BadConfig, match=r"kind 'fine': tests.*\.fine \(.*test_job_function\.py:\d+\) and .*clash"):

        @app.job(kind="fine")
        def clash() -> None: ...

    assert len(app.registry) == 2


def test_the_same_function_again_takes_its_own_place(app: App) -> None:
    """As when the cell of a notebook runs twice."""
    app.job(queue="first")(fine)

    job = app.job(queue="second")(fine)

    assert (len(app.registry), job.queue) == (1, Queue("second"))
    assert app.handlers.queues == [Queue("second")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timeout": "soon"}, "timeout 'soon' is not a valid duration"),
        ({"priority": 10}, "priority"),
        ({"queue": "no spaces"}, "queue name 'no spaces'"),
        ({"weight": 0}, "weight"),
        ({"process": True, "kind": "k" * 200}, "kind"),
        ({"speed": 3}, "speed"),
    ],
)
def test_wrong_settings_are_found_where_the_function_is_defined(app: App, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=rf"test_job_function.*\.fine \(.*\) cannot be a job: .*{message}"):
        app.job(**fields)(fine)

    assert len(app.registry) == 0


def test_a_job_in_another_process_must_be_found_there(app: App) -> None:
    with pytest.raises(BadConfig, match="define it at the top of a module"):

        @app.job(process=True)
        def hidden() -> None: ...


def test_a_queue_has_one_fail_handler_which_stays_a_plain_function(app: App) -> None:
    @app.fail_handler(queue="mail")
    def bury(id: str, payload: Any, error: dict[str, str]) -> str:
        return id

    with pytest.raises(BadConfig, match="handle the dead letters of queue 'mail'"):

        @app.fail_handler(queue="mail")
        def again(id: str, payload: Any, error: dict[str, str]) -> None: ...

    with pytest.raises(BadConfig, match="by name only"):

        @app.fail_handler
        def named(*, id: str) -> None: ...

    assert bury("a", None, {}) == "a"
    assert app.handlers.fail_queues == [Queue("mail").fail_queue]


def test_a_fail_handler_follows_the_shards_of_its_queue_whichever_comes_first(app: App) -> None:
    @app.fail_handler(queue="mail")
    def bury(id: str, payload: Any, error: dict[str, str]) -> None: ...

    app.job(queue="mail", shards=4)(fine)

    assert app.handlers.fail_queues == [Queue("mail", shards=4).fail_queue]
