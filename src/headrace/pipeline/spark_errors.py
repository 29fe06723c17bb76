"""Finds the error of ours inside an error of Spark, which wraps it into a page of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable

_SAID = re.compile(r"^headrace\.model\.errors\.(\w+): (.+)$", re.MULTILINE)
_KINDS: dict[str, type[HeadraceError]] = {kind.__name__: kind for kind in (BadConfig, OutcomeUnknown, StoreUnavailable)}


def headrace_error(error: Exception) -> HeadraceError | None:
    """The error of ours that an error of Spark tells of; None when it tells of none."""
    found = _SAID.search(str(error))
    if found is None:
        return None
    name, sentence = found.groups()
    if name == Refused.__name__:
        return Refused("refused", sentence)
    return _KINDS.get(name, HeadraceError)(sentence)


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Within this block, an error of Spark that tells of one of ours is raised as that: Spark's is a page around it."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        ours = headrace_error(error)
        if ours is None:
            raise
        raise ours from None
