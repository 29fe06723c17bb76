"""Finds a Headrace error inside an error of Spark, which wraps it in a page of traceback."""

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
    """The Headrace error that an error of Spark quotes, if any."""
    match = _RAISED.search(str(error))
    if match is None:
        return None
    name, sentence = match.groups()
    if name == Refused.__name__:
        return Refused("refused", sentence)
    return _KINDS.get(name, HeadraceError)(sentence)


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Within this block, an error of Spark that quotes a Headrace error is raised as that one."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        failure = headrace_error(error)
        if failure is None:
            raise
        raise failure from None
