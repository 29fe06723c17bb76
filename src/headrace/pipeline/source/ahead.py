"""Makes the next batch while Spark sends the last: both take a core, and Arrow lets go of Python's lock meanwhile."""

import threading
from collections.abc import Generator
from queue import Queue
from typing import TypeVar

T = TypeVar("T")
_END = object()


def ahead(made: Generator[T, None, None]) -> Generator[T, None, None]:
    """What a generator gives, one ahead of who asks. It runs in a thread of its own and is closed there; whoever leaves
    early waits for that, so have it stop waiting itself first."""
    ready: Queue[object] = Queue(maxsize=1)
    is_left = threading.Event()

    def make() -> None:
        last: object = _END
        try:
            for each in made:
                ready.put(each)
                if is_left.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  (whoever asks raises it, in a thread that is listened to)
            last = _Raised(error)
        finally:
            made.close()
            ready.put(last)

    # A daemon: a task that Spark kills must not wait for it.
    thread = threading.Thread(target=make, name="headrace-ahead", daemon=True)
    thread.start()
    try:
        while (found := ready.get()) is not _END:
            if isinstance(found, _Raised):
                raise found.error
            yield found  # type: ignore[misc]
    finally:
        is_left.set()
        while thread.is_alive():
            _emptied(ready)
            thread.join(0.01)


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _emptied(ready: "Queue[object]") -> None:
    while not ready.empty():
        ready.get_nowait()
