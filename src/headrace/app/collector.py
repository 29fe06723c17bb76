"""Sets Python's garbage collector for a program that only works: it looks seldom, and only at what is new."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.limits import COLLECT_AFTER, COLLECT_OLDER_AFTER


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Keep the collector from modules and handlers, which stay, and from jobs, which free themselves.

    For programs that are a worker and nothing else: the collector is the whole process's. One that a program has turned
    off, or set to look as seldom, is left as it is, and so is that of a program whose worker is in another thread.
    """
    before = gc.get_threshold()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not gc.isenabled() or not 0 < before[0] < COLLECT_AFTER:
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, COLLECT_OLDER_AFTER, COLLECT_OLDER_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
