"""Finds the error of ours inside an error of Spark, which wraps it into a page of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable

_RAISED = re.compile(r"^headrace\.(?:model\.errors|pipeline\.storage\.table)\.(\w+): (.+)$", re.MULTILINE)
"""The last line of a traceback."""
_KINDS: dict[str, type[HeadraceError]] = {kind.__name__: kind for kind in (BadConfig, OutcomeUnknown, StoreUnavailable)}
_KINDS["Conflict"] = BadConfig


def headrace_error(error: Exception) -> HeadraceError | None:
    """The error of ours that an error of Spark quotes; None when it quotes none."""
    match = _RAISED.search(str(error))
    if match is None:
        return None
    name, sentence = match.groups()
    if name == Refused.__name__:
        return Refused("refused", sentence)
    return _KINDS.get(name, HeadraceError)(sentence)


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Within this block, an error of Spark that quotes one of ours is raised as that: Spark's is a page around it."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        failure = headrace_error(error)
        if failure is None:
            raise
        raise failure from None
