"""Programs with blocking feeds, each for a process of its own: `python -m tests.feeds.programs NAME URL`."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

from headrace.client.background import BACKGROUND
from headrace.feeds.blocking import BlockingFeeds
from tests.client.programs import fork, join

FORKS = 5
INTERRUPTIONS = 150


def forks(url: str) -> None:
    """A thread follows a feed and another one gets from a queue, while the program forks and its children publish."""
    feeds = BlockingFeeds(url)
    news, inbox = feeds.feed("news"), feeds.item_queue("inbox")
    news.publish_many(range(2_500))
    parent, subscription = feeds.instance, news.subscribe()
    seen = [next(subscription)]
    got: list[object] = []

    def follow() -> None:
        while seen[-1].id != "the end":
            seen.append(next(subscription))

    def get() -> None:
        while not got or got[-1] != "the end":
            got.append(inbox.get())

    def child(number: int) -> None:
        assert feeds.instance != parent
        news.publish(number, id=f"child {number}")
        inbox.put(number)
        change = next(subscription)  # it goes on in the child as well
        assert change.event in ("present", "live", "published"), change

    threads = [threading.Thread(target=each) for each in (follow, get)]
    for thread in threads:
        thread.start()
    for number in range(FORKS):
        join(fork(partial(child, number)))
    news.publish(0, id="the end")
    inbox.put("the end")
    for thread in threads:
        thread.join()
    events = [change.event for change in seen]
    children = [change.id for change in seen if change.event == "published"]
    assert events[:2_501] == ["present"] * 2_500 + ["live"], events[2_490:2_510]
    assert children == [*(f"child {number}" for number in range(FORKS)), "the end"], children
    assert got == [*range(FORKS), "the end"], got


def interrupt_waits(url: str) -> None:
    """Ctrl-C comes at any point of a wait; the next call gets what would have come, and nothing is lost."""
    feeds = BlockingFeeds(url)
    news, inbox = feeds.feed("news"), feeds.item_queue("inbox")
    subscription = news.subscribe()
    next(subscription)
    seen: list[str] = []
    got: list[object] = []

    def press(number: int) -> None:
        while not BACKGROUND.is_waiting:
            pass
        if number % 3:
            (news.publish if number % 2 else inbox.put)(number)
        for _ in range(number % 50):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    for number in range(INTERRUPTIONS):
        presser = threading.Thread(target=press, args=(number,))
        try:
            presser.start()
            while True:
                if number % 2:
                    seen.append(next(subscription).item)
                else:
                    got.append(inbox.get())
        except KeyboardInterrupt:
            presser.join()
    news.publish("the end")
    inbox.put("the end")
    while not seen or seen[-1] != "the end":
        seen.append(next(subscription).item)
    while not got or got[-1] != "the end":
        got.append(inbox.get())
    wanted = [number for number in range(INTERRUPTIONS) if number % 3]
    assert seen == [*(number for number in wanted if number % 2), "the end"], seen
    # Put back, an item is first again, so that even the order is kept.
    assert got == [*(number for number in wanted if not number % 2), "the end"], got


PROGRAMS: dict[str, Callable[[str], None]] = {program.__name__: program for program in (forks, interrupt_waits)}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores Ctrl-C by default
    PROGRAMS[sys.argv[1]](sys.argv[2])
