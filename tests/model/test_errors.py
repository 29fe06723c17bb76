"""Errors: their messages, and pickling between processes."""

import copy
import pickle

import pytest

from headrace.model import errors
from headrace.model.errors import (
    BadConfig,
    HeadraceError,
    JobCancelled,
    JobFailed,
    OutcomeUnknown,
    Refused,
    StoreUnavailable,
)
from headrace.model.outcome import JobError

ERRORS = [
    Refused("full", "the queue is full"),
    StoreUnavailable("nobody there"),
    OutcomeUnknown("lost", known=[1], unknown=["a"]),
    BadConfig("wrong URL"),
    JobFailed("a", "attempts", JobError("ValueError", "no such user")),
    JobCancelled("a"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying(error: HeadraceError) -> None:
    """A pool of processes pickles what a task raised; an error that cannot be read again would hang it."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_class_of_the_tree_is_drawn_and_tested() -> None:
    here = {cls for cls in HeadraceError.__subclasses__() if cls.__module__ == HeadraceError.__module__}

    assert {type(error) for error in ERRORS} == here
    assert errors.__doc__ is not None
    assert [cls.__name__ for cls in here if f"─ {cls.__name__} " not in errors.__doc__] == []


def test_a_failed_job_names_its_reason() -> None:
    failed = JobFailed("a", "attempts", JobError("ValueError", "no such user"))

    assert str(failed) == "job 'a' died (attempts) of ValueError: no such user"
    assert str(JobFailed("a", "stalls", JobError("Stalled"))) == "job 'a' died (stalls) of Stalled"
