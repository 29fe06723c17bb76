"""Promises of reading ahead: the same values in order, no more than one too many, and nothing left running."""

import threading
from collections.abc import Generator

import pytest

from headrace.pipeline.source.arrow import prefetch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "headrace-prefetch"]


def test_everything_comes_in_order_and_the_thread_ends() -> None:
    found = list(prefetch(number for number in range(1_000)))

    assert found == list(range(1_000))
    assert threads() == []


def test_an_exception_of_the_generator_reaches_the_reader() -> None:
    def broken() -> Generator[int, None, None]:
        yield 1
        raise ValueError("no second one")

    items = prefetch(broken())

    assert next(items) == 1
    with pytest.raises(ValueError, match="no second one"):
        next(items)
    assert threads() == []


def test_a_reader_that_stops_early_closes_the_generator_in_its_thread() -> None:
    closed_in: list[str] = []

    def endless() -> Generator[int, None, None]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed_in.append(threading.current_thread().name)

    items = prefetch(endless())
    assert [next(items), next(items)] == [0, 1]
    items.close()

    assert closed_in == ["headrace-prefetch"]
    assert threads() == []
