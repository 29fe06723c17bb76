"""How a job in a process ends other than by returning; the worker makes an outcome of it."""

import signal

from headrace.worker.pools.messages import How


class ChildRaised(Exception):
    """What the handler raised in its process, or why it could not be called; the process is well.

    `how` says what the handler asked for, `delay_ms` when; `trace` is the end of the stack trace over there, which is
    shown with the traceback.
    """

    def __init__(
        self, cls: str, message: str, how: How = "error", delay_ms: int | None = None, trace: str = ""
    ) -> None:
        super().__init__(f"{cls}: {message}" if message else cls)
        self.cls = cls
        self.message = message
        self.how = how
        self.delay_ms = delay_ms
        self.trace = trace
        if trace:
            self.add_note(f"In the process of the handler:\n{trace}")


class ProcessDied(Exception):
    """The process ended by itself in the middle of a job; `exitcode` is negative for a signal."""

    def __init__(self, exitcode: int) -> None:
        super().__init__(f"the process of the handler died ({_told(exitcode)})")
        self.exitcode = exitcode


def _told(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"{name}; out of memory?" if name == "SIGKILL" else name
