"""Mend: counters that differ from the rows, and twins that wait behind nothing."""

from headrace.model.integrity import Miscount
from headrace.stores.transitions.endings import free_twin
from headrace.stores.transitions.rows import Rows
from headrace.stores.transitions.step import Step


def miscounts(rows: Rows) -> list[Miscount]:
    """The counters that differ from what is there."""
    kept, counted = rows.kept(), rows.counted()
    return [Miscount(name, kept[name], counted[name]) for name in kept if kept[name] != counted[name]]


def recount(step: Step) -> list[Miscount]:
    """Set wrong counters right; says which."""
    wrong = miscounts(step.rows)
    if wrong:
        step.rows.recount({each.counter: each.counted for each in wrong})
        step.woke = True  # a counter that was too low may have hidden jobs that are due
    return wrong


def free(step: Step, id: str) -> None:
    """Let the twin of a job that is not active wait: on its own, or on top of the one that waits."""
    rows = step.rows
    twin, row = rows.twin(id), rows.job(id)
    if twin is None or row is None:
        free_twin(step, id)
        return
    rows.drop_twin(id)
    step.note(step.line_of("merged", step.wait(twin.applied(row.record))))
